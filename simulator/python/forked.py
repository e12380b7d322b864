"""Runs Python programs in separate processes that start with torch already imported.

Importing torch takes seconds. multiprocessing's fork server does it once, without threads and without our libraries;
each program runs in a fork of it, with its own environment, standard files and exit code. A program ends after the exit
handlers of the libraries that it loaded itself: those of torch would take longer than most programs.
"""

from __future__ import annotations

import ctypes
import multiprocessing
import os
import subprocess
import sys
import tempfile
import traceback
from collections.abc import Sequence
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
FAILED = 1  # exit code of an interpreter that ends with a traceback
PRELOAD = ["torch", "pytest"]  # what many programs import and what starts no thread

_LIBC = ctypes.CDLL(None)


@ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p)
def _end(status: int, _: object) -> None:
    _LIBC.fflush(None)
    os._exit(status)


def _become(code: str, arguments: Sequence[str], environment: dict[str, str], files: Sequence[str]) -> None:
    """Runs the program in this process, with the three files as standard input, output and error; then exits."""
    for descriptor, file in enumerate(files):
        opened = os.open(file, os.O_RDONLY if descriptor == 0 else os.O_WRONLY | os.O_APPEND)
        os.dup2(opened, descriptor)
        os.close(opened)
    sys.stdin, sys.stdout, sys.stderr = (os.fdopen(n, "w" if n else "r", closefd=False) for n in range(3))
    os.environ.clear()
    os.environ.update(environment)
    os.chdir(ROOT)
    sys.argv = ["-c", *arguments]
    status: object = 0
    _LIBC.on_exit(
        _end, None
    )  # handlers run from the last to the first: the program's libraries', this one, not torch's
    try:
        exec(compile(code, "<string>", "exec"), {"__name__": "__main__"})
    except SystemExit as end:
        status = end.code
    except BaseException:
        traceback.print_exc()
        status = FAILED
    if isinstance(status, str):
        print(status, file=sys.stderr)
    sys.stdout.flush()
    sys.stderr.flush()
    # Not sys.exit(): multiprocessing would skip the exit handlers in which libraries write their reports.
    _LIBC.exit(status if isinstance(status, int) else FAILED if status else 0)


def run(
    code: str,
    arguments: Sequence[str] = (),
    environment: dict[str, str] | None = None,
    stdin: str = "",
    timeout: float | None = None,
) -> subprocess.CompletedProcess[str]:
    """Runs `python -c code arguments...` in the checkout, as subprocess.run does, and captures its output as text.

    Raises subprocess.TimeoutExpired after `timeout` seconds.
    """
    context = multiprocessing.get_context("forkserver")
    context.set_forkserver_preload(PRELOAD)
    with tempfile.TemporaryDirectory() as folder:
        files = [str(Path(folder) / name) for name in ("in", "out", "err")]
        for file, text in zip(files, (stdin, "", ""), strict=True):
            Path(file).write_text(text)
        given = dict(os.environ if environment is None else environment)
        process = context.Process(target=_become, args=(code, list(arguments), given, files))
        process.start()
        process.join(timeout)
        if process.exitcode is None:
            process.kill()
            process.join()
            raise subprocess.TimeoutExpired(code, timeout or 0)
        out, err = (Path(file).read_text(errors="replace") for file in files[1:])
    return subprocess.CompletedProcess(["python", "-c", code, *arguments], process.exitcode, out, err)
