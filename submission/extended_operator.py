"""The extended GEMM as operators of PyTorch: scales of tensors and tokens, bf16 and NVFP4 output, parameters of the
activation, weights in one tensor, and a plain product for a model's down projection.

gated_gemm() and plain_gemm() below call the operators of these names and document the arguments;
submission/torch/extended_operators.c implements them, and struct custom_kernel_extended_args in
submission/custom_kernel.h defines the arithmetic.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import NamedTuple

import torch

from . import submission
from .operator_checks import (
    CODE_DTYPES,
    aligned,
    by_rows,
    check_given,
    check_number,
    check_sizes,
    check_tensor,
    require,
    resolved,
)
from .operators import (
    APART,
    DTYPES,
    FP16,
    NVFP4,
    OPTIONS,
    OUTPUTS,
    TO_NVFP4,
    WEIGHTS,
    Options,
    address,
    current_queue,
    forward_ad,
    library_alpha,
    number_like,
    other_options,
    raise_status,
    read_options,
    register,
    without_derivative,
)
from .scale_layouts import Factors, ScaleLayout, for_library, view_shape

_GATED, _PLAIN = 0, 1  # enum custom_kernel_activation
_SCALES_BLOCKED, _SCALES_ROWS = 0, 1  # enum custom_kernel_scale_layout
_GROUP, _K_MULTIPLE = 16, 16

# struct custom_kernel_extended_args: struct_bytes, backend, device, scale_layout; m, n, k, l; a, b1, b2, sfa, sfb1,
# sfb2, c, queue; activation, weights, output, reserved; scale_gate, scale_up, token_scale, scale_c, sfc; limit, alpha,
# beta, reserved_float; a_type, reserved_2.
_ARGS = struct.Struct("@Iiiiqqqq8QiiiI5QffffiI")
_A_TYPES = {torch.float16: 1, torch.bfloat16: 2}  # enum custom_kernel_a_type; NVFP4 is 0


_call = submission._library.custom_kernel_extended
_call.argtypes = (ctypes.c_char_p,)
_call.restype = ctypes.c_int32


class _Call(NamedTuple):
    """The arguments of either operator."""

    a: torch.Tensor
    b1: torch.Tensor
    b2: torch.Tensor | None
    sfa: torch.Tensor | None
    sfb1: torch.Tensor
    sfb2: torch.Tensor | None
    scale_gate: torch.Tensor | None
    scale_up: torch.Tensor | None
    token_scale: torch.Tensor | None
    scale_c: torch.Tensor | None
    options: Options
    plain: bool
    limit: float
    alpha: float
    beta: float

    @property
    def n(self) -> int:
        """Columns of the output."""
        return self.b1.shape[0] if self.options.weights == APART else self.b1.shape[0] // 2

    @property
    def k(self) -> int:
        """Elements of a row of a."""
        return self.a.shape[1] if self.a.dtype in _A_TYPES else 2 * self.a.shape[1]

    def named(self, name: str) -> str:
        """The name that a caller of gated_gemm() or plain_gemm() has for an argument."""
        return {"b1": "b", "sfb1": "sfb", "scale_gate": "scale"}.get(name, name) if self.plain else name

    def factors(self) -> list[Factors]:
        """The scale factors that are given, with what their shapes are checked against."""
        rows, layouts = (self.a.shape[0], self.b1.shape[0]), self.options[:2]
        names = (("sfa", self.sfa, 0), ("sfb1", self.sfb1, 1), ("sfb2", self.sfb2, 1))
        return [
            Factors(self.named(name), tensor, rows[side], self.k // _GROUP, layouts[side])
            for name, tensor, side in names
            if tensor is not None
        ]


def _check(call: _Call) -> tuple[bool, list[torch.Tensor]]:
    """Checks everything but the memory; works on fake tensors with symbolic sizes too.

    Returns the scale factors as for_library() does.
    """
    a, b1 = call.a, call.b1
    given, dtypes = ("None", tuple(_A_TYPES)) if call.sfa is None else ("given", CODE_DTYPES)
    require(
        (call.sfa is None) == (a.dtype in _A_TYPES),
        lambda: f"a has dtype {a.dtype}; expected {' or '.join(map(str, dtypes))}, as sfa is {given}",
    )
    require(a.dim() == 2, lambda: f"a has shape {tuple(a.shape)}; expected (M, K/2)")
    require(b1.dim() == 2, lambda: f"{call.named('b1')} has shape {tuple(b1.shape)}; expected (rows, K/2)")
    joint, halves, half_k = call.options.weights != APART, a.dtype in _A_TYPES, call.k // 2
    require(call.k % _K_MULTIPLE == 0, lambda: f"a has K = {call.k}; expected a multiple of {_K_MULTIPLE}")
    require(
        not (joint and b1.shape[0] % 2),
        lambda: f"b1 has {b1.shape[0]} rows; expected an even number of gate's and up's",
    )
    alone = call.plain or joint
    for name, tensor in (("b2", call.b2), ("sfb2", call.sfb2)):
        check_given(name, tensor, alone)
    for name, codes in (("a", a), ("b1", b1), ("b2", call.b2)):
        if codes is not None:
            shape = (b1.shape[0], half_k) if name != "a" else (a.shape[0], call.k if halves else half_k)
            dtypes = tuple(_A_TYPES) if name == "a" and halves else CODE_DTYPES
            check_tensor(call.named(name), codes, dtypes, shape, a.device)
    given = resolved(call.factors(), a.device)
    for name in ("scale_gate", "scale_up", "token_scale", "scale_c"):
        count = a.shape[0] if name == "token_scale" else 1
        check_number(call.named(name), getattr(call, name), count, a.device)
    blocked, scales = for_library(given)
    check_sizes(call.n, call.k, call.options, blocked)
    return blocked, scales


def _allocate(call: _Call, blocked: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """c and its scale factors; the latter are empty unless the output is NVFP4."""
    m, n, nvfp4 = call.a.shape[0], call.n, call.options.out_dtype == NVFP4
    c = torch.empty((m, n // 2 if nvfp4 else n), dtype=DTYPES[call.options.out_dtype], device=call.a.device)
    kind = {"dtype": torch.float8_e4m3fn, "device": call.a.device}
    if not nvfp4:
        return c, torch.empty((0, 0), **kind)
    if not blocked:
        return c, torch.empty((m, n // _GROUP), **kind)
    _, _, tiles, _, tiles_k = view_shape(m, n // _GROUP)
    return c, torch.empty((tiles, tiles_k, 32, 4, 4), **kind).permute(2, 3, 0, 4, 1)


def _flat(call: _Call) -> tuple[_Call, Callable[[torch.Tensor], torch.Tensor]]:
    """The call with the leading dimensions of a flattened, and a function that gives them to a result."""
    rows = by_rows(call.a, call.sfa, call.options.sfa_layout)
    return call._replace(a=rows.a, sfa=rows.sfa), rows.restored


def _fake(call: _Call) -> tuple[torch.Tensor, torch.Tensor]:
    call, restored = _flat(call)
    c, sfc = _allocate(call, _check(call)[0])
    return restored(c), restored(sfc) if call.options.out_dtype == NVFP4 and sfc.dim() == 2 else sfc


def _run(call: _Call) -> tuple[torch.Tensor, torch.Tensor]:
    call, restored = _flat(call)
    blocked, scales = _check(call)
    c, sfc = _allocate(call, blocked)
    device = call.a.get_device()
    sfa, sfb1, sfb2 = (*([None] if call.sfa is None else []), *aligned(scales), None)[:3]
    pointers = (address(tensor) for tensor in (call.a, call.b1, call.b2, sfa, sfb1, sfb2, c))
    numbers = (call.scale_gate, call.scale_up, call.token_scale, call.scale_c)
    optional = (address(tensor) for tensor in (*numbers, sfc if call.options.out_dtype == NVFP4 else None))
    alpha = call.alpha if call.plain else library_alpha(call.alpha)
    raise_status(_call(_ARGS.pack(
        _ARGS.size, 0, device, _SCALES_BLOCKED if blocked else _SCALES_ROWS, call.a.shape[0], call.n,
        call.k, 1, *pointers, current_queue(device), _PLAIN if call.plain else _GATED,
        WEIGHTS[call.options.weights], OUTPUTS.index(call.options.out_dtype), 0, *optional, call.limit, alpha,
        call.beta, 0.0, _A_TYPES.get(call.a.dtype, 0), 0,
    )))  # fmt: skip
    return restored(c), restored(sfc) if call.options.out_dtype == NVFP4 and sfc.dim() == 2 else sfc


_Number = torch.Tensor | None


def _of_gated(
    a: torch.Tensor, b1: torch.Tensor, b2: torch.Tensor | None, sfa: torch.Tensor | None, sfb1: torch.Tensor,
    sfb2: torch.Tensor | None, options: int = 0, scale_gate: _Number = None, scale_up: _Number = None,
    token_scale: _Number = None, scale_c: _Number = None, limit: float = 0.0, alpha: float = 1.0, beta: float = 0.0,
) -> _Call:  # fmt: skip
    """The call of gated_gemm.nvfp4."""
    numbers = (scale_gate, scale_up, token_scale, scale_c)
    return _Call(a, b1, b2, sfa, sfb1, sfb2, *numbers, read_options(options), False, limit, alpha, beta)


def _of_plain(
    a: torch.Tensor, b: torch.Tensor, sfa: torch.Tensor | None, sfb: torch.Tensor, options: int = 0,
    scale: _Number = None, token_scale: _Number = None, scale_c: _Number = None,
) -> _Call:  # fmt: skip
    """The call of plain_gemm.nvfp4."""
    numbers = (scale, None, token_scale, scale_c)
    return _Call(a, b, None, sfa, sfb, None, *numbers, read_options(options), True, 0.0, 0.0, 0.0)


def run_gated(*tensors: torch.Tensor | None, options: int = 0) -> torch.Tensor:
    """gated_gemm of these tensors without an operator, where operators run in Python."""
    return _run(_of_gated(*tensors, options))[0]


def register_products(
    name: str,
    of: Callable[..., tuple],
    fake: Callable[[tuple], tuple[torch.Tensor, ...]],
    run: Callable[[tuple], tuple[torch.Tensor, ...]],
    place: int,
) -> None:
    """Registers an operator with an output of 16 bits, and its overload .nvfp4, which has scale_c at `place`.

    of: makes the call, of which fake and run return C, and the scale factors if it is NVFP4, from .nvfp4's arguments.
    """

    def of_nvfp4(compute: Callable[[tuple], tuple[torch.Tensor, ...]]) -> Callable[..., tuple[torch.Tensor, ...]]:
        return lambda *given, **named: compute(of(*given, **named))

    def of_halves(compute: Callable[[tuple], tuple[torch.Tensor, ...]]) -> Callable[..., torch.Tensor]:
        def implementation(*given: object, **named: object) -> torch.Tensor:
            after = (None, *given[place:]) if len(given) > place else ()
            return compute(of(*given[:place], *after, **named))[0]

        return implementation

    register(name, of_halves(fake), of_halves(run))
    register(f"{name}.nvfp4", of_nvfp4(fake), of_nvfp4(run))


register_products("gated_gemm", _of_gated, _fake, _run, 10)
register_products("plain_gemm", _of_plain, _fake, _run, 7)
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
    limit: float = 0.0,
    alpha: float = 1.0,
    beta: float = 0.0,
    scale_layout: ScaleLayout = None,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """gate * sigmoid(alpha * gate) * (up + beta) of NVFP4 operands, where

        gate = (a @ b1^T) * (scale_gate * token_scale),  up = (a @ b2^T) * (scale_up * token_scale)

    and, if limit > 0, gate is at most limit and up between -limit and limit.

    a (M, K/2) or (..., K/2), b1 and b2 (N, K/2): float4_e2m1fn_x2 or uint8, two e2m1 values per byte, the first in the
    low half.  sfa, sfb1, sfb2: float8_e4m3fn or uint8, one scale factor for 16 elements of K.
    Or a (M, K) float16 or bfloat16, and sfa None: on the CPU and on Hopper.
    weights: "apart", or the order of gate's and up's rows in one tensor b1 of 2 N rows (b2 and sfb2 are None):
    "stacked", all of gate and then all of up, N a multiple of 128 if sfb1 is "swizzled128x4"; "interleaved8",
    "interleaved32", "interleaved64", that many of each in turn, N a multiple of it.
    scale_gate, scale_up, scale_c: a tensor of one float32 number, or a Python number; token_scale: M float32 numbers.
    None is 1.  scale_c must be positive and finite; otherwise the scale factors returned are NaN.

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
    device, CPU or CUDA; the kernel runs on the device's current queue.  Derivatives are refused.  struct
    custom_kernel_extended_args in custom_kernel.h has the arithmetic, operation by operation.

    Raises RuntimeError, TypeError or ValueError, naming the argument.
    """
    try:
        options = OPTIONS[scale_layout, out_dtype, weights]
    except (KeyError, TypeError):
        options = other_options(scale_layout, out_dtype, weights)
    if isinstance(scale_gate, (int, float)):
        scale_gate = number_like("scale_gate", scale_gate, a)
    if isinstance(scale_up, (int, float)):
        scale_up = number_like("scale_up", scale_up, a)
    if options & TO_NVFP4:
        scale_c = number_like("scale_c", scale_c, a)
        if alpha == 1.0 and limit == beta == 0.0:  # each argument that is left to its default makes a call faster
            found = _gated_nvfp4(a, b1, b2, sfa, sfb1, sfb2, options, scale_gate, scale_up, token_scale, scale_c)
        else:
            found = _gated_nvfp4(
                a, b1, b2, sfa, sfb1, sfb2, options, scale_gate, scale_up, token_scale, scale_c, limit, alpha, beta
            )
        float_c = found[1]
    else:
        if scale_c is not None:
            refuse_scale(scale_c)
        if token_scale is None and alpha == 1.0 and limit == beta == 0.0:
            found = float_c = _gated(a, b1, b2, sfa, sfb1, sfb2, options, scale_gate, scale_up)
        else:
            found = float_c = _gated(
                a, b1, b2, sfa, sfb1, sfb2, options, scale_gate, scale_up, token_scale, limit, alpha, beta
            )
    if float_c.requires_grad or forward_ad._current_level >= 0:
        return without_derivative(
            found, a=a, b1=b1, b2=b2, sfa=sfa, sfb1=sfb1, sfb2=sfb2, scale_gate=scale_gate, scale_up=scale_up,
            token_scale=token_scale, scale_c=scale_c,
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
    scale_layout: ScaleLayout = None,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """(a @ b^T) * (scale * token_scale) of NVFP4 operands.

    a (M, K/2) or (..., K/2), b (N, K/2): float4_e2m1fn_x2 or uint8, two e2m1 values per byte, the first in the low
    half.  sfa, sfb: float8_e4m3fn or uint8, one scale factor for 16 elements of K.
    Or a (M, K) float16 or bfloat16, and sfa None: on the CPU and on Hopper.
    scale, scale_c: a tensor of one float32 number, or a Python number; token_scale: M float32 numbers.  None is 1.
    scale_c must be positive and finite; otherwise the scale factors returned are NaN.

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
    device, CPU or CUDA; the kernel runs on the device's current queue.  Derivatives are refused.

    Raises RuntimeError, TypeError or ValueError, naming the argument.
    """
    try:
        options = OPTIONS[scale_layout, out_dtype, APART]
    except (KeyError, TypeError):
        options = other_options(scale_layout, out_dtype)
    if isinstance(scale, (int, float)):
        scale = number_like("scale", scale, a)
    if options & TO_NVFP4:
        scale_c = number_like("scale_c", scale_c, a)
        found = _plain_nvfp4(a, b, sfa, sfb, options, scale, token_scale, scale_c)
        float_c = found[1]
    else:
        if scale_c is not None:
            refuse_scale(scale_c)
        if token_scale is None:
            found = float_c = _plain(a, b, sfa, sfb, options, scale)
        else:
            found = float_c = _plain(a, b, sfa, sfb, options, scale, token_scale)
    if float_c.requires_grad or forward_ad._current_level >= 0:
        return without_derivative(
            found, a=a, b=b, sfa=sfa, sfb=sfb, scale=scale, token_scale=token_scale, scale_c=scale_c
        )
    return found
