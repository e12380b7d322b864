"""Kernels that a host program loads itself, as modules or libraries, and the calls that launchers make."""

from __future__ import annotations

import os
import subprocess

import pytest

from simulator.tests.sim_kit import HEADER, built, nvcc

KERNEL = (
    ".visible .entry {name}(.param .u64 p, .param .u8 skip, .param .u32 n) {{ .reg .b32 %r<9>; .reg .b64 %rd<9>;"
    " {text} }}\n"
)
STORE = (
    "ld.param.u64 %rd1, [p]; ld.param.u32 %r1, [n]; mov.u32 %r2, %ctaid.x; mov.u32 %r3, %cluster_nctarank;"
    " mad.lo.u32 %r1, %r2, 100, %r1; mad.lo.u32 %r1, %r3, 1000, %r1; mul.wide.u32 %rd2, %r2, 4;"
    " add.u64 %rd1, %rd1, %rd2; st.global.u32 [%rd1], %r1; ret;"
)
PTX = (
    HEADER
    + ".visible .global .u32 seven = 7;\n"
    + KERNEL.format(name="store", text=STORE)
    + KERNEL.format(
        name="grid",
        text="ld.param.u64 %rd1, [p]; mov.u32 %r1, %envreg1; mov.u32 %r2, %envreg2; or.b32 %r1, %r1, %r2;"
        " st.global.u32 [%rd1], %r1; ret;",
    )
    + KERNEL.format(name="bad", text="frobnicate.u32 %r1; ret;")
)
PROGRAM = r"""
#include <stdio.h>
#include <stdlib.h>
#include <string.h>
#include <stdint.h>
#include <cuda.h>
#include <cuda_runtime_api.h>
#define SAY(name, call) printf("%s=%d\n", name, (int)(call))
#define HOLDS(name, truth) printf("%s=%s\n", name, (truth) ? "yes" : "no")
static int called;
static void CUDART_CB host_work(void *data) { called += *(int *)data; }
static void CUDART_CB callback(cudaStream_t queue, cudaError_t error, void *data) {
    (void)queue;
    called += error == cudaSuccess ? *(int *)data : 1000;
}
static char *text_of(const char *path) {
    FILE *file = fopen(path, "rb");
    char *text = calloc(1, 1 << 16);
    if (file == NULL || fread(text, 1, (1 << 16) - 1, file) == 0) { exit(9); }
    fclose(file);
    return text;
}
int main(int count, char **words) {
    CUdevice device;
    CUcontext context = NULL, current = NULL;
    CUmodule module = NULL, other = NULL;
    CUfunction store = NULL, bad = NULL;
    CUdeviceptr out = 0, seven = 0;
    CUstream queue;
    size_t bytes = 0;
    int value = 0, host[8] = {0};
    const char *name = NULL;
    void *entry = NULL;
    enum cudaDriverEntryPointQueryResult found;
    char *ptx = text_of(words[1]);
    SAY("init", cuInit(0));
    SAY("device", cuDeviceGet(&device, 0));
    SAY("retain", cuDevicePrimaryCtxRetain(&context, device));
    SAY("current", cuCtxSetCurrent(context) || cuCtxGetCurrent(&current));
    HOLDS("same context", context != NULL && context == current);
    SAY("attribute", cuDeviceGetAttribute(&value, CU_DEVICE_ATTRIBUTE_COMPUTE_CAPABILITY_MAJOR, device));
    HOLDS("major", value == 9);
    SAY("module", cuModuleLoadData(&module, ptx));
    memset(ptx, '#', strlen(ptx)); /* the driver keeps its own copy */
    SAY("function", cuModuleGetFunction(&store, module, "store"));
    SAY("no function", cuModuleGetFunction(&bad, module, "none"));
    SAY("unreadable function", cuModuleGetFunction(&bad, module, "bad"));
    SAY("name", cuFuncGetName(&name, store));
    HOLDS("named", name != NULL && strcmp(name, "store") == 0);
    SAY("global", cuModuleGetGlobal(&seven, &bytes, module, "seven"));
    SAY("read global", cuMemcpyDtoH(host, seven, bytes));
    HOLDS("seven", bytes == 4 && host[0] == 7);
    SAY("no global", cuModuleGetGlobal(&seven, &bytes, module, "eight"));
    SAY("cubin", cuModuleLoadData(&other, "\177ELF\2\1\1"));
    SAY("not PTX", cuModuleLoadData(&other, "hello"));
    SAY("no file", cuModuleLoad(&other, "/nowhere/at/all"));
    SAY("alloc", cuMemAlloc(&out, 64));
    SAY("queue", cuStreamCreate(&queue, CU_STREAM_DEFAULT));
    SAY("set 32", cuMemsetD32Async(out, 0x01020304, 4, queue));
    SAY("set 16", cuMemsetD16(out + 4, 0xabcd, 2));
    SAY("set 8", cuMemsetD8(out + 8, 9, 3));
    SAY("set odd", cuMemsetD32(out + 2, 0, 1));
    SAY("set beyond", cuMemsetD32(out, 0, 1000));
    SAY("copy", cuMemcpyDtoHAsync(host, out, 16, queue));
    HOLDS("filled", host[0] == 0x01020304 && (unsigned)host[1] == 0xabcdabcd && host[2] == 0x01090909 &&
                        host[3] == 0x01020304);
    struct { uint64_t p; uint8_t skip; uint32_t n; } packed = {out, 1, 5};
    void *arguments[] = {&packed.p, &packed.skip, &packed.n};
    size_t size = sizeof packed;
    void *extra[] = {CU_LAUNCH_PARAM_BUFFER_POINTER, &packed, CU_LAUNCH_PARAM_BUFFER_SIZE, &size, CU_LAUNCH_PARAM_END};
    SAY("shared", cuFuncSetAttribute(store, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 60000));
    SAY("ask shared", cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, store));
    HOLDS("shared kept", value == 60000);
    SAY("launch", cuLaunchKernel(store, 2, 1, 1, 1, 1, 1, 0, queue, arguments, NULL));
    cuMemcpyDtoH(host, out, 8);
    HOLDS("launched", host[0] == 1005 && host[1] == 1105);
    packed.n = 6;
    SAY("launch by buffer", cuLaunchKernel(store, 2, 1, 1, 1, 1, 1, 0, queue, NULL, extra));
    cuMemcpyDtoH(host, out, 8);
    HOLDS("from buffer", host[0] == 1006 && host[1] == 1106);
    CUlaunchAttribute cluster = {.id = CU_LAUNCH_ATTRIBUTE_CLUSTER_DIMENSION};
    cluster.value.clusterDim.x = 2;
    cluster.value.clusterDim.y = cluster.value.clusterDim.z = 1;
    CUlaunchConfig config = {.gridDimX = 2, .gridDimY = 1, .gridDimZ = 1, .blockDimX = 1, .blockDimY = 1,
                             .blockDimZ = 1, .sharedMemBytes = 50000, .hStream = queue, .attrs = &cluster,
                             .numAttrs = 1};
    SAY("launch ex", cuLaunchKernelEx(&config, store, arguments, NULL));
    cuMemcpyDtoH(host, out, 8);
    HOLDS("in a cluster", host[0] == 2006 && host[1] == 2106);
    SAY("clusters", cuOccupancyMaxActiveClusters(&value, store, &config));
    HOLDS("some clusters", value > 0);
    config.sharedMemBytes = 70000;
    SAY("too much shared", cuLaunchKernelEx(&config, store, arguments, NULL));
    cudaLibrary_t library = NULL;
    cudaKernel_t kernel = NULL, kernels[4] = {NULL};
    unsigned number = 0;
    SAY("library", cudaLibraryLoadFromFile(&library, words[1], NULL, NULL, 0, NULL, NULL, 0));
    SAY("kernel", cudaLibraryGetKernel(&kernel, library, "store"));
    SAY("kernels", cudaLibraryGetKernelCount(&number, library));
    SAY("enumerate", cudaLibraryEnumerateKernels(kernels, 4, library));
    HOLDS("three kernels", number == 3 && kernels[0] == kernel && kernels[2] != NULL && kernels[3] == NULL);
    cudaLaunchConfig_t plain = {.gridDim = {1, 1, 1}, .blockDim = {1, 1, 1}};
    packed.n = 8;
    SAY("launch of a library", cudaLaunchKernelExC(&plain, (const void *)kernel, arguments));
    cuMemcpyDtoH(host, out, 4);
    HOLDS("library ran", host[0] == 1008);
    SAY("unload", cudaLibraryUnload(library));
    cluster.value.clusterDim.x = config.gridDimX = 16;
    config.sharedMemBytes = 0;
    SAY("wide cluster", cuLaunchKernelEx(&config, store, arguments, NULL));
    SAY("allow it", cuFuncSetAttribute(store, CU_FUNC_ATTRIBUTE_NON_PORTABLE_CLUSTER_SIZE_ALLOWED, 1));
    SAY("allowed", cuLaunchKernelEx(&config, store, arguments, NULL));
    cuMemcpyDtoH(host, out, 4);
    HOLDS("in a wide cluster", host[0] == 16008);
    CUstream first;
    unsigned flags = 0;
    SAY("queue of a priority", cuStreamCreateWithPriority(&first, CU_STREAM_NON_BLOCKING, -9));
    SAY("its flags", cudaStreamGetFlags(first, &flags));
    SAY("its priority", cudaStreamGetPriority(first, &value));
    HOLDS("its own", flags == cudaStreamNonBlocking && value == -5);
    SAY("destroy", cuStreamDestroy(first));
    SAY("flags of the default queue", cudaStreamGetFlags(0, &flags));
    HOLDS("none", flags == 0);
    SAY("odd flags", cuStreamCreate(&first, 2));
    SAY("destroy the default queue", cuStreamDestroy(NULL));
    SAY("destroy the legacy queue", cuStreamDestroy(CU_STREAM_LEGACY));
    SAY("wait for no event", cuStreamWaitEvent(queue, NULL, 0));
    SAY("destroy no event", cuEventDestroy(NULL));
    (void)cudaGetLastError();
    int more = 3;
    SAY("host function", cudaLaunchHostFunc(queue, host_work, &more));
    SAY("callback", cudaStreamAddCallback(queue, callback, &more, 0));
    HOLDS("called", called == 6);
    struct cudaPointerAttributes kind;
    SAY("pointer", cudaPointerGetAttributes(&kind, (void *)(uintptr_t)out));
    HOLDS("of the device", kind.type == cudaMemoryTypeDevice);
    SAY("host pointer", cudaPointerGetAttributes(&kind, host));
    HOLDS("of the host", kind.type == cudaMemoryTypeUnregistered);
    SAY("driver's pointer", cuPointerGetAttribute(&seven, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, out));
    HOLDS("same address", seven == out);
    SAY("driver's host pointer",
        cuPointerGetAttribute(&seven, CU_POINTER_ATTRIBUTE_DEVICE_POINTER, (CUdeviceptr)(uintptr_t)host));
    SAY("register", cudaHostRegister(host, sizeof host, 0));
    SAY("register again", cudaHostRegister(host, sizeof host, 0));
    SAY("unregister", cudaHostUnregister(host));
    SAY("unregister again", cudaHostUnregister(host));
    (void)cudaGetLastError();
    cudaMemPool_t pool;
    uint64_t threshold = 1 << 20, got = 0;
    SAY("pool", cudaDeviceGetDefaultMemPool(&pool, 0));
    SAY("set pool", cudaMemPoolSetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &threshold));
    SAY("get pool", cudaMemPoolGetAttribute(pool, cudaMemPoolAttrReleaseThreshold, &got));
    HOLDS("kept", got == threshold);
    SAY("by name", cudaGetDriverEntryPointByVersion("cuMemsetD32Async", &entry, 12000, 0, &found));
    HOLDS("the function", entry == (void *)(uintptr_t)cuMemsetD32Async && found == cudaDriverEntryPointSuccess);
    SAY("versioned", cuGetProcAddress("cuMemAlloc_v2", &entry, 12000, 0, NULL));
    HOLDS("its current one", entry == (void *)(uintptr_t)cuMemAlloc);
    SAY("no such name", cudaGetDriverEntryPointByVersion("cuFrobnicate", &entry, 12000, 0, &found));
    HOLDS("nothing", entry == NULL && found == cudaDriverEntryPointSymbolNotFound);
    SAY("no device", cuDeviceGet(&device, 1));
    SAY("retain of none", cuDevicePrimaryCtxRetain(&current, 1));
    SAY("release of none", cuDevicePrimaryCtxRelease(1));
    unsigned state = 0;
    SAY("state", cuDevicePrimaryCtxGetState(0, &state, &value));
    HOLDS("active", value == 1);
    SAY("no shape", cuLaunchKernel(store, 0, 1, 1, 1, 1, 1, 0, queue, arguments, NULL));
    SAY("attribute of no device", cuKernelSetAttribute(CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1,
                                                       (CUkernel)store, 1));
    SAY("the runtime's", cudaKernelSetAttributeForDevice((cudaKernel_t)store,
                                                         cudaFuncAttributeMaxDynamicSharedMemorySize, 1, 1));
    SAY("shared beyond", cuFuncSetAttribute(store, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, 1 << 20));
    cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_DYNAMIC_SHARED_SIZE_BYTES, store);
    HOLDS("shared as before", value == 60000);
    SAY("threads", cuFuncGetAttribute(&value, CU_FUNC_ATTRIBUTE_MAX_THREADS_PER_BLOCK, store));
    HOLDS("1024 threads", value == 1024);
    SAY("unload nothing", cuModuleUnload(NULL));
    SAY("name of nothing", cuFuncGetName(&name, NULL));
    SAY("load nothing", cuFuncLoad(NULL));
    SAY("no image", cuModuleLoadData(&other, NULL));
    SAY("function of nothing", cuModuleGetFunction(&bad, NULL, "bad"));
    cuModuleGetFunction(&bad, module, "bad");
    SAY("state of the pointer", cuPointerGetAttribute(&state, CU_POINTER_ATTRIBUTE_MEMORY_TYPE, out));
    HOLDS("device memory", state == CU_MEMORYTYPE_DEVICE);
    SAY("ordinal", cuPointerGetAttribute(&value, CU_POINTER_ATTRIBUTE_DEVICE_ORDINAL, out));
    HOLDS("device 0", value == 0);
    SAY("no host function", cuLaunchHostFunc(queue, NULL, NULL));
    SAY("callback with flags", cudaStreamAddCallback(queue, callback, &more, 1));
    CUstreamCaptureStatus capture = CU_STREAM_CAPTURE_STATUS_ACTIVE;
    SAY("capturing", cuStreamIsCapturing(queue, &capture));
    HOLDS("no capture", capture == CU_STREAM_CAPTURE_STATUS_NONE);
    size_t available = 0, total = 0;
    SAY("memory", cuMemGetInfo(&available, &total));
    HOLDS("some memory", available > 0 && available <= total);
    CUfunction grid = NULL;
    cuModuleGetFunction(&grid, module, "grid");
    SAY("cooperative", cuLaunchCooperativeKernel(grid, 1, 1, 1, 1, 1, 1, 0, queue, arguments));
    cuMemcpyDtoH(host, out, 4);
    HOLDS("a workspace", host[0] != 0);
    SAY("too many at once", cuLaunchCooperativeKernel(grid, 132 * 32 + 1, 1, 1, 1, 1, 1, 0, queue, arguments));
    (void)cudaGetLastError();
    /* Queues without an order: a call that took another one than it was given would race. */
    CUstream one, two;
    CUevent start, end;
    float ms = 0;
    uint8_t sent[64], back[64] = {0};
    for (int i = 0; i < 64; i++) { sent[i] = (uint8_t)(i + 1); }
    cuStreamCreate(&one, CU_STREAM_NON_BLOCKING), cuStreamCreate(&two, CU_STREAM_NON_BLOCKING);
    cuEventCreate(&start, 0), cuEventCreate(&end, 0);
    SAY("elapsed of nothing", cuEventElapsedTime(&ms, start, end));
    (void)cudaGetLastError();
    SAY("allocate in a queue", cuMemAllocAsync(&seven, 64, one));
    SAY("start", cuEventRecord(start, one));
    SAY("send", cuMemcpyHtoDAsync(seven, sent, 64, one));
    SAY("half of it", cuMemcpyDtoDAsync(seven, seven + 32, 32, one));
    SAY("bring", cuMemcpyDtoHAsync(back, seven, 64, one));
    HOLDS("all of it", memcmp(back, sent + 32, 32) == 0 && memcmp(back + 32, sent + 32, 32) == 0);
    packed.p = seven;
    SAY("launch there", cuLaunchKernel(store, 1, 1, 1, 1, 1, 1, 0, one, arguments, NULL));
    SAY("end", cuEventRecord(end, one));
    SAY("wait", cuStreamWaitEvent(two, end, 0));
    SAY("elapsed", cuEventElapsedTime(&ms, start, end));
    HOLDS("time passed", ms > 0);
    SAY("set in the other", cuMemsetD8Async(seven, 1, 64, two));
    SAY("free in the other", cuMemFreeAsync(seven, two));
    SAY("wait for it", cuStreamSynchronize(two));
    SAY("none raced", cuMemAlloc(&seven, 64));
    SAY("whole", cuMemcpyHtoD(seven, sent, 64));
    SAY("set halves", cuMemsetD16Async(seven, 0x0102, 8, one));
    SAY("wait for one", cuStreamSynchronize(one));
    SAY("set words", cuMemsetD32(seven + 16, 3, 2));
    SAY("move", cuMemcpyDtoD(seven + 24, seven, 4));
    SAY("read", cuMemcpyDtoH(back, seven, 64));
    HOLDS("as set", back[0] == 2 && back[15] == 1 && back[16] == 3 && back[17] == 0 && back[24] == 2 && back[63] == 64);
    cudaMipmappedArray_t graph; struct cudaChannelFormatDesc form = {32, 0, 0, 0, cudaChannelFormatKindUnsigned};
    SAY("graph", cudaMallocMipmappedArray(&graph, &form, (struct cudaExtent){8, 8, 0}, 2, 0));
    SAY("driver's graph", cuMulticastCreate(NULL, NULL));
    SAY("no error so far", cuCtxSynchronize() == cudaErrorNotSupported ? 0 : (int)cuCtxSynchronize());
    (void)cudaGetLastError();
    SAY("launch of the unreadable", cuLaunchKernel(bad, 1, 1, 1, 1, 1, 1, 0, queue, arguments, NULL));
    /* The second queue gets memory that was freed there, while the first one may still write it. */
    cuMemAllocAsync(&seven, 80, one), cuMemsetD8Async(seven, 1, 80, one), cuMemFreeAsync(seven, two);
    cuMemAllocAsync(&seven, 80, two), cuMemsetD8Async(seven, 2, 80, two);
    SAY("free beside a use", cuCtxSynchronize());
    (void)count;
    return 0;
}
"""
# Calls that do not return success, with their numbers in cuda.h.
WANTED = {
    "no function": 500,
    "no global": 500,
    "cubin": 200,
    "not PTX": 200,
    "no file": 301,
    "set odd": 1,
    "set beyond": 1,
    "too much shared": 1,
    "wide cluster": 912,
    "odd flags": 1,
    "destroy the default queue": 400,
    "destroy the legacy queue": 400,
    "wait for no event": 400,
    "destroy no event": 400,
    "driver's host pointer": 1,
    "register again": 712,
    "unregister again": 713,
    "no device": 101,
    "retain of none": 101,
    "release of none": 101,
    "no shape": 1,
    "attribute of no device": 101,
    "the runtime's": 101,
    "shared beyond": 1,
    "unload nothing": 400,
    "name of nothing": 400,
    "load nothing": 400,
    "no image": 1,
    "function of nothing": 400,
    "no host function": 1,
    "callback with flags": 1,
    "too many at once": 720,
    "elapsed of nothing": 400,
    "graph": 801,
    "driver's graph": 801,
    "launch of the unreadable": 400,
    "free beside a use": 719,
}


@pytest.fixture(scope="module")
def ran(tmp_path_factory):
    folder = tmp_path_factory.mktemp("driver")
    (folder / "driver.c").write_text(PROGRAM)
    (folder / "kernels.ptx").write_text(PTX)
    command = [nvcc(), "-cudart=none", "-o", folder / "driver", folder / "driver.c", built("libcudart_sim.a")]
    done = subprocess.run([*command, "-lpthread", "-lm"], capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    environment = dict(os.environ, NVFP4_SIMULATE_CHIP="h200")
    return subprocess.run(
        [folder / "driver", folder / "kernels.ptx"], env=environment, capture_output=True, text=True, check=False
    )


def test_calls_do_what_launchers_need(ran):
    assert ran.returncode == 0, ran.stderr
    said = dict(line.split("=", 1) for line in ran.stdout.splitlines())
    wrong = {n: v for n, v in said.items() if v != "yes" and int(v if v != "no" else -1) != WANTED.get(n, 0)}
    assert not wrong, (wrong, ran.stderr)
    assert WANTED.keys() < said.keys()


def test_what_is_not_modelled_is_named(ran):
    for name in (
        "cubin",
        "fat binary",
        "cuFrobnicate",
        "cudaMallocMipmappedArray",
        "cuMulticastCreate",
        "frobnicate.u32",
    ):
        assert name in ran.stderr, name
