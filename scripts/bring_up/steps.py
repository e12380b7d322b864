"""Steps of a long session: each a process of its own with a time limit, none of which can end the session."""

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
TERMINATE_S = 5.0  # between asking a process to end and ending it
KILL_S = 10.0  # a process that a driver holds may not even die: then the session goes on without it
LEAST_S = 5.0  # a step is not started with less time than that left
PASSED, FAILED, TIMED_OUT, SKIPPED = "passed", "failed", "timed out", "skipped"


@dataclass(frozen=True)
class Step:
    """A command, how long it may take, and the JSON file it leaves, if any."""

    name: str
    command: tuple[str, ...]
    limit_s: float
    environment: dict[str, str] = field(default_factory=dict)
    result: Path | None = None
    skip: str = ""  # why it cannot run here


@dataclass
class Outcome:
    """What became of a step; `result` is what its JSON file held."""

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
    """Ends a process and all it started: first politely, so that tools can write what they have."""
    for name, patience in ((signal.SIGTERM, TERMINATE_S), (signal.SIGKILL, KILL_S)):
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(process.pid, name)
        with contextlib.suppress(subprocess.TimeoutExpired):
            process.wait(patience)
    # A process that SIGTERM ended leaves its children to SIGKILL above.


def run_step(step: Step, log: Path, limit_s: float) -> Outcome:
    """Runs a step with its output in `log`; whatever happens to it is its outcome."""
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
    """Steps one after another, until the time is up; what is known so far is kept after each."""

    def __init__(self, folder: Path, seconds: float, save: Any, announce: Any) -> None:
        self.folder = folder
        self.outcomes: list[Outcome] = []
        self._end = time.monotonic() + seconds
        self._save, self._announce = save, announce
        self._interrupted = False
        folder.mkdir(parents=True, exist_ok=True)

    def run(self, step: Step) -> Outcome:
        """A step's outcome: also that there was no time for it, or that it does not apply here."""
        left = self._end - time.monotonic()
        reason = step.skip or ("interrupted" if self._interrupted else "no time left" if left < LEAST_S else "")
        self._announce(step.name)
        if reason:
            command = shown(step.command, step.environment)
            outcome = Outcome(step.name, command, SKIPPED, None, 0.0, step.limit_s, reason)
        else:
            log = self.folder / f"{len(self.outcomes) + 1:02d}-{re.sub(r'[^a-z0-9]+', '-', step.name.lower())}.log"
            try:
                outcome = run_step(step, log, min(step.limit_s, left))
            except KeyboardInterrupt:
                self._interrupted = True
                command = shown(step.command, step.environment)
                outcome = Outcome(step.name, command, FAILED, None, 0.0, step.limit_s, "interrupted")
        self.outcomes.append(outcome)
        self._save()
        return outcome

    def as_json(self) -> list[dict[str, Any]]:
        """Every outcome so far."""
        return [asdict(outcome) for outcome in self.outcomes]
