"""The quantizer as an operator of PyTorch: NVFP4 of activations, alone, after RMSNorm, or after the gate of an MLP.

The three functions below call torch.ops.nvfp4_gemm.quantize and document the arguments.  struct
custom_kernel_quantize_args in submission/custom_kernel.h defines the arithmetic, which gives the same bits on every
backend, except that GPUs approximate the exponential of a gate.
"""

from __future__ import annotations

import ctypes
import struct
from typing import NamedTuple

import torch

from . import submission
from .extended_operator import _address, _check_number, _number
from .operator_checks import check_tensor, require
from .operators import NAMESPACE, current_queue
from .scale_layouts import LINEAR, SCALE_LAYOUTS, SWIZZLED

_TYPES = {torch.float16: 0, torch.bfloat16: 1, torch.float32: 3}  # enum custom_kernel_output
_LAYOUTS = {SWIZZLED: 0, LINEAR: 1, "swizzled8x4": 2}  # enum custom_kernel_scale_layout
_PLAIN, _NORM, _GATED = 0, 1, 2  # enum custom_kernel_quantize_form
_GROUP, _TILE_GROUPS = 16, 4

# struct custom_kernel_quantize_args: struct_bytes, backend, device, scale_layout; m, k, x_row; x, scale, codes, scales,
# saturated, queue; form, x_type; weight, residual, sum; epsilon, limit, alpha, beta.
_ARGS = struct.Struct("@Iiiiqqq6Qii3Qffff")


def _lacking(arguments: bytes) -> int:
    """Stands in for the function if the library is older."""
    raise RuntimeError(f"{submission._library._name} has no quantizer; expected ABI version 1.5 or later")


_call = getattr(submission._library, "custom_kernel_quantize", _lacking)
_call.argtypes = (ctypes.c_char_p,)
_call.restype = ctypes.c_int32


class _Call(NamedTuple):
    """The arguments of the operator, in the order of its schema."""

    x: torch.Tensor
    scale: torch.Tensor | None
    weight: torch.Tensor | None
    residual: torch.Tensor | None
    saturated: torch.Tensor | None
    scale_layout: str
    form: int
    epsilon: float
    limit: float
    alpha: float
    beta: float

    @property
    def k(self) -> int:
        """Numbers of a row that are quantized."""
        return self.x.shape[1] // 2 if self.form == _GATED else self.x.shape[1]


_SCHEMA = (
    "quantize(Tensor x, Tensor? scale, Tensor? weight, Tensor? residual, Tensor(a!)? saturated, str scale_layout, "
    "int form, float epsilon, float limit, float alpha, float beta) -> (Tensor, Tensor, Tensor)"
)


def _check(call: _Call) -> None:
    """Checks everything but the memory; works on fake tensors with symbolic sizes too."""
    x, halves = call.x, 2 if call.form == _GATED else 1
    require(
        call.scale_layout in _LAYOUTS,
        lambda: f"scale_layout is {call.scale_layout!r}; expected one of {', '.join(map(repr, SCALE_LAYOUTS))}",
    )
    require(x.dtype in _TYPES, lambda: f"x has dtype {x.dtype}; expected {', '.join(map(str, _TYPES))}")
    require(x.dim() == 2, lambda: f"x has shape {tuple(x.shape)}; expected (M, {'2 ' * (halves - 1)}K)")
    require(
        x.shape[1] > 0 and x.shape[1] % (_GROUP * halves) == 0,
        lambda: f"x has {x.shape[1]} columns; expected a positive multiple of {_GROUP * halves}",
    )
    require(
        x.stride(1) == 1 and (x.shape[0] <= 1 or x.stride(0) >= x.shape[1]),
        lambda: f"x has strides {x.stride()}; expected rows of consecutive numbers that do not overlap",
    )
    if call.scale is not None:
        _check_number("global_scale", call.scale, 1, x.device)
    if call.weight is not None:
        check_tensor("weight", call.weight, (x.dtype,), (call.k,), x.device)
    if call.residual is not None:
        check_tensor("residual", call.residual, (x.dtype,), tuple(x.shape), x.device)
    if call.saturated is not None:
        check_tensor("saturated", call.saturated, (torch.int64,), tuple(call.saturated.shape), x.device)
        require(
            call.saturated.numel() == 1, lambda: f"saturated has {call.saturated.numel()} numbers; expected one int64"
        )


def _allocate(call: _Call) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Codes, scale factors, and the sums with the residual, which are empty without one."""
    m, k = call.x.shape[0], call.k
    kind = {"dtype": torch.uint8, "device": call.x.device}  # torch.library.opcheck cannot compare e4m3
    codes, groups = torch.empty((m, k // 2), **kind), k // _GROUP
    tiles = (groups + _TILE_GROUPS - 1) // _TILE_GROUPS
    if call.scale_layout == LINEAR:
        scales = torch.empty((m, groups), **kind)
    elif call.scale_layout == SWIZZLED:
        scales = torch.empty(((m + 127) // 128, tiles, 32, 4, 4), **kind).permute(2, 3, 0, 4, 1)
    else:
        scales = torch.empty(((m + 7) // 8 * 8, tiles * _TILE_GROUPS), **kind)
    shape = (0,) if call.residual is None else (m, k)
    return codes, scales, torch.empty(shape, dtype=call.x.dtype, device=call.x.device)


def _quantize(*arguments: object) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    call = _Call(*arguments)
    _check(call)
    codes, scales, sums = _allocate(call)
    x, device = call.x, call.x.get_device()
    total = None if call.residual is None else sums
    pointers = (_address(tensor) for tensor in (x, call.scale, codes, scales, call.saturated))
    status = _call(_ARGS.pack(
        _ARGS.size, 0, device, _LAYOUTS[call.scale_layout], x.shape[0], call.k, max(x.stride(0), x.shape[1]),
        *pointers, current_queue(device), call.form, _TYPES[x.dtype], _address(call.weight), _address(call.residual),
        _address(total), call.epsilon, call.limit, call.alpha, call.beta,
    ))  # fmt: skip
    if status != 0:
        message = submission._library.custom_kernel_message().decode(errors="replace")
        wrong = status in (submission._STATUS_NULL_POINTER, submission._STATUS_ARGUMENT)
        raise (ValueError if wrong else RuntimeError)(message)
    return codes, scales, sums


def _fake(*arguments: object) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    call = _Call(*arguments)
    _check(call)
    return _allocate(call)


def _register() -> torch.library.Library | None:
    """Registers the operator; None if another copy of this package in this process already has."""
    if hasattr(torch.ops.nvfp4_gemm, "quantize"):
        return None
    library = torch.library.Library(NAMESPACE, "FRAGMENT")
    library.define(_SCHEMA)
    for key in ("CPU", "CUDA"):
        library.impl("quantize", _quantize, key)
    torch.library.register_fake(f"{NAMESPACE}::quantize", _fake, lib=library)
    return library


_library = _register()


def _rows(x: torch.Tensor) -> torch.Tensor:
    return x if x.dim() == 2 else x.reshape(-1, x.shape[-1])


def _run(x: torch.Tensor, scale: torch.Tensor | float | None, *others: object) -> tuple[torch.Tensor, ...]:
    codes, scales, sums = torch.ops.nvfp4_gemm.quantize(x, _number(scale, x), *others)
    return codes, scales.view(torch.float8_e4m3fn), sums


def quantize_nvfp4(
    x: torch.Tensor,
    global_scale: torch.Tensor | float | None = None,
    scale_layout: str = LINEAR,
    *,
    saturated: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """NVFP4 of x, (M, K) or (..., K) in float16, bfloat16 or float32, K a multiple of 16, M >= 0; x may have any
    distance between its rows, as a slice has.

    For each group of 16 numbers g of a row, in float32:

        scale factor = e4m3(max|g| * global_scale * (1/6)), at most 448;  code = e2m1(x * (global_scale / scale factor))

    so that code * scale factor / global_scale approximates x: the scale of a product with these codes includes
    1 / global_scale.  A NaN makes its group's scale factor NaN.

    global_scale: a positive finite number, as a float32 tensor of one number or a Python number; None is 1.  For any
    other number all scale factors are NaN.
    saturated: an int64 tensor of one number, to which the call adds the number of groups that 448 cut.

    Returns codes (M, K/2), uint8, the first number in the low half of a byte, and scale factors, float8_e4m3fn, as
    gated_gemm() and plain_gemm() take them: "linear" (M, K/16); "swizzled128x4" the view (32, 4, ceil(M/128), 4,
    ceil(K/64)); "swizzled8x4" (ceil(M/8) * 8, ceil(K/64) * 4), in blocks of 8 rows.  Padding is zero.

    CPU or CUDA; the kernel runs on the device's current queue.  There is no gradient.  Raises RuntimeError or
    ValueError, naming the argument.
    """
    return _run(_rows(x), global_scale, None, None, saturated, scale_layout, _PLAIN, 0.0, 0.0, 0.0, 0.0)[:2]


def rms_norm_quantize_nvfp4(
    x: torch.Tensor,
    weight: torch.Tensor | None,
    epsilon: float,
    global_scale: torch.Tensor | float | None = None,
    scale_layout: str = LINEAR,
    *,
    residual: torch.Tensor | None = None,
    saturated: torch.Tensor | None = None,
) -> tuple[torch.Tensor, ...]:
    """NVFP4 of RMSNorm of x, or of h = x + residual rounded to x's dtype: (h / sqrt(mean(h * h) + epsilon)) * weight,
    in float32 and not rounded before it is quantized.

    weight: K numbers of x's dtype; None is ones.  residual: as x, without gaps.

    Returns codes and scale factors as quantize_nvfp4() does, and with a residual also h, (M, K) in x's dtype.  The
    other arguments are quantize_nvfp4()'s.
    """
    rows = None if residual is None else _rows(residual)
    found = _run(_rows(x), global_scale, weight, rows, saturated, scale_layout, _NORM, epsilon, 0.0, 0.0, 0.0)
    return found[:2] if residual is None else found


def silu_mul_quantize_nvfp4(
    x: torch.Tensor,
    global_scale: torch.Tensor | float | None = None,
    scale_layout: str = LINEAR,
    *,
    limit: float = 0.0,
    alpha: float = 1.0,
    beta: float = 0.0,
    saturated: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """NVFP4 of gate * sigmoid(alpha * gate) * (up + beta), where x (M, 2 N) holds gate in its first N columns and up in
    the others, and, if limit > 0, gate is at most limit and up between -limit and limit.

    Returns codes (M, N/2) and scale factors.  The other arguments are quantize_nvfp4()'s.
    """
    return _run(_rows(x), global_scale, None, None, saturated, scale_layout, _GATED, 0.0, limit, alpha, beta)[:2]
