"""Memory, open files and threads of a process, for tests that a call releases what it takes."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

RUNS, ROUNDS = 4, 3
LEAST_BLOCK = 16  # bytes, the smallest block of glibc's allocator


class Mallinfo(ctypes.Structure):
    """struct mallinfo2 of glibc."""

    _fields_ = [(f"field_{number}", ctypes.c_size_t) for number in range(10)]
    MAPPED, IN_USE = 4, 7  # hblkhd, uordblks


MALLINFO = getattr(ctypes.CDLL(None), "mallinfo2", None)


def held() -> tuple[int, int, int]:
    """Heap bytes in use, open files and threads of this process."""
    assert MALLINFO is not None
    MALLINFO.restype = Mallinfo
    info = bytes(MALLINFO())
    sizes = [int.from_bytes(info[at : at + 8], "little") for at in range(0, len(info), 8)]
    files, threads = (len(list(Path("/proc/self", name).iterdir())) for name in ("fd", "task"))
    return sizes[Mallinfo.MAPPED] + sizes[Mallinfo.IN_USE], files, threads


def print_what_stays(name: str, action: Callable[[], object]) -> None:
    """Prints how much more is held after RUNS runs: the least of some rounds, since Python allocates at times.

    A thread may be listed for a moment after it was joined.
    """
    rounds = []
    for _ in range(ROUNDS):
        before = held()
        for _ in range(RUNS):
            action()
        rounds.append([max(0, b - a) for a, b in zip(before, held(), strict=True)])
    print(name, *map(min, zip(*rounds, strict=True)))


def assert_all_is_given_back(root: Path, module: str, lines: int) -> None:
    """Runs a module's main(), which prints what stays, in a process of its own and asserts that nothing does."""
    if MALLINFO is None:
        pytest.skip("needs glibc's mallinfo2")
    command = [sys.executable, "-c", f"from {module} import main; main()"]
    # Without this, blocks in a thread's cache would count as in use.
    environment = {**os.environ, "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    found = [line.split() for line in done.stdout.splitlines()]
    assert len(found) == lines, done.stdout
    for *name, heap, files, threads in found:
        assert int(heap) < RUNS * LEAST_BLOCK and (files, threads) == ("0", "0"), (name, heap, files, threads)
