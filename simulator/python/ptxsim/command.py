"""The command `ptxsim` of the wheel: the program that lies beside this module."""

from __future__ import annotations

import os
import sys
from pathlib import Path


def main() -> None:
    """Becomes the program, with the arguments of this process."""
    program = Path(__file__).resolve().parent / "bin" / "ptxsim"
    os.execv(program, [str(program), *sys.argv[1:]])
