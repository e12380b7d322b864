#!POPCORN leaderboard nvfp4_group_gemm
#!POPCORN gpu B200
"""The leaderboard's grouped GEMM in NVFP4, c_i = a_i @ b_i^T, by the C library beside this file.

`custom_kernel(data)` checks the tensors of all groups, packs one struct custom_kernel_grouped_args (custom_kernel.h)
and makes one ctypes call.  Reading forty tensors takes Python longer than the rest of the call, so the library reads
the objects itself where it can (core/python_groups.h); otherwise the Python code below does.
"""

from __future__ import annotations

import ctypes
import operator
import re
import struct
from collections.abc import Callable, Sequence
from functools import lru_cache
from pathlib import Path
from typing import NoReturn, SupportsIndex

import torch

from .grouped_call import ARGS_BYTES, GROUP_BYTES, MOST_GROUPS, call_grouped, packing
from .shim import (
    BACKEND_AUTO,
    OUTPUT_BYTES,
    SCALES_BLOCKED,
    SFA,
    SFB,
    A,
    B,
    Backend,
    C,
    Form,
    check_queue,
    examine,
    library,
    message,
    numbered_backends,
    raise_status,
    tensor_form,
)

_GROUP_OF_NO_ROWS = (0, 1, 64, 0, 0, 0, 0, 0)
_STATUS_UNSUPPORTED = 4
_ROLES = (A, B, C, SFA, SFB)
_NAMES = ("a", "b", "c", "sfa_reordered", "sfb_reordered")
_NUMBERS = ("fp4", "e4m3", "fp16", "cpu", "cuda")  # torch's numbers, as core/python_groups.h names them
_TYPES = ("PyTuple_Type", "PyList_Type", "PyLong_Type", "tensor_type")
_PYTHON_FUNCTIONS = (
    "PyObject_Type", "Py_DecRef", "PyTuple_Size", "PyTuple_GetItem", "PyList_Size", "PyList_GetItem",
    "PyLong_AsLongLong", "PyErr_Occurred", "PyErr_Clear", "PyEval_SaveThread", "PyEval_RestoreThread",
)  # fmt: skip
_TORCH_FUNCTIONS = tuple(
    f"aoti_torch_get_{what}"
    for what in (
        "data_ptr", "dim", "sizes", "strides", "dtype", "device_type", "device_index", "storage_size", "storage_offset",
    )
)  # fmt: skip
_NOT_AS_EXPECTED = -1
_TOO_LARGE = 1 << 63  # for the library's sizes
_LISTS = ("abc_tensors", "sfasfb_tensors", "sfasfb_reordered_tensors", "problem_sizes")


class _PythonFunctions(ctypes.Structure):
    """struct python_functions (core/python_groups.h): the functions with which the library reads Python objects."""

    _fields_ = (
        ("struct_bytes", ctypes.c_uint32),
        ("tensor_offset", ctypes.c_uint32),
        *((name, ctypes.c_int32) for name in (*_NUMBERS, "reserved")),
        *((name, ctypes.c_void_p) for name in (*_TYPES, *_PYTHON_FUNCTIONS, *_TORCH_FUNCTIONS)),
    )


def _tensor_offset(torch_library: ctypes.CDLL) -> int:
    """Bytes from a tensor object to its at::Tensor, whose address torch's C interface takes.

    torch does not publish this offset.  An at::Tensor is one pointer, which torch shows as _cdata.  So if the first
    member of several tensor objects equals their _cdata, and the C interface reads the right data pointer and number of
    dimensions there, that is the offset.  Raises ValueError otherwise: up to torch 2.9, an ownership word comes first.
    """
    first_member = object.__basicsize__
    for shape in ((), (3,), (2, 1, 5)):
        tensor = torch.empty(shape, dtype=torch.float16)
        if (
            type(tensor).__basicsize__ < first_member + 8
            or tensor._cdata != ctypes.c_uint64.from_address(id(tensor) + first_member).value
        ):
            raise ValueError("a tensor object does not begin with its at::Tensor")
        address, dimensions = ctypes.c_void_p(), ctypes.c_int64()
        torch_library.aoti_torch_get_data_ptr(ctypes.c_void_p(id(tensor) + first_member), ctypes.byref(address))
        torch_library.aoti_torch_get_dim(ctypes.c_void_p(id(tensor) + first_member), ctypes.byref(dimensions))
        if (address.value, dimensions.value) != (tensor.data_ptr(), len(shape)):
            raise ValueError("torch's C interface reads something else there")
    return first_member


def _torch_numbers(torch_library: ctypes.CDLL, offset: int) -> list[int]:
    """The values of _NUMBERS.  dtypes are read from tensors, because not every torch has a function for each."""
    numbers = []
    for dtype in (torch.float4_e2m1fn_x2, torch.float8_e4m3fn, torch.float16):
        # A view, because torch's deterministic mode fills new tensors and cannot fill e2m1.
        tensor, number = torch.empty(0, dtype=torch.uint8).view(dtype), ctypes.c_int32()
        torch_library.aoti_torch_get_dtype(ctypes.c_void_p(id(tensor) + offset), ctypes.byref(number))
        numbers.append(number.value)
    return [*numbers, torch_library.aoti_torch_device_type_cpu(), torch_library.aoti_torch_device_type_cuda()]


def _python_functions() -> _PythonFunctions | None:
    """The functions' addresses; None if torch or Python lacks one, or the at::Tensor is not where it is expected."""
    try:
        torch_library = ctypes.CDLL(str(Path(torch.__file__).parent / "lib" / "libtorch_cpu.so"))
        types = (id(tuple), id(list), id(int), id(torch.Tensor))
        functions = [getattr(ctypes.pythonapi, name) for name in _PYTHON_FUNCTIONS]
        functions += [getattr(torch_library, name) for name in _TORCH_FUNCTIONS]
        addresses = [ctypes.cast(function, ctypes.c_void_p).value for function in functions]
        offset = _tensor_offset(torch_library)
        numbers = _torch_numbers(torch_library, offset)
    except (AttributeError, OSError, TypeError, ValueError):
        return None
    return _PythonFunctions(ctypes.sizeof(_PythonFunctions), offset, *numbers, 0, *types, *addresses)


def _reading_library() -> Callable[[int, object, int], int]:
    """custom_kernel_grouped_python(), called with the interpreter's lock held."""
    reading = ctypes.PyDLL(library._name).custom_kernel_grouped_python
    reading.argtypes = (ctypes.c_void_p, ctypes.py_object, ctypes.c_void_p)
    reading.restype = ctypes.c_int32
    return reading


_is_neg = torch.Tensor.is_neg
_functions = _python_functions()
_functions_address = 0 if _functions is None else ctypes.addressof(_functions)
_call_python = None if _functions is None else _reading_library()


def backends() -> list[Backend]:
    """All backends in the order of automatic choice; one without a grouped GEMM is listed as not available."""
    found = []
    pack_into, buffer_type = packing(1)
    buffer = buffer_type()
    address = ctypes.addressof(buffer)
    group = address + ARGS_BYTES
    for number, backend in numbered_backends().items():
        device = -1 if backend.name == "cpu" else 0
        header = (ARGS_BYTES, number, device, SCALES_BLOCKED, 1, GROUP_BYTES, 0, group, 0)
        pack_into(buffer, 0, *header, *_GROUP_OF_NO_ROWS)
        if backend.available and call_grouped(address) == _STATUS_UNSUPPORTED:
            backend = backend._replace(available=False, detail=message())
        found.append(backend)
    return found


@lru_cache(maxsize=256)
def _expected_groups(
    sizes: tuple[tuple[int, int, int, int], ...], device: int
) -> tuple[list[object], list[tuple[int, int, int]], tuple[int, ...]]:
    """The metadata that custom_kernel() compares, for right tensors of these sizes; (M, N, K) of every group; the bytes
    of every tensor.  All are empty if a size is wrong.
    """
    seen: list[object] = []
    every: list[Form] = []
    for size in sizes:
        m, n, k, batches = map(operator.index, size)
        if batches != 1 or m < 0 or n < 1 or k < 64 or k % 64 != 0 or max(m, n, k) >= _TOO_LARGE:
            return [], [], ()
        forms = [tensor_form(role, SCALES_BLOCKED, m, n, k, 1) for role in _ROLES]
        # is_contiguous() is cheaper than stride(), and suffices for all but the blocked scale factors.
        seen += [form.shape for form in forms]
        seen += [True] * 3 + [form.strides for form in forms[3:]]
        seen += [form.dtype for form in forms] + [device] * 5
        every += forms
    return (
        seen,
        [(operator.index(m), operator.index(n), operator.index(k)) for m, n, k, _ in sizes],
        tuple(form.bytes for form in every),
    )


def _sized(value: object, name: str) -> int:
    if isinstance(value, (str, bytes, dict, set, torch.Tensor)) or not hasattr(value, "__getitem__"):
        raise TypeError(f"{name} is a {type(value).__name__}; expected a list")
    return len(value)


def _check_groups(data: Sequence[Sequence[Sequence[object]]]) -> tuple[tuple[int, int, int], ...]:
    """Checks every argument and raises the exception that names the first wrong one and its group: custom_kernel()'s
    test, in detail.  Returns M, N and K of the groups.
    """
    if _sized(data, "data") != len(_LISTS):
        raise ValueError(f"data has {len(data)} members; expected {len(_LISTS)}: {', '.join(_LISTS)}")
    abc, _, factors, sizes = data
    groups = _sized(abc, _LISTS[0])
    if not 1 <= groups <= MOST_GROUPS:
        raise ValueError(f"{_LISTS[0]} has {groups} groups; expected 1 to {MOST_GROUPS}")
    for name, members, width in ((_LISTS[0], abc, 3), (_LISTS[2], factors, 2), (_LISTS[3], sizes, 4)):
        if _sized(members, name) != groups:
            raise ValueError(f"{name} has {len(members)} groups; expected {groups}, as {_LISTS[0]}")
        for index, member in enumerate(members):
            if _sized(member, f"{name}[{index}]") != width:
                raise ValueError(f"{name}[{index}] has {len(member)} members; expected {width}")
    given = []
    for index, (first, second, size) in enumerate(zip(abc, factors, sizes, strict=True)):
        for letter, value in zip("mnkl", size, strict=True):
            if not isinstance(value, SupportsIndex):
                raise TypeError(f"{letter} of group {index} is a {type(value).__name__}; expected an integer")
        m, n, k, batches = map(operator.index, size)
        for letter, value, least in (("m", m, 0), ("n", n, 1), ("k", k, 1)):
            if not least <= value < _TOO_LARGE:
                wanted = f"at least {least}" if value < least else "less than 2^63"
                raise ValueError(f"{letter} of group {index} is {value}; expected {wanted}")
        if k % 64 != 0 or batches != 1:
            wrong = f"k of group {index} is {k}; expected a multiple of 64"
            raise ValueError(wrong if k % 64 != 0 else f"l of group {index} is {batches}; expected 1")
        names = [f"{tensor} of group {index}" for tensor in _NAMES]
        tensors = list(zip(names, (*first, *second), strict=True))
        examine(tensors, _ROLES, SCALES_BLOCKED, (m, n, k), ("c of group 0", abc[0][2]) if index else None)
        given.append((m, n, k))
    return tuple(given)


# Set by the package, as in submission.py.
_have_memory: Callable[[Sequence[torch.Tensor], Sequence[int]], bool] | None = None
_current_queue: Callable[[int], int] | None = None


def _read_by_library(data: Sequence[Sequence[object]], queue: int | None) -> tuple[int, list[torch.Tensor]]:
    """Lets the library read the objects: its status and every c, or _NOT_AS_EXPECTED if it cannot read them.

    torch's negative bit, which the library cannot see, is checked here for every c, because c is written.
    """
    if _call_python is None or not (queue is None or (type(queue) is int and 0 <= queue < 1 << 64)):
        return _NOT_AS_EXPECTED, []
    try:
        outputs = [c for _, _, c in data[0]]
        if any(map(_is_neg, outputs)):
            return _NOT_AS_EXPECTED, []
        if _have_memory is not None:
            tensors = [
                tensor for members in zip(data[0], data[2], strict=True) for group in members for tensor in group
            ]
            if not _have_memory(tensors, [tensor.nbytes for tensor in tensors]):
                return _NOT_AS_EXPECTED, []
        if queue is None and _current_queue is not None:
            queue = _current_queue(outputs[0].get_device())
    except (AttributeError, IndexError, KeyError, RuntimeError, TypeError, ValueError):
        return _NOT_AS_EXPECTED, []
    return _call_python(_functions_address, data, queue), outputs


def _raise_status(status: int, data: Sequence[Sequence[object]]) -> NoReturn:
    """Raises the exception for a call that the library refused."""
    _check_groups(data)  # says more about tensors without memory (torch's meta device)
    text = re.sub(r"group\[(\d+)\]\.(sf[ab])\b", r"\2_reordered of group \1", message())
    raise_status(status, re.sub(r"group\[(\d+)\]\.(\w+)", r"\2 of group \1", text))


def custom_kernel(data: Sequence[Sequence[object]], queue: int | None = None) -> list[torch.Tensor]:
    """Computes c_i = a_i @ b_i^T for every group, writes it to the group's c and returns the list of all c.

    data: four lists with one tuple for each of 1 to 65,536 groups:

        abc_tensors               (a, b, c)
            a (M, K/2, 1), b (N, K/2, 1)  float4_e2m1fn_x2, two values of K per byte, contiguous
            c (M, N, 1)  float16, contiguous
        sfasfb_tensors            not read
        sfasfb_reordered_tensors  (sfa, sfb)
            (32, 4, ceil(rows/128), 4, K/64, 1)  float8_e4m3fn, memory (rows/128, K/64, 32, 4, 4); padding rows are
            not used
        problem_sizes             (M, N, K, 1): M >= 0, N >= 1, K a multiple of 64; each group has sizes of its own

    All tensors are on one device, CPU or CUDA, and 16-byte aligned; a c overlaps no other tensor.
    queue: the handle of the CUDA queue to run on, 0 for the default one.  None: the device's current queue if this
    file is part of its package, else the default one.  On a GPU the call returns when the work is queued.

    May be called from several threads, each with outputs of its own.  Raises TypeError or ValueError, naming the tensor
    and the group, or RuntimeError if the library cannot run the call; every c is then unchanged.
    """
    status, outputs = _read_by_library(data, queue)
    if status == 0:
        return outputs
    if status != _NOT_AS_EXPECTED:
        _raise_status(status, data)
    try:
        abc, _, factors, sizes = data
        device = abc[0][2].get_device()
        expected, shapes, byte_counts = _expected_groups(tuple(sizes), device)
        seen: list[object] = []
        outputs = []
        plain = True
        # fmt: off
        for (a, b, c), (sfa, sfb), shape in zip(abc, factors, shapes, strict=True):
            seen += (
                a.shape, b.shape, c.shape, sfa.shape, sfb.shape,
                a.is_contiguous(), b.is_contiguous(), c.is_contiguous(), sfa.stride(), sfb.stride(),
                a.dtype, b.dtype, c.dtype, sfa.dtype, sfb.dtype,
                a.get_device(), b.get_device(), c.get_device(), sfa.get_device(), sfb.get_device(),
            )
            m, n, _ = shape
            # c is written, so its memory is checked even without the package's _have_memory
            if c.is_neg() or c.untyped_storage().nbytes() < OUTPUT_BYTES * (m * n + c.storage_offset()):
                plain = False
            outputs.append(c)
        # fmt: on
        as_expected = plain and expected != [] and seen == expected
        if as_expected and _have_memory is not None:
            tensors = tuple(tensor for pair in zip(abc, factors, strict=True) for group in pair for tensor in group)
            as_expected = _have_memory(tensors, byte_counts)
    except (AttributeError, IndexError, RuntimeError, TypeError, ValueError):
        as_expected = False
    if not as_expected:
        shapes = _check_groups(data)
        abc, _, factors, _ = data
        outputs = [group[2] for group in abc]
        device = outputs[0].get_device()
    arguments: list[int] = []
    for (a, b, c), (sfa, sfb), shape in zip(abc, factors, shapes, strict=True):
        arguments += shape
        arguments += (a.data_ptr(), b.data_ptr(), sfa.data_ptr(), sfb.data_ptr(), c.data_ptr())
    pack_into, buffer_type = packing(len(outputs))
    buffer = buffer_type()
    address = ctypes.addressof(buffer)
    try:
        pack_into(
            buffer,
            0,
            ARGS_BYTES,
            BACKEND_AUTO,
            device,
            SCALES_BLOCKED,
            len(outputs),
            GROUP_BYTES,
            0,
            address + ARGS_BYTES,
            queue if queue is not None else 0 if _current_queue is None else _current_queue(device),
            *arguments,
        )
    except struct.error:
        check_queue(queue)
        raise
    status = call_grouped(address)
    if status != 0:
        _raise_status(status, data)
    return outputs
