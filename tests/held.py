"""What a process holds, for tests that ask whether calls give back what they take."""

from __future__ import annotations

import ctypes
import os
import subprocess
import sys
from collections.abc import Callable
from pathlib import Path

import pytest

RUNS, ROUNDS = 8, 4
LEAST_BLOCK = 16  # of glibc's allocator


class Mallinfo(ctypes.Structure):
    """struct mallinfo2 of glibc."""

    _fields_ = [(f"field_{number}", ctypes.c_size_t) for number in range(10)]
    MAPPED, IN_USE = 4, 7  # hblkhd, uordblks


MALLINFO = getattr(ctypes.CDLL(None), "mallinfo2", None)


def held() -> tuple[int, int, int]:
    """Bytes of the heap in use, open files, threads: of this process."""
    assert MALLINFO is not None
    MALLINFO.restype = Mallinfo
    info = bytes(MALLINFO())
    sizes = [int.from_bytes(info[at : at + 8], "little") for at in range(0, len(info), 8)]
    files, threads = (len(list(Path("/proc/self", name).iterdir())) for name in ("fd", "task"))
    return sizes[Mallinfo.MAPPED] + sizes[Mallinfo.IN_USE], files, threads


def print_what_stays(name: str, action: Callable[[], object]) -> None:
    """A line: how much more is held after RUNS runs; the least of some rounds, since Python takes memory at times."""
    rounds = []
    for _ in range(ROUNDS):
        before = held()
        for _ in range(RUNS):
            action()
        rounds.append([b - a for a, b in zip(before, held(), strict=True)])
    print(name, *map(min, zip(*rounds, strict=True)))


def assert_all_is_given_back(root: Path, module: str, lines: int) -> None:
    """A module's main(), which prints what stays line by line, in a process in which nothing else takes memory."""
    if MALLINFO is None:
        pytest.skip("needs glibc's mallinfo2")
    command = [sys.executable, "-c", f"from {module} import main; main()"]
    # A block in a thread's cache counts as one in use.
    environment = {**os.environ, "GLIBC_TUNABLES": "glibc.malloc.tcache_count=0"}
    done = subprocess.run(command, cwd=root, capture_output=True, text=True, env=environment)
    assert done.returncode == 0, done.stderr
    found = [line.split() for line in done.stdout.splitlines()]
    assert len(found) == lines, done.stdout
    for *name, heap, files, threads in found:
        assert int(heap) < RUNS * LEAST_BLOCK and (files, threads) == ("0", "0"), (name, heap, files, threads)
