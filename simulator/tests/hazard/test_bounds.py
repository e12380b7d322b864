"""Tables of the checks beyond their first size: nothing is dropped, or the verdict is incomplete."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.python.frame import HEADER
from simulator.tests.hazard.test_shared_record import LATE
from simulator.tests.hazard.test_shared_record import run as run_shadow
from simulator.tests.hazard.test_wgmma import BEGIN as WGMMA_BEGIN
from simulator.tests.hazard.test_wgmma import COMMIT, FENCE, MMA, WAIT
from simulator.tests.hazard.test_wgmma import ROOM as WGMMA_ROOM
from simulator.tests.sim_kit import MODES, Sim, body


def some(count: int) -> list[int]:
    """The first, a middle and the last index."""
    return sorted({0, count // 2, count - 1})


@pytest.mark.parametrize("readers", [5, 6, 7, 8, 13, 30])
@pytest.mark.parametrize("mode", ["eager", "random"])
def test_each_of_many_readers_has_to_precede_a_write(readers, mode):
    """All read 16 bytes, like consumers of a ring's stage; all but one signal the writer."""
    for silent in (*some(readers), readers + 1):
        sim = run_shadow(
            "setp.eq.u32 %p1, %r1, 0; @%p1 st.shared.u32 [%r2], %r1; bar.sync 0;",
            f"setp.eq.u32 %p2, %r3, {readers}; setp.eq.u32 %p3, %r3, {silent}; @%p2 bra SIGNAL; //",
            "ld.shared.u32 %r5, [%r2]; //READ",
            f"SIGNAL: @%p3 bra END; bar.sync 1, {32 * (readers + (silent > readers))}; {LATE}",
            "@%p2 st.shared.u32 [%r2], %r3; //WRITE",
            "END:",
            block=32 * (readers + 1),
            mode=mode,
        )
        assert sim.kinds == ({"write-after-read-race"} if silent < readers else set()), (silent, sim.findings)


def test_each_of_many_writers_of_a_granule_is_remembered():
    """Sixteen warps write one byte each of a granule; a warp that waited for all but one of them reads it."""
    for silent in some(16):
        sim = run_shadow(
            "add.u32 %r5, %r2, %r3; setp.eq.u32 %p1, %r4, 0; setp.eq.u32 %p2, %r3, 16;",
            f"setp.eq.u32 %p3, %r3, {silent}; @%p2 bra READ; @%p1 st.shared.u8 [%r5], %r1; @%p3 bra END;",
            f"bar.sync 1, 512; bra END; READ: bar.sync 1, 512; {LATE} ld.shared.v4.u32 {{%r5, %r6, %r7, %r8}}, [%r2];",
            "END:",
            block=32 * 17,
        )
        assert sim.kinds == {"read-after-write-race"}, (silent, sim.findings)


FLAGS = (
    "setp.eq.u32 %p1, %r1, 0; mov.u32 %r6, 1; mov.u32 %r9, 0; ld.param.u64 %rd2, [flags];",
    "@%p1 st.shared.u32 [%r2+64], %r9; bar.sync 0; setp.ge.u32 %p2, %r1, 32; @%p2 bra READ; @!%p1 bra END;",
    "st.shared.u32 [%r2], %r1; L: mad.wide.u32 %rd3, %r9, 4, %rd2; st.release.gpu.global.u32 [%rd3], %r6;",
    "add.u32 %r9, %r9, 1; ld.param.u32 %r8, [count]; setp.lt.u32 %p3, %r9, %r8; @%p3 bra L;"
    " st.relaxed.cta.shared.u32 [%r2+64], %r6; bra END;",
    "READ: setp.ne.u32 %p4, %r1, 32; @%p4 bra END; W: ld.relaxed.cta.shared.u32 %r5, [%r2+64];",
    "setp.eq.u32 %p3, %r5, 0; @%p3 bra W; ld.param.u32 %r8, [flag]; mad.wide.u32 %rd3, %r8, 4, %rd2;",
    "ld.acquire.gpu.global.u32 %r5, [%rd3]; ld.shared.u32 %r7, [%r2];",
    "END:",
)


@pytest.mark.parametrize("count", [65, 1000])
def test_every_flag_that_was_released_orders_its_reader(count):
    text = body(
        "mov.u32 %r1, %tid.x; mov.u32 %r2, cell;",
        *FLAGS,
        params=".param .u64 flags, .param .u32 count, .param .u32 flag",
        registers=".shared .align 128 .b8 cell[128];",
    )
    for flag, kinds in [(flag, set()) for flag in some(count)] + [(count, {"read-after-write-race"})]:
        sim = Sim(text)
        sim.launch("k", sim.buffer(np.zeros(count + 1, np.uint32)), count, flag, block=64)
        assert sim.kinds == kinds, (flag, sim.findings)


def test_a_race_is_not_judged_if_there_are_too_many_flags():
    text = body(
        "mov.u32 %r1, %tid.x; mov.u32 %r2, cell;",
        *FLAGS,
        params=".param .u64 flags, .param .u32 count, .param .u32 flag",
        registers=".shared .align 128 .b8 cell[128];",
    )
    count = 40_000
    sim = Sim(text)
    sim.launch("k", sim.buffer(np.zeros(count, np.uint32)), count, count - 1, block=64)
    assert (sim.kinds, sim.verdict) == ({"read-after-write-race"}, "incomplete"), sim.findings
    assert "not judged" in sim.findings[0]["message"]


MAPS = """
mov.u32 %r1, 0; mov.u32 %r2, tile; mov.u32 %r3, bar; ld.param.u64 %rd1, [maps]; ld.param.u64 %rd2, [data];
mov.u32 %r4, 0;
I: mad.lo.u32 %r5, %r4, 8, %r3; mbarrier.init.shared.b64 [%r5], 1; add.u32 %r4, %r4, 1;
setp.lt.u32 %p1, %r4, BARRIERS; @%p1 bra I; fence.mbarrier_init.release.cluster; mov.u32 %r4, 0;
L: rem.u32 %r5, %r4, BARRIERS; mad.lo.u32 %r5, %r5, 8, %r3; rem.u32 %r6, %r4, MAPS; mad.wide.u32 %rd3, %r6, 128, %rd1;
mad.lo.u32 %r6, %r4, 128, %r2;
mbarrier.expect_tx.relaxed.cta.shared.b64 [%r5], 64;
cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes [%r6], [%rd3, {%r1}], [%r5];
add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, LOADS; @%p1 bra L;
mov.u32 %r4, 0;
A: mad.lo.u32 %r5, %r4, 8, %r3; mbarrier.arrive.shared.b64 _, [%r5];
add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, BARRIERS; @%p1 bra A; mov.u32 %r4, 0;
W: setp.eq.u32 %p2, %r4, SILENT; @%p2 bra N; mad.lo.u32 %r5, %r4, 8, %r3;
T: mbarrier.try_wait.parity.shared.b64 %p3, [%r5], 0; @!%p3 bra T;
N: add.u32 %r4, %r4, 1; setp.lt.u32 %p1, %r4, BARRIERS; @%p1 bra W;
mad.wide.u32 %rd3, CHANGED, 128, %rd1; mov.u32 %r7, CHANGED; mad.wide.u32 %rd3, %r7, 128, %rd1;
tensormap.replace.tile.global_address.global.b1024.b64 [%rd3], %rd2;
"""


def run_maps(maps: int, barriers: int, loads: int, silent: int, changed: int) -> Sim:
    text = MAPS.replace("mad.wide.u32 %rd3, CHANGED, 128, %rd1;", "")
    for name, value in {
        "BARRIERS": barriers, "MAPS": maps, "LOADS": loads, "SILENT": silent, "CHANGED": changed
    }.items():  # fmt: skip
        text = text.replace(name, str(value))
    room = f".shared .align 128 .b8 tile[{128 * loads}]; .shared .align 8 .b8 bar[{8 * barriers}];"
    sim = Sim(body(text, params=".param .u64 maps, .param .u64 data", registers=room))
    data = sim.buffer(np.arange(16, dtype=np.uint32))
    encoded = sim.tensor_map(data, 2, [16])
    sim.launch("k", sim.buffer(np.frombuffer(encoded * maps, np.uint8)), data, block=1)
    return sim


def test_each_of_many_maps_in_use_is_remembered():
    maps = 66
    for changed in some(maps):
        sim = run_maps(maps, 1, maps, 0, changed)
        assert sim.kinds == {"tensor-map-in-use"}, (changed, sim.findings)
    assert run_maps(maps, 1, maps, 1, 0).verdict == "clean"


def test_every_barrier_of_copies_with_a_map_has_to_be_waited_for():
    barriers = 9
    for silent in range(barriers):
        sim = run_maps(1, barriers, barriers, silent, 0)
        assert sim.kinds == {"tensor-map-in-use"}, (silent, sim.findings)
    assert run_maps(1, barriers, barriers, barriers, 0).verdict == "clean"


def tensor(*lines: str, block: int, mode: str = "eager") -> Sim:
    text = (
        HEADER.replace("sm_90a", "sm_100a")
        + ".visible .entry k()\n{\n.reg .pred %p<8>; .reg .b32 %r<16>, %v<80>;\n.shared .align 4 .b32 slot;\n"
        "mov.u32 %r1, %tid.x; shr.u32 %r3, %r1, 5; setp.ne.u32 %p1, %r3, 0; @%p1 bra A;\n"
        "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 128;\n"
        "A: bar.sync 0; ld.shared.u32 %r2, [slot]; and.b32 %r4, %r3, 3; shl.b32 %r4, %r4, 21; add.u32 %r5, %r2, %r4;\n"
        + "\n".join(lines)
        + "\n@%p1 bra E; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r2, 128; E: ret;\n}\n"
    )
    sim = Sim(text, mode)
    sim.launch("k", block=block)
    return sim


LANE_5 = "mov.u32 %r9, %laneid; setp.eq.u32 %p6, %r9, 5; @%p1 bra S;"


@pytest.mark.parametrize(
    ("line", "what"),
    [
        ("selp.b32 %r10, 64, 32, %p6; ALLOC [slot], %r10;", "the column count of tcgen05.alloc"),
        ("mov.u32 %r10, slot; @%p6 add.u32 %r10, %r10, 4; ALLOC [%r10], 32;", "the destination of tcgen05.alloc"),
        ("selp.b32 %r10, 64, 32, %p6; FREE %r2, %r10;", "the column count of tcgen05.dealloc"),
        ("selp.b32 %r10, 64, 32, %p6; add.u32 %r10, %r2, %r10; FREE %r10, 32;", "the address of tcgen05.dealloc"),
        (
            "selp.b32 %r10, 1, 0, %p6; add.u32 %r10, %r2, %r10; tcgen05.ld.sync.aligned.32x32b.x1.b32 {%v1}, [%r10];",
            "the tensor memory address",
        ),
    ],
)
def test_operands_for_tensor_memory_are_the_same_in_every_lane(line, what):
    whole = line.replace("ALLOC", "tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32").replace(
        "FREE", "tcgen05.dealloc.cta_group::1.sync.aligned.b32"
    )
    sim = tensor(LANE_5, whole, "S:", block=64)
    assert sim.verdict == "error" and sim.kinds == {"divergent-operand"}, sim.findings
    (finding,) = sim.findings
    assert finding["message"] == f"{what} differs between lanes", finding


@pytest.mark.parametrize("readers", [3, 4, 5, 7])
def test_each_of_many_readers_of_tensor_memory_has_to_precede_a_write(readers):
    """Warps 0, 4, 8, ... read the same column; the last of them writes it."""
    for silent in (*some(readers), readers):
        sim = tensor(
            "setp.gt.u32 %p5, %r3, 3; @%p5 bra S; tcgen05.st.sync.aligned.32x32b.x1.b32 [%r5], {%r1};"
            " tcgen05.wait::st.sync.aligned; tcgen05.fence::before_thread_sync;",
            "S: bar.sync 0; tcgen05.fence::after_thread_sync;",
            f"shr.u32 %r6, %r3, 2; setp.ne.u32 %p2, %r4, 0; setp.eq.u32 %p3, %r6, {readers};"
            f" setp.eq.u32 %p4, %r6, {silent};",
            "@%p2 bra DONE; @%p3 bra WRITE; tcgen05.ld.sync.aligned.32x32b.x1.b32 {%v0}, [%r5];",
            "@%p4 bra LATE; tcgen05.wait::ld.sync.aligned; tcgen05.fence::before_thread_sync;"
            f" bar.arrive 1, {32 * (readers + (silent == readers))}; bra DONE;",
            f"WRITE: bar.sync 1, {32 * (readers + (silent == readers))}; tcgen05.fence::after_thread_sync;"
            " tcgen05.st.sync.aligned.32x32b.x1.b32 [%r5], {%r1}; tcgen05.wait::st.sync.aligned; bra DONE;",
            "LATE: tcgen05.wait::ld.sync.aligned; DONE: tcgen05.fence::before_thread_sync; bar.sync 0;"
            " tcgen05.fence::after_thread_sync;",
            block=32 * (4 * readers + 1),
        )
        assert sim.kinds == ({"tensor-memory-race"} if silent < readers else set()), (silent, sim.findings)


@pytest.mark.parametrize("mode", MODES)
def test_the_register_of_each_load_in_flight_is_watched(mode):
    loads = "".join(f"tcgen05.ld.sync.aligned.32x32b.x1.b32 {{%v{i}}}, [%r5];" for i in range(66))
    begin = "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r5], {%r1}; tcgen05.wait::st.sync.aligned;"
    for used in (0, 64, 65):
        use = f"redux.sync.add.u32 %r6, %v{used}, -1;" if used == 64 else f"add.u32 %r6, %v{used}, 1;"
        sim = tensor(begin, loads, f"{use} tcgen05.wait::ld.sync.aligned;", block=32, mode=mode)
        assert sim.kinds == {"tcgen05-register"} and sim.verdict == "review", (used, sim.findings)
    sim = tensor(begin, loads, "tcgen05.wait::ld.sync.aligned; add.u32 %r6, %v65, 1;", block=32, mode=mode)
    assert sim.verdict == "clean", sim.findings


def test_too_many_wgmma_in_flight_are_incomplete():
    for count, verdict in ((64, "clean"), (65, "incomplete")):
        lines = (FENCE, (MMA + COMMIT) * count, WAIT)
        sim = Sim(body(WGMMA_BEGIN, *lines, registers=WGMMA_ROOM), "late")
        sim.launch("k", sim.buffer(np.zeros(4, np.uint32)), block=128)
        assert sim.verdict == verdict, sim.findings
    assert "64 wgmma" in sim.findings[0]["message"]


def test_too_many_groups_in_flight_are_incomplete():
    begin = "setp.ne.u32 %p1, %r1, 0; @%p1 bra END; st.shared.u64 [%r2], %rd1; st.shared.u64 [%r2+8], %rd1;"
    store = "L: cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r2], 16; cp.async.bulk.commit_group;"
    for count, verdict in ((255, "clean"), (257, "incomplete")):
        loop = f"add.u32 %r9, %r9, 1; setp.lt.u32 %p2, %r9, {count}; @%p2 bra L; cp.async.bulk.wait_group 0; END:"
        sim = run_shadow(begin, "fence.proxy.async; mov.u32 %r9, 0;", store, loop, mode="late")
        assert sim.verdict == verdict, sim.findings
    assert "256 groups" in sim.findings[0]["message"]


def test_too_many_mbarriers_are_incomplete():
    begin = "setp.ne.u32 %p1, %r1, 0; @%p1 bra END; mov.u32 %r9, 0; mov.u32 %r8, bars;"
    init = "L: mad.lo.u32 %r5, %r9, 8, %r8; mbarrier.init.shared.b64 [%r5], 1; add.u32 %r9, %r9, 1;"
    for count, verdict in ((96, "clean"), (300, "incomplete")):
        loop = f"setp.lt.u32 %p2, %r9, {count}; @%p2 bra L; END:"
        text = body("mov.u32 %r1, %tid.x;", begin, init, loop, registers=".shared .align 8 .b8 bars[4096];")
        sim = Sim(text)
        sim.launch("k", 0)
        assert sim.verdict == verdict, sim.findings
    assert sim.kinds == {"checks-exhausted"}


def test_a_full_cta_has_clock_indices_for_all_of_its_groups_and_mbarriers():
    """32 warps with cp.async groups and bulk groups, and 96 mbarriers."""
    lines = (
        "mov.u32 %r1, %tid.x; mov.u32 %r2, cell; shr.u32 %r3, %r1, 5; and.b32 %r4, %r1, 31; ld.param.u64 %rd1, [p];"
        "mov.u32 %r8, bars; setp.ne.u32 %p1, %r1, 0; mov.u32 %r9, 0; @%p1 bra M;",
        "L: mad.lo.u32 %r5, %r9, 8, %r8; mbarrier.init.shared.b64 [%r5], 1; add.u32 %r9, %r9, 1;"
        " setp.lt.u32 %p2, %r9, 96; @%p2 bra L;",
        "M: setp.ne.u32 %p3, %r4, 0; @%p3 bra END; mad.lo.u32 %r6, %r3, 32, %r2;",
        "cp.async.cg.shared.global [%r6], [%rd1], 16; cp.async.commit_group; cp.async.wait_group 0;"
        " fence.proxy.async; mad.wide.u32 %rd2, %r3, 16, %rd1;"
        " cp.async.bulk.global.shared::cta.bulk_group [%rd2+64], [%r6], 16;"
        " cp.async.bulk.commit_group; cp.async.bulk.wait_group 0;",
        "cp.async.cg.shared.global [%r6+16], [%rd1], 16; cp.async.commit_group; ld.shared.u32 %r7, [%r6+16]; //EARLY",
        "cp.async.wait_group 0; END:",
    )
    room = ".shared .align 128 .b8 cell[1024]; .shared .align 8 .b8 bars[1024];"
    sim = Sim(body(*lines, registers=room))
    sim.launch("k", sim.buffer(np.zeros(256, np.uint32)), block=1024)
    assert sim.kinds == {"read-before-completion"}, sim.findings
    assert sim.findings[0]["times"] == 32


def pair(*lines: str) -> list[str]:
    """In two CTAs, warp 0 allocates columns 0 to 31 and warp 1 columns 32 to 63.  Returns the findings on dealloc."""
    text = HEADER.replace("sm_90a", "sm_100a") + (
        ".visible .entry k()\n{\n.reg .pred %p<8>; .reg .b32 %r<16>; .shared .align 8 .b32 slot[2]; .shared .b64 bar;\n"
        "mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; setp.lt.u32 %p2, %r1, 32; setp.eq.u32 %p3, %r1, 32;\n"
        "@%p1 mbarrier.init.shared.b64 [bar], 1; fence.mbarrier_init.release.cluster;\n"
        "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; mov.u32 %r6, %cluster_ctarank; @!%p2 bra ONE;\n"
        "tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [slot], 32; ONE: MEET @%p2 bra SECOND;\n"
        "tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [slot+4], 32;\n"
        "xor.b32 %r6, %r6, 1; mov.u32 %r7, bar; mapa.shared::cluster.u32 %r8, %r7, %r6;\n"
        "@%p3 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r8];\n"
        "W: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p4, [bar], 0; @!%p4 bra W;\n"
        "mov.u32 %r2, 0; ld.shared.u32 %r3, [slot+4];\n"
        "tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r2, 32;\n"
        "tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r3, 32; SECOND:\n"
        "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; ret;\n}\n"
    ).replace("MEET", "".join(lines))
    sim = Sim(text)
    assert sim.launch("k", grid=2, cluster=2, block=64) == 0, sim.findings
    return [f"{finding['kind']} {finding['ptx'].split()[1]}" for finding in sim.findings]


def test_each_allocation_of_a_pair_is_remembered():
    """Warp 1 signals its own allocation to the peer, and that of warp 0 only if a barrier ordered it before."""
    assert pair("bar.sync 0;") == []
    later = "mov.u32 %r9, 0; @%p2 bra SECOND; L: add.u32 %r9, %r9, 1; setp.lt.u32 %p5, %r9, 9000; @%p5 bra L;"
    assert pair(later) == ["pair-dealloc %r2,"]
