"""The extended GEMM as operators of PyTorch: scales of tensors and tokens, bf16 and NVFP4 output, parameters of the
activation, weights in one tensor, and a plain product for a model's down projection.

    gated_gemm(a, b1, b2, sfa, sfb1, sfb2, ...)     c = gate * sigmoid(alpha * gate) * (up + beta)
    plain_gemm(a, b, sfa, sfb, ...)                 c = (a @ b^T) * (scale * token_scale)

struct custom_kernel_extended_args in submission/custom_kernel.h defines the arithmetic.  Shapes:
  a (M, K/2); b1, b2 (N, K/2), or b1 (2 N, K/2) alone     float4_e2m1fn_x2 or uint8, two e2m1 values a byte
  sfa, sfb1, sfb2                                         float8_e4m3fn or uint8, of as many rows, either (rows, K/16),
      or in blocks of 128 rows, (32, 4, ceil(rows/128), 4, K/64) over memory (rows/128, K/64, 32, 4, 4)
  scale_gate, scale_up, scale_c                           one float32; token_scale: M of them
The output is c (M, N) float16 or bfloat16; or with out_dtype "nvfp4" the pair of codes (M, N/2) uint8 and scale factors
of M rows of N/16, float8_e4m3fn, by rows or in blocks as the inputs' are: the next product's a and sfa, whose scale is
then 1 / scale_c.  `weights`: "apart", "stacked", or "interleaved8", "interleaved32", "interleaved64" for one tensor of
2 N rows.  All on one device, packed without gaps, 16-byte aligned, K a multiple of 64.  Neither has a gradient.
"""

from __future__ import annotations

import ctypes
import struct

import torch

from . import submission
from .torch_operator import NAMESPACE, current_queue

FP16, BF16, NVFP4 = "float16", "bfloat16", "nvfp4"
_OUTPUTS = {FP16: 0, BF16: 1, NVFP4: 2}  # enum custom_kernel_output
_DTYPES = {FP16: torch.float16, BF16: torch.bfloat16, NVFP4: torch.uint8}
_WEIGHTS = {"apart": 0, "stacked": 1, "interleaved8": 8, "interleaved32": 32, "interleaved64": 64}
_GATED, _PLAIN = 0, 1  # enum custom_kernel_activation
_GROUP, _K_MULTIPLE, _TILE_ROWS = 16, 64, 128
_FP4, _E4M3 = (torch.float4_e2m1fn_x2, torch.uint8), (torch.float8_e4m3fn, torch.uint8)
_ROWS_DIMENSIONS, _BLOCKED_DIMENSIONS = 2, 5

# struct custom_kernel_extended_args: struct_bytes, backend, device, scale_layout; m, n, k, l; a, b1, b2, sfa, sfb1,
# sfb2, c, queue; activation, weights, output, reserved; scale_gate, scale_up, token_scale, scale_c, sfc; limit, alpha,
# beta, reserved_float.
_ARGS = struct.Struct("@Iiiiqqqq8QiiiI5Qffff")


def _lacking(arguments: bytes) -> int:
    """Stands in for the function if the library is older."""
    raise RuntimeError(f"{submission._library._name} has no extended GEMM; expected ABI version 1.4 or later")


_call = getattr(submission._library, "custom_kernel_extended", _lacking)
_call.argtypes = (ctypes.c_char_p,)
_call.restype = ctypes.c_int32


def _require(condition: object, text: str) -> None:
    torch._check(condition, lambda: f"{NAMESPACE}: {text}")


def _blocked_shape(rows: int, groups: int) -> tuple[int, ...]:
    return (32, 4, (rows + _TILE_ROWS - 1) // _TILE_ROWS, 4, groups // 4)


def _check_tensor(name: str, tensor: torch.Tensor, kinds: tuple[torch.dtype, ...], shape: tuple[int, ...],
                  device: torch.device) -> None:  # fmt: skip
    _require(tensor.dtype in kinds, f"{name} has dtype {tensor.dtype}; expected {' or '.join(map(str, kinds))}")
    _require(tensor.dim() == len(shape), f"{name} has {tensor.dim()} dimensions; expected shape {tuple(shape)}")
    for place, (found, want) in enumerate(zip(tensor.shape, shape, strict=True)):
        _require(found == want, f"{name} has {found} at dimension {place}; expected {want}")
    memory = tensor.permute(2, 4, 0, 1, 3) if len(shape) == _BLOCKED_DIMENSIONS else tensor
    _require(memory.is_contiguous(), f"{name} has strides {tensor.stride()}; expected memory without gaps")
    _require(tensor.device == device, f"{name} is on {tensor.device}; expected {device}, as a")


def _check(a: torch.Tensor, b1: torch.Tensor, b2: torch.Tensor | None, sfa: torch.Tensor, sfb1: torch.Tensor,
           sfb2: torch.Tensor | None, numbers: dict[str, torch.Tensor | None], out_dtype: str, weights: str,
           plain: bool) -> None:  # fmt: skip
    """Checks everything but the memory; works on fake tensors with symbolic sizes too."""
    _require(out_dtype in _OUTPUTS, f"out_dtype is {out_dtype!r}; expected one of {', '.join(_OUTPUTS)}")
    _require(weights in _WEIGHTS, f"weights is {weights!r}; expected one of {', '.join(_WEIGHTS)}")
    _require(a.dim() == 2, f"a has {a.dim()} dimensions; expected (M, K/2)")
    _require(b1.dim() == 2, f"b1 has {b1.dim()} dimensions; expected (rows, K/2)")
    joint, half_k = weights != "apart", a.shape[1]
    _require(half_k * 2 % _K_MULTIPLE == 0, f"K is {2 * half_k}; expected a multiple of {_K_MULTIPLE}")
    _require(not (joint and b1.shape[0] % 2), f"b1 has {b1.shape[0]} rows; expected an even number of {weights} ones")
    alone = plain or joint
    for name, tensor in (("b2", b2), ("sfb2", sfb2)):
        _require((tensor is None) == alone, f"{name} is {'given' if alone else 'None'}; expected it "
                 f"{'only where gate and up lie apart' if alone else 'beside b1'}")  # fmt: skip
    blocked = sfa.dim() == _BLOCKED_DIMENSIONS
    for name, codes, factor_name, factors in (("a", a, "sfa", sfa), ("b1", b1, "sfb1", sfb1), ("b2", b2, "sfb2", sfb2)):
        if codes is None:
            continue
        rows = (b1 if name == "b2" else codes).shape[0]
        groups = 2 * half_k // _GROUP
        _check_tensor(name, codes, _FP4, (rows, half_k), a.device)
        shape = _blocked_shape(rows, groups) if blocked else (rows, groups)
        _check_tensor(factor_name, factors, _E4M3, shape, a.device)
    for name, number in numbers.items():
        if number is None:
            continue
        count = a.shape[0] if name == "token_scale" else 1
        _require(number.dtype == torch.float32, f"{name} has dtype {number.dtype}; expected torch.float32")
        _require(number.numel() == count, f"{name} has {number.numel()} numbers; expected {count}")
        _require(number.is_contiguous(), f"{name} has strides {number.stride()}; expected numbers without gaps")
        _require(number.device == a.device, f"{name} is on {number.device}; expected {a.device}, as a")


def _allocate(
    a: torch.Tensor, b1: torch.Tensor, blocked: bool, out_dtype: str, weights: str
) -> tuple[torch.Tensor, torch.Tensor]:
    """c and its scale factors; the latter are empty unless the output is NVFP4."""
    m, n = a.shape[0], b1.shape[0] if weights == "apart" else b1.shape[0] // 2
    nvfp4 = out_dtype == NVFP4
    c = torch.empty((m, n // 2 if nvfp4 else n), dtype=_DTYPES[out_dtype], device=a.device)
    kind = {"dtype": torch.uint8, "device": a.device}  # torch.library.opcheck cannot compare e4m3
    if not nvfp4:
        return c, torch.empty((0, 0), **kind)
    if not blocked:
        return c, torch.empty((m, n // _GROUP), **kind)
    tiles, tiles_k = (m + _TILE_ROWS - 1) // _TILE_ROWS, n // _K_MULTIPLE
    return c, torch.empty((tiles, tiles_k, 32, 4, 4), **kind).permute(2, 3, 0, 4, 1)


def _address(tensor: torch.Tensor | None) -> int:
    return 0 if tensor is None else tensor.data_ptr()


def _extended(
    a: torch.Tensor,
    b1: torch.Tensor,
    b2: torch.Tensor | None,
    sfa: torch.Tensor,
    sfb1: torch.Tensor,
    sfb2: torch.Tensor | None,
    scale_gate: torch.Tensor | None,
    scale_up: torch.Tensor | None,
    token_scale: torch.Tensor | None,
    scale_c: torch.Tensor | None,
    out_dtype: str,
    weights: str,
    plain: bool,
    limit: float,
    alpha: float,
    beta: float,
) -> tuple[torch.Tensor, torch.Tensor]:
    numbers = {"scale_gate": scale_gate, "scale_up": scale_up, "token_scale": token_scale, "scale_c": scale_c}
    _check(a, b1, b2, sfa, sfb1, sfb2, numbers, out_dtype, weights, plain)
    blocked = sfa.dim() == _BLOCKED_DIMENSIONS
    c, sfc = _allocate(a, b1, blocked, out_dtype, weights)
    device = a.get_device()
    pointers = (_address(tensor) for tensor in (a, b1, b2, sfa, sfb1, sfb2, c))
    optional = (_address(tensor) for tensor in (*numbers.values(), sfc if out_dtype == NVFP4 else None))
    n = b1.shape[0] if weights == "apart" else b1.shape[0] // 2
    status = _call(_ARGS.pack(
        _ARGS.size, 0, device, 0 if blocked else 1, a.shape[0], n, 2 * a.shape[1], 1, *pointers, current_queue(device),
        _PLAIN if plain else _GATED, _WEIGHTS[weights], _OUTPUTS[out_dtype], 0, *optional, limit, alpha, beta, 0.0,
    ))  # fmt: skip
    if status != 0:
        message = submission._library.custom_kernel_message().decode(errors="replace")
        wrong = status in (submission._STATUS_NULL_POINTER, submission._STATUS_ARGUMENT)
        raise (ValueError if wrong else RuntimeError)(message)
    return c, sfc


def _fake(*tensors_and_options: object) -> tuple[torch.Tensor, torch.Tensor]:
    a, b1, b2, sfa, sfb1, sfb2, scale_gate, scale_up, token_scale, scale_c, out_dtype, weights, plain, *_ = (
        tensors_and_options
    )
    numbers = {"scale_gate": scale_gate, "scale_up": scale_up, "token_scale": token_scale, "scale_c": scale_c}
    _check(a, b1, b2, sfa, sfb1, sfb2, numbers, out_dtype, weights, plain)
    return _allocate(a, b1, sfa.dim() == _BLOCKED_DIMENSIONS, out_dtype, weights)


_SCHEMA = (
    "extended(Tensor a, Tensor b1, Tensor? b2, Tensor sfa, Tensor sfb1, Tensor? sfb2, Tensor? scale_gate, "
    "Tensor? scale_up, Tensor? token_scale, Tensor? scale_c, str out_dtype, str weights, bool plain, float limit, "
    "float alpha, float beta) -> (Tensor, Tensor)"
)


def _register() -> torch.library.Library | None:
    """Registers the operator; None if another copy of this package in this process already has."""
    if hasattr(torch.ops.nvfp4_gemm, "extended"):
        return None
    library = torch.library.Library(NAMESPACE, "FRAGMENT")
    library.define(_SCHEMA)
    for key in ("CPU", "CUDA"):
        library.impl("extended", _extended, key)
    torch.library.register_fake(f"{NAMESPACE}::extended", _fake, lib=library)
    return library


_library = _register()


def gated_gemm(
    a: torch.Tensor,
    b1: torch.Tensor,
    b2: torch.Tensor | None,
    sfa: torch.Tensor,
    sfb1: torch.Tensor,
    sfb2: torch.Tensor | None,
    *,
    scale_gate: torch.Tensor | None = None,
    scale_up: torch.Tensor | None = None,
    token_scale: torch.Tensor | None = None,
    scale_c: torch.Tensor | None = None,
    out_dtype: str = FP16,
    weights: str = "apart",
    limit: float = 0.0,
    alpha: float = 1.0,
    beta: float = 0.0,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """gate * sigmoid(alpha * gate) * (up + beta) as a new tensor, or of NVFP4 the pair of it and its scale factors.

    limit: 0 for none, else gate is at most it and up within its negative and it.  Shapes as at the file's top.
    Raises RuntimeError or ValueError, naming the argument.
    """
    c, sfc = torch.ops.nvfp4_gemm.extended(
        a, b1, b2, sfa, sfb1, sfb2, scale_gate, scale_up, token_scale, scale_c, out_dtype, weights, False, limit,
        alpha, beta,
    )  # fmt: skip
    return (c, sfc.view(torch.float8_e4m3fn)) if out_dtype == NVFP4 else c


def plain_gemm(
    a: torch.Tensor,
    b: torch.Tensor,
    sfa: torch.Tensor,
    sfb: torch.Tensor,
    *,
    scale: torch.Tensor | None = None,
    token_scale: torch.Tensor | None = None,
    scale_c: torch.Tensor | None = None,
    out_dtype: str = FP16,
) -> torch.Tensor | tuple[torch.Tensor, torch.Tensor]:
    """(a @ b^T) * (scale * token_scale) as gated_gemm() gives its result."""
    c, sfc = torch.ops.nvfp4_gemm.extended(
        a, b, None, sfa, sfb, None, scale, None, token_scale, scale_c, out_dtype, "apart", True, 0.0, 0.0, 0.0
    )
    return (c, sfc.view(torch.float8_e4m3fn)) if out_dtype == NVFP4 else c
