"""Gives up privileges: capabilities, their return by exec, unlimited resources, and protection from the OOM killer."""

from __future__ import annotations

import contextlib
import ctypes
import itertools
import os
import resource
from pathlib import Path

from eval.sandbox import kernel

_CAPABILITY_VERSION_3 = 0x20080522  # linux/capability.h

# The largest file, also in /dev/shm: a compiler's cache or a shared tensor fits, a sparse file of a terabyte does not.
FILE_BYTES = 16 << 30
# Threads and processes beyond those that there are already (the kernel exempts root).
MORE_PROCESSES = 8192
# Signals that may wait; those of all programs of a user count, and each timer needs one.
WAITING_SIGNALS = 1024
# Makes the kernel end a process first when memory runs out (proc(5), oom_score_adj).
_FIRST_TO_END = "1000"


def drop_capabilities() -> str:
    """Empties every capability set of this thread and of programs that it executes."""
    for capability in itertools.count():
        try:
            kernel.prctl(kernel.PR_CAPBSET_DROP, capability)
        except kernel.Refused as refused:
            if refused.errno == 1:  # EPERM: an ordinary user has no capability to drop
                break
            if capability == 0:
                raise
            break  # EINVAL: past the last one
    with contextlib.suppress(kernel.Refused):  # the kernel has no ambient capabilities
        kernel.prctl(kernel.PR_CAP_AMBIENT, kernel.PR_CAP_AMBIENT_CLEAR_ALL)
    header = (ctypes.c_uint32 * 2)(_CAPABILITY_VERSION_3, 0)
    kernel.call("capset", header, (ctypes.c_uint32 * 6)())
    return "none"


def forbid_new_privileges() -> str:
    """Keeps programs that are executed from now on from gaining privileges."""
    kernel.prctl(kernel.PR_SET_NO_NEW_PRIVS, 1)
    return "on"


def _lower(kind: int, value: int) -> None:
    """Lowers a limit, hard and soft, never raising one."""
    _, hard = resource.getrlimit(kind)
    if hard != resource.RLIM_INFINITY:
        value = min(value, hard)
    resource.setrlimit(kind, (value, value))


def _threads() -> int:
    """The number of threads on this machine: at least those of this user, which RLIMIT_NPROC limits."""
    return int(Path("/proc/loadavg").read_text().split("/")[1].split()[0])


def let_end_first(pid: int) -> None:
    """Makes the kernel end a process, and what it starts, first when memory runs out. /proc is read-only for itself."""
    with contextlib.suppress(OSError):  # it has ended; /proc is read-only in some containers
        Path(f"/proc/{pid}/oom_score_adj").write_text(_FIRST_TO_END)


def limit_resources(on_cpu: bool) -> str:
    """Limits file sizes, processes, core dumps and, on a CPU, memory. Returns the limits as text.

    With CUDA memory is not limited, because it maps address space far beyond the machine's memory.
    """
    _lower(resource.RLIMIT_CORE, 1)  # no file is so small, and a program that takes core dumps gets none (core(5))
    for kind in (resource.RLIMIT_RTPRIO, resource.RLIMIT_NICE):  # real-time threads would starve the harness
        _lower(kind, 0)
    _lower(resource.RLIMIT_SIGPENDING, WAITING_SIGNALS)
    _lower(resource.RLIMIT_FSIZE, FILE_BYTES)
    _lower(resource.RLIMIT_NPROC, _threads() + MORE_PROCESSES)
    said = f"files {FILE_BYTES >> 30} GiB, {MORE_PROCESSES} more processes"
    if on_cpu:
        memory = os.sysconf("SC_PHYS_PAGES") * os.sysconf("SC_PAGE_SIZE")
        _lower(resource.RLIMIT_DATA, memory)
        said += f", data {memory >> 30} GiB"
    return said
