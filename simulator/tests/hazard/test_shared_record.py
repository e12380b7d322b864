"""The record of shared memory: accesses of one granule that do not conflict, and accesses that must not be dropped."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.tests.sim_kit import MODES, Sim, body

ROOM = ".shared .align 128 .b8 cell[1024]; .shared .align 8 .b8 bar[16];"
BEGIN = "mov.u32 %r1, %tid.x; mov.u32 %r2, cell; shr.u32 %r3, %r1, 5; and.b32 %r4, %r1, 31; ld.param.u64 %rd1, [p];"


def run(*lines: str, block: int = 64, mode: str = "eager") -> Sim:
    sim = Sim(body(BEGIN, *lines, registers=ROOM), mode, limit=2_000_000)
    sim.launch("k", sim.buffer(np.zeros(1024, np.uint32)), block=block)
    return sim


CLEAN = {
    "two warps at neighbouring words": "mad.lo.u32 %r5, %r3, 4, %r2; setp.eq.u32 %p1, %r4, 0;"
    " @%p1 st.shared.u32 [%r5], %r1;",
    "two warps at neighbouring bytes": "add.u32 %r5, %r3, %r2; setp.eq.u32 %p1, %r4, 0; @%p1 st.shared.u8 [%r5], %r1;",
    "a warp's lanes at their own words again": "xor.b32 %r5, %r4, 1; mad.lo.u32 %r5, %r5, 4, %r2;"
    " mad.lo.u32 %r5, %r3, 128, %r5;"
    " st.shared.u32 [%r5], %r1; setp.eq.u32 %p1, %r4, 0; @%p1 st.shared.u32 [%r5], %r1; @%p1 ld.shared.u32 %r6, [%r5];",
    "all lanes write the same word in one instruction": "mad.lo.u32 %r5, %r3, 4, %r2; st.shared.u32 [%r5], %r3;",
    "reads of many warps": "setp.eq.u32 %p1, %r1, 0; @%p1 st.shared.u32 [%r2], %r1; bar.sync 0;"
    " ld.shared.u32 %r5, [%r2];"
    " ld.shared.u32 %r6, [%r2]; bar.sync 0; @%p1 st.shared.u32 [%r2], %r1;",
    "atomics of all threads": "setp.eq.u32 %p1, %r1, 0; @%p1 st.shared.u32 [%r2], %r1; bar.sync 0;"
    " atom.shared.add.u32 %r5, [%r2], 1;"
    " bar.sync 0; ld.shared.u32 %r6, [%r2];",
    "volatile polling of a word that another warp sets": "setp.eq.u32 %p1, %r1, 0;"
    " @%p1 st.shared.u32 [%r2], %r1; bar.sync 0;"
    " setp.lt.u32 %p2, %r1, 32; @%p2 bra SET; W: ld.volatile.shared.u32 %r5, [%r2];"
    " setp.eq.u32 %p3, %r5, 0; @%p3 bra W; bra END;"
    " SET: mov.u32 %r6, 1; @%p1 st.volatile.shared.u32 [%r2], %r6; END:",
}


@pytest.mark.parametrize("name", CLEAN)
@pytest.mark.parametrize("mode", MODES)
def test_accesses_that_do_not_conflict_are_clean(name, mode):
    sim = run(CLEAN[name], block=256, mode=mode)
    assert sim.verdict == "clean", sim.findings


def test_two_reads_do_not_conflict_and_equal_stores_are_compared_by_all_bytes():
    """A bulk store reads shared memory while its thread does; two warps store a word that differs in one byte."""
    store = (
        "st.shared.u32 [%r2], %r1; fence.proxy.async; cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r2], 16;"
    )
    wait = "cp.async.bulk.commit_group; ld.shared.u32 %r5, [%r2]; cp.async.bulk.wait_group 0;"
    assert run(store, wait, block=1, mode="late").verdict == "clean"
    both = "mov.u32 %r6, 0x12345678; {} setp.eq.u32 %p1, %r4, 0; @%p1 st.shared.u32 [%r2], %r6;"
    assert run(both.format("")).verdict == "review"
    assert run(both.format("mad.lo.u32 %r6, %r3, 0x1000000, %r6;")).verdict == "error"


def test_the_lane_that_races_is_named():
    sim = run("setp.ne.u32 %p1, %r1, 5; @!%p1 st.shared.u32 [%r2+16], %r1; setp.ne.u32 %p1, %r1, 41;",
              "@!%p1 ld.shared.u32 %r5, [%r2+16];")  # fmt: skip
    assert [(finding["warp"], finding["lane"]) for finding in sim.findings] == [(1, 9)], sim.findings


LATE = "mov.u32 %r9, 0; L: add.u32 %r9, %r9, 1; setp.lt.u32 %p5, %r9, 3000; @%p5 bra L;"


def test_a_writer_is_remembered_after_many_ordered_reads():
    """Eight warps read after a barrier; a ninth without the barrier reads when they are done."""
    sim = run(
        "setp.eq.u32 %p1, %r1, 0; setp.eq.u32 %p2, %r3, 8; @%p2 bra LAST; @%p1 st.shared.u32 [%r2], %r1; //WRITE",
        "bar.sync 1, 256; ld.shared.u32 %r5, [%r2]; bra END;",
        f"LAST: {LATE} ld.shared.u32 %r5, [%r2]; //READ",
        "END:",
        block=288,
    )
    assert sim.kinds == {"read-after-write-race"}, sim.findings
    assert (sim.findings[0]["other_ptx_line"], sim.findings[0]["ptx_line"]) == (10, 12)


@pytest.mark.parametrize("readers", range(1, 6))
def test_every_reader_has_to_precede_a_write(readers):
    """`readers` warps read; one of them, each in turn, does not signal the writer."""
    for silent in range(readers):
        sim = run(
            "setp.eq.u32 %p1, %r1, 0; @%p1 st.shared.u32 [%r2], %r1; bar.sync 0;",
            f"setp.eq.u32 %p2, %r3, {readers}; setp.eq.u32 %p3, %r3, {silent}; @!%p2 ld.shared.u32 %r5, [%r2];",
            f"@%p3 bra END; bar.sync 1, {32 * readers}; {LATE} @%p2 st.shared.u32 [%r2], %r3;",
            "END:",
            block=32 * (readers + 1),
        )
        assert sim.kinds == {"write-after-read-race"}, (silent, sim.findings)


def test_a_write_of_other_bytes_does_not_hide_an_earlier_one():
    sim = run(
        "setp.eq.u32 %p1, %r1, 0; setp.ge.u32 %p4, %r1, 64; @%p4 bra LAST;"
        " @%p1 st.shared.u32 [%r2], %r1; bar.sync 1, 64;",
        "setp.eq.u32 %p2, %r1, 32; @%p2 st.shared.u32 [%r2+8], %r1; bra END;",
        f"LAST: {LATE} setp.eq.u32 %p3, %r1, 64; @%p3 ld.shared.u32 %r5, [%r2];",
        "END:",
        block=96,
    )
    assert sim.kinds == {"read-after-write-race"}, sim.findings


@pytest.mark.parametrize(("byte", "line"), [(0, 10), (4, 12)])
@pytest.mark.parametrize("ordered", [False, True])
def test_a_write_over_a_part_leaves_the_other_part_to_its_writer(byte, line, ordered):
    """One warp stores eight bytes, a second the last four of them after a barrier; a third reads either half."""
    sim = run(
        "setp.eq.u32 %p1, %r4, 0; setp.ge.u32 %p4, %r1, 64; @%p4 bra LAST; setp.ge.u32 %p2, %r1, 32;"
        " @%p2 bra OVER; @%p1 st.shared.u64 [%r2], %rd1;",
        "OVER: bar.sync 1, 64;",
        f"@!%p2 bra MET; @%p1 st.shared.u32 [%r2+4], %r1; MET: {'bar.sync 2, 96;' if ordered else ''} bra END;",
        f"LAST: {'bar.sync 2, 96;' if ordered else LATE} @%p1 ld.shared.u32 %r5, [%r2+{byte}];",
        "END:",
        block=96,
    )
    assert sim.kinds == (set() if ordered else {"read-after-write-race"}), sim.findings
    assert [finding["other_ptx_line"] for finding in sim.findings] == ([] if ordered else [line])


COPY = (  # 16 bytes of each lane, twice
    "mul.wide.u32 %rd2, %r4, 16; add.s64 %rd2, %rd2, %rd1; mad.lo.u32 %r5, %r4, 16, %r2; xor.b32 %r6, %r5, 16;"
    " cp.async.ca.shared.global [%r5], [%rd2], 16; cp.async.commit_group;"
    " cp.async.ca.shared.global [%r5+512], [%rd2], 16; cp.async.commit_group;"
)
OWN, FIRST, SECOND = (f"ld.shared.u32 %r7, [{place}];" for place in ("%r5", "%r6", "%r6+512"))
ALL, ONE, SYNC = "cp.async.wait_all;", "cp.async.wait_group 1;", "bar.warp.sync 0xffffffff;"
SIGNAL = (
    "mov.u32 %r8, bar; setp.eq.u32 %p1, %r1, 0; @%p1 mbarrier.init.shared.b64 [%r8], 32; bar.warp.sync 0xffffffff;"
    f"{COPY} cp.async.mbarrier.arrive.noinc.shared.b64 [%r8];"
    " S: mbarrier.try_wait.parity.shared.b64 %p3, [%r8], 0; @!%p3 bra S;"
)
COPIED = {  # lines, and the kinds of findings: a lane's wait is for its own copies
    "its own copy": ((COPY, ALL, OWN), set()),
    "its neighbour's": ((COPY, ALL, FIRST), {"lane-race"}),
    "its neighbour's after __syncwarp": ((COPY, ALL, SYNC, FIRST, SECOND), set()),
    "its neighbour's after a barrier": ((COPY, ALL, "bar.sync 0;", FIRST, SECOND), set()),
    "__syncwarp before the wait": ((COPY, SYNC, ALL, FIRST), {"lane-race"}),
    "that of the group before": ((COPY, ONE, SYNC, ALL, FIRST), set()),
    "that of the group after": ((COPY, ONE, SYNC, ALL, SECOND), {"lane-race"}),
    "overwritten by its neighbour": ((COPY, ALL, "st.shared.u32 [%r6], %r1;"), {"lane-race"}),
    "signalled by an mbarrier": ((SIGNAL, FIRST, SECOND), set()),
    "signalled, and waited for later": ((SIGNAL, ALL, FIRST, SECOND), set()),
}


@pytest.mark.parametrize("name", COPIED)
@pytest.mark.parametrize("mode", MODES)
def test_a_lane_uses_what_another_lane_has_copied_after_the_warp_has_met(name, mode):
    lines, kinds = COPIED[name]
    sim = run(*lines, block=32, mode=mode)
    assert (sim.kinds, sim.verdict) == (kinds, "review" if kinds else "clean"), sim.findings


def test_bytes_written_by_several_stores_count_as_written():
    sim = run("setp.ne.u32 %p1, %r1, 0; @%p1 exit; st.shared.u32 [%r2], %r1; st.shared.u32 [%r2+4], %r1;"
              " st.shared.u64 [%r2+8], %rd1; ld.shared.v4.u32 {%r10, %r11, %r12, %r13}, [%r2];")  # fmt: skip
    assert sim.verdict == "clean", sim.findings


def test_an_acquire_of_another_flag_orders_nothing():
    lines = (
        "setp.eq.u32 %p1, %r1, 0; @%p1 st.shared.u64 [%r2+64], 0; bar.sync 0; setp.ge.u32 %p2, %r1, 32; @%p2 bra READ;",
        "mov.u32 %r6, 1; @%p1 st.shared.u32 [%r2], %r1; @%p1 st.release.cta.shared.u32 [%r2+64], %r6;",
        "@%p1 st.relaxed.cta.shared.u32 [%r2+68], %r6; bra END; READ: setp.ne.u32 %p4, %r1, 32; @%p4 bra END;",
        "W: ld.acquire.cta.shared.u32 %r5, [%r2+PLACE]; setp.eq.u32 %p3, %r5, 0; @%p3 bra W; ld.shared.u32 %r7, [%r2];",
        "END:",
    )
    lines = [line.replace("[%r2+64], 0", "[%r2+64], %rd9") for line in lines]
    for place, kinds in ((64, set()), (68, {"read-after-write-race"})):
        sim = run("mov.u64 %rd9, 0;", *(line.replace("PLACE", str(place)) for line in lines))
        assert sim.kinds == kinds, (place, sim.findings)
    generic = [
        line.replace("ld.acquire.cta.shared.u32 %r5, [%r2+PLACE]", "ld.acquire.cta.u32 %r5, [%rd5+64]")
        for line in lines
    ]
    sim = run("mov.u64 %rd9, 0; mov.u64 %rd5, cell; cvta.shared.u64 %rd5, %rd5;", *generic)
    assert sim.verdict == "clean", sim.findings


@pytest.mark.parametrize("mode", MODES)
def test_a_barrier_does_not_order_what_a_warp_that_ended_before_it_stored(mode):
    """Warp 1 stores and ends; warps 0 and 2 then meet, and warp 0 reads: nothing orders the two."""
    store = (
        "setp.eq.u32 %p1, %r3, 1; setp.eq.u32 %p2, %r1, 32; @%p2 st.shared.u32 [%r2], %r1; {} @%p1 exit; bar.sync 0;"
    )
    read = "setp.eq.u32 %p3, %r1, 0; @%p3 ld.shared.u32 %r5, [%r2];"
    assert "read-after-write-race" in run(store.format(""), read, block=96, mode=mode).kinds
    assert run(store.format("bar.sync 0;"), read, block=96, mode=mode).verdict == "clean"
