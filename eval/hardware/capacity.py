"""Whether a case fits into the memory there is: one that does not is the case's fault, not the submission's."""

from __future__ import annotations

import contextlib
import os
from pathlib import Path

import torch

from eval.cases import Case
from reference.problems.interface import Shape, parts

_CGROUP = Path("/sys/fs/cgroup")


def needed_bytes(shape: Shape) -> int:
    """What judging one call takes at least: its input and output twice, and what the reference needs."""
    lent = sum(block.bytes for block in (*shape.inputs(), *parts(shape.output())))
    return 2 * lent + shape.checking_bytes()


def available_bytes(device: torch.device) -> int:
    """Memory that can be had on a device, what the system would give up included; within the control group's limit."""
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


def gib(count: int) -> str:
    """A number of bytes as people read it."""
    return f"{count / (1 << 30):.3g} GiB"


def does_not_fit(case: Case, device: torch.device) -> str:
    """Why a case cannot be judged here; empty if it can."""
    needed, available = needed_bytes(case.shape), available_bytes(device)
    if needed <= available:
        return ""
    return f"the case is too large for this machine: it needs at least {gib(needed)}, {gib(available)} are free"
