"""The dual GEMM as an operator of PyTorch: for torch.compile, torch.export, FakeTensor, CUDA graphs and any queue.

    torch.ops.nvfp4_gemm.dual_gemm(a, b1, b2, sfa, sfb1, sfb2) -> c             the output is allocated
    torch.ops.nvfp4_gemm.dual_gemm.out(a, b1, b2, sfa, sfb1, sfb2, c=c)         written to c; returns nothing

Shapes, for one problem; each may have a last dimension L more, of equal problems, in the memory order of custom_kernel:
  a (M, K/2), b1 and b2 (N, K/2)   float4_e2m1fn_x2 or uint8, two e2m1 values a byte, the first in the low half
  sfa, sfb1, sfb2                  float8_e4m3fn or uint8, either by rows (rows, K/16), or in blocks of 128 rows,
                                   (32, 4, ceil(rows/128), 4, K/64) over memory (rows/128, K/64, 32, 4, 4)
  c (M, N)                         float16
A model's stacked weights need no copy: b1, b2 = w13[:N], w13[N:], and the same for their scale factors, if these are
row by row or N is a multiple of 128.  There is no bias and no scale of a whole tensor (gated_gemm takes scales).  All
tensors are on one device, 16-byte aligned; K is a multiple of 64.  The kernel runs on the device's current queue.  The
operator has no gradient.  (The second overload's output is not named `out` because torch.compile restricts the memory
order of an argument of that name.)

A bundle does not contain this file: a leaderboard refuses sources that contain CUDA's word for a queue.
"""

from __future__ import annotations

import torch

from . import group_submission, submission

NAMESPACE = "nvfp4_gemm"
_INPUTS = "Tensor a, Tensor b1, Tensor b2, Tensor sfa, Tensor sfb1, Tensor sfb2"
_GROUP = 16  # elements of K that share a scale factor
_K_MULTIPLE = 64
_BLOCKED_DIMENSIONS, _ROWS_DIMENSIONS = 5, 2
_PACKED = (torch.float4_e2m1fn_x2, torch.uint8)
_SCALES = (torch.float8_e4m3fn, torch.uint8)
# torch's own generated code calls this; a torch without CUDA lacks it.
_raw_queue = getattr(torch._C, "_cuda_getCurrentRawStream", None)


def current_queue(device: int) -> int:
    """The handle of the current queue of CUDA device `device`; 0 for the CPU, whose index is -1."""
    return _raw_queue(device) if device >= 0 and _raw_queue is not None else 0


def _allocate(a: torch.Tensor, b1: torch.Tensor) -> torch.Tensor:
    """An output for these operands, in the memory order that the library writes."""
    m, n = a.shape[0], b1.shape[0]
    if a.dim() == 2:
        return torch.empty((m, n), dtype=torch.float16, device=a.device)
    return torch.empty((a.shape[2], m, n), dtype=torch.float16, device=a.device).permute(1, 2, 0)


def _run(tensors: tuple[torch.Tensor, ...], c: torch.Tensor) -> None:
    """Passes the tensors to custom_kernel(), with the dimension L and the dtypes that it expects."""
    one = tensors[0].dim() == 2
    packed, scales = tensors[:3], tensors[3:]
    blocked = scales[0].dim() == _BLOCKED_DIMENSIONS + (not one)
    packed = tuple(t if t.dtype != torch.uint8 else t.view(torch.float4_e2m1fn_x2) for t in packed)
    scales = tuple(t if t.dtype != torch.uint8 else t.view(torch.float8_e4m3fn) for t in scales)
    if one:
        packed, c = tuple(t.unsqueeze(-1) for t in packed), c.unsqueeze(-1)
        # With the stride that custom_kernel() expects for L = 1, so that its quick comparison succeeds.
        scales = tuple(t.as_strided((*t.shape, 1), (*t.stride(), t.numel())) for t in scales)
    submission.custom_kernel((*packed, *((None,) * 3 if blocked else ()), *scales, c))


def _require(condition: object, text: str) -> None:
    torch._check(condition, lambda: f"{NAMESPACE}::dual_gemm: {text}")


def _check(tensors: tuple[torch.Tensor, ...]) -> None:
    """Checks everything but the memory; works on fake tensors with symbolic sizes too."""
    a, b1, b2, *scales = tensors
    _require(a.dim() in (2, 3), f"a has {a.dim()} dimensions; expected (M, K/2) or (M, K/2, L)")
    _require(a.shape[1] * 2 % _K_MULTIPLE == 0, f"K is {2 * a.shape[1]}; expected a multiple of {_K_MULTIPLE}")
    for name, operand in (("b1", b1), ("b2", b2)):
        _require(operand.dim() == a.dim(), f"{name} has {operand.dim()} dimensions; a has {a.dim()}")
        _require(operand.shape[0] == b1.shape[0], f"{name} has {operand.shape[0]} rows; b1 has {b1.shape[0]}")
        same = operand.shape[1] == a.shape[1] and (a.dim() == 2 or operand.shape[2] == a.shape[2])
        _require(same, f"{name} has shape {tuple(operand.shape)}; a has {tuple(a.shape)}")
    for name, scale, rows in zip(("sfa", "sfb1", "sfb2"), scales, (a, b1, b2), strict=True):
        extra = a.dim() - 2
        _require(scale.dim() == scales[0].dim(), f"{name} has {scale.dim()} dimensions; sfa has {scales[0].dim()}")
        if scale.dim() == _ROWS_DIMENSIONS + extra:
            wanted = (rows.shape[0], a.shape[1] * 2 // _GROUP)
        elif scale.dim() == _BLOCKED_DIMENSIONS + extra:
            wanted = (32, 4, (rows.shape[0] + 127) // 128, 4, a.shape[1] * 2 // _K_MULTIPLE)
        else:
            _require(False, f"{name} has {scale.dim()} dimensions; expected scale factors by rows or in blocks")
        wanted = (*wanted, *a.shape[2:])
        for place, (found, want) in enumerate(zip(scale.shape, wanted, strict=True)):
            _require(found == want, f"{name} has {found} at dimension {place}; expected {want}")
    for tensor, kinds in zip(tensors, (_PACKED,) * 3 + (_SCALES,) * 3, strict=True):
        _require(tensor.dtype in kinds, f"dtype {tensor.dtype}; expected {kinds[0]} or {kinds[1]}")
        _require(tensor.device == a.device, f"tensors are on {tensor.device} and {a.device}; expected one device")


def _dual_gemm(*tensors: torch.Tensor) -> torch.Tensor:
    # custom_kernel() checks everything.  If it refuses, _check() says why in terms of this operator's shapes.
    try:
        c = _allocate(tensors[0], tensors[1])
        _run(tensors, c)
    except (IndexError, RuntimeError, TypeError, ValueError):
        _check(tensors)
        raise
    return c


def _dual_gemm_out(*tensors: torch.Tensor, c: torch.Tensor) -> None:
    try:
        _run(tensors, c)
    except (IndexError, RuntimeError, TypeError, ValueError):
        _fake_out(*tensors, c=c)
        raise


def _fake(*tensors: torch.Tensor) -> torch.Tensor:
    _check(tensors)
    return _allocate(tensors[0], tensors[1])


def _fake_out(*tensors: torch.Tensor, c: torch.Tensor) -> None:
    _check(tensors)
    a, b1 = tensors[:2]
    _require(c.dtype == torch.float16, f"c has dtype {c.dtype}; expected torch.float16")
    _require(c.dim() == a.dim(), f"c has {c.dim()} dimensions; expected {a.dim()}")
    for place, want in enumerate((a.shape[0], b1.shape[0], *a.shape[2:])):
        _require(c.shape[place] == want, f"c has {c.shape[place]} at dimension {place}; expected {want}")


def _register() -> torch.library.Library | None:
    """Registers both overloads; None if another copy of this package in this process already has."""
    if hasattr(torch.ops.nvfp4_gemm, "dual_gemm"):
        return None
    library = torch.library.Library(NAMESPACE, "DEF")
    library.define(f"dual_gemm({_INPUTS}) -> Tensor")
    library.define(f"dual_gemm.out({_INPUTS}, *, Tensor(a!) c) -> ()")
    for key in ("CPU", "CUDA"):
        library.impl("dual_gemm", _dual_gemm, key)
        library.impl("dual_gemm.out", _dual_gemm_out, key)
    torch.library.register_fake(f"{NAMESPACE}::dual_gemm", _fake, lib=library)
    torch.library.register_fake(f"{NAMESPACE}::dual_gemm.out", _fake_out, lib=library)
    return library


_library = _register()
submission._current_queue = group_submission._current_queue = current_queue


def dual_gemm(
    a: torch.Tensor,
    b1: torch.Tensor,
    b2: torch.Tensor,
    sfa: torch.Tensor,
    sfb1: torch.Tensor,
    sfb2: torch.Tensor,
    out: torch.Tensor | None = None,
) -> torch.Tensor:
    """silu(a @ b1^T) * (a @ b2^T); to `out` where it is given, else to a new tensor.  Shapes as at the file's top."""
    if out is None:
        return torch.ops.nvfp4_gemm.dual_gemm.default(a, b1, b2, sfa, sfb1, sfb2)
    torch.ops.nvfp4_gemm.dual_gemm.out(a, b1, b2, sfa, sfb1, sfb2, c=out)
    return out
