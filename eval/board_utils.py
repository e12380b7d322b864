"""The leaderboard's utils.py, and the names of its reference.py: files that lie beside a submission there."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import torch

import reference as package
from reference import check
from reference.device import default_device
from reference.problems.interface import BOARD, Problem, blank, parts

RTOL, ATOL = 1e-5, 1e-8


def verbose_allclose(
    received: torch.Tensor, expected: torch.Tensor, rtol: float = RTOL, atol: float = ATOL, max_print: int = 5
) -> tuple[bool, list[str]]:
    """Whether two tensors agree within a tolerance, with NaNs and infinities in the same places; and why not."""
    ok, message = check.compare(received.to(expected.dtype), expected, rtol, atol)
    return ok, [message] if message else []


def verbose_allequal(received: torch.Tensor, expected: torch.Tensor, max_print: int = 5) -> tuple[bool, list[str]]:
    """Whether two tensors are equal, and why not."""
    return verbose_allclose(received, expected, 0.0, 0.0)


def match_reference(
    data: Any, output: Any, reference: Callable[[Any], Any], rtol: float = RTOL, atol: float = ATOL
) -> tuple[bool, str]:
    """Whether an output agrees with what a reference makes of the data, and why not."""
    for received, expected in zip(parts(output), parts(reference(data)), strict=True):
        ok, said = verbose_allclose(received, expected, rtol, atol)
        if not ok:
            return ok, said[0]
    return True, ""


def make_match_reference(reference: Callable[[Any], Any], **tolerances: float) -> Callable[[Any, Any], Any]:
    """A function of data and output that compares the output with a reference's."""
    return lambda data, output: match_reference(data, output, reference, **tolerances)


def offer_reference(problem: Problem) -> None:
    """Gives the package `reference` the names of the leaderboard's reference.py for a problem."""

    def generate_input(*values: Any, **named: Any) -> tuple[Any, ...]:
        given = dict(zip(problem.keys, values, strict=False)) | named
        shape, device = problem.shape(given), default_device()
        return shape.data(shape.generate(given["seed"], BOARD, device), blank(shape, device))

    package.ref_kernel, package.generate_input = problem.reference, generate_input
    package.check_implementation = make_match_reference(problem.reference, rtol=check.RTOL, atol=check.ATOL)
