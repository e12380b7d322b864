"""Compares an output with a reference: by the leaderboard's tolerance, or with float64 and a bound on fp32 rounding."""

from __future__ import annotations

from typing import NamedTuple

import torch

RTOL = ATOL = 1e-3
MISMATCHES_SHOWN = 5
# Rounding error that check_with_rounding() grants an fp32 sum, in units of 2^-23 of its sum of magnitudes.
USUAL_ROUNDINGS = 1.0
FP16_MAX = 65504.0
# The smallest magnitude that rounds to infinity: halfway from the largest fp16 value to the next power of two.
FP16_OVERFLOW = 65520.0


class Oracle(NamedTuple):
    """The result in float64, (M, N, L), and a bound on the error that fp32 sums cause in a right kernel."""

    value: torch.Tensor
    fp32_error: torch.Tensor


def form_problem(got: object, want: torch.Tensor) -> str:
    """A message that names a wrong type, shape, dtype or device of the output; "" if all are right."""
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
    """True if every element of `right` is; and a message with the first wrong elements, or ""."""
    if right.all():
        return True, ""
    wrong = (~right).nonzero()
    shown = "; ".join(
        f"at {tuple(index)} got {got[tuple(index)].item():g}, expected {want[tuple(index)].item():g}"
        for index in wrong[:MISMATCHES_SHOWN].tolist()
    )
    return False, f"{len(wrong)} of {want.numel()} elements differ: {shown}"


def compare(got: torch.Tensor, want: torch.Tensor, rtol: float = RTOL, atol: float = ATOL) -> tuple[bool, str]:
    """True if |got - want| <= atol + rtol * |want| everywhere, with NaNs and infinities in the same places.

    The message is "" if so; else it counts the mismatches and lists the first ones.
    """
    reason = form_problem(got, want)
    if reason:
        return False, reason
    x, y = got.double(), want.double()
    close = (x - y).abs() <= atol + rtol * y.abs()
    # inf - inf is NaN, so infinities are compared as values.
    special = ~(x.isfinite() & y.isfinite())
    right = torch.where(special, (x == y) | (x.isnan() & y.isnan()), close)
    return _verdict(right, got, want)


def _upper_end(bound: torch.Tensor) -> torch.Tensor:
    """The upper end of the interval of right fp16 outputs, for exact values of at most `bound`.

    From 65520 on it is infinity, because such values overflow.  Between -65520 and -65504 it is -65504, to which they
    round.  Any other bound stays as it is: 65510 stays 65510, and 65504 is the largest fp16 value below it.
    """
    bound = bound.masked_fill(bound >= FP16_OVERFLOW, torch.inf)
    return torch.where((bound < -FP16_MAX) & (bound > -FP16_OVERFLOW), -FP16_MAX, bound)


def compare_with_oracle(got: torch.Tensor, oracle: Oracle) -> tuple[bool, str]:
    """True if |got - value| <= the leaderboard's tolerance + fp32_error everywhere; NaN where the value is NaN.

    `got` must have the right shape and dtype: form_problem() returns "".  The message is as in compare().
    """
    want, error = oracle
    slack = ATOL + RTOL * want.abs() + error
    value = got.double()
    lowest, highest = -_upper_end(slack - want), _upper_end(want + slack)
    right = (lowest <= value) & (value <= highest) | (value.isnan() & want.isnan())
    return _verdict(right, value, want)
