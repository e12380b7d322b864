"""The compilers of this machine."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


class NoCompiler(Exception):
    """Why there is no usable compiler."""


@cache
def nvcc() -> str:
    """The nvcc that the Makefile uses, by scripts/find_nvcc.sh; NoCompiler where none can be used."""
    done = subprocess.run(["scripts/find_nvcc.sh"], cwd=ROOT, capture_output=True, text=True, check=False)
    if not done.stdout.strip():
        raise NoCompiler(done.stderr.strip() or "no nvcc")
    return done.stdout.strip()
