"""Programs in copies of a process that has torch: what goes in, what comes out, and how they end."""

from __future__ import annotations

import os
import signal
import subprocess

import pytest

from simulator.python import forked


def test_a_program_has_its_arguments_input_environment_and_folder(monkeypatch):
    monkeypatch.setenv("NOT_FOR_THE_PROGRAM", "1")
    code = """
import os, sys
assert "torch" in sys.modules and __name__ == "__main__"
print(sys.argv, sys.stdin.read(), sorted(os.environ), os.getcwd())
print("aside", file=sys.stderr)
"""
    done = forked.run(code, ["a", "b c"], {"ONE": "1"}, stdin="text")
    assert done.stdout == f"['-c', 'a', 'b c'] text ['ONE'] {forked.ROOT}\n", done
    assert (done.returncode, done.stderr) == (0, "aside\n")


def test_a_program_runs_in_the_checkout_wherever_the_process_is(tmp_path):
    files = [tmp_path / name for name in ("in", "out", "err")]
    for file in files:
        file.touch()
    child = os.fork()
    if child == 0:
        try:
            os.chdir("/")
            forked._become("import os; print(os.getcwd())", [], {}, [str(file) for file in files])
        finally:
            os._exit(9)
    assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0, files[2].read_text()
    assert files[1].read_text() == f"{forked.ROOT}\n"


@pytest.mark.parametrize(
    ("code", "status", "said"),
    [
        ("raise SystemExit(7)", 7, ""),
        ("raise SystemExit('no')", 1, "no\n"),
        ("raise SystemExit", 0, ""),
        ("import os; os.write(1, b'x'); os.kill(os.getpid(), 9)", -signal.SIGKILL, ""),
    ],
)
def test_a_program_ends_with_its_own_status(code, status, said):
    done = forked.run(code)
    assert (done.returncode, done.stderr) == (status, said)


def test_a_traceback_is_shown_and_is_a_failure():
    done = forked.run("1 / 0")
    assert done.returncode == 1 and "ZeroDivisionError: division by zero" in done.stderr


def test_the_exit_handlers_of_libraries_run():
    code = """
import ctypes, os
at_exit = ctypes.CFUNCTYPE(None, ctypes.c_int, ctypes.c_void_p)(lambda status, _: os.write(1, b"end") and None)
ctypes.CDLL(None).on_exit(at_exit, None)
"""
    done = forked.run(code)
    assert done.stdout == "end"


def test_a_program_that_takes_too_long_is_ended():
    with pytest.raises(subprocess.TimeoutExpired):
        forked.run("import time; time.sleep(60)", timeout=0.1)


def test_programs_are_copies_of_one_process():
    first, second = (forked.run("import os; print(os.getppid(), os.getpid())").stdout.split() for _ in range(2))
    assert first[0] == second[0] != str(os.getpid()) and first[1] != second[1]
