"""Compares two submissions: pairs of processes, one after the other, and the ratio of their times."""

from __future__ import annotations

import contextlib
import math
import os
import random
import threading
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import torch

from eval import spans
from eval.cases import Case, case_seeds, fresh_seeds
from eval.hardware import capacity, chip
from eval.hardware.load import MOST_WAITING, Load
from eval.judge import judges_of
from eval.lending.layout import Layout
from eval.session import Session
from eval.spans import Spans
from eval.stats import DEFAULT_BOUNDS, TOO_BUSY, Bounds, Ratio, paired_interval, verdict
from eval.supervisor import FAILURES, Limits, Result, failure_text, round_inputs, take_over
from eval.workers.worker import Failure
from reference.problems.interface import BOARD, Shape

# Each process is timed in so many spans by the harness's clock, of this length and with so many outputs checked.
SPANS, SPAN_US, SPAN_CHECKED = 3, 100e3, 8
WARM_UP_CALLS = 3
SMALL_ADDS = 1 << 28  # multiply-adds that a thread does in a fraction of a second
# A CPU's span has a new input for each call, so that nothing can be decoded once for several: as many as are made and
# checked in a fraction of a second, in bytes of inputs and outputs.
INPUTS, INPUTS_BYTES = 48, 32 << 20
# A wider interval that holds 1 decides nothing on a busy machine. On a GPU processes hardly differ by themselves, so
# that the machine must be; on a CPU threads that wait for a processor show it.
WIDEST = 0.1
WRITE_OUT_S = 0.3  # enough for a compiler's cache; a busy disk takes seconds for what others write


@dataclass
class Comparison:
    """Both results of a case; `ratio` is the submission's time over the baseline's, if both passed in enough pairs.

    The results have one time for each process: processes differ more than the rounds of one.
    """

    own: Result
    baseline: Result
    ratio: Ratio | None = None
    busy: bool = False  # whether others' work may have hidden a difference
    favoured: bool = False  # whether it slowed the baseline alone, which proves no submission faster

    @property
    def passed(self) -> bool:
        """Whether both sides passed."""
        return self.own.passed and self.baseline.passed

    @property
    def verdict(self) -> str:
        """What the ratio says of the submission."""
        return words(self.ratio, self.busy, self.favoured)


def words(ratio: Ratio | None, busy: bool, favoured: bool = False) -> str:
    """What a ratio says of the submission."""
    if ratio is None:
        return "too few pairs to decide"
    if favoured and ratio.high < 1:
        return TOO_BUSY
    return verdict(ratio, undecided=busy and ratio.high - ratio.low > WIDEST)


def _favour(compared: Comparison, own: float, baseline: float) -> None:
    """Doubts that the submission is faster if the baseline's threads waited for a processor for more of their time.

    A submission may wait until others' work pauses while no clock runs.
    """
    if compared.ratio is None or compared.ratio.high >= 1 or baseline - own <= MOST_WAITING:
        return
    compared.favoured = True
    compared.own.notes.append(
        f"the baseline's threads waited for a processor for {100 * baseline:.0f} % of their time, the submission's for "
        f"{100 * own:.0f} %"
    )


@contextlib.contextmanager
def _few_threads(shape: Shape) -> Iterator[None]:
    """Makes and checks small inputs in one thread: on a busy machine a second one may have to wait for a processor."""
    before = torch.get_num_threads()
    torch.set_num_threads(1 if shape.work().multiply_adds < SMALL_ADDS else before)
    try:
        yield
    finally:
        torch.set_num_threads(before)


def _write_out() -> None:
    """Waits a short time until files are on the disk: the kernel would write them while the other one is timed."""
    writer = threading.Thread(target=os.sync, daemon=True)
    writer.start()
    writer.join(WRITE_OUT_S)


def _spans(shape: Shape, device: torch.device, limits: Limits) -> Spans:
    """The spans of a process: on a GPU those of a benchmark."""
    inputs = round_inputs(shape, device, limits)
    if limits.span_calls:
        return spans.that_fit(shape, device, inputs, limits.span_calls)
    most = min(INPUTS, INPUTS_BYTES // Layout(shape).call_bytes)
    return Spans(max(inputs, capacity.inputs_that_fit(shape, device, max(1, most))))


class _Side:
    """One of the two submissions: its result, with one time for each process."""

    def __init__(self, path: Path, result: Result, device: torch.device, limits: Limits) -> None:
        self._path, self.result, self._device, self._limits = path, result, device, limits
        self._floor = chip.Limit(result.case.shape, device)
        self._spans = _spans(result.case.shape, device, limits)
        self._call_us = 0.0  # in an earlier process
        self.load = Load()

    def _calls(self) -> int:
        """How many calls a span has."""
        if self._spans.calls:
            return spans.calls_of(self._spans, SPAN_US, self._call_us)
        return min(self._spans.inputs, max(WARM_UP_CALLS, math.ceil(SPAN_US / self._call_us)))

    def time_process(self) -> None:
        """Runs the submission in a process of its own, which ends before this returns, and keeps its median time.

        Raises Failure or chip.Impossible.
        """
        result, how = self.result, self._spans
        own, fresh = judges_of(result.data)
        session = Session(
            self._path, result.case, self._device, how.inputs, self._limits.answer_s, result.data, how.calls
        )
        checked = result.checked

        def span(calls: int) -> float:
            seeds = fresh_seeds(min(how.inputs, calls))
            return session.span(seeds, calls, fresh, SPAN_CHECKED) / calls

        try:
            with session, _few_threads(result.case.shape):
                session.load()
                first = not self._call_us
                session.round(case_seeds(result.case.seed, result.inputs if first else WARM_UP_CALLS), own, "check")
                self._call_us = self._call_us or span(how.inputs if how.calls else WARM_UP_CALLS)
                session.waits = self.load
                times_us = [span(self._calls()) for _ in range(SPANS)]
                self._floor.hold(min(times_us))
        finally:
            take_over(result, session)
            result.checked += checked
        if session.left:
            raise Failure(session.left)
        _write_out()
        self._call_us = median(times_us)
        result.rounds_us.append(self._call_us)


def run_comparison(
    submission: Path, baseline: Path, case: Case, device: torch.device, limits: Limits, data: str = BOARD,
    bounds: Bounds = DEFAULT_BOUNDS, told: Callable[[str], object] = bool,
) -> Comparison:  # fmt: skip
    """Checks and times both submissions in pairs of processes, on inputs that neither has seen; a coin decides who is
    first.

    Only one of them runs at a time, and nothing of it is left when the other one starts. Calls `told` after each pair
    with how far the case is.
    """
    inputs = round_inputs(case.shape, device, limits)
    compared = Comparison(Result(case, inputs=inputs, data=data), Result(case, inputs=inputs, data=data))
    result, pairs, took_s = compared.own, 0, 0.0
    begin = time.monotonic()
    try:
        sides = [
            _Side(path, result, device, limits)
            for path, result in ((submission, compared.own), (baseline, compared.baseline))
        ]
        while bounds.go_on(pairs, took_s):
            for side in random.SystemRandom().sample(sides, 2):
                result = side.result
                side.time_process()
            pairs, took_s = pairs + 1, time.monotonic() - begin
            told(bounds.estimate(pairs, took_s))
    except FAILURES as failure:
        result.error = failure_text(failure)
        return compared
    compared.busy = device.type == "cuda" or any(side.load.busy for side in sides)
    compared.ratio = paired_interval([(compared.own.rounds_us, compared.baseline.rounds_us)])
    if device.type == "cpu":
        _favour(compared, *(side.load.waiting for side in sides))
    return compared
