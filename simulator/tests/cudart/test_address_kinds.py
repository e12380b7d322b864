"""The kind of memory that an address belongs to."""

from __future__ import annotations

import ctypes

from simulator.tests.cudart.test_other_calls import SUCCESS, cuda, given, pointer, size


class PointerAttributes(ctypes.Structure):  # driver_types.h, cudaPointerAttributes
    _fields_ = [("type", ctypes.c_int), ("device", ctypes.c_int), ("on_device", pointer), ("on_host", pointer)]
    _fields_ += [("reserved", ctypes.c_long * 8)]


def test_the_kind_of_memory_is_known_by_its_address():
    """Types of driver_types.h: 0 unregistered, 1 host, 2 device, 3 managed; of cuda.h: 1 host, 2 device."""
    own = ctypes.create_string_buffer(4096)
    assert cuda().cudaHostRegister(own, size(4096), 0) == SUCCESS
    made = [
        (given(call, size(64), *arguments, kind=pointer)[1], kind, free)
        for call, arguments, kind, free in (
            ("cudaMalloc", (), 2, "cudaFree"),
            ("cudaHostAlloc", (0,), 1, "cudaFreeHost"),
            ("cudaMallocHost", (), 1, "cudaFreeHost"),
            ("cudaMallocManaged", (1,), 3, "cudaFree"),
        )
    ]
    for at, kind, free in [*made, (ctypes.addressof(own), 1, "cudaHostUnregister")]:
        known = PointerAttributes()
        assert cuda().cudaPointerGetAttributes(ctypes.byref(known), pointer(at + 8)) == SUCCESS
        on_host = at + 8 if kind != 2 else None
        assert (known.type, known.device, known.on_device, known.on_host) == (kind, 0, at + 8, on_host)
        for attribute, value in ((2, min(kind, 2)), (8, kind == 3)):
            out = ctypes.c_uint(7)
            assert cuda().cuPointerGetAttribute(ctypes.byref(out), attribute, pointer(at)) == SUCCESS
            assert out.value == value
        assert getattr(cuda(), free)(pointer(at)) == SUCCESS
        assert cuda().cudaPointerGetAttributes(ctypes.byref(known), pointer(at)) == SUCCESS
        assert (known.type, known.device, known.on_device) == (0, -2, None)
