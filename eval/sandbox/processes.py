"""Processes in /proc: their parents, descendants and ancestors."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

_PROC = Path("/proc")
MOST_PROTECTED = 400  # a filter has room for a few thousand instructions


def parent_of(pid: int) -> int:
    """The parent of a process; 0 if it has none or has ended."""
    try:
        text = (_PROC / str(pid) / "stat").read_text(errors="replace")
    except OSError:
        return 0
    return int(text.rpartition(")")[2].split()[1])  # the name may contain parentheses


def descendants(pid: int) -> list[int]:
    """Every process below `pid`, zombies included."""
    children: dict[int, list[int]] = {}
    for entry in _PROC.iterdir():
        if entry.name.isdecimal():
            children.setdefault(parent_of(int(entry.name)), []).append(int(entry.name))
    found, stack = [], [pid]
    while stack:
        below = children.get(stack.pop(), [])
        found += below
        stack += below
    return found


def ancestors(pid: int) -> list[int]:
    """The processes above `pid`, nearest first."""
    found = []
    while pid := parent_of(pid):
        found.append(pid)
    return found


def ran_and_waited(pid: int) -> tuple[int, int]:
    """How long a process's threads have run, and how long they waited for a processor, in ns; zeros if unknown."""
    ran = waited = 0
    for thread in (_PROC / str(pid) / "task").glob("*"):
        with contextlib.suppress(OSError, ValueError):  # it has ended; a kernel without CONFIG_SCHED_INFO
            each = (thread / "schedstat").read_text().split()
            ran, waited = ran + int(each[0]), waited + int(each[1])
    return ran, waited


def protected_from(pid: int) -> list[int]:
    """What a process must not signal or slow: its ancestors' threads, and (negative) their process groups."""
    threads, groups = [], []
    for above in ancestors(pid):
        threads.append(above)
        try:
            tasks = [int(task.name) for task in (_PROC / str(above) / "task").iterdir()]
            threads += [task for task in tasks if task != above]
            groups.append(-os.getpgid(above))
        except OSError:  # it has ended, or belongs to another user
            continue
    return [*dict.fromkeys(group for group in groups if group < -1), *threads][:MOST_PROTECTED]
