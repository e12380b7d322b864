"""The products of a mixture of experts as operators of PyTorch: the weights of all experts in one tensor, tokens sorted
by expert or padded, and their numbers on the device.

grouped_gated_gemm() and grouped_plain_gemm() below call torch.ops.nvfp4_gemm.experts and document the arguments.
struct custom_kernel_experts_args in submission/custom_kernel.h defines the arithmetic.
"""

from __future__ import annotations

import torch
from torch import Tensor

from .extended_operator import refuse_scale
from .operators import (
    APART,
    ENDS,
    FLOAT32,
    FP16,
    OF_GATE,
    OF_PLAIN,
    OPTIONS,
    PLAIN,
    SILU,
    TO_NVFP4,
    forward_ad,
    new_products,
    number_like,
    other_options,
    register,
    without_derivative,
)
from .scale_layouts import ScaleLayout, check_bytes, swizzle_scales


def _new(
    a: torch.Tensor, b1: torch.Tensor, b2: object, sfa: object, sfb1: object, sfb2: object, counts: object,
    options: int, *others: object,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:  # fmt: skip
    rows = others[-1]
    return new_products(a if rows is None else a.new_empty(rows.numel(), a.shape[1]), b1, options, blocked=False)


for _overload in ("", ".nvfp4"):
    register(f"experts{_overload}", _new)
_run, _run_nvfp4 = torch.ops.nvfp4_gemm.experts.default, torch.ops.nvfp4_gemm.experts.nvfp4


_MOST_TOKENS = 2**31 - 1


def swizzle_expert_scales(linear: torch.Tensor) -> torch.Tensor:
    """Scale factors of experts' weights, or of tokens in padded form, linear (E, rows, K/16) -> "swizzled128x4", as
    (E, ceil(rows/128) * 128, ceil(K/64) * 4) in new memory, each expert padded with zeros.

    Raises ValueError for another shape and TypeError for another dtype than float8_e4m3fn and uint8.
    """
    check_bytes("linear", linear)
    if linear.dim() != 3 or 0 in (linear.shape[0], linear.shape[2]):
        raise ValueError(f"linear has shape {tuple(linear.shape)}; expected (E, rows, K/16), E and K/16 above 0")
    experts, rows, groups = linear.shape
    padded = (rows + 127) // 128 * 128
    whole = torch.nn.functional.pad(linear.view(torch.uint8), (0, 0, 0, padded - rows)).view(experts * padded, groups)
    memory = swizzle_scales(whole).permute(2, 4, 0, 1, 3)
    return memory.reshape(experts, padded, 4 * memory.shape[1]).view(linear.dtype)


def _check_tensors(b: object, b_name: str, value: object, name: str) -> None:
    for shown, one in ((b_name, b), (name, value)):
        if not isinstance(one, torch.Tensor):
            raise TypeError(f"{shown} is a {type(one).__name__}; expected a torch.Tensor")


def _numbers(name: str, value: torch.Tensor | float, b: torch.Tensor, b_name: str = "b1") -> torch.Tensor:
    """One float32 number for each expert, from a tensor of as many or of one, or from a Python number."""
    if type(b) is type(value) is Tensor and value.dtype is FLOAT32 and value.dim() == 1 and value.numel() != 1:
        return value  # a layer's own, which cost a call least; the library checks their number
    value = number_like(name, value, b)
    _check_tensors(b, b_name, value, name)
    if value.numel() == 1 and b.shape[:1] != (1,):
        return value.reshape(1).expand(b.shape[:1]).contiguous()
    return value if value.dim() == 1 else value.reshape(-1)


def _of_tokens(value: torch.Tensor, a: torch.Tensor) -> torch.Tensor:
    """A number for each token, also from a tensor with one more dimension, of 1."""
    _check_tensors(a, "a", value, "token_scale")
    found = number_like("token_scale", value, a)
    return found.squeeze(-1) if found.dim() == a.dim() and found.shape[-1] == 1 else found


def _int32(name: str, counts: torch.Tensor) -> torch.Tensor:
    """Counts as the library reads them, also from int64."""
    if not isinstance(counts, torch.Tensor):
        raise TypeError(f"{name} is a {type(counts).__name__}; expected an int32 torch.Tensor")
    return counts.clamp(-1, _MOST_TOKENS).int() if counts.dtype == torch.int64 else counts


def _ends(
    counts: torch.Tensor | None, offsets: torch.Tensor | None, b: torch.Tensor, b_name: str = "b1"
) -> torch.Tensor:
    """The operator's counts, from offsets."""
    if (counts is None) == (offsets is None):
        raise ValueError(
            f"counts and offsets are {'both None' if counts is None else 'both given'}; expected one of them"
        )
    offsets = _int32("offsets", offsets)
    _check_tensors(b, b_name, offsets, "offsets")
    return offsets[1:] if offsets.dim() == 1 and b.dim() > 0 and offsets.shape[0] == b.shape[0] + 1 else offsets


def grouped_gated_gemm(
    a: torch.Tensor,
    b1: torch.Tensor,
    b2: torch.Tensor | None,
    sfa: torch.Tensor | None,
    sfb1: torch.Tensor,
    sfb2: torch.Tensor | None,
    *,
    counts: torch.Tensor | None = None,
    offsets: torch.Tensor | None = None,
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
    rows: torch.Tensor | None = None,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """f(gate) * (up + beta) of each token with its expert's weights, where

        gate = (a @ b1[e]^T) * (scale_gate[e] * token_scale) + bias_gate[e]
        up = (a @ b2[e]^T) * (scale_up[e] * token_scale) + bias_up[e]

    and, if limit > 0, gate is at most limit and up between -limit and limit.  E experts, at most 1,024.
    activation: f, as gated_gemm() names it; alpha is SiLU's.

    a: float4_e2m1fn_x2 or uint8, two e2m1 values per byte, the first in the low half; the tokens sorted by expert
    (T, K/2), or padded (E, capacity, K/2).
    Or a (T, K) or (E, capacity, K) float16 or bfloat16, and sfa None: on the CPU and on Hopper.  Then rows, int32 (T),
    may name the row of a (R, K) for each of T: a row of zeros where a has no such row.
    b1, b2 (E, N, K/2): the weights, as a.
    sfa, sfb1, sfb2: float8_e4m3fn or uint8, one scale factor for 16 elements of K.
    counts (E): int32, the number of tokens of each expert; of padded tokens, those at the start of its place.
    offsets: int32, instead of counts for sorted tokens: the end of each expert's tokens (E), as torch._grouped_mm has
    them, or 0 and then these (E + 1).
    weights: "apart", or the order of gate's and up's rows in one tensor b1 (E, 2 N, K/2), b2 and sfb2 being None:
    "stacked", all of gate and then all of up, N a multiple of 128 if sfb1 is "swizzled128x4"; "interleaved8",
    "interleaved32", "interleaved64", that many of each in turn, N a multiple of it.
    scale_gate, scale_up, scale_c: E float32 numbers, or one for all experts; token_scale: a float32 number for each
    token.  None is 1.  scale_c must be positive and finite; otherwise the scale factors returned are NaN.
    bias_gate, bias_up: float32 (E, N), whatever the order of the weights' rows.

    scale_layout: "linear", scale factors row by row: sfa (T, K/16) or (E, capacity, K/16), sfb1 (E, rows, K/16); or
    "swizzled128x4", blocks of 128 rows x 4 groups: sfb1 (E, ceil(rows/128) * 128, K/16), which
    swizzle_expert_scales() returns; sfa over all T tokens, in a form that swizzle_scales() describes, or
    (E, ceil(capacity/128) * 128, K/16); or a pair of these, for sfa and for b's.  None: "linear", but refused where
    the rows are a multiple of 128, because then both layouts fit.

    Returns c (T, N) or (E, capacity, N) in out_dtype: "float16", "bfloat16", or their torch.dtype.  For "nvfp4",
    returns codes (.., N/2) uint8 and scale factors (.., N/16) float8_e4m3fn, row by row: a and sfa of the next product,
    whose scale then includes 1 / scale_c.  Rows past an expert's count, and past the last expert's tokens, are not
    written.

    The counts are read on the device when the kernel runs: there is no host synchronisation, and a CUDA graph takes the
    counts of each replay.  No counts lead out of the tensors: negative ones are 0, and tokens past T do not exist.
    Experts without tokens cost nothing, a token's bits do not depend on other tokens, and T may be 0.

    K is a multiple of 16, fastest of 64: for others each call copies a and the scale factors of all experts, and on
    CPU, or if K is no multiple of 32, their codes too.  N, for NVFP4 output, is a multiple of 64.  All tensors are
    packed without gaps, 16-byte aligned (counts and numbers 4-byte aligned), on one device, CPU or CUDA; the kernel
    runs on the device's current queue.  Numbers of other floating-point dtypes and int64 counts cost a conversion each.
    Derivatives are refused.

    Raises RuntimeError, TypeError or ValueError, naming the argument.
    """
    try:
        options = OPTIONS[scale_layout, out_dtype, weights] | OF_GATE[activation]
    except (KeyError, TypeError):
        options = other_options(scale_layout, out_dtype, weights, activation, OF_GATE)
    gathered = {} if rows is None else {"rows": rows}
    if counts is None or offsets is not None:
        counts, options = _ends(counts, offsets, b1), options | ENDS
    elif type(counts) is not Tensor or counts.dtype is not torch.int32:
        counts = _int32("counts", counts)
    if token_scale is not None:
        token_scale = _of_tokens(token_scale, a)
    if scale_gate is not None:
        scale_gate = _numbers("scale_gate", scale_gate, b1)
    if scale_up is not None:
        scale_up = _numbers("scale_up", scale_up, b1)
    if options & TO_NVFP4:
        if scale_c is not None:
            scale_c = _numbers("scale_c", scale_c, b1)
        found = _run_nvfp4(
            a, b1, b2, sfa, sfb1, sfb2, counts, options, scale_gate, scale_up, token_scale, scale_c, limit, alpha, beta,
            bias_gate, bias_up, **gathered,
        )  # fmt: skip
        float_c = found[1]
    else:
        if scale_c is not None:
            refuse_scale(scale_c)
        found = float_c = _run(
            a, b1, b2, sfa, sfb1, sfb2, counts, options, scale_gate, scale_up, token_scale, limit, alpha, beta,
            bias_gate, bias_up, **gathered,
        )  # fmt: skip
    if float_c.requires_grad or forward_ad._current_level >= 0:
        return without_derivative(
            found, a=a, b1=b1, b2=b2, sfa=sfa, sfb1=sfb1, sfb2=sfb2, scale_gate=scale_gate, scale_up=scale_up,
            token_scale=token_scale, scale_c=scale_c, bias_gate=bias_gate, bias_up=bias_up,
        )  # fmt: skip
    return found


def grouped_plain_gemm(
    a: torch.Tensor,
    b: torch.Tensor,
    sfa: torch.Tensor | None,
    sfb: torch.Tensor,
    *,
    counts: torch.Tensor | None = None,
    offsets: torch.Tensor | None = None,
    scale: torch.Tensor | float | None = None,
    token_scale: torch.Tensor | None = None,
    scale_c: torch.Tensor | float | None = None,
    out_dtype: str | torch.dtype = FP16,
    bias: torch.Tensor | None = None,
    activation: str | None = None,
    scale_layout: ScaleLayout = None,
    rows: torch.Tensor | None = None,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """f((a @ b[e]^T) * (scale[e] * token_scale) + bias[e]) of each token with its expert's weights.  E experts, at most
    1,024.  activation: f, as gated_gemm() names it, or None.

    a: float4_e2m1fn_x2 or uint8, two e2m1 values per byte, the first in the low half; the tokens sorted by expert
    (T, K/2), or padded (E, capacity, K/2).  b (E, N, K/2): the weights, as a.
    Or a is float16 or bfloat16 and sfa None, with or without rows, as grouped_gated_gemm() explains them.
    sfa, sfb: float8_e4m3fn or uint8, one scale factor for 16 elements of K, in scale_layout: "linear", (T, K/16) or
    (E, capacity, K/16), and (E, N, K/16); "swizzled128x4"; a pair of these; or None.
    counts (E), or offsets (E) or (E + 1): int32, on the device, as grouped_gated_gemm() explains them.
    scale, scale_c: E float32 numbers, or one for all experts; token_scale: a float32 number for each token, such as the
    router's weight.  None is 1.  scale_c must be positive and finite; otherwise the scale factors returned are NaN.
    bias: float32 (E, N).

    Returns c (T, N) or (E, capacity, N) in out_dtype: "float16", "bfloat16", or their torch.dtype; for "nvfp4", codes
    and scale factors.  grouped_gated_gemm() has the layouts' shapes, and what else holds for both.
    """
    try:
        options = OPTIONS[scale_layout, out_dtype, APART] | OF_PLAIN[activation] | PLAIN
    except (KeyError, TypeError):
        options = other_options(scale_layout, out_dtype, APART, activation) | PLAIN
    if not (isinstance(b, torch.Tensor) and isinstance(sfb, torch.Tensor)):  # the operator has other names for them
        _check_tensors(b, "b", sfb, "sfb")
    more = {} if rows is None else {"rows": rows}
    if bias is not None:
        more["bias_gate"] = bias
    if counts is None or offsets is not None:
        counts, options = _ends(counts, offsets, b, "b"), options | ENDS
    elif type(counts) is not Tensor or counts.dtype is not torch.int32:
        counts = _int32("counts", counts)
    if token_scale is not None:
        token_scale = _of_tokens(token_scale, a)
    if scale is not None:
        scale = _numbers("scale", scale, b, "b")
    if options & TO_NVFP4:
        if scale_c is not None:
            scale_c = _numbers("scale_c", scale_c, b, "b")
        given = (a, b, None, sfa, sfb, None, counts, options, scale, None, token_scale, scale_c)
        found = _run_nvfp4(*given, **more)
        float_c = found[1]
    else:
        if scale_c is not None:
            refuse_scale(scale_c)
        given = (a, b, None, sfa, sfb, None, counts, options, scale, None, token_scale)
        found = float_c = _run(*given, **more)
    if float_c.requires_grad or forward_ad._current_level >= 0:
        return without_derivative(
            found, a=a, b=b, sfa=sfa, sfb=sfb, scale=scale, token_scale=token_scale, scale_c=scale_c, bias=bias
        )
    return found
