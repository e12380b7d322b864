"""Simulated time of fences that begin while others on the same SM are under way."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.tests.clock.clock_kit import BARRIER, CHIP
from simulator.tests.sim_kit import Sim, body

FENCE = "fence.acq_rel.gpu;"
TAKES, JOINS, FOLLOWS = 3000, 50, 400


def ends(chip: str, apart: int, *lines: str, warps: int, registers: str = "") -> list[int]:
    """When each warp has executed `lines`, which they begin `apart` cycles after each other. %p2: the first warp."""
    text = body(
        "ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; setp.eq.u32 %p2, %r2, 0;",
        f"mul.wide.u32 %rd5, %r2, {apart}; bar.sync 0; mov.u64 %rd2, %clock64; add.u64 %rd6, %rd5, %rd2;",
        "WAIT: mov.u64 %rd3, %clock64; setp.lt.u64 %p1, %rd3, %rd6; @%p1 bra WAIT;",
        *lines,
        "mov.u64 %rd4, %clock64; sub.u64 %rd4, %rd4, %rd2; mul.wide.u32 %rd7, %r2, 8; add.u64 %rd7, %rd7, %rd1;",
        "bar.sync 0; and.b32 %r3, %r1, 31; setp.eq.u32 %p3, %r3, 0; @%p3 st.global.u64 [%rd7], %rd4;",
        registers=registers,
    )
    sim = Sim(text, chip=chip)
    out = sim.buffer(np.zeros(512, np.uint64))
    assert sim.launch("k", out, block=32 * warps) == 0, sim.findings
    return out[:warps].astype(int).tolist()


@pytest.fixture
def slow(chip) -> str:
    return chip(fence_gpu=TAKES, fence_joins=JOINS, fence_follows=FOLLOWS)


def test_fences_that_wait_for_one_under_way_end_together(slow):
    first, second, third = ends(slow, 800, FENCE, warps=3)
    assert first == pytest.approx(TAKES, abs=60)
    assert second == pytest.approx(first - FOLLOWS + TAKES, abs=60) and third == pytest.approx(second, abs=20)


def test_fences_that_begin_at_once_are_over_at_once(slow):
    taken = ends(slow, JOINS // 4, FENCE, warps=3)
    assert taken == pytest.approx([TAKES] * 3, abs=80) and max(taken) - min(taken) < 20


def test_fences_that_begin_when_the_one_before_is_over_wait_for_none(slow):
    assert ends(slow, TAKES + 200, FENCE, warps=3) == pytest.approx([TAKES, 2 * TAKES + 200, 3 * TAKES + 400], abs=80)


def test_each_round_of_fences_follows_the_one_before(slow):
    """The third fence begins while the second round runs, and the fourth while the third does."""
    rounds = [TAKES + i * (TAKES - FOLLOWS) for i in range(4)]
    assert ends(slow, 2000, FENCE, warps=4) == pytest.approx(rounds, abs=100)


def test_without_such_a_parameter_each_fence_is_over_by_itself(chip):
    alone = chip(fence_gpu=TAKES, fence_follows=0)
    assert ends(alone, 800, FENCE, warps=3) == pytest.approx([TAKES, TAKES + 800, TAKES + 1600], abs=60)


def test_a_fence_for_asynchronous_copies_from_memory_waits_for_those_under_way_too(slow):
    mixed = f"@%p2 bra GPU; fence.proxy.async; bra OVER; GPU: {FENCE} OVER:"
    first, second = ends(slow, 800, mixed, warps=2)
    assert first == pytest.approx(TAKES, abs=60)
    assert second == pytest.approx(first - min(FOLLOWS, TAKES) + CHIP["fence_async"], abs=80)


def test_fences_that_begin_apart_by_more_than_what_counts_as_at_once_are_two_rounds(slow):
    first, second = ends(slow, JOINS + JOINS // 2, FENCE, warps=2)
    assert second - first == pytest.approx(TAKES - FOLLOWS, abs=40)


def test_a_launch_begins_without_the_fences_of_the_one_that_it_overlaps(chip):
    """The first launch triggers and then fences again and again; the second one, on the same SM, fences once."""
    text = body(
        "ld.param.u64 %rd1, [p]; ld.param.u64 %rd7, [q]; ld.global.u64 %rd7, [%rd7];"
        "griddepcontrol.launch_dependents; setp.eq.u64 %p4, %rd7, 0; @%p4 bra ONCE;",
        FENCE * 20,
        "bra END; ONCE: mov.u64 %rd2, %clock64;",
        FENCE,
        "mov.u64 %rd3, %clock64; sub.u64 %rd4, %rd3, %rd2; st.global.u64 [%rd1], %rd4; END:",
        params=".param .u64 p, .param .u64 q",
    )
    sim = Sim(text, chip=chip(sms=1, fence_gpu=TAKES, fence_gpu_touched=0, fence_follows=FOLLOWS))
    out = sim.buffer(np.zeros(8, np.uint64))
    for i, fences in enumerate([1, 0]):
        flag = sim.buffer(np.array([fences], np.uint64))
        assert sim.launch("k", out, flag, block=1, dependent=i) == 0, sim.findings
    assert int(out[0]) == pytest.approx(TAKES, abs=60)


def test_a_round_has_one_fence_of_each_sub_partition(slow):
    """Warps 4 and 5 share sub-partitions with warps 0 and 1: their fences wait, though all begin at once."""
    taken = sorted(ends(slow, 0, FENCE, warps=6))
    assert taken[:4] == pytest.approx([TAKES] * 4, abs=80)
    assert taken[4:] == pytest.approx([TAKES + TAKES - FOLLOWS] * 2, abs=80)


@pytest.mark.parametrize("again", [False, True])
def test_what_the_round_before_was_behind_a_fence_is_not_behind_again(chip, again: bool):
    """The SM has accessed a line: before both rounds, or again between the begins of the first and second round."""
    touched = 900
    slow = chip(fence_gpu=TAKES, fence_joins=JOINS, fence_follows=FOLLOWS, fence_gpu_touched=touched)
    load = "ld.global.cg.u32 %r4, [%rd1+256]; add.u32 %r5, %r4, %r4; bar.sync 0; mov.u64 %rd2, %clock64;"
    spin = "mul.lo.u32 %r5, %r5, %r5;" * 100
    late = f"setp.lt.u32 %p4, %r2, 4; @%p4 bra FENCE; {spin} ld.global.cg.u32 %r4, [%rd1+256]; FENCE:"
    taken = sorted(ends(slow, 0, load, *([late] if again else []), FENCE, warps=5))
    assert taken[:4] == pytest.approx([touched + TAKES] * 4, abs=100)
    assert taken[4] == pytest.approx(touched + 2 * TAKES - FOLLOWS + again * touched, abs=100)


def test_the_round_after_that_is_behind_what_the_one_before_it_was_not(chip):
    """Warp 1 accesses a line after the first round has begun; warp 2 fences in the second round and has nothing new to
    wait for."""
    touched = 900
    slow = chip(fence_gpu=TAKES, fence_joins=JOINS, fence_follows=FOLLOWS, fence_gpu_touched=touched)
    load = "setp.ne.u32 %p4, %r2, 1; @%p4 bra FENCE; ld.global.cg.u32 %r4, [%rd1+256]; FENCE:"
    first, second, third = ends(slow, 2000, load, FENCE, warps=3)
    assert first == pytest.approx(TAKES, abs=60)
    assert second - first == pytest.approx(TAKES + touched - FOLLOWS, abs=60)
    assert third - second == pytest.approx(TAKES - FOLLOWS, abs=60)


def test_a_fence_that_waits_for_its_round_asks_for_copies_at_its_own_begin(chip):
    """Warp 2 starts a long copy after warp 1's fence has begun and before that fence's round."""
    slow = chip(
        fence_gpu=TAKES,
        fence_joins=JOINS,
        fence_follows=FOLLOWS,
        fence_gpu_asks=1,
        copy_latency_hbm=[[16, 30000], [65536, 30000]],
    )
    copy = (
        "setp.ne.u32 %p4, %r2, 2; @%p4 bra FENCE; and.b32 %r4, %r1, 31; setp.ne.u32 %p5, %r4, 0; @%p5 bra OVER;"
        "mov.u32 %r5, tile; mov.u32 %r6, full; mbarrier.init.shared.b64 [%r6], 1;"
        "mbarrier.arrive.expect_tx.shared.b64 _, [%r6], 1024; add.u64 %rd6, %rd1, 1024;"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r5], [%rd6], 1024, [%r6];"
        "{W: mbarrier.try_wait.parity.shared.b64 %p6, [%r6], 0; @!%p6 bra W;} bra OVER;"
        f"FENCE: {FENCE} OVER:"
    )
    first, second, _ = ends(slow, 800, copy, warps=3, registers=BARRIER)
    assert second - first == pytest.approx(TAKES - FOLLOWS, abs=100)
