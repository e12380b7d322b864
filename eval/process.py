"""The worker as a process: its start, its answers within their deadlines, what it printed, and its end."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Sequence
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from eval import channel
from eval.answers import Garbled, tagged
from eval.protocol import hidden_from_children
from eval.worker import Failure, Setup
from eval.worker import main as worker_main

LOG_LINES_SHOWN = 5
GARBLED = "the worker's answer is garbled: something else wrote to its pipe"
EXIT_S = 2.0  # for a worker that was told to end
_KINDS = frozenset(("ok", "fail", "ready", "done"))


class WorkerProcess:
    """A worker and the line to it. Raises Failure for whatever goes wrong on its side."""

    def __init__(self, submission: Path, shape: tuple[int, int, int, int], device: str, answer_s: float) -> None:
        self._answer_s = answer_s
        self._folder = tempfile.TemporaryDirectory(prefix="eval-")
        self._log = Path(self._folder.name) / "log.txt"
        mine, theirs = channel.pair()
        self.channel = channel.Channel(mine)
        setup = Setup(str(submission), shape, device, str(self._log))
        context = multiprocessing.get_context("spawn")
        # Not a daemon: those may not start processes, which compilers do.
        self._process = context.Process(target=worker_main, args=(setup, theirs))
        with hidden_from_children():
            self._process.start()
        theirs.close()

    def deadline(self) -> float:
        """When a request made now has to be answered: all of it, however many messages that takes."""
        return time.monotonic() + self._answer_s

    def send(self, message: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
        """Sends a message. A worker that is gone is told of by the answer that does not come."""
        with contextlib.suppress(OSError):
            self.channel.send(message, descriptors)

    def answer(self, kind: str, request: str, deadline: float) -> Any:
        """The content of the next message, which has to be of this kind and here by the deadline."""
        try:
            got, content = tagged(self.channel.receive(deadline), _KINDS)
        except channel.Silence:
            raise Failure(f"no answer within {self._answer_s:g} s ({request}): the submission hangs") from None
        except EOFError:
            self._end()
            raise Failure(f"the worker ended by itself: {self._ending()}{self._last_words()}") from None
        except Garbled as error:
            raise Failure(f"{GARBLED} ({error})") from None
        if got == "fail" and isinstance(content, str):
            raise Failure(content)
        if got != kind:
            raise Failure(f"{GARBLED} ('{got}' where '{kind}' was due)")
        return content

    def _ending(self) -> str:
        code = self._process.exitcode
        if code is not None and code < 0:
            return f"signal {signal.Signals(-code).name}"
        return f"exit code {code}"

    def printed(self) -> str:
        """What the worker and all it started wrote to standard output and error."""
        return self._log.read_text(errors="replace") if self._log.is_file() else ""

    def _last_words(self) -> str:
        lines = self.printed().splitlines()
        return "; it printed: " + " / ".join(lines[-LOG_LINES_SHOWN:]) if lines else ""

    def _end(self) -> None:
        """Ends the worker, by force if it does not end itself, and whatever it has started."""
        wait([self._process.sentinel], EXIT_S)
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.killpg(self._process.pid, signal.SIGKILL)
        self._process.kill()
        self._process.join()

    def close(self) -> str:
        """Ends the worker; what it printed."""
        self.send({"request": "end"})
        self._end()
        self.channel.close()
        printed = self.printed()
        self._folder.cleanup()
        return printed
