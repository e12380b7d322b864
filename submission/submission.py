#!POPCORN leaderboard nvfp4_dual_gemm
#!POPCORN gpu B200
"""The leaderboard's dual GEMM in NVFP4, C = silu(A @ B1^T) * (A @ B2^T), by the C library beside this file.

`custom_kernel(data)` checks the tensors, packs one struct custom_kernel_args (custom_kernel.h) and makes one ctypes
call.  A call with right tensors pays for one comparison of their metadata; only if that fails are the tensors examined
one by one, to say what is wrong.
"""

from __future__ import annotations

import struct
from collections.abc import Callable, Sequence
from functools import lru_cache

import torch

from .shim import (
    BACKEND_AUTO,
    OUTPUT_BYTES,
    SCALES_BLOCKED,
    SCALES_ROWS,
    SFA,
    SFB,
    A,
    B,
    Backend,
    C,
    check_queue,
    examine,
    library,
    message,
    numbered_backends,
    raise_status,
    tensor_form,
)

# struct custom_kernel_args: struct_bytes, backend, device, scale_layout; m, n, k, l; a, b1, b2, sfa, sfb1, sfb2, c,
# queue.  Each call packs a bytes object of its own, so threads share nothing.
_ARGS = struct.Struct("@Iiiiqqqq8Q")
_ARGS_BYTES = _ARGS.size
_pack = _ARGS.pack
_ROLES = (A, B, B, SFA, SFB, SFB, C)
_NAMES_BLOCKED = ("a", "b1", "b2", "sfa_permuted", "sfb1_permuted", "sfb2_permuted", "c")
_NAMES_ROWS = ("a", "b1", "b2", "sfa", "sfb1", "sfb2", "c")
_call = library.custom_kernel


def backends() -> list[Backend]:
    """All backends that the library knows, in the order of automatic choice."""
    return list(numbered_backends().values())


def _unpack(data: Sequence[torch.Tensor]) -> tuple[tuple[torch.Tensor, ...], bool]:
    """The seven tensors that the kernel reads and writes, and whether their scale factors are blocked."""
    try:
        count = len(data)
    except TypeError:
        raise TypeError(f"data is a {type(data).__name__}; expected a tuple of tensors") from None
    if count == 10:
        return (data[0], data[1], data[2], data[6], data[7], data[8], data[9]), True
    if count == 7:
        return tuple(data), False
    raise ValueError(
        f"data has {count} tensors; expected 10 (a, b1, b2, sfa, sfb1, sfb2, sfa_permuted, sfb1_permuted, "
        "sfb2_permuted, c) or 7 (a, b1, b2, sfa, sfb1, sfb2, c)"
    )


def _check(tensors: tuple[torch.Tensor, ...], blocked: bool) -> None:
    """Raises the exception that names the first wrong tensor: custom_kernel()'s test, in detail."""
    names = _NAMES_BLOCKED if blocked else _NAMES_ROWS
    examine(list(zip(names, tensors, strict=True)), _ROLES, SCALES_BLOCKED if blocked else SCALES_ROWS)


@lru_cache(maxsize=256)
def _expected_metadata(
    m: int, n: int, half_k: int, batches: int, blocked: bool, device: int
) -> tuple[tuple[object, ...], tuple[int, ...]]:
    """The metadata that custom_kernel() compares, for seven right tensors, and the bytes of each tensor.

    Both are empty if K is not a multiple of 64.
    """
    if half_k % 32 != 0:
        return (), ()
    layout = SCALES_BLOCKED if blocked else SCALES_ROWS
    forms = [tensor_form(role, layout, m, n, 2 * half_k, batches) for role in _ROLES]
    dtypes, shapes, strides, sizes = map(list, zip(*forms, strict=True))
    if batches == 1:  # a, b1, b2 and c are then contiguous, and is_contiguous() is cheaper than stride()
        strides[0] = strides[1] = strides[2] = strides[6] = True
    others = len(forms) - 1  # c's own shape and device are what the others are compared with
    return (*shapes[:others], *strides, *dtypes, *[device] * others), tuple(sizes)


# Set by the package (__init__.py, torch_operator.py); None in a bundle, which then pays for neither call.
# True if all tensors, whose sizes in bytes are given, have their values in memory (operators.py).
_have_memory: Callable[[tuple[torch.Tensor, ...], tuple[int, ...]], bool] | None = None
# The current queue of a device, for calls without a queue argument; without it they take the default queue.
_current_queue: Callable[[int], int] | None = None


def custom_kernel(data: Sequence[torch.Tensor], queue: int | None = None) -> torch.Tensor:
    """Computes C = silu(A @ B1^T) * (A @ B2^T) for L problems, writes it to c and returns c.

    data: either (a, b1, b2, sfa, sfb1, sfb2, sfa_permuted, sfb1_permuted, sfb2_permuted, c), of which sfa, sfb1 and
    sfb2 are not read, or (a, b1, b2, sfa, sfb1, sfb2, c).

        a               (M, K/2, L)  float4_e2m1fn_x2, two values of K per byte, strides (K/2, 1, M * K/2)
        b1, b2          (N, K/2, L)  as a
        sfa, sfb1, sfb2 (rows, K/16, L)  float8_e4m3fn, strides (K/16, 1, rows * K/16)
        *_permuted      (32, 4, ceil(rows/128), 4, K/64, L)  float8_e4m3fn, memory (L, rows/128, K/64, 32, 4, 4)
        c               (M, N, L)  float16, strides (N, 1, M * N)

    M may be 0; K is a multiple of 64.  All tensors are on one device, CPU or CUDA, and 16-byte aligned; c overlaps no
    other.
    queue: the handle of the CUDA queue to run on, 0 for the default one.  None: the device's current queue if this
    file is part of its package, else the default one.  On a GPU the call returns when the work is queued.

    May be called from several threads, each with a c of its own.  Raises TypeError or ValueError, naming the tensor,
    or RuntimeError if the library cannot run the call; c is then unchanged.
    """
    try:
        blocked = len(data) == 10
        if blocked:
            a, b1, b2, _, _, _, sfa, sfb1, sfb2, c = data
        else:
            a, b1, b2, sfa, sfb1, sfb2, c = data
        a_shape = a.shape
        m, n, batches = c.shape
        half_k = a_shape[1]
        single = batches == 1
        device = c.get_device()
        # fmt: off
        expected, sizes = _expected_metadata(m, n, half_k, batches, blocked, device)
        as_expected = expected == (
            a_shape, b1.shape, b2.shape, sfa.shape, sfb1.shape, sfb2.shape,
            a.is_contiguous() if single else a.stride(),
            b1.is_contiguous() if single else b1.stride(),
            b2.is_contiguous() if single else b2.stride(),
            sfa.stride(), sfb1.stride(), sfb2.stride(),
            c.is_contiguous() if single else c.stride(),
            a.dtype, b1.dtype, b2.dtype, sfa.dtype, sfb1.dtype, sfb2.dtype, c.dtype,
            a.get_device(), b1.get_device(), b2.get_device(), sfa.get_device(), sfb1.get_device(),
            sfb2.get_device(),
        )
        # fmt: on
        if as_expected:  # c is written, so its memory is checked even without the package's _have_memory
            as_expected = (
                not c.is_neg()
                and c.untyped_storage().nbytes() >= sizes[6] + OUTPUT_BYTES * c.storage_offset()
                and (_have_memory is None or _have_memory((a, b1, b2, sfa, sfb1, sfb2, c), sizes))
            )
    except (AttributeError, IndexError, RuntimeError, TypeError, ValueError):
        as_expected = False
    if not as_expected:
        tensors, blocked = _unpack(data)
        _check(tensors, blocked)
        a, b1, b2, sfa, sfb1, sfb2, c = tensors
        m, n, batches = c.shape
        half_k, device = a.shape[1], c.get_device()
    try:
        arguments = _pack(
            _ARGS_BYTES,
            BACKEND_AUTO,
            device,
            SCALES_BLOCKED if blocked else SCALES_ROWS,
            m,
            n,
            2 * half_k,
            batches,
            a.data_ptr(),
            b1.data_ptr(),
            b2.data_ptr(),
            sfa.data_ptr(),
            sfb1.data_ptr(),
            sfb2.data_ptr(),
            c.data_ptr(),
            queue if queue is not None else 0 if _current_queue is None else _current_queue(device),
        )
    except struct.error:
        check_queue(queue)
        raise
    status = _call(arguments)
    if status != 0:
        _check(*_unpack(data))  # says more about tensors without memory (torch's meta device)
        text = message()
        for name in _NAMES_ROWS[3:6] if blocked else ():
            text = text.replace(f"{name} ", f"{name}_permuted ")  # the caller's name for it
        raise_status(status, text)
    return c
