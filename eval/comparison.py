"""Compares two submissions: timed rounds in turns on one machine, and the ratio of their times."""

from __future__ import annotations

import contextlib
import time
from dataclasses import dataclass
from pathlib import Path

import torch

from eval.cases import Case
from eval.hardware import chip
from eval.judge import judges_of
from eval.session import Session, Timings, tolerance_us
from eval.stats import Ratio, ratio_interval
from eval.supervisor import Limits, Result, case_seeds, fresh_seeds, inputs_that_fit, take_over
from eval.workers.worker import Failure
from reference.problems.interface import BOARD

MIN_PAIRS = 10  # fewer give no useful interval
MOST_PAIRS = 60


@dataclass
class Comparison:
    """Both results of a case; `ratio` is the submission's time over the baseline's, if both passed."""

    own: Result
    baseline: Result
    ratio: Ratio | None = None


class _Side:
    """One of the two submissions: its worker and its times."""

    def __init__(self, submission: Path, result: Result, device: torch.device, limits: Limits) -> None:
        self.result, self._small_us = result, limits.small_us
        self._judges = judges_of(result.data, result.case.shape)
        self._floor = chip.Limit(result.case.shape, device)
        self.session = Session(submission, result.case, device, result.inputs, limits.answer_s, result.data)

    def begin(self) -> None:
        """Measures what a round costs apart from its calls, then loads and checks the submission."""
        tolerance = tolerance_us(self.session.null_overheads_us(self.result.inputs))
        self._timings = Timings(self.result.inputs, tolerance, self._small_us)
        self.session.load()
        self.session.round(case_seeds(self.result.case.seed, self.result.inputs), self._judges[0], "check")

    def round(self) -> None:
        """One timed round."""
        made, _ = self.session.round(fresh_seeds(self.result.inputs), self._judges[1], "time_round")
        self._floor.hold(made.claimed_us / self.result.inputs)
        # Every round counts, so that pairs stay pairs; where the claim does not stand, by the parent's clock.
        self.result.rounds_us.append(self._timings.add(made))
        self.result.doubted = self._timings.doubted

    def end(self) -> None:
        """Raises Failure if the times were a lie."""
        if said := self._timings.lie():
            raise Failure(said)


@contextlib.contextmanager
def _blamed_on(result: Result):  # noqa: ANN202
    """Records an error in the block as that side's."""
    try:
        yield
    except (Failure, chip.Impossible, OSError) as failure:
        result.error = str(failure)
        raise


def _take_turns(sides: list[_Side], limits: Limits) -> None:
    """Makes pairs of rounds until time is up, reversing the order with each pair."""
    begin, pairs = time.monotonic(), 0
    while pairs < MIN_PAIRS or (pairs < MOST_PAIRS and time.monotonic() - begin < limits.wall_s):
        for side in sides if pairs % 2 == 0 else sides[::-1]:
            with _blamed_on(side.result):
                side.round()
        pairs += 1
    for side in sides:
        with _blamed_on(side.result):
            side.end()


def run_comparison(
    submission: Path, baseline: Path, case: Case, device: torch.device, limits: Limits, data: str = BOARD
) -> Comparison:
    """Checks both submissions, then times them in turns on inputs that neither has seen."""
    inputs = max(1, inputs_that_fit(case.shape, device, 2 * limits.inputs) // 2)
    compared = Comparison(Result(case, inputs=inputs, data=data), Result(case, inputs=inputs, data=data))
    sides: list[_Side] = []
    with contextlib.suppress(Failure, chip.Impossible, OSError), contextlib.ExitStack() as stack:
        for path, result in ((submission, compared.own), (baseline, compared.baseline)):
            with _blamed_on(result):
                side = _Side(path, result, device, limits)
                sides.append(side)
                stack.enter_context(side.session)
                side.begin()
        _take_turns(sides, limits)
        compared.ratio = ratio_interval(compared.own.rounds_us, compared.baseline.rounds_us)
    for side in sides:
        take_over(side.result, side.session)
        if side.result.error:
            compared.ratio = None
    return compared
