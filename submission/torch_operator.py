"""The dual GEMM as an operator of PyTorch: for torch.compile, torch.export, FakeTensor, CUDA graphs and any queue.

    torch.ops.nvfp4_gemm.dual_gemm(a, b1, b2, sfa, sfb1, sfb2, options) -> c    allocates the output
    torch.ops.nvfp4_gemm.dual_gemm.out(..., sfb2, c, options)        writes to c; returns nothing

dual_gemm() below calls them and documents the arguments; submission/torch/dual_gemm_operator.c implements them.  (The
second overload's output is not named `out` because torch.compile restricts the memory order of an argument of that
name.)

A bundle does not contain this file.
"""

from __future__ import annotations

from collections.abc import Callable

import torch

from . import group_submission, product_submission, submission
from .extended_operator import run_gated
from .operator_checks import (
    CODE_DTYPES,
    GROUP,
    MOST_DIMENSIONS,
    SCALE_DTYPES,
    Rows,
    aligned,
    by_rows,
    check_k,
    check_tensor,
    layout_of_batches,
    require,
    resolved,
)
from .operators import (
    APART,
    FP16,
    NAMESPACE,
    OPTIONS,
    current_queue,
    forward_ad,
    other_options,
    read_options,
    refuse_derivative,
    register,
    without_derivative,
)
from .scale_layouts import Factors, ScaleLayout, for_library, view_shape

_Layouts = tuple[str | None, str | None]  # of sfa, and of sfb1 and sfb2
_SHIM_K = 64  # custom_kernel() takes multiples of it, the library's other calls of 16


def _are_batches(tensors: tuple[torch.Tensor, ...]) -> bool:
    """True if the tensors have a last dimension L."""
    a, b1 = tensors[:2]
    require(2 <= a.dim() < MOST_DIMENSIONS, lambda: f"a has shape {tuple(a.shape)}; expected (M, K/2) or (M, K/2, L)")
    batches = a.dim() == 3 and b1.dim() == 3
    wanted = "2 dimensions, or 3 as a" if a.dim() == 3 else "2 dimensions"
    require(b1.dim() == 2 or batches, lambda: f"b1 has shape {tuple(b1.shape)}; expected {wanted}")
    return batches


def _check_one(tensors: tuple[torch.Tensor, ...], layouts: _Layouts) -> tuple[Rows, bool, list[torch.Tensor]]:
    """Checks one problem; returns a by rows, and the scale factors as for_library() does."""
    a, b1, b2, *scales = tensors
    rows = by_rows(a, scales[0], layouts[0])
    check_k(rows.a)
    for name, codes, count in (("a", rows.a, rows.a.shape[0]), ("b1", b1, b1.shape[0]), ("b2", b2, b1.shape[0])):
        check_tensor(name, codes, CODE_DTYPES, (count, rows.a.shape[1]), a.device)
    groups = rows.a.shape[1] * 2 // GROUP
    given = [
        Factors("sfa", rows.sfa, rows.a.shape[0], groups, layouts[0]),
        Factors("sfb1", scales[1], b1.shape[0], groups, layouts[1]),
        Factors("sfb2", scales[2], b1.shape[0], groups, layouts[1]),
    ]
    return rows, *for_library(resolved(given, a.device))


def _check_batches(tensors: tuple[torch.Tensor, ...], layouts: _Layouts) -> bool:
    """Checks L problems; returns whether their scale factors are blocked."""
    a, b1, b2, *scales = tensors
    check_k(a)
    for name, codes, count in (("a", a, a.shape[0]), ("b1", b1, b1.shape[0]), ("b2", b2, b1.shape[0])):
        check_tensor(name, codes, CODE_DTYPES, (count, *a.shape[1:]), a.device)
    own, blocked = layout_of_batches(scales[0])
    groups = a.shape[1] * 2 // GROUP
    stated = (layouts[0], layouts[1], layouts[1])
    for name, scale, layout, codes in zip(("sfa", "sfb1", "sfb2"), scales, stated, (a, b1, b1), strict=True):
        if layout not in (None, own):
            text = f"{name} has layout {layout!r}; expected None or {own!r}, as sfa has {scales[0].dim()} dimensions"
            raise RuntimeError(f"{NAMESPACE}: {text}, L among them")
        shape = view_shape(codes.shape[0], groups) if blocked else (codes.shape[0], groups)
        check_tensor(name, scale, SCALE_DTYPES, (*shape, a.shape[2]), a.device)
    return blocked


def _allocate(a: torch.Tensor, b1: torch.Tensor) -> torch.Tensor:
    """An output for these operands, in the memory order that the library writes."""
    n = b1.shape[0]
    if b1.dim() == 2:
        return torch.empty((*a.shape[:-1], n), dtype=torch.float16, device=a.device)
    return torch.empty((a.shape[2], a.shape[0], n), dtype=torch.float16, device=a.device).permute(1, 2, 0)


def _run(tensors: tuple[torch.Tensor, ...], options: int, c: torch.Tensor) -> None:
    """Passes the tensors to custom_kernel(), with the layout, the dimension L and the dtypes that it expects."""
    batches, layouts = _are_batches(tensors), read_options(options)[:2]
    if not batches and tensors[0].shape[-1] % (_SHIM_K // 2):
        c.copy_(run_gated(*tensors, options=options))
        return
    if batches:
        blocked, packed, scales = _check_batches(tensors, layouts), tensors[:3], tensors[3:]
    else:
        rows, blocked, scales = _check_one(tensors, layouts)
        packed, scales = (rows.a, *tensors[1:3]), aligned(scales)
    packed = tuple(t if t.dtype != torch.uint8 else t.view(torch.float4_e2m1fn_x2) for t in packed)
    scales = tuple(t if t.dtype != torch.uint8 else t.view(torch.float8_e4m3fn) for t in scales)
    if not batches:
        packed, c = tuple(t.unsqueeze(-1) for t in packed), c.view(-1, c.shape[-1]).unsqueeze(-1)
        # With the stride that custom_kernel() expects for L = 1, so that its quick comparison succeeds.
        scales = tuple(t.as_strided((*t.shape, 1), (*t.stride(), t.numel())) for t in scales)
    submission.custom_kernel((*packed, *((None,) * 3 if blocked else ()), *scales, c))


def _fake(*tensors: torch.Tensor, options: int = 0) -> torch.Tensor:
    (_check_batches if _are_batches(tensors) else _check_one)(tensors, read_options(options)[:2])
    return _allocate(tensors[0], tensors[1])


def _dual_gemm(*tensors: torch.Tensor, options: int = 0) -> torch.Tensor:
    c = _fake(*tensors, options=options)
    _run(tensors, options, c)
    return c


def _fake_out(*tensors: torch.Tensor, options: int = 0) -> None:
    *inputs, c = tensors
    like = _fake(*inputs, options=options)
    if inputs[1].dim() == 2 and like.dim() != 2:
        require(c.shape == like.shape, lambda: f"out has shape {tuple(c.shape)}; expected {tuple(like.shape)}")
        c, like = c.flatten(0, -2), like.flatten(0, -2)
    check_tensor("out", c, (torch.float16,), tuple(like.shape), inputs[0].device)


def _dual_gemm_out(*tensors: torch.Tensor, options: int = 0) -> None:
    _fake_out(*tensors, options=options)
    _run(tensors[:-1], options, tensors[-1])


def _by_place(function: Callable[..., object], inputs: int) -> Callable[..., object]:
    """A function of `inputs` tensors and options=0, as torch calls the implementation of an operator."""

    def implementation(*given: object, options: int = 0, **named: object) -> object:
        return function(*given[:inputs], *named.values(), options=given[inputs] if len(given) > inputs else options)

    return implementation


register("dual_gemm", _by_place(_fake, 6), _by_place(_dual_gemm, 6))
register("dual_gemm.out", _by_place(_fake_out, 7), _by_place(_dual_gemm_out, 7))
_new, _out = torch.ops.nvfp4_gemm.dual_gemm.default, torch.ops.nvfp4_gemm.dual_gemm.out
for _shim in (submission, group_submission, product_submission):
    _shim._current_queue = current_queue


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
