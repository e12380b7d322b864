"""A call of the shim whose memory the host does not have says so, and gives no other error and no success."""

from __future__ import annotations

import os
import re
import subprocess

import pytest

from simulator.tests.sim_kit import built, nvcc

# The host's memory fails at the n-th request, from then on; each call says its error.
PROGRAM = r"""
#include <cstdio>
#include <cuda_runtime.h>
static char host[256], more[256];
static bool say(const char *name, cudaError_t error) {
    std::printf("%s=%d\n", name, (int)error);
    return error == cudaSuccess;
}
int main() {
    void *device = nullptr;
    cudaStream_t queue = nullptr;
    cudaEvent_t event = nullptr;
    say("malloc", cudaMalloc(&device, 256));
    say("stream", cudaStreamCreate(&queue));
    say("event", cudaEventCreate(&event));
    say("register", cudaHostRegister(host, sizeof host, 0));
    if (device != nullptr) {
        say("write", cudaMemcpy(device, more, sizeof more, cudaMemcpyHostToDevice));
        say("set", cudaMemset(device, 1, 256));
        say("read", cudaMemcpy(more, device, sizeof more, cudaMemcpyDeviceToHost));
    }
    if (event != nullptr) {
        say("record", cudaEventRecord(event, queue));
    }
    say("synchronize", cudaDeviceSynchronize());
    std::printf("given=%d %d\n", device != nullptr, queue != nullptr);
}
"""
SUCCESS, OUT_OF_MEMORY = "0", "2"


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("memory")
    (folder / "calls.cu").write_text(PROGRAM)
    wraps = [f"-Xlinker=--wrap={name}" for name in ["malloc", "calloc", "realloc", "aligned_alloc", "strdup", "free"]]
    command = [nvcc(), "-cudart=none", *wraps, "-o", folder / "calls", folder / "calls.cu"]
    command += [str(built("libcudart_sim.a")), str(built("simulator/tests/machine/no_memory.o")), "-lpthread", "-lm"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    return folder / "calls"


def said(program, **settings: str) -> tuple[dict[str, str], str]:
    done = subprocess.run([program], env=os.environ | settings, capture_output=True, text=True, check=False, timeout=60)
    assert done.returncode >= 0, done.stderr
    return dict(line.split("=", 1) for line in done.stdout.splitlines()), done.stderr


def test_each_call_says_that_there_is_no_memory(program):
    clean, text = said(program)
    assert clean.pop("given") == "1 1"
    assert set(clean.values()) == {SUCCESS}
    short = set()
    for number in range(int(re.search(r"no_memory: (\d+) requests", text)[1])):
        got, _ = said(program, NO_MEMORY_AT=str(number), NO_MEMORY_ALL="1")
        given = got.pop("given")
        assert set(got.values()) <= {SUCCESS, OUT_OF_MEMORY}, (number, got)
        assert given == f"{got['malloc'] == SUCCESS:d} {got['stream'] == SUCCESS:d}", number
        short |= {call for call, error in got.items() if error == OUT_OF_MEMORY}
    assert short >= {"malloc", "stream", "register"}
