"""The harness on a GPU: an honest submission passes, work the timer cannot see is caught. Skipped without one."""

from __future__ import annotations

import re
from pathlib import Path

import pytest
import torch

from eval.cases import parse_case
from eval.supervisor import Limits, run_benchmark, run_profile

SUBMISSIONS = Path(__file__).resolve().parents[1] / "adversarial"
CASE = parse_case("m: 256; n: 512; k: 1024; l: 1; seed: 1111")
LIMITS = Limits(timing_s=0.5, wall_s=5.0, inputs=8, singles=4)

pytestmark = pytest.mark.skipif(not torch.cuda.is_available(), reason="needs a CUDA device")


def benchmark(submission):
    return run_benchmark(SUBMISSIONS / f"{submission}.py", CASE, torch.device("cuda", 0), LIMITS)


def test_an_honest_submission_passes_and_is_timed():
    result = benchmark("honest/honest")
    assert result.passed, result.error
    assert result.inputs == LIMITS.inputs
    assert len(result.single_us) == LIMITS.singles
    assert 1 < min(result.rounds_us) < 1e5


@pytest.mark.parametrize(
    ("submission", "reason"),
    [
        ("cheating_cuda/other_queue", "wrong result|changed after the call|was busy for .* after the default queue"),
        ("cheating_cuda/changes_queue", "another queue the current one"),
        ("cheating_cuda/patches_events", "the submission replaced .*elapsed_time"),
        ("cheating_results/cached_by_pointer", "wrong result"),
        ("wrong/modifies_inputs", "the submission modified its inputs"),
        ("wrong/shares_output", "shares memory with the output of an earlier call"),
        ("cheating_results/wrong_later", "wrong result"),
    ],
)
def test_a_cheat_is_caught(submission, reason):
    result = benchmark(submission)
    assert not result.passed
    assert re.search(reason, result.error), result.error


def test_profile_shows_kernels():
    result = run_profile(SUBMISSIONS / "honest/honest.py", CASE, torch.device("cuda", 0), LIMITS)
    assert result.passed, result.error
    assert "CUDA" in result.report
