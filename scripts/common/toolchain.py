"""What stands ready to run here: the CUDA compiler, and files that make makes."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / (os.environ.get("BUILD") or "build")  # where make builds


class NoCompiler(Exception):
    """Why there is no usable compiler."""


@cache
def nvcc() -> str:
    """The nvcc that the Makefile uses, by scripts/find_nvcc.sh; NoCompiler where none can be used."""
    done = subprocess.run(["scripts/find_nvcc.sh"], cwd=ROOT, capture_output=True, text=True, check=False)
    if not done.stdout.strip():
        raise NoCompiler(done.stderr.strip() or "no nvcc")
    return done.stdout.strip()


@cache
def built(name: str) -> Path:
    """A file that make makes, in BUILD (default build); under `make test` it is there already."""
    target = os.environ.get("BUILD") or "build"
    if "NVFP4_TESTS_BUILT" not in os.environ or not (BUILD / name).exists():
        done = subprocess.run(["make", "-s", f"{target}/{name}"], cwd=ROOT, capture_output=True, text=True, check=False)
        if done.returncode != 0:
            raise RuntimeError(done.stdout + done.stderr)
    return BUILD / name
