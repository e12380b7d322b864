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

from .grouped_call import ARGS_BYTES, GROUP_BYTES, call_grouped, packing
from .shim import (
    BACKEND_AUTO,
    OUTPUT_BYTES,
    PADDED_B,
    SCALES_BLOCKED,
    SFA,
    SFB,
    A,
    Backend,
    C,
    check_queue,
    describe,
    examine,
    examine_described,
    message,
    numbered_backends,
    raise_status,
    tensor_form,
)

_ROLES = (A, PADDED_B, SFA, SFB, C)
_NAMES = ("a", "b", "sfa_permuted", "sfb_permuted", "c")
_MEMBERS = "a, b, sfa, sfb, sfa_permuted, sfb_permuted, c"
_UNLIMITED = 2**62  # bytes of a storage that is not looked at


def backends() -> list[Backend]:
    """All backends that the library knows, in the order of automatic choice."""
    return list(numbered_backends().values())


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
    given = [
        describe(name, dtype, shape, strides, device, _UNLIMITED, role)
        for name, role, (shape, strides, dtype, device) in zip(_NAMES, _ROLES, metadata, strict=True)
    ]
    try:
        examine_described(given, SCALES_BLOCKED, None, given[4])
    except (TypeError, ValueError):
        return None
    (m, n, batches), k, device = metadata[4][0], 2 * metadata[0][0][1], metadata[4][3]
    rows = (n, metadata[1][0][0], n, metadata[1][0][0], n)  # of b, which may be padded, and of its scale factors
    of_batch = [
        tensor_form(role, SCALES_BLOCKED, m, count, k, 1).bytes for role, count in zip(_ROLES, rows, strict=True)
    ]
    swapped = n == 1
    order = (1, 0, 3, 2, 4) if swapped else (0, 1, 2, 3, 4)
    return _Plan(
        device,
        (n, m, k) if swapped else (m, n, k),
        order,
        tuple(of_batch[i] for i in order),
        batches if m else 0,
        tuple(batches * size for size in of_batch),
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
    """Raises the exception that names the first wrong tensor: custom_kernel()'s test, in detail."""
    examine(list(zip(_NAMES, tensors, strict=True)), _ROLES, SCALES_BLOCKED)


# Set by the package, as in submission.py.
_have_memory: Callable[[tuple[torch.Tensor, ...], tuple[int, ...]], bool] | None = None
_current_queue: Callable[[int], int] | None = None


def _plan(tensors: tuple[torch.Tensor, ...]) -> _Plan | None:
    """custom_kernel()'s test of right tensors, without a reason if it fails."""
    try:
        found = _plan_of(
            tuple([(tensor.shape, tensor.stride(), tensor.dtype, tensor.get_device()) for tensor in tensors])
        )
        c = tensors[4]
        # c is written, so its memory is checked even without the package's _have_memory
        good = (
            found is not None
            and not c.is_neg()
            and c.untyped_storage().nbytes() >= found.bytes[4] + OUTPUT_BYTES * c.storage_offset()
            and (_have_memory is None or _have_memory(tensors, found.bytes))
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

    raise_status(status, re.sub(r"group\[(\d+)\]\.(\w+)", named, message()))


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
    pack_into, buffer_type = packing(batches)
    buffer = buffer_type()
    address = ctypes.addressof(buffer)
    try:
        pack_into(
            buffer, 0, ARGS_BYTES, BACKEND_AUTO, device, SCALES_BLOCKED, batches, GROUP_BYTES, 0,
            address + ARGS_BYTES, queue, *members,
        )  # fmt: skip
    except struct.error:
        check_queue(queue)
        raise
    status = call_grouped(address)
    if status != 0:
        _raise_status(status, tensors)
    return data[6]
