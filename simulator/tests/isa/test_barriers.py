"""Barriers of a CTA, warp and cluster: which threads count as arrived, reductions, independent barriers."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.tests.sim_kit import MODES, Sim, body

STORE = "ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd1, %rd1, %rd2;"


def run(*lines: str, threads: int = 64, mode: str = "eager", registers: str = "", **launch) -> tuple[Sim, list[int]]:
    sim = Sim(body(STORE, *lines, registers=registers), mode, limit=1_000_000)
    out = sim.buffer(np.zeros(threads, np.uint32))
    sim.launch("k", out, block=threads, **launch)
    return sim, out.tolist()


@pytest.mark.parametrize("barrier", ["bar.sync 1, 64;", "barrier.sync.aligned 1, 64;", "barrier.sync 1, 64;"])
@pytest.mark.parametrize(
    "first",
    [
        "setp.lt.u32 %p1, %r1, 16; @%p1 exit;",
        "setp.lt.u32 %p1, %r1, 16; @!%p1 bra WAIT; mov.u32 %r2, 0; L: add.u32 %r2, %r2, 1;"
        " setp.lt.u32 %p2, %r2, 50; @%p2 bra L; exit; WAIT:",
    ],
    ids=["exit first", "exit last"],
)
def test_a_barrier_with_a_count_counts_whole_warps_without_lanes_that_exit(barrier, first):
    """PTX ISA, barrier: a warp arrives when its lanes that have not exited have, here half of warp 0."""
    sim, out = run(first, barrier, "st.global.u32 [%rd1], %r1;")
    assert sim.verdict == "clean", sim.findings
    assert out == [0] * 16 + list(range(16, 64))


def test_a_barrier_with_a_count_counts_a_last_warp_of_few_threads_whole():
    sim, out = run("barrier.sync 1, 64; st.global.u32 [%rd1], %r1;", threads=48)
    assert sim.verdict == "clean", sim.findings
    assert out == list(range(48))


def test_a_barrier_of_all_threads_waits_for_the_remaining_ones():
    sim, out = run(
        "setp.lt.u32 %p1, %r1, 16; @%p1 exit; setp.ge.u32 %p1, %r1, 64; @%p1 exit; bar.sync 0;"
        " st.global.u32 [%rd1], %r1;",
        threads=96,
    )
    assert sim.verdict == "clean", sim.findings
    assert out == [0] * 16 + list(range(16, 64)) + [0] * 32


def test_exits_complete_a_barrier_of_all_but_not_one_with_a_count():
    late = "setp.lt.u32 %p1, %r1, 32; @!%p1 bra WAIT; mov.u32 %r2, 0; L: add.u32 %r2, %r2, 1; setp.lt.u32 %p2, %r2, 50;"
    sim, _ = run(late, "@%p2 bra L; exit; WAIT: bar.sync 2;")
    assert sim.verdict == "clean", sim.findings
    sim, _ = run(late, "@%p2 bra L; exit; WAIT: bar.sync 2, 64;")
    assert sim.kinds == {"deadlock"}, sim.findings


@pytest.mark.parametrize("mode", MODES)
def test_reductions_start_anew_each_time(mode):
    """Three rounds, in which some, all and no threads have a true predicate."""
    lines = ["mov.u32 %r9, 0;"]
    for limit in (40, 96, 0, 96, 33):
        lines.append(
            f"setp.lt.u32 %p1, %r1, {limit}; bar.red.popc.u32 %r2, 0, %p1; bar.red.and.pred %p2, 0, %p1;"
            " bar.red.or.pred %p3, 0, %p1; bar.red.popc.u32 %r3, 0, !%p1; selp.u32 %r4, 1, 0, %p2;"
            " selp.u32 %r5, 1, 0, %p3;"
            " mad.lo.u32 %r9, %r9, 7, %r2; mad.lo.u32 %r9, %r9, 7, %r3; mad.lo.u32 %r9, %r9, 7, %r4;"
            " mad.lo.u32 %r9, %r9, 7, %r5;"
        )
    sim, out = run(*lines, "st.global.u32 [%rd1], %r9;", threads=96, mode=mode)
    assert sim.verdict == "clean", sim.findings
    want = 0
    for limit in (40, 96, 0, 96, 33):
        for value in (limit, 96 - limit, int(limit == 96), int(limit > 0)):
            want = want * 7 + value
    assert out == [want % 2**32] * 96


def test_a_reduction_of_some_warps():
    lines = "setp.ge.u32 %p1, %r1, 64; @%p1 bra END; and.b32 %r2, %r1, 1; setp.eq.u32 %p2, %r2, 0;"
    sim, out = run(lines, "bar.red.popc.u32 %r3, 4, 64, %p2; st.global.u32 [%rd1], %r3; END:", threads=96)
    assert sim.verdict == "clean", sim.findings
    assert out == [32] * 64 + [0] * 32


def test_barriers_with_different_numbers_are_independent():
    """Warp 0 uses barriers 1 to 15 in turn, each with another warp."""
    lines = "shr.u32 %r2, %r1, 5; setp.eq.u32 %p1, %r2, 0; @!%p1 bra OTHER; mov.u32 %r3, 1;"
    loop = "L: bar.sync %r3, 64; add.u32 %r3, %r3, 1; setp.lt.u32 %p2, %r3, 16; @%p2 bra L; bra END;"
    sim, out = run(lines, loop, "OTHER: bar.sync %r2, 64; END: st.global.u32 [%rd1], %r2;", threads=512)
    assert sim.verdict == "clean", sim.findings
    assert out == [i // 32 for i in range(512)]


def test_bar_warp_sync_groups_lanes_by_mask():
    """Even and odd lanes synchronise among themselves: neither group waits for the other."""
    sim, out = run(
        "and.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r2, 0; mov.u32 %r6, cell; shl.b32 %r3, %r1, 2; add.u32 %r3, %r3, %r6;",
        "xor.b32 %r4, %r1, 2; shl.b32 %r4, %r4, 2; add.u32 %r4, %r4, %r6; @%p1 bra EVEN;",
        "st.shared.u32 [%r3], %r1; bar.warp.sync 0xAAAAAAAA; ld.shared.u32 %r5, [%r4]; bra END;",
        "EVEN: st.shared.u32 [%r3], %r1; bar.warp.sync 0x55555555; ld.shared.u32 %r5, [%r4];",
        "END: st.global.u32 [%rd1], %r5;",
        threads=32,
        registers=".shared .align 8 .b8 cell[128];",
    )
    assert out == [i ^ 2 for i in range(32)]
    assert sim.verdict in ("clean", "review"), sim.findings


@pytest.mark.parametrize("mode", MODES)
def test_cluster_barriers_publish_what_each_cta_wrote(mode):
    """Each CTA reads its neighbour's word: a race without the barrier or with a relaxed one."""
    text = body(
        STORE,
        "mov.u32 %r2, cell; mov.u32 %r3, %cluster_ctarank; setp.eq.u32 %p1, %r1, 0; add.u32 %r4, %r3, 100;",
        "@%p1 st.shared.u32 [%r2], %r4;",
        "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
        "add.u32 %r5, %r3, 1; and.b32 %r5, %r5, 3; mapa.shared::cluster.u32 %r6, %r2, %r5;",
        "ld.shared::cluster.u32 %r7, [%r6]; mov.u32 %r8, %ctaid.x; mul.wide.u32 %rd3, %r8, 128;"
        " add.u64 %rd1, %rd1, %rd3;",
        "st.global.u32 [%rd1], %r7; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
        registers=".shared .align 8 .b8 cell[8];",
    )
    for changed, kinds in (
        (text, set()),
        (text.replace("cluster.arrive.aligned", "cluster.arrive.relaxed.aligned", 1), {"read-after-write-race"}),
    ):
        sim = Sim(changed, mode)
        out = sim.buffer(np.zeros((8, 32), np.uint32))
        sim.launch("k", out, grid=8, cluster=4)
        assert (out == [[100 + (i + 1) % 4] for i in range(8)]).all()
        assert sim.kinds == kinds, (mode, sim.findings)


def test_the_next_cta_starts_with_fresh_barriers():
    """Each CTA exits with an incomplete barrier, whose thread count differs from the previous CTA's."""
    text = body("mov.u32 %r2, %ctaid.x; and.b32 %r2, %r2, 1; mad.lo.u32 %r3, %r2, 32, 64; bar.arrive 2, %r3;")
    sim = Sim(text, threads=1)
    assert sim.launch("k", 0, grid=4) == 0, sim.findings
    assert sim.verdict == "clean"


@pytest.mark.parametrize("mode", MODES)
def test_exited_threads_do_not_count_for_others_at_a_cluster_barrier(mode):
    """One thread of a CTA waits twice for its neighbour's; the others arrive and exit, or exit at once."""
    meet = "barrier.cluster.arrive; barrier.cluster.wait;"
    sim = Sim(
        body(
            "ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mov.u32 %r2, cell; mov.u32 %r3, %cluster_ctarank;",
            "setp.ne.u32 %p1, %r1, 0; setp.eq.u32 %p2, %r3, 1; mapa.shared::cluster.u32 %r4, %r2, 0;",
            "@%p2 bra SECOND; barrier.cluster.arrive; @%p1 exit; barrier.cluster.wait; ld.shared.u32 %r5, [%r2];",
            f"st.global.u32 [%rd1], %r5; {meet} {meet} ld.shared.u32 %r5, [%r2];",
            f"st.global.u32 [%rd1+4], %r5; {meet} exit;",
            "SECOND: @%p1 exit; nanosleep.u32 100; nanosleep.u32 100;",
            f"st.shared::cluster.u32 [%r4], 7; {meet} {meet} st.shared::cluster.u32 [%r4], 8; {meet} {meet}",
            registers=".shared .align 4 .b8 cell[4];",
        ),
        mode,
    )
    out = sim.buffer(np.zeros(2, np.uint32))
    sim.launch("k", out, grid=2, block=64, cluster=2)
    assert sim.verdict == "clean" and out.tolist() == [7, 8], (out, sim.findings)
