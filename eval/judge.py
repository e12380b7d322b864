"""Whether an output is right: against the leaderboard's tolerance, and where rounding explains what is beyond it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from eval.output.mismatch import Mismatch, mismatch
from reference.reference import ATOL, USUAL_ROUNDINGS, check_against_oracle, compare, oracle_with_error, ref_kernel


class Verdict(NamedTuple):
    """Whether an output is right, why not, and how far it is from what was wanted."""

    ok: bool
    message: str
    found: Mismatch


def _told(ok: bool, message: str, found: Mismatch) -> Verdict:
    return Verdict(ok, message if ok else f"{message}; {found.text()}", found)


def judge_as_board(data: Sequence[torch.Tensor], output: torch.Tensor) -> Verdict:
    """As the leaderboard judges: the case's own inputs."""
    want = ref_kernel(data)
    return _told(*compare(output, want), mismatch(output, want))


def judge_fresh(data: Sequence[torch.Tensor], output: torch.Tensor) -> Verdict:
    """As the leaderboard, but what float64 and the usual rounding of sums explain is right (check_with_rounding says
    why): of thousands of fresh inputs some cancel."""
    want = ref_kernel(data)
    ok, message = compare(output, want)
    if not ok and check_against_oracle(data, output, USUAL_ROUNDINGS)[0]:
        ok, message = True, ""
    return _told(ok, message, mismatch(output, want))


def judge_full(data: Sequence[torch.Tensor], output: torch.Tensor) -> Verdict:
    """For inputs of every code and scale factor: against float64, with what sums in fp32 may lose."""
    ok, message = check_against_oracle(data, output)
    want, error = oracle_with_error(data)
    return _told(ok, message, mismatch(output, want.half(), atol=ATOL + error.nan_to_num(0.0, 0.0, 0.0)))
