"""Copies of rows and boxes by the driver, against slices of numpy."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from simulator.tests.cudart.test_other_calls import INVALID_VALUE, SUCCESS, cuda, given, pointer, size

HOST, DEVICE, ARRAY, UNIFIED = 1, 2, 3, 4  # cuda.h, CUmemorytype
NOT_SUPPORTED = 801


def end_fields(side: str, boxes: bool) -> list[tuple[str, type]]:
    places = ["x", "y", "z", "level"] if boxes else ["x", "y"]
    fields = [(f"{side}_{name}", size) for name in places] + [(f"{side}_type", ctypes.c_int)]
    fields += [(f"{side}_{name}", pointer) for name in ("host", "device", "array", *["reserved"] * boxes)]
    return fields + [(f"{side}_{name}", size) for name in ("pitch", *["rows"] * boxes)]


class Rows(ctypes.Structure):  # cuda.h, CUDA_MEMCPY2D
    _fields_ = end_fields("src", False) + end_fields("dst", False) + [("width", size), ("height", size)]


class Box(ctypes.Structure):  # cuda.h, CUDA_MEMCPY3D
    _fields_ = end_fields("src", True) + end_fields("dst", True) + [(n, size) for n in ("width", "height", "depth")]


@pytest.mark.parametrize("kind", [DEVICE, UNIFIED])
def test_boxes_go_to_the_device_and_rows_come_back(kind):
    host = np.arange(4 * 6 * 10, dtype=np.uint8).reshape(4, 6, 10)
    error, at = given("cuMemAlloc_v2", size(3 * 5 * 16), kind=pointer)
    assert error == SUCCESS
    assert cuda().cuMemsetD8_v2(pointer(at), 255, size(3 * 5 * 16)) == SUCCESS
    box = Box(src_x=2, src_y=1, src_z=1, src_type=HOST, src_host=host.ctypes.data, src_pitch=10, src_rows=6)
    box.dst_x, box.dst_y, box.dst_z, box.dst_type, box.dst_device = 3, 1, 1, kind, at
    box.dst_pitch, box.dst_rows, box.width, box.height, box.depth = 16, 5, 7, 4, 2
    assert cuda().cuMemcpy3D_v2(ctypes.byref(box)) == SUCCESS
    wanted = np.full((3, 5, 16), 255, np.uint8)
    wanted[1:3, 1:5, 3:10] = host[1:3, 1:5, 2:9]

    back = np.zeros((14, 20), np.uint8)
    rows = Rows(src_x=1, src_y=2, src_type=kind, src_device=at, src_pitch=16, width=14, height=12)
    rows.dst_x, rows.dst_y, rows.dst_type, rows.dst_host, rows.dst_pitch = 5, 1, HOST, back.ctypes.data, 20
    for call in ("cuMemcpy2D_v2", "cuMemcpy2DUnaligned_v2"):
        back[:] = 0
        assert getattr(cuda(), call)(ctypes.byref(rows)) == SUCCESS
        assert np.array_equal(back[1:13, 5:19], wanted.reshape(15, 16)[2:14, 1:15])
        assert np.count_nonzero(back) == np.count_nonzero(back[1:13, 5:19])

    rows.src_pitch = 14  # one byte less than x and width
    assert cuda().cuMemcpy2DAsync_v2(ctypes.byref(rows), None) == INVALID_VALUE
    box.dst_rows = 4
    assert cuda().cuMemcpy3DAsync_v2(ctypes.byref(box), None) == INVALID_VALUE
    box.dst_type = ARRAY
    assert cuda().cuMemcpy3D_v2(ctypes.byref(box)) == NOT_SUPPORTED
    assert cuda().cuMemFree_v2(pointer(at)) == SUCCESS


def test_streams_have_ids_of_their_own():
    streams = [None, *(pointer(given("cuStreamCreate", 0, kind=pointer)[1]) for _ in range(2))]
    wide = ctypes.c_ulonglong
    ids = [wide() for _ in streams]
    assert [cuda().cudaStreamGetId(s, ctypes.byref(i)) for s, i in zip(streams, ids, strict=True)] == [SUCCESS] * 3
    assert len({i.value for i in ids}) == 3
    again = wide()
    assert cuda().cuStreamGetId(streams[1], ctypes.byref(again)) == SUCCESS
    assert again.value == ids[1].value
    for stream in streams[1:]:
        assert cuda().cuStreamDestroy_v2(stream) == SUCCESS
