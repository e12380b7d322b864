"""The leaderboard's result protocol: `key: value` lines to the file descriptor in POPCORN_FD, and exit codes."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Iterator
from types import TracebackType

FD_VARIABLE = "POPCORN_FD"
SEED_VARIABLE = "POPCORN_SEED"

EXIT_OK = 0
EXIT_USAGE = 2
EXIT_NO_DESCRIPTOR = 111
EXIT_FAILED = 112
EXIT_BAD_CASES = 113


class DescriptorError(ValueError):
    """POPCORN_FD is set to something that cannot be written to."""


class Protocol:
    """Writes results as they come. A value is one line: line breaks in it become ' / '."""

    def __init__(self, descriptor: str) -> None:
        try:
            self._file = os.fdopen(int(descriptor), "w", encoding="utf-8")
            self._file.flush()
        except (ValueError, OSError) as error:
            raise DescriptorError(f"{FD_VARIABLE} is '{descriptor}': {error}") from error

    def __enter__(self) -> Protocol:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self._file.close()

    def log(self, key: str, value: object) -> None:
        """Writes one line and flushes it, so that a crash loses nothing."""
        self._file.write(f"{key}: {' / '.join(str(value).splitlines())}\n")
        self._file.flush()


def secret_seed() -> int | None:
    """POPCORN_SEED, if set. Raises ValueError if it is no integer."""
    text = os.environ.get(SEED_VARIABLE)
    if not text:
        return None
    try:
        return int(text)
    except ValueError:
        raise ValueError(f"{SEED_VARIABLE} is '{text}'; expected an integer") from None


@contextlib.contextmanager
def hidden_from_children() -> Iterator[None]:
    """Processes started in the block know neither the descriptor nor the secret seed."""
    hidden = {name: os.environ.pop(name) for name in (FD_VARIABLE, SEED_VARIABLE) if name in os.environ}
    try:
        yield
    finally:
        os.environ.update(hidden)
