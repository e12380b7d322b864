"""The dual GEMM and the leaderboard's grouped GEMM as operators of PyTorch.

They are for torch.compile, torch.export, FakeTensor, CUDA graphs and any queue.

    torch.ops.nvfp4_gemm.dual_gemm(a, b1, b2, sfa, sfb1, sfb2, options) -> c    allocates the output
    torch.ops.nvfp4_gemm.dual_gemm.out(..., sfb2, c, options)        writes to c; returns nothing

dual_gemm() below calls them and documents the arguments; submission/torch/dual_gemm_operator.c implements them.  (The
second overload's output is not named `out` because torch.compile restricts the memory order of an argument of that
name.)

A bundle does not contain this file.
"""

from __future__ import annotations

from collections.abc import Sequence

import torch

from . import group_submission
from .operators import (
    APART,
    FP16,
    OPTIONS,
    forward_ad,
    other_options,
    refuse_derivative,
    register,
    register_in_python,
    without_derivative,
)
from .scale_layouts import ScaleLayout


def _new_c(a: torch.Tensor, b1: torch.Tensor, *_: object) -> torch.Tensor:
    """An output for these operands, in the memory order that the library writes."""
    n = b1.shape[0]
    if b1.dim() == 2:
        return torch.empty((*a.shape[:-1], n), dtype=torch.float16, device=a.device)
    return torch.empty((a.shape[2], a.shape[0], n), dtype=torch.float16, device=a.device).permute(1, 2, 0)


register("dual_gemm", _new_c)
register("dual_gemm.out", lambda *_: None)
_new, _out = torch.ops.nvfp4_gemm.dual_gemm.default, torch.ops.nvfp4_gemm.dual_gemm.out


def dual_gemm(
    a: torch.Tensor,
    b1: torch.Tensor,
    b2: torch.Tensor,
    sfa: torch.Tensor,
    sfb1: torch.Tensor,
    sfb2: torch.Tensor,
    out: torch.Tensor | None = None,
    *,
    scale_layout: ScaleLayout = None,
) -> torch.Tensor:
    """silu(a @ b1^T) * (a @ b2^T) of NVFP4 operands, in float16; written to `out` if given, else to a new tensor.

    a (M, K/2) or (..., K/2), b1 and b2 (N, K/2): float4_e2m1fn_x2 or uint8, two e2m1 values per byte, the first in the
    low half.
    sfa, sfb1, sfb2: float8_e4m3fn or uint8, one scale factor for 16 elements of K.
    out (M, N): float16.

    scale_layout: "linear", scale factors row by row, (rows, K/16); "swizzled128x4", blocks of 128 rows x 4 groups, as
    (ceil(rows/128) * 128, K/16), flat, or as the view (32, 4, ceil(rows/128), 4, K/64) that swizzle_scales() returns;
    "swizzled8x4", blocks of 8 rows; or a pair of these, for sfa and for the other two.  None: five dimensions are
    "swizzled128x4"; two are "linear", but refused if the rows are a multiple of 128, because then both layouts fit.
    Different layouts for sfa and the others cost a copy of sfa.

    All tensors may have one dimension more, L, for L problems of the same size, in the memory order of custom_kernel().
    M may be 0.  K is a multiple of 16, fastest of 64.  All tensors are packed without gaps, 16-byte aligned, on one
    device, CPU or CUDA; the kernel runs on the device's current queue.  There is no bias and no scale of a whole tensor
    (gated_gemm has scales), and derivatives are refused.  Stacked weights need no copy: b1, b2 = w13[:N], w13[N:], and
    likewise their scale factors if these are linear or N is a multiple of 128.

    Raises RuntimeError, TypeError or ValueError, naming the argument; `out` is then unchanged.
    """
    try:
        options = OPTIONS[scale_layout, FP16, APART]
    except (KeyError, TypeError):
        options = other_options(scale_layout)
    if out is not None:
        try:
            if (
                forward_ad._current_level >= 0 or out.requires_grad or a.requires_grad or b1.requires_grad
                or b2.requires_grad or sfa.requires_grad or sfb1.requires_grad or sfb2.requires_grad
            ):  # fmt: skip
                refuse_derivative(out=out, a=a, b1=b1, b2=b2, sfa=sfa, sfb1=sfb1, sfb2=sfb2)
            _out(a, b1, b2, sfa, sfb1, sfb2, out, options)
        except AttributeError:  # one is no tensor
            if not isinstance(out, torch.Tensor):
                raise TypeError(f"out is {out!r:.40}; expected a torch.Tensor") from None
            _out(a, b1, b2, sfa, sfb1, sfb2, out, options)
        except RuntimeError:
            if out.is_neg():
                raise ValueError("out has torch's negative bit; expected values as they lie in memory") from None
            raise
        return out
    c = _new(a, b1, b2, sfa, sfb1, sfb2, options)
    if c.requires_grad or forward_ad._current_level >= 0:
        return without_derivative(c, a=a, b1=b1, b2=b2, sfa=sfa, sfb1=sfb1, sfb2=sfb2)
    return c


_GROUPED = "grouped(Tensor[] a, Tensor[] b, Tensor[] sfa, Tensor[] sfb, SymInt[] sizes, Tensor(a!)[] c) -> ()"
_SIZES = 4  # M, N, K and L of a group


def _grouped(
    a: list[torch.Tensor],
    b: list[torch.Tensor],
    sfa: list[torch.Tensor],
    sfb: list[torch.Tensor],
    sizes: list[int],
    c: list[torch.Tensor],
) -> None:
    shapes = [tuple(sizes[i : i + _SIZES]) for i in range(0, len(sizes), _SIZES)]
    factors = list(zip(sfa, sfb, strict=True))
    group_submission.custom_kernel((list(zip(a, b, c, strict=True)), factors, factors, shapes), None)


def _no_results(*_: object) -> None:
    """The outputs are arguments."""


register_in_python(_GROUPED, _grouped, _no_results)


def custom_kernel_grouped(data: Sequence[Sequence[object]], queue: int | None = None) -> list[torch.Tensor]:
    """Computes c_i = a_i @ b_i^T for every group, writes it to the group's c and returns the list of all c.

    data: four lists with one tuple for each of 1 to 65,536 groups:

        abc_tensors               (a, b, c)
            a (M, K/2, 1), b (N, K/2, 1)  float4_e2m1fn_x2, two values of K per byte, contiguous
            c (M, N, 1)  float16, contiguous
        sfasfb_tensors            not read
        sfasfb_reordered_tensors  (sfa, sfb)
            (32, 4, ceil(rows/128), 4, K/64, 1)  float8_e4m3fn, memory (rows/128, K/64, 32, 4, 4); padding rows are
            not used
        problem_sizes             (M, N, K, 1): M >= 0, N >= 1, K a multiple of 64; each group has sizes of its own

    All tensors are on one device, CPU or CUDA, and 16-byte aligned; a c overlaps no other tensor.  More than 256 groups
    are computed by several launches.  torch.compile(fullgraph=True) sees one operator, on the current queue.
    queue: the handle of the CUDA queue to run on, 0 for the default one; None: the device's current queue.  On a GPU
    the call returns when the work is queued.

    May be called from several threads, each with outputs of its own.  Raises TypeError or ValueError, naming the tensor
    and the group, or RuntimeError if the library cannot run the call; every c is then unchanged.
    """
    if torch.compiler.is_compiling():
        abc, _, factors, sizes = data
        outputs = [c for _, _, c in abc]
        torch.ops.nvfp4_gemm.grouped(
            [a for a, _, _ in abc],
            [b for _, b, _ in abc],
            [sfa for sfa, _ in factors],
            [sfb for _, sfb in factors],
            [number for size in sizes for number in size],
            outputs,
        )
        return outputs
    return group_submission.custom_kernel(data, queue)
