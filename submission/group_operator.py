"""The leaderboard's grouped GEMM for models: any number of groups, and one node of a compiled graph."""

from __future__ import annotations

from collections.abc import Sequence

import torch

from . import group_submission
from .operators import register_in_python

_SCHEMA = "grouped(Tensor[] a, Tensor[] b, Tensor[] sfa, Tensor[] sfb, SymInt[] sizes, Tensor(a!)[] c) -> ()"
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


def _fake(*_: object) -> None:
    """The outputs are arguments."""


register_in_python(_SCHEMA, _grouped, _fake)


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
