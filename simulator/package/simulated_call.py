"""Times the package's kernels on the PTX simulator, in a separate process."""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Sequence
from pathlib import Path
from typing import Any

from simulator.python.machine_code.assemble import VARIABLE, by_machine_code, edition
from simulator.python.toolchain import BUILD

ROOT = Path(__file__).resolve().parents[2]
MACHINE_CODE = BUILD / "machine_code" / edition()  # machine code of all simulated programs
CHIPS = {"hopper": "h200", "blackwell": "b200", "geforce": "rtx5090"}  # the chip that stands for a backend
CALL = """
import sys
import torch
torch.set_num_threads(1)
from reference.reference import generate_input
from submission.submission import custom_kernel
m, n, k, calls = map(int, sys.argv[1:])
for data in [generate_input(m=m, n=n, k=k, l=1, seed=1111 + i, device="cpu") for i in range(calls)]:
    custom_kernel(data)
"""


def benchmark_shapes() -> list[str]:
    """The shapes of the dual GEMM's benchmark as "MxNxK"."""
    text = (ROOT / "reference/problems/dual_gemm/benchmark.txt").read_text()
    return ["x".join(found) for found in re.findall(r"m: *(\d+); *n: *(\d+); *k: *(\d+)", text)]


def tile_table(*arguments: str) -> dict[str, Any]:
    """The tiles of each backend; given a backend, its SMs and shapes, the tile that it selects for each shape."""
    command = [str(BUILD / "tile_table"), *arguments]
    return json.loads(subprocess.run(command, capture_output=True, text=True, check=True).stdout)


def simulated_calls(
    shape: tuple[int, int, int],
    backend: str,
    calls: int = 1,
    timeline: Path | None = None,
    root: Path = ROOT,
    machine_code: bool = False,
    **settings: str,
) -> dict[str, Any]:
    """Simulates `calls` calls in a row on shape (M, N, K), each with inputs of its own; returns the report's "time".

    No values are computed.  root: a checkout whose library is built in its folder build.  machine_code: time the
    kernels' machine code (needs ptxas and nvdisasm) instead of their PTX.  settings: further environment variables.
    Raises CalledProcessError if the run fails.
    """
    if machine_code:

        def run(folder: Path) -> dict[str, Any]:
            return simulated_calls(shape, backend, calls, timeline, root, **{**settings, VARIABLE: str(folder)})

        return by_machine_code(run, MACHINE_CODE)
    return simulated_program(CALL, (*map(str, shape), str(calls)), backend, timeline, root, **settings)


def simulated_program(
    program: str,
    arguments: Sequence[str],
    backend: str,
    timeline: Path | None = None,
    root: Path = ROOT,
    **settings: str,
) -> dict[str, Any]:
    """Runs a Python program that calls the package on the simulator; returns the report's "time", as above."""
    library = (BUILD if root == ROOT else root / "build") / "libcustom_kernel_sim.so"
    if not library.is_file():
        raise SystemExit(f"{library} does not exist; `make simulator` builds it where nvcc is")
    with tempfile.NamedTemporaryFile(suffix=".json") as report:
        environment = {
            **os.environ, "NVFP4_LIBRARY": str(library), "NVFP4_BACKEND": backend,
            "NVFP4_SIMULATE": "1", "NVFP4_SIMULATE_TIME": CHIPS[backend], "NVFP4_SIMULATE_CHECKS": "0",
            "NVFP4_SIMULATE_VALUES": "0", "NVFP4_SIMULATE_JSON": report.name, "PYTHONPATH": str(root), **settings,
        }  # fmt: skip
        if timeline is not None:
            environment["NVFP4_SIMULATE_TIMELINE"] = str(timeline)
        command = [sys.executable, "-c", program, *arguments]
        subprocess.run(command, cwd=root, env=environment, check=True)
        return json.loads(Path(report.name).read_text())["time"]
