"""Which file is the library.  A bundle has scripts/release/bundle_loader.py in this module's place."""

from __future__ import annotations

import os
from pathlib import Path

LIBRARY_NAME = "libcustom_kernel.so"
SIMULATED_LIBRARY_NAME = "libcustom_kernel_sim.so"  # runs the GPU kernels on the PTX simulator, on CPU tensors


def library_path() -> Path:
    """NVFP4_LIBRARY if set; else the library beside this file (installed package); else the one in the BUILD folder.

    NVFP4_SIMULATE=1 selects the simulator's library by name.
    """
    override = os.environ.get("NVFP4_LIBRARY")
    name = SIMULATED_LIBRARY_NAME if os.environ.get("NVFP4_SIMULATE") == "1" else LIBRARY_NAME
    folder = Path(__file__).resolve().parent
    beside = folder / name
    built = folder.parent / (os.environ.get("BUILD") or "build") / name
    return Path(override) if override else beside if beside.is_file() else built
