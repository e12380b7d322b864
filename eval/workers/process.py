"""The worker as a process: its start, its answers within their deadlines, what it printed, and its end."""

from __future__ import annotations

import contextlib
import multiprocessing
import os
import signal
import tempfile
import time
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from eval import sandbox
from eval.output.text import shortened, tail_of
from eval.sandbox import lifetime
from eval.workers import channel, template
from eval.workers.answers import Garbled, tagged, text_in
from eval.workers.worker import Failure, Setup
from reference.problems.interface import Shape

LOG_LINES_SHOWN = 5
GARBLED = "the worker's answer is garbled: something else wrote to its pipe"
EXIT_S = 2.0  # for a worker that was told to end
KILL_S = 6.0  # for a keeper to end what it keeps: longer than it tries
_KINDS = frozenset(("ok", "fail", "ready", "done"))


class WorkerProcess:
    """A worker, its keeper and the line to it. Raises Failure for whatever goes wrong on its side."""

    def __init__(self, submission: Path, shape: Shape, device: str, answer_s: float) -> None:
        self._answer_s = answer_s
        self._begun = False  # whether the submission may have started anything
        sandbox.shield()
        folder = lifetime.run_folder()
        scratch = folder / "scratch"
        scratch.mkdir(mode=0o700, exist_ok=True)
        # Read by this descriptor alone: what becomes of the name does not matter.
        self._log, log = tempfile.mkstemp(prefix="log-", dir=folder)
        mine, theirs = channel.pair()
        self.channel = channel.Channel(mine)
        setup = Setup(str(submission), shape, device, log, str(scratch))
        lifeline, self._lifeline = multiprocessing.Pipe(duplex=False)
        self._process = template.start(setup, theirs, lifeline)
        theirs.close()
        lifeline.close()

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
            self._begun = True
            if got == "fail":
                raise Failure(text_in(content))
        except channel.Silence:
            raise Failure(f"no answer within {self._answer_s:g} s ({request}): the submission hangs") from None
        except EOFError:
            self._end(patience_s=EXIT_S)
            raise Failure(f"the worker ended by itself: {self._ending()}{self._last_words()}") from None
        except Garbled as error:
            raise Failure(f"{GARBLED} ({error})") from None
        if got != kind:
            raise Failure(f"{GARBLED} ('{got}' where '{kind}' was due)")
        return content

    def _ending(self) -> str:
        code = self._process.exitcode
        if code is not None and code < 0:
            with contextlib.suppress(ValueError):  # the real-time ones have no names
                return f"signal {signal.Signals(-code).name}"
            return f"signal {-code}"
        return f"exit code {code}"

    def printed(self) -> str:
        """The last of what the worker and all it started wrote to standard output and error."""
        return tail_of(self._log)

    def _last_words(self) -> str:
        lines = self.printed().splitlines()
        return "; it printed: " + shortened(" / ".join(lines[-LOG_LINES_SHOWN:])) if lines else ""

    def _end(self, patience_s: float) -> None:
        """Ends the worker, by force if it does not end itself in time, and whatever it has started."""
        if not self._begun and not patience_s:
            self._process.kill()  # it may not have its keeper yet, to hear the word
        self._process.join(patience_s)
        self._lifeline.close()  # the keeper's word to end all there is
        if not self._process.join(KILL_S):
            self._process.kill()
            self._process.join(KILL_S)

    def close(self, patient: bool = True) -> str:
        """Ends the worker, at once unless it is to be waited for; what it printed."""
        self.send({"request": "end"})
        self._end(EXIT_S if patient else 0.0)
        self.channel.close()
        self._process.close()
        printed = self.printed()
        os.close(self._log)
        return printed
