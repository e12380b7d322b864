"""The leaderboard's result protocol: `key: value` lines to the file descriptor in POPCORN_FD, and exit codes."""

from __future__ import annotations

import contextlib
import fcntl
import os
import re
import select
from collections.abc import Iterator

from eval.output.text import clean, one_line, shortened

FD_VARIABLE = "POPCORN_FD"
SEED_VARIABLE = "POPCORN_SEED"

EXIT_OK = 0
EXIT_USAGE = 2
EXIT_NO_DESCRIPTOR = 111
EXIT_FAILED = 112
EXIT_BAD_CASES = 113

SHOWN_CHARACTERS = 60  # of a refused value
_SEED_DIGITS = 19  # of 2^63
_LARGEST_DESCRIPTOR_DIGITS = 9

_closed_at_start: str | None = None


class DescriptorError(ValueError):
    """POPCORN_FD is not a writable descriptor."""


def note_descriptor() -> None:
    """Remembers whether POPCORN_FD is closed now, before another file can get its number."""
    global _closed_at_start
    text = os.environ.get(FD_VARIABLE, "")
    if text.isdecimal() and len(text) <= _LARGEST_DESCRIPTOR_DIGITS:
        try:
            os.fstat(int(text))
        except OSError:
            _closed_at_start = text


def _writable_descriptor(text: str) -> int:
    """Parses the number of a writable descriptor. Raises ValueError or OSError with the reason."""
    if not re.fullmatch(rf"[0-9]{{1,{_LARGEST_DESCRIPTOR_DIGITS}}}", text):
        raise ValueError("not the number of a file descriptor")
    descriptor = int(text)
    if text == _closed_at_start:
        raise ValueError("not open")
    if fcntl.fcntl(descriptor, fcntl.F_GETFL) & os.O_ACCMODE == os.O_RDONLY:
        raise ValueError("open for reading only")
    poll = select.poll()
    poll.register(descriptor, 0)
    if any(event & (select.POLLERR | select.POLLNVAL) for _, event in poll.poll(0)):
        raise ValueError("its other end is closed")
    return descriptor


class Protocol:
    """Writes results as they come, one line each: line breaks in a value become ' / '."""

    def __init__(self, descriptor: str) -> None:
        self.broken: OSError | None = None  # why lines were lost, if any
        try:
            number = _writable_descriptor(descriptor)
            self._file = os.fdopen(number, "w", encoding="utf-8", errors="backslashreplace")
            os.set_inheritable(number, False)
        except (ValueError, OSError) as error:
            shown = clean(shortened(descriptor, SHOWN_CHARACTERS))
            raise DescriptorError(f"{FD_VARIABLE} is '{shown}': {error}") from error

    def log(self, key: str, value: object) -> None:
        """Writes and flushes one line, so that a crash loses nothing. Sets `broken` if the reader is gone."""
        if self.broken is not None:
            return
        try:
            self._file.write(f"{key}: {one_line(value)}\n")
            self._file.flush()
        except OSError as error:
            self.broken = error


def secret_seed() -> int | None:
    """POPCORN_SEED, if set. Raises ValueError unless it is an integer of ordinary length."""
    text = os.environ.get(SEED_VARIABLE)
    if not text:
        return None
    if not re.fullmatch(rf"\s*[+-]?[0-9]{{1,{_SEED_DIGITS}}}\s*", text):
        shown = clean(shortened(text, SHOWN_CHARACTERS))
        raise ValueError(f"{SEED_VARIABLE} is '{shown}'; expected an integer of at most {_SEED_DIGITS} digits")
    return int(text)


@contextlib.contextmanager
def hidden_from_children() -> Iterator[None]:
    """Hides the descriptor and the secret seed from processes started in the block."""
    hidden = {name: os.environ.pop(name) for name in (FD_VARIABLE, SEED_VARIABLE) if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(hidden)
