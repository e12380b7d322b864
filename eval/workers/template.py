"""The template: a process that has imported torch and waits; each worker is a fork of it.

Importing torch takes seconds, and every case has its own worker. The template knows no case, seed or submission.
A worker cannot reach it: the template is an ancestor, which the sandbox protects, and every fork closes its socket.
This module imports nothing that takes long.
"""

from __future__ import annotations

import atexit
import contextlib
import os
import pickle
import signal
import socket
import subprocess
import sys
import threading
from collections.abc import Sequence
from pathlib import Path

from eval.output.protocol import hidden_from_children
from eval.sandbox import kernel, lifetime

_REQUEST_BYTES = 1 << 16
_MOST_DESCRIPTORS = 16
_KINETO_SILENT = "99"  # above all of its levels
_PROGRAM = (
    "import sys; sys.path[:] = {path}; from eval.workers.template import serve; serve({socket}, {owner}, {bound})"
)


class _Template:
    """The harness's handle to a template."""

    def __init__(self) -> None:
        self._owner = os.getpid()
        self._socket, theirs = socket.socketpair(socket.AF_UNIX, socket.SOCK_SEQPACKET)
        # PR_SET_PDEATHSIG refers to the thread that starts the child: only the main one lives as long as the process.
        bound = threading.current_thread() is threading.main_thread()
        program = _PROGRAM.format(path=sys.path, socket=theirs.fileno(), owner=self._owner, bound=bound)
        with lifetime.signals_held(), theirs:
            self.process = subprocess.Popen(
                [sys.executable, "-c", program], pass_fds=(theirs.fileno(),),
                # All three are open there, whatever the harness's are: a worker puts its log in their places.
                stdin=subprocess.DEVNULL, stdout=subprocess.DEVNULL, stderr=2,
                start_new_session=True,  # the harness alone handles a terminal's signals
            )  # fmt: skip

    def alive(self) -> bool:
        """Whether the template still runs."""
        return os.getpid() == self._owner and self.process.poll() is None

    def fork(self, request: bytes, descriptors: Sequence[int]) -> None:
        """Asks for a fork. If the template has ended, the missing answer reveals it."""
        with contextlib.suppress(OSError):
            socket.send_fds(self._socket, [request], list(descriptors))

    def retire(self) -> None:
        """Lets the template end."""
        self._socket.close()

    def kill(self) -> None:
        """Kills the template, unless this process is a fork of the template's owner."""
        self._socket.close()
        if os.getpid() == self._owner:
            self.process.kill()
            self.process.wait()


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


def start(setup: object, descriptors: Sequence[int]) -> None:
    """Starts a keeper and its worker, which runs eval.workers.worker.main(setup, *descriptors).

    The worker has this process's current environment, folder and module path.
    """
    with _lock, hidden_from_children():
        _current().fork(pickle.dumps(setup), descriptors)


def serve(requests: int, harness: int, bound: bool) -> None:
    """Serves fork requests until the harness closes its end, or ends (`bound`: even if it is killed)."""
    if sys.platform == "linux":
        with contextlib.suppress(kernel.Refused):
            kernel.prctl(kernel.PR_SET_DUMPABLE, 0)
            if bound:
                kernel.prctl(kernel.PR_SET_PDEATHSIG, signal.SIGKILL)
    if os.getppid() != harness:
        return
    # What torch's profiler says of itself is nothing that the submission printed.  It reads this when it is loaded.
    os.environ.setdefault("KINETO_LOG_LEVEL", _KINETO_SILENT)
    from eval.workers import worker

    signal.signal(signal.SIGCHLD, signal.SIG_IGN)  # keepers report to the harness
    end = socket.socket(fileno=requests)
    while (request := socket.recv_fds(end, _REQUEST_BYTES, _MOST_DESCRIPTORS))[0]:
        raw, descriptors, _, _ = request
        if os.fork() == 0:
            end.close()
            signal.signal(signal.SIGCHLD, signal.SIG_DFL)
            if sys.platform == "linux":
                with contextlib.suppress(kernel.Refused):
                    kernel.prctl(kernel.PR_SET_DUMPABLE, 1)
            worker.main(pickle.loads(raw), *descriptors)
        for descriptor in descriptors:
            os.close(descriptor)
