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
from .operator_checks import CODE_DTYPES, aligned, by_rows, check_tensor, require, resolved
from .operators import current_queue, raise_status, register
from .scale_layouts import SCALE_LAYOUTS, Factors, ScaleLayout, for_library, layout_pair, view_shape

FP16, BF16, NVFP4 = "float16", "bfloat16", "nvfp4"
_OUTPUTS = {FP16: 0, BF16: 1, NVFP4: 2}  # enum custom_kernel_output
_DTYPES = {FP16: torch.float16, BF16: torch.bfloat16, NVFP4: torch.uint8}
_WRITTEN = {FP16: torch.float16, BF16: torch.bfloat16, torch.float16: torch.float16, torch.bfloat16: torch.bfloat16}
_WEIGHTS = {"apart": 0, "stacked": 1, "interleaved8": 8, "interleaved32": 32, "interleaved64": 64}
_GATED, _PLAIN = 0, 1  # enum custom_kernel_activation
_SCALES_BLOCKED, _SCALES_ROWS = 0, 1  # enum custom_kernel_scale_layout
_GROUP, _K_MULTIPLE = 16, 16
_KNOWN = (None, *SCALE_LAYOUTS)

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
    out_dtype: str
    weights: str
    plain: bool
    limit: float
    alpha: float
    beta: float
    sfa_layout: str | None = None
    sfb_layout: str | None = None

    @property
    def n(self) -> int:
        """Columns of the output."""
        return self.b1.shape[0] if self.weights == "apart" else self.b1.shape[0] // 2

    @property
    def k(self) -> int:
        """Elements of a row of a."""
        return self.a.shape[1] if self.a.dtype in _A_TYPES else 2 * self.a.shape[1]

    def named(self, name: str) -> str:
        """The name that a caller of gated_gemm() or plain_gemm() has for an argument."""
        return {"b1": "b", "sfb1": "sfb", "scale_gate": "scale"}.get(name, name) if self.plain else name

    def factors(self) -> list[Factors]:
        """The scale factors that are given, with what their shapes are checked against."""
        rows, layouts = (self.a.shape[0], self.b1.shape[0]), (self.sfa_layout, self.sfb_layout)
        names = (("sfa", self.sfa, 0), ("sfb1", self.sfb1, 1), ("sfb2", self.sfb2, 1))
        return [
            Factors(self.named(name), tensor, rows[side], self.k // _GROUP, layouts[side])
            for name, tensor, side in names
            if tensor is not None
        ]


def _check_given(name: str, tensor: torch.Tensor | None, alone: bool) -> None:
    """Requires b2 or sfb2 to be there, or, if b1 holds all weights, not to be there."""
    wanted = "only where gate and up lie apart" if alone else "beside b1"
    require((tensor is None) == alone, lambda: f"{name} is {'given' if alone else 'None'}; expected it {wanted}")


def _check_number(name: str, number: torch.Tensor, count: int, device: torch.device) -> None:
    """Requires `count` float32 numbers."""
    require(number.dtype == torch.float32, lambda: f"{name} has dtype {number.dtype}; expected torch.float32")
    require(number.numel() == count, lambda: f"{name} has {number.numel()} numbers; expected {count}")
    require(number.is_contiguous(), lambda: f"{name} has strides {number.stride()}; expected numbers without gaps")
    require(number.device == device, lambda: f"{name} is on {number.device}; expected {device}, as a")


def _check(call: _Call) -> tuple[bool, list[torch.Tensor]]:
    """Checks everything but the memory; works on fake tensors with symbolic sizes too.

    Returns the scale factors as for_library() does.
    """
    a, b1 = call.a, call.b1
    require(
        call.out_dtype in _OUTPUTS, lambda: f"out_dtype is {call.out_dtype!r}; expected one of {', '.join(_OUTPUTS)}"
    )
    require(call.weights in _WEIGHTS, lambda: f"weights is {call.weights!r}; expected one of {', '.join(_WEIGHTS)}")
    require(a.dim() == 2, lambda: f"a has shape {tuple(a.shape)}; expected (M, K/2)")
    require(b1.dim() == 2, lambda: f"{call.named('b1')} has shape {tuple(b1.shape)}; expected (rows, K/2)")
    joint, halves, half_k = call.weights != "apart", a.dtype in _A_TYPES, call.k // 2
    require(call.k % _K_MULTIPLE == 0, lambda: f"a has K = {call.k}; expected a multiple of {_K_MULTIPLE}")
    require(
        (call.sfa is None) == halves,
        lambda: (
            f"sfa is {'None' if call.sfa is None else 'given'} and a has dtype {a.dtype}; expected scale factors "
            "for e2m1 codes, and None for float16 and bfloat16"
        ),
    )
    require(
        not (joint and b1.shape[0] % 2),
        lambda: f"b1 has {b1.shape[0]} rows; expected an even number of {call.weights} ones",
    )
    alone = call.plain or joint
    for name, tensor in (("b2", call.b2), ("sfb2", call.sfb2)):
        _check_given(name, tensor, alone)
    for name, codes in (("a", a), ("b1", b1), ("b2", call.b2)):
        if codes is not None:
            shape = (b1.shape[0], half_k) if name != "a" else (a.shape[0], call.k if halves else half_k)
            dtypes = tuple(_A_TYPES) if name == "a" and halves else CODE_DTYPES
            check_tensor(call.named(name), codes, dtypes, shape, a.device)
    given = resolved(call.factors(), a.device)
    for name in ("scale_gate", "scale_up", "token_scale", "scale_c"):
        number = getattr(call, name)
        if number is not None:
            _check_number(call.named(name), number, a.shape[0] if name == "token_scale" else 1, a.device)
    return for_library(given)


def _allocate(call: _Call, blocked: bool) -> tuple[torch.Tensor, torch.Tensor]:
    """c and its scale factors; the latter are empty unless the output is NVFP4."""
    m, n, nvfp4 = call.a.shape[0], call.n, call.out_dtype == NVFP4
    c = torch.empty((m, n // 2 if nvfp4 else n), dtype=_DTYPES[call.out_dtype], device=call.a.device)
    kind = {"dtype": torch.uint8, "device": call.a.device}  # torch.library.opcheck cannot compare e4m3
    if not nvfp4:
        return c, torch.empty((0, 0), **kind)
    if not blocked:
        return c, torch.empty((m, n // _GROUP), **kind)
    _, _, tiles, _, tiles_k = view_shape(m, n // _GROUP)
    return c, torch.empty((tiles, tiles_k, 32, 4, 4), **kind).permute(2, 3, 0, 4, 1)


def _address(tensor: torch.Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()


def _number(value: torch.Tensor | float | None, like: torch.Tensor) -> torch.Tensor | None:
    """A Python number as a float32 tensor on the device of `like`."""
    if isinstance(value, (int, float)):
        return torch.full((), value, dtype=torch.float32, device=like.device)
    return value


def _output_name(out_dtype: str | torch.dtype) -> str:
    """The operator's name of an output format.  Raises ValueError for any other dtype."""
    if not isinstance(out_dtype, torch.dtype):
        return out_dtype
    name = next((name for name in (FP16, BF16) if _DTYPES[name] is out_dtype), None)
    if name is None:
        raise ValueError(f"out_dtype is {out_dtype}; expected one of {', '.join(_OUTPUTS)}, or the first two's dtypes")
    return name


def _flat(call: _Call) -> tuple[_Call, Callable[[torch.Tensor], torch.Tensor]]:
    """The call with the leading dimensions of a flattened, and a function that gives them to a result."""
    rows = by_rows(call.a, call.sfa, call.sfa_layout)
    return call._replace(a=rows.a, sfa=rows.sfa), rows.restored


def _fake(call: _Call) -> tuple[torch.Tensor, torch.Tensor]:
    call, restored = _flat(call)
    c, sfc = _allocate(call, _check(call)[0])
    return restored(c), restored(sfc) if call.out_dtype == NVFP4 and sfc.dim() == 2 else sfc


def _run(call: _Call) -> tuple[torch.Tensor, torch.Tensor]:
    call, restored = _flat(call)
    blocked, scales = _check(call)
    c, sfc = _allocate(call, blocked)
    device = call.a.get_device()
    sfa, sfb1, sfb2 = (*([None] if call.sfa is None else []), *aligned(scales), None)[:3]
    pointers = (_address(tensor) for tensor in (call.a, call.b1, call.b2, sfa, sfb1, sfb2, c))
    numbers = (call.scale_gate, call.scale_up, call.token_scale, call.scale_c)
    optional = (_address(tensor) for tensor in (*numbers, sfc if call.out_dtype == NVFP4 else None))
    raise_status(_call(_ARGS.pack(
        _ARGS.size, 0, device, _SCALES_BLOCKED if blocked else _SCALES_ROWS, call.a.shape[0], call.n,
        call.k, 1, *pointers, current_queue(device), _PLAIN if call.plain else _GATED,
        _WEIGHTS[call.weights], _OUTPUTS[call.out_dtype], 0, *optional, call.limit, call.alpha, call.beta, 0.0,
        _A_TYPES.get(call.a.dtype, 0), 0,
    )))  # fmt: skip
    return restored(c), restored(sfc) if call.out_dtype == NVFP4 and sfc.dim() == 2 else sfc


def _of_gated(
    *operands: torch.Tensor | None,
    weights: str = "apart",
    limit: float = 0.0,
    alpha: float = 1.0,
    beta: float = 0.0,
    sfa_layout: str | None = None,
    sfb_layout: str | None = None,
    scale_c: torch.Tensor | None = None,
    out_dtype: str | torch.dtype = NVFP4,
) -> _Call:
    """The call of gated_gemm: its nine operands, then the options by name."""
    name = _output_name(out_dtype)
    return _Call(*operands, scale_c, name, weights, False, limit, alpha, beta, sfa_layout, sfb_layout)


def _of_plain(
    a: torch.Tensor,
    b: torch.Tensor,
    sfa: torch.Tensor | None,
    sfb: torch.Tensor,
    scale: torch.Tensor | None,
    token_scale: torch.Tensor | None,
    *,
    sfa_layout: str | None = None,
    sfb_layout: str | None = None,
    scale_c: torch.Tensor | None = None,
    out_dtype: str | torch.dtype = NVFP4,
) -> _Call:
    """The call of plain_gemm: its operands, then the options by name."""
    operands = (a, b, None, sfa, sfb, None, scale, None, token_scale, scale_c)
    return _Call(*operands, _output_name(out_dtype), "apart", True, 0.0, 0.0, 0.0, sfa_layout, sfb_layout)


_GATED_NAMES = ("a", "b1", "b2", "sfa", "sfb1", "sfb2", "scale_gate", "scale_up", "token_scale")
_GATED_OPTIONS = ("weights", "limit", "alpha", "beta", "sfa_layout", "sfb_layout")
_PLAIN_NAMES = ("a", "b", "sfa", "sfb", "scale", "token_scale")


def _register(name: str, of: Callable[..., _Call], operands: tuple[str, ...], options: tuple[str, ...]) -> None:
    """Registers an operator with an output of 16 bits, and its overload .nvfp4, by functions of a _Call."""
    for overload, output in (("", "out_dtype"), (".nvfp4", "scale_c")):
        order = (*operands, output, *options)

        def wrapped(
            compute: Callable[[_Call], tuple[torch.Tensor, torch.Tensor]],
            order: tuple[str, ...] = order,
            both: bool = bool(overload),
        ) -> Callable[..., object]:
            def implementation(*given: object, **named: object) -> object:
                arguments = dict(zip(order, given, strict=False)) | named
                found = compute(of(*[arguments.pop(one) for one in operands], **arguments))
                return found if both else found[0]

            return implementation

        register(name + overload, wrapped(_fake), wrapped(_run))


_register("gated_gemm", _of_gated, _GATED_NAMES, _GATED_OPTIONS)
_register("plain_gemm", _of_plain, _PLAIN_NAMES, ("sfa_layout", "sfb_layout"))
_gated, _gated_nvfp4 = torch.ops.nvfp4_gemm.gated_gemm.default, torch.ops.nvfp4_gemm.gated_gemm.nvfp4
_plain, _plain_nvfp4 = torch.ops.nvfp4_gemm.plain_gemm.default, torch.ops.nvfp4_gemm.plain_gemm.nvfp4


def _refuse_output(out_dtype: str | torch.dtype, scale_c: object) -> None:
    """Raises ValueError for an output that is no format, or that has no scale."""
    if _output_name(out_dtype) not in _OUTPUTS:
        raise ValueError(f"out_dtype is {out_dtype!r}; expected one of {', '.join(_OUTPUTS)}")
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

    a (M, K/2), b1 and b2 (N, K/2): float4_e2m1fn_x2 or uint8, two e2m1 values per byte, the first in the low half.
    sfa, sfb1, sfb2: float8_e4m3fn or uint8, one scale factor for 16 elements of K.
    Or a (M, K) float16 or bfloat16, and sfa None: on the CPU and on Hopper.
    weights: "apart", or the order of gate's and up's rows in one tensor b1 of 2 N rows (b2 and sfb2 are None):
    "stacked", all of gate and then all of up; "interleaved8", "interleaved32", "interleaved64", that many of each in
    turn.
    scale_gate, scale_up, scale_c: a tensor of one float32 number, or a Python number; token_scale: M float32 numbers.
    None is 1.  scale_c must be positive.

    scale_layout: "linear", scale factors row by row, (rows, K/16); "swizzled128x4", blocks of 128 rows x 4 groups, as
    (ceil(rows/128) * 128, K/16), flat, or as the view (32, 4, ceil(rows/128), 4, K/64) that swizzle_scales() returns;
    "swizzled8x4", blocks of 8 rows; or a pair of these, for sfa and for b's.  None: five dimensions are
    "swizzled128x4"; two are "linear", but refused if the rows are a multiple of 128, because then both layouts fit.
    Different layouts for sfa and b's cost a copy of sfa.

    Returns c (M, N) in out_dtype: "float16", "bfloat16", or their torch.dtype.  For "nvfp4", returns codes (M, N/2)
    uint8 and scale factors float8_e4m3fn, the latter (M, N/16) if b's are linear or swizzled8x4, else the view of five
    dimensions: they are a and sfa of the next product, whose scale then includes 1 / scale_c.

    M may be 0.  K is a multiple of 16, fastest of 64: for others each call copies the operands with zeros after each
    row.  N, for NVFP4 output, is a multiple of 64.  All tensors are packed without gaps, 16-byte aligned
    (the float32 ones 4-byte aligned), on one device, CPU or CUDA; the kernel runs on the device's current queue.  There
    is no gradient.  struct custom_kernel_extended_args in custom_kernel.h has the arithmetic, operation by operation.

    Raises RuntimeError or ValueError, naming the argument.
    """
    if isinstance(scale_gate, (int, float)):
        scale_gate = _number(scale_gate, a)
    if isinstance(scale_up, (int, float)):
        scale_up = _number(scale_up, a)
    of_a, of_b = (scale_layout, scale_layout) if scale_layout in _KNOWN else layout_pair(scale_layout)
    if out_dtype == NVFP4:
        c, sfc = _gated_nvfp4(
            a, b1, b2, sfa, sfb1, sfb2, scale_gate, scale_up, token_scale, _number(scale_c, a), weights, limit, alpha,
            beta, of_a, of_b,
        )  # fmt: skip
        return c, sfc.view(torch.float8_e4m3fn)
    dtype = _WRITTEN.get(out_dtype)
    if dtype is None or scale_c is not None:
        _refuse_output(out_dtype, scale_c)
    return _gated(
        a, b1, b2, sfa, sfb1, sfb2, scale_gate, scale_up, token_scale, dtype, weights, limit, alpha, beta, of_a, of_b
    )


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

    a (M, K/2), b (N, K/2): float4_e2m1fn_x2 or uint8, two e2m1 values per byte, the first in the low half.
    sfa, sfb: float8_e4m3fn or uint8, one scale factor for 16 elements of K.
    Or a (M, K) float16 or bfloat16, and sfa None: on the CPU and on Hopper.
    scale, scale_c: a tensor of one float32 number, or a Python number; token_scale: M float32 numbers.  None is 1.
    scale_c must be positive.

    scale_layout: "linear", scale factors row by row, (rows, K/16); "swizzled128x4", blocks of 128 rows x 4 groups, as
    (ceil(rows/128) * 128, K/16), flat, or as the view (32, 4, ceil(rows/128), 4, K/64) that swizzle_scales() returns;
    "swizzled8x4", blocks of 8 rows; or a pair of these, for sfa and for sfb.  None: five dimensions are
    "swizzled128x4"; two are "linear", but refused if the rows are a multiple of 128, because then both layouts fit.
    Different layouts for sfa and sfb cost a copy of sfa.

    Returns c (M, N) in out_dtype: "float16", "bfloat16", or their torch.dtype.  For "nvfp4", returns codes (M, N/2)
    uint8, which times their scale factors are c * scale_c, and these scale factors, float8_e4m3fn: (M, N/16) if sfb is
    linear or swizzled8x4, else the view of five dimensions.

    M may be 0.  K is a multiple of 16, fastest of 64: for others each call copies the operands with zeros after each
    row.  N, for NVFP4 output, is a multiple of 64.  All tensors are packed without gaps, 16-byte aligned
    (the float32 ones 4-byte aligned), on one device, CPU or CUDA; the kernel runs on the device's current queue.  There
    is no gradient.

    Raises RuntimeError or ValueError, naming the argument.
    """
    if isinstance(scale, (int, float)):
        scale = _number(scale, a)
    of_a, of_b = (scale_layout, scale_layout) if scale_layout in _KNOWN else layout_pair(scale_layout)
    if out_dtype == NVFP4:
        c, sfc = _plain_nvfp4(a, b, sfa, sfb, scale, token_scale, _number(scale_c, a), of_a, of_b)
        return c, sfc.view(torch.float8_e4m3fn)
    dtype = _WRITTEN.get(out_dtype)
    if dtype is None or scale_c is not None:
        _refuse_output(out_dtype, scale_c)
    return _plain(a, b, sfa, sfb, scale, token_scale, dtype, of_a, of_b)
