"""Assembles PTX, so that the simulator's clock can time programs by their machine code.

    NVFP4_SIMULATE_MACHINE_CODE=FOLDER program      # writes FOLDER/HASH.ptx for each module
    python -m simulator.python.machine_code FOLDER    # writes FOLDER/HASH.machine for each of them
    NVFP4_SIMULATE_MACHINE_CODE=FOLDER program      # is timed by its machine code

Needs ptxas of the CUDA toolkit that made the PTX, and nvdisasm (the package nvidia-cuda-nvdisasm).
"""

from __future__ import annotations

import argparse
import sys
from pathlib import Path

from simulator.python.machine_code.assemble import assemble_left


def main() -> int:
    """Assembles the folder's modules that have no machine code yet."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path)
    print(f"{assemble_left(parser.parse_args().folder)} modules assembled")
    return 0


if __name__ == "__main__":
    sys.exit(main())
