"""The template: a process that has imported torch and waits; each worker is a copy of it, made by fork.

Importing torch takes seconds, and every case has a worker of its own. The template knows no case, seed or submission.
A worker cannot reach it: it is one of the ancestors that the sandbox protects, and its socket is closed in every copy.
Imports nothing that takes long.
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
from multiprocessing.connection import Connection, wait
from pathlib import Path
from typing import Any

from eval.output.protocol import hidden_from_children
from eval.sandbox import kernel, lifetime

_NUMBER = struct.Struct("<i")  # a process's number, then its exit code
_REQUEST_BYTES = 1 << 16
_DESCRIPTORS = 3
_WITHOUT_PIDFD_MS = 50  # how often children are looked at where the kernel cannot tell (before Linux 5.3)
_FAILED = 1


class Child:
    """A keeper, and through it a worker, as the harness knows it."""

    def __init__(self, status: socket.socket) -> None:
        self._status = status
        self._pid = 0
        self._over = False
        self.exitcode: int | None = None  # negative for a signal; None as long as it runs, and where it is not known

    def join(self, patience_s: float) -> bool:
        """Waits for the end; whether it has come."""
        deadline = time.monotonic() + patience_s
        while not self._over and wait([self._status], max(0.0, deadline - time.monotonic())):
            try:
                said = self._status.recv(_NUMBER.size)
            except OSError:
                said = b""
            if len(said) != _NUMBER.size:  # the template is gone
                self._over = True
            elif not self._pid:
                (self._pid,) = _NUMBER.unpack(said)
            else:
                (self.exitcode,) = _NUMBER.unpack(said)
                self._over = True
        return self._over

    def kill(self) -> None:
        """Ends it by force, if it has begun and is not known to have ended."""
        if not self.join(0.0) and self._pid:
            with contextlib.suppress(ProcessLookupError):
                os.kill(self._pid, signal.SIGKILL)

    def close(self) -> None:
        """Hears no more of it."""
        self._status.close()


class _Template:
    """A template as the harness knows it."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # The kernel ties a child to the thread that started it: only the main one lives as long as the process.
        bound = threading.current_thread() is threading.main_thread()
        # Not a daemon, nor are its copies: those may not start processes, which compilers do.
        self._process = multiprocessing.get_context("spawn").Process(target=_serve, args=(theirs, os.getpid(), bound))
        with lifetime.signals_held():
            self._process.start()
        theirs.close()

    def alive(self) -> bool:
        """Whether it has not ended."""
        return os.getpid() == self._owner and self._process.is_alive()

    def fork(self, request: bytes, descriptors: Sequence[int]) -> None:
        """Asks for a copy. That it has ended meanwhile is told by the answer that does not come."""
        with contextlib.suppress(OSError):
            socket.send_fds(self._socket, [request], list(descriptors))

    def retire(self) -> None:
        """Lets it end after the last of its copies."""
        self._socket.close()

    def kill(self) -> None:
        """Ends it at once, unless this is a copy by fork of the process whose template it is."""
        self._socket.close()
        if os.getpid() != self._owner:
            return
        self._process.kill()
        self._process.join()


_template: _Template | None = None
_made_for: tuple[object, ...] = ()
_lock = threading.Lock()


def _current() -> _Template:
    """The template that fits this process as it is now, made if there is none. The caller holds the lock and hides."""
    global _template, _made_for
    wanted = (os.getpid(), dict(os.environ), str(Path.cwd()), tuple(sys.path))
    if _template is not None and (wanted != _made_for or not _template.alive()):
        if wanted[0] == _made_for[0]:  # a copy of this process by fork leaves its parent's alone
            _template.retire()
        _template = None
    if _template is None:
        _template, _made_for = _Template(), wanted
        atexit.register(_template.kill)
    return _template


def prepare() -> None:
    """Starts the template, so that it imports torch while this process does other things, such as the same."""
    with _lock, hidden_from_children():
        _current()


def start(setup: object, end: socket.socket, lifeline: Connection) -> Child:
    """Starts a keeper and its worker: eval.workers.worker.main(setup, end, lifeline) in a process of its own.

    It has the environment, the folder and the module path of this process as they are now.
    """
    mine, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
    with _lock, hidden_from_children():
        _current().fork(pickle.dumps(setup), (end.fileno(), lifeline.fileno(), theirs.fileno()))
    theirs.close()
    return Child(mine)


def _reported(children: dict[int, tuple[int, int]], patience_ms: float | None, requests: int) -> bool:
    """Waits for a request or an end, tells the harness of every child that has ended; whether there is a request."""
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
    """The template's life; returns in each worker when that has ended, and in itself when no one asks any more."""
    os.setsid()  # a terminal's signals are the harness's to handle
    if sys.platform == "linux":
        with contextlib.suppress(kernel.Refused):
            kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
            if bound:
                kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != harness:
        return
    from eval.workers import worker

    children: dict[int, tuple[int, int]] = {}  # by process: what tells of its end, and where to report it
    asked = True
    while asked or children:
        if not _reported(children, None, requests.fileno() if asked else -1):
            continue
        raw, descriptors, _, _ = socket.recv_fds(requests, _REQUEST_BYTES, _DESCRIPTORS)
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
        end, lifeline, status = descriptors
        os.close(end)
        os.close(lifeline)
        with contextlib.suppress(OSError):
            os.write(status, _NUMBER.pack(pid))
        pidfd = -1
        with contextlib.suppress(AttributeError, OSError):
            pidfd = os.pidfd_open(pid)
        children[pid] = (pidfd, status)


def _begin(main: Any, setup: object, descriptors: Sequence[int]) -> None:
    """The worker's life, in the copy."""
    end, lifeline, status = descriptors
    os.close(status)
    if sys.platform == "linux":
        with contextlib.suppress(kernel.Refused):
            kernel.prctl(kernel.PR_SET_DUMPABLE, 1)
    main(setup, socket.socket(fileno=end), Connection(lifeline, writable=False))
