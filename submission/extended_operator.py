"""The extended GEMM as operators of PyTorch: scales of tensors and tokens, bf16 and NVFP4 output, parameters of the
activation, weights in one tensor, and a plain product for a model's down projection.

gated_gemm() and plain_gemm() below call the operators of these names and document the arguments;
submission/torch/extended_operators.c implements them, and struct custom_kernel_extended_args in
submission/custom_kernel.h defines the arithmetic.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .operators import (
    APART,
    FLOAT32,
    FP16,
    NVFP4,
    OF_GATE,
    OF_PLAIN,
    OPTIONS,
    SILU,
    TO_NVFP4,
    forward_ad,
    new_products,
    number_like,
    other_options,
    read_options,
    register,
    without_derivative,
)
from .scale_layouts import SWIZZLED, ScaleLayout

_VIEW_DIMENSIONS = 5


def _new(
    a: torch.Tensor, b: torch.Tensor, sfb: torch.Tensor, options: int
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    stated = read_options(options).sfb_layout
    return new_products(a, b, options, stated == SWIZZLED or (stated is None and sfb.dim() == _VIEW_DIMENSIONS))


for _overload in ("", ".nvfp4"):
    register(f"gated_gemm{_overload}", lambda a, b1, b2, sfa, sfb1, sfb2, options, *_: _new(a, b1, sfb1, options))
    register(f"plain_gemm{_overload}", lambda a, b, sfa, sfb, options, *_: _new(a, b, sfb, options))
_gated, _gated_nvfp4 = torch.ops.nvfp4_gemm.gated_gemm.default, torch.ops.nvfp4_gemm.gated_gemm.nvfp4
_plain, _plain_nvfp4 = torch.ops.nvfp4_gemm.plain_gemm.default, torch.ops.nvfp4_gemm.plain_gemm.nvfp4


def refuse_scale(scale_c: object) -> None:
    raise ValueError(f"scale_c is {scale_c}; expected None unless out_dtype is {NVFP4!r}")


def gated_gemm(
    a: torch.Tensor,
    b1: torch.Tensor,
    b2: torch.Tensor | None,
    sfa: torch.Tensor | None,
    sfb1: torch.Tensor,
    sfb2: torch.Tensor | None,
    *,
    scale_gate: torch.Tensor | float | None = None,
    scale_up: torch.Tensor | float | None = None,
    token_scale: torch.Tensor | None = None,
    scale_c: torch.Tensor | float | None = None,
    out_dtype: str | torch.dtype = FP16,
    weights: str = "apart",
    activation: str = SILU,
    limit: float = 0.0,
    alpha: float = 1.0,
    beta: float = 0.0,
    bias_gate: torch.Tensor | None = None,
    bias_up: torch.Tensor | None = None,
    scale_layout: ScaleLayout = None,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """f(gate) * (up + beta) of NVFP4 operands, where

        gate = (a @ b1^T) * (scale_gate * token_scale) + bias_gate
        up = (a @ b2^T) * (scale_up * token_scale) + bias_up

    and, if limit > 0, gate is at most limit and up between -limit and limit.

    activation: f; "silu", x * sigmoid(alpha * x); "gelu_tanh", 0.5 * x * (1 + tanh(sqrt(2 / pi) * (x + 0.044715 *
    x^3))); "relu2", max(x, 0)^2.

    a (M, K/2) or (..., K/2), b1 and b2 (N, K/2): float4_e2m1fn_x2 or uint8, two e2m1 values per byte, the first in the
    low half.  sfa, sfb1, sfb2: float8_e4m3fn or uint8, one scale factor for 16 elements of K.
    Or a (M, K) float16 or bfloat16, and sfa None: on the CPU and on Hopper.
    weights: "apart", or the order of gate's and up's rows in one tensor b1 of 2 N rows (b2 and sfb2 are None):
    "stacked", all of gate and then all of up, N a multiple of 128 if sfb1 is "swizzled128x4"; "interleaved8",
    "interleaved32", "interleaved64", that many of each in turn, N a multiple of it.
    scale_gate, scale_up, scale_c: a tensor of one float32 number, or a Python number; token_scale: M float32 numbers.
    None is 1.  scale_c must be positive and finite; otherwise the scale factors returned are NaN.
    bias_gate, bias_up: N float32 numbers each, whatever the order of the weights' rows.

    scale_layout: "linear", scale factors row by row, (rows, K/16); "swizzled128x4", blocks of 128 rows x 4 groups, as
    (ceil(rows/128) * 128, K/16), flat, or as the view (32, 4, ceil(rows/128), 4, K/64) that swizzle_scales() returns;
    "swizzled8x4", blocks of 8 rows; or a pair of these, for sfa and for b's.  None: five dimensions are
    "swizzled128x4"; two are "linear", but refused if the rows are a multiple of 128, because then both layouts fit.
    Different layouts for sfa and b's cost a copy of sfa.

    Returns c (M, N) in out_dtype: "float16", "bfloat16", or their torch.dtype.  For "nvfp4", returns codes (M, N/2)
    uint8 and scale factors float8_e4m3fn, the latter (M, N/16) if b's are linear or swizzled8x4, else the view of five
    dimensions: they are a and sfa of the next product, whose scale then includes 1 / scale_c.

    M may be 0.  K is a multiple of 16, fastest of 64: for others each call copies a and all scale factors with zeros
    after each row, and on CPU and Hopper, or if K is no multiple of 32, the weights' codes too.  N, for NVFP4 output,
    is a multiple of 64.  All tensors are packed without gaps, 16-byte aligned (the float32 ones 4-byte aligned), on one
    device, CPU or CUDA; the kernel runs on the device's current queue.  Scales of other floating-point dtypes cost a
    conversion each.  Derivatives are refused.  struct
    custom_kernel_extended_args in custom_kernel.h has the arithmetic, operation by operation.

    Raises RuntimeError, TypeError or ValueError, naming the argument.
    """
    try:
        options = OPTIONS[scale_layout, out_dtype, weights] | OF_GATE[activation]
    except (KeyError, TypeError):
        options = other_options(scale_layout, out_dtype, weights, activation, OF_GATE)
    if scale_gate is not None and (type(scale_gate) is not Tensor or scale_gate.dtype is not FLOAT32):
        scale_gate = number_like("scale_gate", scale_gate, a)
    if scale_up is not None and (type(scale_up) is not Tensor or scale_up.dtype is not FLOAT32):
        scale_up = number_like("scale_up", scale_up, a)
    if token_scale is not None and (type(token_scale) is not Tensor or token_scale.dtype is not FLOAT32):
        token_scale = number_like("token_scale", token_scale, a)
    if options & TO_NVFP4:
        scale_c = number_like("scale_c", scale_c, a)
        # Each argument that is left to its default makes a call faster.
        if alpha == 1.0 and limit == beta == 0.0 and bias_gate is bias_up is None:
            found = _gated_nvfp4(a, b1, b2, sfa, sfb1, sfb2, options, scale_gate, scale_up, token_scale, scale_c)
        else:
            found = _gated_nvfp4(
                a, b1, b2, sfa, sfb1, sfb2, options, scale_gate, scale_up, token_scale, scale_c, limit, alpha, beta,
                bias_gate, bias_up,
            )  # fmt: skip
        float_c = found[1]
    else:
        if scale_c is not None:
            refuse_scale(scale_c)
        if token_scale is None and alpha == 1.0 and limit == beta == 0.0 and bias_gate is bias_up is None:
            found = float_c = _gated(a, b1, b2, sfa, sfb1, sfb2, options, scale_gate, scale_up)
        else:
            found = float_c = _gated(
                a, b1, b2, sfa, sfb1, sfb2, options, scale_gate, scale_up, token_scale, limit, alpha, beta, bias_gate,
                bias_up,
            )  # fmt: skip
    if float_c.requires_grad or forward_ad._current_level >= 0:
        return without_derivative(
            found, a=a, b1=b1, b2=b2, sfa=sfa, sfb1=sfb1, sfb2=sfb2, scale_gate=scale_gate, scale_up=scale_up,
            token_scale=token_scale, scale_c=scale_c, bias_gate=bias_gate, bias_up=bias_up,
        )  # fmt: skip
    return found


def plain_gemm(
    a: torch.Tensor,
    b: torch.Tensor,
    sfa: torch.Tensor | None,
    sfb: torch.Tensor,
    *,
    scale: torch.Tensor | float | None = None,
    token_scale: torch.Tensor | None = None,
    scale_c: torch.Tensor | float | None = None,
    out_dtype: str | torch.dtype = FP16,
    bias: torch.Tensor | None = None,
    activation: str | None = None,
    scale_layout: ScaleLayout = None,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """f((a @ b^T) * (scale * token_scale) + bias) of NVFP4 operands; activation: f, as gated_gemm() names it, or None.

    a (M, K/2) or (..., K/2), b (N, K/2): float4_e2m1fn_x2 or uint8, two e2m1 values per byte, the first in the low
    half.  sfa, sfb: float8_e4m3fn or uint8, one scale factor for 16 elements of K.
    Or a (M, K) float16 or bfloat16, and sfa None: on the CPU and on Hopper.
    scale, scale_c: a tensor of one float32 number, or a Python number; token_scale: M float32 numbers.  None is 1.
    bias: N float32 numbers.  scale_c must be positive and finite; otherwise the scale factors returned are NaN.

    scale_layout: "linear", scale factors row by row, (rows, K/16); "swizzled128x4", blocks of 128 rows x 4 groups, as
    (ceil(rows/128) * 128, K/16), flat, or as the view (32, 4, ceil(rows/128), 4, K/64) that swizzle_scales() returns;
    "swizzled8x4", blocks of 8 rows; or a pair of these, for sfa and for sfb.  None: five dimensions are
    "swizzled128x4"; two are "linear", but refused if the rows are a multiple of 128, because then both layouts fit.
    Different layouts for sfa and sfb cost a copy of sfa.

    Returns c (M, N) in out_dtype: "float16", "bfloat16", or their torch.dtype.  For "nvfp4", returns codes (M, N/2)
    uint8, which times their scale factors are c * scale_c, and these scale factors, float8_e4m3fn: (M, N/16) if sfb is
    linear or swizzled8x4, else the view of five dimensions.

    M may be 0.  K is a multiple of 16, fastest of 64: for others each call copies a and all scale factors with zeros
    after each row, and on CPU and Hopper, or if K is no multiple of 32, the weights' codes too.  N, for NVFP4 output,
    is a multiple of 64.  All tensors are packed without gaps, 16-byte aligned (the float32 ones 4-byte aligned), on one
    device, CPU or CUDA; the kernel runs on the device's current queue.  Scales of other floating-point dtypes cost a
    conversion each.  Derivatives are refused.

    Raises RuntimeError, TypeError or ValueError, naming the argument.
    """
    try:
        options = OPTIONS[scale_layout, out_dtype, APART] | OF_PLAIN[activation]
    except (KeyError, TypeError):
        options = other_options(scale_layout, out_dtype, APART, activation)
    if scale is not None and (type(scale) is not Tensor or scale.dtype is not FLOAT32):
        scale = number_like("scale", scale, a)
    if token_scale is not None and (type(token_scale) is not Tensor or token_scale.dtype is not FLOAT32):
        token_scale = number_like("token_scale", token_scale, a)
    if options & TO_NVFP4:
        scale_c = number_like("scale_c", scale_c, a)
        found = _plain_nvfp4(a, b, sfa, sfb, options, scale, token_scale, scale_c, bias)
        float_c = found[1]
    else:
        if scale_c is not None:
            refuse_scale(scale_c)
        if token_scale is bias is None:
            found = float_c = _plain(a, b, sfa, sfb, options, scale)
        else:
            found = float_c = _plain(a, b, sfa, sfb, options, scale, token_scale, bias)
    if float_c.requires_grad or forward_ad._current_level >= 0:
        return without_derivative(
            found, a=a, b=b, sfa=sfa, sfb=sfb, scale=scale, token_scale=token_scale, scale_c=scale_c, bias=bias
        )
    return found
