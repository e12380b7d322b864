"""Volatile accesses are relaxed: programs of old books that pass values through them, without and with an order."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.tests.sim_kit import MODES, Sim, compile_cuda

SOURCE = r"""
#define EXTERN extern "C" __global__ void
EXTERN reduction(int *out) {  /* warp-synchronous */
    __shared__ int room[64];
    volatile int *v = room;
    int t = threadIdx.x;
    room[t] = t;
    __syncthreads();
    if (t >= 32) return;
    for (int d = 32; d > 0; d /= 2) {
        int sum = v[t] + v[t + d];
        SYNC_WARP;
        v[t] = sum;
        SYNC_WARP;
    }
    if (t == 0) out[64 * blockIdx.x] = v[0];
}
EXTERN lock(int *out) {  /* a counter in a critical section */
    volatile int *count = out + 1;
    if (threadIdx.x != 0) return;
    while (atomicCAS(out, 0, 1) != 0) {}
    FENCE;
    *count = *count + 1;
    FENCE;
    atomicExch(out, 0);
}
EXTERN unlock(int *out) {  /* the lock is given back by a store */
    volatile int *count = out + 1;
    if (threadIdx.x != 0) return;
    while (atomicCAS(out, 0, 1) != 0) {}
    FENCE;
    *count = *count + 1;
    FENCE;
    *(volatile int *)out = 0;
}
EXTERN mailbox(int *out) {  /* between blocks */
    volatile int *flag = out, *data = out + 1;
    if (threadIdx.x != 0) return;
    if (blockIdx.x == 0) {
        *data = 7;
        FENCE;
        *flag = 1;
    } else if (blockIdx.x == 1) {
        while (*flag == 0) {}
        FENCE;
        out[2] = *data;
    }
}
EXTERN flag(int *out) {  /* between warps of a block */
    __shared__ volatile int full, data;
    if (threadIdx.x == 0) full = 0;
    __syncthreads();
    if (threadIdx.x == 0) {
        data = 5;
        FENCE;
        full = 1;
    }
    if (threadIdx.x == 32) {
        while (full == 0) {}
        FENCE;
        out[64 * blockIdx.x] = data;
    }
}
EXTERN exchange(int *out) {  /* between warps of a block, as ordinary data */
    __shared__ volatile int room[64];
    room[threadIdx.x] = threadIdx.x;
    SYNC_BLOCK;
    out[64 * blockIdx.x + threadIdx.x] = room[63 - threadIdx.x];
}
EXTERN sequence(int *out) {  /* odd while the data change; read without one, and read again */
    volatile int *number = out, *data = out + 32;
    if (threadIdx.x != 0) return;
    for (int i = 1; blockIdx.x == 0 && i < 4; i++) {
        *number = 2 * i - 1;
        FENCE;
        *data = i;
        FENCE;
        *number = 2 * i;
    }
    for (int before = -1, after = 0; blockIdx.x == 1 && (before != after || after != 6);) {
        before = *number;
        FENCE;
        out[64] = *data;
        FENCE;
        after = *number;
    }
}
EXTERN signal(int *out) {  /* a flag behind a barrier and a fence, polled before it is set: right in both */
    __shared__ volatile int full;
    if (threadIdx.x == 0) full = 0;
    __syncthreads();
    if (threadIdx.x == 32) {
        __threadfence_block();
        full = 1;
    }
    while (full == 0) {}
}
"""
FAULTS = {  # kernel: the kinds of its reviews
    "reduction": {"lane-race"},
    "lock": {"global-race"},
    "unlock": {"global-race"},
    "mailbox": {"global-race"},
    "flag": {"read-after-write-race", "write-after-read-race"},
    "sequence": {"global-race"},
    "exchange": {"uninitialised-read", "read-after-write-race", "write-after-read-race"},
}


@pytest.fixture(scope="module")
def texts(tmp_path_factory) -> dict[bool, str]:
    """The kernels' PTX, without and with what they need."""
    repaired = {"SYNC_WARP": "__syncwarp()", "SYNC_BLOCK": "__syncthreads()", "FENCE": "__threadfence()"}
    return {
        right: compile_cuda(
            "".join(f"#define {name} {call if right else ''}\n" for name, call in repaired.items()) + SOURCE,
            tmp_path_factory.mktemp("volatile"),
        )
        for right in (False, True)
    }


def launch(text: str, kernel: str, mode: str) -> Sim:
    sim = Sim(text, mode=mode)
    out = sim.buffer(np.zeros(256, np.int32))
    assert sim.launch(kernel, out, grid=4, block=64) == 0, sim.findings
    return sim


@pytest.mark.parametrize("kernel", FAULTS)
def test_values_that_pass_through_volatile_without_an_order_are_a_review(texts, kernel):
    for mode in MODES:
        sim = launch(texts[False], kernel, mode)
        assert sim.verdict == "review", (mode, sim.findings)
        assert sim.kinds and sim.kinds <= FAULTS[kernel], (mode, sim.findings)


@pytest.mark.parametrize("kernel", [*FAULTS, "signal"])
def test_a_barrier_or_fence_makes_them_clean(texts, kernel):
    for mode in MODES:
        sim = launch(texts[True], kernel, mode)
        assert sim.verdict == "clean", (mode, sim.findings)
