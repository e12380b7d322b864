"""Streams, events and waits of the CUDA runtime shim order launches; launches without an order are reported."""

from __future__ import annotations

import os
import subprocess

import pytest

from simulator.tests.sim_kit import built, nvcc

PROGRAM = r"""
#include <cstdio>
#include <cuda_runtime.h>
#include "sim.h"
extern "C" struct sim *runtime_lock(void);
extern "C" void runtime_unlock(void);
__global__ void put(int *x) { x[threadIdx.x] = 7; }
__global__ void early(const int *x, int *y) {
    asm volatile("griddepcontrol.launch_dependents;");
    y[threadIdx.x] = x[threadIdx.x];
}
__global__ void get(const int *x, int *y) { y[threadIdx.x] = x[threadIdx.x]; }
__device__ int symbol[32];
__global__ void get_symbol(int *y) { y[threadIdx.x] = symbol[threadIdx.x]++; }
static int *x, *y, host[32];
static cudaStream_t one, two, first_blocking, second_blocking;
static cudaEvent_t event;
static void begin(void) { cudaDeviceSynchronize(); }
static void end(const char *name) {
    struct sim *sim = runtime_lock();
    size_t count = sim_finding_count(sim);
    std::printf("%s=%s\n", name, count == 0 ? "clean" : sim_finding(sim, 0)->kind);
    if (count > 0 && sim_finding(sim, 0)->other_launch == 0) { std::printf("no other launch\n"); }
    sim_clear_findings(sim);
    runtime_unlock();
}
static void pdl(cudaStream_t queue) {
    cudaLaunchAttribute attribute = {};
    attribute.id = cudaLaunchAttributeProgrammaticStreamSerialization;
    attribute.val.programmaticStreamSerializationAllowed = 1;
    cudaLaunchConfig_t config = {};
    config.gridDim = dim3(1); config.blockDim = dim3(32); config.stream = queue;
    config.attrs = &attribute; config.numAttrs = 1;
    cudaLaunchKernelEx(&config, get, (const int *)x, y);
}
#define CASE(name, ...) begin(); __VA_ARGS__; end(name)
#define PUT(queue) put<<<1, 32, 0, queue>>>(x)
#define GET(queue) get<<<1, 32, 0, queue>>>(x, y)
#define TO_SYMBOL(queue) cudaMemcpyToSymbolAsync(symbol, host, sizeof host, 0, cudaMemcpyHostToDevice, queue)
int main() {
    cudaMalloc(&x, sizeof host);
    cudaMalloc(&y, sizeof host);
    cudaStreamCreateWithFlags(&one, cudaStreamNonBlocking);
    cudaStreamCreateWithFlags(&two, cudaStreamNonBlocking);
    cudaStreamCreate(&first_blocking);
    cudaStreamCreate(&second_blocking);
    cudaEventCreate(&event);
    CASE("one stream", PUT(one); GET(one));
    CASE("two streams", PUT(one); GET(two));
    CASE("event", PUT(one); cudaEventRecord(event, one); cudaStreamWaitEvent(two, event, 0); GET(two));
    CASE("event before the launch",
         cudaEventRecord(event, one); PUT(one); cudaStreamWaitEvent(two, event, 0); GET(two));
    CASE("stream synchronised", PUT(one); cudaStreamSynchronize(one); GET(two));
    CASE("the wrong stream synchronised", PUT(one); cudaStreamSynchronize(two); GET(two));
    CASE("event synchronised", PUT(one); cudaEventRecord(event, one); cudaEventSynchronize(event); GET(two));
    CASE("device synchronised", PUT(one); cudaDeviceSynchronize(); GET(two));
    CASE("default stream after a blocking one", PUT(first_blocking); GET(0));
    CASE("blocking stream after the default one", PUT(0); GET(first_blocking));
    CASE("two blocking streams", PUT(first_blocking); GET(second_blocking));
    CASE("the default one between them", PUT(first_blocking); put<<<1, 32>>>(y); GET(second_blocking));
    CASE("default and non-blocking", PUT(0); GET(one));
    CASE("default after a non-blocking one", PUT(one); GET(0));
    CASE("per thread and default", PUT(cudaStreamPerThread); GET(0));
    CASE("per thread and non-blocking", PUT(cudaStreamPerThread); GET(one));
    CASE("copy in another stream", PUT(one); cudaMemcpyAsync(host, x, sizeof host, cudaMemcpyDeviceToHost, two));
    CASE("copy in the same stream", PUT(one); cudaMemcpyAsync(host, x, sizeof host, cudaMemcpyDeviceToHost, one));
    CASE("fill under a kernel", GET(one); cudaMemsetAsync(x, 0, sizeof host, two));
    CASE("copy that the host waits for", PUT(0); cudaMemcpy(host, x, sizeof host, cudaMemcpyDeviceToHost); GET(two));
    CASE("symbol set in another stream", TO_SYMBOL(two); get_symbol<<<1, 32, 0, one>>>(y));
    CASE("symbol in one stream", TO_SYMBOL(one); get_symbol<<<1, 32, 0, one>>>(y);
         cudaMemcpyFromSymbolAsync(host, symbol, sizeof host, 0, cudaMemcpyDeviceToHost, one));
    CASE("dependent launch", PUT(one); pdl(one));
    CASE("dependent launch after a fill", PUT(one); cudaMemsetAsync(y, 0, sizeof host, one); pdl(one));
    CASE("dependent launch after a wait of the host", PUT(one); cudaStreamSynchronize(one); pdl(one));
    CASE("dependent launch in another stream", PUT(one); pdl(two));
    CASE("memory freed and made again", PUT(one); cudaFree(x); cudaMalloc(&x, sizeof host);
         cudaMemcpy(x, host, sizeof host, cudaMemcpyHostToDevice); GET(two));
    begin();
    int *kept, *again;
    cudaMallocAsync(&kept, sizeof host, one);
    cudaMemsetAsync(kept, 0, sizeof host, one);
    early<<<1, 32, 0, one>>>(kept, y);
    cudaFreeAsync(kept, one);
    std::printf("freed twice=%s\n", cudaFreeAsync(kept, one) == cudaSuccess ? "taken" : "refused");
    cudaMallocAsync(&again, sizeof host, one);
    y = again;
    pdl(one);
    std::printf("the same memory=%s\n", again == kept ? "yes" : "no");
    end("dependent launch into memory freed before it");
    return 0;
}
"""
RACE, WAIT = "queue-race", "missing-griddepcontrol-wait"
EXPECTED = {
    "one stream": "clean",
    "two streams": RACE,
    "event": "clean",
    "event before the launch": RACE,
    "stream synchronised": "clean",
    "the wrong stream synchronised": RACE,
    "event synchronised": "clean",
    "device synchronised": "clean",
    "default stream after a blocking one": "clean",
    "blocking stream after the default one": "clean",
    "two blocking streams": RACE,
    "the default one between them": "clean",
    "default and non-blocking": RACE,
    "default after a non-blocking one": RACE,
    "per thread and default": "clean",
    "per thread and non-blocking": RACE,
    "copy in another stream": RACE,
    "copy in the same stream": "clean",
    "fill under a kernel": RACE,
    "copy that the host waits for": "clean",
    "symbol set in another stream": RACE,
    "symbol in one stream": "clean",
    "dependent launch": WAIT,
    "dependent launch after a fill": "clean",
    "dependent launch after a wait of the host": "clean",
    "dependent launch in another stream": RACE,
    "memory freed and made again": "clean",
    "freed twice": "refused",
    "the same memory": "yes",
    "dependent launch into memory freed before it": WAIT,
}


@pytest.fixture(scope="module")
def found(tmp_path_factory) -> dict[str, str]:
    folder = tmp_path_factory.mktemp("order")
    (folder / "order.cu").write_text(PROGRAM)
    runtime = built("libcudart_sim.a")
    command = [nvcc(), "-std=c++17", "-I", "simulator", "-gencode=arch=compute_90a,code=compute_90a", "--no-compress"]
    command += ["-cudart", "none", "-o", folder / "order", folder / "order.cu", runtime]
    subprocess.run(command, check=True, capture_output=True)
    environment = dict(os.environ, NVFP4_SIMULATE_GO_ON="1")
    done = subprocess.run([folder / "order"], env=environment, capture_output=True, text=True, check=True)
    return dict(line.split("=") for line in done.stdout.splitlines())


def test_streams_events_and_waits_order_launches_and_copies(found):
    assert found == EXPECTED
