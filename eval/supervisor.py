"""The parent's side of a case: starts the worker, bounds its time, and checks every output it returns.

Inputs and reference results are made here from the seed, apart from the process the submission runs in.
"""

from __future__ import annotations

import multiprocessing
import os
import signal
import tempfile
import time
from dataclasses import dataclass, field
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Any

import numpy as np
import torch

from eval import chip
from eval.cases import Case
from eval.stats import summarise
from eval.worker import Failure, Setup
from eval.worker import main as worker_main
from reference.reference import check_implementation, generate_input

SEED_STEP = 42  # between the inputs of a case, as on the leaderboard
MIN_ROUNDS = 3
MIN_TIMED_S = 0.1
TARGET_RELATIVE_ERROR = 1e-3
LOG_LINES_SHOWN = 5


@dataclass(frozen=True)
class Limits:
    """How much a case may take."""

    answer_s: float = 180.0  # for one request to the worker: longer is taken for a hang
    timing_s: float = 10.0  # of rounds
    wall_s: float = 120.0  # of rounds with all that belongs to them
    inputs: int = 50  # distinct ones in a round
    singles: int = 10  # calls timed on their own


def limits_for(device: torch.device, mode: str) -> Limits:
    """The leaderboard's limits on a GPU; on a CPU, where a call takes a thousand times longer, smaller ones."""
    if device.type == "cuda":
        return Limits(timing_s=30.0 if mode == "leaderboard" else 10.0)
    return Limits(timing_s=3.0, wall_s=20.0 if mode == "leaderboard" else 10.0, inputs=2, singles=0)


@dataclass
class Result:
    """What a case came to. Times in us, one a round; `error` is empty if it passed."""

    case: Case
    error: str = ""
    rounds_us: list[float] = field(default_factory=list)
    single_us: list[float] = field(default_factory=list)
    inputs: int = 0
    clock_mhz: float | None = None
    report: str = ""

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

    def __init__(self, submission: Path, case: Case, device: torch.device, limits: Limits) -> None:
        self._case, self._device, self._limits = case, device, limits
        self._folder = tempfile.TemporaryDirectory(dir="/dev/shm" if Path("/dev/shm").is_dir() else None)
        self._log = Path(self._folder.name) / "log.txt"
        self._outputs = Path(self._folder.name) / "outputs.npy"
        context = multiprocessing.get_context("spawn")
        self._connection, theirs = context.Pipe()
        setup = Setup(str(submission), case.shape, str(device), str(self._log))
        self._process = context.Process(target=worker_main, args=(setup, theirs), daemon=True)

        hidden = {name: os.environ.pop(name) for name in list(os.environ) if name.startswith("POPCORN_")}
        try:
            self._process.start()  # without the result descriptor and the secret seed in its environment
        finally:
            os.environ.update(hidden)
        theirs.close()
        try:
            self._answer("start")
        except Failure:
            self.close()
            raise

    def _answer(self, request: str) -> dict[str, Any]:
        try:
            if not self._connection.poll(self._limits.answer_s):
                raise Failure(f"no answer within {self._limits.answer_s:g} s ({request}): the submission hangs")
            status, answer = self._connection.recv()
        except (EOFError, ConnectionError):
            self._process.join()
            raise Failure(f"the worker ended by itself: {self._ending()}{self._printed()}") from None
        if status == "fail":
            raise Failure(answer)
        return answer

    def _ending(self) -> str:
        code = self._process.exitcode
        if code is not None and code < 0:
            return f"signal {signal.Signals(-code).name}"
        return f"exit code {code}"

    def _printed(self) -> str:
        lines = self._log.read_text(errors="replace").splitlines() if self._log.is_file() else []
        return "; it printed: " + " / ".join(lines[-LOG_LINES_SHOWN:]) if lines else ""

    def request(self, name: str, seeds: list[int]) -> dict[str, Any]:
        """Has the worker make one call for each seed, and checks each output against the reference."""
        self._outputs.unlink(missing_ok=True)
        self._connection.send((name, {"seeds": seeds, "path": str(self._outputs)}))
        answer = self._answer(name)
        outputs = np.load(self._outputs)
        if len(outputs) != len(seeds):
            raise Failure(f"the worker returned {len(outputs)} outputs for {len(seeds)} calls")
        for i, seed in enumerate(seeds):
            data = generate_input(*self._case.shape, seed, device=self._device)
            ok, message = check_implementation(data, torch.from_numpy(outputs[i]).to(self._device))
            if not ok:
                raise Failure(f"wrong result ({name}, input {i + 1} of {len(seeds)}, seed {seed}): {message}")
        return answer

    def close(self) -> None:
        """Ends the worker, by force if it does not end itself."""
        if self._process.is_alive():
            try:
                self._connection.send(None)
                self._process.join(2.0)
            except (BrokenPipeError, ConnectionError):
                pass
            if self._process.is_alive():
                self._process.kill()
        self._process.join()
        self._connection.close()
        self._folder.cleanup()

    def __enter__(self) -> WorkerProcess:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close()


class _Seeds:
    """Seeds of fresh inputs: the case's own first, then steps of SEED_STEP, never one twice."""

    def __init__(self, first: int) -> None:
        self._next = first

    def take(self, count: int) -> list[int]:
        """The next `count` seeds."""
        taken = [self._next + SEED_STEP * i for i in range(count)]
        self._next += SEED_STEP * count
        return taken


def _steady(rounds_us: list[float], inputs: int) -> bool:
    """The leaderboard's stop rule: enough rounds, enough time, and a mean known to 0.1 %."""
    figures = summarise(rounds_us)
    enough = figures.runs >= MIN_ROUNDS and sum(rounds_us) * inputs >= MIN_TIMED_S * 1e6
    return enough and figures.err < TARGET_RELATIVE_ERROR * figures.mean


def run_test(submission: Path, case: Case, device: torch.device, limits: Limits) -> Result:
    """One call, checked."""
    result = Result(case)
    try:
        with WorkerProcess(submission, case, device, limits) as worker:
            worker.request("check", [case.seed])
    except Failure as failure:
        result.error = str(failure)
    return result


def run_benchmark(submission: Path, case: Case, device: torch.device, limits: Limits) -> Result:
    """A checked pass over every input, then timed rounds over fresh ones until the mean is steady or time is up."""
    result = Result(case, inputs=limits.inputs)
    seeds = _Seeds(case.seed)
    chip_name = chip.name(device)
    floor_us = chip.impossible_us(case.shape, chip_name, os.cpu_count() if device.type == "cpu" else 0)
    sampler = chip.ClockSampler(device)
    try:
        with WorkerProcess(submission, case, device, limits) as worker:
            worker.request("check", seeds.take(limits.inputs))
            begin = time.monotonic()
            while True:
                with sampler.sampling():
                    answer = worker.request("time_round", seeds.take(limits.inputs))
                mean_us = answer["mean_us"]
                if mean_us < floor_us:
                    raise Failure(f"{mean_us:.3g} us is less than {floor_us:.3g} us, which no {chip_name} can beat")
                result.rounds_us.append(mean_us)
                timed_s = sum(result.rounds_us) * limits.inputs / 1e6
                late = timed_s > limits.timing_s or time.monotonic() - begin > limits.wall_s
                if _steady(result.rounds_us, limits.inputs) or (late and len(result.rounds_us) >= MIN_ROUNDS):
                    break
            if limits.singles:
                result.single_us = worker.request("time_single", seeds.take(limits.singles))["single_us"]
    except Failure as failure:
        result.error = str(failure)
    result.clock_mhz = sampler.median_mhz
    return result


def run_profile(submission: Path, case: Case, device: torch.device, limits: Limits) -> Result:
    """One profiled call."""
    result = Result(case)
    try:
        with WorkerProcess(submission, case, device, limits) as worker:
            worker.request("check", [case.seed])  # warms up
            result.report = worker.request("profile", [case.seed + SEED_STEP])["report"]
    except Failure as failure:
        result.error = str(failure)
    return result
