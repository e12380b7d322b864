"""gau-nernst/learn-cuda's ladder of bf16 products on the B200's clock, beside the published times.

    python -m simulator.calibration.b200 FOLDER ladder     # the checkout in FOLDER, at COMMIT

The kernels come from that checkout and are compiled for the CUDA runtime's shim; nothing of theirs is committed, and
products are not computed.  The author published TFLOP/s of calls in a row, each with inputs of its own, from runs of
10 ms and more on a machine whose SM clock is not known.  The set "own clock" simulates them at the clock that one
kernel, v7c, implies; the other kernels validate it.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from simulator.calibration.rows import CHIPS, Row
from simulator.python.toolchain import built, nvcc

COMMIT = "1454f8b"
GROUP = "ladder"
OWN_CLOCK = "own clock"
# v7c's published time implies this SM clock: its tensor cores are busy 96 % of the time.  L2 and HBM keep their clocks.
CLOCK_OF = "v7c"
OWN_GHZ = 1.34
OWN_SOURCE = "fitted on learn-cuda's v7c"
PART = "02e_matmul_sm100"
SIZE = 4096  # M, N and K of the published table
CALLS = 2  # the last one counts
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
    """us of a call, by kernel, from the README's TFLOP/s."""
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
    """Writes the B200's chip file with another SM clock under MMAs."""
    chip = json.loads((CHIPS / "b200.json").read_text())
    chip["parameters"]["sm_clock_tensor"] |= {"value": ghz, "source": source}
    at.write_text(json.dumps(chip))
    return at


def call_us(folder: Path, name: str, ghz: float = 0) -> float:
    """Simulated us from the end of one call to the end of the next; ghz: an SM clock other than the chip file's."""
    with tempfile.TemporaryDirectory() as where:
        target, report = Path(where) / "matmul", Path(where) / "report.json"
        chip = chip_at(ghz, OWN_SOURCE, Path(where) / "chip.json") if ghz else CHIPS / "b200.json"
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
    """The kernels beside their published times."""
    measured = published(folder)
    for name in names or list(measured):
        if name != "v0":  # mma.sync
            yield Row(GROUP, "learn-cuda", f"{name} {SIZE}", "us", call_us(folder, name), measured[name], "validated")


def own_clock_rows(folder: Path, names: list[str]) -> Iterator[Row]:
    """The same at OWN_GHZ."""
    measured = published(folder)
    for name in names or list(measured):
        if name != "v0":
            use = "calibrated" if name == CLOCK_OF else "validated"
            predicted = call_us(folder, name, OWN_GHZ)
            yield Row(OWN_CLOCK, "learn-cuda", f"{name} {SIZE}", "us", predicted, measured[name], use)
