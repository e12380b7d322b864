"""The GeForce backend without a GPU: the tiles it selects, and the code that the compiler makes of its kernels."""

from __future__ import annotations

import re
import subprocess

import pytest

from simulator.python.toolchain import built

MAX_REGISTERS = 255
CHIPS = {"GB10": 48, "RTX 5090": 170, "RTX PRO 6000": 188}


@pytest.mark.parametrize("chip", CHIPS)
@pytest.mark.parametrize(("m", "n", "k"), [(256, 4096, 7168), (512, 4096, 7168), (256, 3072, 4096), (512, 3072, 7168)])
def test_each_benchmark_shape_keeps_most_of_the_tensor_cores_busy(tiles, chip, m, n, k):
    """Compares predicted cycles with all multiply-adds spread over all SMs; M = 256 has tiles for 128 of 170 SMs."""
    least = 2 * m * n * k / 2048 / CHIPS[chip]
    assert tiles.selected("geforce", CHIPS[chip], m, n, k)["cost_cycles"] < 1.6 * least


def test_few_rows_take_the_tile_that_copies_least_of_a(tiles):
    for m in (1, 16, 64):
        assert tiles.selected("geforce", CHIPS["RTX 5090"], m, 4096, 7168)["tile"] == "m64n32"


@pytest.fixture(params=["120a", "121a"])
def chip(request, root):
    found = subprocess.run([root / "scripts/find_nvcc.sh"], capture_output=True, text=True)
    if found.returncode != 0:
        pytest.skip(found.stderr.strip())
    known = subprocess.run([found.stdout.strip(), "--list-gpu-arch"], capture_output=True, text=True).stdout.split()
    if f"compute_{request.param[:-1]}" not in known:
        pytest.skip(f"this nvcc does not know sm_{request.param}")
    return f"sm_{request.param}"


def test_no_kernel_spills_and_each_gets_the_registers_that_it_asks_for(chip, tiles):
    report = built("submission/geforce/geforce_kernels.o").with_suffix(".ptxas").read_text()  # the build keeps it
    assert "warning" not in report
    assert "setmaxnreg' ignored" not in report, "as where a copy is to .shared::cluster (C7506)"
    kernels = [part for part in report.split("Compiling entry function")[1:] if f"for '{chip}'" in part]
    table = tiles.table["geforce"]
    # Grouped tiles for few groups and many; kernels of no tile come on top.
    assert len(kernels) > len(table["tiles"]) + 2 * len(table["grouped_tiles"])
    for kernel in kernels:
        frames = re.findall(r"(\d+) bytes stack frame, (\d+) bytes spill stores, (\d+) bytes spill loads", kernel)
        assert frames == [("0", "0", "0")], kernel
        assert int(re.search(r"Used (\d+) registers", kernel)[1]) <= MAX_REGISTERS
