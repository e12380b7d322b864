"""Spans: so many calls in one stretch of the parent's clock that its own cost is small beside them.

A span bounds what the rounds' claims may be; the times reported stay those of the rounds.
"""

from __future__ import annotations

import math
from statistics import median
from typing import NamedTuple

import torch

from eval.cases import fresh_seeds
from eval.hardware import capacity
from eval.lending.layout import Layout
from eval.session import Check, Session
from eval.session import tolerance_us as tolerance_of
from reference.problems.interface import Shape

SPANS = 3  # of a case; the shortest counts
INPUTS = 71  # at most, also where the board's rounds have one: 71 * 71 pairs make 5,000 calls
MOST_TOLERANCE = 0.02  # of a call's time: a span has so many calls that its tolerance is smaller
# A GPU takes about a thousand launches ahead, two a call. Longer spans of shorter calls would time the host instead.
CALLS_AHEAD, LONG_CALL_US = 500, 10.0
# A chip's clock may be lower in a span, which is longer than a round, by this much.
SLOWER = 0.1


class Spans(NamedTuple):
    """How spans of a case are made: over how many inputs, of how many calls at most, and their tolerance in us."""

    inputs: int = 0
    calls: int = 0  # 0: none are made
    tolerance_us: float = 0.0


def that_fit(shape: Shape, device: torch.device, inputs: int, calls: int) -> Spans:
    """Spans of up to `calls` pairs of inputs, with outputs in a quarter of the free memory, beside `inputs` or more."""
    if not calls:
        return Spans(inputs)
    inputs = max(inputs, capacity.inputs_that_fit(shape, device, INPUTS))
    outputs = capacity.available_bytes(device) * capacity.MEMORY_SHARE / 2 / max(1, Layout(shape).output_bytes)
    return Spans(inputs, max(inputs, min(calls, inputs * inputs, int(outputs))))


def measured(spans: Spans, session: Session) -> Spans:
    """The spans with their tolerance, measured in a session that has loaded nothing."""
    return spans._replace(tolerance_us=tolerance_of(session.null_overheads_us(spans.calls, "span")))


class Held(NamedTuple):
    """The shortest span's time of a call, its tolerance and calls; and the least time that it supports."""

    us: float
    tolerance_us: float
    calls: int

    def times_us(self, rounds_us: list[float]) -> list[float] | None:
        """The parent's times in place of those that lie too far below, or None if the claims stand."""
        least = self.us - self.tolerance_us
        return [max(us, least) for us in rounds_us] if median(rounds_us) < (1 - SLOWER) * least else None


def calls_of(spans: Spans, least_us: float, call_us: float) -> int:
    """How many calls of `call_us` take `least_us`: at least one for each input, and no more than a span may have."""
    most = spans.calls if call_us >= LONG_CALL_US else min(spans.calls, CALLS_AHEAD)
    return min(most, max(spans.inputs, math.ceil(least_us / call_us)))


def made(session: Session, spans: Spans, claimed_us: float, tolerance_us: float, check: Check) -> Held | None:
    """Makes spans for calls that claim to take `claimed_us`; None if their tolerance is no less than the given one."""
    calls = calls_of(spans, spans.tolerance_us / MOST_TOLERANCE, claimed_us)
    if calls < 1 or spans.tolerance_us / calls >= tolerance_us:
        return None
    shortest = min(session.span(fresh_seeds(spans.inputs), calls, check) for _ in range(SPANS))
    return Held(shortest / calls, spans.tolerance_us / calls, calls)
