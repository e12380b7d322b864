"""The example of a submission: right for all four problems, on the leaderboard's data and on full data."""

from __future__ import annotations

import pytest
import torch

from eval.cases import Case
from eval.supervisor import Limits, run_test
from reference.problems import PROBLEMS
from reference.problems.interface import KINDS
from scripts.release.lint import lint_bytes

EXAMPLE = "examples/submission.py"


@pytest.mark.parametrize("kind", KINDS)
@pytest.mark.parametrize("problem", PROBLEMS.values(), ids=lambda problem: problem.name)
def test_the_example_is_right(root, problem, kind):
    case = Case(problem.trials[-1], 7, "")
    result = run_test(root / EXAMPLE, case, torch.device("cpu"), Limits(answer_s=300.0), kind)
    assert result.passed, result.error


def test_the_example_keeps_the_leaderboards_rules(root):
    assert lint_bytes((root / EXAMPLE).read_bytes()) == []
