"""The CPU back end's threads, memory and environment variables."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import textwrap
from pathlib import Path

import numpy as np
import pytest

from tests.submission.cpu_kit import (
    ARGUMENT,
    LAYOUTS,
    OK,
    UNAVAILABLE,
    Backend,
    Info,
    assert_same,
    check,
    random_problem,
)


@LAYOUTS
@pytest.mark.parametrize("threads", ["1", "2", "5", "300", "5,2", "nonsense", "-1"])
def test_any_number_of_threads_gives_the_same_bits(library_path, monkeypatch, threads, layout):
    backend = Backend(library_path, "", monkeypatch)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    problem = random_problem(261, 200, 448, batches=3, seed=19, scale_bytes=np.arange(0x18, 0x28))
    want = backend(problem, layout)
    check(problem, want)
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    assert_same(backend(problem, layout), want)


def test_the_query_tells_instruction_set_threads_and_processor(library_path, monkeypatch):
    library = ctypes.CDLL(str(library_path))
    monkeypatch.setenv("NVFP4_CPU_ISA", "portable")
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    for threads, text in (("1", "1 thread"), ("3", "3 threads")):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        info = Info(ctypes.sizeof(Info))
        found = {}
        while library.custom_kernel_backend_query(len(found), ctypes.byref(info)) == OK:
            found[info.name] = info.detail.decode()
        assert found[b"cpu"] == ", ".join(["portable C", text, *names[:1]])


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_can_use_the_back_end(library_path, monkeypatch):
    backend = Backend(library_path, "", monkeypatch)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    problem = random_problem(130, 128, 448, seed=23, scale_bytes=np.arange(0x18, 0x28))
    want = backend(problem)
    child = os.fork()
    if child == 0:
        os._exit(0 if (backend(problem) == want).all() else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize("value", ["sse9", "AVX512", "x" * 1000])
def test_an_unknown_instruction_set_is_named_and_nothing_is_written(library_path, monkeypatch, value):
    backend = Backend(library_path, value, monkeypatch)
    status, c = backend.status(random_problem(2, 3, 64))
    message = backend.library.custom_kernel_message().decode()
    assert status == ARGUMENT
    told, _, names = message.partition("; expected one of the instruction sets built in: ")
    assert told == f"NVFP4_CPU_ISA is '{value[:64]}'"
    assert "portable" in names.split(", ")
    for isa in names.split(", "):  # each name it tells is one it takes, even where the machine lacks it
        monkeypatch.setenv("NVFP4_CPU_ISA", isa)
        assert backend.status(random_problem(2, 3, 64))[0] in (OK, UNAVAILABLE)
    assert (c.view(np.uint16) == 0x7BAD).all()


FAULTS_PROGRAM = """
import ctypes, os, sys
import pytest
from tests.submission.cpu_kit import *
faults = ctypes.CDLL({faults!r})
started = ctypes.c_int.in_dll(faults, "threads_started")
blocks = ctypes.c_int.in_dll(faults, "memory_blocks")
backend = Backend({library!r}, "", pytest.MonkeyPatch())
os.environ["OMP_NUM_THREADS"] = "5"

def status_of(problem, **environment):
    started.value = blocks.value = 0
    os.environ.update(environment)
    status, c = backend.status(problem)
    for name in environment:
        del os.environ[name]
    return status, c

big = random_problem(64, 1024, 448, seed=29, scale_bytes=np.arange(0x18, 0x28))
tiny = random_problem(16, 64, 448, seed=29)
try:
{body}
finally:
    sys.stderr.write(backend.library.custom_kernel_message().decode())
"""


@pytest.fixture(scope="module")
def with_faults(root, library_path, tmp_path_factory):
    """Runs a test's body in a process in which threads and memory can be made to run out."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if not compiler:
        pytest.skip("no C compiler")
    faults = tmp_path_factory.mktemp("faults") / "faults.so"
    source = root / "tests/submission/c" / "faults.c"
    subprocess.run([compiler, "-D_GNU_SOURCE", "-O1", "-fPIC", "-shared", "-o", faults, source, "-ldl"], check=True)

    def run(body):
        program = FAULTS_PROGRAM.format(
            faults=str(faults),
            library=str(library_path),
            body=textwrap.indent(textwrap.dedent(body), " " * 4),
        )
        environment = {**os.environ, "LD_PRELOAD": str(faults), "PYTHONPATH": str(root)}
        done = subprocess.run([sys.executable, "-c", program], env=environment, capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        return done.stderr

    return run


def test_a_tiny_problem_starts_no_thread_and_a_big_one_as_many_as_asked_for(with_faults):
    with_faults("""
        assert status_of(tiny)[0] == OK and started.value == 0
        assert status_of(big)[0] == OK and started.value == 4
    """)


def test_threads_that_cannot_start_leave_their_work_to_the_others(with_faults):
    with_faults("""
        want = status_of(big)[1]
        check(big, want)
        for successes in (0, 2):
            status, c = status_of(big, FAULT_THREADS=str(successes))
            assert status == OK and started.value == successes
            assert_same(c, want)
    """)


def test_without_memory_for_more_threads_one_does_the_work(with_faults):
    with_faults("""
        want = status_of(big)[1]
        status, c = status_of(big, FAULT_MEMORY="1")
        assert status == OK and started.value == 0
        assert_same(c, want)
    """)


def test_without_any_memory_the_call_fails_and_says_so(with_faults):
    message = with_faults("""
        status, c = status_of(big, FAULT_MEMORY="0")
        assert status == OUT_OF_MEMORY
        assert (c.view(np.uint16) == 0x7BAD).all()
    """)
    assert "memory" in message
    assert "k = 448" in message
