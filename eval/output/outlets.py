"""Where results go: the standard streams and the JSON file, both tested before anything runs."""

from __future__ import annotations

import contextlib
import errno
import json
import os
import select
import stat
import sys
import tempfile
from pathlib import Path
from typing import Any, TextIO

from eval.output.text import TOLD_CHARACTERS, one_line, shortened


def whisper(line: str) -> None:
    """Writes a line to standard error; if that takes none, later lines go nowhere, and the run goes on."""
    try:
        print(line, file=sys.stderr, flush=True)
    except (OSError, ValueError):
        abandon(sys.stderr)


def tell(text: object) -> None:
    """Writes a message to standard error, as one line."""
    whisper(f"nvfp4 eval: {one_line(shortened(str(text), TOLD_CHARACTERS))}")


class OutletError(OSError):
    """An output that cannot be written to."""


def closed_streams() -> set[int]:
    """Returns which of the three standard descriptors are closed, and opens null devices in their places.

    Otherwise the next file opened would get such a number, and libraries would print into it.
    """
    closed = set()
    for descriptor in range(3):
        try:
            os.fstat(descriptor)
        except OSError:
            closed.add(descriptor)
            null = os.open(os.devnull, os.O_RDWR)
            if null != descriptor:
                os.dup2(null, descriptor)
                os.close(null)
    if sys.stderr is None:
        sys.stderr = open(os.devnull, "w")  # noqa: PTH123, SIM115  (it is the stream from now on)
    return closed


def prepare_stdout(closed: set[int]) -> None:
    """Raises OutletError if standard output cannot take a report; makes both streams escape what they cannot encode."""
    if sys.stdout is None or 1 in closed:
        raise OutletError(errno.EBADF, "standard output is closed")
    poll, events = select.poll(), []
    with contextlib.suppress(OSError, ValueError):  # a stream without a descriptor is fine
        poll.register(sys.stdout.fileno(), 0)
        events = [event for _, event in poll.poll(0)]
    if any(event & (select.POLLERR | select.POLLNVAL) for event in events):
        raise OutletError(errno.EPIPE, "standard output is a pipe that no process reads")
    for stream in (sys.stdout, sys.stderr):
        if hasattr(stream, "reconfigure"):
            stream.reconfigure(errors="backslashreplace")


def say(text: str) -> None:
    """Prints a line of a report and flushes it. Raises OutletError."""
    try:
        print(text, flush=True)
    except OSError as error:
        raise OutletError(error.errno, f"standard output: {error.strerror}") from error


def abandon(stream: TextIO) -> None:
    """Lets the interpreter exit without an error after a stream broke: the rest of it goes nowhere."""
    null = os.open(os.devnull, os.O_WRONLY)
    with contextlib.suppress(OSError, ValueError, AttributeError):
        os.dup2(null, stream.fileno())
    os.close(null)


def rescue(record: dict[str, Any]) -> str:
    """Writes a record that its own file did not take to the temporary folder. Returns a message with its path."""
    path = Path(tempfile.gettempdir()) / f"eval-record-{os.getpid()}.json"
    try:
        # Others may write to this folder: a link that has the name already is not followed.
        opened = os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_NOFOLLOW | os.O_CLOEXEC, 0o600)
        with os.fdopen(opened, "w") as file:
            file.write(json.dumps(record, indent=2) + "\n")
    except OSError as error:
        return f"{path}: {error.strerror}; the record is lost"
    return f"the record is in {path}"


class RecordFile:
    """The file of --json, opened at the start and rewritten as results come.

    Its old contents stay until the first record; `close` removes a new file without a record.
    """

    def __init__(self, path: Path) -> None:
        """Raises OutletError if nothing could be written there."""
        self.path = path
        self._made = not os.path.lexists(path)
        self._written = False
        try:
            # /dev/stdout and a shell's >(program) are links too.
            stream = path.is_symlink() and (path.is_fifo() or path.is_char_device())
            if path.is_symlink() and not stream:
                raise OutletError(errno.ELOOP, "is a link; expected the file itself")
            # Not blocking, so that a FIFO without a reader is refused.
            flags = os.O_WRONLY | os.O_NONBLOCK | os.O_CLOEXEC | (0 if stream else os.O_CREAT | os.O_NOFOLLOW)
            self._file = os.open(path, flags, 0o666)
        except (OSError, ValueError) as error:
            raise OutletError(getattr(error, "errno", None), getattr(error, "strerror", None) or str(error)) from error
        os.set_blocking(self._file, True)
        self._regular = stat.S_ISREG(os.fstat(self._file).st_mode)

    def write(self, record: dict[str, Any], last: bool) -> None:
        """Replaces the previous record; a file that is not regular gets only the last one. Raises OutletError."""
        if not (self._regular or last):
            return
        raw = (json.dumps(record, indent=2) + "\n").encode()
        try:
            if self._regular:
                os.lseek(self._file, 0, os.SEEK_SET)
            left = memoryview(raw)
            while left:
                left = left[os.write(self._file, left) :]
            if self._regular:
                os.ftruncate(self._file, len(raw))
            self._written = True
        except OSError as error:
            raise OutletError(error.errno, f"{self.path}: {error.strerror}") from error

    def close(self) -> None:
        """Closes the file."""
        os.close(self._file)
        if self._made and self._regular and not self._written:
            self.path.unlink(missing_ok=True)
