"""The grouped GEMM as compare.py times it (--problem group_gemm): inputs, variants, baselines and what is checked.

A shape is given by the parts of its text: ("80,176", "4096", "7168") are two groups with the same N and K.  All
products round to fp16 or bf16 once.  The library's results must meet the leaderboard's tolerance, those of the
baselines, which may sum in any order, another one.
"""

from __future__ import annotations

from collections.abc import Callable
from pathlib import Path
from typing import Any

import torch

from reference import group_reference, nvfp4
from reference.check import compare
from reference.problems.group_gemm import PROBLEM, GroupGemm
from reference.problems.interface import BOARD, blank
from scripts.bench.baselines import variant
from scripts.bench.baselines.variant import Call, kernel_of_checkout

CONFIG_VARIABLE = "NVFP4_GROUPED_CONFIG"
INPUTS = PROBLEM.inputs
BASELINES = {
    "cublas_groups": "one cuBLAS fp16 GEMM a group on operands dequantized beforehand",
    "scaled_mm": "torch._scaled_mm from NVFP4 in blocks, a call a group; wants fp4 tensor cores",
    "grouped_mm": "one torch._grouped_mm in bf16 on operands dequantized beforehand; groups of one N and K",
}
DEFAULTS = ("cublas_groups", "grouped_mm")
TOLERANCE = 2e-2  # a baseline's error, relative to the largest output of a group


def shape_of(parts: tuple[int | str, ...]) -> GroupGemm:
    """The sizes of a shape's text; a single value holds for every group."""
    values = [tuple(map(int, str(part).split(","))) for part in parts]
    groups = max(map(len, values))
    if any(len(part) not in (1, groups) for part in values) or len(values) != 3:
        raise ValueError(f"{' '.join(map(str, parts))}: expected M N K, each of {groups} values or of one")
    return GroupGemm(*(part if len(part) == groups else part * groups for part in values))


class Problem:
    """One list of groups with its inputs and dequantized operands."""

    def __init__(self, m: int | str, n: int | str, k: int | str, inputs: int, device: str) -> None:
        self.shape, self.device = shape_of((m, n, k)), torch.device(device)
        seeds = range(1111, 1111 + 42 * inputs, 42)
        self.data = [
            self.shape.data(self.shape.generate(seed, BOARD, self.device), blank(self.shape, self.device))
            for seed in seeds
        ]
        self.dequantized = [
            [
                tuple(self._half(code, scale) for code, scale in zip(part[:2], factors, strict=True))
                for part, factors in both
            ]
            for both in (zip(data[0], data[1], strict=True) for data in self.data)
        ]

    def _half(self, code: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
        return nvfp4.decode(code[..., 0], scale[..., 0].to(self.device)).half()

    def outputs(self, i: int) -> list[torch.Tensor]:
        """Every c of input i."""
        return self.shape.offered(self.data[i])


def wanted(problem: Problem) -> list[list[torch.Tensor]]:
    """The reference's results for every input. Raises RuntimeError where they are wrong themselves."""
    wants = [group_reference.ref_kernel(data) for data in problem.data]
    ok, message = group_reference.check_against_oracle(problem.data[0], wants[0])
    if not ok:
        raise RuntimeError(f"the reference is wrong: {message}")
    return wants


def load_shim(library: str, checkout: Path) -> Callable[[Any], Any]:
    """custom_kernel of a checkout's grouped shim on another library."""
    renamed = (checkout / "submission" / "group_submission.py").is_file()  # group_gemm.py in older checkouts
    return kernel_of_checkout(library, checkout, "group_submission" if renamed else "group_gemm")


def ours(problem: Problem, name: str, kernels: dict[str, Callable[[Any], Any]], _scales: str) -> Call:
    """A variant of the library; `prepare` sets what the library reads in each call."""
    return variant.ours(problem.data, name, kernels, (CONFIG_VARIABLE,))


def baseline(problem: Problem, name: str) -> Call:
    """A baseline's call on input i."""
    return {"cublas_groups": _cublas_groups, "grouped_mm": _grouped_mm, "scaled_mm": _scaled_mm}[name](problem)


def _scaled_mm(problem: Problem) -> Call:
    def products(data: Any) -> list[tuple[torch.Tensor, ...]]:
        groups = zip(data[0], data[2], strict=True)
        return [(a[..., 0], b[..., 0], sfa, sfb, c[..., 0]) for (a, b, c), (sfa, sfb) in groups]

    return variant.scaled_mm([products(data) for data in problem.data])


def _cublas_groups(problem: Problem) -> Call:
    work = [
        [(a, b.t(), c[..., 0]) for (a, b), c in zip(part, problem.outputs(i), strict=True)]
        for i, part in enumerate(problem.dequantized)
    ]

    def call(i: int) -> None:
        for a, b, c in work[i]:
            torch.mm(a, b, out=c)

    return call


def _grouped_mm(problem: Problem) -> Call:
    """`finish`, which is not timed, copies the result to the outputs."""
    if len({(n, k) for _, n, k in problem.shape.groups}) > 1:
        raise ValueError("groups of different N or K; expected one N and one K")
    ends = torch.tensor(problem.shape.m, device=problem.device).cumsum(0).int()
    work = [
        (torch.cat([a for a, _ in part]).bfloat16(), torch.stack([b for _, b in part]).bfloat16().transpose(1, 2))
        for part in problem.dequantized
    ]
    last: list[Any] = [0, None]

    def call(i: int) -> None:
        last[:] = i, torch._grouped_mm(*work[i], offs=ends)

    def finish() -> None:
        for c, product in zip(problem.outputs(last[0]), last[1].split(problem.shape.m), strict=True):
            c[..., 0].copy_(product)

    call.finish = finish
    return call


def check(problem: Problem, name: str, call: Call, wants: list[list[torch.Tensor]]) -> str:
    """The first error in a variant's results over all inputs, or ""; every element must be written."""
    for i, want in enumerate(wants):
        variant.run_into_nan(call, i, problem.outputs(i))
        for group, (output, right) in enumerate(zip(problem.outputs(i), want, strict=True)):
            if not output.numel():
                continue
            if name in BASELINES:
                error = variant.rounding_error(output, right)
                ok, message = error < TOLERANCE, f"relative error {error:g}"
            else:
                ok, message = compare(output, right)
            if not ok:
                return f"{name}: group {group} of {len(want)}: {message}"
    return ""
