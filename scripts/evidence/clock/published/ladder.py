"""Kernels of others with a published B200 time on the simulated clock: gau-nernst/learn-cuda's ladder of bf16 products.

    python -m scripts.evidence.clock.b200 run FOLDER ladder     # of the checkout in FOLDER, at COMMIT

The kernels are theirs, fetched and compiled for the CUDA runtime's shim, not committed; no product is computed.  Times
are published as TFLOP/s of calls behind each other, each with inputs of its own, and so they are taken here.  They
were timed in runs of 10 ms and more on a machine whose clock is not told; "own clock" takes them at the clock that
one of them gives, v7c, and the others validate it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from scripts.common.toolchain import built, nvcc
from scripts.evidence.clock.row import ROOT, Row

COMMIT = "1454f8b"
CHIP = "simulator/clock/chips/b200.json"
GROUP = "ladder"
OWN_CLOCK = "own clock"
# What v7c takes on a chip of that clock: tensor cores are busy 96 % of its time, so that it tells a clock and little
# else.  L2 and HBM keep theirs.
CLOCK_OF = "v7c"
OWN_GHZ = 1.34
OWN_SOURCE = "fitted on learn-cuda's v7c"
PART = "02e_matmul_sm100"
SIZE = 4096  # M, N and K of the published table
CALLS = 2  # the last of them counts
KERNEL = re.compile(r"^(v\d\w?) \(.*?\)?\s*\|\s*([\d.]+)", re.MULTILINE)
TORCH = """
#include <cstdlib>
#include <string>
#include <tuple>
#include <cuda_bf16.h>
#define TORCH_CHECK(ok, ...) do { if (!(ok)) std::abort(); } while (0)
"""
MAIN = """
int main() {
    constexpr size_t bytes = (size_t)SIZE * SIZE * sizeof(nv_bfloat16);
    for (int i = 0; i < CALLS; i++) {
        nv_bfloat16 *d[3];
        for (auto &buffer : d) cudaMalloc((void **)&buffer, bytes);
        matmul_NAME(d[0], d[1], d[2], SIZE, SIZE, SIZE);
    }
    return (int)cudaDeviceSynchronize();
}
"""


def published(folder: Path) -> dict[str, float]:
    """us a call by kernel, from the README's TFLOP/s."""
    text = (folder / PART / "README.md").read_text()
    return {name: 2 * SIZE**3 / float(rate) * 1e-6 for name, rate in KERNEL.findall(text)}


def program(folder: Path, name: str, target: Path) -> None:
    """Compiles one kernel of the ladder with a main that calls it."""
    source = folder / PART / f"matmul_{name[:2]}.cu"
    text = MAIN.replace("SIZE", str(SIZE)).replace("CALLS", str(CALLS)).replace("NAME", name)
    stand_in = target.parent / "torch"
    stand_in.mkdir()
    (stand_in / "library.h").write_text(TORCH)
    target.with_suffix(".cu").write_text(f'#include "{source}"\n{text}')
    gencode = ["-gencode", "arch=compute_100a,code=compute_100a", "--no-compress"]
    where = ["-I", str(target.parent), "-I", str(source.parent)]
    options = ["-std=c++17", "-O3", "-w", "--expt-relaxed-constexpr", *gencode, *where]
    subprocess.run([nvcc(), *options, "-c", "-o", f"{target}.o", f"{target}.cu"], check=True)
    libraries = [str(built("libcudart_sim.a")), "-lpthread", "-lm", "-ldl"]
    subprocess.run(["g++", "-o", str(target), f"{target}.o", *libraries], check=True)


def chip_at(ghz: float, source: str, at: Path) -> Path:
    """The chip's file with another clock under MMAs."""
    chip = json.loads((ROOT / CHIP).read_text())
    chip["parameters"]["sm_clock_tensor"] |= {"value": ghz, "source": source}
    at.write_text(json.dumps(chip))
    return at


def call_us(folder: Path, name: str, ghz: float = 0) -> float:
    """Simulated us from end to end of the last two calls; ghz: not the chip file's clock."""
    with tempfile.TemporaryDirectory() as where:
        target, report = Path(where) / "matmul", Path(where) / "report.json"
        chip = chip_at(ghz, OWN_SOURCE, Path(where) / "chip.json") if ghz else ROOT / CHIP
        program(folder, name, target)
        environment = {
            **os.environ, "NVFP4_SIMULATE_TIME": str(chip), "NVFP4_SIMULATE_CHIP": "b200",
            "NVFP4_SIMULATE_CHECKS": "0", "NVFP4_SIMULATE_VALUES": "0", "NVFP4_SIMULATE_GO_ON": "1",
            "NVFP4_SIMULATE_JSON": str(report),
        }  # fmt: skip
        subprocess.run([str(target)], env=environment, stdout=subprocess.DEVNULL, check=True)
        launches = json.loads(report.read_text())["time"]["launches"]
        return launches[-1]["end_us"] - launches[-2]["end_us"]


def ladder_rows(folder: Path, names: list[str]) -> Iterator[Row]:
    """Each kernel beside its published time."""
    measured = published(folder)
    for name in names or list(measured):
        if name != "v0":  # mma.sync
            yield Row(GROUP, "learn-cuda", f"{name} {SIZE}", "us", call_us(folder, name), measured[name], "validated")


def own_clock_rows(folder: Path, names: list[str]) -> Iterator[Row]:
    """The kernels at the clock of the machine that timed them."""
    measured = published(folder)
    for name in names or list(measured):
        if name != "v0":
            use = "calibrated" if name == CLOCK_OF else "validated"
            predicted = call_us(folder, name, OWN_GHZ)
            yield Row(OWN_CLOCK, "learn-cuda", f"{name} {SIZE}", "us", predicted, measured[name], use)
