"""The parent's side of a case: starts the worker, bounds its time, and checks the outputs it returns.

Inputs and reference results are made here from the seed, apart from the process the submission runs in.
"""

from __future__ import annotations

import contextlib
import json
import multiprocessing
import os
import secrets
import signal
import tempfile
import threading
import time
from collections.abc import Sequence
from dataclasses import dataclass, field
from multiprocessing.connection import wait
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Any

import torch

from eval import chip
from eval.cases import Case
from eval.output.origin import Library
from eval.protocol import hidden_from_children
from eval.stats import summarise
from eval.worker import Failure, Setup
from eval.worker import main as worker_main
from reference.reference import check_implementation, check_with_rounding, generate_input

SEED_STEP = 42  # between the inputs of a case, as on the leaderboard
SEED_LIMIT = 1 << 63  # what torch takes
MIN_ROUNDS = 3
MIN_TIMED_S = 0.1
TARGET_RELATIVE_ERROR = 1e-3
LOG_LINES_SHOWN = 5
MESSAGE_BYTES = 1 << 20
GARBLED = "the worker's answer is garbled: something else wrote to its pipe"
EXIT_S = 2.0  # for a worker that was told to end
# What may lie between the worker's time and the parent's: keeping outputs, messages, a busy machine.
CLOCK_SLACK_S = 0.1
CLOCK_SLACK = 0.25
MEMORY_SHARE = 0.5  # of what is free, for inputs and outputs


@dataclass(frozen=True)
class Limits:
    """How much a case may take."""

    answer_s: float = 180.0  # for one request to the worker: longer is taken for a hang
    timing_s: float = 10.0  # of rounds
    wall_s: float = 120.0  # of rounds with all that belongs to them
    max_rounds: int = 200
    inputs: int = 50  # distinct ones in a round, if memory allows
    singles: int = 10  # calls timed on their own
    checked: int | None = None  # outputs of a timed round that are checked, drawn after it; None: all


def limits_for(device: torch.device, mode: str) -> Limits:
    """The leaderboard's limits on a GPU; on a CPU, where a call takes a thousand times longer, smaller ones."""
    judged = mode == "leaderboard"
    if device.type == "cuda":
        if judged:
            return Limits(timing_s=30.0, max_rounds=1000)
        return Limits(checked=5)
    return Limits(timing_s=3.0, wall_s=20.0 if judged else 10.0, inputs=3, singles=0, checked=None if judged else 1)


def inputs_that_fit(shape: tuple[int, int, int, int], device: torch.device, wanted: int) -> int:
    """How many inputs, with their staged copies and kept outputs, fit in half of the free memory; 1 to `wanted`."""
    m, n, k, batches = shape
    _, traffic = chip.work(shape)
    scales = (m + 2 * n) * (k // 16) * batches  # they come in two layouts
    each = 2 * (traffic + scales)
    return max(1, min(wanted, int(chip.free_memory(device) * MEMORY_SHARE / each)))


@dataclass
class Result:
    """What a case came to. Times in us, one a round; `error` is empty if it passed."""

    case: Case
    error: str = ""
    rounds_us: list[float] = field(default_factory=list)
    single_us: list[float] = field(default_factory=list)
    inputs: int = 0
    checked: int = 0  # outputs compared with the reference
    clock_mhz: float | None = None
    report: str = ""
    printed: str = ""  # by the submission
    seconds: float | None = None  # of the whole case
    worst_error: float | None = None  # the largest error over its tolerance among the outputs checked
    wrong: dict[str, Any] | None = None  # where the wrong elements lie
    backend: str = ""  # by the submission's own word
    sandbox: str = ""  # what of it holds
    libraries: list[Library] = field(default_factory=list)  # beside the system's, Python's and torch's

    @property
    def passed(self) -> bool:
        """Whether the case ran and every output was right."""
        return not self.error

    @property
    def median_us(self) -> float:
        """The median round's mean time of a call."""
        return median(self.rounds_us)


class WorkerProcess:
    """A worker and its pipe. Raises Failure for whatever goes wrong on its side."""

    def __init__(self, submission: Path, case: Case, device: torch.device, limits: Limits, result: Result) -> None:
        self._case, self._device, self._limits, self._result = case, device, limits, result
        m, n, _, batches = case.shape
        self._output_bytes = m * n * batches * torch.float16.itemsize
        self._clock = chip.Clock(device)
        self._clocks_mhz: list[int] = []
        self._marks: dict[str, float] = {}
        self._folder = tempfile.TemporaryDirectory(prefix="eval-")
        self._log = Path(self._folder.name) / "log.txt"
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        setup = Setup(str(submission), case.shape, str(device), str(self._log))
        # Not a daemon: those may not start processes, which compilers do.
        self._process = context.Process(target=worker_main, args=(setup, theirs))
        with hidden_from_children():
            self._process.start()
        theirs.close()
        try:
            self._answer("start")
        except BaseException:
            self.close()
            raise

    def _receive(self, request: str) -> bytes:
        """The next message as it comes: JSON, or an output's bytes; never anything that is executed."""
        # Ends a worker that sent part of a message only.
        watchdog = threading.Timer(self._limits.answer_s + EXIT_S, self._process.kill)
        watchdog.daemon = True
        watchdog.start()
        try:
            if not self._connection.poll(self._limits.answer_s):
                raise Failure(f"no answer within {self._limits.answer_s:g} s ({request}): the submission hangs")
            return self._connection.recv_bytes(max(MESSAGE_BYTES, self._output_bytes))
        except (EOFError, ConnectionError):
            self._end()
            raise Failure(f"the worker ended by itself: {self._ending()}{self._last_words()}") from None
        except OSError as error:  # a length no message has
            raise Failure(f"{GARBLED} ({error})") from None
        finally:
            watchdog.cancel()

    def _answer(self, request: str) -> dict[str, Any]:
        while True:
            try:
                ((kind, content),) = json.loads(self._receive(request)).items()
            except (ValueError, AttributeError) as error:
                raise Failure(f"{GARBLED} ({error})") from None
            if kind == "mark":
                self._marks[content] = time.monotonic()
                if content == "end" and request == "time_round" and (mhz := self._clock.read_mhz()):
                    self._clocks_mhz.append(mhz)
            elif kind == "fail":
                raise Failure(content)
            else:
                return content

    def _ending(self) -> str:
        code = self._process.exitcode
        if code is not None and code < 0:
            return f"signal {signal.Signals(-code).name}"
        return f"exit code {code}"

    def _printed(self) -> str:
        return self._log.read_text(errors="replace") if self._log.is_file() else ""

    def _last_words(self) -> str:
        lines = self._printed().splitlines()
        return "; it printed: " + " / ".join(lines[-LOG_LINES_SHOWN:]) if lines else ""

    def _send(self, message: dict[str, Any] | None) -> None:
        # A worker that is gone is reported by the answer that does not come.
        with contextlib.suppress(ConnectionError):
            self._connection.send_bytes(json.dumps(message).encode())

    def _check_output(self, request: str, index: int, seeds: Sequence[int]) -> None:
        """Compares one output of the last request with the reference, computed only now."""
        self._send({"request": "output", "index": index})
        raw = self._receive("output")
        m, n, _, batches = self._case.shape
        if len(raw) != self._output_bytes:
            raise Failure(f"{GARBLED} ({len(raw)} bytes of output; expected {self._output_bytes})")
        output = torch.frombuffer(bytearray(raw), dtype=torch.float16).view(batches, m, n).permute(1, 2, 0)
        data = generate_input(*self._case.shape, seeds[index], device=self._device)
        # The case's own seeds as the leaderboard judges them; of thousands of fresh inputs some cancel.
        check = check_implementation if request == "check" else check_with_rounding
        ok, message = check(data, output.to(self._device))
        if not ok:
            where = f"{request}, input {index + 1} of {len(seeds)}, seed {seeds[index]}"
            raise Failure(f"wrong result ({where}): {message}")
        self._result.checked += 1

    def request(self, name: str, seeds: Sequence[int], checked: int | None = None) -> dict[str, Any]:
        """Has the worker make one call for each seed, and checks `checked` of the outputs, None for all."""
        self._send({"request": name, "seeds": list(seeds)})
        answer = self._answer(name)
        count = len(seeds)
        drawn = range(count)
        if checked is not None and checked < count:
            drawn = sorted(secrets.SystemRandom().sample(drawn, checked))
        for index in drawn:
            self._check_output(name, index, seeds)
        return answer

    def check_clock(self, claimed_s: float) -> None:
        """Holds the time the worker measured on a CPU against this process's own clock."""
        seen_s = self._marks["end"] - self._marks["begin"]
        if seen_s > claimed_s * (1 + CLOCK_SLACK) + CLOCK_SLACK_S:
            raise Failure(
                f"the worker's clock shows {claimed_s * 1e3:.3g} ms for calls that took {seen_s * 1e3:.3g} ms"
            )

    def _end(self) -> None:
        """Ends the worker, by force if it does not end itself, and whatever it has started."""
        wait([self._process.sentinel], EXIT_S)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        self._process.join()

    def close(self) -> None:
        """Ends the worker and keeps what it printed."""
        self._send(None)
        self._end()
        self._connection.close()
        self._result.printed = self._printed()
        if self._clocks_mhz:
            self._result.clock_mhz = median(self._clocks_mhz)
        self._folder.cleanup()

    def __enter__(self) -> WorkerProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


def case_seeds(first: int, count: int) -> list[int]:
    """The leaderboard's seeds of a case's inputs."""
    return [(first + SEED_STEP * i) % SEED_LIMIT for i in range(count)]


def fresh_seeds(count: int) -> list[int]:
    """Seeds no one can know before: of inputs a submission has not seen."""
    return [secrets.randbelow(SEED_LIMIT) for _ in range(count)]


def _steady(rounds_us: list[float], inputs: int) -> bool:
    """The leaderboard's stop rule: enough rounds, enough time, and a mean known to 0.1 %."""
    figures = summarise(rounds_us)
    enough = figures.runs >= MIN_ROUNDS and sum(rounds_us) * inputs >= MIN_TIMED_S * 1e6
    return enough and figures.err < TARGET_RELATIVE_ERROR * figures.mean


def _done(result: Result, limits: Limits, wall_s: float) -> bool:
    """Whether there are enough rounds, or no time for more."""
    rounds = len(result.rounds_us)
    timed_s = sum(result.rounds_us) * result.inputs / 1e6
    late = timed_s > limits.timing_s or wall_s > limits.wall_s or rounds >= limits.max_rounds
    return _steady(result.rounds_us, result.inputs) or (late and rounds >= MIN_ROUNDS)


def run_test(submission: Path, case: Case, device: torch.device, limits: Limits) -> Result:
    """One call, checked."""
    result = Result(case, inputs=1)
    try:
        with WorkerProcess(submission, case, device, limits, result) as worker:
            worker.request("check", case_seeds(case.seed, 1))
    except Failure as failure:
        result.error = str(failure)
    return result


def run_benchmark(submission: Path, case: Case, device: torch.device, limits: Limits) -> Result:
    """A checked pass over every input, then timed rounds over fresh ones until the mean is steady or time is up."""
    inputs = inputs_that_fit(case.shape, device, limits.inputs)
    result = Result(case, inputs=inputs)
    chip_name = chip.name(device)
    floor_us = chip.impossible_us(case.shape, chip_name, os.cpu_count() if device.type == "cpu" else 0)
    try:
        with WorkerProcess(submission, case, device, limits, result) as worker:
            worker.request("check", case_seeds(case.seed, inputs))
            begin = time.monotonic()
            while not result.rounds_us or not _done(result, limits, time.monotonic() - begin):
                mean_us = worker.request("time_round", fresh_seeds(inputs), limits.checked)["mean_us"]
                if mean_us < floor_us:
                    raise Failure(f"{mean_us:.3g} us is less than {floor_us:.3g} us, which no {chip_name} can beat")
                if device.type == "cpu":
                    worker.check_clock(mean_us * inputs / 1e6)
                result.rounds_us.append(mean_us)
            if limits.singles:
                singles = fresh_seeds(min(limits.singles, inputs))
                result.single_us = worker.request("time_single", singles)["single_us"]
    except Failure as failure:
        result.error = str(failure)
    return result


def run_profile(submission: Path, case: Case, device: torch.device, limits: Limits) -> Result:
    """One profiled call."""
    result = Result(case, inputs=1)
    try:
        with WorkerProcess(submission, case, device, limits, result) as worker:
            worker.request("check", case_seeds(case.seed, 1))  # warms up
            result.report = worker.request("profile", fresh_seeds(1))["report"]
    except Failure as failure:
        result.error = str(failure)
    return result
