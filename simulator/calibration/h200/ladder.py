"""fast.cu's ladder of bf16 products on the H200's simulated clock.

    python -m simulator.calibration.h200 ladder FOLDER 2 4 8      # matmul_2, _4 and _8 of the checkout in FOLDER

The kernels come from that checkout and are compiled for the CUDA runtime's shim; nothing of theirs is committed.
Products are not computed, only timed.
"""

from __future__ import annotations

import json
import os
import subprocess
import tempfile
from collections.abc import Iterator
from pathlib import Path

from simulator.calibration import packed
from simulator.calibration.h200.page import RECORDED
from simulator.calibration.rows import ROOT, Row
from simulator.package.simulated_call import MACHINE_CODE
from simulator.python.machine_code.assemble import VARIABLE, by_machine_code
from simulator.python.toolchain import built, nvcc

SIZE = 2048  # the timed size that takes a minute to simulate
CALLS = 2  # the last one counts
PREAMBLE_FAST = """#define NDEBUG // as its author builds it
#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda/barrier>
#include <vector>
#include <cuda_runtime.h>
#include <cuda_bf16.h>
using bf16 = __nv_bfloat16;
#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))
#define cudaCheck(e) do { if ((e) != cudaSuccess) std::fprintf(stderr, "cuda error, line %d\\n", __LINE__); } while (0)
"""
MAIN = """
extern "C" __attribute__((weak)) CUresult cuGetErrorString(CUresult, const char **text) {
    *text = "an error";
    return CUDA_SUCCESS;
}
int main() {
    bf16 *d[3];
    for (auto &buffer : d) cudaMalloc((void **)&buffer, (size_t)SIZE * SIZE * sizeof(bf16));
    for (int i = 0; i < CALLS; i++) runKernelNUMBER(SIZE, SIZE, SIZE, d[0], d[1], d[2]MORE);
    return (int)cudaDeviceSynchronize();
}
"""


def program(folder: Path, number: int, target: Path) -> None:
    """Compiles one kernel of the ladder with a main that calls it."""
    source = folder / "examples" / "matmul" / f"matmul_{number}.cuh"
    words = {"SIZE": str(SIZE), "CALLS": str(CALLS), "NUMBER": str(number), "MORE": ", nullptr" if number > 2 else ""}
    text = MAIN
    for name, value in words.items():
        text = text.replace(name, value)
    target.with_suffix(".cu").write_text(f'{PREAMBLE_FAST}#include "{source}"\n{text}')
    gencode = ["-gencode", "arch=compute_90a,code=compute_90a", "--no-compress"]
    command = [nvcc(), "-std=c++17", "-O3", "-w", *gencode, "-c", "-o", f"{target}.o", f"{target}.cu"]
    subprocess.run(command, check=True)
    libraries = [str(built("libcudart_sim.a")), "-lpthread", "-lm", "-ldl"]
    subprocess.run(["g++", "-o", str(target), f"{target}.o", *libraries], check=True)


def call_us(folder: Path, number: int) -> float:
    """Simulated us from end to end of the last two calls."""
    with tempfile.TemporaryDirectory() as name:
        target, report = Path(name) / "matmul", Path(name) / "report.json"
        program(folder, number, target)
        environment = {
            **os.environ, "NVFP4_SIMULATE_TIME": "h200", "NVFP4_SIMULATE_CHIP": "h200", "NVFP4_SIMULATE_CHECKS": "0",
            "NVFP4_SIMULATE_VALUES": "0", "NVFP4_SIMULATE_JSON": str(report),
        }  # fmt: skip

        def run(own: Path) -> None:
            with_code = {**environment, VARIABLE: str(own)}
            subprocess.run([str(target)], env=with_code, stdout=subprocess.DEVNULL, check=True)

        by_machine_code(run, MACHINE_CODE)
        launches = json.loads(report.read_text())["time"]["launches"]
        return launches[-1]["end_us"] - launches[-2]["end_us"]


def ladder_rows(folder: str, numbers: list[str]) -> Iterator[Row]:
    """Each kernel beside the card's median."""
    rows = packed.read_dense(ROOT / RECORDED["ladder"])["rows"]
    measured = {row["kernel"]: row["median_us"] for row in rows if row["size"] == SIZE}
    for number in numbers:
        kernel = f"matmul_{number}"
        predicted = call_us(Path(folder).resolve(), int(number))
        yield Row("ladder", "fast.cu", f"{kernel} {SIZE}", "us", predicted, measured[kernel], "validated")
