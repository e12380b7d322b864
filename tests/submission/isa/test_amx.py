"""The AMX path where there is no AMX: its packing, and all but its instructions through a portable twin."""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pytest

from tests.submission.cpu_kit import (
    BLOCKED,
    GROUP,
    ROWS,
    Backend,
    Problem,
    assert_same,
    check,
    random_problem,
    runs_here,
)

CPU = (
    "cpu_backend.c",
    "cpu_machine.c",
    "cpu_quantize.c",
    "cpu_routing.c",
    "experts.c",
    "kernels_halves.c",
    "kernels/kernels_portable.c",
    "pack.c",
    "kernels/tiles_amx.c",
)
FLAGS = ("-std=c11", "-O1", "-D_GNU_SOURCE", "-ffp-contract=off", "-pthread")


def build(root, output, *arguments):
    compiler = shutil.which("gcc")
    if not compiler:
        pytest.skip("no C compiler")
    command = [compiler, *FLAGS, f"-I{root}", "-o", output, *arguments, "-lm"]
    subprocess.run(command, check=True, capture_output=True, text=True)
    return output


@pytest.fixture(scope="module")
def twin(root, tmp_path_factory):
    output = tmp_path_factory.mktemp("twin") / "twin.so"
    core = sorted((root / "submission/core").glob("**/*.c"))
    cpu = [root / "submission/cpu" / name for name in CPU]
    cpu += list((root / "submission/cpu").glob("extended*.c"))
    flags = ("-DNVFP4_HAVE_AMX", "-fPIC", "-shared")
    return build(root, output, *flags, root / "tests/submission/isa/amx_twin.c", *core, *cpu)


@pytest.mark.parametrize(("m", "n", "k", "layout"), [(1, 40, 64, ROWS), (35, 140, 576, BLOCKED)])
def test_every_row_column_and_position_of_k_counts_once(twin, monkeypatch, m, n, k, layout):
    monkeypatch.setenv("OMP_NUM_THREADS", "1")
    problem = random_problem(m, n, k, seed=m, scale_bytes=np.arange(0x00, 0x48))
    check(problem, Backend(twin, "amx", monkeypatch)(problem, layout))


def test_a_machine_with_amx_takes_it_first(twin, monkeypatch):
    backend = Backend(twin, "none", monkeypatch)
    assert backend.status(random_problem(1, 1, 64))[0] != 0
    assert backend.library.custom_kernel_message().decode().endswith("built in: amx, portable")


def test_amx_starts_at_eight_rows(twin, monkeypatch):
    """The bits tell the sets apart: half of K cancels the other, and what is left hangs on the order of the sums."""
    half = random_problem(18, 64, 1024, seed=3)
    a, *b = half.codes
    codes = [np.concatenate((a, a ^ 8), axis=2), *(np.tile(x, 2) for x in b)]
    problem = Problem(codes, [np.tile(x, 2) for x in half.scales])
    taken = {}
    for rows in (1, 7, 8, 18):
        by = {isa: Backend(twin, isa, monkeypatch)(problem.top(rows, 64)) for isa in ("", "portable", "amx")}
        assert (by["portable"] != by["amx"]).any(), rows
        taken[rows] = [isa for isa in ("portable", "amx") if (by[""] == by[isa]).all()]
    assert taken == {1: ["portable"], 7: ["portable"], 8: ["amx"], 18: ["amx"]}


def test_the_whole_configuration_of_the_tiles_is_in_the_object(library_path):
    """GCC leaves out stores that its intrinsic does not name: tiles without rows, an illegal instruction."""
    config = bytes([1, *[0] * 15, *[64, 0] * 8, *[0] * 16, *[16] * 8, *[0] * 8])
    if runs_here(library_path, "amx") and "expected one of" in runs_here(library_path, "amx"):
        pytest.skip("the compiler knows no AMX")
    assert len(config) == 64
    assert config in library_path.read_bytes()


def test_the_instruction_gives_the_twins_bits(twin, library_path, monkeypatch):
    reason = runs_here(library_path, "amx")
    if reason:
        pytest.skip(reason)
    problem = random_problem(70, 100, 1088, batches=2, seed=11, scale_bytes=np.arange(0x00, 0x38))
    got = Backend(library_path, "amx", monkeypatch)(problem)
    assert_same(got, Backend(twin, "amx", monkeypatch)(problem))


def test_a_nan_scale_spoils_its_row_alone(twin, monkeypatch):
    problem = random_problem(19, 18, 128, seed=5, scale_bytes=np.arange(0x18, 0x28))
    backend = Backend(twin, "amx", monkeypatch)
    want = backend(problem)
    want[0, 17] = np.nan
    scales = [x.copy() for x in problem.scales]
    scales[0][0, 17, 3] = 0x7F
    codes = [x.copy() for x in problem.codes]
    codes[0][0, 17, 3 * GROUP :] = 0  # a NaN times zero is one too
    assert_same(backend(Problem(codes, scales)), want)


def test_avx512_packs_what_portable_c_packs(root, tmp_path):
    names = ("kernels/kernels_amx.c", "kernels/kernels_avx512.c", "pack.c", "kernels/tiles_amx.c")
    sources = [root / "submission/cpu" / name for name in names]
    flags = ("-mavx2", "-mfma", "-mf16c", *(f"-mavx512{part}" for part in ("f", "bw", "vl", "dq", "vnni", "vbmi")))
    try:
        program = build(
            root, tmp_path / "pack", *flags, "-mamx-tile", "-mamx-bf16", "-DNVFP4_HAVE_AMX", "-DNVFP4_HAVE_AVX512",
            root / "tests/submission/isa/pack_check.c", *sources,
        )  # fmt: skip
    except subprocess.CalledProcessError as failure:
        if "unrecognized" not in failure.stderr:
            raise
        pytest.skip("the compiler knows no AMX")
    done = subprocess.run([program], capture_output=True, text=True)
    if done.returncode == 77:
        pytest.skip("no AVX-512 here")
    assert (done.returncode, done.stdout) == (0, "")
