"""The driver's functions that encode tensor maps: which argument goes into which field, and error numbers."""

from __future__ import annotations

import ctypes
from functools import cache

import pytest

from simulator.tests.asynchronous.test_map_rules import FIVE, FOUR, MEMORY, WIDE, encode
from simulator.tests.sim_kit import built, nvcc

SUCCESS, INVALID_VALUE, NOT_SUPPORTED = 0, 1, 801  # cuda.h, CUresult
PLAIN = {"interleave": 0, "swizzle": 0, "promotion": 2, "fill": 1}


@cache
def driver() -> ctypes.CDLL:
    nvcc()  # the shim is built where CUDA's headers are
    return ctypes.CDLL(str(built("cuda/libptxsim_cuda.so")))


def numbers(values, kind=ctypes.c_uint32):
    return (kind * len(values))(*values)


def call(name: str, described: dict, middle: list, wide: list = [], off: int | None = 0) -> tuple[int, bytes]:  # noqa: B006
    """The error number and the map, which lies `off` bytes behind an aligned address (None: it has no address)."""
    m = PLAIN | described
    out = (ctypes.c_uint8 * 192)()
    at = -ctypes.addressof(out) % 64
    head = [
        ctypes.c_void_p(None if off is None else ctypes.addressof(out) + at + off),
        m["data_type"],
        ctypes.c_uint32(m["rank"]),
        ctypes.c_void_p(MEMORY.ctypes.data),
        numbers(m["sizes"], ctypes.c_uint64),
        numbers(m["strides"], ctypes.c_uint64),
    ]
    tail = [numbers(m["element_strides"]), m["interleave"], *wide, m["swizzle"], m["promotion"], m["fill"]]
    return getattr(driver(), name)(*head, *middle, *tail), bytes(out[at : at + 128])


@pytest.mark.parametrize("described", [FOUR, FIVE], ids=["4d", "5d"])
def test_im2col_maps_have_their_corners_from_the_width_on(described):
    spatial = described["rank"] - 2
    lower, upper = [-1, -2, -3][:spatial], [4, 5, 6][:spatial]
    described = {
        "data_type": 7,
        **described,
        "lower": lower,
        "upper": upper,
        "element_strides": [1, 2, 3, 1, 1][: spatial + 2],
    }
    middle = [numbers(lower, ctypes.c_int), numbers(upper, ctypes.c_int), ctypes.c_uint32(16), ctypes.c_uint32(64)]
    number, image = call("cuTensorMapEncodeIm2col", described, middle)
    assert number == SUCCESS
    assert image == encode(**PLAIN | described)[0]
    lower[0] = -1000
    middle[0] = numbers(lower, ctypes.c_int)
    assert call("cuTensorMapEncodeIm2col", described, middle)[0] == INVALID_VALUE
    assert call("cuTensorMapEncodeIm2col", described | {"interleave": 1}, middle)[0] == NOT_SUPPORTED
    assert call("cuTensorMapEncodeIm2col", described | {"interleave": 3}, middle)[0] == INVALID_VALUE


def test_maps_for_im2col_w():
    described = {"data_type": 7, **WIDE, "lower": [-300], "upper": [299]}
    middle = [-300, 299, ctypes.c_uint32(16), ctypes.c_uint32(64)]
    number, image = call("cuTensorMapEncodeIm2colWide", described, middle, wide=[0])
    assert number == SUCCESS
    assert image == encode(**PLAIN | described)[0]
    assert call("cuTensorMapEncodeIm2colWide", described | {"swizzle": 0}, middle, wide=[0])[0] == INVALID_VALUE
    assert call("cuTensorMapEncodeIm2colWide", described, middle, wide=[1])[0] == NOT_SUPPORTED  # .w::128


def test_a_tiled_map_and_its_new_address():
    described = {"data_type": 7, "rank": 2, "sizes": [64, 8], "strides": [256], "element_strides": [4, 1]}
    number, image = call("cuTensorMapEncodeTiled", described, [numbers([16, 8])])
    assert number == SUCCESS
    assert image == encode(**PLAIN | described | {"box": [16, 8]})[0]
    for off in (None, 16, 32):  # the map itself is aligned to 64 bytes
        assert call("cuTensorMapEncodeTiled", described, [numbers([16, 8])], off=off)[0] == INVALID_VALUE
    for steps in ([0, 1], [1, 0], [9, 1], [1, 9]):
        changed = described | {"element_strides": steps}
        assert call("cuTensorMapEncodeTiled", changed, [numbers([16, 8])])[0] == INVALID_VALUE
    for offset, number in ((64, SUCCESS), (8, INVALID_VALUE)):
        place = ctypes.create_string_buffer(image, 128)
        assert driver().cuTensorMapReplaceAddress(place, ctypes.c_void_p(MEMORY.ctypes.data + offset)) == number
        moved = encode(MEMORY.ctypes.data + 64, **PLAIN | described | {"box": [16, 8]})[0]
        assert (place.raw == moved) == (number == SUCCESS)
