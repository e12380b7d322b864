"""CUDA graphs under the runtime shim: captured and built, launched, updated, and checked for order; managed memory."""

from __future__ import annotations

import subprocess

import pytest

from simulator.tests.sim_kit import built, nvcc

PROGRAM = r"""
#include <cstdio>
#include <cstdlib>
__managed__ int total = 5, table[4] = {1, 2, 3, 4};
__global__ void add(int *x, int value) { x[threadIdx.x] += value; }
__global__ void scale(int *x, int factor) { x[threadIdx.x] *= factor; }
__global__ void sum(const int *x, const int *y, int *to) { to[threadIdx.x] = x[threadIdx.x] + y[threadIdx.x]; }
__global__ void tally() { if (table[threadIdx.x] == 4) total += 10; }
static int *x, *y, *z, host[32];
static void show(const char *name, const int *from) {
    cudaMemcpy(host, from, sizeof host, cudaMemcpyDeviceToHost);
    std::printf("%s=%d,%d\n", name, host[0], host[31]);
}
static void called(void *data) { ++*(int *)data; }
int main(int, char **words) {
    const bool race = words[1][0] == 'r';
    cudaStream_t one, two; cudaStreamCreate(&one); cudaStreamCreate(&two);
    cudaEvent_t fork, join; cudaEventCreate(&fork); cudaEventCreate(&join);
    for (int **p : {&x, &y, &z}) { cudaMalloc(p, sizeof host); cudaMemset(*p, 0, sizeof host); }
    cudaDeviceSynchronize();
    cudaGraph_t graph; cudaGraphExec_t exec; int calls = 0;
    cudaStreamBeginCapture(one, cudaStreamCaptureModeGlobal);
    add<<<1, 32, 0, one>>>(x, 1);
    cudaEventRecord(fork, one); cudaStreamWaitEvent(two, fork, 0);
    add<<<1, 32, 0, two>>>(race ? x : y, 2);
    scale<<<1, 32, 0, one>>>(x, 3);
    cudaEventRecord(join, two); cudaStreamWaitEvent(one, join, 0);
    sum<<<1, 32, 0, one>>>(x, y, z);
    cudaLaunchHostFunc(one, called, &calls);
    cudaStreamEndCapture(one, &graph);
    show("captured only", z);
    cudaGraphInstantiate(&exec, graph, 0);
    for (int i = 0; i < 2; i++) cudaGraphLaunch(exec, one);
    cudaStreamSynchronize(one);
    show("launched twice", z); std::printf("calls=%d\n", calls);
    if (race) return 0;
    size_t count = 0; cudaGraphGetNodes(graph, nullptr, &count); std::printf("nodes=%zu\n", count);
    cudaGraphNode_t fill, first, copy; cudaGraph_t made; int value = 7; void *arguments[] = {&x, &value};
    cudaGraphCreate(&made, 0);
    cudaMemsetParams set = {}; set.dst = x; set.value = 1; set.elementSize = 4; set.width = 32; set.height = 1;
    cudaGraphAddMemsetNode(&fill, made, nullptr, 0, &set);
    cudaKernelNodeParams params = {}; params.func = (void *)add; params.gridDim = 1; params.blockDim = 32;
    params.kernelParams = arguments;
    cudaGraphAddKernelNode(&first, made, &fill, 1, &params);
    cudaGraphAddMemcpyNode1D(&copy, made, &first, 1, y, x, sizeof host, cudaMemcpyDeviceToDevice);
    cudaGraphExec_t other; cudaGraphInstantiate(&other, made, 0);
    value = 100; /* the arguments were copied */
    cudaGraphLaunch(other, one); cudaStreamSynchronize(one); show("built", y);
    cudaGraphExecKernelNodeSetParams(other, first, &params);
    cudaGraphLaunch(other, one); cudaStreamSynchronize(one); show("arguments set", y);
    value = 1000; cudaGraphKernelNodeSetParams(first, &params);
    cudaGraphExecUpdateResultInfo info;
    std::printf("update=%d", cudaGraphExecUpdate(other, made, &info));
    std::printf(" %d\n", cudaGraphExecUpdate(other, graph, &info) == cudaErrorGraphExecUpdateFailure);
    cudaGetLastError();
    cudaGraphNodeSetEnabled(other, fill, 0);
    cudaGraphLaunch(other, one); cudaStreamSynchronize(one); show("updated", y);
    cudaStreamBeginCapture(one, cudaStreamCaptureModeGlobal);
    std::printf("unjoined=%s ", cudaGetErrorName(cudaStreamSynchronize(one)));
    cudaEventRecord(fork, one); cudaStreamWaitEvent(two, fork, 0); add<<<1, 32, 0, two>>>(x, 1);
    std::printf("%s\n", cudaGetErrorName(cudaStreamEndCapture(one, &graph)));
    cudaStreamBeginCapture(one, cudaStreamCaptureModeGlobal);
    void *node;
    std::printf("memory=%s\n", cudaGetErrorName(cudaMallocAsync(&node, 4, one)));
    cudaStreamEndCapture(one, &graph);
    total += 20;
    tally<<<1, 4>>>(); cudaDeviceSynchronize(); std::printf("managed=%d,%d\n", total, table[2]);
    cudaPointerAttributes kind; cudaPointerGetAttributes(&kind, table + 3);
    std::printf("kind=%d\n", kind.type == cudaMemoryTypeManaged && kind.hostPointer == table + 3);
    cudaGraphExecDestroy(exec); cudaGraphExecDestroy(other); cudaGraphDestroy(made);
    return 0;
}
"""
EXPECTED = {
    "captured only": "0,0",
    "launched twice": "16,16",  # x: (0 + 1) * 3 = 3, then (3 + 1) * 3 = 12; y: 2, then 4
    "calls": "2",
    "nodes": "5",
    "built": "8,8",
    "arguments set": "101,101",
    "update": "0 1",
    "updated": "1101,1101",  # without the fill
    "unjoined": "cudaErrorStreamCaptureUnsupported cudaErrorStreamCaptureUnjoined",
    "memory": "cudaErrorNotSupported",
    "kind": "1",
    "managed": "35,3",
}


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("graphs")
    (folder / "graphs.cu").write_text(PROGRAM)
    command = [nvcc(), "-std=c++17", "-arch=sm_90a", "-cudart", "shared", "-o", folder / "graphs", folder / "graphs.cu"]
    subprocess.run(command, check=True, capture_output=True)
    built("cuda/libcudart.so.13")
    return folder / "graphs"


def run(program, way: str) -> subprocess.CompletedProcess[str]:
    command = [built("ptxsim"), "run", "--", program, way]
    return subprocess.run(command, capture_output=True, text=True, check=False, timeout=500)


def test_graphs_compute_what_their_nodes_say(program):
    done = run(program, "clean")
    assert dict(line.split("=") for line in done.stdout.splitlines()) == EXPECTED, done.stderr
    assert done.returncode == 0, done.stderr


def test_nodes_without_an_edge_race(program):
    done = run(program, "race")
    assert done.returncode == 2 and "queue-race" in done.stderr
