"""The Hopper back end without a GPU: which tiles it chooses, and what the compiler makes of its kernels."""

from __future__ import annotations

import re
import subprocess

import pytest

MAX_SHARED_BYTES = 232448  # HW: 227 KB a CTA, compute capability 9.0
SMS = 132


@pytest.fixture(scope="module")
def choose(root, tmp_path_factory):
    """Configuration name, CTAs and shared memory for (m, n, k, l), by the library's own rule."""
    program = tmp_path_factory.mktemp("plan") / "plan_check"
    sources = [root / "tests/c/plan_check.c", root / "submission/hopper/plan.c"]
    flags = ["-std=c11", "-Wall", "-Wextra", "-Wpedantic", "-Werror"]
    subprocess.run(["gcc", *flags, "-o", program, *sources], check=True)

    def run(m, n, k, l=1, sms=SMS):  # noqa: E741
        text = subprocess.run([program], input=f"{m} {n} {k} {l} {sms}\n", capture_output=True, text=True, check=True)
        *_, name, ctas, shared = text.stdout.split()
        return name, int(ctas), int(shared)

    return run


@pytest.mark.parametrize(
    ("m", "n", "k", "name", "ctas"),
    [
        (256, 4096, 7168, "f64x128", 128),
        (512, 4096, 7168, "f64x256", 128),
        (256, 3072, 4096, "f96x128k2", 128),
        (512, 3072, 7168, "f96x128", 128),
    ],
)
def test_each_benchmark_shape_runs_in_one_wave(choose, m, n, k, name, ctas):
    assert choose(m, n, k)[:2] == (name, ctas)
    assert ctas <= SMS


@pytest.mark.parametrize("m", [1, 40, 129, 1000, 7168])
@pytest.mark.parametrize("n", [1, 72, 384, 2304, 100000])
@pytest.mark.parametrize("k", [64, 7168])
def test_every_shape_gets_a_configuration_that_fits(choose, m, n, k):
    _, ctas, shared = choose(m, n, k, 3)
    assert ctas >= 3
    assert shared <= MAX_SHARED_BYTES


@pytest.fixture(scope="module")
def compiled(root, tmp_path_factory):
    """ptxas' report of the kernels."""
    found = subprocess.run([root / "scripts/find_nvcc.sh"], capture_output=True, text=True)
    if found.returncode != 0:
        pytest.skip(found.stderr.strip())
    target = tmp_path_factory.mktemp("ptxas") / "kernels.o"
    command = [found.stdout.strip(), "-std=c++17", "-O3", "-gencode=arch=compute_90a,code=sm_90a", "-Xptxas", "-v"]
    done = subprocess.run([*command, "-c", "-o", target, root / "submission/hopper/kernels.cu"], capture_output=True)
    assert done.returncode == 0, done.stderr.decode()
    return done.stdout.decode() + done.stderr.decode()


def test_no_kernel_spills_or_uses_local_memory(compiled):
    frames = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", compiled)
    assert len(frames) == 8  # six configurations, the expansion, the blocking of scale factors
    assert set(frames) == {("0", "0", "0")}


def test_no_wgmma_is_serialised(compiled):
    assert "C75" not in compiled, compiled  # ptxas' performance warnings of wgmma and setmaxnreg


def test_no_source_holds_the_word_the_leaderboard_refuses(root):
    for path in (root / "submission").rglob("*"):
        if path.is_file() and path.suffix in {".c", ".h", ".cu", ".cuh", ".py", ".mk"}:
            assert "stream" not in path.read_text().lower(), path
