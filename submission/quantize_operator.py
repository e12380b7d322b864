"""The quantizer as an operator of PyTorch: NVFP4 of activations, alone, after RMSNorm, or after the gate of an MLP.

The three functions below call torch.ops.nvfp4_gemm.quantize and document the arguments.  struct
custom_kernel_quantize_args in submission/custom_kernel.h defines the arithmetic, which gives the same bits on every
backend, except that GPUs approximate the exponential of a gate.
"""

from __future__ import annotations

from typing import NoReturn

import torch
from torch import Tensor

from .operators import (
    ACTIVATIONS,
    FLOAT32,
    SILU,
    activation_of,
    forward_ad,
    number_like,
    register,
    without_derivative,
)
from .scale_layouts import LINEAR, SCALE_LAYOUTS, SWIZZLED, SWIZZLED_8X4, new_blocked_scales

_LAYOUTS = {SWIZZLED: 0, LINEAR: 1, SWIZZLED_8X4: 2}  # enum custom_kernel_scale_layout
_FORM_SHIFT, _ACTIVATION_SHIFT, _MASK = 4, 8, 15  # in the operator's options; the layout is in the low bits
_NORM, _GATED = (form << _FORM_SHIFT for form in (1, 2))  # enum custom_kernel_quantize_form
_OF_GATE = {name: _GATED | number << _ACTIVATION_SHIFT for number, name in enumerate(ACTIVATIONS, 1)}


def _new(x: torch.Tensor, options: int, *_: object) -> tuple[torch.Tensor, torch.Tensor]:
    """Codes and scale factors."""
    m, layout = x.shape[0], options & _MASK
    k = x.shape[1] // 2 if options & _MASK << _FORM_SHIFT == _GATED else x.shape[1]
    codes = torch.empty((m, k // 2), dtype=torch.uint8, device=x.device)
    if layout == _LAYOUTS[SWIZZLED]:
        return codes, new_blocked_scales(m, k // 16, x.device)
    shape = (m, k // 16) if layout == _LAYOUTS[LINEAR] else ((m + 7) // 8 * 8, (k + 63) // 64 * 4)
    return codes, torch.empty(shape, dtype=torch.float8_e4m3fn, device=x.device)


register("quantize", _new)
register("quantize.sum", lambda x, residual, options, *_: (*_new(x, options), torch.empty_like(residual)))
register("quantize.rows", lambda x, rows, options, *_: _new(x.new_empty(rows.numel(), x.shape[1]), options))


def _new_by_token(x: torch.Tensor, options: int, rows: torch.Tensor | None) -> tuple[torch.Tensor, ...]:
    of = x if rows is None else x.new_empty(rows.numel(), x.shape[1])
    return *_new(of, options), torch.empty(of.shape[0], dtype=torch.float32, device=x.device)


register("quantize.token", _new_by_token)
_run, _run_sum = torch.ops.nvfp4_gemm.quantize.default, torch.ops.nvfp4_gemm.quantize.sum
_run_rows, _run_token = torch.ops.nvfp4_gemm.quantize.rows, torch.ops.nvfp4_gemm.quantize.token


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
    rows: torch.Tensor | None = None,
    dynamic: bool = False,
) -> tuple[torch.Tensor, ...]:
    """NVFP4 of x, (M, K) or (..., K) in float16, bfloat16 or float32, K a multiple of 16, M >= 0; x may have any
    distance between its rows, as a slice has.

    For each group of 16 numbers g of a row, in float32:

        scale factor = e4m3(max|g| * global_scale * (1/6)), at most 448;  code = e2m1(x * (global_scale / scale factor))

    so that code * scale factor / global_scale approximates x: the scale of a product with these codes includes
    1 / global_scale.  A NaN makes its group's scale factor NaN.

    global_scale: a positive finite number, as a float32 tensor of one number or a Python number; None is 1.  For any
    other number all scale factors are NaN.
    saturated: an int64 tensor of one number, to which the call adds the number of groups that 448 cut.
    rows: int32, as many numbers as the outputs have rows; output row i is of row rows[i] of x, or of a row of zeros
    where x has no such row.
    dynamic: each row has a scale of its own, 2688 / max|row|, so that its largest number keeps the largest code and
    scale factor; global_scale and saturated are None.  Also returns token_scale, (M) float32, their reciprocals, which
    products take.  Rows of zeros are safe.

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
    if global_scale is not None and (type(global_scale) is not Tensor or global_scale.dtype is not FLOAT32):
        global_scale = number_like("global_scale", global_scale, x)
    if x.dim() != 2:
        x = _rows(x)
    if dynamic:
        if global_scale is not None or saturated is not None:
            raise ValueError("global_scale or saturated is given with dynamic; expected None, as each row has its own")
        found = _run_token(x, options, rows)
    elif rows is not None:
        if saturated is not None:
            raise ValueError("saturated is given with rows; expected None")
        found = _run_rows(x, rows, options, global_scale)
    else:
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
    if global_scale is not None and (type(global_scale) is not Tensor or global_scale.dtype is not FLOAT32):
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
    activation: str = SILU,
    limit: float = 0.0,
    alpha: float = 1.0,
    beta: float = 0.0,
    saturated: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor]:
    """NVFP4 of f(gate) * (up + beta), where x (M, 2 N) holds gate in its first N columns and up in the others, and, if
    limit > 0, gate is at most limit and up between -limit and limit.
    activation: f, as gated_gemm() names it; alpha is SiLU's.

    N is a multiple of 16, limit at least 0.  Returns codes (M, N/2) and scale factors.  global_scale, scale_layout,
    saturated and errors are quantize_nvfp4()'s.
    """
    form = activation_of(activation, _OF_GATE)
    try:
        options = form | _LAYOUTS[scale_layout]
    except (KeyError, TypeError):
        _refuse(scale_layout)
    if not isinstance(x, torch.Tensor):
        _refuse_kind("x", x)
    if global_scale is not None and (type(global_scale) is not Tensor or global_scale.dtype is not FLOAT32):
        global_scale = number_like("global_scale", global_scale, x)
    found = _run(_rows(x), options, global_scale, saturated, None, 0.0, limit, alpha, beta)
    if found[1].requires_grad or forward_ad._current_level >= 0:
        return without_derivative(found, x=x, global_scale=global_scale)
    return found
