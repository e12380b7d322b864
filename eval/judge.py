"""Checks an output against the leaderboard's tolerance, or against float64 with the rounding errors of fp32 sums.

Every judge takes the shape, the kernel's arguments, and the output: a tensor or a list of tensors.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import Any, NamedTuple

import torch

from eval.output.mismatch import Mismatch, mismatch
from reference.check import ATOL, USUAL_ROUNDINGS, Oracle, compare, compare_with_oracle
from reference.nvfp4 import E2M1_MAGNITUDES
from reference.problems.interface import BOARD, OTHER, Output, Shape, parts

Data = tuple[Any, ...]
SIGNLESS = 0x7  # the bits of a code but its sign


class Verdict(NamedTuple):
    """Whether an output is right, why not, and how far it is from the expected one."""

    ok: bool
    message: str
    found: Mismatch


def _verdict(ok: bool, message: str, found: Mismatch) -> Verdict:
    return Verdict(ok, message if ok else f"{message}; {found.text()}", found)


def _together(verdicts: Sequence[Verdict], shape: Shape) -> Verdict:
    """One verdict for all tensors of an output: the first wrong one, by name, else the one with the largest error."""
    for index, (ok, message, found) in enumerate(verdicts):
        if not ok:
            called = shape.output_name(index)
            return Verdict(ok, f"{called}: {message}" if called else message, found._replace(output=called))
    return max(verdicts, key=lambda verdict: verdict.found.worst)


def _as_board(got: torch.Tensor, want: torch.Tensor) -> Verdict:
    return _verdict(*compare(got, want), mismatch(got, want))


def _full(got: torch.Tensor, oracle: Oracle) -> Verdict:
    atol = ATOL + oracle.fp32_error.nan_to_num(0.0, 0.0, 0.0)
    return _verdict(*compare_with_oracle(got, oracle), mismatch(got, oracle.value.half(), atol=atol))


def _board_verdicts(shape: Shape, data: Data, output: Output) -> list[Verdict]:
    wants = parts(shape.problem.reference(data))
    return [_as_board(got, want) for got, want in zip(parts(output), wants, strict=True)]


def judge_as_board(shape: Shape, data: Data, output: Output) -> Verdict:
    """Judges the case's own inputs as the leaderboard does."""
    return _together(_board_verdicts(shape, data, output), shape)


def judge_fresh(shape: Shape, data: Data, output: Output) -> Verdict:
    """Judges fresh inputs as the leaderboard does, and accepts what float64 and the usual rounding of sums explain.

    Among thousands of fresh inputs, some sums cancel; reference.check says more.
    """
    verdicts = _board_verdicts(shape, data, output)
    if not all(verdict.ok for verdict in verdicts):
        oracles = parts(shape.problem.oracle(data, USUAL_ROUNDINGS))
        for index, (got, oracle) in enumerate(zip(parts(output), oracles, strict=True)):
            if not verdicts[index].ok and compare_with_oracle(got, oracle)[0]:
                verdicts[index] = Verdict(True, "", verdicts[index].found)
    return _together(verdicts, shape)


def judge_full(shape: Shape, data: Data, output: Output) -> Verdict:
    """Judges inputs of every code and scale factor against float64, allowing for the rounding of fp32 sums."""
    oracles = parts(shape.problem.oracle(data, None))
    return _together([_full(got, oracle) for got, oracle in zip(parts(output), oracles, strict=True)], shape)


Judge = Callable[[Shape, Data, Output], Verdict]


def judges_of(kind: str) -> tuple[Judge, Judge]:
    """The judges for a kind of inputs: for the case's own seeds, and for fresh seeds."""
    return (judge_as_board, judge_fresh) if kind == BOARD else (judge_full, judge_full)


def codes_never_seen(shape: Shape) -> list[float]:
    """The magnitudes of codes that the leaderboard's data for a shape never hold."""
    seen: set[int] = set()
    for block, tensor in zip(shape.inputs(), shape.generate(0, BOARD, torch.device("cpu")), strict=True):
        if block.role != OTHER:
            found = tensor.view(torch.uint8).unique().tolist()
            seen.update(code & SIGNLESS for byte in found for code in (byte, byte >> 4))
    return [value for code, value in enumerate(E2M1_MAGNITUDES) if code not in seen]
