"""The NEON kernels: the other sets' bits, with intrinsics written out (neon/arm_neon.h) and cross-compiled, by qemu.

Debian: gcc-aarch64-linux-gnu, qemu-user.
"""

from __future__ import annotations

import os
import shutil
import struct
import subprocess

import numpy as np
import pytest

from tests.submission.cpu_kit import BLOCKED, ROWS, Backend, assert_same, random_problem

COMPILER, EMULATOR = "aarch64-linux-gnu-gcc", "qemu-aarch64"


WRITTEN_OUT = ("cc", [])
EMULATED = pytest.param(
    (COMPILER, [EMULATOR]),
    marks=pytest.mark.skipif(
        not (shutil.which(COMPILER) and shutil.which(EMULATOR)), reason=f"no {COMPILER} or {EMULATOR}"
    ),
)


@pytest.mark.parametrize("how", [WRITTEN_OUT, EMULATED], ids=["written out", "emulated"])
def test_neon_gives_the_bits_of_portable_c(root, tmp_path, library_path, monkeypatch, how):
    compiler, emulator = how
    others = ("_avx2.c", "_avx512.c", "_amx.c")
    sources = [*(root / "submission/core").glob("**/*.c"), *(root / "submission/cpu").glob("**/*.c")]
    sources = [path for path in sources if not path.name.endswith(others)]
    flags = (
        "-std=c11",
        "-O1",
        "-D_GNU_SOURCE",
        "-ffp-contract=off",
        "-pthread",
        "-static",
        "-Wall",
        "-Wextra",
        "-Werror",
    )
    program = tmp_path / "problems"
    headers = [] if emulator else [f"-I{root / 'tests/submission/isa/neon'}"]
    command = [compiler, *flags, "-DNVFP4_HAVE_NEON", f"-I{root}", *headers, "-o", program]
    subprocess.run([*command, root / "tests/submission/isa/problems.c", *sources, "-lm"], check=True)

    problems = [(random_problem(5, 37, 576, seed=1), BLOCKED), (random_problem(9, 18, 64, batches=2, seed=2), ROWS)]
    asked = b""
    for problem, layout in problems:
        tensors = [np.ascontiguousarray(x).tobytes() for x in problem.tensors(layout)]
        sizes = (problem.m, problem.n, problem.k, problem.batches, layout, len(tensors[3]), len(tensors[4]))
        asked += struct.pack("<7q", *sizes) + b"".join(tensors)
    environment = os.environ | {"NVFP4_CPU_ISA": "neon", "OMP_NUM_THREADS": "1"}
    done = subprocess.run([*emulator, program], input=asked, env=environment, capture_output=True)
    assert (done.returncode, done.stderr) == (0, b"")
    got = np.frombuffer(done.stdout, dtype=np.float16)
    for problem, layout in problems:
        want = Backend(library_path, "portable", monkeypatch)(problem, layout)
        assert_same(got[: want.size].reshape(want.shape), want)
        got = got[want.size :]
    assert got.size == 0
