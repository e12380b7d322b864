"""The keeper: the process between the harness and a worker, which ends everything that the submission started.

It does so when the worker ends, when the harness closes its end of the lifeline, and when the harness has ended for
whatever reason. Orphans, daemons included, become children of the nearest sub-reaper above them, which is the keeper.
"""

from __future__ import annotations

import contextlib
import os
import signal
import time
from collections.abc import Sequence
from multiprocessing.connection import Connection, wait
from typing import NoReturn, Protocol

from eval.sandbox import kernel, processes

GIVE_UP_S = 4.0  # a process that cannot be killed for so long hangs in the kernel
_LOOK_AGAIN_S = 0.002
_REAP_S = 5.0  # how often ended orphans are collected while the worker runs
_WITHOUT_PIDFD_S = 0.05  # how often to poll the worker on kernels without pidfd (before Linux 5.3)
_STOP_PASSES = 50
_GONE = 1  # the exit code if the worker's own is unknown


def _signal_all(pids: Sequence[int], number: int) -> None:
    for pid in pids:
        with contextlib.suppress(ProcessLookupError, PermissionError):
            os.kill(pid, number)


def _reap(worker: int) -> int | None:
    """Reaps every child that has ended. Returns the worker's status if it is one of them."""
    status = None
    with contextlib.suppress(ChildProcessError):
        while (ended := os.waitpid(-1, os.WNOHANG))[0] != 0:
            if ended[0] == worker:
                status = ended[1]
    return status


def _end_below(worker: int) -> int | None:
    """Ends every process below this one; the worker's status if it had not been collected before."""
    status, deadline = None, time.monotonic() + GIVE_UP_S
    while (below := processes.descendants(os.getpid())) and time.monotonic() < deadline:
        stopped: set[int] = set()
        for _ in range(_STOP_PASSES):  # first nothing more is started, then all of it ends
            fresh = [pid for pid in below if pid not in stopped]
            if not fresh:
                break
            _signal_all(fresh, signal.SIGSTOP)
            stopped.update(fresh)
            below = processes.descendants(os.getpid())
        _signal_all(below, signal.SIGKILL)
        found = _reap(worker)
        status = found if found is not None else status
        time.sleep(_LOOK_AGAIN_S)
    return status


def _watch(worker: int, lifeline: Connection) -> NoReturn:
    """Waits for the worker or the harness to end, ends what is left, and exits as the worker did."""
    watched: list[Connection | int] = [lifeline]
    every = _WITHOUT_PIDFD_S
    with contextlib.suppress(AttributeError, OSError):
        watched.append(os.pidfd_open(worker))
        every = _REAP_S
    status = None
    while status is None and lifeline not in wait(watched, every):
        status = _reap(worker)
    ended = _end_below(worker)
    status = status if status is not None else ended
    if status is not None and os.WIFSIGNALED(status):
        signal.signal(signal.SIGCHLD, signal.SIG_DFL)
        with contextlib.suppress(OSError, ValueError):  # SIGKILL has no handler to put back
            signal.signal(os.WTERMSIG(status), signal.SIG_DFL)
        os.kill(os.getpid(), os.WTERMSIG(status))
    os._exit(_GONE if status is None else os.waitstatus_to_exitcode(status) & 0xFF)


class Closable(Protocol):
    """What only the worker keeps open."""

    def close(self) -> None:
        """Closes it."""


def keep(lifeline: Connection, connections: Sequence[Closable]) -> None:
    """Forks: returns in the new process, which becomes the worker; the caller becomes its keeper and never returns.

    `lifeline` is the end to read from; the keeper closes `connections`. The process must have only one thread.
    """
    os.setsid()  # the harness alone handles a terminal's signals
    with contextlib.suppress(kernel.Refused):  # then daemons fall to the system, and `descendants` does not see them
        kernel.prctl(kernel.PR_SET_CHILD_SUBREAPER, 1)
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
    nowhere = os.open(os.devnull, os.O_RDWR)
    for descriptor in range(3):
        os.dup2(nowhere, descriptor)
    for connection in connections:
        connection.close()
    _watch(worker, lifeline)
