"""wgmma's rules: four warps execute the same instruction, after a fence, and wait before they use its registers."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.tests.sim_kit import MODES, Sim, body

ROOM = ".shared .align 128 .b8 tile[4096];"
BEGIN = (
    "mov.u32 %r1, %tid.x; mov.u32 %r2, tile; shl.b32 %r3, %r1, 4; add.u32 %r3, %r3, %r2; mov.u32 %r4, 0;"
    "st.shared.v4.u32 [%r3], {%r4, %r4, %r4, %r4}; fence.proxy.async; bar.sync 0; shr.u32 %r5, %r2, 4;"
    "cvt.u64.u32 %rd5, %r5; or.b64 %rd5, %rd5, 0x0000000800080000; mov.b64 %rd6, %rd5; setp.ne.u32 %p1, %r4, 0;"
    "mov.f32 %f1, 0f00000000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1; setp.lt.u32 %p2, %r1, 32;"
)
FENCE = "wgmma.fence.sync.aligned;"
MMA = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %rd5, %rd6, %p1, 1, 1, 0, 0;"
COMMIT = "wgmma.commit_group.sync.aligned;"
WAIT = "wgmma.wait_group.sync.aligned 0;"
CASES = {  # lines before the instruction, lines after it, and the kind of finding
    "as it should be": (FENCE, COMMIT + WAIT, None),
    "another A in one warp": ("@%p2 add.u64 %rd5, %rd5, 1;" + FENCE, COMMIT + WAIT, "wgmma-warps"),
    "another B in one warp": ("@%p2 add.u64 %rd6, %rd6, 1;" + FENCE, COMMIT + WAIT, "wgmma-warps"),
    "another scale-d in one warp": ("@%p2 setp.eq.u32 %p1, 0, 0;" + FENCE, COMMIT + WAIT, "wgmma-warps"),
    "another descriptor in one lane": (
        "setp.eq.u32 %p3, %r1, 5; @%p3 add.u64 %rd5, %rd5, 1;" + FENCE,
        COMMIT + WAIT,
        "matrix-descriptor",
    ),
    "no fence": ("", COMMIT + WAIT, "missing-wgmma-fence"),
    "a register written after the fence": (FENCE + "add.f32 %f2, %f2, %f1;", COMMIT + WAIT, "missing-wgmma-fence"),
    "a result read before the wait": (FENCE, COMMIT + "add.f32 %f9, %f3, %f3;" + WAIT, "wgmma-register"),
    "a result read by an aligned instruction before the wait": (
        FENCE,
        COMMIT
        + "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f9, %f10, %f11, %f12}, {%r10, %r11}, {%r12},"
        + " {%f20, %f3, %f20, %f20};"
        + WAIT,
        "wgmma-register",
    ),
    "a result written before the wait": (FENCE, COMMIT + "add.f32 %f3, %f9, %f9;" + WAIT, "wgmma-register"),
    "a result of the group that the wait leaves": (
        FENCE,
        COMMIT + MMA.replace("%f", "%f1") + COMMIT + "wgmma.wait_group.sync.aligned 1; add.f32 %f9, %f11, %f11;" + WAIT,
        "wgmma-register",
    ),
    "a result of the group waited for": (
        FENCE,
        COMMIT + MMA.replace("%f", "%f1") + COMMIT + "wgmma.wait_group.sync.aligned 1; add.f32 %f9, %f3, %f3;" + WAIT,
        None,
    ),
    "no commit": (FENCE, WAIT + "add.f32 %f9, %f3, %f3;" + COMMIT + WAIT, "wgmma-register"),
    "an operand overwritten before the wait": (
        FENCE,
        COMMIT + "bar.sync 0; st.shared.u32 [%r3], %r4;" + WAIT,
        "overwrite-while-read",
    ),
}


def run(text: str, mode: str = "eager", block: int = 128) -> Sim:
    sim = Sim(text, mode)
    sim.launch("k", sim.buffer(np.zeros(4, np.uint32)), block=block)
    return sim


@pytest.mark.parametrize("name", CASES)
def test_each_broken_rule_is_reported(name):
    before, after, kind = CASES[name]
    zeros = "".join(f"mov.f32 %f1{i}, %f1;" for i in range(1, 5))
    text = body(BEGIN + zeros, before, MMA, after, registers=ROOM)
    for mode in MODES:
        sim = run(text, mode)
        assert sim.kinds == (set() if kind is None else {kind}), (mode, sim.findings)


def test_a_register_copy_after_the_fence_is_a_review():
    """nvcc itself puts copies after the fence; ptxas then serialises, which is correct but slow."""
    for write, verdict in (("add.f32 %f2, %f2, %f1;", "error"), ("mov.f32 %f2, %f1;", "review")):
        sim = run(body(BEGIN, FENCE, write, MMA, COMMIT, WAIT, registers=ROOM))
        assert (sim.kinds, sim.verdict) == ({"missing-wgmma-fence"}, verdict)


ZERO = "mov.f32 %f2, 0f00000000;"


@pytest.mark.parametrize(
    ("lines", "clean"),
    [
        ((FENCE, ZERO, MMA, MMA, COMMIT, WAIT), True),
        ((FENCE, ZERO, "mov.f32 %f3, %f2;", MMA, COMMIT, WAIT), True),
        ((FENCE, ZERO, "mov.f32 %f3, %f4;", MMA, COMMIT, WAIT), False),
        ((ZERO, MMA, COMMIT, WAIT), False),
        ((FENCE, MMA, COMMIT, WAIT, ZERO, MMA, COMMIT, WAIT), False),
        ((FENCE, MMA, COMMIT, WAIT, ZERO, FENCE, MMA, COMMIT, WAIT), True),
        ((FENCE, MMA, COMMIT, WAIT, FENCE, ZERO, MMA, COMMIT, WAIT), True),
        ((FENCE, "mov.f32 %f2, %f1;", MMA, COMMIT, WAIT), False),
    ],
)
def test_zeros_between_a_fence_and_its_first_wgmma_are_clean(lines, clean):
    """nvcc puts the zeros of accumulators there, from a program that has them before the fence."""
    zeros = "".join(f"mov.f32 %f1{i}, %f1;" for i in range(1, 5))
    for mode in MODES:
        sim = run(body(BEGIN + zeros, *lines, registers=ROOM), mode)
        assert sim.kinds == (set() if clean else {"missing-wgmma-fence"}), (mode, sim.findings)


def test_fewer_than_four_warps():
    assert run(body(BEGIN, FENCE, MMA, COMMIT, WAIT, registers=ROOM), block=96).kinds == {"wgmma-warps"}


def test_more_in_flight_than_are_followed():
    for count, verdict in ((64, "clean"), (65, "incomplete")):
        sim = run(body(BEGIN, FENCE, (MMA + COMMIT) * count, WAIT, registers=ROOM), "late")
        assert sim.verdict == verdict, (count, sim.findings)
