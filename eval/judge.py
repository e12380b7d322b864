"""Whether an output is right: against the leaderboard's tolerance, and where rounding explains what is beyond it.

Every judge takes the sizes, what the kernel was given, and the output: a tensor, or the list of them.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from functools import partial
from typing import Any, NamedTuple

import torch

from eval.output.mismatch import Mismatch, mismatch
from reference.check import ATOL, USUAL_ROUNDINGS, Oracle, compare, compare_with_oracle
from reference.problems.interface import BOARD, Output, Shape, parts

Data = tuple[Any, ...]


class Verdict(NamedTuple):
    """Whether an output is right, why not, and how far it is from what was wanted."""

    ok: bool
    message: str
    found: Mismatch


def _told(ok: bool, message: str, found: Mismatch) -> Verdict:
    return Verdict(ok, message if ok else f"{message}; {found.text()}", found)


def _together(verdicts: Sequence[Verdict], shape: Shape) -> Verdict:
    """The verdict on all tensors of an output: the first one that is wrong, by its name, else the one furthest off."""
    for index, (ok, message, found) in enumerate(verdicts):
        if not ok:
            called = shape.output_name(index)
            return Verdict(ok, f"{called}: {message}" if called else message, found._replace(output=called))
    return max(verdicts, key=lambda verdict: verdict.found.worst)


def _as_board(got: torch.Tensor, want: torch.Tensor) -> Verdict:
    return _told(*compare(got, want), mismatch(got, want))


def _full(got: torch.Tensor, oracle: Oracle) -> Verdict:
    atol = ATOL + oracle.fp32_error.nan_to_num(0.0, 0.0, 0.0)
    return _told(*compare_with_oracle(got, oracle), mismatch(got, oracle.value.half(), atol=atol))


def _board_verdicts(shape: Shape, data: Data, output: Output) -> list[Verdict]:
    wants = parts(shape.problem.reference(data))
    return [_as_board(got, want) for got, want in zip(parts(output), wants, strict=True)]


def judge_as_board(shape: Shape, data: Data, output: Output) -> Verdict:
    """As the leaderboard judges: the case's own inputs."""
    return _together(_board_verdicts(shape, data, output), shape)


def judge_fresh(shape: Shape, data: Data, output: Output) -> Verdict:
    """As the leaderboard, but what float64 and the usual rounding of sums explain is right (check_with_rounding says
    why): of thousands of fresh inputs some cancel."""
    verdicts = _board_verdicts(shape, data, output)
    if not all(verdict.ok for verdict in verdicts):
        oracles = parts(shape.problem.oracle(data, USUAL_ROUNDINGS))
        for index, (got, oracle) in enumerate(zip(parts(output), oracles, strict=True)):
            if not verdicts[index].ok and compare_with_oracle(got, oracle)[0]:
                verdicts[index] = Verdict(True, "", verdicts[index].found)
    return _together(verdicts, shape)


def judge_full(shape: Shape, data: Data, output: Output) -> Verdict:
    """For inputs of every code and scale factor: against float64, with what sums in fp32 may lose."""
    oracles = parts(shape.problem.oracle(data, None))
    return _together([_full(got, oracle) for got, oracle in zip(parts(output), oracles, strict=True)], shape)


Judge = Callable[[Data, Output], Verdict]


def judges_of(kind: str, shape: Shape) -> tuple[Judge, Judge]:
    """What judges outputs on a kind of inputs: those of the case's own seeds, and those of fresh ones."""
    own, fresh = (judge_as_board, judge_fresh) if kind == BOARD else (judge_full, judge_full)
    return partial(own, shape), partial(fresh, shape)
