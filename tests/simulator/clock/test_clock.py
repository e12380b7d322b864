"""Simulated time: each mechanism by a kernel whose time follows from the chip's parameters by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.simulator.sim_kit import ROOT, Sim, body

H200 = ROOT / "simulator" / "clock" / "chips" / "h200.json"
CHIP = {name: entry["value"] for name, entry in json.loads(H200.read_text())["parameters"].items()}
TICK = 1 / 64  # of a cycle: what parameters are rounded to
START = "ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mov.u64 %rd2, %clock64;"
# One thread leaves the cycles since START behind.
END = (
    "mov.u64 %rd3, %clock64; sub.u64 %rd4, %rd3, %rd2; { .reg .b32 %t, %c; .reg .pred %e; mov.u32 %t, %tid.x;"
    "mov.u32 %c, %ctaid.x; or.b32 %t, %t, %c; setp.eq.u32 %e, %t, 0; @%e st.global.u64 [%rd1], %rd4; }"
)


SMALL = {"sms": 4, "l2_load_rate": 4 * 35, "processing_cluster_sms": 4}


@pytest.fixture(scope="module")
def small_chip(tmp_path_factory):
    """The H200 with fewer SMs, and their share of L2: quick to fill."""
    chip = json.loads(H200.read_text())
    for name, value in SMALL.items():
        chip["parameters"][name]["value"] = value
    path = tmp_path_factory.mktemp("chip") / "small.json"
    path.write_text(json.dumps(chip))
    return str(path)


def span(*lines: str, before: str = "", registers: str = "", chip: str = "h200", **launch) -> int:
    """Cycles that a thread of a kernel counts between START and END, around `lines`."""
    sim = Sim(body(before, START, *lines, END, registers=registers), chip=chip)
    out = sim.buffer(np.zeros(1 << 14, np.uint64))
    assert sim.launch("k", out, **launch) == 0, sim.findings
    assert sim.verdict == "clean", sim.findings
    return int(out[0])


def more(one: str, counts: tuple[int, int], **options) -> float:
    """Cycles of one more `one`."""
    few, many = (span(one * count, **options) for count in counts)
    return (many - few) / (counts[1] - counts[0])


# ---- instructions ----


def test_a_chain_takes_the_latency_of_each_instruction():
    assert more("shf.l.wrap.b32 %r1, %r1, %r1, %r1;", (10, 50)) == CHIP["alu_latency"]
    assert more("ex2.approx.ftz.f32 %f1, %f1;", (10, 50)) == CHIP["special_latency"]
    assert more("mul.lo.u32 %r1, %r1, %r1;", (10, 50)) == CHIP["imad_latency"]
    pair = "add.u32 %r1, %r1, %r1; prmt.b32 %r1, %r1, %r1, %r1;"
    assert more(pair, (10, 50)) == pytest.approx(2 * (CHIP["alu_latency"] + CHIP["cross_pipe_latency"]), abs=1)


def test_independent_instructions_take_the_interval_of_their_pipe():
    four = "".join(f"shf.l.wrap.b32 %r{i}, %r{i}, %r{i}, %r{i};" for i in range(2, 6))
    assert more(four, (10, 50)) == 4 * CHIP["alu_interval"]
    assert more(four.replace("shf.l.wrap.b32", "fma.rn.f32").replace("%r", "%f"), (10, 50)) == 4 * CHIP["fma_interval"]


def test_warps_of_a_sub_partition_share_its_pipe_and_others_do_not():
    def cycles(warps: int) -> float:
        lines = "shf.l.wrap.b32 %r1, %r1, %r1, %r1;" * 100
        sim = Sim(
            body("ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x;", lines, "st.global.u32 [%rd1], %r1;"), chip="h200"
        )
        assert sim.launch("k", sim.buffer(np.zeros(4, np.uint32)), block=32 * warps) == 0
        return sim.time.kernel_cycles

    alone = cycles(1)
    assert cycles(4) == pytest.approx(alone, abs=10)  # a warp in each of the four
    assert cycles(16) - alone == pytest.approx(100 * (4 * CHIP["alu_interval"] - CHIP["alu_latency"]), rel=0.05)


def test_names_of_registers_cost_nothing_and_a_branch_ends_a_block():
    assert more("mov.b32 %r1, %r2; cvt.u64.u32 %rd9, %r1;", (0, 40)) == 0
    loop = "mov.u32 %r9, 0; {L: add.u32 %r9, %r9, 1; setp.lt.u32 %p1, %r9, COUNT; @%p1 bra L;}"
    few, many = (span(loop.replace("COUNT", str(count))) for count in (10, 50))
    chain = CHIP["alu_latency"] + 2 * CHIP["cross_pipe_latency"]  # the add is on the other pipe, or on this one
    assert (many - few) / 40 == pytest.approx(CHIP["branch_interval"] + chain, abs=4)


# ---- shared memory ----

SHARED = ".shared .align 1024 .b8 tile[32768];"


def test_a_chain_of_shared_loads_and_bank_conflicts():
    first = "mov.u32 %r2, tile; st.shared.u32 [%r2], %r2; mov.u64 %rd2, %clock64;"
    chain = [span(first, "ld.shared.u32 %r2, [%r2];" * n, "mov.b32 %r3, %r2; st.shared.u32 [%r3], %r3;",
                  registers=SHARED, block=1) for n in (10, 30)]  # fmt: skip
    assert (chain[1] - chain[0]) / 20 == CHIP["shared_latency"]
    # 32 lanes on one bank: 32 wavefronts instead of one.
    spread = "mov.u32 %r2, tile; shl.b32 %r3, %r1, SHIFT; add.u32 %r2, %r2, %r3; mov.u64 %rd2, %clock64;"
    times = {
        shift: [
            span(spread.replace("SHIFT", shift), "st.shared.u32 [%r2], %r1;" * n, registers=SHARED) for n in (40, 80)
        ]
        for shift in ("2", "7")
    }
    assert (times["2"][1] - times["2"][0]) / 40 == CHIP["shared_interval"]
    assert (times["7"][1] - times["7"][0]) / 40 == 32 * CHIP["shared_interval"]


# ---- tensor cores ----

OPERANDS = (
    "mov.u32 %r2, tile; fence.proxy.async; bar.sync 0; shr.u32 %r5, %r2, 4; cvt.u64.u32 %rd5, %r5;"
    "or.b64 %rd5, %rd5, 0x0000000800080000; mov.b64 %rd6, %rd5; setp.ne.u32 %p1, 0, 0;"
    "@%p1 st.global.u64 [%rd1+64], %rd6; bar.sync 0; mov.u64 %rd2, %clock64;"  # when all four warps have it
)
MMA = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %rd5, %rd6, %p1, 1, 1, 0, 0;"


def test_one_mma_takes_its_latency_and_each_more_its_interval():
    def cycles(count: int) -> int:
        group = "wgmma.fence.sync.aligned;" + MMA * count + "wgmma.commit_group.sync.aligned;"
        return span(OPERANDS, group, "wgmma.wait_group.sync.aligned 0;", registers=SHARED, block=128)

    sums = 8 * CHIP["wgmma_column"]
    interval = CHIP["wgmma_read_a"] + 8 * CHIP["wgmma_read_column"]  # N = 8 is bound by what it reads
    assert cycles(1) == pytest.approx(CHIP["wgmma_latency_shared"] + sums, abs=12)  # and the slots around it
    assert cycles(11) - cycles(1) == pytest.approx(10 * interval, abs=1)


# ---- barriers ----


def test_a_named_barrier_takes_its_turns_and_its_wake_up():
    for warps in (1, 8):
        turn = more("bar.sync 0;", (10, 30), block=32 * warps)
        assert turn == pytest.approx(warps * CHIP["barrier_arrive_interval"] + CHIP["barrier_wake"], abs=warps + 2)


def test_a_cluster_barrier_takes_its_wake_up_and_a_cluster_of_one_less():
    sync = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
    pair = more(sync, (5, 15), grid=2, cluster=2)
    assert pair == pytest.approx(2 * CHIP["cluster_arrive_interval"] + CHIP["cluster_barrier_wake"], abs=8)
    alone = more(sync, (5, 15), grid=1)
    assert alone == pytest.approx(CHIP["cluster_arrive_interval"] + CHIP["cluster_barrier_alone"], abs=4)


# ---- copies ----

BARRIER = SHARED + " .shared .align 8 .b64 full;"
INIT = "mov.u32 %r2, tile; mov.u32 %r3, full; mbarrier.init.shared.b64 [%r3], 1; fence.mbarrier_init.release.cluster;"


def copy(offset: int, size: int, parity: int, number: int) -> str:
    return (
        f"mbarrier.arrive.expect_tx.shared.b64 _, [%r3], {size};"
        f"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd5+{offset}], {size}, [%r3];"
        f"{{W{number}: mbarrier.try_wait.parity.shared.b64 %p2, [%r3], {parity}; @!%p2 bra W{number};}}"
    )


def copies(sizes: list[int], at: list[int]) -> int:
    """Cycles of copies one after another, each waited for."""
    text = body(
        "ld.param.u64 %rd5, [q];", INIT, START,
        *(copy(offset, size, i % 2, i) for i, (size, offset) in enumerate(zip(sizes, at, strict=True))), END,
        registers=BARRIER, params=".param .u64 p, .param .u64 q",
    )  # fmt: skip
    sim = Sim(text, chip="h200")
    out = sim.buffer(np.zeros(4, np.uint64))
    assert sim.launch("k", out, sim.buffer(np.zeros(1 << 20, np.uint8)), block=1) == 0, sim.findings
    assert sim.verdict == "clean"
    return int(out[0])


def test_a_copy_takes_its_way_from_memory_and_then_from_l2():
    def curve(name: str, size: int) -> float:
        return dict(CHIP[name])[size]

    first = copies([4096], [0])
    for size in (1024, 4096, 16384):
        far = copies([4096, size], [0, 65536]) - first
        near = copies([4096, size, size], [0, 65536, 65536]) - first - far
        assert far - near == pytest.approx(curve("copy_latency_hbm", size) - curve("copy_latency_l2", size), abs=2)
    near = [copies([16384, size], [0, 0]) - copies([16384], [0]) for size in (1024, 16384)]
    assert near[1] - near[0] == pytest.approx(curve("copy_latency_l2", 16384) - curve("copy_latency_l2", 1024), abs=2)


def shared_copies(multicast: int, plain: int) -> int:
    """Cycles of a pair whose first CTA copies blocks to both while the second copies others to itself."""
    size, word = 16384, "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
    both = "".join(
        f"@%p1 {word}.multicast::cluster [%r2+{i * size}], [%rd5], {size}, [%r3], %rs1;" for i in range(multicast)
    )
    own = "".join(f"@!%p1 {word} [%r2+{(multicast + i) * size}], [%rd5], {size}, [%r3];" for i in range(plain))
    lines = (
        "ld.param.u64 %rd5, [p];", INIT, "mov.u32 %r4, %cluster_ctarank; setp.eq.u32 %p1, %r4, 0; mov.u16 %rs1, 3;",
        f"selp.u32 %r5, {multicast * size}, {(multicast + plain) * size}, %p1;",
        "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
        "mbarrier.arrive.expect_tx.shared.b64 _, [%r3], %r5;", both, own,
        "W: mbarrier.try_wait.parity.shared.b64 %p2, [%r3], 0; @!%p2 bra W;",
    )  # fmt: skip
    rooms = f".shared .align 1024 .b8 tile[{(multicast + plain) * size}]; .shared .align 8 .b64 full; .reg .b16 %rs1;"
    sim = Sim(body(*lines, registers=rooms), chip="h200")
    assert sim.launch("k", sim.buffer(np.zeros(size, np.uint8)), grid=2, cluster=2, block=1) == 0, sim.findings
    assert sim.verdict == "clean", sim.findings
    return sim.time.kernel_cycles


def test_what_a_multicast_brings_an_sm_takes_its_turn_at_the_port_there():
    one = 16384 / CHIP["sm_load_rate"]
    assert shared_copies(4, 3) - shared_copies(1, 3) == pytest.approx(3 * one, rel=0.1)


def ring(slots: int, laps: int, ctas: int, chip: str = "h200") -> float:
    """Cycles of a launch in which a thread of each CTA keeps `slots` copies of 16 KB from L2 in flight."""
    size, text = 16384, ""
    for lap in range(laps):
        for slot in range(slots):
            number = lap * slots + slot
            wait = f"{{W{number}: mbarrier.try_wait.parity.shared.b64 %p2, [%r3+{8 * slot}], {(lap + 1) % 2};"
            text += (f"{wait} @!%p2 bra W{number};}}" if lap else "") + (
                f"mbarrier.arrive.expect_tx.shared.b64 _, [%r3+{8 * slot}], {size};"
                f"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2+{slot * size}], [%rd5],"
                f" {size}, [%r3+{8 * slot}];"
            )
    for slot in range(slots):
        text += (
            f"{{V{slot}: mbarrier.try_wait.parity.shared.b64 %p2, [%r3+{8 * slot}], {(laps - 1) % 2};"
            f" @!%p2 bra V{slot};}}"
        )
    rooms = f".shared .align 1024 .b8 tile[{slots * size}]; .shared .align 8 .b64 full[{slots}];"
    init = "mov.u32 %r2, tile; mov.u32 %r3, full;" + "".join(
        f"mbarrier.init.shared.b64 [%r3+{8 * slot}], 1;" for slot in range(slots)
    )
    lines = ("ld.param.u64 %rd5, [p];", init, "fence.mbarrier_init.release.cluster;", text)
    sim = Sim(body(*lines, registers=rooms), chip=chip)
    assert sim.launch("k", sim.buffer(np.zeros(size, np.uint8)), grid=ctas, block=1) == 0, sim.findings
    assert sim.verdict == "clean"
    return sim.time.kernel_cycles


def test_a_short_ring_is_bound_by_latency_and_a_deep_one_by_bandwidth(small_chip):
    lap = (ring(1, 12, 1) - ring(1, 4, 1)) / 8
    assert lap == pytest.approx(dict(CHIP["copy_latency_l2"])[16384], rel=0.3)  # and its issue and wake-up
    assert lap > dict(CHIP["copy_latency_l2"])[16384]
    assert (ring(2, 12, 1) - ring(2, 4, 1)) / 8 == pytest.approx(lap, rel=0.3)  # twice the copies in the same time
    full = (ring(6, 8, SMALL["sms"], small_chip) - ring(6, 4, SMALL["sms"], small_chip)) / 4
    assert full == pytest.approx(SMALL["sms"] * 6 * 16384 / SMALL["l2_load_rate"], rel=0.02)


@pytest.mark.parametrize(
    "order", ["fence.acq_rel.gpu;", "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r6];"]
)
def test_a_release_beyond_the_cta_waits_for_the_copies_that_its_sm_has_under_way(order):
    def cycles(before: str, after: str = "") -> int:
        """From `before` to the end of `order`; then all copies are waited for."""
        text = body(
            "ld.param.u64 %rd5, [q];", INIT, "mov.u32 %r6, other; mbarrier.init.shared.b64 [%r6], 9;", START, before,
            order, END, after, registers=BARRIER + " .shared .align 8 .b64 other;",
            params=".param .u64 p, .param .u64 q",
        )  # fmt: skip
        sim = Sim(text, chip="h200")
        out = sim.buffer(np.zeros(4, np.uint64))
        assert sim.launch("k", out, sim.buffer(np.zeros(1 << 20, np.uint8)), block=1) == 0, sim.findings
        return int(out[0])

    asked, _, waited = copy(0, 16384, 0, 0).partition("{")
    alone, beside = cycles(""), cycles(asked, "{" + waited)
    completed = copies([16384], [0])
    assert alone == pytest.approx(CHIP["fence_gpu"], abs=60)
    assert beside == pytest.approx(completed + CHIP["fence_gpu_landed"], abs=120)
    again = cycles(asked + "{" + waited + order) - cycles(asked + "{" + waited)
    assert again == pytest.approx(alone, abs=60), "no copy since the last fence"
    assert cycles(asked + "{" + waited) - completed == pytest.approx(CHIP["fence_gpu_copies"], abs=60), (
        "they have completed"
    )


# ---- launches ----

SPIN = (
    "mov.u64 %rd5, %clock64; {L: mov.u64 %rd6, %clock64; sub.u64 %rd6, %rd6, %rd5;"
    "setp.lt.u64 %p1, %rd6, 20000; @%p1 bra L;}"
)
STAMP = "ld.param.u64 %rd1, [p]; mov.u64 %rd2, %clock64; st.global.u64 [%rd1], %rd2;"
DONE = "mov.u64 %rd3, %clock64; st.global.u64 [%rd1+8], %rd3;"


def pair(dependent: int, *, trigger: bool = True, shared: int = 0) -> tuple[int, int]:
    """Starts of the second of two kernels that take 20,000 cycles, and the end of its wait, after the first's end."""
    early = "griddepcontrol.launch_dependents;" if trigger else ""
    text = body(
        STAMP, early, "griddepcontrol.wait;", "mov.u64 %rd7, %clock64; st.global.u64 [%rd1+16], %rd7;", SPIN, DONE
    )
    sim = Sim(text, chip="h200")
    first, second = (sim.buffer(np.zeros(4, np.uint64)) for _ in range(2))
    assert sim.launch("k", first, block=1, shared=shared) == 0
    assert sim.launch("k", second, block=1, shared=shared, dependent=dependent) == 0
    return int(second[0]) - int(first[1]), int(second[2]) - int(first[1])


def test_two_launches_wait_for_each_other_and_dependent_ones_start_before():
    plain = CHIP["cta_end"] + CHIP["launch_drain"] + CHIP["launch_gap"] + CHIP["cta_start"]
    started, released = pair(0)
    assert started == pytest.approx(plain, abs=12)  # and the stores around the stamps
    assert released - started < 20
    started, released = pair(1)
    assert started < -15000  # it began while the first one spun
    assert released == pytest.approx(CHIP["cta_end"] + CHIP["launch_drain"] + CHIP["dependent_release"], abs=12)
    started, _ = pair(1, trigger=False)  # a kernel that never says so lets them start at its end
    assert started == pytest.approx(CHIP["dependent_gap"] + CHIP["cta_start"], abs=12)


def test_ctas_beyond_the_chips_room_start_when_one_ends(small_chip):
    sim = Sim(body(SPIN), chip=small_chip)
    room = {"block": 32, "shared": 200 * 1024}  # one an SM

    def cycles(ctas: int) -> float:
        assert sim.launch("k", 0, grid=ctas, **room) == 0
        return sim.time.kernel_cycles

    wave, two = cycles(SMALL["sms"]), cycles(SMALL["sms"] + 1)
    assert wave == pytest.approx(20000, rel=0.03)
    assert two - wave == pytest.approx(wave + CHIP["cta_start"], rel=0.03)


@pytest.mark.parametrize(("ctas", "at_once"), [(2, 6), (4, 2), (8, 1)])
def test_clusters_lie_in_one_processing_cluster_each(tmp_path, ctas, at_once):
    """Of 8, 3 and 2 SMs: those that no cluster fits into stay idle."""
    chip = json.loads(H200.read_text())
    parts = {"processing_cluster_sms": 8, "processing_clusters_whole": 1, "processing_cluster_short_sms": 3}
    for name, value in {"sms": 13, **parts}.items():
        chip["parameters"][name]["value"] = value
    path = tmp_path / "chip.json"
    path.write_text(json.dumps(chip))

    def cycles(clusters: int) -> float:
        sim = Sim(body(SPIN), chip=str(path))
        assert sim.launch("k", 0, grid=clusters * ctas, cluster=ctas, block=32, shared=200 * 1024) == 0
        return sim.time.kernel_cycles

    wave = cycles(1)
    assert cycles(at_once) == pytest.approx(wave, rel=0.05)
    assert cycles(at_once + 1) == pytest.approx(2 * wave, rel=0.1)


def test_an_sm_takes_its_ctas_down_in_turn_and_the_chip_counts_them(tmp_path):
    chip = json.loads(H200.read_text())
    path = tmp_path / "chip.json"

    def cycles(ctas: int, sms: int, shared: int = 0, **parameters: float) -> float:
        for name, value in {"sms": sms, "processing_cluster_sms": sms, **parameters}.items():
            chip["parameters"][name]["value"] = value
        path.write_text(json.dumps(chip))
        sim = Sim(body(""), chip=str(path))
        assert sim.launch("k", 0, grid=ctas, block=32, shared=shared) == 0
        return sim.time.kernel_cycles

    room = 200 * 1024  # one an SM: the next comes into the place of one that is gone
    after = CHIP["cta_end"] + CHIP["cta_start"]
    assert cycles(2, 1, room) - cycles(1, 1, room) == pytest.approx(after, abs=4)
    assert cycles(8, 1) - cycles(1, 1) == pytest.approx(7 * CHIP["sm_end_interval"], abs=2)
    assert cycles(4, 4, cta_end_interval=1000) - cycles(1, 4) == pytest.approx(3 * 1000, abs=2)


# ---- the whole ----


def test_the_result_is_the_same_for_any_number_of_host_threads_and_any_mode(small_chip):
    lines = ("atom.global.add.u32 %r3, [%rd1+64], 1;", "bar.sync 0;", "ex2.approx.ftz.f32 %f1, %f1;" * 5)
    times = set()
    for threads, mode in ((1, "eager"), (2, "late"), (4, "random"), (3, "poison")):
        sim = Sim(body(START, *lines, END), mode=mode, threads=threads, chip=small_chip)
        assert sim.launch("k", sim.buffer(np.zeros(64, np.uint64)), grid=100, block=96) == 0
        times.add((sim.time.cycles, sim.time.kernel_cycles))
    assert len(times) == 1


def test_the_result_is_the_same_wherever_the_host_has_put_the_memory(tmp_path):
    chip = json.loads(H200.read_text())
    chip["parameters"]["hbm_warp_rate"]["value"] = 1
    path = tmp_path / "chip.json"
    path.write_text(json.dumps(chip))
    load = "shl.b32 %r3, %r1, 2; cvt.u64.u32 %rd5, %r3; add.u64 %rd5, %rd5, %rd1; "
    load += "".join(f"ld.global.cg.u32 %r{4 + i}, [%rd5+{64 + 256 * i}];" for i in range(3))  # one waits for the other
    times = set()
    for shift in (0, 16, 64):
        room = np.zeros(1 << 12, np.uint8)
        at = -room.ctypes.data % 128 + shift
        sim = Sim(body(START, load, "add.u32 %r4, %r5, %r6;", END), chip=str(path))
        assert sim.launch("k", sim.register(room[at : at + 1024].view(np.uint64)), block=32) == 0
        times.add(sim.time.kernel_cycles)
    assert len(times) == 1, times


def test_a_warp_that_waits_for_a_phase_that_is_armed_again_is_let_go_in_time():
    """Warp 0 completes a phase and arms the next while warp 1 waits for the first by its parity: right on a chip,
    where the wait sees each phase as it ends, and reported by the checks alone."""
    work = "shf.l.wrap.b32 %r1, %r1, %r1, %r1;" * 60
    lines = [
        "mov.u32 %r9, %tid.x; setp.eq.u32 %p4, %r9, 0;", INIT.replace("mbarrier.init", "@%p4 mbarrier.init"),
        "setp.lt.u32 %p3, %r9, 32; bar.sync 0;",
    ]  # fmt: skip
    for turn in range(6):
        lines.append(
            f"@!%p3 bra T{turn}; {work} st.shared.u32 [%r2], %r1; mov.b64 %rd9, 1;"
            f"{{ .reg .b32 %l; .reg .pred %e; elect.sync %l|%e, 0xffffffff; @%e mbarrier.arrive.shared.b64 _, [%r3]; }}"
            f"T{turn}: mbarrier.try_wait.parity.shared.b64 %p2, [%r3], {turn % 2}; @!%p2 bra T{turn};"
        )
    sim = Sim(body(*lines, registers=BARRIER), chip="h200")
    assert sim.launch("k", 0, block=64) == 0, sim.findings


def test_a_warp_is_let_go_by_a_phase_that_another_follows_at_once():
    work = "shf.l.wrap.b32 %r1, %r1, %r1, %r1;" * 60 + "st.shared.u32 [%r2], %r1;"
    lines = [
        "mov.u32 %r9, %tid.x; setp.eq.u32 %p4, %r9, 0;",
        INIT.replace("mbarrier.init", "@%p4 mbarrier.init"),
        "setp.lt.u32 %p3, %r9, 32; bar.sync 0; @!%p3 bra WAIT;",
        work + "@%p4 mbarrier.arrive.shared.b64 _, [%r3]; @%p4 mbarrier.arrive.shared.b64 _, [%r3]; bra DONE;",
        "WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [%r3], 0; @!%p2 bra WAIT; DONE:",
    ]
    sim = Sim(body(*lines, registers=BARRIER), chip="h200")
    assert sim.launch("k", 0, block=64) == 0, sim.findings


def test_no_time_without_a_chip_and_none_by_the_counters():
    sim = Sim(body("mov.u32 %r1, 1;"))
    assert sim.launch("k", 0) == 0
    assert sim.time is None


# ---- chip files ----


@pytest.mark.parametrize(
    ("change", "said"),
    [
        (lambda p: p.pop("hbm_rate"), "hbm_rate: missing"),
        (lambda p: p.update(speed=p["sms"]), "speed: no such parameter"),
        (lambda p: p["alu_latency"].update(unit="ns"), "alu_latency: unit 'ns'"),
        (lambda p: p["alu_latency"].update(value=-1), "alu_latency: -1 is outside"),
        (lambda p: p["sm_load_rate"].update(value=0), "sm_load_rate: 0 is outside"),
        (lambda p: p["alu_latency"].update(source="I think so"), "alu_latency: source 'I think so'"),
        (lambda p: p["alu_latency"].pop("source"), "alu_latency: expected ','"),
        (lambda p: p["copy_latency_l2"].update(value=[[5, 1], [5, 2]]), "copy_latency_l2: its points do not rise"),
        (lambda p: p["copy_latency_l2"].update(value=7), "copy_latency_l2: expected '['"),
    ],
)
def test_a_chip_file_that_is_wrong_is_refused_by_its_key(tmp_path, change, said):
    chip = json.loads(H200.read_text())
    change(chip["parameters"])
    path = tmp_path / "chip.json"
    path.write_text(json.dumps(chip))
    with pytest.raises(ValueError, match=said.replace("[", r"\[").replace("-1", r"\-1")):
        Sim(body(""), chip=str(path))


def test_an_unknown_chip_is_named_and_a_file_of_ones_own_counts(tmp_path):
    with pytest.raises(ValueError, match="no chip 'h300'"):
        Sim(body(""), chip="h300")
    chip = json.loads(H200.read_text())
    chip["parameters"]["alu_latency"]["value"] = 7
    path = tmp_path / "chip.json"
    path.write_text(json.dumps(chip))
    assert more("shf.l.wrap.b32 %r1, %r1, %r1, %r1;", (10, 50), chip=str(path)) == 7


def test_every_parameter_of_every_chip_says_where_it_is_from():
    for path in H200.parent.glob("*.json"):
        entries = json.loads(path.read_text())["parameters"]
        assert list(entries) and all(entry["source"] for entry in entries.values())
        lines = [line for line in path.read_text().splitlines() if line.startswith('"')]
        assert len(lines) == len(entries), f"{path.name}: a line a parameter"


# ---- what a launch was busy with ----


def report(sim: Sim, tmp_path) -> dict:
    """The last launch of the JSON report, which says that it is simulated."""
    time = json.loads(sim.report(tmp_path / "report.json"))["time"]
    assert (time["evidence"], time["chip"]) == ("simulated", "h200")
    return time["launches"][-1]


def test_a_report_tells_what_was_busy_and_what_warps_waited_for(tmp_path):
    count, sums = 40, CHIP["wgmma_read_a"] + 8 * CHIP["wgmma_read_column"]
    group = "wgmma.fence.sync.aligned;" + MMA * count + "wgmma.commit_group.sync.aligned;"
    sim = Sim(
        body("ld.param.u64 %rd1, [p];", OPERANDS, group, "wgmma.wait_group.sync.aligned 0;", registers=SHARED),
        chip="h200",
    )
    assert sim.launch("k", sim.buffer(np.zeros(64, np.uint64)), block=128) == 0
    launch = report(sim, tmp_path)
    assert launch["busy"]["tensor cores"][1] == pytest.approx(count * sums / sim.time.kernel_cycles, rel=0.02)
    assert launch["busy"]["tensor cores"][0] == pytest.approx(launch["busy"]["tensor cores"][1] / CHIP["sms"], rel=0.01)
    assert len(launch["warps"]) == 4
    for warp in launch["warps"]:
        assert warp["own operations"] == pytest.approx(count * sums, rel=0.1)
        assert warp["lived"] == pytest.approx(sim.time.kernel_cycles - CHIP["cta_end"], abs=20)


def test_one_warp_keeps_its_quarter_of_an_sm_busy(tmp_path):
    """Of four partitions one issues a dependent chain, an instruction every few cycles."""
    count = 4000
    sim = Sim(body("ld.param.u64 %rd1, [p];", "shf.l.wrap.b32 %r1, %r1, %r1, %r1;" * count), chip="h200")
    assert sim.launch("k", sim.buffer(np.zeros(1, np.uint64)), block=32) == 0
    busy = report(sim, tmp_path)["busy"]
    assert busy["issue slots"][1] == pytest.approx(count / 4 / sim.time.kernel_cycles, rel=0.02)
    assert busy["ALU"][1] == pytest.approx(busy["issue slots"][1] * CHIP["alu_interval"], rel=0.05)


def test_without_values_an_mma_leaves_its_registers_and_takes_its_time(tmp_path):
    text = body(
        "ld.param.u64 %rd1, [p];", OPERANDS, "mov.f32 %f1, 0f40A00000; setp.eq.u32 %p1, 0, 1;"
        "wgmma.fence.sync.aligned;", MMA, "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;",
        "st.global.f32 [%rd1], %f1;", registers=SHARED,
    )  # fmt: skip
    seen = []
    for no_values in (False, True):
        sim = Sim(text, chip="h200", no_values=no_values)
        out = sim.buffer(np.zeros(32, np.float32))
        assert sim.launch("k", out, block=128) == 0
        seen.append((out[0], sim.time.kernel_cycles))
    assert seen[0][0] != 5 and seen[1][0] == 5  # what was in shared memory is a trap pattern, whose product is not 5
    assert seen[0][1] == seen[1][1]
