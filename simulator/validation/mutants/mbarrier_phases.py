"""Warps that wait for one mbarrier by parity: kernels that never miss a phase, and kernels that can."""

from __future__ import annotations

import numpy as np

from simulator.python.frame import Sim, body

ROUNDS = 6


def kernel(first: str, others: str, before: str = "mbarrier.init.shared.b64 [%r2], 1;") -> str:
    """A loop in which every warp waits by parity for `bar`.  Thread 0 runs `first` before the wait, and every thread
    runs `others` after it."""
    return body(
        "mov.u32 %r1, %tid.x; mov.u32 %r2, bar; mov.u32 %r3, back; mov.u32 %r4, flag; mov.u32 %r10, 0;",
        "setp.ne.u32 %p1, %r1, 0; @%p1 bra READY;",
        before,
        "mov.u32 %r5, 0; st.shared.u32 [%r4], %r5;",
        "READY: bar.sync 0;",
        "LOOP: and.b32 %r11, %r10, 1;",
        "@%p1 bra WAIT;",
        first,
        "WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], %r11; @!%p2 bra WAIT;",
        others,
        f"add.u32 %r10, %r10, 1; setp.lt.u32 %p3, %r10, {ROUNDS}; @%p3 bra LOOP;",
        registers=".shared .align 8 .b8 bar[8]; .shared .align 8 .b8 back[8]; .shared .align 4 .b32 flag;",
    )


ARRIVE = "mbarrier.arrive.shared.b64 _, [%r2];"
BACK = "mbarrier.init.shared.b64 [%r2], 1; mbarrier.init.shared.b64 [%r3], 64;"
WAIT_BACK = (
    "xor.b32 %r12, %r11, 1; BACK: mbarrier.try_wait.parity{0}.shared.b64 %p4, [%r3], %r12; @!%p4 bra BACK;" + ARRIVE
)
RELAXED = ".relaxed.cta"
SAFE = {
    "a barrier of all warps between the rounds": kernel(ARRIVE, "bar.sync 0;"),
    "an mbarrier back": kernel(WAIT_BACK.format(""), "mbarrier.arrive.shared.b64 _, [%r3];", BACK),
    "a relaxed mbarrier back": kernel(
        WAIT_BACK.format(RELAXED), f"mbarrier.arrive{RELAXED}.shared.b64 _, [%r3];", BACK
    ),
    "everybody arrives": kernel("", "bar.warp.sync -1;", "mbarrier.init.shared.b64 [%r2], 64;")
    .replace("WAIT: ", f"WAIT: {ARRIVE} AGAIN: ", 1)
    .replace("bra WAIT;\nbar", "bra AGAIN;\nbar")
    .replace("@%p1 bra WAIT;", ""),
    "a counter with relaxed atomics": kernel(
        "mul.lo.u32 %r12, %r10, 64; SPIN: ld.relaxed.cta.shared.u32 %r13, [%r4]; setp.lt.u32 %p4, %r13, %r12;"
        "@%p4 bra SPIN;" + ARRIVE,
        "atom.relaxed.cta.shared.add.u32 %r14, [%r4], 1;",
    ),
    "relaxed cluster barriers": kernel(ARRIVE, "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned;"),
}
# A wgmma completes after its four warps have issued it, so a warp that waits for it knows that all four got there.
WGMMA = (
    "wgmma.fence.sync.aligned;"
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %rd5, %rd5, %p5, 1, 1, 0, 0;"
    "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"
)
OPERANDS = (
    "READY: shl.b32 %r20, %r1, 4; mov.u32 %r21, tile; add.u32 %r20, %r21, %r20; mov.u32 %r22, 0;"
    "st.shared.v4.u32 [%r20], {%r22, %r22, %r22, %r22}; fence.proxy.async; shr.u32 %r21, %r21, 4;"
    "cvt.u64.u32 %rd5, %r21; or.b64 %rd5, %rd5, 0x0000000800080000; setp.ne.u32 %p5, %r22, 0;"
    "mov.f32 %f1, 0f00000000; mov.f32 %f2, %f1; mov.f32 %f3, %f1; mov.f32 %f4, %f1;"
)
SAFE["a wgmma of four warps"] = (
    kernel(ARRIVE, WGMMA)
    .replace("READY:", OPERANDS)
    .replace(".shared .align 4", ".shared .align 128 .b8 tile[2048]; .shared .align 4")
)
THREADS = {"only one other warp tells": 96, "a wgmma of four warps": 128}
UNSAFE = {
    "no thread tells the arriver": kernel(ARRIVE, "bar.warp.sync -1;"),
    "only one other warp tells": kernel(
        ARRIVE,
        "setp.ge.u32 %p4, %r1, 64; @%p4 bra SKIP; bar.sync 1, 64; SKIP: bar.warp.sync -1;",
    ),
    "arrives before the wait": SAFE["an mbarrier back"]
    .replace("mbarrier.arrive.shared.b64 _, [%r3];", "")
    .replace("WAIT: ", "WAIT: mbarrier.arrive.shared.b64 _, [%r3]; AGAIN: ", 1)
    .replace("@!%p2 bra WAIT;", "@!%p2 bra AGAIN;"),
}


def run(text: str, mode: str, seed: int, threads: int = 64) -> Sim:
    sim = Sim(text, mode, seed, limit=2_000_000)
    sim.launch("k", sim.buffer(np.zeros(4, np.uint32)), block=threads)
    return sim
