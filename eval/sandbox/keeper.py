"""The keeper: the process between the harness and a worker, which ends everything that the submission started.

It does so when the worker ends, when the harness closes its end of the lifeline, and when the harness has ended for
whatever reason. Orphans, daemons included, become children of the nearest sub-reaper above them, which is the keeper.
"""

from __future__ import annotations

import contextlib
import itertools
import os
import signal
import socket
import struct
import time
from collections.abc import Sequence
from multiprocessing.connection import wait
from pathlib import Path
from typing import NoReturn

from eval.sandbox import kernel, landlock, privileges

# A process that survives SIGKILL for this long, and for so many looks, hangs in the kernel.  A keeper that was not
# scheduled for as long has not looked.
GIVE_UP_S, GIVE_UP_LOOKS = 4.0, 100
# What the keeper says on the lifeline at its end: the worker's exit code, and whether a process survives.
LAST_WORD = struct.Struct("<i?")
_LOOK_AGAIN_S = 0.002
_REAP_S = 5.0  # how often ended orphans are reaped while the worker runs
_MOST_REAPED = 10_000  # at a time
_ALL = 0x40000000  # __WALL (linux/wait.h): children by clone() with any signal
_GONE = 1  # the exit code if the worker's own is unknown


def _reap(worker: int) -> tuple[int | None, bool]:
    """Reaps children that have ended. Returns the worker's status if it is one of them, and whether a child is left.

    Every orphan below a sub-reaper becomes its child, so without children there are no descendants either.
    """
    status = None
    try:
        for _ in range(_MOST_REAPED):  # a submission may end processes faster than this reaps them
            if (ended := os.waitpid(-1, os.WNOHANG | _ALL))[0] == 0:
                break
            status = ended[1] if ended[0] == worker else status
    except ChildProcessError:
        return status, False
    return status, True


def _confine_signals() -> bool:
    """Restricts this process's signals to itself and its descendants. Returns whether the kernel does so.

    Then one kill(-1) reaches all descendants at once, however fast they fork, and nothing else.
    """
    outside = os.getppid()
    try:
        os.kill(outside, 0)  # allowed until now: else the second attempt would prove nothing
        privileges.forbid_new_privileges()
        landlock.scope_signals()
    except OSError:
        return False
    try:
        os.kill(outside, 0)
    except PermissionError:
        return True
    return False


def _kill_children() -> None:
    """Kills this process's children, for kernels that cannot confine signals. Theirs then become its own."""
    for pid in Path("/proc/thread-self/children").read_text().split():
        os.kill(int(pid), signal.SIGKILL)


def _end_below(worker: int, confined: bool) -> tuple[int | None, bool]:
    """Ends every process below this one. Returns the worker's status, if it was not reaped before, and whether a
    process survives."""
    status, deadline = None, time.monotonic() + GIVE_UP_S
    for looks in itertools.count(1):
        with contextlib.suppress(OSError):
            if confined:
                os.kill(-1, signal.SIGKILL)
            else:
                _kill_children()
        found, left = _reap(worker)
        status = found if found is not None else status
        if not left or (looks >= GIVE_UP_LOOKS and time.monotonic() > deadline):
            return status, left
        time.sleep(_LOOK_AGAIN_S)


def _watch(worker: int, lifeline: socket.socket, confined: bool) -> NoReturn:
    """Waits for the worker or the harness to end, ends what is left, and says how it went."""
    watched = [lifeline, os.pidfd_open(worker)]
    status = None
    while status is None and lifeline not in wait(watched, _REAP_S):
        status, _ = _reap(worker)
    ended, left = _end_below(worker, confined)
    status = status if status is not None else ended
    code = _GONE if status is None else os.waitstatus_to_exitcode(status)
    with contextlib.suppress(OSError):  # the harness may have ended
        lifeline.send(LAST_WORD.pack(code, left))
    os._exit(0)


def keep(lifeline: socket.socket, descriptors: Sequence[int]) -> None:
    """Forks: returns in the new process, which becomes the worker; the caller becomes its keeper and never returns.

    The keeper watches `lifeline` and closes `descriptors`. The process must have only one thread.
    """
    os.setsid()  # the harness alone handles a terminal's signals
    with contextlib.suppress(kernel.Refused):
        kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
    confined = _confine_signals()
    keeper = os.getpid()
    worker = os.fork()
    if worker == 0:
        os.setsid()
        with contextlib.suppress(kernel.Refused):
            kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
        if os.getppid() != keeper:
            os._exit(_GONE)
        lifeline.close()
        signal.pthread_sigmask(signal.SIG_SETMASK, ())
        return
    for number in (signal.SIGINT, signal.SIGTERM, signal.SIGHUP):
        signal.signal(number, signal.SIG_IGN)
    with contextlib.suppress(kernel.Refused):  # keeps the worker out where there is no Landlock
        kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nowhere, descriptor)
    for descriptor in descriptors:
        os.close(descriptor)
    _watch(worker, lifeline, confined)
