"""The products of a mixture of experts as operators of PyTorch: the weights of all experts in one tensor, tokens sorted
by expert or padded, and their numbers on the device.

grouped_gated_gemm() and grouped_plain_gemm() below call torch.ops.nvfp4_gemm.experts and document the arguments.
struct custom_kernel_experts_args in submission/custom_kernel.h defines the arithmetic.
"""

from __future__ import annotations

import ctypes
import struct
from collections.abc import Callable
from typing import NamedTuple

import torch

from . import submission
from .extended_operator import _DTYPES, _OUTPUTS, _WEIGHTS, FP16, NVFP4, _output_name
from .scale_layouts import (
    LINEAR,
    SWIZZLED,
    SWIZZLED_8X4,
    Factors,
    ScaleLayout,
    layout_pair,
    resolve,
    swizzle_scales,
)
from .torch_operator import CODE_DTYPES, NAMESPACE, SCALE_DTYPES, current_queue, require

_COUNTED, _ENDED, _PADDED = 0, 1, 2  # enum custom_kernel_tokens
_LAYOUTS = {SWIZZLED: 0, LINEAR: 1}  # enum custom_kernel_scale_layout
_GROUP, _K_MULTIPLE = 16, 64
_MOST_EXPERTS = 1024

# struct custom_kernel_experts_args: struct_bytes, backend, device, scale_layout; experts, rows, n, k; a, b1, b2, sfa,
# sfb1, sfb2, c, queue, counts; tokens, sfa_layout, activation, weights, output, reserved; scale_gate, scale_up,
# token_scale, scale_c, sfc; limit, alpha, beta, reserved_float.
_ARGS = struct.Struct("@Iiiiqqqq9QiiiiiI5Qffff")


def _lacking(arguments: bytes) -> int:
    """Stands in for the function if the library is older."""
    raise RuntimeError(f"{submission._library._name} has no products of experts; expected ABI version 1.5 or later")


_call: Callable[[bytes], int] = getattr(submission._library, "custom_kernel_experts", _lacking)
_call.argtypes = (ctypes.c_char_p,)
_call.restype = ctypes.c_int32


class _Call(NamedTuple):
    """The arguments of the operator, in the order of its schema."""

    a: torch.Tensor
    b1: torch.Tensor
    b2: torch.Tensor | None
    sfa: torch.Tensor
    sfb1: torch.Tensor
    sfb2: torch.Tensor | None
    counts: torch.Tensor
    ends: bool
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
        return self.b1.shape[1] if self.weights == "apart" else self.b1.shape[1] // 2

    @property
    def padded(self) -> bool:
        """Whether each expert has its own rows of a."""
        return self.a.dim() == 3

    def named(self, name: str) -> str:
        """The name that a caller of grouped_gated_gemm() or grouped_plain_gemm() has for an argument."""
        if name == "counts" and self.ends:
            return "offsets"
        return {"b1": "b", "sfb1": "sfb", "scale_gate": "scale"}.get(name, name) if self.plain else name


_SCHEMA = (
    "experts(Tensor a, Tensor b1, Tensor? b2, Tensor sfa, Tensor sfb1, Tensor? sfb2, Tensor counts, bool ends, "
    "Tensor? scale_gate, Tensor? scale_up, Tensor? token_scale, Tensor? scale_c, str out_dtype, str weights, "
    "bool plain, float limit, float alpha, float beta, str? sfa_layout=None, str? sfb_layout=None) -> (Tensor, Tensor)"
)


def _check_tensor(
    name: str, tensor: torch.Tensor, dtypes: tuple[torch.dtype, ...], shape: tuple[int, ...], device: torch.device
) -> None:
    """Requires one of the dtypes, this shape and device, and rows without gaps; the tensor may be a fake one."""
    require(
        tensor.dtype in dtypes, lambda: f"{name} has dtype {tensor.dtype}; expected {' or '.join(map(str, dtypes))}"
    )
    require(tensor.dim() == len(shape), lambda: f"{name} has shape {tuple(tensor.shape)}; expected {tuple(shape)}")
    for found, want in zip(tensor.shape, shape, strict=True):
        require(found == want, lambda: f"{name} has shape {tuple(tensor.shape)}; expected {tuple(shape)}")
    require(tensor.is_contiguous(), lambda: f"{name} has strides {tensor.stride()}; expected rows without gaps")
    require(tensor.device == device, lambda: f"{name} is on {tensor.device}; expected {device}, as a")


def _check_scales(call: _Call, name: str, tensor: torch.Tensor, rows: int, batched: bool, layout: str | None) -> str:
    """Checks scale factors, those of each expert if `batched`, and returns their layout."""
    name, groups = call.named(name), 2 * call.a.shape[-1] // _GROUP
    if batched:
        require(
            tensor.dim() == 3,
            lambda: f"{name} has shape {tuple(tensor.shape)}; expected three dimensions, experts first",
        )
    require(
        layout != SWIZZLED_8X4, lambda: f"{name} has layout {layout!r}; expected {LINEAR!r} or {SWIZZLED!r} for experts"
    )
    layout, shape = resolve(require, Factors(name, tensor[0] if batched else tensor, rows, groups, layout))
    if len(shape) > 2:  # the view of five dimensions, of memory without gaps
        order = (2, 4, 0, 1, 3)
        tensor, shape = tensor.permute(order), tuple(shape[i] for i in order)
    experts = (call.b1.shape[0],) if batched else ()
    _check_tensor(name, tensor, SCALE_DTYPES, (*experts, *shape), call.a.device)
    return layout


def _check_number(call: _Call, name: str, number: torch.Tensor | None, shape: tuple[int, ...]) -> None:
    if number is not None:
        _check_tensor(call.named(name), number, (torch.float32,), shape, call.a.device)


def _check(call: _Call) -> tuple[str, str]:
    """Checks everything but the memory; works on fake tensors with symbolic sizes too.

    Returns the layouts of sfa and of b's scale factors.
    """
    a, b1 = call.a, call.b1
    require(
        call.out_dtype in _OUTPUTS, lambda: f"out_dtype is {call.out_dtype!r}; expected one of {', '.join(_OUTPUTS)}"
    )
    require(call.weights in _WEIGHTS, lambda: f"weights is {call.weights!r}; expected one of {', '.join(_WEIGHTS)}")
    require(
        a.dim() in (2, 3), lambda: f"a has shape {tuple(a.shape)}; expected (T, K/2), or (E, capacity, K/2) with counts"
    )
    name = call.named("b1")
    require(b1.dim() == 3, lambda: f"{name} has shape {tuple(b1.shape)}; expected (E, rows, K/2)")
    experts, b_rows, half_k = b1.shape[0], b1.shape[1], a.shape[-1]
    require(1 <= experts <= _MOST_EXPERTS, lambda: f"{name} has {experts} experts; expected 1 to {_MOST_EXPERTS}")
    require(half_k * 2 % _K_MULTIPLE == 0, lambda: f"a has K = {2 * half_k}; expected a multiple of {_K_MULTIPLE}")
    joint = call.weights != "apart"
    require(not (joint and b_rows % 2), lambda: f"b1 has {b_rows} rows; expected an even number of {call.weights} ones")
    require(not (call.ends and call.padded), lambda: "offsets are given; expected counts, as a is padded")
    alone = call.plain or joint
    for name, tensor in (("b2", call.b2), ("sfb2", call.sfb2)):
        wanted = "is given; expected it only where gate and up lie apart" if alone else "is None; expected it beside b1"
        require((tensor is None) == alone, lambda name=name, wanted=wanted: f"{name} {wanted}")
    places = (experts,) if call.padded else ()
    rows = a.shape[-2]
    _check_tensor("a", a, CODE_DTYPES, (*places, rows, half_k), a.device)
    _check_tensor(call.named("b1"), b1, CODE_DTYPES, (experts, b_rows, half_k), a.device)
    if call.b2 is not None:
        _check_tensor("b2", call.b2, CODE_DTYPES, (experts, b_rows, half_k), a.device)
    sfa_layout = _check_scales(call, "sfa", call.sfa, rows, call.padded, call.sfa_layout)
    sfb_layout = _check_scales(call, "sfb1", call.sfb1, b_rows, True, call.sfb_layout)
    if call.sfb2 is not None:
        second = _check_scales(call, "sfb2", call.sfb2, b_rows, True, call.sfb_layout)
        require(second == sfb_layout, lambda: f"sfb2 has layout {second!r}; expected {sfb_layout!r}, as sfb1")
    _check_tensor(call.named("counts"), call.counts, (torch.int32,), (experts,), a.device)
    for name in ("scale_gate", "scale_up", "scale_c"):
        _check_number(call, name, getattr(call, name), (experts,))
    _check_number(call, "token_scale", call.token_scale, (*places, rows))
    return sfa_layout, sfb_layout


def _allocate(call: _Call) -> tuple[torch.Tensor, torch.Tensor]:
    """c and its scale factors; the latter are empty unless the output is NVFP4."""
    n, rows, nvfp4 = call.n, call.a.shape[:-1], call.out_dtype == NVFP4
    c = torch.empty((*rows, n // 2 if nvfp4 else n), dtype=_DTYPES[call.out_dtype], device=call.a.device)
    shape = (*rows, n // _GROUP) if nvfp4 else (0, 0)
    return c, torch.empty(shape, dtype=torch.uint8, device=call.a.device)  # opcheck cannot compare e4m3


def _address(tensor: torch.Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()


def _experts(*arguments: object) -> tuple[torch.Tensor, torch.Tensor]:
    call = _Call(*arguments)
    sfa_layout, sfb_layout = _check(call)
    c, sfc = _allocate(call)
    device = call.a.get_device()
    tensors = (call.a, call.b1, call.b2, call.sfa, call.sfb1, call.sfb2, c)
    optional = (call.scale_gate, call.scale_up, call.token_scale, call.scale_c, sfc if sfc.dim() == c.dim() else None)
    status = _call(_ARGS.pack(
        _ARGS.size, 0, device, _LAYOUTS[sfb_layout], call.b1.shape[0], call.a.shape[-2], call.n, 2 * call.a.shape[-1],
        *map(_address, tensors), current_queue(device), _address(call.counts),
        _PADDED if call.padded else _ENDED if call.ends else _COUNTED, _LAYOUTS[sfa_layout], int(call.plain),
        _WEIGHTS[call.weights], _OUTPUTS[call.out_dtype], 0,
        *map(_address, optional), call.limit, call.alpha, call.beta, 0.0,
    ))  # fmt: skip
    if status != 0:
        message = submission._library.custom_kernel_message().decode(errors="replace")
        wrong = status in (submission._STATUS_NULL_POINTER, submission._STATUS_ARGUMENT)
        raise (ValueError if wrong else RuntimeError)(message)
    return c, sfc


def _fake(*arguments: object) -> tuple[torch.Tensor, torch.Tensor]:
    call = _Call(*arguments)
    _check(call)
    return _allocate(call)


def _register() -> torch.library.Library | None:
    """Registers the operator; None if another copy of this package in this process already has."""
    if hasattr(torch.ops.nvfp4_gemm, "experts"):
        return None
    library = torch.library.Library(NAMESPACE, "FRAGMENT")
    library.define(_SCHEMA)
    for key in ("CPU", "CUDA"):
        library.impl("experts", _experts, key)
    torch.library.register_fake(f"{NAMESPACE}::experts", _fake, lib=library)
    return library


_library = _register()


def swizzle_expert_scales(linear: torch.Tensor) -> torch.Tensor:
    """Scale factors of experts' weights (E, rows, K/16) in layout "linear" -> "swizzled128x4", as
    (E, ceil(rows/128) * 128, K/16) in new memory, each expert padded with zeros.  K is a multiple of 64.
    """
    if linear.dim() != 3 or linear.element_size() != 1:
        raise ValueError(
            f"linear has shape {tuple(linear.shape)} and dtype {linear.dtype}; expected (E, rows, K/16) of bytes"
        )
    experts, rows, groups = linear.shape
    padded = (rows + 127) // 128 * 128
    whole = torch.nn.functional.pad(linear.view(torch.uint8), (0, 0, 0, padded - rows)).view(experts * padded, groups)
    memory = swizzle_scales(whole).permute(2, 4, 0, 1, 3)
    return memory.reshape(experts, padded, groups).view(linear.dtype)


def _numbers(value: torch.Tensor | float | None, b: torch.Tensor) -> torch.Tensor | None:
    """One float32 number for each expert, from a tensor of as many or of one, or from a Python number."""
    if isinstance(value, (int, float)):
        return torch.full((b.shape[0],), value, dtype=torch.float32, device=b.device)
    if value is not None and value.dim() < 2 and value.numel() == 1 and b.shape[0] != 1:
        return value.expand(b.shape[0]).contiguous()
    return None if value is None else value.reshape(-1)


def _counts(counts: torch.Tensor | None, offsets: torch.Tensor | None, b: torch.Tensor) -> tuple[torch.Tensor, bool]:
    """The operator's counts or ends, and whether they are ends."""
    if (counts is None) == (offsets is None):
        raise ValueError(
            f"counts and offsets are {'both None' if counts is None else 'both given'}; expected one of them"
        )
    if counts is not None:
        return counts, False
    return (offsets[1:] if offsets.dim() == 1 and offsets.shape[0] == b.shape[0] + 1 else offsets), True


def grouped_gated_gemm(
    a: torch.Tensor,
    b1: torch.Tensor,
    b2: torch.Tensor | None,
    sfa: torch.Tensor,
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
    limit: float = 0.0,
    alpha: float = 1.0,
    beta: float = 0.0,
    scale_layout: ScaleLayout = None,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """gate * sigmoid(alpha * gate) * (up + beta) of each token with its expert's weights, where

        gate = (a @ b1[e]^T) * (scale_gate[e] * token_scale),  up = (a @ b2[e]^T) * (scale_up[e] * token_scale)

    and, if limit > 0, gate is at most limit and up between -limit and limit.  E experts, at most 1,024.

    a: float4_e2m1fn_x2 or uint8, two e2m1 values per byte, the first in the low half; the tokens sorted by expert
    (T, K/2), or padded (E, capacity, K/2).
    b1, b2 (E, N, K/2): the weights, as a.
    sfa, sfb1, sfb2: float8_e4m3fn or uint8, one scale factor for 16 elements of K.
    counts (E): int32, the number of tokens of each expert; of padded tokens, those at the start of its place.
    offsets: int32, instead of counts for sorted tokens: the end of each expert's tokens (E), as torch._grouped_mm has
    them, or 0 and then these (E + 1).
    weights: "apart", or the order of gate's and up's rows in one tensor b1 (E, 2 N, K/2), b2 and sfb2 being None:
    "stacked", all of gate and then all of up; "interleaved8", "interleaved32", "interleaved64", that many of each in
    turn.
    scale_gate, scale_up, scale_c: E float32 numbers, or one for all experts; token_scale: a float32 number for each
    token.  None is 1.  scale_c must be positive.

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

    K is a multiple of 64; N, for NVFP4 output, too.  All tensors are packed without gaps, 16-byte aligned (counts and
    numbers 4-byte aligned), on one device, CPU or CUDA; the kernel runs on the device's current queue.  There is no
    gradient.

    Raises RuntimeError or ValueError, naming the argument.
    """
    out_dtype = _output_name(out_dtype)
    c, sfc = torch.ops.nvfp4_gemm.experts(
        a, b1, b2, sfa, sfb1, sfb2, *_counts(counts, offsets, b1), _numbers(scale_gate, b1), _numbers(scale_up, b1),
        token_scale, _numbers(scale_c, b1), out_dtype, weights, False, limit, alpha, beta, *layout_pair(scale_layout),
    )  # fmt: skip
    return (c, sfc.view(torch.float8_e4m3fn)) if out_dtype == NVFP4 else c


def grouped_plain_gemm(
    a: torch.Tensor,
    b: torch.Tensor,
    sfa: torch.Tensor,
    sfb: torch.Tensor,
    *,
    counts: torch.Tensor | None = None,
    offsets: torch.Tensor | None = None,
    scale: torch.Tensor | float | None = None,
    token_scale: torch.Tensor | None = None,
    scale_c: torch.Tensor | float | None = None,
    out_dtype: str | torch.dtype = FP16,
    scale_layout: ScaleLayout = None,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """(a @ b[e]^T) * (scale[e] * token_scale) of each token with its expert's weights b (E, N, K/2).

    token_scale can hold the router's weights.  All other arguments, and the result, are those of grouped_gated_gemm().
    """
    out_dtype = _output_name(out_dtype)
    c, sfc = torch.ops.nvfp4_gemm.experts(
        a, b, None, sfa, sfb, None, *_counts(counts, offsets, b), _numbers(scale, b), None, token_scale,
        _numbers(scale_c, b), out_dtype, "apart", True, 0.0, 0.0, 0.0, *layout_pair(scale_layout),
    )  # fmt: skip
    return (c, sfc.view(torch.float8_e4m3fn)) if out_dtype == NVFP4 else c
