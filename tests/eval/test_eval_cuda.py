"""The harness on a GPU: an honest submission passes with its own time, cheats are caught. Skipped without one.

    python -m pytest -q -rA tests/eval/test_eval_cuda.py

prints what was measured as well: overheads of null rounds, claims and the parent's own times.
"""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from eval import spans
from eval.cases import fresh_seeds, parse_case, read_cases
from eval.hardware import chip
from eval.judge import judges_of
from eval.lending.canaries import Canaries
from eval.lending.cuda_runtime import Runtime
from eval.lending.layout import Layout
from eval.session import Session, tolerance_us
from eval.supervisor import (
    Limits,
    limits_for,
    run_benchmark,
    run_profile,
    run_test,
)
from reference.problems.dual_gemm import DualGemm
from reference.reference import generate_input

SUBMISSIONS = Path(__file__).resolve().parents[1] / "adversarial"
CASE = parse_case("m: 256; n: 512; k: 1024; l: 1; seed: 1111")
LIMITS = Limits(timing_s=0.5, wall_s=5.0, inputs=8, singles=4)
ROOT = SUBMISSIONS.parents[1]
OWN = ROOT / "submission" / "submission.py"
BOARD_CASES = read_cases(ROOT / "reference" / "problems" / "dual_gemm" / "benchmark.txt")

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def gpu():
    return torch.device("cuda", 0)


def told(result):
    """Everything a result holds that helps to see what went wrong."""
    return (
        f"error {result.error!r}; rounds {[round(us, 1) for us in result.rounds_us]} us; singles "
        f"{[round(us, 1) for us in result.single_us]} us; tolerance {result.tolerance_us} us a call; doubted "
        f"{result.doubted}; checked {result.checked}; printed {result.printed[-2000:]!r}"
    )


def benchmark(submission, case=CASE, limits=LIMITS):
    result = run_benchmark(SUBMISSIONS / f"{submission}.py", case, gpu(), limits)
    print(submission, told(result))
    return result


def test_an_honest_submission_passes_and_is_timed():
    result = benchmark("honest/honest")
    assert result.passed, told(result)
    assert result.inputs == LIMITS.inputs
    assert len(result.single_us) == LIMITS.singles
    assert 1 < min(result.rounds_us) < 1e5
    assert result.doubted * 2 <= len(result.rounds_us), told(result)


def test_a_list_of_groups_is_timed_and_each_group_is_held_to():
    case = parse_case("m: [96, 0, 250]; n: [256, 64, 512]; k: [512, 64, 1024]; g: 3; seed: 1111")
    result = benchmark("../../examples/submission", case)
    assert result.passed and result.doubted * 2 <= len(result.rounds_us), told(result)
    assert "group 2 of 3" in benchmark("grouped/forgets_a_group", case).error
    assert "modified its inputs" in benchmark("grouped/modifies_scales", case).error


def test_a_test_passes():
    result = run_test(SUBMISSIONS / "honest/honest.py", CASE, gpu(), LIMITS)
    assert result.passed, told(result)


CAUGHT = [
    ("cheating_cuda/other_queue", "wrong result|changed after the call|was busy for .* after the default queue"),
    ("cheating_cuda/changes_queue", "another queue the current one|wrong result"),
    ("cheating_cuda/patches_events", "the submission replaced .*elapsed_time"),
    ("cheating_cuda/shaves_events", "the worker's clock shows .* ms for calls that took"),
    ("cheating_cuda/starts_late", "the worker's clock shows .* ms for calls that took|which no .* can beat"),
    ("cheating_cuda/computes_in_the_gap", "wrong result"),
    ("cheating_cuda/computes_when_hooked", "wrong result"),
    ("cheating_cuda/converts_weights_in_the_gap", "wrong result"),
    ("cheating_clock/turns_clock_back", "garbled.*a time of -1 us"),
    ("cheating_clock/moves_clock", "the submission replaced Core.round"),
    ("cheating_results/cached_by_pointer", "wrong result"),
    ("wrong/modifies_inputs", "the submission modified its inputs"),
    ("wrong/shares_output", "shares memory with the output of an earlier call"),
    ("cheating_results/wrong_later", "wrong result"),
    ("cheating_results/zeroes_one_of_three", "wrong result"),
    ("cheating_harness/done_too_early", "garbled.*'done' instead of '(ok|ready)'"),
    ("cheating_harness/computes_on_return", "wrong result .* got 0"),
    ("cheating_harness/reads_ahead", "wrong result"),
]


@pytest.mark.parametrize(("submission", "reason"), CAUGHT, ids=[name for name, _ in CAUGHT])
def test_a_cheat_is_caught(submission, reason):
    result = benchmark(submission)
    assert not result.passed, told(result)
    assert re.search(reason, result.error), told(result)


def test_every_cheat_of_cuda_has_its_verdict():
    named = {name for name, _ in CAUGHT if name.startswith("cheating_cuda/")}
    assert named == {f"cheating_cuda/{path.stem}" for path in (SUBMISSIONS / "cheating_cuda").glob("*.py")}


def test_profile_shows_kernels():
    result = run_profile(SUBMISSIONS / "honest/honest.py", CASE, gpu(), LIMITS)
    assert result.passed, told(result)
    assert "CUDA" in result.report


@pytest.mark.parametrize("count", [1, 50])
def test_what_null_rounds_cost_and_how_well_claims_are_borne_out(count):
    case = parse_case("m: 256; n: 4096; k: 7168; l: 1; seed: 1111")
    check, fresh = judges_of("board")
    with Session(SUBMISSIONS / "honest/honest.py", case, gpu(), count, 120) as session:
        null = session.null_overheads_us(count)
        session.load()
        session.round([1111] * count, check, "check")
        rounds = [session.round(list(range(count)), fresh, "round")[0] for _ in range(5)]
    print(f"{count} calls: null rounds cost {[round(us, 1) for us in null]} us, tolerance {tolerance_us(null):.1f} us")
    for made in rounds:
        print(
            f"  claimed {made.claimed_us:.1f}, parent {made.span_us:.1f}, beside {made.span_us - made.claimed_us:.1f}"
        )
    assert all(made.claimed_us < made.span_us for made in rounds)
    assert sum(made.stands(tolerance_us(null)) for made in rounds) >= 3


@pytest.mark.parametrize("case", BOARD_CASES, ids=lambda case: case.shape.text())
def test_spans_bound_what_the_boards_cases_may_claim(case):
    limits = limits_for(gpu(), "benchmark")
    result = run_benchmark(OWN, case, gpu(), limits)
    assert result.passed, told(result)
    print(
        f"{case.shape.text()}: median {result.median_us:.2f} us, span {result.span_us:.2f} us of {result.span_calls} "
        f"calls, tolerance {result.tolerance_us:.3f} us = {100 * result.tolerance_us / result.median_us:.2f} %, "
        f"doubted {result.doubted} of {len(result.rounds_us)}"
    )
    # A busy machine leaves rounds out, but neither raises the others' times nor lets a span replace them.
    assert len(result.rounds_us) >= 3 and abs(result.median_us / result.span_us - 1) < spans.SLOWER, told(result)
    assert result.tolerance_us <= 1.01 * spans.MOST_TOLERANCE * result.median_us, told(result)


def test_how_a_calls_time_depends_on_the_spans_length():
    case = BOARD_CASES[0]
    most = spans.that_fit(case.shape, gpu(), 50, limits_for(gpu(), "benchmark").span_calls).calls
    fresh = judges_of("board")[1]
    with Session(OWN, case, gpu(), 50, 120, span_calls=most) as session:
        for calls in (50, 500, most):
            null = session.null_overheads_us(calls, "span")
            print(f"{calls} calls: null spans {[round(us) for us in null]} us, tolerance {tolerance_us(null):.0f} us")
        session.load()
        rounds = [session.round(fresh_seeds(50), fresh, "round")[0].claimed_us / 50 for _ in range(5)]
        print(f"rounds of 50: claimed {[round(us, 2) for us in rounds]} us")
        for calls in (50, 250, 500, 1000, 2000, most):
            each = [session.span(fresh_seeds(50), calls, fresh) / calls for _ in range(3)]
            print(f"spans of {calls}: {[round(us, 2) for us in each]} us a call")


def test_a_claim_that_rounds_would_support_is_held_to_spans(tmp_path):
    path = tmp_path / "hides.py"
    path.write_text(
        f"import sys\nsys.path.insert(0, {str(ROOT)!r})\nfrom submission.submission import custom_kernel\n"
        "from tests.adversarial.reach import found\ncore = found('Worker')._borrower._core\nreal = core.round\n"
        "core.round = lambda *given: (timed := real(*given))._replace(total_us=timed.total_us * 0.75)\n"
    )
    case, limits = BOARD_CASES[0], limits_for(gpu(), "benchmark")
    honest, hiding = (run_benchmark(each, case, gpu(), limits) for each in (OWN, path))
    print(f"honest {honest.median_us:.2f} us; hiding a quarter: {told(hiding)}")
    assert honest.median_us > 0 and not hiding.rounds_us, told(hiding)
    assert re.search(r"not measured: in (\d+) of \1 rounds the worker's clock", hiding.error)


def test_a_canary_spoils_every_element_of_the_output():
    shape = DualGemm(256, 512, 7168, 1)
    layout = Layout(shape)
    memory = torch.empty(layout.input_bytes, dtype=torch.uint8, device=gpu())
    inputs = layout.input(memory, 0)
    data = generate_input(*shape, 5, device=gpu())
    for place, tensor in zip(inputs, data, strict=False):
        place.view(torch.uint8).copy_(tensor.view(torch.uint8))
    whole = memory.clone()
    canaries = Canaries(layout, memory, 1)
    changed = (memory != whole).sum().item()
    print(f"{changed} of {memory.numel()} bytes differ")
    assert 0 < changed < 0.01 * memory.numel()
    canaries.complete(memory)
    assert torch.equal(memory, whole)


def test_the_floor_of_this_chip_is_below_its_speed_of_light():
    found = chip.attributes(gpu())
    runtime = Runtime()
    print(found, {number: runtime.attribute(number, 0) for number in (13, 16, 36, 37, 38, 75, 76)})
    shape = DualGemm(256, 4096, 7168, 1)
    floor, light = chip.impossible_us(shape, found), chip.speed_of_light(shape, found.name)
    print(f"floor {floor:.2f} us, speed of light {light}")
    assert floor > 0
    if light is not None:
        assert 0.5 * light.us < floor <= light.us
