"""How busy the machine is: how much of their time processes wait for a processor."""

from __future__ import annotations

import contextlib
from pathlib import Path

MOST_WAITING = 0.1  # of the time: more, and the machine is busy


def ran_and_waited(pid: int) -> tuple[int, int]:
    """How long a process's threads have run, and how long they waited for a processor, in ns; zeros if unknown."""
    ran = waited = 0
    for thread in Path(f"/proc/{pid}/task").glob("*"):
        with contextlib.suppress(OSError, ValueError):  # it has ended; a kernel without CONFIG_SCHED_INFO
            each = (thread / "schedstat").read_text().split()
            ran, waited = ran + int(each[0]), waited + int(each[1])
    return ran, waited


class Load:
    """What some processes ran and waited in the stretches between `begin` and `end`."""

    def __init__(self) -> None:
        self._ran = self._waited = 0
        self._before: dict[int, tuple[int, int]] = {}

    def begin(self, *pids: int) -> None:
        """Begins a stretch."""
        self._before = {pid: ran_and_waited(pid) for pid in pids}

    def end(self) -> None:
        """Ends it."""
        for pid, before in self._before.items():
            after = ran_and_waited(pid)
            self._ran += max(0, after[0] - before[0])
            self._waited += max(0, after[1] - before[1])

    @property
    def waiting(self) -> float:
        """The part of their time that they waited for a processor; all of it if nothing is known."""
        return self._waited / (self._ran + self._waited) if self._ran else 1.0

    @property
    def busy(self) -> bool:
        """Whether the machine was busy, or nothing is known of it."""
        return self.waiting > MOST_WAITING
