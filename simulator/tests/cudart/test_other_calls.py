"""Calls of the runtime and the driver besides launches: their results and error numbers.

Error numbers are from driver_types.h and cuda.h, properties of chips from the CUDA C++ Programming Guide and data
sheets.
"""

from __future__ import annotations

import ctypes
import json
import os
import subprocess
import sys
from functools import cache

import pytest

from simulator.tests.sim_kit import ROOT, built, nvcc

SUCCESS, INVALID_VALUE, INVALID_DEVICE, INVALID_HANDLE, NOT_FOUND = 0, 1, 101, 400, 500
ALREADY_REGISTERED, NOT_REGISTERED = 712, 713
MIB = 1 << 20


@cache
def cuda() -> ctypes.CDLL:
    nvcc()  # the shim is built where CUDA's headers are
    return ctypes.CDLL(str(built("cuda/libptxsim_cuda.so")))


@pytest.fixture(autouse=True)
def _no_error_is_left():
    yield
    cuda().cudaGetLastError()


def given(call: str, *arguments, kind=ctypes.c_int, before=-1) -> tuple[int, int]:
    """A call's error, and what it wrote where its first argument points."""
    out = kind(before)
    error = getattr(cuda(), call)(ctypes.byref(out), *arguments)
    return error, out.value


pointer = ctypes.c_void_p
size = ctypes.c_size_t


# ---- the device ----

ATTRIBUTES = (
    "import ctypes, json, sys; cuda = ctypes.CDLL(sys.argv[1]); value = ctypes.c_int()\n"
    "def of(i):\n cuda.cudaDeviceGetAttribute(ctypes.byref(value), i, 0); return value.value\n"
    "name = ctypes.create_string_buffer(64); cuda.cuDeviceGetName(name, 64, 0); total = ctypes.c_size_t()\n"
    "cuda.cuDeviceTotalMem_v2(ctypes.byref(total), 0)\n"
    "print(json.dumps([name.value.decode(), total.value, {i: v for i in range(150) if (v := of(i))}]))"
)
# Threads a block, its dimensions, the grid's, shared memory a block, warp, registers a block, ...
OF_ALL = {1: 1024, 2: 1024, 3: 1024, 4: 64, 5: 2**31 - 1, 6: 65535, 7: 65535, 8: 48 << 10, 10: 32, 12: 65536}
OF_ALL |= {31: 1, 41: 1, 82: 65536, 83: 1, 95: 1, 111: 1024}  # concurrent kernels, ..., reserved shared memory
OF_ALL |= {115: 1, 120: 1}  # memory pools, cluster launch
OF_ALL |= {9: 65536, 11: 2**31 - 1, 14: 512, 15: 1, 30: 512, 51: 32}  # constants, pitch, alignment of textures, ...
OF_ALL |= {78: 1, 79: 1, 80: 1, 90: 1}  # priorities of streams, L1 for global and local memory, preemption
# Textures and surfaces of one, two, three dimensions; in layers; cubes.
OF_ALL |= {21: 131072, 22: 131072, 23: 65536, 24: 16384, 25: 16384, 26: 16384, 69: 2**28, 77: 32768}
OF_ALL |= {42: 32768, 43: 2048, 27: 32768, 28: 32768, 29: 2048, 45: 32768, 46: 32768, 47: 8192, 48: 8192, 49: 32768}
OF_ALL |= {52: 32768, 53: 32768, 54: 2046, 70: 131072, 71: 65000, 72: 2097120, 73: 32768, 74: 32768}
OF_ALL |= {55: 32768, 56: 131072, 57: 65536, 58: 16384, 59: 16384, 60: 16384, 61: 32768, 62: 2048}
OF_ALL |= {63: 32768, 64: 32768, 65: 2048, 66: 32768, 67: 32768, 68: 2046}
OF_ALL |= {19: 1, 89: 1, 99: 1}  # mapped host memory, managed memory beside the host, cudaHostRegister
CHIPS = {  # SMs, L2's bytes, threads, capability, shared memory an SM, a block at most, blocks an SM; memory
    "h200": (
        "simulated H200",
        {16: 132, 40: 3, 38: 50 * MIB, 39: 2048, 75: 9, 81: 228 << 10, 97: 227 << 10, 106: 32},
        141,
    ),
    "rtx5090": ("simulated RTX 5090", {16: 170, 38: 96 * MIB, 39: 1536, 75: 12, 81: 100 << 10, 97: 99 << 10}, 32),
    "gb10": ("simulated GB10", {16: 48, 38: 24 * MIB, 39: 1536, 75: 12, 76: 1, 81: 100 << 10, 97: 99 << 10}, 128),
    "b200": ("simulated B200", {16: 148, 38: 126 * MIB, 39: 2048, 75: 10, 81: 228 << 10, 97: 227 << 10, 106: 32}, 192),
}


@pytest.mark.parametrize("chip", CHIPS)
def test_a_chip_has_its_properties_and_no_other(chip):
    nvcc()
    command = [sys.executable, "-c", ATTRIBUTES, str(built("cuda/libptxsim_cuda.so"))]
    environment = os.environ | {"NVFP4_SIMULATE_CHIP": chip}
    printed = subprocess.run(command, env=environment, capture_output=True, text=True, check=True, cwd=ROOT).stdout
    name, total, attributes = json.loads(printed)
    product, own, memory_gb = CHIPS[chip]
    attributes = {int(at): value for at, value in attributes.items()}
    assert (name, total) == (product, memory_gb * 10**9)
    assert attributes == OF_ALL | {106: 24, 40: 2} | own


def test_there_is_one_device_and_no_peer():
    assert given("cuDeviceGetCount") == (SUCCESS, 1)
    assert given("cuDeviceGet", 0) == (SUCCESS, 0)
    assert given("cuDeviceGet", 1)[0] == INVALID_DEVICE
    assert given("cuCtxGetDevice") == (SUCCESS, 0)
    assert given("cudaDeviceCanAccessPeer", 0, 0) == (SUCCESS, 0)
    assert given("cudaDeviceCanAccessPeer", 0, 1) == given("cudaDeviceCanAccessPeer", 1, 0) == (INVALID_DEVICE, 0)
    assert cuda().cudaDeviceEnablePeerAccess(0, 0) == INVALID_DEVICE
    assert [cuda().cudaInitDevice(at, 0, 0) for at in (0, 1)] == [SUCCESS, INVALID_DEVICE]
    name = ctypes.create_string_buffer(b"kept", 8)
    assert cuda().cuDeviceGetName(name, 8, 1) == INVALID_DEVICE
    assert name.value == b"kept"
    assert cuda().cuDeviceGetName(name, 8, 0) == SUCCESS
    assert name.value == b"simulat"


def test_settings_without_a_meaning_here_are_accepted():
    library = cuda()
    flags = ctypes.c_uint(7)
    assert library.cudaDeviceSetLimit(0, size(4096)) == library.cudaSetDeviceFlags(4) == SUCCESS
    assert given("cudaDeviceGetLimit", 0, kind=size, before=9) == (SUCCESS, 4096)
    assert library.cudaGetDeviceFlags(ctypes.byref(flags)) == SUCCESS
    assert flags.value == 0
    assert library.cudaDeviceSetCacheConfig(1) == library.cudaFuncSetCacheConfig(None, 1) == SUCCESS
    assert library.cudaCtxResetPersistingL2Cache() == library.cuFuncSetCacheConfig(None, 1) == SUCCESS
    assert library.cudaProfilerStart() == library.cudaProfilerStop() == SUCCESS
    assert library.cudaStreamSetAttribute(None, 1, None) == SUCCESS


def test_hints_about_where_memory_lies_succeed_and_change_nothing():
    at = memory()
    ctypes.memset(at, 7, 64)
    for call in ("cudaMemPrefetchAsync", "cudaMemAdvise", "cuMemPrefetchAsync", "cuMemPrefetchAsync_v2", "cuMemAdvise"):
        assert getattr(cuda(), call)(pointer(at), size(64), 0, 0, None) == SUCCESS
    assert ctypes.string_at(at, 64) == b"\x07" * 64
    assert cuda().cudaGetLastError() == SUCCESS
    assert cuda().cudaFree(pointer(at)) == SUCCESS


def test_there_is_one_context_and_it_is_current():
    contexts = []
    for call in (["cuCtxCreate_v4", None, 0, 0], ["cuDevicePrimaryCtxRetain", 0], ["cuCtxGetCurrent"]):
        error, context = given(call[0], *call[1:], kind=pointer)
        assert error == SUCCESS
        contexts.append(context)
    error, context = given("cuCtxPopCurrent_v2", kind=pointer)
    assert (error, {*contexts, context}) == (SUCCESS, {context})
    assert context is not None
    for call in ("cuCtxPushCurrent_v2", "cuCtxSetCurrent", "cuCtxDestroy_v2"):
        assert getattr(cuda(), call)(pointer(context)) == SUCCESS
    assert given("cuDevicePrimaryCtxRetain", 1)[0] == INVALID_DEVICE
    assert [cuda().cuDevicePrimaryCtxRelease_v2(at) for at in (0, 1)] == [SUCCESS, INVALID_DEVICE]
    flags, active = ctypes.c_uint(5), ctypes.c_int(5)
    assert cuda().cuDevicePrimaryCtxGetState(0, ctypes.byref(flags), ctypes.byref(active)) == SUCCESS
    assert (flags.value, active.value) == (0, 1)


def test_errors_have_their_names_and_an_unknown_number_has_none():
    for number, name, text in (
        (0, "CUDA_SUCCESS", "no error"),
        (1, "CUDA_ERROR_INVALID_VALUE", "invalid argument"),
        (2, "CUDA_ERROR_OUT_OF_MEMORY", "out of memory"),
        (101, "CUDA_ERROR_INVALID_DEVICE", "invalid device ordinal"),
        (200, "CUDA_ERROR_INVALID_IMAGE", "device kernel image is invalid"),
        (301, "CUDA_ERROR_FILE_NOT_FOUND", "file not found"),
        (400, "CUDA_ERROR_INVALID_HANDLE", "invalid resource handle"),
        (500, "CUDA_ERROR_NOT_FOUND", "named symbol not found"),
        (710, "CUDA_ERROR_ASSERT", "device-side assert triggered"),
        (719, "CUDA_ERROR_LAUNCH_FAILED", "the simulator found an error; see its report"),
        (720, "CUDA_ERROR_COOPERATIVE_LAUNCH_TOO_LARGE", "too many blocks in cooperative launch"),
        (801, "CUDA_ERROR_NOT_SUPPORTED", "operation not supported by the simulator"),
        (912, "CUDA_ERROR_INVALID_CLUSTER_SIZE", "cluster size is too large for the kernel or its configuration"),
    ):
        for call, expected in (("cuGetErrorName", name), ("cuGetErrorString", text)):
            out = ctypes.c_char_p(b"before")
            assert getattr(cuda(), call)(number, ctypes.byref(out)) == SUCCESS
            assert out.value.decode() == expected
    for number in (13, 98, 123456):  # the first two are the runtime's alone
        for call in ("cuGetErrorName", "cuGetErrorString"):
            out = ctypes.c_char_p(b"before")
            assert getattr(cuda(), call)(number, ctypes.byref(out)) == INVALID_VALUE
            assert out.value is None


def test_functions_are_found_by_name_with_or_without_a_version():
    where = ctypes.cast(cuda().cuMemAlloc_v2, pointer).value
    for name in (b"cuMemAlloc", b"cuMemAlloc_v2", b"cuMemAlloc_ptsz"):
        entry, found = pointer(), ctypes.c_int(-1)
        assert cuda().cuGetProcAddress_v2(name, ctypes.byref(entry), 12000, size(0), ctypes.byref(found)) == SUCCESS
        assert (entry.value, found.value) == (where, 0)
        assert cuda().cuGetProcAddress_v2(name, ctypes.byref(entry), 12000, size(0), None) == SUCCESS
        entry = pointer()
        assert cuda().cudaGetDriverEntryPoint(name, ctypes.byref(entry), size(0), ctypes.byref(found)) == SUCCESS
        assert (entry.value, found.value) == (where, 0)
    for name in (b"cuMemAllo", b"cuMemAllocX", b"cuNothing_v2"):
        entry, found = pointer(5), ctypes.c_int(-1)
        assert cuda().cuGetProcAddress_v2(name, ctypes.byref(entry), 12000, size(0), ctypes.byref(found)) == NOT_FOUND
        assert (entry.value, found.value) == (None, 1)
        entry = pointer(5)
        assert cuda().cudaGetDriverEntryPoint(name, ctypes.byref(entry), size(0), ctypes.byref(found)) == SUCCESS
        assert (entry.value, found.value) == (None, 1)


# ---- memory ----


def memory(call: str = "cudaMalloc", *arguments, count: int = 1536) -> int:
    error, address = given(call, size(count), *arguments, kind=pointer)
    assert error == SUCCESS
    assert address is not None
    return address


@pytest.mark.parametrize(
    ("get", "arguments", "free"),
    [
        ("cudaMallocManaged", (1,), "cudaFree"),
        ("cudaHostAlloc", (0,), "cudaFreeHost"),
        ("cudaMallocHost", (), "cudaFreeHost"),
        ("cuMemAllocManaged", (1,), "cuMemFree_v2"),
        ("cuMemHostAlloc", (0,), "cuMemFreeHost"),
        ("cuMemAllocHost_v2", (), "cuMemFreeHost"),
        ("cuMemAlloc_v2", (), "cuMemFree_v2"),
    ],
)
def test_memory_of_every_kind_is_writable_and_is_freed_once(get, arguments, free):
    address = memory(get, *arguments)
    if get != "cuMemAlloc_v2":  # pages of the host: zero at first
        assert ctypes.string_at(address, 1536) == bytes(1536)
    assert cuda().cudaMemset(pointer(address), 0x5A, size(1536)) == SUCCESS
    assert ctypes.string_at(address, 1536) == b"\x5a" * 1536
    assert getattr(cuda(), free)(pointer(address)) == SUCCESS
    assert getattr(cuda(), free)(pointer(address)) == INVALID_VALUE
    assert getattr(cuda(), free)(None) == SUCCESS


def test_rows_lie_a_pitch_apart_and_only_their_width_is_set_and_copied():
    base, pitch = pointer(), size()
    assert cuda().cudaMallocPitch(ctypes.byref(base), ctypes.byref(pitch), size(513), size(3)) == SUCCESS
    assert pitch.value == 1024
    assert cuda().cudaMemset(base, 1, size(3 * 1024)) == SUCCESS
    assert cuda().cudaMemset2D(base, pitch, 7, size(513), size(2)) == SUCCESS
    row = b"\x07" * 513 + b"\x01" * 511
    assert ctypes.string_at(base.value, 3 * 1024) == row * 2 + b"\x01" * 1024
    assert cuda().cudaMemset2DAsync(base, pitch, 9, size(2), size(1), None) == SUCCESS
    packed = (ctypes.c_uint8 * 1024)()
    for call, last in (("cudaMemcpy2D", ()), ("cudaMemcpy2DAsync", (None,))):
        ctypes.memset(packed, 0, 1024)
        copy = getattr(cuda(), call)
        assert copy(packed, size(4), base, pitch, size(3), size(3), 2, *last) == SUCCESS
        assert bytes(packed)[:13] == b"\x09\x09\x07\x00\x07\x07\x07\x00\x01\x01\x01\x00\x00"
    assert cuda().cudaFree(base) == SUCCESS


def test_copies_go_in_the_requested_direction():
    one, other = memory(), memory()
    for call, arguments in (
        ("cuMemcpy", ()),
        ("cuMemcpyAsync", (None,)),
        ("cuMemcpyDtoD_v2", ()),
        ("cuMemcpyDtoDAsync_v2", (None,)),
    ):
        ctypes.memset(one, 0, 64)
        ctypes.memset(other, len(call), 64)
        assert getattr(cuda(), call)(pointer(one), pointer(other), size(63), *arguments) == SUCCESS
        assert cuda().cuCtxSynchronize() == SUCCESS
        assert ctypes.string_at(one, 64) == bytes([len(call)]) * 63 + b"\0"
    for call, arguments in (("cudaMemcpyPeer", ()), ("cudaMemcpyPeerAsync", (None,))):
        ctypes.memset(one, 0, 64)
        copy = getattr(cuda(), call)
        for devices in ((1, 0), (0, 1), (1, 1)):
            wrong = copy(pointer(one), devices[0], pointer(other), devices[1], size(8), *arguments)
            assert wrong == INVALID_DEVICE
        assert ctypes.string_at(one, 8) == bytes(8)
        assert copy(pointer(one), 0, pointer(other), 0, size(7), *arguments) == SUCCESS
        assert ctypes.string_at(one, 8) == ctypes.string_at(other, 7) + b"\0"
    assert cuda().cudaFree(pointer(one)) == cuda().cudaFree(pointer(other)) == SUCCESS


def test_host_memory_is_registered_once_under_its_own_address():
    own = ctypes.create_string_buffer(4096)
    assert given("cudaHostGetDevicePointer", own, 0, kind=pointer) == (SUCCESS, ctypes.addressof(own))
    assert cuda().cudaHostUnregister(own) == NOT_REGISTERED
    assert cuda().cudaHostRegister(own, size(4096), 0) == SUCCESS
    assert cuda().cudaHostRegister(own, size(4096), 0) == ALREADY_REGISTERED
    assert cuda().cudaHostUnregister(own) == SUCCESS
    assert cuda().cudaHostUnregister(own) == NOT_REGISTERED


def test_attributes_of_an_address():
    at = memory()
    for attribute, kind, value in (
        (2, ctypes.c_uint, 2),
        (3, pointer, at),
        (8, ctypes.c_uint, 0),
        (9, ctypes.c_int, 0),
    ):
        out = kind(7)
        assert cuda().cuPointerGetAttribute(ctypes.byref(out), attribute, pointer(at)) == SUCCESS
        assert out.value == value
        assert cuda().cuPointerGetAttribute(ctypes.byref(out), attribute, pointer(8)) == INVALID_VALUE
    assert cuda().cuPointerGetAttribute(ctypes.byref(pointer()), 4, pointer(at)) == INVALID_VALUE  # no host address
    assert cuda().cuPointerGetAttribute(ctypes.byref(pointer()), 5, pointer(at)) not in (SUCCESS, INVALID_VALUE)
    assert cuda().cudaFree(pointer(at)) == SUCCESS


def test_the_pool_stores_attributes_by_their_width():
    error, pool = given("cudaDeviceGetMemPool", 0, kind=pointer)
    assert error == SUCCESS
    assert given("cudaDeviceGetDefaultMemPool", 0, kind=pointer) == (SUCCESS, pool)
    assert given("cudaDeviceGetMemPool", 1, kind=pointer)[0] == INVALID_DEVICE
    assert [cuda().cudaDeviceSetMemPool(at, pointer(pool)) for at in (0, 1)] == [SUCCESS, INVALID_DEVICE]
    for call in ("cudaMemPoolTrimTo", "cudaMemPoolDestroy"):
        assert getattr(cuda(), call)(pointer(pool), size(0)) == SUCCESS
        assert getattr(cuda(), call)(None, size(0)) == INVALID_VALUE
    large = 0x1234567890ABCDEF
    for attribute, kept in ((1, 0x90ABCDEF), (2, 0x90ABCDEF), (3, 0x90ABCDEF), (4, large), (7, large)):
        value, back = ctypes.c_uint64(large), ctypes.c_uint64(0)
        assert cuda().cudaMemPoolSetAttribute(pointer(pool), attribute, ctypes.byref(value)) == SUCCESS
        assert cuda().cudaMemPoolGetAttribute(pointer(pool), attribute, ctypes.byref(back)) == SUCCESS
        assert back.value == kept
    for call in ("cudaMemPoolSetAttribute", "cudaMemPoolGetAttribute"):
        assert getattr(cuda(), call)(pointer(pool), 16, ctypes.byref(back)) == INVALID_VALUE
        assert getattr(cuda(), call)(None, 4, ctypes.byref(back)) == INVALID_VALUE


# ---- queues and events ----


def test_queues_have_priorities_and_capture_nothing():
    least, greatest = ctypes.c_int(9), ctypes.c_int(9)
    assert cuda().cudaDeviceGetStreamPriorityRange(ctypes.byref(least), ctypes.byref(greatest)) == SUCCESS
    assert (least.value, greatest.value) == (0, -5)
    error, queue = given("cudaStreamCreateWithPriority", 1, -3, kind=pointer)
    assert error == SUCCESS
    status, priority, flags = ctypes.c_int(9), ctypes.c_int(9), ctypes.c_uint(9)
    assert cuda().cudaStreamIsCapturing(pointer(queue), ctypes.byref(status)) == SUCCESS
    assert cuda().cudaStreamGetPriority(pointer(queue), ctypes.byref(priority)) == SUCCESS
    assert cuda().cudaStreamGetFlags(pointer(queue), ctypes.byref(flags)) == SUCCESS
    assert (status.value, priority.value, flags.value) == (0, -3, 1)
    assert cuda().cudaStreamGetPriority(None, ctypes.byref(priority)) == SUCCESS
    assert cuda().cudaStreamGetFlags(None, ctypes.byref(flags)) == SUCCESS
    assert (priority.value, flags.value) == (0, 0)
    assert cuda().cuStreamQuery(pointer(queue)) == cuda().cudaStreamQuery(pointer(queue)) == SUCCESS
    assert cuda().cudaStreamDestroy(pointer(queue)) == SUCCESS
    mode = ctypes.c_int(2)
    seen = []
    for _ in range(2):
        assert cuda().cudaThreadExchangeStreamCaptureMode(ctypes.byref(mode)) == SUCCESS
        seen.append(mode.value)
    assert seen == [0, 2]  # global at first, then the mode set before


def test_events_are_recorded_queried_and_waited_for():
    error, event = given("cudaEventCreate", kind=pointer)
    assert error == SUCCESS
    assert cuda().cudaEventRecordWithFlags(pointer(event), None, 0) == SUCCESS
    assert cuda().cuEventSynchronize(pointer(event)) == cuda().cuEventQuery(pointer(event)) == SUCCESS
    assert cuda().cudaEventDestroy(pointer(event)) == SUCCESS


# ---- libraries of PTX ----

TEXT = b""".version 9.0
.target sm_90a
.address_size 64
.visible .global .align 4 .u32 table[6];
.visible .entry twice(.param .u64 p) {
.reg .b64 %rd<2>; .reg .b32 %r<2>;
ld.param.u64 %rd1, [p]; ld.global.u32 %r1, [%rd1]; add.u32 %r1, %r1, %r1; st.global.u32 [%rd1], %r1; ret;
}
.visible .entry nothing() { ret; }
"""


def loaded(call: str) -> int:
    error, library = given(call, TEXT, *([None] * 2 + [0] + [None] * 2 + [0]), kind=pointer)
    assert error == SUCCESS
    return library


@pytest.mark.parametrize("load", ["cudaLibraryLoadData", "cuLibraryLoadData"])
def test_a_librarys_kernels_and_variables_are_found_by_name(load):
    library = pointer(loaded(load))
    error, kernel = given("cuLibraryGetKernel", library, b"twice", kind=pointer)
    assert error == SUCCESS
    assert given("cudaLibraryGetKernel", library, b"twice", kind=pointer) == (SUCCESS, kernel)
    assert given("cuLibraryGetKernel", library, b"thrice", kind=pointer)[0] == NOT_FOUND
    assert given("cuLibraryGetKernelCount", library, kind=ctypes.c_uint, before=0) == (SUCCESS, 2)
    listed = (pointer * 2)()
    assert cuda().cuLibraryEnumerateKernels(listed, 2, library) == SUCCESS
    assert kernel in set(listed)
    assert len(set(listed)) == 2
    assert given("cuLibraryGetModule", library, kind=pointer) == (SUCCESS, library.value)
    assert given("cuKernelGetFunction", pointer(kernel), kind=pointer) == (SUCCESS, kernel)
    assert given("cudaGetFuncBySymbol", pointer(kernel), kind=pointer) == (SUCCESS, kernel)
    assert given("cudaGetKernel", pointer(kernel), kind=pointer) == (SUCCESS, kernel)
    name = ctypes.c_char_p()
    assert cuda().cuKernelGetName(ctypes.byref(name), pointer(kernel)) == SUCCESS
    assert name.value == b"twice"
    for call in ("cuLibraryGetGlobal", "cudaLibraryGetGlobal"):
        address, count = pointer(), size()
        assert getattr(cuda(), call)(ctypes.byref(address), ctypes.byref(count), library, b"table") == SUCCESS
        assert count.value == 24
        assert ctypes.string_at(address.value, 24) == bytes(24)
        wrong = getattr(cuda(), call)(ctypes.byref(address), ctypes.byref(count), library, b"chair")
        assert wrong == NOT_FOUND
        assert getattr(cuda(), call)(ctypes.byref(address), ctypes.byref(count), None, b"table") == INVALID_HANDLE
    assert cuda().cuLibraryUnload(library) == SUCCESS


@pytest.mark.parametrize("load", ["cuModuleLoadDataEx", "cuModuleLoadFatBinary", "cuModuleLoadData"])
def test_a_function_of_a_module_has_attributes_and_runs(load):
    error, module = given(load, TEXT, 0, None, None, kind=pointer)
    assert error == SUCCESS
    error, function = given("cuModuleGetFunction", pointer(module), b"twice", kind=pointer)
    assert error == SUCCESS
    attributes = [given("cuFuncGetAttribute", attribute, pointer(function)) for attribute in (0, 4, 5, 6, 99)]
    assert attributes == [(SUCCESS, 1024), (SUCCESS, 64), (SUCCESS, 90), (SUCCESS, 90), (SUCCESS, 0)]
    assert given("cuKernelGetAttribute", 0, pointer(function), 0) == (SUCCESS, 1024)
    assert given("cuKernelGetAttribute", 0, pointer(function), 1)[0] == INVALID_DEVICE
    at = memory()
    ctypes.memmove(at, (21).to_bytes(4, "little"), 4)
    argument = pointer(at)
    arguments = (pointer * 1)(ctypes.addressof(argument))
    run = (pointer(function), 1, 1, 1, 1, 1, 1, 0, None, arguments, None)
    assert cuda().cuLaunchKernel(*run) == SUCCESS
    assert cuda().cuCtxSynchronize() == SUCCESS
    assert int.from_bytes(ctypes.string_at(at, 4), "little") == 42
    assert cuda().cudaFree(pointer(at)) == SUCCESS
    assert cuda().cuModuleUnload(pointer(module)) == SUCCESS


def test_memory_needs_a_place_for_its_address():
    for call in ("cudaMalloc", "cudaMallocHost"):
        assert getattr(cuda(), call)(None, size(16)) == INVALID_VALUE
