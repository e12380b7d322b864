"""Runs a case to its result: which rounds it makes and when it has enough."""

from __future__ import annotations

import math
import os
import time
from collections.abc import Callable
from dataclasses import dataclass, field, replace
from functools import partial
from pathlib import Path
from statistics import median
from typing import Any, NamedTuple

import torch

from eval import spans
from eval.cases import Case, case_seeds, fresh_seeds
from eval.hardware import capacity, chip
from eval.hardware.load import Load
from eval.judge import judges_of
from eval.lending.layout import Layout
from eval.output.origin import Library
from eval.output.text import clean
from eval.sandbox import State
from eval.session import Session, Timings, tolerance_us
from eval.spans import Spans
from eval.stats import summarise
from eval.workers.worker import Failure
from reference.problems.interface import BOARD, Shape

MIN_ROUNDS = 3
MIN_TIMED_S = 0.1
PATIENCE_S = 20.0  # more for a case on a busy machine whose rounds do not count
TARGET_RELATIVE_ERROR = 1e-3
# On a CPU the threads of the last call may delay the harness's clock by this much in a call.
SMALL_US = 250.0
# Of a round on a CPU. Calls of small inputs are short: more of them share what the round costs by itself.
MOST_INPUTS, FEW_INPUTS, SMALL_BYTES = 12, 3, 4 << 20
MOST_TOLERANCE = 0.5  # of a call's time, on a CPU, where null rounds may cost milliseconds a call even at rest
SPAN_CALLS = 5000  # at most, on a GPU
CHECKED_ADDS = 1 << 34  # of a test's fresh inputs; about two seconds on two cores. Of larger cases it checks some rows


@dataclass(frozen=True)
class Limits:
    """How much a case may take."""

    answer_s: float = 180.0  # for one request to the worker; a longer one counts as a hang
    timing_s: float = 10.0  # of timed calls
    wall_s: float = 120.0  # of timed rounds, making inputs and checking outputs included
    max_rounds: int = 200
    inputs: int = 50  # distinct inputs in a round, at most
    singles: int = 10  # calls timed on their own
    small_us: float = 0.0  # a difference between two clocks that a busy machine may cause in a call
    most_tolerance: float = math.inf  # of a call's time: a case with a larger tolerance is not measured
    span_calls: int = 0  # the calls of a span, at most; 0 makes none
    inputs_bytes: float = math.inf  # of a round's inputs and outputs, if FEW_INPUTS take no more


def limits_for(device: torch.device, mode: str) -> Limits:
    """The limits of a mode: the leaderboard's on a GPU; on a CPU, where calls take longer, fewer inputs, less time."""
    judged = mode == "leaderboard"
    if device.type == "cuda":
        limits = Limits(span_calls=SPAN_CALLS)
        return replace(limits, timing_s=30.0, max_rounds=1000) if judged else limits
    return Limits(
        timing_s=3.0,
        wall_s=20.0 if judged else 10.0,
        inputs=MOST_INPUTS,
        inputs_bytes=SMALL_BYTES,
        singles=0,
        small_us=SMALL_US,
        most_tolerance=MOST_TOLERANCE,
    )


def round_inputs(shape: Shape, device: torch.device, limits: Limits) -> int:
    """How many inputs a round has: as many as the problem's leaderboard uses, if the limits and memory allow."""
    few = int(max(FEW_INPUTS, min(limits.inputs, limits.inputs_bytes / Layout(shape).call_bytes)))
    return capacity.inputs_that_fit(shape, device, min(few, limits.inputs, shape.problem.inputs))


class NotMeasured(Failure):
    """The outputs were right, but the machine was too busy to time the calls."""


@dataclass
class Result:
    """The result of a case. Times are in us, one per round; `error` is empty if the case passed."""

    case: Case
    error: str = ""
    rounds_us: list[float] = field(default_factory=list)
    single_us: list[float] = field(default_factory=list)
    inputs: int = 0
    checked: int = 0  # outputs compared with the reference
    tolerance_us: float | None = None  # how far a claimed time of a call may lie below the parent's own
    doubted: int = 0  # timed rounds whose claim lay further below
    notes: list[str] = field(default_factory=list)  # what did not count
    span_us: float | None = None  # the parent's own time of a call in a span
    span_calls: int = 0
    clock_mhz: float | None = None
    report: str = ""
    printed: str = ""  # by the submission
    seconds: float | None = None  # of the whole case
    worst_error: float | None = None  # the largest error / tolerance of the outputs checked
    wrong: dict[str, Any] | None = None  # where the wrong elements lie
    data: str = BOARD  # which kind of inputs
    backend: str = ""  # as the submission reports it
    unmeasured: bool = False  # whether the error is only that the machine was too busy to time right outputs
    sandbox: State = field(default_factory=State)
    libraries: list[Library] = field(default_factory=list)  # other than the system's, Python's and torch's

    @property
    def passed(self) -> bool:
        """Whether the case ran and every output was right."""
        return not self.error

    @property
    def median_us(self) -> float:
        """The median round's mean time of a call."""
        return median(self.rounds_us)


def _steady(rounds_us: list[float], inputs: int) -> bool:
    """The leaderboard's stop rule: enough rounds, enough time, and a mean known to 0.1 %."""
    if len(rounds_us) < MIN_ROUNDS or sum(rounds_us) * inputs < MIN_TIMED_S * 1e6:
        return False
    figures = summarise(rounds_us)
    return figures.err < TARGET_RELATIVE_ERROR * figures.mean


def _done(result: Result, limits: Limits, wall_s: float, made: int) -> bool:
    """Whether there are enough rounds, or no time for more; `made` includes rounds that do not count."""
    rounds = len(result.rounds_us)
    timed_s = sum(result.rounds_us) * result.inputs / 1e6
    late = timed_s > limits.timing_s or wall_s > limits.wall_s or made >= limits.max_rounds
    return _steady(result.rounds_us, result.inputs) or (late and rounds >= MIN_ROUNDS)


# What ends a case: the submission, or no memory, no descriptors, a limit on files (torch raises RuntimeError).
FAILURES = (Failure, chip.Impossible, OSError, MemoryError, RuntimeError)


def failure_text(failure: Exception) -> str:
    """The error message of a case that one of FAILURES ended."""
    if isinstance(failure, (Failure, chip.Impossible)):
        return str(failure)
    return f"the harness could not run the case: {clean(str(failure))}"


def _judge(
    submission: Path, device: torch.device, limits: Limits, result: Result, make: Callable[[Session], None],
    how: Spans | None = None,
) -> Result:  # fmt: skip
    """Starts a worker for the result's case and calls `make` with it. A Failure becomes the result's error."""
    session, how = None, how or Spans(result.inputs)
    try:
        session = Session(submission, result.case, device, how.inputs, limits.answer_s, result.data, how.calls)
        with session:
            make(session)
    except FAILURES as failure:
        result.error, result.unmeasured = failure_text(failure), isinstance(failure, NotMeasured)
    if session is not None:
        take_over(result, session)
    return result


def take_over(result: Result, session: Session) -> None:
    """Copies everything but times from a session that has ended; a surviving process fails the case."""
    if session.left and (result.unmeasured or not result.error):
        result.error, result.unmeasured = session.left, False
    result.printed, result.checked = session.printed, session.checked
    result.sandbox, result.backend, result.libraries = session.sandbox, session.backend, session.libraries
    result.worst_error, result.wrong = session.worst_error, session.wrong


def run_test(
    submission: Path, case: Case, device: torch.device, limits: Limits, data: str = BOARD, profile: bool = False
) -> Result:
    """A call on the case's own inputs, checked, and one on fresh inputs, since a case file's seeds are no secret.

    Of a large case, a random choice of rows is checked on fresh inputs. With `profile`, the second call is profiled.
    """
    result = Result(case, inputs=1, data=data)
    own, fresh = judges_of(data)

    def make(session: Session) -> None:
        session.load()
        session.round(case_seeds(case.seed, 1), own, "check")
        if profile:
            result.report = session.profile(fresh_seeds(1)[0], fresh)
        else:
            session.round(fresh_seeds(1), fresh, "fresh inputs", most_adds=CHECKED_ADDS)

    return _judge(submission, device, limits, result, make)


run_profile = partial(run_test, profile=True)


def _time_rounds(session: Session, result: Result, limits: Limits, timings: Timings, floor: chip.Limit) -> None:
    """Rounds over fresh inputs until the mean is steady or time is up."""
    begin = time.monotonic()
    clock = chip.Clock(session.device)
    fresh = judges_of(result.data)[1]
    limits = replace(limits, max_rounds=min(limits.max_rounds, result.case.problem.rounds))
    load = Load()
    load.begin(session.pid, os.getpid())

    def busy() -> bool:
        return session.device.type == "cpu" and load.busy

    def delayed(wall_s: float) -> bool:
        """Whether the machine is so busy that the claims cannot be judged yet."""
        load.end()
        load.begin(session.pid, os.getpid())
        return bool(timings.too_few()) and busy() and wall_s < limits.wall_s + PATIENCE_S

    while (
        not timings.count
        or not _done(result, limits, (wall_s := time.monotonic() - begin), timings.count)
        or delayed(wall_s)
    ):
        made, _ = session.round(fresh_seeds(result.inputs), fresh, "time_round", after=clock.note)
        floor.hold(made.claimed_us / result.inputs)
        timings.add(made)
        result.rounds_us, result.doubted = timings.rounds_us(), timings.doubted
        result.clock_mhz = clock.median_mhz()
    load.end()
    measured_us, result.rounds_us = result.rounds_us, []
    coarse = timings.too_coarse(limits.most_tolerance)
    if not coarse and not busy() and (said := timings.lie()):
        raise Failure(said)
    if said := coarse or timings.too_few():
        raise NotMeasured(said)
    result.rounds_us = measured_us
    result.notes += filter(None, [timings.note()])


def _time_spans(session: Session, result: Result, how: Spans) -> None:
    """Holds the times to spans, if spans bound them better than rounds do."""
    fresh = judges_of(result.data)[1]
    held = spans.made(session, how, result.median_us, result.tolerance_us or 0.0, fresh)
    if held is None:
        return
    result.span_us, result.tolerance_us, result.span_calls = held
    if times_us := held.times_us(result.rounds_us):
        result.doubted, result.rounds_us = len(result.rounds_us), times_us
        result.notes.append(
            f"the times are the harness's, of spans of {held.calls} calls: by the worker's clock the rounds were more "
            f"than {100 * spans.SLOWER:.0f} % faster"
        )


class Tolerance(NamedTuple):
    """How far a claim may lie below the harness's time, in us: of a round of a case, of a single call; and spans."""

    round_us: float
    single_us: float
    inputs: int  # of the round
    spans: Spans


def measure_tolerance(case: Case, device: torch.device, limits: Limits) -> Tolerance:
    """Measures the tolerance in a worker that loads nothing. Call it before any submission runs. Raises Failure."""
    inputs = round_inputs(case.shape, device, limits)
    how = spans.that_fit(case.shape, device, inputs, limits.span_calls)
    with Session(Path(), case, device, how.inputs, limits.answer_s, span_calls=how.calls) as session:
        round_us = tolerance_us(session.null_overheads_us(inputs))
        single_us = tolerance_us(session.null_overheads_us(1)) if limits.singles else 0.0
        return Tolerance(round_us, single_us, inputs, spans.measured(how, session) if how.calls else how)


def run_benchmark(
    submission: Path, case: Case, device: torch.device, limits: Limits, data: str = BOARD,
    tolerance: Tolerance | None = None,
) -> Result:  # fmt: skip
    """A checked pass over every input, then timed rounds over fresh ones until the mean is steady or time is up."""
    result = Result(case, inputs=round_inputs(case.shape, device, limits), data=data)
    floor = chip.Limit(case.shape, device)
    own, fresh = judges_of(data)
    try:
        measured = tolerance or measure_tolerance(case, device, limits)
    except FAILURES as failure:
        result.error = failure_text(failure)
        return result
    result.inputs = measured.inputs

    def make(session: Session) -> None:
        timings = Timings(result.inputs, measured.round_us, limits.small_us)
        singles = Timings(1, measured.single_us)
        result.tolerance_us = timings.tolerance_us
        session.load()
        session.round(case_seeds(case.seed, result.inputs), own, "check")
        _time_rounds(session, result, limits, timings, floor)
        _time_spans(session, result, measured.spans)
        for _ in range(min(limits.singles, result.inputs)):
            made, _ = session.round(fresh_seeds(1), fresh, "time_single")
            floor.hold(made.claimed_us)
            result.single_us.append(singles.add(made))

    return _judge(submission, device, limits, result, make, measured.spans)
