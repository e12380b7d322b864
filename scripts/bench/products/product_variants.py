"""The GEMM and the matrix-vector product as compare.py times them: inputs, variants, baselines and what is checked.

A shape has the problem's sizes in the order of its keys: M, N, K, L or M, K, L.
"""

from __future__ import annotations

from collections.abc import Callable
from functools import partial
from pathlib import Path
from typing import Any

import torch

from eval.judge import judge_as_board, judge_full
from reference import nvfp4
from reference.problems import PROBLEMS
from reference.problems.interface import BOARD, Shape, blank
from scripts.bench.baselines import variant
from scripts.bench.baselines.variant import Call, kernel_of_checkout

CONFIG_VARIABLE = "NVFP4_GROUPED_CONFIG"
BASELINES = {
    "cublas_product": "cuBLAS fp16 on operands dequantized beforehand",
    "copy": "a copy that reads and writes as many bytes as the problem has: the memory floor; computes nothing",
    "scaled_mm": "torch._scaled_mm from NVFP4 in blocks, a call a batch; wants fp4 tensor cores",
    "plain_gemm": "this package's plain_gemm, the extended GEMM, a call a batch",
}
DEFAULTS = {"gemm": ("cublas_product", "copy", "plain_gemm"), "gemv": ("cublas_product", "copy")}
TOLERANCE = 2e-2  # a baseline's error, relative to the largest output
INPUTS = 24


class Problem:
    """One shape with its inputs and dequantized operands."""

    def __init__(self, name: str, *arguments: Any) -> None:
        *sizes, inputs, device = arguments
        problem = PROBLEMS[name]
        self.shape = problem.shape(dict(zip(problem.keys, sizes, strict=False)))
        self.device = torch.device(device)
        self.data = [
            self.shape.data(self.shape.generate(seed, BOARD, self.device), blank(self.shape, self.device))
            for seed in range(1111, 1111 + 42 * inputs, 42)
        ]

    def output(self, i: int) -> torch.Tensor:
        """c of input i."""
        return self.shape.offered(self.data[i])


def kernel() -> Callable[[Any], Any]:
    """The package's."""
    from submission import product_submission

    return product_submission.custom_kernel


def wanted(problem: Problem) -> list[torch.Tensor]:
    """The reference's results for every input. Raises RuntimeError where they are wrong themselves."""
    wants = [problem.shape.problem.reference(data) for data in problem.data]
    verdict = judge_full(problem.shape, problem.data[0], wants[0])
    if not verdict.ok:
        raise RuntimeError(f"the reference is wrong: {verdict.message}")
    return wants


def load_shim(library: str, checkout: Path) -> Callable[[Any], Any]:
    """custom_kernel of a checkout's shim of the GEMM and the GEMV on another library."""
    return kernel_of_checkout(library, checkout, "product_submission")


def ours(problem: Problem, name: str, kernels: dict[str, Callable[[Any], Any]], _scales: str) -> Call:
    """A variant of the library; `prepare` sets what the library reads in each call."""
    return variant.ours(problem.data, name, kernels, (CONFIG_VARIABLE,))


def baseline(problem: Problem, name: str) -> Call:
    """A baseline's call on input i."""
    makers = {"cublas_product": _cublas, "copy": _copy, "scaled_mm": _scaled_mm, "plain_gemm": _plain_gemm}
    return makers[name](problem)


def _scaled_mm(problem: Problem) -> Call:
    batches, n = range(problem.shape.l), problem.shape.n
    return variant.scaled_mm(
        [
            [(a[..., j], b[:n, :, j], sfa[..., j : j + 1], sfb[..., j : j + 1], c[..., j]) for j in batches]
            for a, b, _, _, sfa, sfb, c in problem.data
        ]
    )


def _batches(codes: torch.Tensor, scales: torch.Tensor, rows: int) -> torch.Tensor:
    """(L, rows, K) in fp16."""
    return torch.stack([nvfp4.decode(codes[:rows, :, i], scales[:rows, :, i]).half() for i in range(codes.shape[2])])


def _cublas(problem: Problem) -> Call:
    n = problem.shape.n
    work = [
        (_batches(data[0], data[2], problem.shape.m), _batches(data[1], data[3], n).transpose(1, 2))
        for data in problem.data
    ]
    outputs = [problem.output(i).permute(2, 0, 1) for i in range(len(work))]

    def call(i: int) -> None:
        torch.bmm(*work[i], out=outputs[i])

    return call


def _plain_gemm(problem: Problem) -> Call:
    """`finish`, which is not timed, copies the results to the outputs."""
    from submission import plain_gemm

    last: list[Any] = [0, []]
    n = problem.shape.n

    def call(i: int) -> None:
        a, b, _, _, sfa, sfb, c = problem.data[i]
        batches = range(c.shape[2])
        last[:] = i, [plain_gemm(a[..., j], b[:n, :, j], sfa[..., j], sfb[..., j]) for j in batches]

    def finish() -> None:
        problem.output(last[0]).copy_(torch.stack(last[1], dim=-1))

    call.finish = finish
    return call


def copied_bytes(shape: Shape) -> int:
    """Bytes of a copy that reads and writes as many as the problem."""
    least = shape.work()
    return (least.read_bytes + least.written_bytes) // 2


def _copy(problem: Problem) -> Call:
    count = copied_bytes(problem.shape)
    pairs = [[torch.zeros(count, dtype=torch.uint8, device=problem.device) for _ in range(2)] for _ in problem.data]

    def call(i: int) -> None:
        pairs[i][0].copy_(pairs[i][1])

    return call


def check(problem: Problem, name: str, call: Call, wants: list[torch.Tensor]) -> str:
    """The first error in a variant's results over all inputs, or ""; every element must be written."""
    for i, want in enumerate(wants if name != "copy" else ()):
        output = problem.output(i)
        variant.run_into_nan(call, i, [output])
        if name in BASELINES:
            error = variant.rounding_error(output, want)
            ok, message = error < TOLERANCE, f"relative error {error:g}"
        else:
            ok, message, _ = judge_as_board(problem.shape, problem.data[i], output)
        if not ok:
            return f"{name}: input {i}: {message}"
    return ""


def make(name: str) -> Callable[..., Problem]:
    """The Problem of a problem's name."""
    return partial(Problem, name)
