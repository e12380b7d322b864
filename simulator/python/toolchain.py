"""The CUDA compiler, the build folder and the files that make builds."""

from __future__ import annotations

import os
import subprocess
from functools import cache
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
BUILD = ROOT / (os.environ.get("BUILD") or "build")


class NoCompiler(Exception):
    """The reason why no nvcc can be used."""


@cache
def nvcc() -> str:
    """The nvcc that the Makefile uses (scripts/find_nvcc.sh).  Raises NoCompiler if none can be used."""
    done = subprocess.run(["scripts/find_nvcc.sh"], cwd=ROOT, capture_output=True, text=True, check=False)
    if not done.stdout.strip():
        raise NoCompiler(done.stderr.strip() or "no nvcc")
    return done.stdout.strip()


@cache
def built(name: str) -> Path:
    """The path of a file in BUILD (default: build), after make has built it; `make test` has built it before."""
    target = os.environ.get("BUILD") or "build"
    if "NVFP4_TESTS_BUILT" not in os.environ or not (BUILD / name).exists():
        makefile = next(path for path in ("Makefile", "simulator/Makefile") if (ROOT / path).is_file())
        done = subprocess.run(
            ["make", "-s", "-f", makefile, f"{target}/{name}"], cwd=ROOT, capture_output=True, text=True, check=False
        )
        if done.returncode != 0:
            raise RuntimeError(done.stdout + done.stderr)
    return BUILD / name
