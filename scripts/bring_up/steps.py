"""Steps of a long session: each is a process with a time limit and cannot end the session."""

from __future__ import annotations

import contextlib
import json
import os
import re
import signal
import subprocess
import sys
import time
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[2]
LOG_TAIL_CHARACTERS = 4000
TERMINATE_S = 5.0  # time between SIGTERM and SIGKILL
KILL_S = 10.0  # wait after SIGKILL: a process that hangs in a driver may not die, and the session goes on
LEAST_S = 5.0  # a step needs at least this much time left to start
PASSED, FAILED, TIMED_OUT, SKIPPED = "passed", "failed", "timed out", "skipped"


@dataclass(frozen=True)
class Step:
    """A command, its time limit, and the JSON file that it writes, if any."""

    name: str
    command: tuple[str, ...]
    limit_s: float
    environment: dict[str, str] = field(default_factory=dict)
    result: Path | None = None
    skip: str = ""  # the reason why it cannot run here


@dataclass
class Outcome:
    """The outcome of a step; `result` is the content of its JSON file."""

    name: str
    command: str
    outcome: str
    exit_status: int | None
    seconds: float
    limit_s: float
    log_tail: str
    result: Any = None


def shown(command: tuple[str, ...], environment: dict[str, str]) -> str:
    """A command as a reader would type it in the checkout."""
    words = ["python" if word == sys.executable else word.replace(f"{ROOT}/", "") for word in command]
    settings = [f"{name}={value}" for name, value in environment.items()]
    return " ".join(word if re.fullmatch(r"[\w@%+=:,./-]+", word) else repr(word) for word in [*settings, *words])


def end_group(process: subprocess.Popen[bytes]) -> None:
    """Ends a process and its children, with SIGTERM first so that tools can write their results."""
    for name, patience in ((signal.SIGTERM, TERMINATE_S), (signal.SIGKILL, KILL_S)):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, name)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience)
    # A process that SIGTERM ended leaves its children to SIGKILL above.


def run_step(step: Step, log: Path, limit_s: float) -> Outcome:
    """Runs a step with its output in `log`; any failure is its outcome, not an exception."""
    outcome = Outcome(step.name, shown(step.command, step.environment), FAILED, None, 0.0, round(limit_s, 1), "")
    if step.result:
        step.result.unlink(missing_ok=True)
    begin = time.monotonic()
    try:
        with log.open("wb") as output:
            process = subprocess.Popen(
                step.command,
                cwd=ROOT,
                env=os.environ | step.environment,
                stdin=subprocess.DEVNULL,
                stdout=output,
                stderr=subprocess.STDOUT,
                start_new_session=True,
            )
            try:
                outcome.exit_status = process.wait(limit_s)
                outcome.outcome = PASSED if outcome.exit_status == 0 else FAILED
            except subprocess.TimeoutExpired:
                outcome.outcome = TIMED_OUT
                end_group(process)
            except BaseException:
                end_group(process)
                raise
        outcome.log_tail = log.read_text(errors="replace")[-LOG_TAIL_CHARACTERS:]
    except OSError as error:  # no such program, no room for the log
        outcome.log_tail = f"{type(error).__name__}: {error}"
    outcome.seconds = round(time.monotonic() - begin, 2)
    if step.result:
        with contextlib.suppress(OSError, ValueError):
            outcome.result = json.loads(step.result.read_text())
    return outcome


class Session:
    """Runs steps one after another until the time is up, and saves after each."""

    def __init__(self, folder: Path, seconds: float, save: Any, announce: Any) -> None:
        self.folder = folder
        self.outcomes: list[Outcome] = []
        self._end = time.monotonic() + seconds
        self._save, self._announce = save, announce
        self._interrupted = False
        folder.mkdir(parents=True, exist_ok=True)

    def run(self, step: Step) -> Outcome:
        """Runs a step, or skips it if it does not apply or no time is left."""
        left = self._end - time.monotonic()
        reason = step.skip or ("interrupted" if self._interrupted else "no time left" if left < LEAST_S else "")
        if reason:
            command = shown(step.command, step.environment)
            outcome = Outcome(step.name, command, SKIPPED, None, 0.0, step.limit_s, reason)
            self._announce(f"{step.name}: {SKIPPED}: {reason}")
        else:
            self._announce(step.name)
            log = self.folder / f"{len(self.outcomes) + 1:02d}-{re.sub(r'[^a-z0-9]+', '-', step.name.lower())}.log"
            try:
                outcome = run_step(step, log, min(step.limit_s, left))
            except KeyboardInterrupt:
                self._interrupted = True
                command = shown(step.command, step.environment)
                outcome = Outcome(step.name, command, FAILED, None, 0.0, step.limit_s, "interrupted")
        self.outcomes.append(outcome)
        if not reason:
            said = outcome.log_tail.strip().splitlines()[-1:] if outcome.outcome != PASSED else []
            self._announce(step.name, ": ".join([outcome.outcome, *said]) + f" ({outcome.seconds:.1f} s)")
        self._save()
        return outcome

    def as_json(self) -> list[dict[str, Any]]:
        """Every outcome so far."""
        return [asdict(outcome) for outcome in self.outcomes]
