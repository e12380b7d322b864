"""Baselines of the dual GEMM for compare.py: other programs that compute it, or the largest part of it."""

from __future__ import annotations

from collections.abc import Callable

import torch

from reference import nvfp4
from scripts.bench.baselines.variant import Call, in_memory_order
from scripts.bench.dual.dual_problem import Problem

BASELINES = {
    "cublas_one_gemm": "cuBLAS fp16, one [2N, K] GEMM on operands dequantized beforehand; no SiLU, no dequantization",
    "cublas_two_gemms": "two cuBLAS GEMMs on dequantized operands, then silu * mul",
    "dequantize_cublas": "from NVFP4: dequantize the three operands, one [2N, K] GEMM, silu * mul",
    "triton": "a fused Triton kernel from NVFP4 (scripts/bench/baselines/triton_baseline.py)",
    "scaled_mm": "two torch._scaled_mm from NVFP4 in blocks, fp32 products, silu * mul; wants fp4 tensor cores",
    "scaled_one_gemm": "one [2N, K] torch._scaled_mm from NVFP4 in blocks to fp16; no SiLU; wants fp4 tensor cores",
    "torch_bf16": "one [2N, K] torch matmul of bf16 operands dequantized beforehand; no SiLU",
    "torch_fp32": "the same in fp32",
}
CPU_BASELINES = ("torch_bf16", "torch_fp32")
CUDA_BASELINES = tuple(name for name in BASELINES if name not in CPU_BASELINES)
UNGATED = ("cublas_one_gemm", "scaled_one_gemm", *CPU_BASELINES)  # leave both products in Problem.both
# Products rounded to fp16 or bf16.
ROUNDED = ("cublas_one_gemm", "cublas_two_gemms", "dequantize_cublas", "scaled_one_gemm", *CPU_BASELINES)


def gated(both: torch.Tensor, n: int, out: torch.Tensor) -> None:
    """silu * mul of the two halves of a [M, 2N] product."""
    torch.mul(torch.nn.functional.silu(both[:, :n]), both[:, n:], out=out)


def fast_dequantize(fp4: torch.Tensor, scales: torch.Tensor, pairs: torch.Tensor) -> torch.Tensor:
    """NVFP4 to fp16 in two torch operations: a table look-up of both values of a byte, and the scale factor."""
    values = pairs[fp4.view(torch.uint8).int()].view(torch.half)
    grouped = values.view(fp4.shape[0], -1, nvfp4.GROUP_ELEMS)
    return (grouped * scales.half().unsqueeze(-1)).view(fp4.shape[0], -1)


def _one_gemm(problem: Problem, dtype: torch.dtype) -> Call:
    """The product in another type; `finish`, which is not timed, copies it to Problem.both."""
    operands = [(a.to(dtype), w.to(dtype)) for (a, _, _), w in zip(problem.dequantized, problem.stacked, strict=True)]
    both = torch.empty(problem.both.shape, dtype=dtype, device=problem.both.device)

    def call(i: int) -> None:
        a, w = operands[i]
        torch.mm(a, w.t(), out=both)

    call.finish = lambda: problem.both.copy_(both)
    return call


def _two_gemms(problem: Problem) -> Call:
    def call(i: int) -> None:
        a, b1, b2 = problem.dequantized[i]
        torch.mul(torch.nn.functional.silu(a @ b1.t()), a @ b2.t(), out=problem.output(i))

    return call


def _dequantize_cublas(problem: Problem) -> Call:
    byte = torch.arange(256, dtype=torch.uint8, device=problem.both.device)
    pairs = nvfp4.decode_e2m1(byte.unsqueeze(-1)).half().view(torch.int32).flatten()

    def call(i: int) -> None:
        data = problem.data[i]
        a, b1, b2 = (fast_dequantize(data[j][..., 0], data[j + 3][..., 0], pairs) for j in range(3))
        gated(a @ torch.cat((b1, b2)).t(), problem.n, problem.output(i))

    return call


def _triton(problem: Problem) -> Call:
    from scripts.bench.baselines.triton_baseline import dual_gemm

    return lambda i: dual_gemm(problem.data[i])


def _scaled_mm(problem: Problem) -> Call:
    scales = [[in_memory_order(scale) for scale in data[6:9]] for data in problem.data]

    def call(i: int) -> None:
        a, b1, b2 = (code[..., 0] for code in problem.data[i][:3])
        sfa, sfb1, sfb2 = scales[i]
        gate = torch._scaled_mm(a, b1.t(), sfa, sfb1, out_dtype=torch.float32)
        up = torch._scaled_mm(a, b2.t(), sfa, sfb2, out_dtype=torch.float32)
        problem.output(i).copy_(torch.nn.functional.silu(gate) * up)

    return call


def _scaled_one_gemm(problem: Problem) -> Call:
    """B1 above B2: N is a multiple of 128, so their blocks of scale factors can be joined."""
    stacked = []
    for data in problem.data:
        fp4 = torch.cat([code[..., 0].view(torch.uint8) for code in data[1:3]]).view(torch.float4_e2m1fn_x2)
        sfa, sfb1, sfb2 = (in_memory_order(scale).view(torch.uint8) for scale in data[6:9])
        stacked.append((fp4, sfa.view(torch.float8_e4m3fn), torch.cat((sfb1, sfb2)).view(torch.float8_e4m3fn)))

    def call(i: int) -> None:
        fp4, sfa, sfb = stacked[i]
        a = problem.data[i][0][..., 0]
        torch._scaled_mm(a, fp4.t(), sfa, sfb, out_dtype=torch.half, out=problem.both)

    return call


_MAKERS: dict[str, Callable[[Problem], Call]] = {
    "cublas_one_gemm": lambda p: lambda i: torch.mm(p.dequantized[i][0], p.stacked[i].t(), out=p.both),
    "cublas_two_gemms": _two_gemms,
    "dequantize_cublas": _dequantize_cublas,
    "triton": _triton,
    "scaled_mm": _scaled_mm,
    "scaled_one_gemm": _scaled_one_gemm,
    "torch_bf16": lambda p: _one_gemm(p, torch.bfloat16),
    "torch_fp32": lambda p: _one_gemm(p, torch.float32),
}


def baseline(problem: Problem, name: str) -> Call:
    """A baseline's call on input i."""
    return _MAKERS[name](problem)
