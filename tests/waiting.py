"""Waiting for other processes: on a busy machine any of them may stand still for seconds."""

from __future__ import annotations

import time
from collections.abc import Callable
from pathlib import Path

LONG_S = 100.0


def until(condition: Callable[[], object]) -> bool:
    """Waits until a condition holds. Returns whether it does in the end."""
    deadline = time.monotonic() + LONG_S
    while not condition():
        if time.monotonic() > deadline:
            return False
        time.sleep(0.01)
    return True


def alive(pid: int) -> bool:
    """Whether a process runs, by /proc; one that has ended may wait there to be collected."""
    try:
        state = Path(f"/proc/{pid}/stat").read_text().rpartition(")")[2].split()[0]
    except OSError:
        return False
    return state not in "ZX"
