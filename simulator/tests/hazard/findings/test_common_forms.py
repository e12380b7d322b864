"""Common forms that are right, or nearly so, and what would make them wrong."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.tests.sim_kit import MODES, Sim, body, compile_cuda

SOURCE = r"""
extern "C" __global__ void ticket(int *out) {  /* the last block resets the counter of all */
    __shared__ bool last;
    out[64 + blockIdx.x] = blockIdx.x;
    __threadfence();
    __syncthreads();
    if (threadIdx.x == 0) last = atomicAdd(out, 1) == gridDim.x - 1;
    __syncthreads();
    if (last && threadIdx.x == 0) *out = 0;
}
extern "C" __global__ void early(int *out) {  /* any block does */
    if (threadIdx.x == 0) {
        atomicAdd(out, 1);
        if (blockIdx.x == 1) *out = 0;
    }
}
extern "C" __global__ void tree(int *out) {
    int x = threadIdx.x;
    if (threadIdx.x < 8) {
        for (int d = 4; d > 0; d /= 2) x = max(x, __shfl_down_sync(0xff, x, d));
        if (threadIdx.x == 0) *out = x;
    }
}
extern "C" __global__ void halves(int *out, int right) {  /* each half of a warp synchronises; lanes of both meet */
    __shared__ int room[32];
    int t = threadIdx.x;
    room[t] = t;
    if (right == 2) __syncwarp();
    else if (t < 16) __syncwarp(0xffff);
    else __syncwarp(0xffff0000);
    out[t + 32 * blockIdx.x] = room[right == 1 ? t ^ 1 : 31 - t];
}
extern "C" __global__ void registers(int *out, int warps) {
    if (threadIdx.x < 32 * warps) asm volatile("setmaxnreg.dec.sync.aligned.u32 40;");
    if (threadIdx.x == 0) out[0] = 1;
}
extern "C" __global__ void index(int *out) {
    if (threadIdx.x < 8) out[threadIdx.x] = __shfl_sync(0xff, threadIdx.x, 12);
}
"""


def found(text: str, kernel: str, mode: str) -> tuple[str, list[int], set[str]]:
    sim = Sim(text, mode=mode)
    out = sim.buffer(np.zeros(128, np.int32))
    sim.launch(kernel, out, grid=4, block=32)
    return sim.verdict, out.tolist(), sim.kinds


def test_the_last_block_may_reset_the_counter_that_told_it_so(tmp_path):
    text = compile_cuda(SOURCE, tmp_path)
    for mode in MODES:
        verdict, out, kinds = found(text, "ticket", mode)
        assert (verdict, out[0]) == ("clean", 0), (mode, kinds)
    assert found(text, "early", "eager")[0] == "review"


def test_a_tree_over_part_of_a_warp_reads_past_its_end(tmp_path):
    text = compile_cuda(SOURCE, tmp_path)
    verdict, out, kinds = found(text, "tree", "eager")
    assert "shuffle-source" in kinds and verdict == "review" and out[0] == 7
    assert found(text, "index", "eager")[0] == "error"


def test_a_syncwarp_of_half_a_warp_orders_that_half_alone(tmp_path):
    text = compile_cuda(SOURCE, tmp_path)
    for right in (0, 1, 2):
        sim = Sim(text)
        assert sim.launch("halves", sim.buffer(np.zeros(128, np.int32)), right, block=32) == 0
        assert (sim.verdict, sim.kinds) == (("review", {"lane-race"}) if right == 0 else ("clean", set())), right


def test_all_four_warps_of_a_warpgroup_set_their_registers(tmp_path):
    text = compile_cuda(SOURCE, tmp_path)
    for warps, kinds in ((3, {"setmaxnreg"}), (1, {"setmaxnreg"}), (4, set()), (0, set())):
        sim = Sim(text)
        sim.launch("registers", sim.buffer(np.zeros(128, np.int32)), warps, block=128)
        assert sim.kinds == kinds, warps


def test_an_mbarrier_is_left_to_its_operations():
    use = "mov.u32 %r1, bar; mbarrier.init.shared.b64 [%r1], 1; {} mbarrier.inval.shared.b64 [%r1]; {}"
    verdicts = {
        ("st.shared.u32 [%r1+4], 0;", ""): "error",
        ("ld.shared.u64 %rd1, [%r1];", ""): "review",
        ("st.shared.u32 [%r1+8], 0;", "st.shared.u32 [%r1], 0;"): "clean",
    }
    for lines, verdict in verdicts.items():
        sim = Sim(body(use.format(*lines), registers=".shared .align 8 .b64 bar[2];"))
        sim.launch("k", sim.buffer(np.zeros(4, np.int32)), block=1)
        assert (sim.verdict, sim.kinds - {"uninitialised-read"}) == (
            verdict,
            set() if verdict == "clean" else {"mbarrier-memory"},
        ), (lines, sim.findings)


# What each half of two warps does before both read the word of the same lane of the other warp, and the finding.
PARTS = {
    "two arrivals at one barrier": ("barrier.sync 0; bra READ;", "barrier.sync 0;", None),
    "one of the two ends instead": ("barrier.sync 0; bra READ;", "exit;", None),
    "two parts of the half that has not ended": (
        "exit;",
        "and.b32 %r6, %r1, 8; setp.eq.u32 %p1, %r6, 0; @%p1 bra PART; barrier.sync 1, 64; bra READ;"
        "PART: barrier.sync 1, 64;",
        None,
    ),
    "one of the two goes past it": ("bra READ;", "barrier.sync 0;", "write-after-read-race"),
    "a half that signals for the other": (
        "barrier.sync 2, 32; barrier.sync 3, 64; exit;",  # which waits for the end of the others
        "barrier.sync 1, 32; add.u32 %r3, %r3, 64;",
        "elected-signal",
    ),
}


@pytest.mark.parametrize("name", PARTS)
@pytest.mark.parametrize("mode", MODES)
def test_a_warp_that_arrives_in_two_parts_signals_for_the_lanes_that_do(name: str, mode: str):
    """The form of cooperative groups' sync() behind a branch, as in cuda-samples' binomialOptions."""
    upper, lower, kind = PARTS[name]
    text = body(
        "mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; mov.u32 %r5, room; add.u32 %r2, %r2, %r5; st.shared.u32 [%r2], %r1;"
        "xor.b32 %r3, %r1, 32; shl.b32 %r3, %r3, 2; add.u32 %r3, %r3, %r5;"
        "and.b32 %r6, %r1, 16; setp.eq.u32 %p1, %r6, 0; @%p1 bra LOWER;",
        upper,
        f"LOWER: {lower} READ: ld.shared.u32 %r4, [%r3];",
        registers=".shared .align 4 .b32 room[64];",
    )
    sim = Sim(text, mode=mode)
    sim.launch("k", 0, block=64)
    assert kind in sim.kinds if kind else sim.verdict == "clean", sim.findings
