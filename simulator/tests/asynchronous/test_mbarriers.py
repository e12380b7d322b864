"""mbarrier operations: counts, phases, states and parities of one thread, and arrivals of others."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.tests.sim_kit import MODES, Sim, body

BEGIN = "mov.u32 %r2, bar; ld.param.u64 %rd1, [p];"
ROOM = ".shared .align 16 .b8 data[256]; .shared .align 8 .b8 bar[16];"


def results(*steps: str, mode: str = "eager") -> list[int]:
    """One thread executes the steps; returns %r9 after each."""
    lines = [f"mov.u32 %r9, 0; {step} st.global.u32 [%rd1+{4 * i}], %r9;" for i, step in enumerate(steps)]
    sim = Sim(body(BEGIN, *lines, registers=ROOM), mode)
    out = sim.buffer(np.zeros(64, np.uint32))
    assert sim.launch("k", out, block=1) == 0, sim.findings
    assert sim.verdict == "clean", sim.findings
    return out.tolist()[: len(steps)]


INIT = "mbarrier.init.shared.b64 [%r2], {};"
TEST = "mbarrier.test_wait.shared.b64 %p1, [%r2], {}; selp.u32 %r9, 1, 0, %p1;"
PARITY = "mbarrier.test_wait.parity.shared.b64 %p1, [%r2], {}; selp.u32 %r9, 1, 0, %p1;"
PENDING = "mbarrier.pending_count.b64 %r9, {};"
ARRIVE = "mbarrier.arrive.shared.b64 {}, [%r2];"


def test_arrivals_count_down_and_a_state_names_its_phase():
    """PENDING gives the count before the arrival that returned the state, TEST whether the state's phase is over."""
    assert results(
        INIT.format(3) + ARRIVE.format("%rd10") + PENDING.format("%rd10"),  # before the arrival
        ARRIVE.format("%rd11") + PENDING.format("%rd11"),
        TEST.format("%rd10"),
        ARRIVE.format("%rd12") + PENDING.format("%rd12"),
        TEST.format("%rd10"),
        TEST.format("%rd12"),
        ARRIVE.format("%rd13") + PENDING.format("%rd13"),  # the next phase has its full count
        TEST.format("%rd13"),
    ) == [3, 2, 0, 1, 1, 1, 3, 0]


def test_one_arrival_that_counts_several():
    assert results(
        INIT.format(7) + "mbarrier.arrive.shared.b64 %rd10, [%r2], 5;" + PENDING.format("%rd10"),
        "mbarrier.arrive.noComplete.shared.b64 %rd11, [%r2], 1;" + PENDING.format("%rd11"),
        TEST.format("%rd11"),
        "mbarrier.arrive.release.cta.shared::cta.b64 _, [%r2], 1;" + TEST.format("%rd11"),
    ) == [7, 2, 0, 1]


def test_parity_alternates():
    steps = [INIT.format(1) + PARITY.format(0), PARITY.format(1)]
    for _ in range(3):
        steps += [ARRIVE.format("_") + PARITY.format(0), PARITY.format(1)]
    assert results(*steps) == [0, 1, 1, 0, 0, 1, 1, 0]


def test_a_dropped_arrival_is_not_expected_again():
    assert results(
        INIT.format(3) + "mbarrier.arrive_drop.shared.b64 %rd10, [%r2];" + PENDING.format("%rd10"),
        ARRIVE.format("%rd11") + ARRIVE.format("_") + TEST.format("%rd11"),
        ARRIVE.format("%rd12") + PENDING.format("%rd12"),
        ARRIVE.format("_") + TEST.format("%rd12"),
    ) == [3, 1, 2, 1]


def test_bytes_hold_a_phase_open():
    assert results(
        INIT.format(1) + "mbarrier.arrive.expect_tx.shared.b64 %rd10, [%r2], 24;" + TEST.format("%rd10"),
        "mbarrier.complete_tx.relaxed.cta.shared.b64 [%r2], 16;" + TEST.format("%rd10"),
        "mbarrier.complete_tx.relaxed.cta.shared.b64 [%r2], 8;" + TEST.format("%rd10"),
        "mbarrier.expect_tx.relaxed.cta.shared.b64 [%r2], 8; mbarrier.complete_tx.relaxed.cta.shared.b64 [%r2], 8;"
        + ARRIVE.format("%rd11")
        + TEST.format("%rd11"),
    ) == [0, 0, 1, 1]


def test_adjacent_barriers_are_independent():
    assert results(
        INIT.format(1)
        + "mbarrier.init.shared.b64 [%r2+8], 2; mbarrier.arrive.shared.b64 %rd10, [%r2+8];"
        + PENDING.format("%rd10"),
        PARITY.format(0),
        "mbarrier.test_wait.parity.shared.b64 %p1, [%r2+8], 0; selp.u32 %r9, 1, 0, %p1;",
        ARRIVE.format("_") + PARITY.format(0),
        "mbarrier.test_wait.parity.shared.b64 %p1, [%r2+8], 0; selp.u32 %r9, 1, 0, %p1;",
    ) == [2, 0, 0, 1, 0]


def test_try_wait_takes_a_time_limit_and_generic_addresses():
    generic = "mov.u64 %rd20, bar; cvta.shared.u64 %rd20, %rd20;"
    assert results(
        generic + "mbarrier.init.b64 [%rd20], 1; mbarrier.arrive.b64 %rd10, [%rd20];"
        "mbarrier.try_wait.b64 %p1, [%rd20], %rd10, 1000; selp.u32 %r9, 1, 0, %p1;",
        "mbarrier.try_wait.parity.shared.b64 %p1, [%r2], 0, 1000; selp.u32 %r9, 1, 0, %p1;",
        "mbarrier.inval.b64 [%rd20]; mbarrier.init.b64 [%rd20], 2; mbarrier.arrive.b64 %rd11, [%rd20];"
        "" + PENDING.format("%rd11"),
    ) == [1, 1, 2]  # fmt: skip


def test_the_first_try_wait_may_fail():
    """The first try_wait for an incomplete phase fails, so programs must retry in a loop."""
    text = body(
        "mov.u32 %r1, %tid.x; " + BEGIN,
        "setp.eq.u32 %p2, %r1, 0; @%p2 mbarrier.init.shared.b64 [%r2], 1; bar.sync 0;"
        " setp.ge.u32 %p3, %r1, 32; @%p3 bra LATE;",
        "mbarrier.try_wait.parity.shared.b64 %p1, [%r2], 0; selp.u32 %r9, 1, 0, %p1;"
        " @%p2 st.global.u32 [%rd1], %r9; bra END;",
        "LATE: mov.u32 %r3, 0; L: add.u32 %r3, %r3, 1; setp.lt.u32 %p4, %r3, 5000; @%p4 bra L;",
        "setp.eq.u32 %p5, %r1, 32; @%p5 mbarrier.arrive.shared.b64 _, [%r2]; END:",
        registers=ROOM,
    )
    sim = Sim(text)
    out = sim.buffer(np.full(1, 7, np.uint32))
    assert sim.launch("k", out, block=64) == 0, sim.findings
    assert out[0] == 0


@pytest.mark.parametrize("mode", MODES)
def test_arrivals_from_the_whole_cluster(mode):
    """Every thread of four CTAs arrives at rank 2's barrier. Threads that wait for it then see the stores of all
    CTAs, but not if the arrivals are relaxed."""
    text = body(
        "mov.u32 %r1, %tid.x; mov.u32 %r4, %cluster_ctarank; setp.eq.u32 %p2, %r1, 0; " + BEGIN,
        "mov.u32 %r7, data; @%p2 mbarrier.init.shared.b64 [%r2], 128; fence.mbarrier_init.release.cluster;",
        "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
        "mapa.shared::cluster.u32 %r5, %r2, 2; mapa.shared::cluster.u32 %r6, %r7, 2; mad.lo.u32 %r8, %r4, 4, %r6;",
        "add.u32 %r10, %r4, 50; @%p2 st.shared::cluster.u32 [%r8], %r10; bar.warp.sync -1;",
        "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r5]; setp.ne.u32 %p3, %r4, 2; @%p3 bra END;",
        "TRY: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p1, [%r2], 0; @!%p1 bra TRY;",
        "ld.shared.v4.u32 {%r20, %r21, %r22, %r23}, [%r7]; @%p2 st.global.v4.u32 [%rd1], {%r20, %r21, %r22, %r23};",
        "END: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
        registers=ROOM,
    )
    sim = Sim(text, mode)
    out = sim.buffer(np.zeros(4, np.uint32))
    assert sim.launch("k", out, grid=4, cluster=4) == 0, sim.findings
    assert sim.verdict == "clean", sim.findings
    assert out.tolist() == [50, 51, 52, 53]
    sim = Sim(
        text.replace("arrive.release.cluster.shared::cluster.b64", "arrive.relaxed.cluster.shared::cluster.b64"), mode
    )
    sim.launch("k", sim.buffer(np.zeros(4, np.uint32)), grid=4, cluster=4)
    assert "read-after-write-race" in sim.kinds, sim.findings


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("noinc", [False, True])
def test_cp_async_arrives_when_its_copies_are_complete(mode, noinc):
    """cp.async.mbarrier.arrive without .noinc increments the pending count for its own arrival."""
    arrive = f"cp.async.mbarrier.arrive{'.noinc' * noinc}.shared.b64 [%r2];"
    text = body(
        "mov.u32 %r1, %tid.x; setp.eq.u32 %p2, %r1, 0; mov.u32 %r7, data; shl.b32 %r8, %r1, 2; add.u32 %r8, %r8, %r7;"
        + BEGIN,
        f"@%p2 mbarrier.init.shared.b64 [%r2], {32 if noinc else 1}; bar.warp.sync -1; mul.wide.u32 %rd2, %r1, 4;",
        "add.u64 %rd2, %rd1, %rd2; cp.async.ca.shared.global [%r8], [%rd2], 4;",
        arrive,
        "" if noinc else "bar.warp.sync -1; @%p2 mbarrier.arrive.shared.b64 _, [%r2];",
        "TRY: mbarrier.try_wait.parity.shared.b64 %p1, [%r2], 0; @!%p1 bra TRY; xor.b32 %r9, %r8, 4;"
        " ld.shared.u32 %r9, [%r9];",
        "st.global.u32 [%rd2+128], %r9;",
        registers=ROOM,
    )
    sim = Sim(text, mode)
    out = sim.buffer(np.arange(64, dtype=np.uint32))
    assert sim.launch("k", out) == 0, sim.findings
    assert sim.verdict == "clean", sim.findings
    assert out[32:].tolist() == [i ^ 1 for i in range(32)]


@pytest.mark.parametrize("mode", MODES)
def test_a_phase_releases_what_earlier_phases_released(mode):
    """Warp 0 stores and arrives. Warp 1 waits for that phase without acquire and completes the next phase itself; its
    wait for the next phase acquires, which covers warp 0's store."""
    text = body(
        BEGIN + "mov.u32 %r1, %tid.x; mov.u32 %r3, data; setp.eq.u32 %p2, %r1, 0; setp.eq.u32 %p3, %r1, 32;",
        "@%p2 mbarrier.init.shared.b64 [%r2], 1; bar.sync 0; @%p2 st.shared.u32 [%r3], %r1;",
        "@%p2 mbarrier.arrive.shared.b64 _, [%r2]; @!%p3 bra END;",
        "A: mbarrier.try_wait.parity.relaxed.cta.shared::cta.b64 %p1, [%r2], 0; @!%p1 bra A;",
        "mbarrier.arrive.shared.b64 _, [%r2];",
        "B: mbarrier.try_wait.parity.shared::cta.b64 %p1, [%r2], 1; @!%p1 bra B; ld.shared.u32 %r4, [%r3]; END:",
        registers=ROOM,
    )
    sim = Sim(text, mode)
    sim.launch("k", sim.buffer(np.zeros(4, np.uint32)), block=64)
    assert sim.verdict == "clean", sim.findings
