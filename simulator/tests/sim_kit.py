"""The simulator's library through ctypes, and kernels for one instruction."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

import pytest

from simulator.python import toolchain
from simulator.python.frame import HEADER, Sim, aligned, body, library
from simulator.python.ptxsim import MODES, RUN_ERROR, VERDICTS, PtxError
from simulator.python.ptxsim.structs import Counters, Finding, Launch, Options, TensorMap
from simulator.python.toolchain import ROOT, built

# The binding, and helpers for tests below.
__all__ = [
    "HEADER",
    "MODES",
    "PTX",
    "ROOT",
    "RUN_ERROR",
    "VERDICTS",
    "Counters",
    "Finding",
    "Launch",
    "Options",
    "PtxError",
    "Sim",
    "TensorMap",
    "aligned",
    "body",
    "built",
    "compile_cuda",
    "library",
    "nvcc",
]

PTX = Path(__file__).resolve().parent / "ptx"


@cache
def nvcc() -> str:
    """A usable nvcc, or the test is skipped with the reason."""
    try:
        return toolchain.nvcc()
    except toolchain.NoCompiler as error:
        pytest.skip(str(error))


def compile_cuda(source: str, folder: Path, arch: str = "90a") -> str:
    """PTX of CUDA source text."""
    path = folder / "kernel.cu"
    path.write_text(source)
    command = [nvcc(), "-std=c++17", "-O3", "-lineinfo", f"-gencode=arch=compute_{arch},code=compute_{arch}", "-ptx"]
    subprocess.run([*command, "-o", str(folder / "kernel.ptx"), str(path)], check=True, capture_output=True)
    return (folder / "kernel.ptx").read_text()


WIDTHS = {"16": ("%rs", "b16", 2), "32": ("%r", "b32", 4), "64": ("%rd", "b64", 8)}
