"""A wait on an mbarrier that two phases can overtake is reported in every schedule, and only such a wait."""

from __future__ import annotations

import re

import numpy as np
import pytest

from tests.simulator.sim_kit import MODES, Sim, body

ROUNDS = 6


def kernel(first: str, others: str, before: str = "mbarrier.init.shared.b64 [%r2], 1;") -> str:
    """A loop in which every warp waits by parity for `bar`; `first` is what warp 0's lane 0 does before the
    wait, `others` what every thread does behind it."""
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
# A wgmma is over when its four warps have issued it: whoever waits for it knows that they were there.
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
    "told before the wait": SAFE["an mbarrier back"]
    .replace("mbarrier.arrive.shared.b64 _, [%r3];", "")
    .replace("WAIT: ", "WAIT: mbarrier.arrive.shared.b64 _, [%r3]; AGAIN: ", 1)
    .replace("@!%p2 bra WAIT;", "@!%p2 bra AGAIN;"),
}


def run(text: str, mode: str, seed: int, threads: int = 64) -> Sim:
    sim = Sim(text, mode, seed, limit=2_000_000)
    sim.launch("k", sim.buffer(np.zeros(4, np.uint32)), block=threads)
    return sim


@pytest.mark.parametrize("name", SAFE)
def test_a_wait_that_the_next_phase_comes_after_is_not_reported(name):
    for mode in MODES:
        for seed in range(3 if mode == "random" else 1):
            sim = run(SAFE[name], mode, seed, THREADS.get(name, 64))
            assert sim.verdict == "clean", (mode, seed, sim.findings)


@pytest.mark.parametrize("name", UNSAFE)
def test_a_wait_that_may_come_two_phases_late_is_found_in_every_schedule(name):
    for mode in MODES:
        for seed in range(8 if mode == "random" else 1):
            sim = run(UNSAFE[name], mode, seed, THREADS.get(name, 64))
            assert "missed-phase" in sim.kinds, (mode, seed, sim.findings)
            finding = next(f for f in sim.findings if f["kind"] == "missed-phase")
            assert finding["verdict"] == 2
            assert "try_wait" in UNSAFE[name].splitlines()[finding["ptx_line"] - 1]


def test_a_copy_issued_behind_the_wait_holds_the_next_phase_up():
    """Warp 1 waits and then issues the copy whose bytes warp 0's arrival expects: nothing else orders the two."""
    text = body(
        "mov.u32 %r1, %tid.x; mov.u32 %r2, bar; mov.u32 %r3, data; ld.param.u64 %rd1, [p]; mov.u32 %r10, 0;",
        "setp.eq.u32 %p1, %r1, 0; setp.eq.u32 %p4, %r1, 32;",
        "@%p1 mbarrier.init.shared.b64 [%r2], 1; fence.mbarrier_init.release.cluster; bar.sync 0;",
        "@!%p1 bra ISSUE;",
        "ARM: mbarrier.arrive.expect_tx.shared.b64 %rd2, [%r2], 16;",
        "AWAIT: mbarrier.test_wait.shared.b64 %p2, [%r2], %rd2; @!%p2 bra AWAIT;",
        f"add.u32 %r10, %r10, 1; setp.lt.u32 %p3, %r10, {ROUNDS}; @%p3 bra ARM; bra END;",
        "ISSUE: @!%p4 bra END;",
        "NEXT: cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd1], 16, [%r2];",
        "and.b32 %r11, %r10, 1;",
        "WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], %r11; @!%p2 bra WAIT;",
        f"add.u32 %r10, %r10, 1; setp.lt.u32 %p3, %r10, {ROUNDS}; @%p3 bra NEXT;",
        "END:",
        registers=".shared .align 16 .b8 data[16]; .shared .align 8 .b8 bar[8];",
    )
    for mode in MODES:
        sim = run(text, mode, 1)
        assert sim.verdict == "clean", (mode, sim.findings)


def test_parities_start_anew_after_inval_and_init():
    text = body(
        "mov.u32 %r1, %tid.x; mov.u32 %r2, bar; mov.u32 %r10, 0;",
        "LIFE: mbarrier.init.shared.b64 [%r2], 1;",
        "mbarrier.arrive.shared.b64 _, [%r2]; mov.u32 %r3, 0;",
        "WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], %r3; @!%p2 bra WAIT;",
        "mbarrier.inval.shared.b64 [%r2];",
        "add.u32 %r10, %r10, 1; setp.lt.u32 %p3, %r10, 4; @%p3 bra LIFE;",
        registers=".shared .align 8 .b8 bar[8];",
    )
    sim = run(text, "eager", 1, threads=1)
    assert sim.verdict == "clean", sim.findings


def test_a_state_two_phases_old_is_an_error():
    text = body(
        "mov.u32 %r2, bar; mbarrier.init.shared.b64 [%r2], 1;",
        "mbarrier.arrive.shared.b64 %rd2, [%r2]; mbarrier.arrive.shared.b64 _, [%r2];",
        "mbarrier.test_wait.shared.b64 %p2, [%r2], %rd2;",
        registers=".shared .align 8 .b8 bar[8];",
    )
    sim = run(text, "eager", 1, threads=1)
    assert sim.kinds == {"missed-phase"}, sim.findings
    assert re.search("neither the current nor the preceding", sim.findings[0]["message"])


def test_who_issues_a_copy_does_not_know_when_it_ends():
    """The bytes of phase 1 may come at any time: a wait for phase 2 without one for phase 1 may miss a phase, even
    where the copy happens to be over when its thread arrives."""
    arrive, wait = "mbarrier.arrive.shared.b64 _, [%r2];", "mbarrier.try_wait.parity.shared.b64 %p1, [%r2], {0};"
    text = body(
        "mov.u32 %r2, bar; mov.u32 %r3, data; ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; setp.ne.u32 %p2, %r1, 0;",
        "setp.eq.u32 %p3, %r1, 32; @%p2 bra OTHERS; mbarrier.init.shared.b64 [%r2], 1;",
        "fence.mbarrier_init.release.cluster;" + arrive + "A: " + wait.format(0) + "@!%p1 bra A;",
        "mbarrier.expect_tx.relaxed.cta.shared.b64 [%r2], 16;",
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd1], 16, [%r2];",
        arrive + "AWAITED barrier.sync 0; C: " + wait.format(0) + "@!%p1 bra C; bra END;",
        "OTHERS: barrier.sync 0; @%p3 " + arrive + "END:",
        registers=".shared .align 16 .b8 data[16]; .shared .align 8 .b8 bar[8];",
    )
    for mode in MODES:
        sim = run(text.replace("AWAITED", "B: " + wait.format(1) + "@!%p1 bra B;"), mode, 1)
        assert sim.verdict == "clean", (mode, sim.findings)
    sim = run(text.replace("AWAITED", ""), "eager", 1)
    assert sim.kinds == {"missed-phase"}, sim.findings
