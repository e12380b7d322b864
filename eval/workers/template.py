"""The template: a process that has imported torch and waits; each worker is a fork of it.

Importing torch takes seconds, and every case has its own worker. The template knows no case, seed or submission.
A worker cannot reach it: the template is an ancestor, which the sandbox protects, and every fork closes its socket.
This module imports nothing that takes long.
"""

from __future__ import annotations

import atexit
import contextlib
import multiprocessing
import os
import pickle
import select
import signal
import socket
import struct
import sys
import threading
import time
from collections.abc import Sequence
from multiprocessing.connection import wait
from pathlib import Path
from typing import Any

from eval.output.protocol import hidden_from_children
from eval.sandbox import kernel, lifetime

_NUMBER = struct.Struct("<i")  # one int; a status socket carries two in turn: the process id, then the exit code
_REQUEST_BYTES = 1 << 16
_MOST_DESCRIPTORS = 16
_WITHOUT_PIDFD_MS = 50  # how often to poll children on kernels without pidfd (before Linux 5.3)


class Child:
    """The harness's handle to a keeper, and through it to a worker."""

    def __init__(self, status: socket.socket) -> None:
        self._status = status
        self._pid = 0
        self._over = False
        self.exitcode: int | None = None  # negative for a signal; None while it runs, or if unknown

    def join(self, patience_s: float) -> bool:
        """Waits for the process to end. Returns whether it has."""
        deadline = time.monotonic() + patience_s
        while not self._over and wait([self._status], max(0.0, deadline - time.monotonic())):
            try:
                said = self._status.recv(_NUMBER.size)
            except OSError:
                said = b""
            if len(said) != _NUMBER.size:  # the template has ended
                self._over = True
            elif not self._pid:
                (self._pid,) = _NUMBER.unpack(said)
            else:
                (self.exitcode,) = _NUMBER.unpack(said)
                self._over = True
        return self._over

    def kill(self) -> None:
        """Kills the process, if it has started and has not ended."""
        if not self.join(0.0) and self._pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)

    def close(self) -> None:
        """Closes the handle."""
        self._status.close()


class _Template:
    """The harness's handle to a template."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # PR_SET_PDEATHSIG refers to the thread that starts the child: only the main one lives as long as the process.
        bound = threading.current_thread() is threading.main_thread()
        # Not a daemon: daemons and their forks may not start processes, and compilers must.
        self._process = multiprocessing.get_context("spawn").Process(target=_serve, args=(theirs, os.getpid(), bound))
        with lifetime.signals_held():
            self._process.start()
        theirs.close()

    def alive(self) -> bool:
        """Whether the template still runs."""
        return os.getpid() == self._owner and self._process.is_alive()

    def fork(self, request: bytes, descriptors: Sequence[int]) -> None:
        """Asks for a fork. If the template has ended, the missing answer reveals it."""
        with contextlib.suppress(OSError):
            socket.send_fds(self._socket, [request], list(descriptors))

    def retire(self) -> None:
        """Lets the template end after its last fork."""
        self._socket.close()

    def kill(self) -> None:
        """Kills the template, unless this process is a fork of the template's owner."""
        self._socket.close()
        if os.getpid() != self._owner:
            return
        self._process.kill()
        self._process.join()


_template: _Template | None = None
_made_for: tuple[object, ...] = ()
_lock = threading.Lock()


def _current() -> _Template:
    """The template for this process's environment, folder and module path; starts one if there is none.

    The caller holds the lock and hides the secrets.
    """
    global _template, _made_for
    wanted = (os.getpid(), dict(os.environ), str(Path.cwd()), tuple(sys.path))
    if _template is not None and (wanted != _made_for or not _template.alive()):
        if wanted[0] == _made_for[0]:  # a fork of this process leaves its parent's template alone
            _template.retire()
        _template = None
    if _template is None:
        _template, _made_for = _Template(), wanted
        atexit.register(_template.kill)
    return _template


def prepare() -> None:
    """Starts the template early: it imports torch while this process does so too."""
    with _lock, hidden_from_children():
        _current()


def start(setup: object, descriptors: Sequence[int]) -> Child:
    """Starts a keeper and its worker, which runs eval.workers.worker.main(setup, *descriptors).

    The worker has this process's current environment, folder and module path.
    """
    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with _lock, hidden_from_children():
        _current().fork(pickle.dumps(setup), (theirs.fileno(), *descriptors))
    theirs.close()
    return Child(mine)


def _reported(children: dict[int, tuple[int, int]], patience_ms: float | None, requests: int) -> bool:
    """Waits for a request or the end of a child, and reports ended children. Returns whether there is a request."""
    poll = select.poll()
    if requests >= 0:
        poll.register(requests, select.POLLIN)
    for _, (pidfd, _) in children.items():
        if pidfd >= 0:
            poll.register(pidfd, select.POLLIN)
        else:
            patience_ms = _WITHOUT_PIDFD_MS
    ready = {descriptor for descriptor, _ in poll.poll(patience_ms)}
    for pid, (pidfd, status) in list(children.items()):
        ended, code = os.waitpid(pid, os.WNOHANG)
        if ended:
            del children[pid]
            with contextlib.suppress(OSError):
                os.write(status, _NUMBER.pack(os.waitstatus_to_exitcode(code)))
            for descriptor in (pidfd, status):
                if descriptor >= 0:
                    os.close(descriptor)
    return requests in ready


def _serve(requests: socket.socket, harness: int, bound: bool) -> None:
    """Serves fork requests. Returns in each fork after its worker.main, and in the template after the last one."""
    os.setsid()  # the harness alone handles a terminal's signals
    if sys.platform == "linux":
        with contextlib.suppress(kernel.Refused):
            kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
            if bound:
                kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != harness:
        return
    from eval.workers import worker

    children: dict[int, tuple[int, int]] = {}  # by process: its pidfd, and where to report its end
    asked = True
    while asked or children:
        if not _reported(children, None, requests.fileno() if asked else -1):
            continue
        raw, descriptors, _, _ = socket.recv_fds(requests, _REQUEST_BYTES, _MOST_DESCRIPTORS)
        if not raw:
            asked = False
            continue
        pid = os.fork()
        if pid == 0:
            requests.close()
            for pidfd, status in children.values():
                for descriptor in (pidfd, status):
                    if descriptor >= 0:
                        os.close(descriptor)
            _begin(worker.main, pickle.loads(raw), descriptors)
            return
        status, *workers = descriptors
        for descriptor in workers:
            os.close(descriptor)
        with contextlib.suppress(OSError):
            os.write(status, _NUMBER.pack(pid))
        pidfd = -1
        with contextlib.suppress(AttributeError, OSError):
            pidfd = os.pidfd_open(pid)
        children[pid] = (pidfd, status)


def _begin(main: Any, setup: object, descriptors: Sequence[int]) -> None:
    """Runs the worker in the fork."""
    status, *own = descriptors
    os.close(status)
    if sys.platform == "linux":
        with contextlib.suppress(kernel.Refused):
            kernel.prctl(kernel.PR_SET_DUMPABLE, 1)
    main(setup, *own)
