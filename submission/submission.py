#!POPCORN leaderboard nvfp4_dual_gemm
#!POPCORN gpu B200
"""The leaderboard's dual GEMM in NVFP4, C = silu(A @ B1^T) * (A @ B2^T), by the C library beside this file.

`custom_kernel(data)` checks the tensors, packs one struct custom_kernel_args (custom_kernel.h) and makes one ctypes
call.  A call with right tensors pays for one comparison of their metadata; only if that fails are the tensors examined
one by one, to say what is wrong.
"""

from __future__ import annotations

import ctypes
import math
import os
import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple

import torch

LIBRARY_NAME = "libcustom_kernel.so"
SIMULATED_LIBRARY_NAME = "libcustom_kernel_sim.so"  # runs the GPU kernels on the PTX simulator, on CPU tensors
ABI_MAJOR_VERSION = 1

# Enumerators of custom_kernel.h.
_BACKEND_AUTO = 0
_SCALES_BLOCKED, _SCALES_ROWS = 0, 1
_STATUS_NULL_POINTER, _STATUS_ARGUMENT = 1, 2

_FP4 = torch.float4_e2m1fn_x2
_SCALES = torch.float8_e4m3fn
_OUTPUT = torch.float16
_OUTPUT_BYTES = _OUTPUT.itemsize


class _Info(ctypes.Structure):
    """struct custom_kernel_backend_info."""

    _fields_ = (
        ("struct_bytes", ctypes.c_uint32),
        ("backend", ctypes.c_int32),
        ("name", ctypes.c_char_p),
        ("built", ctypes.c_int32),
        ("available", ctypes.c_int32),
        ("detail", ctypes.c_char_p),
    )


def _library_path() -> Path:
    """NVFP4_LIBRARY if set; else the library beside this file (installed package); else the one in the BUILD folder.

    NVFP4_SIMULATE=1 selects the simulator's library by name.
    """
    override = os.environ.get("NVFP4_LIBRARY")
    name = SIMULATED_LIBRARY_NAME if os.environ.get("NVFP4_SIMULATE") == "1" else LIBRARY_NAME
    folder = Path(__file__).resolve().parent
    beside = folder / name
    built = folder.parent / (os.environ.get("BUILD") or "build") / name
    return Path(override) if override else beside if beside.is_file() else built


def _load(path: Path) -> ctypes.CDLL:
    if not path.is_file():
        how = "simulator`, which needs nvcc for it" if path.name == SIMULATED_LIBRARY_NAME else "build`"
        raise ImportError(f"{path} does not exist; build it with `make {how}")
    library = ctypes.CDLL(str(path))
    library.custom_kernel.argtypes = (ctypes.c_char_p,)
    library.custom_kernel.restype = ctypes.c_int32
    library.custom_kernel_message.restype = ctypes.c_char_p
    library.custom_kernel_version.restype = ctypes.c_uint32
    version = library.custom_kernel_version()
    if version >> 16 != ABI_MAJOR_VERSION:
        raise ImportError(f"{path} has ABI version {version >> 16}; this shim needs {ABI_MAJOR_VERSION}")
    return library


_library = _load(_library_path())


class Backend(NamedTuple):
    """A backend of the library.  `detail`: the chip, instruction set and threads, or the reason it cannot run."""

    name: str
    built: bool
    available: bool
    detail: str


def _numbered_backends() -> dict[int, Backend]:
    """All backends by their number in enum custom_kernel_backend, in the order of automatic choice."""
    found: list[tuple[int, Backend]] = []
    info = _Info(struct_bytes=ctypes.sizeof(_Info))
    while _library.custom_kernel_backend_query(len(found), ctypes.byref(info)) == 0:
        one = Backend(info.name.decode(), bool(info.built), bool(info.available), info.detail.decode())
        found.append((info.backend, one))
    return dict(found)


class _Expected(NamedTuple):
    """Required form of a tensor argument."""

    name: str
    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]  # counted in elements; not compared for dimensions of size 1


def _check_queue(queue: object) -> None:
    """Raises TypeError or ValueError unless `queue` can be the handle of a CUDA queue."""
    if not isinstance(queue, int):
        raise TypeError(f"queue is a {type(queue).__name__}; expected the handle of a CUDA queue, an integer")
    if not 0 <= queue < 2**64:
        raise ValueError(f"queue is {queue}; expected the handle of a CUDA queue, from 0 to 2^64 - 1")


def _rows(name: str, dtype: torch.dtype, count: int, width: int, batches: int) -> _Expected:
    """A tensor (rows, width, L) over memory (L, rows, width)."""
    return _Expected(name, dtype, (count, width, batches), (width, 1, count * width))


def _scales(name: str, count: int, half_k: int, batches: int, blocked: bool) -> _Expected:
    """The scale factors of `count` rows, row by row or in blocks of 128 x 4 (enum custom_kernel_scale_layout)."""
    if not blocked:
        return _rows(name, _SCALES, count, half_k // 8, batches)
    tiles_m, tiles_k = -(-count // 128), half_k // 32
    shape = (32, 4, tiles_m, 4, tiles_k, batches)
    return _Expected(name, _SCALES, shape, (16, 4, tiles_k * 512, 1, 512, max(1, tiles_m) * tiles_k * 512))


def _check_is_tensor(name: str, tensor: object) -> None:
    """Raises TypeError or ValueError unless the argument is a dense CPU or CUDA tensor with its values in memory."""
    if not isinstance(tensor, torch.Tensor):
        raise TypeError(f"{name} is a {type(tensor).__name__}; expected a torch.Tensor")
    if type(tensor).__torch_dispatch__ is not torch.Tensor.__torch_dispatch__:
        raise TypeError(
            f"{name} is a {type(tensor).__name__}, which has no memory; expected a torch.Tensor with values"
        )
    if tensor.layout is not torch.strided:
        raise TypeError(f"{name} has layout {tensor.layout}; expected torch.strided")
    if tensor.device.type not in ("cpu", "cuda"):
        raise ValueError(f"{name} is on {tensor.device}; expected a CPU or CUDA device")
    if tensor.is_neg() or tensor.is_conj():
        bit = "negative" if tensor.is_neg() else "conjugate"
        raise ValueError(f"{name} has torch's {bit} bit; expected values as they lie in memory")


def _check_as_expected(expected: _Expected, tensor: torch.Tensor, c: torch.Tensor, sizes: str) -> None:
    """Raises TypeError or ValueError if dtype, shape, strides, device or storage is wrong.  `sizes`: for messages."""
    if tensor.dtype is not expected.dtype:
        raise TypeError(f"{expected.name} has dtype {tensor.dtype}; expected {expected.dtype}")
    if tensor.shape != expected.shape:
        raise ValueError(f"{expected.name} has shape {tuple(tensor.shape)}; expected {expected.shape} for {sizes}")
    strides = tensor.stride()
    differ = (size > 1 and got != want for size, got, want in zip(tensor.shape, strides, expected.strides, strict=True))
    if tensor.numel() and any(differ):
        raise ValueError(f"{expected.name} has strides {strides}; expected {expected.strides}")
    if tensor.device != c.device:
        raise ValueError(f"{expected.name} is on {tensor.device}; expected {c.device}, as c")
    held = tensor.untyped_storage().nbytes() - tensor.storage_offset() * tensor.itemsize
    if held < tensor.numel() * tensor.itemsize:
        raise ValueError(
            f"{expected.name} has {tensor.numel() * tensor.itemsize} bytes, of which its storage holds "
            f"{max(held, 0)}; expected a storage that holds them all"
        )


def _bytes(expected: _Expected) -> int:
    return math.prod(expected.shape) * expected.dtype.itemsize


# --- the dual GEMM: group_submission.py shares the code above; scripts/release/bundle.py splits the file at this line

# struct custom_kernel_args: struct_bytes, backend, device, scale_layout; m, n, k, l; a, b1, b2, sfa, sfb1, sfb2, c,
# queue.  Each call packs a bytes object of its own, so threads share nothing.
_ARGS = struct.Struct("@Iiiiqqqq8Q")
_ARGS_BYTES = _ARGS.size
_pack = _ARGS.pack
_NAMES_BLOCKED = ("a", "b1", "b2", "sfa_permuted", "sfb1_permuted", "sfb2_permuted", "c")
_NAMES_ROWS = ("a", "b1", "b2", "sfa", "sfb1", "sfb2", "c")
_call = _library.custom_kernel


def backends() -> list[Backend]:
    """All backends that the library knows, in the order of automatic choice."""
    return list(_numbered_backends().values())


@lru_cache(maxsize=256)
def _expected(m: int, n: int, half_k: int, batches: int, blocked: bool) -> tuple[_Expected, ...]:
    """Required form of the seven tensors of a problem, in the order of the argument struct."""
    names = _NAMES_BLOCKED if blocked else _NAMES_ROWS
    return (
        _rows(names[0], _FP4, m, half_k, batches),
        _rows(names[1], _FP4, n, half_k, batches),
        _rows(names[2], _FP4, n, half_k, batches),
        _scales(names[3], m, half_k, batches, blocked),
        _scales(names[4], n, half_k, batches, blocked),
        _scales(names[5], n, half_k, batches, blocked),
        _rows(names[6], _OUTPUT, m, n, batches),
    )


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
    """Checks each tensor and raises the exception that names the first wrong one: custom_kernel()'s test, in detail."""
    names = _NAMES_BLOCKED if blocked else _NAMES_ROWS
    for name, tensor in zip(names, tensors, strict=True):
        _check_is_tensor(name, tensor)
    for name, tensor in ((names[0], tensors[0]), (names[6], tensors[6])):
        if tensor.ndim != 3:
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}; expected three dimensions")
        if 0 in tensor.shape[1:]:
            raise ValueError(f"{name} has shape {tuple(tensor.shape)}; expected no empty dimension but M")
    m, n, batches = tensors[6].shape
    half_k = tensors[0].shape[1]
    if half_k % 32 != 0:
        raise ValueError(f"{names[0]} has shape {tuple(tensors[0].shape)}, K = {2 * half_k}; expected a multiple of 64")
    sizes = f"M = {m}, N = {n}, K = {2 * half_k}, L = {batches}"
    for expected, tensor in zip(_expected(m, n, half_k, batches, blocked), tensors, strict=True):
        _check_as_expected(expected, tensor, tensors[6], sizes)


@lru_cache(maxsize=256)
def _expected_metadata(
    m: int, n: int, half_k: int, batches: int, blocked: bool, device: int
) -> tuple[tuple[object, ...], tuple[int, ...]]:
    """The metadata that custom_kernel() compares, for seven right tensors, and the bytes of each tensor.

    Both are empty if K is not a multiple of 64.
    """
    if half_k % 32 != 0:
        return (), ()
    tensors = _expected(m, n, half_k, batches, blocked)
    shapes, strides, dtypes = ([getattr(tensor, of) for tensor in tensors] for of in ("shape", "strides", "dtype"))
    if batches == 1:  # a, b1, b2 and c are then contiguous, and is_contiguous() is cheaper than stride()
        strides[0] = strides[1] = strides[2] = strides[6] = True
    others = len(tensors) - 1  # c's own shape and device are what the others are compared with
    sizes = tuple(map(_bytes, tensors))
    return (*shapes[:others], *strides, *dtypes, *[device] * others), sizes


# Set by the package (__init__.py, torch_operator.py); None in a bundle, which then pays for neither call.
# True if all tensors, whose sizes in bytes are given, have their values in memory (memory_check.py).
_is_plain: Callable[[tuple[torch.Tensor, ...], tuple[int, ...]], bool] | None = None
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
        if as_expected:  # c is written, so its memory is checked even without the package's _is_plain
            as_expected = (
                not c.is_neg()
                and c.untyped_storage().nbytes() >= sizes[6] + _OUTPUT_BYTES * c.storage_offset()
                and (_is_plain is None or _is_plain((a, b1, b2, sfa, sfb1, sfb2, c), sizes))
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
            _BACKEND_AUTO,
            device,
            _SCALES_BLOCKED if blocked else _SCALES_ROWS,
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
        _check_queue(queue)
        raise
    status = _call(arguments)
    if status != 0:
        _check(*_unpack(data))  # says more about tensors without memory (torch's meta device)
        message = _library.custom_kernel_message().decode(errors="replace")
        for name in _NAMES_ROWS[3:6] if blocked else ():
            message = message.replace(f"{name} ", f"{name}_permuted ")  # the caller's name for it
        raise (ValueError if status in (_STATUS_NULL_POINTER, _STATUS_ARGUMENT) else RuntimeError)(message)
    return c
