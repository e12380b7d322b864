"""How far an output is from the expected one, and where the wrong elements are."""

from __future__ import annotations

import math
from typing import Any, NamedTuple

import torch

from reference.check import ATOL, RTOL


class Span(NamedTuple):
    """Which rows or columns hold wrong elements: the first, the last, their count, and the count of all."""

    first: int
    last: int
    count: int
    of: int

    def text(self, what: str) -> str:
        """The span in words."""
        if self.count == self.of:
            return f"all {self.of} {what}s"
        if self.count == 1:
            return f"{what} {self.first}"
        if self.count == self.last - self.first + 1:
            return f"{what}s {self.first} to {self.last}"
        return f"{self.count} of {self.of} {what}s between {self.first} and {self.last}"


class Mismatch(NamedTuple):
    """An output compared with the expected one."""

    worst: float  # the largest error / tolerance: at most 1 is right; infinite where a NaN or infinity is wrong
    at: tuple[int, ...]  # its place: row, column, batch
    wrong: int
    rows: Span | None
    columns: Span | None
    nans: int  # where a number is expected
    infinities: int
    output: str = ""  # its name, if there are several

    def text(self) -> str:
        """Where the wrong elements are; empty if there are none."""
        if self.rows is None or self.columns is None:
            return ""
        worst = f"the worst is {self.worst:.3g} times the tolerance off" if math.isfinite(self.worst) else "the worst"
        said = f"in {self.rows.text('row')}, {self.columns.text('column')}; {worst}, at {self.at}"
        for count, what in ((self.nans, "NaN"), (self.infinities, "infinite")):
            if count:
                said += f"; {count} are {what}"
        return said

    def record(self) -> dict[str, Any] | None:
        """The JSON record; None if nothing is wrong."""
        if self.rows is None or self.columns is None:
            return None
        return {
            **({"output": self.output} if self.output else {}),
            "elements": self.wrong,
            "rows": self.rows._asdict(),
            "columns": self.columns._asdict(),
            "worst_at": list(self.at),
            "nan": self.nans,
            "infinite": self.infinities,
        }


def _span(wrong: torch.Tensor) -> Span:
    places = wrong.nonzero().flatten().tolist()
    return Span(places[0], places[-1], len(places), wrong.numel())


def mismatch(got: torch.Tensor, want: torch.Tensor, rtol: float = RTOL, atol: float | torch.Tensor = ATOL) -> Mismatch:
    """Compares `got` (M, N, L) with `want` of the same shape: |got - want| / (atol + rtol * |want|) is at most 1.

    NaNs and infinities are right only where `want` has them.
    """
    x, y = got.detach().double(), want.detach().double()
    ratio = (x - y).abs() / (atol + rtol * y.abs())
    special = ~(x.isfinite() & y.isfinite())
    same = (x == y) | (x.isnan() & y.isnan())
    if not ratio.numel():
        return Mismatch(0.0, (), 0, None, None, 0, 0)
    ratio = torch.where(special, torch.where(same, 0.0, torch.inf), ratio)
    wrong = ratio > 1
    flat = int(ratio.argmax())
    at = tuple(int(i) for i in torch.unravel_index(torch.tensor(flat), ratio.shape))
    found = bool(wrong.any())
    return Mismatch(
        worst=float(ratio.flatten()[flat]),
        at=at,
        wrong=int(wrong.sum()),
        rows=_span(wrong.any(dim=2).any(dim=1)) if found else None,
        columns=_span(wrong.any(dim=2).any(dim=0)) if found else None,
        nans=int((x.isnan() & ~y.isnan()).sum()),
        infinities=int((x.isinf() & wrong).sum()),
    )
