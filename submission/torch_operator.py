"""The dual GEMM as an operator of PyTorch: for torch.compile, torch.export, FakeTensor, CUDA graphs and any queue.

    torch.ops.nvfp4_gemm.dual_gemm(a, b1, b2, sfa, sfb1, sfb2, *, sfa_layout, sfb_layout) -> c    allocates the output
    torch.ops.nvfp4_gemm.dual_gemm.out(..., c=c)                                     writes to c; returns nothing

dual_gemm() below calls them and documents the arguments.  (The second overload's output is not named `out` because
torch.compile restricts the memory order of an argument of that name.)

A bundle does not contain this file: a leaderboard refuses sources that contain CUDA's word for a queue.
"""

from __future__ import annotations

from collections.abc import Callable

import torch
from torch._subclasses.fake_tensor import FakeTensor

from . import group_submission, product_submission, submission
from .scale_layouts import (
    LINEAR,
    SWIZZLED,
    Factors,
    ScaleLayout,
    for_library,
    known_at_once,
    layout_pair,
    resolve,
    view_shape,
)

NAMESPACE = "nvfp4_gemm"
_SCHEMA = (
    "(Tensor a, Tensor b1, Tensor b2, Tensor sfa, Tensor sfb1, Tensor sfb2, *, str? sfa_layout=None, "
    "str? sfb_layout=None"
)
_GROUP = 16  # elements of K that share a scale factor
_K_MULTIPLE = 64
_VIEW_DIMENSIONS = 5
CODE_DTYPES = (torch.float4_e2m1fn_x2, torch.uint8)
SCALE_DTYPES = (torch.float8_e4m3fn, torch.uint8)
# Permutations to the order of memory by number of dimensions: flat, rows, batches of rows, blocks, batches of blocks.
_MEMORY_ORDER = {1: (0,), 2: (0, 1), 3: (2, 0, 1), 5: (2, 4, 0, 1, 3), 6: (5, 2, 4, 0, 1, 3)}
# torch's own generated code calls this; a torch without CUDA lacks it.
_raw_queue = getattr(torch._C, "_cuda_getCurrentRawStream", None)


def current_queue(device: int) -> int:
    """The handle of the current queue of CUDA device `device`; 0 for the CPU, whose index is -1."""
    return _raw_queue(device) if device >= 0 and _raw_queue is not None else 0


def require(condition: object, text: Callable[[], str]) -> None:
    """Raises RuntimeError with the text unless the condition, which may be symbolic, holds."""
    if condition is not True:
        torch._check(condition, lambda: f"{NAMESPACE}: {text()}")


def check_tensor(
    name: str,
    tensor: torch.Tensor,
    dtypes: tuple[torch.dtype, ...],
    shape: tuple[int, ...],
    device: torch.device,
) -> None:
    """Requires one of the dtypes, this shape and device, and memory without gaps; the tensor may be a fake one."""
    order = _MEMORY_ORDER[len(shape)]
    if (  # the common case, without texts; a fake tensor's sizes may be symbolic
        not isinstance(tensor, FakeTensor)
        and tensor.dtype in dtypes
        and tensor.shape == shape
        and tensor.device == device
        and (tensor if len(shape) <= 2 else tensor.permute(order)).is_contiguous()
    ):
        return
    require(
        tensor.dtype in dtypes, lambda: f"{name} has dtype {tensor.dtype}; expected {' or '.join(map(str, dtypes))}"
    )
    require(
        tensor.dim() == len(shape),
        lambda: f"{name} has shape {tuple(tensor.shape)}; expected {tuple(shape)}",
    )
    for found, want in zip(tensor.shape, shape, strict=True):
        require(found == want, lambda: f"{name} has shape {tuple(tensor.shape)}; expected {tuple(shape)}")
    if not tensor.permute(order).is_contiguous():
        strides, distance = [0] * len(shape), 1
        for place in reversed(order):
            strides[place] = distance
            distance *= max(1, shape[place])
        require(False, lambda: f"{name} has strides {tensor.stride()}; expected {tuple(strides)}")
    require(tensor.device == device, lambda: f"{name} is on {tensor.device}; expected {device}, as a")


def _factors(tensors: tuple[torch.Tensor, ...], layouts: tuple[str | None, str | None]) -> list[Factors]:
    a, b1, b2, *scales = tensors
    groups = a.shape[1] * 2 // _GROUP
    rows, stated = (a.shape[0], b1.shape[0], b2.shape[0]), (layouts[0], layouts[1], layouts[1])
    named = zip(("sfa", "sfb1", "sfb2"), scales, rows, stated, strict=True)
    return [Factors(name, scale, count, groups, layout) for name, scale, count, layout in named]


def _check_batched_factors(a: torch.Tensor, factors: list[Factors]) -> None:
    """Scale factors with a last dimension L: all in one layout, that of the leaderboard's tensors."""
    blocked = factors[0].tensor.dim() == _VIEW_DIMENSIONS + 1
    own = SWIZZLED if blocked else LINEAR
    for one in factors:
        if one.layout not in (None, own):
            text = (
                f"{one.name} has layout {one.layout!r}; expected None or {own!r}, as sfa has {factors[0].tensor.dim()}"
            )
            raise RuntimeError(f"{NAMESPACE}: {text} dimensions, L among them")
        shape = view_shape(one.rows, one.groups) if blocked else (one.rows, one.groups)
        check_tensor(one.name, one.tensor, SCALE_DTYPES, (*shape, a.shape[2]), a.device)


def _check(tensors: tuple[torch.Tensor, ...], layouts: tuple[str | None, str | None]) -> None:
    """Checks everything but the memory; works on fake tensors with symbolic sizes too."""
    a, b1, b2 = tensors[:3]
    require(a.dim() in (2, 3), lambda: f"a has shape {tuple(a.shape)}; expected (M, K/2) or (M, K/2, L)")
    require(
        a.shape[1] * 2 % _K_MULTIPLE == 0, lambda: f"a has K = {2 * a.shape[1]}; expected a multiple of {_K_MULTIPLE}"
    )
    require(b1.dim() == a.dim(), lambda: f"b1 has shape {tuple(b1.shape)}; expected {a.dim()} dimensions, as a")
    for name, codes, rows in (("a", a, a.shape[0]), ("b1", b1, b1.shape[0]), ("b2", b2, b1.shape[0])):
        check_tensor(name, codes, CODE_DTYPES, (rows, *a.shape[1:]), a.device)
    factors = _factors(tensors, layouts)
    if a.dim() == 3:
        _check_batched_factors(a, factors)
        return
    for one in factors:
        _, shape = resolve(require, one)
        check_tensor(one.name, one.tensor, SCALE_DTYPES, shape, a.device)


def _allocate(a: torch.Tensor, b1: torch.Tensor) -> torch.Tensor:
    """An output for these operands, in the memory order that the library writes."""
    m, n = a.shape[0], b1.shape[0]
    if a.dim() == 2:
        return torch.empty((m, n), dtype=torch.float16, device=a.device)
    return torch.empty((a.shape[2], m, n), dtype=torch.float16, device=a.device).permute(1, 2, 0)


def _run(tensors: tuple[torch.Tensor, ...], layouts: tuple[str | None, str | None], c: torch.Tensor) -> None:
    """Passes the tensors to custom_kernel(), with the layout, the dimension L and the dtypes that it expects."""
    packed, scales = tensors[:3], tensors[3:]
    one = packed[0].dim() == 2
    if one:
        blocked = known_at_once(scales, *layouts)
        if blocked is None:
            blocked, scales = for_library([(x, resolve(require, x)[0]) for x in _factors(tensors, layouts)])
    else:
        _check_batched_factors(packed[0], _factors(tensors, layouts))
        blocked = scales[0].dim() == _VIEW_DIMENSIONS + 1
    packed = tuple(t if t.dtype != torch.uint8 else t.view(torch.float4_e2m1fn_x2) for t in packed)
    scales = tuple(t if t.dtype != torch.uint8 else t.view(torch.float8_e4m3fn) for t in scales)
    if one:
        packed, c = tuple(t.unsqueeze(-1) for t in packed), c.unsqueeze(-1)
        # With the stride that custom_kernel() expects for L = 1, so that its quick comparison succeeds.
        scales = tuple(t.as_strided((*t.shape, 1), (*t.stride(), t.numel())) for t in scales)
    submission.custom_kernel((*packed, *((None,) * 3 if blocked else ()), *scales, c))


def _dual_gemm(*tensors: torch.Tensor, sfa_layout: str | None = None, sfb_layout: str | None = None) -> torch.Tensor:
    # custom_kernel() checks everything.  If it refuses, _check() says why in terms of this operator's shapes.
    layouts = (sfa_layout, sfb_layout)
    try:
        c = _allocate(tensors[0], tensors[1])
        _run(tensors, layouts, c)
    except (IndexError, RuntimeError, TypeError, ValueError):
        _check(tensors, layouts)
        raise
    return c


def _dual_gemm_out(
    *tensors: torch.Tensor, sfa_layout: str | None = None, sfb_layout: str | None = None, c: torch.Tensor
) -> None:
    try:
        _run(tensors, (sfa_layout, sfb_layout), c)
    except (IndexError, RuntimeError, TypeError, ValueError):
        _fake_out(*tensors, sfa_layout=sfa_layout, sfb_layout=sfb_layout, c=c)
        raise


def _fake(*tensors: torch.Tensor, sfa_layout: str | None = None, sfb_layout: str | None = None) -> torch.Tensor:
    _check(tensors, (sfa_layout, sfb_layout))
    return _allocate(tensors[0], tensors[1])


def _fake_out(
    *tensors: torch.Tensor, sfa_layout: str | None = None, sfb_layout: str | None = None, c: torch.Tensor
) -> None:
    _check(tensors, (sfa_layout, sfb_layout))
    a, b1 = tensors[:2]
    check_tensor("c", c, (torch.float16,), (a.shape[0], b1.shape[0], *a.shape[2:]), a.device)


def _register() -> torch.library.Library | None:
    """Registers both overloads; None if another copy of this package in this process already has."""
    if hasattr(torch.ops.nvfp4_gemm, "dual_gemm"):
        return None
    library = torch.library.Library(NAMESPACE, "DEF")
    library.define(f"dual_gemm{_SCHEMA}) -> Tensor")
    library.define(f"dual_gemm.out{_SCHEMA}, Tensor(a!) c) -> ()")
    for key in ("CPU", "CUDA"):
        library.impl("dual_gemm", _dual_gemm, key)
        library.impl("dual_gemm.out", _dual_gemm_out, key)
    torch.library.register_fake(f"{NAMESPACE}::dual_gemm", _fake, lib=library)
    torch.library.register_fake(f"{NAMESPACE}::dual_gemm.out", _fake_out, lib=library)
    return library


_library = _register()
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

    a (M, K/2), b1 and b2 (N, K/2): float4_e2m1fn_x2 or uint8, two e2m1 values per byte, the first in the low half.
    sfa, sfb1, sfb2: float8_e4m3fn or uint8, one scale factor for 16 elements of K.
    out (M, N): float16.

    scale_layout: "linear", scale factors row by row, (rows, K/16); "swizzled128x4", blocks of 128 rows x 4 groups, as
    (ceil(rows/128) * 128, K/16), flat, or as the view (32, 4, ceil(rows/128), 4, K/64) that swizzle_scales() returns;
    "swizzled8x4", blocks of 8 rows; or a pair of these, for sfa and for the other two.  None: five dimensions are
    "swizzled128x4"; two are "linear", but refused if the rows are a multiple of 128, because then both layouts fit.
    Different layouts for sfa and the others cost a copy of sfa.

    All tensors may have one dimension more, L, for L problems of the same size, in the memory order of custom_kernel().
    M may be 0.  K is a multiple of 64.  All tensors are packed without gaps, 16-byte aligned, on one device, CPU or
    CUDA; the kernel runs on the device's current queue.  There is no gradient, no bias and no scale of a whole tensor
    (gated_gemm has scales).  Stacked weights need no copy: b1, b2 = w13[:N], w13[N:], and likewise their scale factors
    if these are linear or N is a multiple of 128.

    Raises RuntimeError, TypeError or ValueError, naming the argument; `out` is then unchanged.
    """
    sfa_layout, sfb_layout = layout_pair(scale_layout)
    layouts = {} if scale_layout is None else {"sfa_layout": sfa_layout, "sfb_layout": sfb_layout}
    if out is None:
        return torch.ops.nvfp4_gemm.dual_gemm.default(a, b1, b2, sfa, sfb1, sfb2, **layouts)
    torch.ops.nvfp4_gemm.dual_gemm.out(a, b1, b2, sfa, sfb1, sfb2, **layouts, c=out)
    return out
