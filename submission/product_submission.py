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
from typing import NamedTuple, NoReturn

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
_MOST_BATCHES = 65536  # CUSTOM_KERNEL_MAX_GROUPS
_PADDED_ROWS = 128  # of b, where c has one column
_NAMES = ("a", "b", "sfa_permuted", "sfb_permuted", "c")
_MEMBERS = "a, b, sfa, sfb, sfa_permuted, sfb_permuted, c"


def _lacking(address: int) -> int:
    """Stands in for the function if the library is older."""
    raise RuntimeError(f"{_library._name} has no grouped GEMM; expected ABI version 1.2 or later")


# An object of this module's own: whoever shares the attribute may give it other types.
_call = _library["custom_kernel_grouped"] if hasattr(_library, "custom_kernel_grouped") else _lacking
_call.argtypes = (ctypes.c_void_p,)
_call.restype = ctypes.c_int32


def backends() -> list[Backend]:
    """All backends that the library knows, in the order of automatic choice."""
    return list(_numbered_backends().values())


@lru_cache(maxsize=16)
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


class _Plan(NamedTuple):
    """What a call needs besides addresses, for tensors with right metadata."""

    device: int
    sizes: tuple[int, int, int]  # m, n and k of each group
    order: tuple[int, ...]  # which of the tensors are a, b, sfa, sfb and c of a group
    steps: tuple[int, ...]  # bytes from one batch to the next, of these
    batches: int
    bytes: tuple[int, ...]  # of each tensor


@lru_cache(maxsize=256)
def _plan_of(metadata: tuple[tuple[object, ...], ...]) -> _Plan | None:
    """The plan for five tensors, each given by shape, strides, dtype and device; None if something is wrong."""
    shapes, strides, dtypes, devices = zip(*metadata, strict=True)
    m, n, batches = shapes[4]
    b_rows, half_k = shapes[1][0], shapes[0][1]
    if not _are_sizes(n, b_rows, half_k) or batches > _MOST_BATCHES or len(set(devices)) != 1:
        return None
    expected = _expected(m, n, b_rows, half_k, batches)
    for one, shape, stride, dtype in zip(expected, shapes, strides, dtypes, strict=True):
        # Strides count only where there is more than one row, value or batch, and none is missing.
        differ = 0 not in shape and any(
            size > 1 and x != y for size, x, y in zip(shape, stride, one.strides, strict=True)
        )
        if shape != one.shape or dtype is not one.dtype or differ:
            return None
    swapped = n == 1
    order = (1, 0, 3, 2, 4) if swapped else (0, 1, 2, 3, 4)
    of_batch = [_bytes(one) for one in _expected(m, n, b_rows, half_k, 1)]
    sizes = (n, m, 2 * half_k) if swapped else (m, n, 2 * half_k)
    return _Plan(
        devices[0], sizes, order, tuple(of_batch[i] for i in order), batches if m else 0, tuple(map(_bytes, expected))
    )


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
    if batches > _MOST_BATCHES:
        raise ValueError(f"c has shape {tuple(c.shape)}, L = {batches}; expected at most {_MOST_BATCHES}")
    sizes = f"M = {m}, N = {n}, K = {2 * half_k}, L = {batches}"
    for expected, tensor in zip(_expected(m, n, b_rows, half_k, batches), tensors, strict=True):
        _check_as_expected(expected, tensor, c, sizes)


# Set by the package, as in submission.py.
_is_plain: Callable[[tuple[torch.Tensor, ...], tuple[int, ...]], bool] | None = None
_current_queue: Callable[[int], int] | None = None


def _plan(tensors: tuple[torch.Tensor, ...]) -> _Plan | None:
    """custom_kernel()'s test of right tensors, without a reason if it fails."""
    try:
        found = _plan_of(
            tuple([(tensor.shape, tensor.stride(), tensor.dtype, tensor.get_device()) for tensor in tensors])
        )
        c = tensors[4]
        # c is written, so its memory is checked even without the package's _is_plain
        good = (
            found is not None
            and not c.is_neg()
            and c.untyped_storage().nbytes() >= found.bytes[4] + _OUTPUT_BYTES * c.storage_offset()
            and (_is_plain is None or _is_plain(tensors, found.bytes))
        )
        return found if good else None
    except (AttributeError, IndexError, RuntimeError, TypeError, ValueError):
        return None


def _raise_status(status: int, tensors: tuple[torch.Tensor, ...]) -> NoReturn:
    """Raises the exception for a call that the library refused."""
    _check(tensors)  # says more about tensors without memory (torch's meta device)
    names = {"a": "a", "b": "b", "sfa": "sfa_permuted", "sfb": "sfb_permuted", "c": "c", "m": "M", "n": "N", "k": "K"}
    if tensors[4].shape[1] == 1:  # the operands have changed places
        swapped = {"a": "b", "b": "a", "sfa": "sfb", "sfb": "sfa", "m": "n", "n": "m"}
        names = {name: names[swapped.get(name, name)] for name in names}

    def named(found: re.Match[str]) -> str:
        return f"{names.get(found[2], found[2])} of batch {found[1]}"

    message = re.sub(r"group\[(\d+)\]\.(\w+)", named, _library.custom_kernel_message().decode(errors="replace"))
    raise (ValueError if status in (_STATUS_NULL_POINTER, _STATUS_ARGUMENT) else RuntimeError)(message)


def custom_kernel(data: Sequence[torch.Tensor], queue: int | None = None) -> torch.Tensor:
    """Computes c = a @ b^T for L problems, writes it to c and returns c.

    data: (a, b, sfa, sfb, sfa_permuted, sfb_permuted, c), of which sfa and sfb are not read.

        a           (M, K/2, L)  float4_e2m1fn_x2, two values of K per byte, strides (K/2, 1, M * K/2)
        b           (N, K/2, L)  as a; for N = 1 also (128, K/2, L), of which the first row counts
        *_permuted  (32, 4, ceil(rows/128), 4, K/64, L)  float8_e4m3fn, memory (L, rows/128, K/64, 32, 4, 4)
        c           (M, N, L)  float16, strides (N, 1, M * N)

    M may be 0; K is a multiple of 64; L is at most 65,536.  All tensors are on one device, CPU or CUDA, and 16-byte
    aligned, as is each batch of c; c overlaps no other.
    queue: the handle of the CUDA queue to run on, 0 for the default one.  None: in the package the device's current
    queue, in a bundle the default one.  On a GPU the call returns when the work is queued.

    May be called from several threads, each with a c of its own.  Raises TypeError or ValueError, naming the tensor,
    or RuntimeError if the library cannot run the call; c is then unchanged.
    """
    tensors = _unpack(data)
    plan = _plan(tensors)
    if plan is None:
        _check(tensors)
        raise ValueError("data is not as expected")  # unreachable: _check() names what the plan refuses
    device, sizes, order, steps, batches, _ = plan
    begins = [tensors[i].data_ptr() for i in order]
    if queue is None:
        queue = 0 if _current_queue is None else _current_queue(device)
    if batches == 0:
        return data[6]
    members: list[int] = []
    for batch in range(batches):
        members += sizes
        members += [begin + batch * step for begin, step in zip(begins, steps, strict=True)]
    pack_into, buffer_type = _packing(batches)
    buffer = buffer_type()
    address = ctypes.addressof(buffer)
    try:
        pack_into(
            buffer, 0, _ARGS_BYTES, _BACKEND_AUTO, device, _SCALES_BLOCKED, batches, _GROUP_BYTES, 0,
            address + _ARGS_BYTES, queue, *members,
        )  # fmt: skip
    except struct.error:
        _check_queue(queue)
        raise
    status = _call(address)
    if status != 0:
        _raise_status(status, tensors)
    return data[6]
