"""Programs whose calls of the package run on the simulator."""

from __future__ import annotations

import json
import os
from pathlib import Path

from simulator.python import forked
from simulator.tests.sim_kit import built, nvcc

BACKENDS = ("hopper", "blackwell", "geforce")


def simulate(
    backend: str, mode: str, runs: object, folder: Path, program: str, **variables: str
) -> tuple[object, dict[str, object]]:
    """What the program prints last, as JSON, and the simulator's report."""
    nvcc()
    environment = dict(
        os.environ,
        NVFP4_LIBRARY=str(built("libcustom_kernel_sim.so")),
        NVFP4_BACKEND=backend,
        NVFP4_SIMULATE="1",
        NVFP4_SIMULATE_MODE=mode,
        NVFP4_SIMULATE_JSON=str(folder / "report.json"),
        TILE_VARIABLE=f"NVFP4_{backend.upper()}_CONFIG",
        **variables,
    )
    done = forked.run(program, [json.dumps(runs)], environment, timeout=500)
    assert done.returncode == 0, done.stderr
    return json.loads(done.stdout.splitlines()[-1]), json.loads((folder / "report.json").read_text())
