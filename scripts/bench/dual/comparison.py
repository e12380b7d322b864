"""The dual GEMM as compare.py times it: inputs, variants and what is checked."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Callable
from pathlib import Path

import torch

from reference import nvfp4
from reference.reference import check_against_oracle, compare, generate_input, ref_kernel
from scripts.bench.baselines import ROUNDED, UNGATED, Call, gated
from scripts.bench.groups.comparison import CPU_ISAS

ROOT = Path(__file__).resolve().parents[3]
BACKENDS = ("HOPPER", "BLACKWELL")  # each reads variables of its own
SEED = 1111
HALF_TOLERANCE = 2e-2  # of the baselines that round the two products to fp16, relative to the largest output


class Problem:
    """One shape with its inputs, dequantized operands and the variants' outputs."""

    def __init__(self, m: int, n: int, k: int, inputs: int, device: str) -> None:
        self.m, self.n, self.k = m, n, k
        self.data = [generate_input(m, n, k, 1, SEED + 42 * i, device=device) for i in range(inputs)]
        self.dequantized = [
            tuple(nvfp4.decode(code[..., 0], scale[..., 0]).half() for code, scale in zip(d[:3], d[3:6], strict=True))
            for d in self.data
        ]
        self.stacked = [torch.cat((b1, b2)) for _, b1, b2 in self.dequantized]
        self.dequantized = [(a, w[:n], w[n:]) for (a, _, _), w in zip(self.dequantized, self.stacked, strict=True)]
        self.both = torch.empty((m, 2 * n), dtype=torch.half, device=device)

    def arguments(self, i: int, scales: str) -> tuple[torch.Tensor, ...]:
        """Input i as custom_kernel takes it: all ten tensors, or seven, with the scale factors in rows only."""
        return self.data[i] if scales == "blocked" else (*self.data[i][:6], self.data[i][-1])

    def output(self, i: int) -> torch.Tensor:
        """The tensor c of input i, as (M, N)."""
        return self.data[i][-1][..., 0]


def load_shim(library: str, checkout: Path = ROOT) -> Callable[..., torch.Tensor]:
    """custom_kernel of a checkout's shim (this one's unless told) on another library."""
    shim = checkout / "submission" / "submission.py"
    spec = importlib.util.spec_from_file_location(f"shim_{len(sys.modules)}", shim)
    module = importlib.util.module_from_spec(spec)
    before = os.environ.get("NVFP4_LIBRARY")
    os.environ["NVFP4_LIBRARY"] = library
    try:
        spec.loader.exec_module(module)
    finally:
        if before is None:
            del os.environ["NVFP4_LIBRARY"]
        else:
            os.environ["NVFP4_LIBRARY"] = before
    return module.custom_kernel


def wanted(problem: Problem) -> list[torch.Tensor]:
    """The reference's results for every input. Raises RuntimeError where they are wrong themselves."""
    wants = [ref_kernel(data) for data in problem.data]
    ok, message = check_against_oracle(problem.data[0], wants[0])
    if not ok:
        raise RuntimeError(f"the reference is wrong: {message}")
    return wants


def ours(problem: Problem, name: str, kernels: dict[str, Callable[..., torch.Tensor]], scales: str) -> Call:
    """A variant of the library: its configuration is an environment variable the library reads in each call."""
    library, _, variant = name.rpartition("/")
    kernel = kernels[library]
    config, *suffixes = variant.split("+")
    dependent = "0" if "plain" in suffixes else "1"

    arguments = [problem.arguments(i, scales) for i in range(len(problem.data))]

    def call(i: int) -> None:
        kernel(arguments[i])

    def prepare() -> None:
        for backend in BACKENDS:
            os.environ[f"NVFP4_{backend}_CONFIG"] = "" if config == "auto" else config
            os.environ[f"NVFP4_{backend}_DEPENDENT_LAUNCH"] = dependent
        os.environ["NVFP4_CPU_ISA"] = config if config in CPU_ISAS else ""

    call.prepare = prepare
    return call


def synchronize(device: str) -> None:
    """Waits for a CUDA device; others have nothing in flight."""
    if device == "cuda":
        torch.cuda.synchronize()


def check(problem: Problem, name: str, call: Call, wants: list[torch.Tensor]) -> str:
    """What is wrong with a variant's results, if anything; every element has to be written."""
    for i in (0, len(problem.data) - 1):
        problem.data[i][-1].fill_(float("nan"))
        problem.both.fill_(float("nan"))
        call(i)
        getattr(call, "finish", lambda: None)()
        synchronize(problem.both.device.type)
        if name in UNGATED:
            gated(problem.both, problem.n, problem.output(i))
        output = problem.data[i][-1]
        if name in ROUNDED:
            error = (output.float() - wants[i].float()).abs().max() / wants[i].float().abs().max()
            if not error < HALF_TOLERANCE:
                return f"{name}: relative error {error:g}"
        else:
            ok, message = compare(output, wants[i])
            if not ok:
                return f"{name}: {message}"
    return ""
