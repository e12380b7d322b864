"""Compares two submissions: pairs of processes, one after the other, and the ratio of their times."""

from __future__ import annotations

import os
import random
import threading
import time
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

import torch

from eval import spans
from eval.cases import Case, case_seeds, fresh_seeds
from eval.hardware import capacity, chip
from eval.judge import judges_of
from eval.lending.layout import Layout
from eval.sandbox.processes import ran_and_waited
from eval.session import Session, Timings
from eval.spans import Spans
from eval.stats import Ratio, paired_interval, verdict
from eval.supervisor import (
    FAILURES,
    Limits,
    Result,
    Tolerance,
    failure_text,
    measure_tolerance,
    round_inputs,
    take_over,
)
from eval.workers.worker import Failure
from reference.problems.interface import BOARD

MIN_PAIRS = 8  # fewer give no useful interval
MOST_PAIRS = 20
ROUNDS = 3  # of each process; they only show whether its clock lies
# Each process is timed in so many spans by the harness's clock, on a GPU of this length.
SPANS, SPAN_US = 3, 100e3
# A CPU's span has a new input for each call, so that nothing can be decoded once for several: as many as are made and
# checked in a fraction of a second, in bytes of inputs and outputs.
INPUTS, INPUTS_BYTES = 48, 32 << 20
# A wider interval that holds 1 decides nothing on a busy machine. On a GPU processes hardly differ by themselves, so
# that the machine must be; on a CPU threads that wait for a processor show it.
WIDEST, MOST_WAITING = 0.1, 0.1
WRITE_OUT_S = 2.0


@dataclass
class Comparison:
    """Both results of a case; `ratio` is the submission's time over the baseline's, if both passed.

    The results have one time for each process: processes differ more than the rounds of one.
    """

    own: Result
    baseline: Result
    ratio: Ratio | None = None
    busy: bool = False  # whether others' work may have hidden a difference


def words(ratio: Ratio, busy: bool) -> str:
    """What a ratio says of the submission."""
    return verdict(ratio, undecided=busy and ratio.high - ratio.low > WIDEST)


def _write_out() -> None:
    """Waits a short time until files are on the disk: the kernel would write them while the other one is timed."""
    writer = threading.Thread(target=os.sync, daemon=True)
    writer.start()
    writer.join(WRITE_OUT_S)


def _spans(case: Case, device: torch.device, given: Tolerance) -> Spans:
    """The spans of a process: on a GPU those of a benchmark."""
    if given.spans.calls:
        return given.spans
    layout = Layout(case.shape)
    inputs = min(INPUTS, INPUTS_BYTES // (layout.input_bytes + layout.output_bytes))
    inputs = max(given.inputs, capacity.inputs_that_fit(case.shape, device, max(1, inputs)))
    return Spans(inputs, inputs)


class _Side:
    """One of the two submissions: its result and all of its rounds."""

    def __init__(self, path: Path, result: Result, device: torch.device, limits: Limits, tolerance: Tolerance) -> None:
        self._path, self.result, self._device, self._limits = path, result, device, limits
        result.inputs = tolerance.inputs
        self._floor = chip.Limit(result.case.shape, device)
        self._timings = Timings(result.inputs, tolerance.round_us, limits.small_us)
        self._spans = _spans(result.case, device, tolerance)
        self.ran_ns = self.waited_ns = 0  # while it was timed

    def time_process(self) -> None:
        """Runs the submission in a process of its own, which ends before this returns, and keeps its median time.

        Raises Failure or chip.Impossible.
        """
        result, how = self.result, self._spans
        own, fresh = judges_of(result.data, result.case.shape)
        session = Session(
            self._path, result.case, self._device, how.inputs, self._limits.answer_s, result.data, how.calls
        )
        checked = result.checked
        try:
            with session:
                session.load()
                session.round(case_seeds(result.case.seed, result.inputs), own, "check")
                for _ in range(ROUNDS):
                    made, _ = session.round(fresh_seeds(result.inputs), fresh, "time_round")
                    self._floor.hold(made.claimed_us / result.inputs)
                    self._timings.add(made)
                calls = spans.calls_of(how, SPAN_US, made.span_us / result.inputs)
                before = ran_and_waited(session.pid)
                times_us = [session.span(fresh_seeds(how.inputs), calls, fresh) / calls for _ in range(SPANS)]
                after = ran_and_waited(session.pid)
                self.ran_ns, self.waited_ns = self.ran_ns + after[0] - before[0], self.waited_ns + after[1] - before[1]
        finally:
            take_over(result, session)
            result.checked += checked
        if session.left:
            raise Failure(session.left)
        _write_out()
        result.rounds_us.append(median(times_us))

    def end(self) -> None:
        """Raises Failure if the submission's clock lies, although the times are the harness's own."""
        if said := self._timings.lie():
            raise Failure(said)


def run_comparison(
    submission: Path, baseline: Path, case: Case, device: torch.device, limits: Limits, data: str = BOARD,
    tolerance: Tolerance | None = None, told: Callable[[str], object] = bool,
) -> Comparison:  # fmt: skip
    """Checks and times both submissions in pairs of processes, in random order, on inputs that neither has seen.

    Only one of them runs at a time, and nothing of it is left when the other one starts. Calls `told` with the number
    of pairs done.
    """
    inputs = round_inputs(case.shape, device, limits)
    compared = Comparison(Result(case, inputs=inputs, data=data), Result(case, inputs=inputs, data=data))
    result, begin, pairs = compared.own, time.monotonic(), 0
    try:
        measured = tolerance or measure_tolerance(case, device, limits)
        sides = [
            _Side(path, result, device, limits, measured)
            for path, result in ((submission, compared.own), (baseline, compared.baseline))
        ]
        # Never until the ratio pleases: it would leave 1 by chance more often than its interval says.
        while pairs < MIN_PAIRS or (pairs < MOST_PAIRS and time.monotonic() - begin < limits.wall_s):
            for side in random.SystemRandom().sample(sides, 2):
                result = side.result
                side.time_process()
            pairs += 1
            told(f"{pairs} pairs of {MIN_PAIRS} to {MOST_PAIRS} done")
        for side in sides:
            result = side.result
            side.end()
    except FAILURES as failure:
        result.error = failure_text(failure)
        return compared
    ran, waited = (sum(getattr(side, name) for side in sides) for name in ("ran_ns", "waited_ns"))
    compared.busy = device.type == "cuda" or not ran or waited > MOST_WAITING * (ran + waited)
    compared.ratio = paired_interval([(compared.own.rounds_us, compared.baseline.rounds_us)])
    return compared
