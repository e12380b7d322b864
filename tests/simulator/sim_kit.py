"""The simulator's library through ctypes, and kernels for one instruction."""

from __future__ import annotations

import subprocess
from functools import cache
from pathlib import Path

import numpy as np
import pytest

from scripts.common import toolchain
from scripts.common.ptxsim import (
    HEADER,
    MODES,
    ROOT,
    RUN_ERROR,
    VERDICTS,
    Counters,
    Finding,
    Launch,
    Options,
    PtxError,
    Sim,
    TensorMap,
    aligned,
    body,
    library,
)
from scripts.common.toolchain import built

# What tests of the simulator use: the binding, and below what is for tests alone.
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
    "run_op",
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


def run_op(instruction: str, result: str, *operands, result_width: int = 32, **launch) -> np.ndarray:
    """One instruction for 32 lanes.  `instruction` names its operands {0}, {1}, ...; arrays are uint16, 32 or 64."""
    lines = ["ld.param.u64 %rd1, [out];", "mov.u32 %r1, %tid.x;"]
    names = []
    for i, operand in enumerate(operands):
        width = operand.dtype.itemsize
        register, kind, _ = WIDTHS[str(8 * width)]
        names.append(f"{register}{10 + i}")
        lines += [
            f"ld.param.u64 %rd2, [in{i}];",
            f"mul.wide.u32 %rd3, %r1, {width};",
            "add.s64 %rd2, %rd2, %rd3;",
            f"ld.global.{kind} {names[-1]}, [%rd2];",
        ]
    register, kind, size = WIDTHS[str(result_width)]
    target = f"{register}9"
    lines += [
        instruction.format(target, *names),
        f"mul.wide.u32 %rd3, %r1, {size};",
        "add.s64 %rd1, %rd1, %rd3;",
        f"st.global.{kind} [%rd1], {target};",
    ]
    params = ".param .u64 out" + "".join(f", .param .u64 in{i}" for i in range(len(operands)))
    sim = Sim(body(*lines, params=params))
    out = sim.register(aligned(32, {2: np.uint16, 4: np.uint32, 8: np.uint64}[size]))
    assert sim.launch("k", out, *(sim.buffer(operand) for operand in operands), **launch) == 0, sim.findings
    assert sim.verdict == "clean", sim.findings
    return out.view(result)
