"""Whether a case fits into memory; if not, the case file is at fault and not the submission."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import torch

from eval.cases import Case
from eval.lending.layout import Layout
from reference.problems.interface import Shape, parts

MEMORY_SHARE = 0.5  # of free memory, for inputs and outputs
_CGROUP = Path("/sys/fs/cgroup")


def needed_bytes(shape: Shape) -> int:
    """The memory that judging one call needs at least: input and output twice, and the reference's memory."""
    lent = sum(block.bytes for block in (*shape.inputs(), *parts(shape.output())))
    return 2 * lent + shape.checking_bytes()


def available_bytes(device: torch.device) -> int:
    """Free memory of a device. On a CPU it includes caches that the system can drop, within the cgroup's limit."""
    if device.type == "cuda":
        return torch.cuda.mem_get_info(device)[0]
    available = os.sysconf("SC_AVPHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
    with contextlib.suppress(OSError, ValueError, IndexError):
        lines = Path("/proc/meminfo").read_text().splitlines()
        available = next(int(line.split()[1]) for line in lines if line.startswith("MemAvailable:")) << 10
    with contextlib.suppress(OSError, ValueError):
        most, used = (int((_CGROUP / name).read_text()) for name in ("memory.max", "memory.current"))
        available = min(available, most - used)
    return available


def inputs_that_fit(shape: Shape, device: torch.device, wanted: int) -> int:
    """How many inputs, with their staged copies and kept outputs, fit in half of the free memory: 1 to `wanted`."""
    each = 2 * Layout(shape).call_bytes
    return max(1, min(wanted, int(available_bytes(device) * MEMORY_SHARE / each)))


def gib(count: int) -> str:
    """A number of bytes in GiB, as text."""
    return f"{count / (1 << 30):.3g} GiB"


def does_not_fit(case: Case, device: torch.device) -> str:
    """Why a case does not fit into memory; empty if it does."""
    needed, available = needed_bytes(case.shape), available_bytes(device)
    if needed <= available:
        return ""
    return f"the case is too large for this machine: it needs at least {gib(needed)}, {gib(available)} are free"
