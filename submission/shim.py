"""What the shims of the leaderboards' problems share: the library, its backends, and the examination of tensors.

A call compares the metadata of its tensors with the forms that the library gives (tensor_form()).  Only if they differ
does the library examine the tensors one by one (examine()), and say what is wrong.  Python examines what C cannot see:
whether an argument is a tensor with its values in memory.
"""

from __future__ import annotations

import ctypes
import math
from collections.abc import Sequence
from functools import lru_cache
from pathlib import Path
from typing import NamedTuple, NoReturn

import torch

from .library_file import library_path

LEAST_VERSION, NEXT_MAJOR_VERSION = 0x10700, 0x20000  # of the library, as custom_kernel_version() counts

# Enumerators of custom_kernel.h.
BACKEND_AUTO = 0
SCALES_BLOCKED, SCALES_ROWS = 0, 1
STATUS_NULL_POINTER, STATUS_ARGUMENT = 1, 2
WRONG_DTYPE = -1  # of custom_kernel_examine()

A, B, SFA, SFB, C, PADDED_B = range(6)  # enum board_role of core/board_tensors.h
DEVICE_ELSEWHERE = -2
OUTPUT_BYTES = 2  # of an element of c
_MOST_DIMENSIONS = 8


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


class _Form(ctypes.Structure):
    """struct tensor_form of core/board_tensors.h."""

    _fields_ = (
        ("dtype", ctypes.c_char_p),
        ("dimensions", ctypes.c_int64),
        ("sizes", ctypes.c_int64 * _MOST_DIMENSIONS),
        ("strides", ctypes.c_int64 * _MOST_DIMENSIONS),
    )


class Description(ctypes.Structure):
    """struct tensor_description of core/board_tensors.h."""

    _fields_ = (
        ("name", ctypes.c_char_p),
        ("dtype", ctypes.c_char_p),
        ("dimensions", ctypes.c_int64),
        ("sizes", ctypes.POINTER(ctypes.c_int64)),
        ("strides", ctypes.POINTER(ctypes.c_int64)),
        ("held", ctypes.c_int64),
        ("device", ctypes.c_int32),
        ("role", ctypes.c_int32),
    )


def load(path: Path) -> ctypes.CDLL:
    """The library of that file.  Raises ImportError if it is missing, or of another version than this package."""
    if not path.is_file():
        raise ImportError(
            f"{path} does not exist; build it with `make build`, or with `make simulator`, which needs nvcc, where "
            "NVFP4_SIMULATE is 1"
        )
    loaded = ctypes.CDLL(str(path))
    loaded.custom_kernel_version.restype = ctypes.c_uint32
    version = loaded.custom_kernel_version()
    if not LEAST_VERSION <= version < NEXT_MAJOR_VERSION:
        raise ImportError(f"{path} has ABI version {version >> 16}.{version >> 8 & 0xFF}; expected 1.7 or a later 1.x")
    loaded.custom_kernel.argtypes = (ctypes.c_char_p,)
    loaded.custom_kernel.restype = ctypes.c_int32
    loaded.custom_kernel_message.restype = ctypes.c_char_p
    loaded.custom_kernel_tensor_form.restype = None
    return loaded


library = load(library_path())


def message() -> str:
    """Why the library refused this thread's last call."""
    return library.custom_kernel_message().decode(errors="replace")


def raise_status(status: int, text: str) -> NoReturn:
    """Raises the exception for a call or an examination that failed."""
    wrong = status in (STATUS_NULL_POINTER, STATUS_ARGUMENT)
    raise (TypeError if status == WRONG_DTYPE else ValueError if wrong else RuntimeError)(text)


class Backend(NamedTuple):
    """A backend of the library.  `detail`: the chip, instruction set and threads, or the reason it cannot run."""

    name: str
    built: bool
    available: bool
    detail: str


def numbered_backends() -> dict[int, Backend]:
    """All backends by their number in enum custom_kernel_backend, in the order of automatic choice."""
    found: list[tuple[int, Backend]] = []
    info = _Info(struct_bytes=ctypes.sizeof(_Info))
    while library.custom_kernel_backend_query(len(found), ctypes.byref(info)) == 0:
        one = Backend(info.name.decode(), bool(info.built), bool(info.available), info.detail.decode())
        found.append((info.backend, one))
    return dict(found)


def check_queue(queue: object) -> None:
    """Raises TypeError or ValueError unless `queue` can be the handle of a CUDA queue."""
    if not isinstance(queue, int):
        raise TypeError(f"queue is a {type(queue).__name__}; expected the handle of a CUDA queue, an integer")
    if not 0 <= queue < 2**64:
        raise ValueError(f"queue is {queue}; expected the handle of a CUDA queue, from 0 to 2^64 - 1")


class Form(NamedTuple):
    """Required form of a tensor; the strides of dimensions of size 1 mean nothing."""

    dtype: torch.dtype
    shape: tuple[int, ...]
    strides: tuple[int, ...]
    bytes: int


@lru_cache(maxsize=1024)
def tensor_form(role: int, layout: int, m: int, n: int, k: int, batches: int) -> Form:
    """The form of a tensor in that role, in a problem of these sizes.  layout: that of the scale factors."""
    found = _Form()
    library.custom_kernel_tensor_form(role, layout, (ctypes.c_int64 * 4)(m, n, k, batches), ctypes.byref(found))
    dtype = getattr(torch, found.dtype.decode().removeprefix("torch."))
    shape, strides = (tuple(numbers[: found.dimensions]) for numbers in (found.sizes, found.strides))
    return Form(dtype, shape, strides, math.prod(shape) * dtype.itemsize)


def check_has_values(name: str, tensor: object) -> None:
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


def describe(
    name: str, dtype: torch.dtype, shape: Sequence[int], strides: Sequence[int], device: int, held: int, role: int = 0
) -> Description:
    """A tensor as C examines it.  device: -1 for the CPU.  held: bytes of its storage from its first value on."""
    numbers = ctypes.c_int64 * len(shape)
    return Description(
        name.encode(), str(dtype).encode(), len(shape), numbers(*shape), numbers(*strides), held, device, role
    )


def _described(name: str, tensor: torch.Tensor, role: int) -> Description:
    held = tensor.untyped_storage().nbytes() - tensor.storage_offset() * tensor.itemsize
    return describe(name, tensor.dtype, tensor.shape, tensor.stride(), tensor.get_device(), held, role)


def examine_described(
    given: Sequence[Description], layout: int, sizes: tuple[int, int, int] | None, device: Description
) -> None:
    """examine() of what is known without memory."""
    stated = None if sizes is None else (ctypes.c_int64 * len(sizes))(*sizes)
    described = (Description * len(given))(*given)
    status = library.custom_kernel_examine(described, len(given), layout, stated, ctypes.byref(device))
    if status != 0:
        raise_status(status, message())


def examine(
    tensors: Sequence[tuple[str, torch.Tensor]],
    roles: Sequence[int],
    layout: int,
    sizes: tuple[int, int, int] | None = None,
    device_of: tuple[str, torch.Tensor] | None = None,
) -> None:
    """Raises the TypeError or ValueError that names the first wrong tensor and what is wrong.

    tensors: names and tensors of one problem, in these roles.  sizes: M, N and K, if the problem states them; else they
    are those of a, b and c.  device_of: the tensor on whose device all must be; by default c.
    """
    for name, tensor in tensors:
        check_has_values(name, tensor)
    given = [_described(*one, role) for one, role in zip(tensors, roles, strict=True)]
    device = given[roles.index(C)] if device_of is None else _described(*device_of, C)
    examine_described(given, layout, sizes, device)
