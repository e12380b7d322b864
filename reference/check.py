"""Whether an output is right: by the leaderboard's tolerance, or against float64 with what fp32 sums may lose."""

from __future__ import annotations

from typing import NamedTuple

import torch

RTOL = ATOL = 1e-3
MISMATCHES_SHOWN = 5
# What an fp32 sum may lose, in 2^-23 of its sum of magnitudes, before check_with_rounding calls it wrong.
USUAL_ROUNDINGS = 1.0
FP16_MAX = 65504.0
# Halfway between the largest fp16 value and the next power of two: what rounds to infinity.
FP16_OVERFLOW = 65520.0


class Oracle(NamedTuple):
    """The result in float64, (M, N, L), and how far fp32 sums may lead a right kernel from it."""

    value: torch.Tensor
    fp32_error: torch.Tensor


def kind_differs(got: object, want: torch.Tensor) -> str:
    """How the output's type, shape, dtype or device differs from those wanted; empty if it does not."""
    if not isinstance(got, torch.Tensor):
        return f"the output is a {type(got).__name__}; expected a torch.Tensor"
    if got.shape != want.shape:
        return f"the output has shape {tuple(got.shape)}; expected {tuple(want.shape)}"
    if got.dtype != want.dtype:
        return f"the output has dtype {got.dtype}; expected {want.dtype}"
    if got.device != want.device:
        return f"the output is on {got.device}; expected {want.device}"
    return ""


def _verdict(right: torch.Tensor, got: torch.Tensor, want: torch.Tensor) -> tuple[bool, str]:
    if right.all():
        return True, ""
    wrong = (~right).nonzero()
    shown = "; ".join(
        f"at {tuple(index)} got {got[tuple(index)].item():g}, expected {want[tuple(index)].item():g}"
        for index in wrong[:MISMATCHES_SHOWN].tolist()
    )
    return False, f"{len(wrong)} of {want.numel()} elements differ: {shown}"


def compare(got: torch.Tensor, want: torch.Tensor, rtol: float = RTOL, atol: float = ATOL) -> tuple[bool, str]:
    """Whether got is want within |got - want| <= atol + rtol * |want|, NaNs and infinities in the same places.

    The message is empty if so, else it counts the mismatches and lists the first ones.
    """
    reason = kind_differs(got, want)
    if reason:
        return False, reason
    x, y = got.double(), want.double()
    close = (x - y).abs() <= atol + rtol * y.abs()
    # The difference of equal infinities is NaN, of unequal ones infinite.
    special = ~(x.isfinite() & y.isfinite())
    right = torch.where(special, (x == y) | (x.isnan() & y.isnan()), close)
    return _verdict(right, got, want)


def _rounded_up(bound: torch.Tensor) -> torch.Tensor:
    """The upper bound of fp16 values that stand for numbers up to bound; infinity where those overflow."""
    bound = bound.masked_fill(bound >= FP16_OVERFLOW, torch.inf)
    # Below the most negative value but not yet overflowing: rounded up to that value.
    return torch.where((bound < -FP16_MAX) & (bound > -FP16_OVERFLOW), -FP16_MAX, bound)


def compare_with_oracle(got: torch.Tensor, oracle: Oracle) -> tuple[bool, str]:
    """Whether got, of the right kind, is the oracle's result within the leaderboard's tolerance and the oracle's error.

    The message is as compare's.
    """
    want, error = oracle
    slack = ATOL + RTOL * want.abs() + error
    value = got.double()
    # What fp16 makes of an interval: ends past the overflow reach infinity, others at most the largest value.
    below, above = -_rounded_up(slack - want), _rounded_up(want + slack)
    right = (below <= value) & (value <= above) | (value.isnan() & want.isnan())
    return _verdict(right, value, want)
