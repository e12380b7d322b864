"""How the harness ends: quickly after a signal, with one line, leaving no process and no folder.

This module imports nothing that takes long, because it handles signals from the start.
"""

from __future__ import annotations

import atexit
import contextlib
import ctypes
import errno
import os
import secrets
import signal
import stat
import sys
import tempfile
import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from types import FrameType

# A shell's exit code for a program that a signal ended is this plus the signal's number.
EXIT_SIGNAL = 128
ENDING_SIGNALS = (signal.SIGINT, signal.SIGTERM, signal.SIGHUP)
# How long the main thread may take to unwind before the process ends without it. The harness promises five seconds.
# It is counted in slices, so that a process that nobody schedules for seconds loses one slice and no measurements.
UNWIND_S, UNWIND_SLICE_S = 3.0, 0.05


class Interrupted(BaseException):
    """A signal asked the harness to end."""

    def __init__(self, number: int) -> None:
        super().__init__(number)
        self.number = number


# How much of its thread's own time removing the run's folder may take: on a busy machine it takes longer.
REMOVE_S = 10.0
# Of the disk, in bytes and files. What submissions wrote is removed if it leaves less room than this, and if it takes
# more than a compiler's cache does: the kernel would write it to the disk while the next process is timed.
ROOM = 16 << 30, 100_000
KEPT = 256 << 20, 20_000

_folder: Path | None = None
_scratch: dict[str, tuple[Path, int]] = {}  # by submission: its folder, and the folder's descriptor
_descriptor = -1  # the folder's, opened before any submission can replace it
_free: tuple[int, ...] = 0, 0  # bytes and files on its disk at the start
_folder_owner = 0  # a fork of this process gets a folder of its own
_folder_lock = threading.Lock()


def run_folder() -> Path:
    """The folder of this run, made at the first call; `remove_run_folder` removes it."""
    global _folder, _descriptor, _folder_owner, _free
    with _folder_lock:
        if _folder is None or _folder_owner != os.getpid():
            _folder, _folder_owner = Path(tempfile.mkdtemp(prefix="eval-")).resolve(), os.getpid()
            _descriptor = os.open(_folder, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC)
            _scratch.clear()
            _free = _free_now()
            atexit.register(remove_run_folder)
        os.fchmod(_descriptor, 0o700)  # a submission may have changed it
        return _folder


def scratch_folder(submission: str) -> tuple[Path, int]:
    """The folder that a submission may write to in this run, and its descriptor, opened before the submission ran.

    Raises OSError if another file has taken its place.
    """
    folder = run_folder()
    with _folder_lock:
        if submission not in _scratch:
            name = f"scratch-{len(_scratch)}"
            os.mkdir(name, 0o700, dir_fd=_descriptor)
            opened = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=_descriptor)
            _scratch[submission] = folder / name, opened
        path, descriptor = _scratch[submission]
    make_room()
    os.fchmod(descriptor, 0o700)
    if not os.path.samestat(path.lstat(), os.fstat(descriptor)):
        raise OSError(errno.ESTALE, "another file has taken its place", str(path))
    return path, descriptor


def _free_now() -> tuple[int, int]:
    """The bytes and files that are free on the disk of the run's folder."""
    free = os.fstatvfs(_descriptor)
    return free.f_bavail * free.f_frsize, free.f_favail if free.f_files else ROOM[1]


def make_room() -> None:
    """Removes what submissions wrote in this run if the next one would feel it: too little room, or files to write out.

    Call it while none runs. Raises OSError, also if there are more files than can be removed in time.
    """
    global _free
    with _folder_lock:
        now = _free_now()
        if not any(
            free < first - kept or free < min(first, room)
            for free, first, room, kept in zip(now, _free, ROOM, KEPT, strict=True)
        ):
            return
        for submission, (_, opened) in _scratch.items():
            _empty(opened)
            if _names(opened):
                raise OSError(errno.ENOSPC, "left more files than can be removed in time", submission)
        # Others wrote the rest; a folder that is too full is emptied again all the same.
        _free = tuple(min(pair) for pair in zip(_free, _free_now(), strict=True))


def log_file() -> tuple[int, int]:
    """Descriptors to read and to append to a new file without a name."""
    run_folder()
    name = f"log-{secrets.token_hex(8)}"
    write = os.open(name, os.O_WRONLY | os.O_APPEND | os.O_CREAT | os.O_EXCL | os.O_CLOEXEC, 0o600, dir_fd=_descriptor)
    os.unlink(name, dir_fd=_descriptor)
    return os.open(f"/proc/self/fd/{write}", os.O_RDONLY | os.O_CLOEXEC), write


def _is_folder(name: str, within: int) -> bool:
    return stat.S_ISDIR(os.stat(name, dir_fd=within, follow_symlinks=False).st_mode)


def _names(folder: int) -> list[str]:
    """What is in an open folder, by a new descriptor: btrfs lists only what there was when one was opened."""
    opened = os.open(".", os.O_RDONLY | os.O_DIRECTORY | os.O_CLOEXEC, dir_fd=folder)
    try:
        return os.listdir(opened)  # noqa: PTH208  (a descriptor)
    finally:
        os.close(opened)


def _empty(root: int) -> None:
    """Removes everything in a folder, as far as REMOVE_S allows.

    It moves subfolders up to the root instead of descending: no depth can exhaust the stack, paths or descriptors.
    """
    end = time.thread_time() + REMOVE_S
    while (names := _names(root)) and time.thread_time() < end:
        for name in names:
            if time.thread_time() > end:
                return
            if not _is_folder(name, root):
                os.unlink(name, dir_fd=root)
                continue
            os.chmod(name, 0o700, dir_fd=root)
            folder = os.open(name, os.O_RDONLY | os.O_DIRECTORY | os.O_NOFOLLOW | os.O_CLOEXEC, dir_fd=root)
            try:
                for inner in os.listdir(folder):  # noqa: PTH208  (a descriptor)
                    if _is_folder(inner, folder):
                        os.chmod(inner, 0o700, dir_fd=folder)
                        os.rename(inner, f"moved-{secrets.token_hex(8)}", src_dir_fd=folder, dst_dir_fd=root)
                    else:
                        os.unlink(inner, dir_fd=folder)
            finally:
                os.close(folder)
            os.rmdir(name, dir_fd=root)


def remove_run_folder() -> None:
    """Removes the run's folder, whatever a submission has put there; reports what it cannot remove."""
    global _folder
    with _folder_lock:
        if _folder is None or _folder_owner != os.getpid():
            return
        try:
            os.fchmod(_descriptor, 0o700)
            _empty(_descriptor)
            _folder.rmdir()
        except OSError as error:
            with contextlib.suppress(OSError):
                os.write(2, f"nvfp4 eval: cannot remove {_folder}: {error.strerror}\n".encode(errors="replace"))
        for descriptor in (_descriptor, *(opened for _, opened in _scratch.values())):
            os.close(descriptor)
        _scratch.clear()
        _folder = None


def _say(number: int) -> None:
    with contextlib.suppress(OSError):
        os.write(2, f"nvfp4 eval: ended by {signal.Signals(number).name}\n".encode())


def _end_by_force(number: int) -> None:
    """Ends the process at once. Keepers see their lifelines close and end the workers."""
    remove_run_folder()
    _say(number)
    os._exit(EXIT_SIGNAL + number)


@contextlib.contextmanager
def _handled_signals() -> Iterator[None]:
    """The first ending signal raises Interrupted in the main thread; later ones do nothing."""
    came: list[int] = []
    done = threading.Event()
    read, write = os.pipe()
    os.set_blocking(write, False)

    def handle(number: int, frame: FrameType | None) -> None:
        if not came:
            came.append(number)
            raise Interrupted(number)

    def watch() -> None:
        # The main thread may be in a call that lets no handler run; the wake-up descriptor works without one.
        while number := os.read(read, 1):
            if number[0] in ENDING_SIGNALS:
                if not any(done.wait(UNWIND_SLICE_S) for _ in range(round(UNWIND_S / UNWIND_SLICE_S))):
                    _end_by_force(number[0])
                return

    # Ignored signals stay ignored: nohup, and a shell's background jobs.
    wanted = [number for number in ENDING_SIGNALS if signal.getsignal(number) != signal.SIG_IGN]
    before = {number: signal.signal(number, handle) for number in wanted}
    wakeup = signal.set_wakeup_fd(write, warn_on_full_buffer=False)
    thread = threading.Thread(target=watch, daemon=True)
    thread.start()
    try:
        yield
    finally:
        done.set()
        signal.set_wakeup_fd(wakeup)
        # After the first signal `handle` stays: another signal must not end the process before it prints its line, and
        # Python warns of one that came just before its handler was replaced ("ignored due to race condition").
        for number, handler in before.items() if not came else ():
            signal.signal(number, handler)
        os.close(write)
        thread.join()
        os.close(read)


def run_to_the_end(run: Callable[[], int]) -> int:
    """Calls `run` and returns its exit code; after a signal, prints one line and exits with 128 plus its number.

    Leaves nothing behind. Handles signals only in the main thread.
    """
    main = threading.current_thread() is threading.main_thread()
    try:
        with _handled_signals() if main else contextlib.nullcontext():
            try:
                return run()
            finally:
                remove_run_folder()
    except Interrupted as interrupted:
        _say(interrupted.number)
        with contextlib.suppress(OSError, ValueError, AttributeError):
            sys.stdout.flush()
        # The interpreter's own exit would wait for threads that libraries started.
        os._exit(EXIT_SIGNAL + interrupted.number)


@contextlib.contextmanager
def signals_held() -> Iterator[None]:
    """Blocks ending signals; processes started in the block inherit this. Signals that arrive are handled after it."""
    before = signal.pthread_sigmask(signal.SIG_BLOCK, ENDING_SIGNALS)
    try:
        yield
    finally:
        signal.pthread_sigmask(signal.SIG_SETMASK, before)


# Fields of /proc/self/stat after the name (proc(5) counts from 1, the name is the second).
_ARGUMENTS_AT, _ENVIRONMENT_AT = 48 - 3, 50 - 3


def hide_command_line(hidden_variables: tuple[str, ...]) -> None:
    """Blanks this process's arguments and the values of these variables in /proc, where other processes can read them.

    Python keeps its own copies of both.
    """
    stat = Path("/proc/self/stat")
    if sys.platform != "linux" or not stat.is_file():
        return
    fields = stat.read_text(errors="replace").rpartition(")")[2].split()
    start, end, environment, environment_end = map(int, fields[_ARGUMENTS_AT : _ENVIRONMENT_AT + 2])
    if not (0 < start < end and 0 < environment < environment_end):
        return
    given = ctypes.string_at(start, end - start).rstrip(b"\0").split(b"\0")
    shown = sum(len(word) + 1 for word in given[: len(given) - len(sys.argv) + 1])
    ctypes.memset(start + shown, 0, end - start - shown)
    at = environment
    for entry in ctypes.string_at(environment, environment_end - environment).split(b"\0"):
        name, _, value = entry.partition(b"=")
        if name.decode(errors="replace") in hidden_variables:
            ctypes.memset(at + len(name) + 1, 0, len(value))
        at += len(entry) + 1
