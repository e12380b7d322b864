"""The quantizer as an operator of PyTorch: NVFP4 of activations, alone, after RMSNorm, or after the gate of an MLP.

The three functions below call torch.ops.nvfp4_gemm.quantize and document the arguments.  struct
custom_kernel_quantize_args in submission/custom_kernel.h defines the arithmetic, which gives the same bits on every
backend, except that GPUs approximate the exponential of a gate.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import NamedTuple, NoReturn

import torch

from . import submission
from .operator_checks import check_number, check_tensor, require
from .operators import (
    address,
    current_queue,
    forward_ad,
    library_alpha,
    number_like,
    raise_status,
    register,
    without_derivative,
)
from .scale_layouts import LINEAR, SCALE_LAYOUTS, SWIZZLED, SWIZZLED_8X4, view_shape

_TYPES = {torch.float16: 0, torch.bfloat16: 1, torch.float32: 3}  # enum custom_kernel_output
_LAYOUTS = {SWIZZLED: 0, LINEAR: 1, SWIZZLED_8X4: 2}  # enum custom_kernel_scale_layout
_NAMES = {number: name for name, number in _LAYOUTS.items()}
_FORM_SHIFT, _LAYOUT_BITS = 4, 15  # in the operator's options; the layout is in the low bits
_PLAIN, _NORM, _GATED = (form << _FORM_SHIFT for form in range(3))  # enum custom_kernel_quantize_form
_GROUP, _TILE_GROUPS = 16, 4

# struct custom_kernel_quantize_args: struct_bytes, backend, device, scale_layout; m, k, x_row; x, scale, codes, scales,
# saturated, queue; form, x_type; weight, residual, sum; epsilon, limit, alpha, beta.
_ARGS = struct.Struct("@Iiiiqqq6Qii3Qffff")
_call = submission._library.custom_kernel_quantize
_call.argtypes = (ctypes.c_char_p,)
_call.restype = ctypes.c_int32


class _Call(NamedTuple):
    """The arguments of the operator's overload .sum, in the order of its schema; those of the other lack residual."""

    x: torch.Tensor
    residual: torch.Tensor | None
    options: int = 0
    global_scale: torch.Tensor | None = None
    saturated: torch.Tensor | None = None
    weight: torch.Tensor | None = None
    epsilon: float = 0.0
    limit: float = 0.0
    alpha: float = 0.0
    beta: float = 0.0

    @property
    def form(self) -> int:
        """_PLAIN, _NORM or _GATED."""
        return self.options & ~_LAYOUT_BITS

    @property
    def layout(self) -> int:
        """The layout's number."""
        return self.options & _LAYOUT_BITS

    @property
    def k(self) -> int:
        """Numbers of a row that are quantized."""
        return self.x.shape[1] // 2 if self.form == _GATED else self.x.shape[1]


def _check(call: _Call) -> None:
    """Checks everything but the memory; works on fake tensors with symbolic sizes too."""
    x, halves = call.x, 2 if call.form == _GATED else 1
    require(x.dtype in _TYPES, lambda: f"x has dtype {x.dtype}; expected {' or '.join(map(str, _TYPES))}")
    require(x.dim() == 2, lambda: f"x has shape {tuple(x.shape)}; expected (M, {'2 ' * (halves - 1)}K)")
    require(
        x.shape[1] > 0 and x.shape[1] % (_GROUP * halves) == 0,
        lambda: f"x has {x.shape[1]} columns; expected a positive multiple of {_GROUP * halves}",
    )
    require(
        x.stride(1) == 1 and (x.shape[0] <= 1 or x.stride(0) >= x.shape[1]),
        lambda: f"x has strides {x.stride()}; expected rows of consecutive numbers that do not overlap",
    )
    check_number("global_scale", call.global_scale, 1, x.device, like="x")
    if call.weight is not None:
        check_tensor("weight", call.weight, (x.dtype,), (call.k,), x.device, like="x")
    if call.residual is not None:
        check_tensor("residual", call.residual, (x.dtype,), tuple(x.shape), x.device, like="x")
    if call.saturated is not None:
        check_number("saturated", call.saturated, 1, x.device, dtype=torch.int64, like="x")


def _allocate(call: _Call) -> tuple[torch.Tensor, ...]:
    """Codes, scale factors, and with a residual the sums."""
    m, k, device = call.x.shape[0], call.k, call.x.device
    codes, groups = torch.empty((m, k // 2), dtype=torch.uint8, device=device), k // _GROUP
    kind, name = {"dtype": torch.float8_e4m3fn, "device": device}, _NAMES[call.layout]
    if name == LINEAR:
        scales = torch.empty((m, groups), **kind)
    elif name == SWIZZLED:
        _, _, tiles, _, tiles_k = view_shape(m, groups)
        scales = torch.empty((tiles, tiles_k, 32, 4, 4), **kind).permute(2, 3, 0, 4, 1)
    else:
        scales = torch.empty(((m + 7) // 8 * 8, (groups + _TILE_GROUPS - 1) // _TILE_GROUPS * _TILE_GROUPS), **kind)
    if call.residual is None:
        return codes, scales
    return codes, scales, torch.empty((m, k), dtype=call.x.dtype, device=device)


def _fake(call: _Call) -> tuple[torch.Tensor, ...]:
    _check(call)
    return _allocate(call)


def _quantize(call: _Call) -> tuple[torch.Tensor, ...]:
    codes, scales, *sums = found = _fake(call)
    x, device = call.x, call.x.get_device()
    pointers = (address(tensor) for tensor in (x, call.global_scale, codes, scales, call.saturated))
    raise_status(_call(_ARGS.pack(
        _ARGS.size, 0, device, call.layout, x.shape[0], call.k, max(x.stride(0), x.shape[1]), *pointers,
        current_queue(device), call.form >> _FORM_SHIFT, _TYPES[x.dtype], address(call.weight), address(call.residual),
        address(sums[0] if sums else None), call.epsilon, call.limit,
        library_alpha(call.alpha) if call.form == _GATED else call.alpha, call.beta,
    )))  # fmt: skip
    return found


def _register(name: str, *lacks: None) -> None:
    """Registers an overload; lacks: None for a residual that its schema does not have."""

    def of(compute: Callable[[_Call], tuple[torch.Tensor, ...]]) -> Callable[..., tuple[torch.Tensor, ...]]:
        return lambda x, *others, **named: compute(_Call(x, *lacks, *others, **named))

    register(name, of(_fake), of(_quantize))


_register("quantize", None)
_register("quantize.sum")
_run, _run_sum = torch.ops.nvfp4_gemm.quantize.default, torch.ops.nvfp4_gemm.quantize.sum


def _rows(x: torch.Tensor) -> torch.Tensor:
    return x if x.dim() in (0, 2) else x.unsqueeze(0) if x.dim() == 1 else x.flatten(0, -2)


def _refuse_kind(name: str, value: object) -> NoReturn:
    raise TypeError(f"{name} is {value!r:.40}; expected a torch.Tensor")


def _refuse(scale_layout: object) -> NoReturn:
    raise ValueError(
        f"scale_layout is {scale_layout!r}; expected one of {', '.join(map(repr, SCALE_LAYOUTS))}"
    ) from None


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
    gated_gemm() and plain_gemm() take them, in scale_layout: "linear" (M, K/16); "swizzled128x4" the view (32, 4,
    ceil(M/128), 4, ceil(K/64)); "swizzled8x4" (ceil(M/8) * 8, ceil(K/64) * 4), in blocks of 8 rows.  Padding is zero.

    CPU or CUDA; the kernel runs on the device's current queue.  Derivatives are refused.
    Raises RuntimeError, TypeError or ValueError, naming the argument.
    """
    try:
        options = _LAYOUTS[scale_layout]
    except (KeyError, TypeError):
        _refuse(scale_layout)
    if not isinstance(x, torch.Tensor):
        _refuse_kind("x", x)
    if isinstance(global_scale, (int, float)):
        global_scale = number_like("global_scale", global_scale, x)
    if x.dim() != 2:
        x = _rows(x)
    found = _run(x, options, global_scale) if saturated is None else _run(x, options, global_scale, saturated)
    if found[1].requires_grad or forward_ad._current_level >= 0:
        return without_derivative(found, x=x, global_scale=global_scale)
    return found


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

    x (M, K) or (..., K).  weight: K numbers of x's dtype; None is ones.  epsilon: at least 0.  residual: x's shape and
    dtype, without gaps.

    Returns codes and scale factors as quantize_nvfp4() does, and with a residual also h, in x's shape and dtype.
    global_scale, scale_layout, saturated and errors are quantize_nvfp4()'s.
    """
    try:
        options = _NORM | _LAYOUTS[scale_layout]
    except (KeyError, TypeError):
        _refuse(scale_layout)
    if not isinstance(x, torch.Tensor):
        _refuse_kind("x", x)
    if isinstance(global_scale, (int, float)):
        global_scale = number_like("global_scale", global_scale, x)
    if residual is None:
        found = _run(x if x.dim() == 2 else _rows(x), options, global_scale, saturated, weight, epsilon)
    elif not isinstance(residual, torch.Tensor):
        _refuse_kind("residual", residual)
    elif x.dim() == 2:
        found = _run_sum(x, residual, options, global_scale, saturated, weight, epsilon)
    elif residual.shape != x.shape:
        raise ValueError(f"residual has shape {tuple(residual.shape)}; expected {tuple(x.shape)}, as x")
    else:
        found = _run_sum(_rows(x), _rows(residual), options, global_scale, saturated, weight, epsilon)
        found = *found[:2], found[2].view(x.shape)
    if found[1].requires_grad or forward_ad._current_level >= 0:
        return without_derivative(found, x=x, residual=residual, weight=weight, global_scale=global_scale)
    return found


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

    N is a multiple of 16, limit at least 0.  Returns codes (M, N/2) and scale factors.  global_scale, scale_layout,
    saturated and errors are quantize_nvfp4()'s.
    """
    try:
        options = _GATED | _LAYOUTS[scale_layout]
    except (KeyError, TypeError):
        _refuse(scale_layout)
    if not isinstance(x, torch.Tensor):
        _refuse_kind("x", x)
    if isinstance(global_scale, (int, float)):
        global_scale = number_like("global_scale", global_scale, x)
    found = _run(_rows(x), options, global_scale, saturated, None, 0.0, limit, alpha, beta)
    if found[1].requires_grad or forward_ad._current_level >= 0:
        return without_derivative(found, x=x, global_scale=global_scale)
    return found
