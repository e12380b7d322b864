"""Simulated time of waiting for another SM's work: a line that it has requested, or a signal of its CTA."""

from __future__ import annotations

import json

import numpy as np
import pytest

from simulator.tests.clock.clock_kit import BARRIER, CHIP, END, H200, INIT, START, copy, span
from simulator.tests.sim_kit import Sim, body


def cycles_of_ctas(*lines: str, behind: str = "", registers: str = "", chip: str = "h200", **launch) -> list[int]:
    """Cycles that thread 0 of each of two CTAs counts around `lines`. %rd5: memory not in L2; %r20: the CTA's index."""
    text = body(
        "ld.param.u64 %rd1, [p]; ld.param.u64 %rd5, [q]; mov.u32 %r20, %ctaid.x; mov.u32 %r21, %tid.x;"
        "mul.wide.u32 %rd6, %r20, 8; add.u64 %rd1, %rd1, %rd6; mov.u64 %rd7, %clock64;",
        *lines,
        "mov.u64 %rd3, %clock64; sub.u64 %rd3, %rd3, %rd7;",
        behind,
        "setp.eq.u32 %p9, %r21, 0; @%p9 st.global.u64 [%rd1], %rd3;",
        params=".param .u64 p, .param .u64 q",
        registers=registers,
    )
    sim = Sim(text, chip=chip)
    out, memory = sim.buffer(np.zeros(2, np.uint64)), sim.buffer(np.zeros(1 << 14, np.uint8))
    assert sim.launch("k", out, memory, grid=2, **launch) == 0, sim.findings
    assert sim.verdict == "clean", sim.findings
    return out.tolist()


def test_a_line_that_is_under_way_for_another_sm_comes_no_earlier_for_the_next():
    load = "ld.global.cg.u32 %r2, [%rd5]; add.u32 %r3, %r2, %r2;"
    alone = cycles_of_ctas("mul.wide.u32 %rd8, %r20, 8192; add.u64 %rd5, %rd5, %rd8;", load, block=1)
    shared = cycles_of_ctas("mul.wide.u32 %rd8, %r20, 0; add.u64 %rd5, %rd5, %rd8;", load, block=1)
    again = cycles_of_ctas("mul.wide.u32 %rd8, %r20, 0; add.u64 %rd5, %rd5, %rd8;", load, load, block=1)
    assert min(alone) > CHIP["hbm_latency"]
    assert shared == pytest.approx(alone, abs=40)
    assert min(again) - max(shared) > CHIP["l2_latency"] - 40  # it is there by then, and comes from L2


@pytest.mark.parametrize(("waits", "sooner"), [(1, 0), (0, 400)])
def test_a_line_that_comes_late_under_load_comes_as_late_for_the_next(tmp_path, waits: int, sooner: int):
    """HBM's latency is 400 cycles longer at any load here; CTA 1 reads the line about 100 cycles after CTA 0."""
    chip = json.loads(H200.read_text())
    of = {"hbm_loaded": 400, "hbm_loaded_power": 0, "l2_behind_own": 0}
    chip["parameters"] |= {name: chip["parameters"][name] | {"value": value} for name, value in of.items()}
    chip["parameters"]["hbm_loaded_shared"] = {"value": waits, "unit": "count", "source": "assumed"}
    path = tmp_path / "chip.json"
    path.write_text(json.dumps(chip))
    chain = "mov.u32 %r5, %r20; setp.eq.u32 %p1, %r20, 0; @%p1 bra ASK;" + "mul.lo.u32 %r5, %r5, %r5;" * 25
    load = "ASK: mov.u64 %rd7, %clock64; ld.global.cg.u32 %r2, [%rd5]; add.u32 %r3, %r2, %r2;"
    first, second = cycles_of_ctas(chain, load, block=1, chip=str(path))
    assert first == pytest.approx(CHIP["hbm_latency"] + 400, abs=20)
    assert first - second == pytest.approx(sooner + 100, abs=30)


def test_a_line_that_waits_for_its_turn_comes_as_late_for_the_next_and_no_later(tmp_path):
    """CTA 0 reads a line whose turn takes 3,200 cycles and, 600 cycles later, another one, which CTA 1 reads about 100
    cycles after that. HBM's latency is 400 cycles longer at any load, less than the wait for the turn."""
    turn = 3200
    chip = json.loads(H200.read_text())
    of = {"hbm_loaded": 400, "hbm_loaded_power": 0, "l2_behind_own": 0, "l2_behind_misses": 0}
    of |= {"hbm_warp_rate": 64 / turn}
    chip["parameters"] |= {name: chip["parameters"][name] | {"value": value} for name, value in of.items()}
    chip["parameters"]["hbm_loaded_shared"] = {"value": 1, "unit": "count", "source": "assumed"}
    path = tmp_path / "chip.json"
    path.write_text(json.dumps(chip))
    spin = "mul.lo.u32 %r5, %r5, %r5;"
    first = "mov.u32 %r5, %r20; setp.eq.u32 %p1, %r20, 0; @%p1 ld.global.cg.u32 %r6, [%rd5+8192];" + spin * 150
    chain = first + "@%p1 bra ASK;" + spin * 25
    ask = "ASK: mov.u64 %rd7, %clock64; ld.global.cg.u32 %r2, [%rd5]; add.u32 %r3, %r2, %r2;"
    one, other = cycles_of_ctas(chain, ask, block=1, chip=str(path))
    assert one == pytest.approx(CHIP["hbm_latency"] + turn - 600, abs=60)
    assert one - other == pytest.approx(100, abs=30)


@pytest.mark.parametrize("share", [0, 0.5, 1])
def test_a_hit_in_l2_waits_for_a_share_of_another_sms_misses(tmp_path, share: float):
    """Both CTAs have a line. Then CTA 0 reads another one, whose turn takes 3,200 cycles, and CTA 1, about 250 cycles
    later, the first one again."""
    turn = 3200
    chip = json.loads(H200.read_text())
    for name, value in {"l2_behind_misses": share, "hbm_warp_rate": 64 / turn, "hbm_loaded": 0}.items():
        chip["parameters"][name]["value"] = value
    path = tmp_path / "chip.json"
    path.write_text(json.dumps(chip))
    load, spin = "ld.global.cg.u32 %r2, [%rd5]; mov.u32 %r6, %r2;", "mul.lo.u32 %r6, %r6, %r6;"
    warm = (  # CTA 1 loads when the turn of CTA 0's load is over
        f"mov.u32 %r6, %r20; setp.eq.u32 %p1, %r20, 0; @%p1 bra FIRST; {spin * 2000} bar.sync 0; {load} {spin * 150}"
        "bra ASK;"
        f"FIRST: {load} {spin * 2000} add.u64 %rd5, %rd5, 4096;"
    )
    ask = (
        "ASK: add.u32 %r5, %r20, %r6; bar.sync 0; mov.u64 %rd7, %clock64; ld.global.cg.u32 %r3, [%rd5];"
        "add.u32 %r4, %r3, %r3;"
    )
    missed, had = cycles_of_ctas(warm, ask, block=1, chip=str(path))
    assert missed == pytest.approx(CHIP["hbm_latency"], abs=60)
    assert had == pytest.approx(CHIP["l2_latency"] + share * (turn - 250), abs=150)


def test_a_signal_to_another_cta_takes_its_way_longer(tmp_path):
    """CTA 1 arrives after a chain at its own barrier, or at that of CTA 0, which then counts the latency between CTAs
    in addition."""
    chain = "mov.u32 %r5, 3;" + "mul.lo.u32 %r5, %r5, %r5;" * 200
    own = "mbarrier.arrive.shared::cta.b64 _, [%r3];"
    far = "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r4];"

    def waits(arrive: str, waiter: int, way: int) -> int:
        chip = json.loads(H200.read_text())
        chip["parameters"]["remote_signal"]["value"] = way
        path = tmp_path / f"{way}.json"
        path.write_text(json.dumps(chip))
        lines = (
            "mov.u32 %r3, full; setp.eq.u32 %p1, %r21, 0; @%p1 mbarrier.init.shared.b64 [%r3], 1;"
            "fence.mbarrier_init.release.cluster; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
            f"mov.u64 %rd7, %clock64; mapa.shared::cluster.u32 %r4, %r3, {waiter}; setp.eq.u32 %p2, %r20, 1;"
            "setp.eq.u32 %p3, %r21, 32; and.pred %p4, %p2, %p3; @!%p4 bra LOOK;",
            chain,
            arrive,
            f"LOOK: setp.eq.u32 %p5, %r20, {waiter}; and.pred %p6, %p5, %p1; @!%p6 bra DONE;",
            "TRY: mbarrier.try_wait.parity.acquire.cluster.shared::cta.b64 %p7, [%r3], 0; @!%p7 bra TRY; DONE:",
        )
        end = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
        return max(cycles_of_ctas(*lines, behind=end, registers=BARRIER, block=64, cluster=2, chip=str(path)))

    assert waits(own, 1, 82) == waits(own, 1, 282) > 200 * CHIP["imad_latency"]
    assert waits(far, 0, 82) > waits(own, 1, 82) + 82
    assert waits(far, 0, 282) - waits(far, 0, 82) == 200


@pytest.mark.parametrize(("parameter", "waiter"), [("remote_arrival", 0), ("window_arrival", 1)])
def test_an_arrival_through_the_clusters_window_is_seen_its_way_later(chip, parameter: str, waiter: int):
    """CTA 1 arrives after a chain, without a fence, at the barrier of CTA 0 or at its own."""

    def waits(way: int) -> int:
        lines = (
            "mov.u32 %r3, full; setp.eq.u32 %p1, %r21, 0; @%p1 mbarrier.init.shared.b64 [%r3], 1;"
            "fence.mbarrier_init.release.cluster; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
            f"mov.u64 %rd7, %clock64; mapa.shared::cluster.u32 %r4, %r3, {waiter}; setp.eq.u32 %p2, %r20, 1;"
            "setp.eq.u32 %p3, %r21, 32; and.pred %p4, %p2, %p3; @!%p4 bra LOOK;",
            "mov.u32 %r5, 3;" + "mul.lo.u32 %r5, %r5, %r5;" * 200,
            "mbarrier.arrive.shared::cluster.b64 _, [%r4];",
            f"LOOK: setp.eq.u32 %p5, %r20, {waiter}; and.pred %p6, %p5, %p1; @!%p6 bra DONE;",
            "TRY: mbarrier.try_wait.parity.shared::cta.b64 %p7, [%r3], 0; @!%p7 bra TRY; DONE:",
        )
        end = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
        timed = chip(**{parameter: way})
        return max(cycles_of_ctas(*lines, behind=end, registers=BARRIER, block=64, cluster=2, chip=timed))

    assert waits(50) > 200 * CHIP["imad_latency"]
    assert waits(450) - waits(50) == 400


def test_arrivals_through_the_window_leave_one_lane_after_another(chip):
    """32 lanes arrive at a barrier of the other CTA, whose thread waits for all of them."""

    def waits(interval: int) -> int:
        lines = (
            "mov.u32 %r3, full; setp.eq.u32 %p1, %r21, 0; @%p1 mbarrier.init.shared.b64 [%r3], 32;"
            "fence.mbarrier_init.release.cluster; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
            "mov.u64 %rd7, %clock64; mapa.shared::cluster.u32 %r4, %r3, 0; setp.eq.u32 %p2, %r20, 1;"
            "@!%p2 bra LOOK;" + "mov.u32 %r5, 3;" + "mul.lo.u32 %r5, %r5, %r5;" * 100,
            "mbarrier.arrive.shared::cluster.b64 _, [%r4]; bra DONE;",
            "LOOK: @!%p1 bra DONE;",
            "TRY: mbarrier.try_wait.parity.shared::cta.b64 %p7, [%r3], 0; @!%p7 bra TRY; DONE:",
        )
        end = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
        timed = chip(remote_arrival_interval=interval)
        return max(cycles_of_ctas(*lines, behind=end, registers=BARRIER, block=32, cluster=2, chip=timed))

    assert waits(10) - waits(0) == pytest.approx(320, abs=10)


def test_an_instruction_whose_guard_leaves_all_lanes_out_waits_for_no_fence():
    init = "mov.u32 %r5, full; mbarrier.init.shared.b64 [%r5], 99; mapa.shared::cluster.u32 %r6, %r5, 0;"
    guarded = (
        "setp.{test}.u32 %p1, %r1, %r1;" + "@%p1 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r6];" * 4
    )
    taken, left_out = (
        span(guarded.format(test=test), before=init, registers=BARRIER, block=1) for test in ("eq", "ne")
    )
    assert taken > 4 * CHIP["fence_gpu"] > 100 + left_out


def test_a_release_that_other_lanes_are_at_holds_none_that_wait_for_a_copy(chip):
    """Thread 0 waits for one copy after another; the warp's other lanes are at the cluster's barrier or have ended. A
    fence takes longer here than a copy."""
    slow = chip(fence_gpu=5000, fence_gpu_copies=5000)

    def cycles(others: str) -> int:
        text = body(
            "ld.param.u64 %rd5, [q]; mov.u32 %r1, %tid.x;", INIT, START,
            f"setp.ne.u32 %p3, %r1, 0; @%p3 bra {others};",
            *(copy(1024 * i, 1024, i % 2, i) for i in range(8)), END,
            "MEET: barrier.cluster.arrive.release; barrier.cluster.wait.acquire; GONE:",
            registers=BARRIER, params=".param .u64 p, .param .u64 q",
        )  # fmt: skip
        sim = Sim(text, chip=slow)
        out = sim.buffer(np.zeros(4, np.uint64))
        assert sim.launch("k", out, sim.buffer(np.zeros(1 << 16, np.uint8)), block=32) == 0, sim.findings
        return int(out[0])

    assert cycles("MEET") == pytest.approx(cycles("GONE"), abs=16)


def test_a_fence_of_the_gpu_waits_until_memory_has_answered_the_stores_before_it(chip):
    store = "st.global.u32 [%rd1+256], %r1;"
    fence = "fence.acq_rel.gpu;"
    answered = 2000
    slow = chip(store_answered=answered)
    assert span(fence, chip=slow, block=1) < 2 * CHIP["fence_gpu"]
    assert answered < span(store, fence, chip=slow, block=1) < answered + 200
    assert span(store, chip=slow, block=1) < CHIP["fence_gpu"]
