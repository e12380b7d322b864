"""Programs whose calls of the package run on the simulator."""

from __future__ import annotations

import json
import os
from pathlib import Path

from simulator.python import forked
from simulator.tests.sim_kit import built, nvcc

BACKENDS = ("hopper", "blackwell", "geforce")


def simulate(
    backend: str, mode: str, runs: object, folder: Path, program: str, ptx: Path | None = None, **variables: str
) -> tuple[object, dict[str, object]]:
    """What the program prints last, as JSON, and the simulator's report.

    ptx: faulty kernels to run in place of the package's; the program may then fail, and prints None.
    """
    nvcc()
    environment = dict(
        os.environ,
        NVFP4_LIBRARY=str(built("libcustom_kernel_sim.so")),
        NVFP4_BACKEND=backend,
        NVFP4_SIMULATE="1",
        NVFP4_SIMULATE_MODE=mode,
        NVFP4_SIMULATE_JSON=str(folder / "report.json"),
        NVFP4_SIMULATE_PTX=str(ptx or ""),
        TILE_VARIABLE=f"NVFP4_{backend.upper()}_CONFIG",
        **variables,
    )
    done = forked.run(program, [json.dumps(runs)], environment, timeout=500)
    assert done.returncode == 0 or ptx, done.stderr
    printed = json.loads(done.stdout.splitlines()[-1]) if done.returncode == 0 else None
    return printed, json.loads((folder / "report.json").read_text())
