"""The worker process as the harness sees it: its start, its answers and their deadlines, its log, its end."""

from __future__ import annotations

import contextlib
import os
import signal
import socket
import struct
import time
from collections.abc import Sequence
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from eval import sandbox
from eval.output.text import shortened, tail_of
from eval.sandbox import keeper, lifetime
from eval.workers import channel, template
from eval.workers.answers import Garbled, tagged, text_in
from eval.workers.worker import Failure, Setup
from reference.problems.interface import Shape

LOG_LINES_SHOWN = 5
GARBLED = "the worker's answer is garbled: something else wrote to its socket"
EXIT_S = 10.0  # for a worker to exit when asked to: what it printed is lost if it is killed before
SURVIVED = "a process that the submission started could not be ended"
KILL_S = 15.0  # for a keeper to end its worker: longer than the keeper tries
_KINDS = frozenset(("ok", "fail", "ready", "done"))


class WorkerProcess:
    """A worker, its keeper and the connection to it. Raises Failure for errors on the worker's side."""

    def __init__(self, submission: Path, shape: Shape, device: str, answer_s: float) -> None:
        self._answer_s = answer_s
        self.left = ""  # the error message if a process survived the worker
        self._begun = False  # whether the submission may have started anything
        self._over = False  # whether the keeper has said how its worker ended, or has ended itself
        self._code: int | None = None  # the worker's exit code; negative for a signal
        sandbox.shield()
        try:
            scratch, opened = lifetime.scratch_folder(str(submission))
        except OSError as error:
            raise Failure(f"no folder for the submission to write to: {error}") from None
        self._log, log = lifetime.log_file()
        mine, theirs = channel.pair()
        self.channel = channel.Channel(mine)
        setup = Setup(str(submission), shape, device, str(scratch))
        lifeline, self._lifeline = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        descriptors = (theirs.fileno(), lifeline.fileno(), log, opened)
        template.start(setup, descriptors)
        os.close(log)
        theirs.close()
        lifeline.close()

    def deadline(self, least_s: float = 0.0) -> float:
        """When a request made now must be answered completely, in however many messages."""
        return time.monotonic() + max(self._answer_s, least_s)

    def send(self, message: dict[str, Any], descriptors: Sequence[int] = ()) -> None:
        """Sends a message. If the worker died, the missing answer reveals it."""
        with contextlib.suppress(OSError):
            self.channel.send(message, descriptors)

    def answer(self, kind: str, request: str, deadline: float) -> Any:
        """The content of the next message, which must be of this kind and arrive by the deadline."""
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
            raise Failure(f"{GARBLED} ('{got}' instead of '{kind}')")
        return content

    def _ending(self) -> str:
        if self._code is not None and self._code < 0:
            with contextlib.suppress(ValueError):  # real-time signals have no names
                hint = ", as when memory runs out" if -self._code == signal.SIGKILL else ""
                return f"signal {signal.Signals(-self._code).name}{hint}"
            return f"signal {-self._code}"
        return f"exit code {self._code}"

    def printed(self) -> str:
        """The end of what the worker and its descendants wrote to standard output and error."""
        return tail_of(self._log)

    def _last_words(self) -> str:
        lines = self.printed().splitlines()
        return "; it printed: " + shortened(" / ".join(lines[-LOG_LINES_SHOWN:])) if lines else ""

    def _listen(self, patience_s: float) -> None:
        """Waits for the keeper's last word."""
        if not self._over and wait([self._lifeline], patience_s):
            self._over = True
            with contextlib.suppress(OSError, struct.error):  # the keeper has ended without a word
                self._code, survivors = keeper.LAST_WORD.unpack(self._lifeline.recv(keeper.LAST_WORD.size))
                self.left = SURVIVED if survivors else ""

    def _end(self, patience_s: float) -> None:
        """Ends the worker, by force after `patience_s`, and every process that it started."""
        self._listen(patience_s)
        with contextlib.suppress(OSError):
            self._lifeline.shutdown(socket.SHUT_WR)  # makes the keeper end everything
        self._listen(KILL_S)
        if self._begun and not self._over:
            self.left = SURVIVED

    def close(self, patient: bool = True) -> str:
        """Ends the worker (`patient`: gives it time to exit by itself). Returns what it printed."""
        self.send({"request": "end"})
        self._end(EXIT_S if patient else 0.0)
        self.channel.close()
        self._lifeline.close()
        printed = self.printed()
        os.close(self._log)
        return printed
