"""The error of a failed launch is sticky: every later call of the CUDA runtime shim returns it, as on a card."""

from __future__ import annotations

import os
import subprocess

import pytest

from simulator.tests.sim_kit import built, nvcc

PROGRAM = r"""
#include <cstdio>
#include <cstdlib>
#include <cstring>
#include <cuda.h>
#include <cuda_runtime.h>
#define SAY(name, call) std::printf("%s=%s\n", name, cudaGetErrorName(call))
extern "C" void **__cudaRegisterFatBinary(void *);
extern "C" void __cudaRegisterFunction(void **, const char *, char *, const char *, int, uint3 *, uint3 *, dim3 *,
                                       dim3 *, int *);
__global__ void wrong(int *out) { *(volatile int *)((char *)out + (1 << 20)) = 1; }
__global__ void fine(int *out) { *out = 7; }
__global__ void reviews_then_race(int *out) {
    __shared__ volatile int room[1100];
    __shared__ int cell;
    int sum = 0;
#pragma unroll
    for (int i = 0; i < 1100; i++) { sum += room[i]; } /* each load a finding of its own */
    asm volatile("st.shared.u32 [%0], %1;" ::"r"((unsigned)__cvta_generic_to_shared(&cell)), "r"(threadIdx.x));
    *out = sum;
}
struct load { CUtensorMap map; };
__global__ void copy(const __grid_constant__ load at, int *out) {
    __shared__ alignas(128) int tile[32];
    __shared__ alignas(8) unsigned long long bar;
    unsigned to = (unsigned)__cvta_generic_to_shared(tile), b = (unsigned)__cvta_generic_to_shared(&bar);
    asm volatile("mbarrier.init.shared.b64 [%0], 1; fence.mbarrier_init.release.cluster;" ::"r"(b) : "memory");
    asm volatile("mbarrier.arrive.expect_tx.shared.b64 _, [%0], 128;" ::"r"(b) : "memory");
    asm volatile("cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
                 " [%0], [%1, {%2}], [%3];" ::"r"(to), "l"(&at.map), "r"(0), "r"(b) : "memory");
    asm volatile("{.reg .pred p; W: mbarrier.try_wait.parity.shared.b64 p, [%0], 0; @!p bra W;}" ::"r"(b) : "memory");
    *out = tile[31];
}
static void fat(int which) {
    static struct { unsigned magic, version; const void *data, *unused; } wrapper;
    static unsigned char bytes[96]; /* a fat binary's header, then one entry of zeros, or of too many bytes */
    unsigned magic = 0xba55ed50u, header = 16;
    unsigned long long rest = 80, many = 1ull << 40;
    std::memcpy(bytes, &magic, 4);
    std::memcpy(bytes + 6, &header, 2);
    std::memcpy(bytes + 8, &rest, 8);
    if (which == 1) { header = 64; std::memcpy(bytes + 16 + 4, &header, 4); std::memcpy(bytes + 16 + 8, &many, 8); }
    wrapper = {0x466243b1u, 1, bytes, nullptr};
    static char name[] = "k", key[2];
    void **handle = __cudaRegisterFatBinary(&wrapper);
    __cudaRegisterFunction(handle, &key[which], name, name, -1, 0, 0, 0, 0, 0);
    cudaLaunchConfig_t config = {};
    config.gridDim = config.blockDim = dim3(1);
    SAY(which ? "entry too long" : "entry of zeros", cudaLaunchKernelExC(&config, &key[which], nullptr));
    (void)cudaGetLastError();
}
int main(int count, char **words) {
    int *device, host[64] = {0}, version = 0, driver = 0;
    cudaEvent_t event, other;
    cudaStream_t queue;
    (void)cudaMalloc((void **)&device, 4096);
    (void)cudaEventCreate(&event);
    (void)cudaEventCreate(&other);
    (void)cudaStreamCreate(&queue);
    (void)cudaEventRecord(event, queue);
    if (count < 2) {
        (void)cudaDriverGetVersion(&version);
        (void)cuDriverGetVersion(&driver);
        std::printf("version=%d\n", version >= 13020 && driver >= 13020);
        SAY("negative", cudaFuncSetAttribute((const void *)fine, cudaFuncAttributeMaxDynamicSharedMemorySize, -1));
        SAY("beyond", cudaFuncSetAttribute((const void *)fine, cudaFuncAttributeMaxDynamicSharedMemorySize, 1 << 20));
        fine<<<1, 1, 49156>>>(device);
        SAY("limit kept", cudaGetLastError());
        SAY("set outside", cudaMemset(host, 0, 4));
        fat(0);
        fat(1);
        for (int i = 0; i < 64; i++) { host[i] = i; }
        (void)cudaMemcpy(device, host, 256, cudaMemcpyHostToDevice);
        alignas(64) load at;
        cuuint64_t sizes[1] = {64};
        cuuint32_t box[1] = {32}, one[1] = {1};
        (void)cuTensorMapEncodeTiled(&at.map, CU_TENSOR_MAP_DATA_TYPE_INT32, 1, device, sizes, nullptr, box, one,
                                     CU_TENSOR_MAP_INTERLEAVE_NONE, CU_TENSOR_MAP_SWIZZLE_NONE,
                                     CU_TENSOR_MAP_L2_PROMOTION_NONE, CU_TENSOR_MAP_FLOAT_OOB_FILL_NONE);
        reinterpret_cast<unsigned long long *>(&at.map)[1] &= ~(1ull << 21); /* as CUTLASS 4 does for older drivers */
        copy<<<1, 1>>>(at, device + 100);
        (void)cudaMemcpy(host, device + 100, 4, cudaMemcpyDeviceToHost);
        std::printf("copied=%d\n", host[0]);
        SAY("so far", cudaDeviceSynchronize());
        reinterpret_cast<unsigned char *>(&at.map)[64] ^= 1; /* any other change */
        copy<<<1, 1>>>(at, device);
        SAY("changed map", cudaGetLastError());
        return 0;
    }
    if (words[1][0] == 'm') {
        reviews_then_race<<<1, 64>>>(device);
    } else {
        wrong<<<1, 32>>>(nullptr);
    }
    SAY("last", cudaGetLastError());
    SAY("last again", cudaGetLastError());
    SAY("peek", cudaPeekAtLastError());
    fine<<<1, 1>>>(device);
    SAY("launch", cudaPeekAtLastError());
    SAY("device synchronize", cudaDeviceSynchronize());
    SAY("queue synchronize", cudaStreamSynchronize(queue));
    SAY("queue query", cudaStreamQuery(queue));
    SAY("queue wait", cudaStreamWaitEvent(queue, event, 0));
    SAY("record", cudaEventRecord(other, queue));
    SAY("event synchronize", cudaEventSynchronize(event));
    SAY("event query", cudaEventQuery(event));
    float ms;
    SAY("elapsed", cudaEventElapsedTime(&ms, event, event));
    SAY("copy", cudaMemcpy(host, device, 4, cudaMemcpyDeviceToHost));
    SAY("copy later", cudaMemcpyAsync(device, host, 4, cudaMemcpyHostToDevice, queue));
    SAY("copy rows", cudaMemcpy2D(host, 8, device, 8, 8, 2, cudaMemcpyDeviceToHost));
    SAY("set", cudaMemset(device, 0, 4));
    SAY("set later", cudaMemsetAsync(device, 0, 4, queue));
    SAY("allocate", cudaMalloc((void **)&device, 4096));
    SAY("free", cudaFree(device));
    cudaDeviceProp properties;
    cudaFuncAttributes attributes;
    int number;
    size_t bytes;
    void *entry;
    SAY("count", cudaGetDeviceCount(&number));
    SAY("device", cudaGetDevice(&number));
    SAY("set device", cudaSetDevice(0));
    SAY("attribute", cudaDeviceGetAttribute(&number, cudaDevAttrWarpSize, 0));
    SAY("properties", cudaGetDeviceProperties(&properties, 0));
    SAY("version", cudaRuntimeGetVersion(&number));
    SAY("of a kernel", cudaFuncGetAttributes(&attributes, (const void *)fine));
    SAY("occupancy", cudaOccupancyMaxActiveBlocksPerMultiprocessor(&number, (const void *)fine, 32, 0));
    SAY("memory left", cudaMemGetInfo(&bytes, &bytes));
    SAY("entry", cudaGetDriverEntryPointByVersion("cuTensorMapEncodeTiled", &entry, 12000, 0, nullptr));
    SAY("reset", cudaDeviceReset());
    return 0;
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("sticky")
    (folder / "sticky.cu").write_text(PROGRAM)
    command = [nvcc(), "-std=c++17", "-gencode=arch=compute_90a,code=compute_90a", "--no-compress", "-cudart=none"]
    command += ["-o", folder / "sticky", folder / "sticky.cu", str(built("libcudart_sim.a")), "-lpthread", "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "sticky"


def said(program, *words: str, **environment: str) -> dict[str, str]:
    environment = dict(os.environ, **environment)
    done = subprocess.run([program, *words], env=environment, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 0, done.stderr
    return dict(line.split("=", 1) for line in done.stdout.splitlines())


@pytest.mark.parametrize("what", ["wrong", "many"])
def test_every_call_after_an_error_gives_it(program, what):
    """The error is an access out of bounds, or a race found after a thousand reviews."""
    answers = said(program, what)
    assert len(answers) == 30
    assert set(answers.values()) == {"cudaErrorLaunchFailure"}, answers


def test_go_on_lets_later_calls_succeed(program):
    answers = said(program, "wrong", NVFP4_SIMULATE_GO_ON="1")
    assert set(answers.values()) - {"cudaErrorInvalidResourceHandle"} == {"cudaSuccess"}, answers


def test_errors_without_a_failed_launch(program):
    assert said(program) == {
        "version": "1",
        "negative": "cudaErrorInvalidValue",
        "beyond": "cudaErrorInvalidValue",
        "limit kept": "cudaErrorInvalidValue",
        "set outside": "cudaErrorInvalidValue",
        "entry of zeros": "cudaErrorInvalidKernelImage",
        "entry too long": "cudaErrorInvalidKernelImage",
        "copied": "31",
        "so far": "cudaSuccess",
        "changed map": "cudaErrorLaunchFailure",
    }
