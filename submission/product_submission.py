#!POPCORN leaderboard nvfp4_gemm
#!POPCORN gpu B200
"""The leaderboards' GEMM and matrix-vector product in NVFP4, c = a @ b^T, by the C library beside this file.

`custom_kernel(data)` checks the tensors, packs one struct custom_kernel_grouped_args (custom_kernel.h), in which each
batch is a group, and makes one ctypes call, so that all batches run in one launch.  A single row of b changes places
with a: the library reads many rows of its b, and few of its a, fastest.
"""

from __future__ import annotations

import ctypes
import re
import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from typing import NoReturn

import torch

from .submission import (
    _BACKEND_AUTO,
    _FP4,
    _OUTPUT,
    _OUTPUT_BYTES,
    _SCALES_BLOCKED,
    _STATUS_ARGUMENT,
    _STATUS_NULL_POINTER,
    Backend,
    _bytes,
    _check_as_expected,
    _check_is_tensor,
    _check_queue,
    _Expected,
    _library,
    _numbered_backends,
    _rows,
    _scales,
)

# struct custom_kernel_grouped_args: struct_bytes, backend, device, scale_layout; groups, group_bytes, reserved, group,
# queue.  After it, in the same buffer, each struct custom_kernel_group: m, n, k, a, b, sfa, sfb, c.
_ARGS, _GROUP = "IiiiqIIQQ", "qqq5Q"
_ARGS_BYTES, _GROUP_BYTES = struct.calcsize("@" + _ARGS), struct.calcsize("@" + _GROUP)
_MOST_GROUPS = 256  # CUSTOM_KERNEL_MAX_GROUPS
_PADDED_ROWS = 128  # of b, where c has one column
_NAMES = ("a", "b", "sfa_permuted", "sfb_permuted", "c")
_MEMBERS = "a, b, sfa, sfb, sfa_permuted, sfb_permuted, c"


def _lacking(address: int) -> int:
    """Stands in for the function if the library is older."""
    raise RuntimeError(f"{_library._name} has no grouped GEMM; expected ABI version 1.2 or later")


_call = getattr(_library, "custom_kernel_grouped", _lacking)
_call.argtypes = (ctypes.c_void_p,)
_call.restype = ctypes.c_int32


def backends() -> list[Backend]:
    """All backends that the library knows, in the order of automatic choice."""
    return list(_numbered_backends().values())


@lru_cache(maxsize=_MOST_GROUPS)
def _packing(groups: int) -> tuple[Callable[..., None], type[ctypes.Array]]:
    """The function that packs a call's structs, and the type of its buffer.  Each call makes a buffer of its own."""
    return struct.Struct("@" + _ARGS + groups * _GROUP).pack_into, ctypes.c_char * (_ARGS_BYTES + groups * _GROUP_BYTES)


def _expected(m: int, n: int, b_rows: int, half_k: int, batches: int) -> tuple[_Expected, ...]:
    """Required form of the five tensors of a problem, in the order of _NAMES."""
    return (
        _rows(_NAMES[0], _FP4, m, half_k, batches),
        _rows(_NAMES[1], _FP4, b_rows, half_k, batches),
        _scales(_NAMES[2], m, half_k, batches, True),
        _scales(_NAMES[3], b_rows, half_k, batches, True),
        _rows(_NAMES[4], _OUTPUT, m, n, batches),
    )


def _are_sizes(n: int, b_rows: int, half_k: int) -> bool:
    """True if b may have so many rows for c's N columns, and K is a multiple of 64."""
    return half_k > 0 and half_k % 32 == 0 and n > 0 and (b_rows == n or (n == 1 and b_rows == _PADDED_ROWS))


@lru_cache(maxsize=256)
def _expected_metadata(
    m: int, n: int, b_rows: int, half_k: int, batches: int, device: int
) -> tuple[tuple[object, ...], tuple[int, ...]]:
    """The metadata that custom_kernel() compares, for five right tensors, and the bytes of each tensor.

    Both are empty if the sizes are wrong.
    """
    if not _are_sizes(n, b_rows, half_k):
        return (), ()
    tensors = _expected(m, n, b_rows, half_k, batches)
    # Strides count only where there is more than one row, value or batch, so they are compared for those alone.
    strides = [_compared(tensor.shape, tensor.strides) for tensor in tensors]
    shapes, dtypes = [tensor.shape for tensor in tensors], [tensor.dtype for tensor in tensors]
    return (*shapes, *strides, *dtypes, *[device] * len(tensors)), tuple(map(_bytes, tensors))


def _compared(shape: Sequence[int], strides: Sequence[int]) -> tuple[int, ...]:
    return tuple(stride for size, stride in zip(shape, strides, strict=True) if size > 1)


def _unpack(data: Sequence[torch.Tensor]) -> tuple[torch.Tensor, ...]:
    """The five tensors that the kernel reads and writes, in the order of _NAMES."""
    try:
        count = len(data)
    except TypeError:
        raise TypeError(f"data is a {type(data).__name__}; expected a tuple of tensors") from None
    if count != 7:
        raise ValueError(f"data has {count} tensors; expected 7 ({_MEMBERS})")
    return data[0], data[1], data[4], data[5], data[6]


def _check(tensors: tuple[torch.Tensor, ...]) -> None:
    """Checks each tensor and raises the exception that names the first wrong one: custom_kernel()'s test, in detail."""
    for name, tensor in zip(_NAMES, tensors, strict=True):
        _check_is_tensor(name, tensor)
    a, b, c = tensors[0], tensors[1], tensors[4]
    for name, tensor in (("a", a), ("b", b), ("c", c)):
        if tensor.ndim != 3:
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}; expected three dimensions")
        if 0 in tensor.shape[1:]:
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}; expected no empty dimension but M")
    m, n, batches = c.shape
    half_k, b_rows = a.shape[1], b.shape[0]
    if half_k % 32 != 0:
        raise ValueError(f"a has shape {tuple(a.shape)}, K = {2 * half_k}; expected a multiple of 64")
    if not _are_sizes(n, b_rows, half_k):
        wanted = f"1 row, or {_PADDED_ROWS} of which the first counts," if n == 1 else f"{n} rows,"
        raise ValueError(f"b has shape {tuple(b.shape)}; expected {wanted} for c of shape {tuple(c.shape)}")
    sizes = f"M = {m}, N = {n}, K = {2 * half_k}, L = {batches}"
    for expected, tensor in zip(_expected(m, n, b_rows, half_k, batches), tensors, strict=True):
        _check_as_expected(expected, tensor, c, sizes)


# Set by the package, as in submission.py.
_is_plain: Callable[[tuple[torch.Tensor, ...], tuple[int, ...]], bool] | None = None
_current_queue: Callable[[int], int] | None = None


def _as_expected(tensors: tuple[torch.Tensor, ...]) -> bool:
    """custom_kernel()'s test of right tensors: one comparison, without a reason."""
    try:
        a, b, _, _, c = tensors
        m, n, batches = c.shape
        expected, sizes = _expected_metadata(m, n, b.shape[0], a.shape[1], batches, c.get_device())
        seen = (
            *[tensor.shape for tensor in tensors],
            *[_compared(tensor.shape, tensor.stride()) for tensor in tensors],
            *[tensor.dtype for tensor in tensors],
            *[tensor.get_device() for tensor in tensors],
        )
        # c is written, so its memory is checked even without the package's _is_plain
        return (
            seen == expected
            and not c.is_neg()
            and c.untyped_storage().nbytes() >= sizes[-1] + _OUTPUT_BYTES * c.storage_offset()
            and (_is_plain is None or _is_plain(tensors, sizes))
        )
    except (AttributeError, IndexError, RuntimeError, TypeError, ValueError):
        return False


def _batches(tensors: tuple[torch.Tensor, ...]) -> list[tuple[int, ...]]:
    """The members of struct custom_kernel_group for each batch."""
    m, n, batches = tensors[4].shape
    half_k, b_rows = tensors[0].shape[1], tensors[1].shape[0]
    steps = [_bytes(one) for one in _expected(m, n, b_rows, half_k, 1)]
    a, b, sfa, sfb, c = (
        range(tensor.data_ptr(), tensor.data_ptr() + batches * step, step) if step else [0] * batches
        for tensor, step in zip(tensors, steps, strict=True)
    )
    swapped = n == 1
    sizes = (n, m, 2 * half_k) if swapped else (m, n, 2 * half_k)
    operands = zip(b, a, sfb, sfa, c, strict=True) if swapped else zip(a, b, sfa, sfb, c, strict=True)
    return [(*sizes, *pointers) for pointers in operands]


def _raise_status(status: int, tensors: tuple[torch.Tensor, ...], first: int) -> NoReturn:
    """Raises the exception for a call that the library refused, whose groups begin with batch number `first`."""
    _check(tensors)  # says more about tensors without memory (torch's meta device)
    names = {"a": "a", "b": "b", "sfa": "sfa_permuted", "sfb": "sfb_permuted", "c": "c", "m": "M", "n": "N", "k": "K"}
    if tensors[4].shape[1] == 1:  # the operands have changed places
        swapped = {"a": "b", "b": "a", "sfa": "sfb", "sfb": "sfa", "m": "n", "n": "m"}
        names = {name: names[swapped.get(name, name)] for name in names}

    def named(found: re.Match[str]) -> str:
        return f"{names.get(found[2], found[2])} of batch {first + int(found[1])}"

    message = re.sub(r"group\[(\d+)\]\.(\w+)", named, _library.custom_kernel_message().decode(errors="replace"))
    raise (ValueError if status in (_STATUS_NULL_POINTER, _STATUS_ARGUMENT) else RuntimeError)(message)


def custom_kernel(data: Sequence[torch.Tensor], queue: int | None = None) -> torch.Tensor:
    """Computes c = a @ b^T for L problems, writes it to c and returns c.

    data: (a, b, sfa, sfb, sfa_permuted, sfb_permuted, c), of which sfa and sfb are not read.

        a           (M, K/2, L)  float4_e2m1fn_x2, two values of K per byte, strides (K/2, 1, M * K/2)
        b           (N, K/2, L)  as a; for N = 1 also (128, K/2, L), of which the first row counts
        *_permuted  (32, 4, ceil(rows/128), 4, K/64, L)  float8_e4m3fn, memory (L, rows/128, K/64, 32, 4, 4)
        c           (M, N, L)  float16, strides (N, 1, M * N)

    M may be 0; K is a multiple of 64.  All tensors are on one device, CPU or CUDA, and 16-byte aligned, as is each
    batch of c; c overlaps no other.
    queue: the handle of the CUDA queue to run on, 0 for the default one.  None: the device's current queue if this
    file is part of its package, else the default one.  On a GPU the call returns when the work is queued.

    May be called from several threads, each with a c of its own.  Raises TypeError or ValueError, naming the tensor,
    or RuntimeError if the library cannot run the call.
    """
    tensors = _unpack(data)
    if not _as_expected(tensors):
        _check(tensors)
    device = tensors[4].get_device()
    groups = _batches(tensors) if tensors[4].numel() else []
    for first in range(0, len(groups), _MOST_GROUPS):
        part = groups[first : first + _MOST_GROUPS]
        pack_into, buffer_type = _packing(len(part))
        buffer = buffer_type()
        address = ctypes.addressof(buffer)
        try:
            pack_into(
                buffer, 0, _ARGS_BYTES, _BACKEND_AUTO, device, _SCALES_BLOCKED, len(part), _GROUP_BYTES, 0,
                address + _ARGS_BYTES,
                queue if queue is not None else 0 if _current_queue is None else _current_queue(device),
                *[member for group in part for member in group],
            )  # fmt: skip
        except struct.error:
            _check_queue(queue)
            raise
        status = _call(address)
        if status != 0:
            _raise_status(status, tensors, first)
    return data[6]
