"""Each cheating or broken toy submission is caught, for its own reason; honest ones pass."""

from __future__ import annotations

import re
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path

import pytest
import torch

from eval.cases import parse_case
from eval.guards import fingerprint, output_problem
from eval.supervisor import Limits, run_benchmark, run_profile, run_test
from reference.reference import generate_input

TOYS = Path(__file__).resolve().parent / "toys"
CASE = parse_case("m: 256; n: 128; k: 512; l: 1; seed: 1111")
CPU = torch.device("cpu")
LIMITS = Limits(answer_s=60.0, timing_s=0.05, wall_s=0.05, inputs=3, singles=2)
IMPATIENT = Limits(answer_s=15.0, timing_s=0.05, wall_s=0.05, inputs=3, singles=0)

CAUGHT = {
    "cached_by_pointer": "wrong result",
    "written_late": "wrong result|changed after the call",
    "changed_late": "an output changed after the call had returned",
    "wrong_later": "wrong result",
    "modifies_inputs": "the submission modified its inputs",
    "patches_timer": r"the submission replaced time.perf_counter_ns",
    "patches_checker": r"the submission replaced .*check_implementation",
    "patches_guard": r"the submission replaced eval.worker.output_problem",
    "nan_output": r"wrong result .* got nan",
    "wrong_shape": r"the output has shape \(256, 128\); expected \(256, 128, 1\)",
    "wrong_dtype": "the output has dtype torch.float32; expected torch.float16",
    "lazy_output": "the output is a Lazy; expected a plain torch.Tensor",
    "shares_output": "shares memory with the output of an earlier call",
    "output_in_input": "the output shares memory with an input",
    "rounds_twice": "wrong result",
    "one_gemm": "wrong result",
    "moves_clock": "the submission replaced eval.worker.now_ns",
    "crashes": r"the worker ended by itself: signal SIGSEGV; it printed: about to crash",
    "exits": "the worker ended by itself: exit code 0",
    "hangs": "no answer within 15 s .*: the submission hangs",
    "raises": r"custom_kernel failed: ValueError: no such shape \(raises.py:\d+\)",
    "no_kernel": "has no function custom_kernel",
    "broken_import": "import failed: RuntimeError: nvcc failed",
}
PASSES = ("honest", "noisy")


@pytest.fixture(scope="module")
def results():
    """Every toy's benchmark, two at a time."""

    def run(toy):
        return run_benchmark(TOYS / f"{toy}.py", CASE, CPU, IMPATIENT if toy == "hangs" else LIMITS)

    toys = [*CAUGHT, *PASSES]
    with ThreadPoolExecutor(2) as pool:
        return dict(zip(toys, pool.map(run, toys), strict=True))


def test_every_toy_has_its_verdict_listed():
    assert {path.stem for path in TOYS.glob("*.py")} == {*CAUGHT, *PASSES}


@pytest.mark.parametrize(("toy", "reason"), CAUGHT.items())
def test_a_broken_submission_is_caught(results, toy, reason):
    assert not results[toy].passed

    assert re.search(reason, results[toy].error), results[toy].error


@pytest.mark.parametrize("toy", PASSES)
def test_an_honest_submission_passes(results, toy):
    result = results[toy]
    assert result.passed, result.error
    assert len(result.rounds_us) >= 3
    assert len(result.single_us) == LIMITS.singles
    assert min(result.rounds_us) > 0


def test_one_call_of_a_wrong_kernel_fails_the_test_mode():
    assert "wrong result" in run_test(TOYS / "one_gemm.py", CASE, CPU, LIMITS).error


def test_a_time_no_chip_can_reach_fails(monkeypatch):
    monkeypatch.setattr("eval.chip.impossible_us", lambda shape, chip_name, processors: 1e12)
    assert "which no " in run_benchmark(TOYS / "honest.py", CASE, CPU, LIMITS).error


def test_profile_reports_what_ran():
    result = run_profile(TOYS / "honest.py", CASE, CPU, LIMITS)
    assert result.passed, result.error
    assert "aten::mm" in result.report


def test_fingerprint_sees_any_byte_and_any_exchange():
    codes = generate_input(4, 4, 64, 2, 5, device="cpu")[0]
    before = fingerprint(codes)
    raw = codes.view(torch.uint8)
    assert fingerprint(codes) == before
    for index in ((0, 0, 0), (3, 31, 1), (2, 7, 0)):
        raw[index] ^= 1
        assert fingerprint(codes) != before
        raw[index] ^= 1
    words = torch.arange(16, dtype=torch.int64)
    swapped = words.clone()
    swapped[[3, 9]] = words[[9, 3]]
    assert fingerprint(words) != fingerprint(swapped)


def test_output_form_is_checked_beyond_shape_and_dtype():
    data = generate_input(8, 8, 64, 1, 5, device="cpu")
    c = data[-1]
    assert output_problem(c, data, []) is None
    assert "layout" in output_problem(torch.zeros(8, 8, 1).half().to_sparse(), data, [])
    assert "share memory" in output_problem(torch.zeros(1).half().expand(8, 8, 1), data, [])
    assert "expected a plain torch.Tensor" in output_problem([], data, [])
    assert "is on meta" in output_problem(torch.empty_like(c, device="meta"), data, [])
