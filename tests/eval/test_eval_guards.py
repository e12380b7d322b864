"""Each cheating or broken submission is caught, for its own reason; honest ones pass."""

from __future__ import annotations

import builtins
import re
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from pathlib import Path

import pytest
import torch

import eval.timing
import eval.workers.guards
import eval.workers.worker
from eval import supervisor
from eval.cases import parse_case
from eval.hardware import capacity
from eval.supervisor import SMALL_US, Limits, measure_tolerance, run_benchmark, run_profile, run_test
from eval.workers.guards import FunctionWatch, extent, output_problem
from reference.problems.dual_gemm import DualGemm
from reference.reference import generate_input

ADVERSARIAL = Path(__file__).resolve().parents[1] / "adversarial"
# Judged by test_eval_cuda.py, test_group_problem.py, test_product_problems.py and test_reaching.py.
ELSEWHERE = ("cheating_cuda", "grouped", "odd", "product", "reaching")
SUBMISSIONS = {path.stem: path for path in ADVERSARIAL.glob("*/*.py") if path.parent.name not in ELSEWHERE}
CASE = parse_case("m: 256; n: 128; k: 512; l: 1; seed: 1111")
CPU = torch.device("cpu")
LIMITS = Limits(answer_s=300.0, timing_s=0.05, wall_s=0.05, inputs=3, singles=2, small_us=SMALL_US)
IMPATIENT = replace(LIMITS, answer_s=3.0, singles=0)

CAUGHT = {
    "cached_by_pointer": "wrong result",
    "written_late": "wrong result|changed after the call",
    "changed_late": "an output changed after the call had returned",
    "wrong_later": "wrong result",
    "modifies_inputs": "the submission modified its inputs",
    "patches_timer": r"the submission replaced time.perf_counter_ns",
    "patches_checker": r"the submission replaced .*check_implementation|wrong result",
    "patches_guard": r"the submission replaced eval.workers.worker.output_problem",
    "nan_output": r"wrong result .* got nan",
    "wrong_shape": r"the output has shape \(256, 128\); expected \(256, 128, 1\)",
    "wrong_dtype": "the output has dtype torch.float32; expected torch.float16",
    "in_a_list": "the output is a list; expected a plain torch.Tensor",
    "lazy_output": "the output is a Lazy; expected a plain torch.Tensor",
    "shares_output": "shares memory with the output of an earlier call",
    "output_in_input": "the output shares memory with an input",
    "rounds_twice": "wrong result",
    "one_gemm": "wrong result",
    "moves_clock": "the submission replaced Core.round",
    "turns_clock_back": r"the worker's answer is garbled.*\(a time of -1 us\)",
    "shaves_time": r"the worker's clock shows .* ms for calls that took .* ms \(tolerance .* ms\)",
    "patches_native_clock": r"the worker's clock shows .* ms for calls that took .* ms|which no .* can beat",
    "floods_descriptors": r"wrong result .* got nan|ended by itself|garbled",
    "replaces_torch": "the submission replaced torch.allclose",
    "poisons_answers": "wrong result .* got (0|nan)",
    "speaks_for_worker": r"the worker's clock shows .* ms for calls that took .* ms",
    "done_too_early": "garbled.*'done' instead of '(ok|ready)'",
    "computes_on_return": r"wrong result .* got 0",
    "reads_ahead": "wrong result",
    "foresees_inputs": "wrong result",
    "draws_public_seed": r"wrong result \(check, input 2 of 3",
    "zeroes_one_of_three": r"wrong result \(time_round, .* got 0",
    "searches_answers": "wrong result",
    "right_when_looked_at": "wrong result",
    # What it writes reaches the outputs as well as the line: which is seen first depends on the machine's load.
    "writes_everywhere": "the worker's answer is garbled|an output changed after the call",
    "crashes": r"the worker ended by itself: signal SIGSEGV; it printed: about to crash",
    "exits": "the worker ended by itself: exit code 0",
    "hangs": "no answer within 3 s .*: the submission hangs",
    "raises": r"custom_kernel failed: ValueError: no such shape \(raises.py:\d+\)",
    "no_kernel": "has no function custom_kernel",
    "broken_import": "import failed: RuntimeError: nvcc failed",
}
PASSES = ("honest", "noisy", "remembers_contents")
# What is right and has no time, since it claims too little.
CORRECTED = ("hides_some",)


@pytest.fixture(scope="module")
def results():
    """Every submission's benchmark, two at a time."""
    tolerance = measure_tolerance(CASE, CPU, LIMITS)

    def run(name):
        limits = IMPATIENT if name == "hangs" else LIMITS
        return run_benchmark(SUBMISSIONS[name], CASE, CPU, limits, tolerance=tolerance)

    names = [*CAUGHT, *PASSES, *CORRECTED]
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(names, pool.map(run, names), strict=True))


def test_every_submission_has_its_verdict_listed():
    assert {*SUBMISSIONS} == {*CAUGHT, *PASSES, *CORRECTED}


@pytest.mark.parametrize(("name", "reason"), CAUGHT.items())
def test_a_broken_submission_is_caught(results, name, reason):
    assert not results[name].passed

    assert re.search(reason, results[name].error), results[name].error


@pytest.mark.parametrize("name", PASSES)
def test_an_honest_submission_passes(results, name):
    result = results[name]
    assert result.passed, result.error
    assert len(result.rounds_us) >= 3
    assert len(result.single_us) == LIMITS.singles
    assert min(result.rounds_us) > 0


def test_a_time_that_is_too_short_by_a_little_is_not_believed(results):
    result = results["hides_some"]
    assert result.unmeasured and result.rounds_us == [] and result.doubted >= 3, result
    assert "rounds the worker's clock shows less than the harness's" in result.error


def test_one_call_of_a_wrong_kernel_fails_the_test_mode():
    assert "wrong result" in run_test(SUBMISSIONS["one_gemm"], CASE, CPU, LIMITS).error


def test_answers_for_the_public_seeds_fail_the_test_mode():
    result = run_test(SUBMISSIONS["draws_public_seed"], CASE, CPU, LIMITS)
    assert result.checked == 1 and "wrong result (fresh inputs" in result.error, result


def test_answers_for_the_public_seeds_fail_on_large_shapes_too(monkeypatch):
    """Of these, some rows are checked on fresh inputs."""
    monkeypatch.setattr(supervisor, "CHECKED_ADDS", 1 << 20)
    result = run_test(SUBMISSIONS["draws_public_seed"], CASE, CPU, LIMITS)
    assert result.checked == 1 and re.search("fresh inputs, .*, rows chosen at random", result.error), result
    assert run_test(SUBMISSIONS["honest"], CASE, CPU, LIMITS).passed


def test_a_time_no_chip_can_reach_fails(monkeypatch):
    monkeypatch.setattr("eval.hardware.chip.impossible_us", lambda shape, what: 1e12)
    assert "which no " in run_benchmark(SUBMISSIONS["honest"], CASE, CPU, LIMITS).error


def test_profile_reports_what_ran():
    result = run_profile(SUBMISSIONS["noisy"], CASE, CPU, LIMITS)
    assert result.passed, result.error
    assert "aten::mm" in result.report
    assert set(result.printed.splitlines()) == {"check: pass"}, result.printed  # nothing of the profiler's own


def test_output_form_is_checked_beyond_shape_and_dtype():
    c = generate_input(8, 8, 64, 1, 5, device="cpu")[-1].fill_(1)
    assert output_problem(c, c, [], []) is None
    assert output_problem(torch.ones(8, 8, 1).half(), c, [], []) is None
    for wrong, text in (
        (torch.zeros(8, 8, 1).half().to_sparse(), "layout"),
        (torch.zeros(1).half().expand(8, 8, 1), r"strides \(0, 0, 1\); expected \(8, 1, 64\)"),
        (torch.ones(8, 8, 1).half().transpose(0, 1), r"strides \(1, 8, 1\); expected \(8, 1, 64\)"),
        (torch._neg_view(c), "lazy view"),
        (torch.empty_like(c, device="meta"), "is on meta"),
        ([], "is a list; expected a plain torch.Tensor"),
        (None, "is a NoneType"),
    ):
        assert re.search(text, output_problem(wrong, c, [], [])), wrong


def test_overlap_is_judged_by_elements_and_not_by_storage():
    pool = torch.zeros(3, 8, 8, dtype=torch.float16)
    first, second, third = (pool[i].unsqueeze(-1) for i in range(3))
    between = pool.flatten()[8:72].view(8, 8, 1)
    assert output_problem(second, second, [extent(first)], [extent(third)]) is None
    assert "with an input" in output_problem(between, first, [extent(first)], [])
    assert "with the output of an earlier call" in output_problem(between, first, [], [extent(second)])


def test_inputs_are_as_many_as_memory_holds(monkeypatch):
    shape = DualGemm(256, 4096, 7168, 1)  # some 41 MB of inputs and output, twice
    monkeypatch.setattr("eval.hardware.capacity.available_bytes", lambda device: 2 * 10 * 85 * 10**6)
    assert capacity.inputs_that_fit(shape, CPU, 50) == 10
    assert capacity.inputs_that_fit(shape, CPU, 3) == 3
    monkeypatch.setattr("eval.hardware.capacity.available_bytes", lambda device: 0)
    assert capacity.inputs_that_fit(shape, CPU, 3) == 1


def test_exchanged_code_of_a_harness_function_is_seen():
    watch = FunctionWatch()
    assert watch.replaced() is None
    code = eval.lending.layout.extent.__code__
    try:
        eval.lending.layout.extent.__code__ = (lambda tensor: (0, 0)).__code__
        assert watch.replaced() == "eval.lending.layout.extent"
    finally:
        eval.lending.layout.extent.__code__ = code
    assert watch.replaced() is None


@pytest.mark.parametrize(
    ("owner", "name"),
    [(eval.timing.Core, "round"), (eval.workers.worker, "SETTLE_S"), (torch.Tensor, "copy_"), (builtins, "len")],
)
def test_replaced_methods_constants_and_builtins_are_seen(monkeypatch, owner, name):
    watch = FunctionWatch()
    with monkeypatch.context() as patch:
        patch.setattr(owner, name, lambda *_: 0)
        replaced = watch.replaced()
    assert replaced.endswith(name)
    assert watch.replaced() is None
