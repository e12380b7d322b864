"""The CPU backend's threads, memory and environment variables."""

from __future__ import annotations

import ctypes
import os
import shutil
import subprocess
import sys
import textwrap
from functools import partial
from pathlib import Path

import numpy as np
import pytest

from simulator.tests.held import assert_all_is_given_back, print_what_stays
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


def cpu_detail(library):
    info = Info(ctypes.sizeof(Info))
    index = 0
    while library.custom_kernel_backend_query(index, ctypes.byref(info)) == OK and info.name != b"cpu":
        index += 1
    return info.available, info.detail.decode()


@LAYOUTS
@pytest.mark.parametrize("threads", ["1", "2", "5", "5,2", "nonsense", "-1"])
def test_any_number_of_threads_gives_the_same_bits(library_path, monkeypatch, threads, layout):
    backend = Backend(library_path, "", monkeypatch)
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    problem = random_problem(261, 200, 448, batches=3, seed=19, scale_bytes=np.arange(0x18, 0x28))
    want = backend(problem, layout)
    check(problem, want)
    monkeypatch.setenv("OMP_NUM_THREADS", threads)
    assert_same(backend(problem, layout), want)


def test_the_query_names_instruction_set_threads_and_processor(library, monkeypatch):
    monkeypatch.setenv("NVFP4_CPU_ISA", "portable")
    cpuinfo = Path("/proc/cpuinfo")
    lines = cpuinfo.read_text().splitlines() if cpuinfo.is_file() else []
    names = [line.partition(":")[2].strip() for line in lines if line.startswith("model name")]
    for threads, text in (("1", "1 thread"), ("3", "3 threads")):
        monkeypatch.setenv("OMP_NUM_THREADS", threads)
        assert cpu_detail(library) == (1, ", ".join(["portable C", text, *names[:1]]))


@pytest.mark.filterwarnings("ignore:.*fork.*:DeprecationWarning")
def test_a_forked_child_can_use_the_backend(library_path, monkeypatch):
    backend = Backend(library_path, "", monkeypatch)
    monkeypatch.setenv("OMP_NUM_THREADS", "2")
    problem = random_problem(130, 128, 448, seed=23, scale_bytes=np.arange(0x18, 0x28))
    want = backend(problem)
    child = os.fork()
    if child == 0:
        os._exit(0 if (backend(problem) == want).all() else 1)
    assert os.waitpid(child, 0)[1] == 0


@pytest.mark.parametrize(
    "value", ["sse9", "AVX512", "x" * 1000, "avx", "avx5", "avx51", "avx5122", "avx2 ", "port", "Portable", "auto"]
)
def test_an_unknown_instruction_set_is_named_and_nothing_is_written(library_path, monkeypatch, value):
    backend = Backend(library_path, value, monkeypatch)
    status, c = backend.status(random_problem(2, 3, 64))
    message = backend.library.custom_kernel_message().decode()
    assert status == ARGUMENT
    problem, _, names = message.partition("; expected one of the instruction sets built in: ")
    assert problem == f"NVFP4_CPU_ISA is '{value[:64]}'"
    fastest_first = [name for name in ("amx", "avx512", "avx2", "portable") if name in names.split(", ")]
    assert names.split(", ") == fastest_first and "portable" in fastest_first
    for isa in names.split(", "):  # every listed name is accepted, even if the machine lacks it
        monkeypatch.setenv("NVFP4_CPU_ISA", isa)
        assert backend.status(random_problem(2, 3, 64))[0] in (OK, UNAVAILABLE)
    assert (c.view(np.uint16) == 0x7BAD).all()


FAULTS_PROGRAM = """
import ctypes, os, sys
import numpy as np
import pytest
from tests.submission.cpu_kit import *
faults = ctypes.CDLL({faults!r})
started, blocks, kept, alignment = (
    ctypes.c_int.in_dll(faults, name)
    for name in ("threads_started", "memory_blocks", "blocks_kept", "least_alignment")
)
most_bytes = ctypes.c_int64.in_dll(faults, "most_bytes")
backend = Backend({library!r}, "", pytest.MonkeyPatch())
os.environ["OMP_NUM_THREADS"] = "5"

def status_of(problem, **environment):
    started.value = blocks.value = most_bytes.value = 0
    alignment.value = 1 << 20
    before = dict(os.environ)
    os.environ.update(environment)
    status, c = backend.status(problem)
    os.environ.clear()
    os.environ.update(before)
    assert kept.value == 0, "scratch memory is given back"
    return status, c

def threads_of(m, n, k=64, batches=1, **environment):
    # How many threads work on a problem.
    shapes = [(batches, m), (batches, n), (batches, n)]
    codes = [np.ones((*shape, k), dtype=np.uint8) for shape in shapes]
    scales = [np.full((*shape, k // 16), ONE, dtype=np.uint8) for shape in shapes]
    status, c = status_of(Problem(codes, scales), **environment)
    assert status == OK and (c == c[0, 0, 0]).all()
    return started.value + 1

big = random_problem(64, 1024, 448, seed=29, scale_bytes=np.arange(0x18, 0x28))
tiny = random_problem(16, 64, 448, seed=29)
try:
{body}
finally:
    sys.stderr.write(backend.library.custom_kernel_message().decode())
"""


@pytest.fixture(scope="module")
def with_faults(root, library_path, tmp_path_factory):
    """Runs a test's body in a process in which creating threads and allocating memory can be made to fail."""
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


def test_the_number_of_threads_follows_the_size_of_the_problem(with_faults):
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


def test_omp_num_threads_first_number_counts_else_every_processor(with_faults):
    with_faults("""
        processors = min(len(os.sched_getaffinity(0)), 12)
        for text, threads in (("3", 3), ("3,9", 3), (" 4", 4), ("010", 10), ("0x3", processors), ("6 ", 6)):
            assert threads_of(256, 256, 384, OMP_NUM_THREADS=text) == threads, text  # work for twelve
        for text in ("", "0", "-1", "-300", "many", ","):
            assert threads_of(256, 256, 384, OMP_NUM_THREADS=text) == processors, text
        del os.environ["OMP_NUM_THREADS"]
        assert threads_of(256, 256, 384) == processors
    """)


def test_a_thread_is_started_for_each_four_million_products(with_faults):
    with_faults("""
        # Products of both matrices: 2 M N K.
        assert threads_of(249, 250) == 1
        assert threads_of(250, 250) == 2
        assert threads_of(250, 374) == 2
        assert threads_of(250, 375) == 3
        assert threads_of(125, 125, 64, 4) == 2  # threads of all batches
        assert threads_of(250, 250, 320) == 5
        assert threads_of(250, 250, 640) == 5  # no more than asked for
        assert threads_of(2048, 16, 448, OMP_NUM_THREADS="20") == 4  # no more than tasks: four blocks of rows
    """)


def test_no_more_than_256_threads_are_started(with_faults):
    with_faults("""
        for wanted, threads in (("255", 255), ("256", 256), ("257", 256), ("300", 256), ("99999999999", 256)):
            assert threads_of(2048, 4864, 64, OMP_NUM_THREADS=wanted) == threads
    """)


def test_scratch_memory_is_aligned_and_bounded(with_faults):
    with_faults("""
        assert threads_of(40, 24, 64) == 1
        assert alignment.value >= 64, "whole vectors are loaded from it"
        assert blocks.value == 1
        assert threads_of(4096, 16, 16384, OMP_NUM_THREADS="1") == 1
        assert most_bytes.value < 9 << 20, "the packed rows of A stay within a last-level cache"
    """)


def test_an_empty_name_of_an_instruction_set_means_the_best(library_path, monkeypatch):
    backend = Backend(library_path, "", monkeypatch)
    problem = random_problem(3, 5, 64)
    assert backend.status(problem)[0] == OK
    monkeypatch.delenv("NVFP4_CPU_ISA")
    assert backend.status(problem)[0] == OK


@pytest.mark.parametrize(
    ("name", "text"), [("portable", "portable C"), ("avx2", "AVX2"), ("avx512", "AVX-512 VNNI"), ("amx", "AMX")]
)
def test_the_query_names_the_instruction_set(library_path, monkeypatch, name, text):
    backend = Backend(library_path, name, monkeypatch)
    if backend.status(random_problem(1, 1, 64))[0] != OK:
        pytest.skip(f"cannot run {name} here")
    available, detail = cpu_detail(backend.library)
    assert available == 1
    assert detail.split(", ")[0] == text


def test_the_query_says_that_an_unknown_instruction_set_cannot_run(library_path, monkeypatch):
    backend = Backend(library_path, "sse9", monkeypatch)
    available, detail = cpu_detail(backend.library)
    assert available == 0
    assert detail.startswith("NVFP4_CPU_ISA is 'sse9'; expected ")


def test_a_missing_instruction_set_is_unavailable_or_skipped(root, tmp_path, monkeypatch):
    """The library on a processor without any vector extension."""
    compiler = shutil.which("gcc") or shutil.which("cc")
    if not compiler:
        pytest.skip("no C compiler")
    flags = ["-D_GNU_SOURCE", "-std=c11", "-O1", "-fPIC", "-shared", "-pthread", "-ffp-contract=off"]
    flags += ["-DNVFP4_HAVE_AVX2", "-mavx2", "-mfma", "-mf16c", "-D__builtin_cpu_supports(name)=0"]
    sources = [*(root / "submission/core").glob("**/*.c"), *(root / "submission/cpu").glob("**/*.c")]
    sources = [path for path in sources if not path.name.endswith(("_avx512.c", "_amx.c", "_neon.c"))]
    library = tmp_path / "old.so"
    done = subprocess.run([compiler, *flags, "-o", library, *sources, "-lm"], capture_output=True, text=True)
    if done.returncode != 0:
        pytest.skip(f"cannot compile AVX2: {done.stderr[:200]}")
    backend = Backend(library, "avx2", monkeypatch)
    status, c = backend.status(random_problem(2, 3, 64))
    assert status == UNAVAILABLE
    message = backend.library.custom_kernel_message().decode()
    assert "NVFP4_CPU_ISA" in message and "avx2" in message and "cannot run" in message
    assert (c.view(np.uint16) == 0x7BAD).all()
    monkeypatch.setenv("NVFP4_CPU_ISA", "")
    problem = random_problem(20, 30, 192, scale_bytes=np.arange(0x18, 0x28))
    check(problem, backend(problem))
    assert cpu_detail(backend.library)[1].startswith("portable C, ")


def main() -> None:
    """Calls with one and with several threads; reports what memory they keep."""
    os.environ.pop("OMP_NUM_THREADS", None)
    patch = pytest.MonkeyPatch()
    problem = random_problem(261, 200, 448, batches=3, seed=19)
    for threads in ("1", "3"):
        backend = Backend(Path(os.environ["NVFP4_LIBRARY"]), "", patch)
        patch.setenv("OMP_NUM_THREADS", threads)
        print_what_stays(threads, partial(backend, problem))


def test_calls_hold_no_memory_and_no_thread(root, library_path, monkeypatch):
    monkeypatch.setenv("NVFP4_LIBRARY", str(library_path))
    assert_all_is_given_back(root, __name__, 2)
