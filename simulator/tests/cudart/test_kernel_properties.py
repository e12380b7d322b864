"""Attributes and occupancy of kernels on an H200: 2048 threads, 32 blocks, 64 K registers and 228 KB of shared memory
in an SM, 227 KB in a block, 1 KB of it reserved (CUDA C++ Programming Guide, compute capability 9.0)."""

from __future__ import annotations

import ctypes

import pytest

from simulator.tests.cudart.test_other_calls import INVALID_VALUE, SUCCESS, cuda, given, pointer, size

TEXT = b""".version 9.0
.target sm_90a
.address_size 64
.const .align 4 .b8 table[24];
.visible .entry bounded() .maxntid 128, 2, 1 .minnctapersm 4 {
.reg .b32 %r<3>; .shared .align 4 .b8 room[1000]; .shared .align 4 .b8 unused[64]; .local .align 8 .b8 depot[48];
ld.shared.u32 %r1, [room]; st.local.u32 [depot], %r1; ret;
}
.visible .entry few() .maxnreg 40 { ret; }
.visible .entry free() { ret; }
.visible .entry large() {
.reg .b32 %r<3>; .shared .align 4 .b8 hall[40000];
ld.shared.u32 %r1, [hall]; ret;
}
"""
INVALID_FUNCTION = 98  # driver_types.h, cudaErrorInvalidDeviceFunction
BLOCKS = "OccupancyMaxActiveBlocksPerMultiprocessor"


@pytest.fixture(scope="module")
def kernel():
    error, module = given("cuModuleLoadData", TEXT, kind=pointer)
    assert error == SUCCESS
    return lambda name: pointer(given("cuModuleGetFunction", pointer(module), name, kind=pointer)[1])


class Attributes(ctypes.Structure):  # driver_types.h, cudaFuncAttributes
    _fields_ = [(name, size) for name in ("shared", "constant", "local")]
    _fields_ += [(name, ctypes.c_int) for name in ("threads", "registers", "ptx", "binary", "cache", "dynamic")]
    _fields_ += [("rest", ctypes.c_int * 32)]


def attributes(function: pointer) -> Attributes:
    known = Attributes()
    assert cuda().cudaFuncGetAttributes(ctypes.byref(known), function) == SUCCESS
    return known


def test_attributes_follow_the_ptx(kernel):
    known = attributes(kernel(b"bounded"))
    assert (known.shared, known.constant, known.local) == (1000, 24, 48)
    assert (known.threads, known.registers) == (256, 64)  # 64 K registers for 4 blocks of 256 threads
    assert (known.ptx, known.binary, known.dynamic) == (90, 90, (48 << 10) - 1000)
    assert (attributes(kernel(b"few")).threads, attributes(kernel(b"few")).registers) == (1024, 40)
    assert attributes(kernel(b"free")).registers == 64  # lets a block of 1024 threads start
    of_driver = [given("cuFuncGetAttribute", attribute, kernel(b"bounded")) for attribute in range(7)]
    assert of_driver == [(SUCCESS, value) for value in (256, 1000, 24, 48, 64, 90, 90)]


@pytest.mark.parametrize(("name", "static"), [(b"large", 40000), (b"free", 0)])
def test_static_and_dynamic_shared_memory_have_one_limit(kernel, name, static):
    launch = cuda().cuLaunchKernel
    dynamic = 8  # cudaFuncAttributeMaxDynamicSharedMemorySize
    function = kernel(name)
    for limit in (48 << 10, 227 << 10):
        for over, error in ((1, INVALID_VALUE), (0, SUCCESS)):
            if limit == 227 << 10:
                assert cuda().cudaFuncSetAttribute(function, dynamic, limit - static + over) == error
            assert launch(function, 1, 1, 1, 32, 1, 1, limit - static + over, None, None, None) == error
        assert attributes(function).dynamic == limit - static


@pytest.mark.parametrize(
    ("name", "threads", "dynamic", "blocks"),
    [
        (b"free", 256, 0, 8),
        (b"free", 1, 0, 32),
        (b"free", 33, 0, 32),
        (b"free", 1024, 0, 2),
        (b"free", 96, 0, 21),
        (b"free", 128, 56 << 10, 4),  # 4 x 57 KB
        (b"free", 128, (56 << 10) + 1, 3),
        (b"free", 32, 227 << 10, 1),
        (b"free", 32, (227 << 10) + 1, 0),
        (b"large", 32, 0, 5),  # 41 088 bytes with what is reserved
        (b"large", 32, 227 << 10, 0),
        (b"bounded", 257, 0, 0),
    ],
)
def test_blocks_of_an_sm_follow_threads_and_shared_memory(kernel, name, threads, dynamic, blocks):
    for call in ("cu" + BLOCKS, "cuda" + BLOCKS):
        assert given(call, kernel(name), threads, size(dynamic)) == (SUCCESS, blocks)
        assert given(call + "WithFlags", kernel(name), threads, size(dynamic), 0) == (SUCCESS, blocks)


def test_a_kernel_has_its_name(kernel):
    assert given("cudaFuncGetName", kernel(b"few"), kind=ctypes.c_char_p, before=b"") == (SUCCESS, b"few")
    assert given("cudaFuncGetName", pointer(8), kind=ctypes.c_char_p, before=b"") == (INVALID_FUNCTION, None)


def test_occupancy_needs_threads(kernel):
    assert given("cuda" + BLOCKS, kernel(b"free"), 0, size(0)) == (INVALID_VALUE, 0)


def test_a_cooperative_launch_has_as_many_blocks_as_fit(kernel):
    too_large = 720  # driver_types.h, cudaErrorCooperativeLaunchTooLarge
    for grid, error in ((132 * 5, SUCCESS), (132 * 5 + 1, too_large)):
        run = (kernel(b"large"), grid, 1, 1, 32, 1, 1, 0, None, None)
        assert cuda().cuLaunchCooperativeKernel(*run) == error


def test_occupancy_of_shared_memory_and_clusters():
    call = "cudaOccupancyAvailableDynamicSMemPerBlock"
    for blocks, left in ((1, 227 << 10), (2, 113 << 10), (4, 56 << 10)):
        assert given(call, None, blocks, 128, kind=size) == (SUCCESS, left)
    assert given(call, None, 0, 128, kind=size) == (INVALID_VALUE, 0)
    assert given("cudaOccupancyMaxPotentialClusterSize", None, None) == (SUCCESS, 8)
