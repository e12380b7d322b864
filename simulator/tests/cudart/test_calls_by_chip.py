"""Calls of the CUDA runtime shim: results, and errors for wrong arguments."""

from __future__ import annotations

import os
import subprocess

import pytest

from simulator.tests.sim_kit import built, nvcc

PROGRAM = r"""
#include <cstdio>
#include <cstring>
#include <cuda.h>
#include <cuda_runtime.h>
__constant__ int scale[4];
__device__ int table[8];
__global__ void write(int *out, int value) { out[blockIdx.x] = value + scale[1] + table[7]; }
__global__ void big(int *out) {
    extern __shared__ int room[];
#ifdef __CUDA_ARCH__
    room[threadIdx.x] = __CUDA_ARCH__;
#endif
    out[0] = room[0];
}
#define SAY(name, call) std::printf("%s=%s\n", name, cudaGetErrorName(call))
#define NUMBER(name, value) std::printf("%s=%lld\n", name, (long long)(value))
static long long attribute(cudaDeviceAttr which) {
    int value = -1;
    (void)cudaDeviceGetAttribute(&value, which, 0);
    return value;
}
static cudaError_t launch(unsigned grid, unsigned cluster, size_t shared, const void *function, void **arguments) {
    cudaLaunchConfig_t config = {};
    cudaLaunchAttribute one = {};
    config.gridDim = dim3(grid);
    config.blockDim = dim3(32);
    config.dynamicSmemBytes = shared;
    one.id = cudaLaunchAttributeClusterDimension;
    one.val.clusterDim = {cluster, 1, 1};
    config.attrs = &one;
    config.numAttrs = cluster != 0;
    return cudaLaunchKernelExC(&config, function, arguments);
}
static int clusters(unsigned x, unsigned y, unsigned z) {
    cudaLaunchConfig_t config = {};
    cudaLaunchAttribute one = {};
    int count = -1;
    one.id = cudaLaunchAttributeClusterDimension;
    one.val.clusterDim = {x, y, z};
    config.gridDim = config.blockDim = dim3(1024); /* two blocks fit into an SM of 2048 threads */
    config.attrs = &one;
    config.numAttrs = 1;
    (void)cudaOccupancyMaxActiveClusters(&count, (const void *)write, &config);
    return count;
}
int main() {
    int number = -1, other = 5, *device = nullptr, host[8] = {1, 2, 3, 4, 5, 6, 7, 8}, back[8] = {};
    void *address = nullptr;
    cudaDeviceProp p;
    size_t bytes = 0, more = 0;
    SAY("count", cudaGetDeviceCount(&number));
    NUMBER("devices", number);
    SAY("get", cudaGetDevice(&number));
    NUMBER("current", number);
    SAY("set 0", cudaSetDevice(0));
    SAY("set 1", cudaSetDevice(1));
    SAY("set -1", cudaSetDevice(-1));
    SAY("kept", cudaPeekAtLastError());
    SAY("taken", cudaGetLastError());
    SAY("gone", cudaGetLastError());
    SAY("properties 1", cudaGetDeviceProperties(&p, 1));
    SAY("attribute 1", cudaDeviceGetAttribute(&number, cudaDevAttrWarpSize, 1));
    SAY("properties", cudaGetDeviceProperties(&p, 0));
    std::printf("name=%s\n", p.name);
    NUMBER("major", attribute(cudaDevAttrComputeCapabilityMajor));
    NUMBER("minor", attribute(cudaDevAttrComputeCapabilityMinor));
    NUMBER("sms", attribute(cudaDevAttrMultiProcessorCount));
    NUMBER("warp", attribute(cudaDevAttrWarpSize));
    NUMBER("optin", attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin));
    NUMBER("shared", attribute(cudaDevAttrMaxSharedMemoryPerBlock));
    NUMBER("sm shared", attribute(cudaDevAttrMaxSharedMemoryPerMultiprocessor));
    NUMBER("reserved", attribute(cudaDevAttrReservedSharedMemoryPerBlock));
    NUMBER("threads", attribute(cudaDevAttrMaxThreadsPerBlock));
    NUMBER("sm threads", attribute(cudaDevAttrMaxThreadsPerMultiProcessor));
    NUMBER("registers", attribute(cudaDevAttrMaxRegistersPerBlock));
    NUMBER("cluster", attribute(cudaDevAttrClusterLaunch));
    NUMBER("multicast", attribute((cudaDeviceAttr)CU_DEVICE_ATTRIBUTE_MULTICAST_SUPPORTED));
    NUMBER("same", p.multiProcessorCount == attribute(cudaDevAttrMultiProcessorCount) && p.warpSize == 32 &&
                       p.maxThreadsDim[2] == 64 && p.maxGridSize[1] == 65535 &&
                       (int)p.sharedMemPerBlockOptin == attribute(cudaDevAttrMaxSharedMemoryPerBlockOptin) &&
                       (int)p.sharedMemPerBlock == attribute(cudaDevAttrMaxSharedMemoryPerBlock) &&
                       p.totalConstMem == 65536 && p.textureAlignment == 512 && p.asyncEngineCount >= 2 &&
                       p.streamPrioritiesSupported && p.maxTexture2D[0] == 131072 && p.maxTexture2D[1] == 65536 &&
                       p.maxTexture3D[2] == 16384 && p.maxSurface2DLayered[2] == 2048 &&
                       p.regsPerBlock == 65536 && p.l2CacheSize > 0);
    SAY("malloc", cudaMalloc((void **)&device, 32));
    NUMBER("aligned", ((size_t)device & 255) == 0);
    SAY("malloc too much", cudaMalloc(&address, (size_t)1 << 60));
    SAY("in", cudaMemcpy(device, host, 32, cudaMemcpyHostToDevice));
    SAY("in too much", cudaMemcpy(device, host, 36, cudaMemcpyHostToDevice));
    SAY("in elsewhere", cudaMemcpy(back, host, 32, cudaMemcpyHostToDevice));
    SAY("out part", cudaMemcpy(back, device + 6, 8, cudaMemcpyDeviceToHost));
    NUMBER("part", back[0] * 100 + back[1]);
    SAY("out too much", cudaMemcpy(back, device + 6, 12, cudaMemcpyDeviceToHost));
    SAY("rows", cudaMemcpy2D(back, 12, device, 16, 8, 2, cudaMemcpyDeviceToHost));
    NUMBER("rows copied", back[0] * 1000 + back[1] * 100 + back[3] * 10 + back[4]);
    SAY("rows too many", cudaMemcpy2D(back, 8, device, 16, 8, 3, cudaMemcpyDeviceToHost));
    SAY("set bytes", cudaMemset(device, 1, 8));
    (void)cudaMemcpy(back, device, 16, cudaMemcpyDeviceToHost);
    NUMBER("bytes set", back[1] == 0x01010101 && back[2] == 3);
    SAY("info", cudaMemGetInfo(&bytes, &more));
    NUMBER("memory", more);
    SAY("symbol", cudaMemcpyToSymbol(scale, host, 16));
    SAY("symbol part", cudaMemcpyToSymbol(scale, host + 6, 4, 4));
    SAY("symbol too much", cudaMemcpyToSymbol(scale, host, 16, 4));
    SAY("symbol far", cudaMemcpyToSymbol(scale, host, 0, 20));
    SAY("from symbol", cudaMemcpyFromSymbol(back, scale, 12));
    NUMBER("symbol value", back[0] * 100 + back[1] * 10 + back[2]);
    SAY("symbol later", cudaMemcpyToSymbolAsync(scale, host + 1, 4, 8, cudaMemcpyHostToDevice, 0));
    SAY("from symbol later", cudaMemcpyFromSymbolAsync(back, scale, 8, 4, cudaMemcpyDeviceToHost, 0));
    NUMBER("symbol later value", back[0] * 10 + back[1]);
    SAY("no symbol", cudaMemcpyToSymbol((const void *)host, host, 4));
    SAY("size", cudaGetSymbolSize(&bytes, table));
    NUMBER("symbol bytes", bytes);
    SAY("no size", cudaGetSymbolSize(&bytes, (const void *)host));
    SAY("address", cudaGetSymbolAddress(&address, table));
    (void)cudaMemset((char *)address + 28, 1, 1);
    SAY("no address", cudaGetSymbolAddress(&address, (const void *)host));
    void *arguments[] = {&device, &other};
    SAY("launch", launch(2, 0, 0, (const void *)write, arguments));
    (void)cudaMemcpy(back, device, 8, cudaMemcpyDeviceToHost);
    NUMBER("written", back[0] * 1000 + back[1]);
    SAY("pair", launch(4, 2, 0, (const void *)write, arguments));
    SAY("odd", launch(3, 2, 0, (const void *)write, arguments));
    SAY("seventeen", launch(17, 17, 0, (const void *)write, arguments));
    SAY("unknown", launch(1, 0, 0, (const void *)host, arguments));
    SAY("no attribute", cudaFuncSetAttribute((const void *)host, cudaFuncAttributeMaxDynamicSharedMemorySize, 1));
    SAY("shared too much", launch(1, 0, 48 * 1024 + 4, (const void *)big, arguments));
    SAY("attribute",
        cudaFuncSetAttribute((const void *)big, cudaFuncAttributeMaxDynamicSharedMemorySize, 99 * 1024));
    SAY("shared", launch(1, 0, 99 * 1024, (const void *)big, arguments));
    (void)cudaMemcpy(back, device, 4, cudaMemcpyDeviceToHost);
    NUMBER("ptx", back[0]);
    SAY("attribute beyond",
        cudaFuncSetAttribute((const void *)big, cudaFuncAttributeMaxDynamicSharedMemorySize, 227 * 1024 + 1));
    cudaFuncAttributes of;
    SAY("attributes", cudaFuncGetAttributes(&of, (const void *)write));
    NUMBER("limit", of.maxDynamicSharedSizeBytes);
    NUMBER("binary", of.binaryVersion);
    NUMBER("block", of.maxThreadsPerBlock);
    SAY("no attributes", cudaFuncGetAttributes(&of, (const void *)host));
    NUMBER("of 1", clusters(1, 1, 1));
    NUMBER("of 2", clusters(2, 1, 1));
    NUMBER("of 4", clusters(2, 2, 1));
    NUMBER("of 16", clusters(4, 2, 2));
    SAY("16 not allowed", launch(16, 16, 128, (const void *)big, arguments));
    (void)cudaFuncSetAttribute((const void *)big, cudaFuncAttributeNonPortableClusterSizeAllowed, 1);
    SAY("17 together", launch(17, 17, 0, (const void *)big, arguments));
    SAY("16 together", launch(16, 16, 128, (const void *)big, arguments));
    (void)cudaGetLastError();
    cudaEvent_t first, second;
    float ms = -1;
    (void)cudaEventCreate(&first);
    (void)cudaEventCreate(&second);
    SAY("unrecorded", cudaEventElapsedTime(&ms, first, second));
    SAY("record", cudaEventRecord(first, 0));
    SAY("half", cudaEventElapsedTime(&ms, first, second));
    SAY("half reversed", cudaEventElapsedTime(&ms, second, first));
    (void)launch(2, 0, 0, (const void *)write, arguments);
    (void)cudaEventRecord(second, 0);
    SAY("elapsed", cudaEventElapsedTime(&ms, first, second));
    NUMBER("positive", ms > 0);
    SAY("backwards", cudaEventElapsedTime(&ms, second, first));
    NUMBER("negative", ms < 0);
    (void)cudaEventCreateWithFlags(&first, cudaEventDisableTiming);
    (void)cudaEventRecord(first, 0);
    SAY("untimed", cudaEventElapsedTime(&ms, first, second));
    SAY("no event", cudaEventRecord(nullptr, 0));
    SAY("no wait", cudaEventSynchronize(nullptr));
    SAY("query", cudaEventQuery(first));
    SAY("free", cudaFree(device));
    SAY("free again", cudaFree(device));
    SAY("free nothing", cudaFree(nullptr));
    SAY("free host", cudaFree(host));
    std::printf("text=%s|%s|%s\n", cudaGetErrorString(cudaSuccess), cudaGetErrorString(cudaErrorInvalidValue),
                cudaGetErrorName((cudaError_t)12345));
    void *entry = nullptr;
    cudaDriverEntryPointQueryResult result;
    (void)cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, cudaEnableDefault, &result);
    auto encode = (decltype(&cuTensorMapEncodeTiled))entry;
    alignas(64) CUtensorMap map;
    cuuint64_t sizes[2] = {64, 8}, pitch[1] = {128};
    cuuint32_t box[2] = {64, 8}, one[2] = {1, 1};
    NUMBER("found", entry != nullptr && result == cudaDriverEntryPointSuccess);
    for (int wrong = 0; wrong < 2; wrong++) {
        pitch[0] -= 8 * wrong;
        NUMBER(wrong ? "wrong map" : "map",
               encode(&map, CU_TENSOR_MAP_DATA_TYPE_UINT16, 2, (void *)4096, sizes, pitch, box, one,
                      CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_128B, CU_TENSOR_MAP_L2_PROMOTION_NONE,
                      CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE));
    }
    (void)cudaGetDriverEntryPointByVersion("cuNothing", &entry, 12000, cudaEnableDefault, &result);
    NUMBER("not found", entry == nullptr || result != cudaDriverEntryPointSuccess);
    return 0;
}
"""
INVALID, OK = "cudaErrorInvalidValue", "cudaSuccess"
WANTED = {
    "count": OK,
    "devices": "1",
    "get": OK,
    "current": "0",
    "set 0": OK,
    "set 1": "cudaErrorInvalidDevice",
    "set -1": "cudaErrorInvalidDevice",
    "kept": "cudaErrorInvalidDevice",
    "taken": "cudaErrorInvalidDevice",
    "gone": OK,
    "properties 1": "cudaErrorInvalidDevice",
    "attribute 1": "cudaErrorInvalidDevice",
    "properties": OK,
    "warp": "32",
    "optin": "232448",
    "shared": OK,
    "sm shared": "233472",
    "reserved": "1024",
    "threads": "1024",
    "sm threads": "2048",
    "registers": "65536",
    "cluster": "1",
    "multicast": "0",
    "same": "1",
    "minor": "0",
    "malloc": OK,
    "aligned": "1",
    "malloc too much": "cudaErrorMemoryAllocation",
    "in": OK,
    "in too much": INVALID,
    "in elsewhere": INVALID,
    "out part": OK,
    "part": "708",
    "out too much": INVALID,
    "rows": OK,
    "rows copied": "1256",
    "rows too many": INVALID,
    "set bytes": OK,
    "bytes set": "1",
    "info": OK,
    "symbol": OK,
    "symbol part": OK,
    "symbol too much": "cudaErrorInvalidSymbol",
    "symbol far": "cudaErrorInvalidSymbol",
    "from symbol": OK,
    "symbol value": "173",
    "symbol later": OK,
    "from symbol later": OK,
    "symbol later value": "72",
    "no symbol": "cudaErrorInvalidSymbol",
    "size": OK,
    "symbol bytes": "32",
    "no size": "cudaErrorInvalidSymbol",
    "address": OK,
    "no address": INVALID,
    "launch": OK,
    "written": "13013",
    "pair": OK,
    "odd": "cudaErrorInvalidConfiguration",
    "seventeen": "cudaErrorInvalidClusterSize",
    "16 not allowed": "cudaErrorInvalidClusterSize",
    "17 together": "cudaErrorInvalidConfiguration",
    "unknown": "cudaErrorInvalidDeviceFunction",
    "no attribute": "cudaErrorInvalidDeviceFunction",
    "shared too much": INVALID,
    "attribute": OK,
    "attribute beyond": INVALID,
    "attributes": OK,
    "limit": "49152",
    "16 together": OK,
    "block": "1024",
    "no attributes": "cudaErrorInvalidDeviceFunction",
    "unrecorded": "cudaErrorInvalidResourceHandle",
    "record": OK,
    "half": "cudaErrorInvalidResourceHandle",
    "half reversed": "cudaErrorInvalidResourceHandle",
    "elapsed": OK,
    "positive": "1",
    "backwards": OK,
    "negative": "1",
    "untimed": "cudaErrorInvalidResourceHandle",
    "no event": "cudaErrorInvalidResourceHandle",
    "no wait": "cudaErrorInvalidResourceHandle",
    "query": OK,
    "free": OK,
    "free again": INVALID,
    "free nothing": OK,
    "free host": INVALID,
    "text": "no error|invalid argument|cudaErrorUnknown",
    "found": "1",
    "map": "0",
    "wrong map": "1",
    "not found": "1",
}
SMALL = {"major": "12", "optin": "101376", "sm shared": "102400", "sm threads": "1536", "of 16": "0"}
SMALL["16 together"] = "cudaErrorInvalidConfiguration"
CHIPS = {
    "h200": {
        "name": "simulated H200",
        "major": "9",
        "sms": "132",
        "memory": "141000000000",
        "binary": "90",
        "ptx": "900",
        "of 1": "264",
        "of 2": "132",
        "of 4": "64",
        "of 16": "16",
    },
    "b200": {
        "name": "simulated B200",
        "major": "10",
        "sms": "148",
        "memory": "192000000000",
        "binary": "100",
        "ptx": "900",  # the program has no PTX for it
        "of 1": "296",
        "of 2": "148",
        "of 4": "64",
        "of 16": "16",
    },
    "rtx5090": {
        **SMALL,
        "name": "simulated RTX 5090",
        "sms": "170",
        "memory": "32000000000",
        "binary": "120",
        "ptx": "1200",
        "minor": "0",
        "of 1": "170",
        "of 2": "85",
        "of 4": "42",
    },
    "gb10": {
        **SMALL,
        "name": "simulated GB10",
        "sms": "48",
        "memory": "128000000000",
        "binary": "121",
        "ptx": "1210",
        "minor": "1",
        "of 1": "48",
        "of 2": "24",
        "of 4": "12",
    },
}


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("calls")
    (folder / "calls.cu").write_text(PROGRAM)
    command = [
        nvcc(),
        "-std=c++17",
        "-gencode=arch=compute_90a,code=compute_90a",
        "-gencode=arch=compute_120a,code=compute_120a",
        "-gencode=arch=compute_121a,code=compute_121a",
        "--no-compress",
        "-cudart=none",
        "-o",
    ]
    command += [folder / "calls", folder / "calls.cu", str(built("libcudart_sim.a")), "-lpthread", "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "calls"


@pytest.mark.parametrize("chip", CHIPS)
def test_calls_give_what_the_cuda_runtime_does(program, chip):
    environment = dict(os.environ, NVFP4_SIMULATE_CHIP=chip)
    done = subprocess.run([program], env=environment, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stderr
    said: dict[str, list[str]] = {}
    for line in done.stdout.splitlines():
        name, value = line.split("=", 1)
        said.setdefault(name, []).append(value)
    assert said.pop("shared") == ["49152", OK]
    wanted = {**WANTED, **CHIPS[chip]}
    wanted.pop("shared")
    assert {name: values[0] for name, values in said.items()} == wanted
    assert all(len(values) == 1 for values in said.values())
