"""Simulated time: one test a mechanism, with times worked out by hand from the chip's parameters."""

from __future__ import annotations

import json

import numpy as np
import pytest

from simulator.tests.clock.clock_kit import (
    BARRIER,
    CHIP,
    END,
    H200,
    INIT,
    MMA,
    OPERANDS,
    PRODUCT,
    SHARED,
    SPIN,
    START,
    more,
    span,
)
from simulator.tests.sim_kit import Sim, body

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


@pytest.mark.parametrize(
    ("lines", "parameter"),
    [
        ("shfl.sync.idx.b32 %r1, %r1, 0, 31, -1;", "shuffle_latency"),
        ("shfl.sync.idx.b32 %r2|%p1, %r1, 0, 31, -1; selp.u32 %r1, 1, 0, %p1;", "shuffle_latency"),
        ("vote.sync.any.pred %p1, %p1, -1;", "vote_latency"),
        ("match.any.sync.b32 %r1, %r1, -1;", "vote_latency"),
        ("match.all.sync.b32 %r2|%p1, %r1, -1; selp.u32 %r1, 1, 0, %p1;", "vote_latency"),
        ("redux.sync.add.u32 %r1, %r1, -1;", "redux_latency"),
    ],
)
def test_each_result_of_an_exchange_between_lanes_is_there_after_its_latency(lines, parameter):
    through_predicate = CHIP["alu_latency"] if "selp" in lines else 0
    assert more(lines, (10, 50)) == CHIP[parameter] + through_predicate


# ---- shared memory ----


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
    assert (times["7"][1] - times["7"][0]) / 40 == pytest.approx(32 * CHIP["shared_store_interval"], rel=0.02)


# ---- global memory ----


def test_a_prefetch_to_l2_brings_a_line_nearer_and_the_next_load_of_it_nearer_still(tmp_path):
    chip = json.loads(H200.read_text())
    del chip["parameters"]["l2_prefetched"]
    without = tmp_path / "without.json"
    without.write_text(json.dumps(chip))
    line, load = "ld.param.u64 %rd9, [p];", "ld.global.cg.u32 %r3, [%rd9+65536]; add.u32 %r4, %r3, %r3;"
    ask = "prefetch.global.L2 [%rd9+65632];"  # in the same 128 bytes

    def cycles(before: str, chip: str = "h200") -> int:
        return span(load, before=line + before, block=1, chip=chip)

    far = cycles(SPIN)
    assert far - cycles(ask + SPIN) == pytest.approx(CHIP["hbm_latency"] - CHIP["l2_prefetched"], abs=1)
    assert far - cycles(load + SPIN) == pytest.approx(CHIP["hbm_latency"] - CHIP["l2_latency"], abs=1)
    assert far - cycles(ask + SPIN + load + SPIN) == pytest.approx(CHIP["hbm_latency"] - CHIP["l2_latency"], abs=1)
    assert cycles(SPIN + ask) == pytest.approx(far, abs=8), "what is on its way is not there yet"
    assert cycles(ask.replace("65632", "65664") + SPIN) == far, "another line"
    assert cycles(ask.replace("L2", "L1") + SPIN) == far
    assert cycles(ask + SPIN, str(without)) == far, "a chip's file without it"


# ---- tensor cores ----


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


def test_warps_of_a_cluster_of_one_may_arrive_faster_than_those_of_a_larger_one(chip):
    sync, warps = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;", 8
    slow, fast = (
        {ctas: more(sync, (5, 15), grid=ctas, cluster=ctas, block=32 * warps, chip=chip(**values)) for ctas in (1, 2)}
        for values in ({}, {"cluster_arrive_alone": 1})
    )
    assert slow[2] == fast[2]
    assert slow[1] - fast[1] == pytest.approx(warps * (CHIP["cluster_arrive_interval"] - 1), abs=3)


@pytest.mark.parametrize(
    ("apart", "bytes_of_lane", "lines", "whole", "parts"),
    [
        (16, 16, 4, 16, 0),
        (32, 16, 8, 0, 32),
        (64, 16, 16, 0, 32),
        (32, 32, 8, 32, 0),
        (8, 4, 2, 0, 8),
        (128, 32, 32, 32, 0),
        (0, 16, 1, 0, 1),  # lanes at one place
    ],
)
def test_a_store_takes_the_way_out_by_its_lines_and_by_sectors_written_in_part(
    tmp_path, apart, bytes_of_lane, lines, whole, parts
):
    chip = json.loads(H200.read_text())
    del chip["parameters"]["store_line_bytes"]
    without = tmp_path / "without.json"
    without.write_text(json.dumps(chip))
    where = f"mov.u32 %r1, %tid.x; ld.param.u64 %rd9, [p]; mul.wide.u32 %rd8, %r1, {apart}; add.u64 %rd9, %rd9, %rd8;"
    where += "mov.u32 %r2, 7; mov.u64 %rd7, 7;"  # all lanes store the same value
    stores = {4: "st.global.u32 [%rd9+4096], %r2;", 16: "st.global.v4.u32 [%rd9+4096], {%r2, %r2, %r2, %r2};"}
    stores[32] = "st.global.v4.u64 [%rd9+4096], {%rd7, %rd7, %rd7, %rd7};"

    def cycles(chip: str) -> float:
        counts = (100, 140) if apart > 0 else (400, 440)  # until the queue of stores is full
        return more(stores[bytes_of_lane], counts, before=where, block=32, chip=chip)

    line = CHIP["store_line_bytes"]
    taken = lines * line + whole * ((128 - line) // 4) + parts * CHIP["store_part_bytes"]
    assert cycles("h200") == pytest.approx(max(taken / CHIP["sm_store_rate"], 1), rel=0.01)
    assert cycles(str(without)) == pytest.approx((whole + parts) * 32 / CHIP["sm_store_rate"], rel=0.01)


def test_only_a_releasing_arrival_waits_for_stores_to_the_other_cta():
    room = "mov.u32 %r2, tile; mapa.shared::cluster.u32 %r3, %r2, 1; mov.u32 %r4, %cluster_ctarank;"
    room += "setp.eq.u32 %p1, %r4, 0;"

    def cycles(stores: int, order: str) -> int:
        store = "@%p1 st.shared::cluster.v4.u32 [%r3], {%r2, %r2, %r2, %r2};" * stores
        meet = f"barrier.cluster.arrive{order}.aligned; barrier.cluster.wait.aligned;"
        sync = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; mov.u64 %rd2, %clock64;"
        return span(room, sync, store, meet, registers=SHARED, grid=2, cluster=2)

    far = 32 * 16 / CHIP["remote_rate"]
    assert cycles(8, "") - cycles(0, "") == pytest.approx(8 * far + CHIP["remote_release"], rel=0.05)
    assert cycles(8, "") - cycles(4, "") == pytest.approx(4 * far, abs=4)
    assert cycles(8, "") - cycles(8, ".relaxed") > CHIP["remote_release"]


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
    """Warp 0 completes a phase and arms the next while warp 1 still waits for the first by its parity. On a chip the
    wait sees every phase end, so time goes on; only the checks report it."""
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


# ---- what a launch was busy with ----


def report(sim: Sim, tmp_path) -> dict:
    """The last launch of the JSON report, which must say that its times are simulated."""
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
    """One of four sub-partitions issues a dependent chain, an instruction every few cycles."""
    count = 4000
    sim = Sim(body("ld.param.u64 %rd1, [p];", "shf.l.wrap.b32 %r1, %r1, %r1, %r1;" * count), chip="h200")
    assert sim.launch("k", sim.buffer(np.zeros(1, np.uint64)), block=32) == 0
    busy = report(sim, tmp_path)["busy"]
    assert busy["issue slots"][1] == pytest.approx(count / 4 / sim.time.kernel_cycles, rel=0.02)
    assert busy["ALU"][1] == pytest.approx(busy["issue slots"][1] * CHIP["alu_interval"], rel=0.05)


def test_without_values_an_mma_leaves_its_registers_and_takes_its_time(tmp_path):
    group = f"wgmma.fence.sync.aligned; {MMA} wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;"
    for mma in (group, "mov.u32 %r6, 0x3c003c00; mov.u32 %r7, %r6; mov.u32 %r8, %r6; mov.u32 %r9, %r6;" + PRODUCT):
        text = body(
            "ld.param.u64 %rd1, [p];", OPERANDS, "mov.f32 %f1, 0f40A00000; setp.eq.u32 %p1, 0, 1;", mma,
            "st.global.f32 [%rd1], %f1;", registers=SHARED,
        )  # fmt: skip
        seen = []
        for no_values in (False, True):
            sim = Sim(text, chip="h200", no_values=no_values)
            out = sim.buffer(np.zeros(32, np.float32))
            assert sim.launch("k", out, block=128) == 0
            seen.append((out[0], sim.time.kernel_cycles))
        # What was in shared memory is a trap pattern, whose product is not 5; that of the registers is 16 + 5.
        assert seen[0][0] != 5 and seen[1][0] == 5
        assert seen[0][1] == seen[1][1]
