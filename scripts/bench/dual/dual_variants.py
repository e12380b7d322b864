"""The dual GEMM's variants for compare.py: how each is called and how its results are checked."""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path

import torch

from reference.reference import check_against_oracle, compare, ref_kernel
from scripts.bench.baselines import variant
from scripts.bench.baselines.dual_baselines import ROUNDED, UNGATED, gated
from scripts.bench.baselines.variant import BACKENDS, Call, kernel_of_checkout
from scripts.bench.dual.dual_problem import Problem

ROOT = Path(__file__).resolve().parents[3]
CONFIG_VARIABLES = tuple(f"NVFP4_{backend}_CONFIG" for backend in BACKENDS)
HALF_TOLERANCE = 2e-2  # tolerance of baselines that round both products to fp16, relative to the largest output


def load_shim(library: str, checkout: Path = ROOT) -> Callable[..., torch.Tensor]:
    """custom_kernel of a checkout's shim on another library; by default of this checkout's."""
    return kernel_of_checkout(library, checkout, "submission")


def wanted(problem: Problem) -> list[torch.Tensor]:
    """The reference's results for every input. Raises RuntimeError where they are wrong themselves."""
    wants = [ref_kernel(data) for data in problem.data]
    ok, message = check_against_oracle(problem.data[0], wants[0])
    if not ok:
        raise RuntimeError(f"the reference is wrong: {message}")
    return wants


def ours(problem: Problem, name: str, kernels: dict[str, Callable[..., torch.Tensor]], scales: str) -> Call:
    """A variant of the library; `prepare` sets what the library reads in each call."""
    inputs = [problem.arguments(i, scales) for i in range(len(problem.data))]
    return variant.ours(inputs, name, kernels, CONFIG_VARIABLES)


def check(problem: Problem, name: str, call: Call, wants: list[torch.Tensor]) -> str:
    """The first error in a variant's results, or ""; every element must be written."""
    for i in (0, len(problem.data) - 1):
        variant.run_into_nan(call, i, [problem.data[i][-1], problem.both])
        if name in UNGATED:
            gated(problem.both, problem.n, problem.output(i))
        output = problem.data[i][-1]
        if name in ROUNDED:
            error = variant.rounding_error(output, wants[i])
            if not error < HALF_TOLERANCE:
                return f"{name}: relative error {error:g}"
        else:
            ok, message = compare(output, wants[i])
            if not ok:
                return f"{name}: {message}"
    return ""
