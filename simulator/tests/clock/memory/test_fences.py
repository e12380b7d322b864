"""Simulated time of fences: what they wait for, and what a kernel's last stores delay after its end."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.tests.clock.clock_kit import CHIP, H200, SPIN, STAMP, span
from simulator.tests.clock.test_clock import report
from simulator.tests.clock.test_who_waits import cycles_of_ctas
from simulator.tests.sim_kit import Sim, body

FENCE = "fence.acq_rel.gpu;"
LOAD = "ld.global.cg.u32 %r2, [%rd1+256]; add.u32 %r3, %r2, %r2;"
SHARED = ".shared .align 16 .b32 kept[64];"
STORE_HERE = "mov.u32 %r5, kept; st.shared.u32 [%r5], %r5;"
FENCE_HERE = "fence.proxy.async.shared::cta;"


def test_only_the_first_fence_behind_touched_lines_takes_longer(chip):
    touched = 2000
    slow = chip(fence_gpu_touched=touched)
    alone = span(FENCE, chip=slow, block=1)
    behind = span(LOAD, FENCE, chip=slow, block=1)
    assert alone < 2 * CHIP["fence_gpu"]
    assert behind - span(LOAD, chip=slow, block=1) == pytest.approx(touched + CHIP["fence_gpu"], abs=20)
    assert span(LOAD, FENCE, FENCE, chip=slow, block=1) - behind < 2 * CHIP["fence_gpu"]


def test_a_fence_waits_for_another_warps_touch_of_memory_too(chip):
    touched = 2000
    warps = "mov.u32 %r9, %tid.x; setp.lt.u32 %p8, %r9, 32; @%p8 bra MEET;" + LOAD + "MEET: bar.sync 0;"
    assert span(warps, FENCE, chip=chip(fence_gpu_touched=touched), block=64) > touched


def test_a_proxy_fence_ends_some_time_after_the_stores_to_shared_memory(chip):
    behind = 3000
    slow = chip(fence_shared_stored=behind)
    options = {"registers": SHARED, "block": 1}
    assert span(FENCE_HERE, chip=slow, **options) < 100
    assert behind < span(STORE_HERE, FENCE_HERE, chip=slow, **options) < behind + 100
    assert span(STORE_HERE, FENCE_HERE, **options) < 200


def test_such_fences_of_an_sm_are_over_one_after_another(chip):
    interval = 400
    options = {"registers": SHARED, "chip": chip(fence_shared_interval=interval)}
    meet = "bar.sync 0;"
    one, four = (span(FENCE_HERE, meet, block=32 * warps, **options) for warps in (1, 4))
    assert four - one == pytest.approx(3 * interval, rel=0.1)


def test_a_kernel_has_not_ended_before_l2_has_taken_its_stores(chip):
    def until_the_next(*lines: str) -> int:
        sim = Sim(body(STAMP, SPIN, *lines), chip=chip(store_part_seen=0, **SLOWLY))
        first, second = (sim.buffer(np.zeros(256, np.uint64)) for _ in range(2))
        assert sim.launch("k", first, block=1) == 0
        assert sim.launch("k", second, block=1) == 0
        return int(second[0]) - int(first[0])

    later = until_the_next(STORE, STORE.replace("256", "512")) - until_the_next()
    assert later == pytest.approx(L2_TAKES - CHIP["launch_drain"], abs=100)  # the second one's turn


@pytest.mark.parametrize(("cluster", "gap"), [(0, "dependent_gap_alone"), (1, "dependent_gap"), (2, "dependent_gap")])
@pytest.mark.parametrize("cycles", [6000, 9000])
def test_a_dependent_launch_begins_its_gap_behind_the_trigger(chip, cluster: int, gap: str, cycles: int):
    """The first kernel triggers right after its start. Launches with clusters, also of one CTA, have their own gap."""
    text = body(STAMP, "griddepcontrol.launch_dependents;", SPIN)
    sim = Sim(text, chip=chip(**{gap: cycles}))
    first, second = (sim.buffer(np.zeros(4, np.uint64)) for _ in range(2))
    assert sim.launch("k", first, block=1) == 0
    assert sim.launch("k", second, block=1, grid=cluster or 1, cluster=cluster, dependent=1) == 0
    start = CHIP["cta_start"] + (CHIP["cluster_start"] if cluster else 0)
    assert int(second[0]) - int(first[0]) == pytest.approx(cycles + start, abs=40)


def test_what_l2_takes_of_one_sms_stores_it_does_not_give_to_anothers_loads(chip):
    """CTA 0 stores lines that take L2 about 1,000 cycles each, while CTA 1 loads."""
    slow = chip(l2_store_rate=0.128, sm_store_rate=1024)
    late = "mul.lo.u32 %r6, %r20, %r20;" * 60 + "add.u32 %r7, %r6, %r6;"
    path = "setp.eq.u32 %p1, %r20, 0; @!%p1 bra LOADS;" + "st.global.u32 [%rd5+{0}], %r20;" + "bra OVER;"
    loads = f"LOADS: {late} ld.global.cg.u32 %r2, [%rd5+4096]; add.u32 %r3, %r2, %r7; OVER:"
    _, beside = cycles_of_ctas(path.format(0), loads, block=1, chip=slow)
    _, alone = cycles_of_ctas(path.format(0), loads, block=1, chip=str(H200))
    assert beside - alone > 100


STORE = "st.global.u32 [%rd1+256], %r1;"
L2_TAKES = 2500  # cycles of a sector at SLOWLY
SLOWLY = {"l2_store_rate": 32 / L2_TAKES, "store_line_bytes": 0, "l2_store_line_bytes": 0, "store_part_bytes": 32}


def test_a_fence_waits_until_l2_has_taken_the_stores_before_it(chip):
    took = span(STORE, STORE.replace("256", "512"), FENCE, chip=chip(**SLOWLY), block=1)
    assert took == pytest.approx(L2_TAKES + CHIP["store_answered"], abs=100)  # the second one's turn, and its answer


@pytest.mark.parametrize("line", [0, 64])
def test_l2_takes_a_line_of_a_store_by_bytes_of_its_own(chip, line: int):
    """L2 counts l2_store_line_bytes on top of the bytes of the partly written sector."""
    path = chip(**{**SLOWLY, "store_line_bytes": 1, "l2_store_line_bytes": line})
    took = span(STORE, STORE.replace("256", "512"), FENCE, chip=path, block=1)
    assert took == pytest.approx(L2_TAKES * (32 + line) / 32 + CHIP["store_answered"], abs=100)


def test_a_fence_does_not_wait_for_stores_that_another_warp_makes_later(chip):
    takes = 3000
    stores = "".join(STORE.replace("256", place).replace("%r1", "%r6") for place in ("256", "512", "1024"))
    late = "mul.lo.u32 %r6, %r9, %r9;" * 150 + "mov.u32 %r6, 7;" + stores  # all lanes store the same value
    path = f"mov.u32 %r9, %tid.x; setp.lt.u32 %p8, %r9, 32; @%p8 bra FIRST; {late} bra OVER; FIRST: {FENCE} OVER:"
    assert span(path, chip=chip(fence_gpu=takes, **SLOWLY), block=64) == pytest.approx(takes, abs=100)


def test_a_named_barrier_waits_for_the_warps_stores_to_shared_memory(chip):
    interval = 500
    options = {"registers": SHARED, "chip": chip(shared_store_interval=interval), "block": 1}
    assert span(STORE_HERE, **options) < 200
    assert interval < span(STORE_HERE, "bar.sync 0;", **options) < interval + 100


def test_the_report_counts_the_time_of_l2_for_stores_once(chip, tmp_path):
    stores = "".join(f"st.global.u32 [%rd1+{256 + 512 * i}], %r1;" for i in range(8))
    sim = Sim(body("ld.param.u64 %rd1, [p];", stores), chip=chip(**SLOWLY))
    assert sim.launch("k", sim.buffer(np.zeros(1 << 10, np.uint64)), block=1) == 0
    busy = report(sim, tmp_path)["busy"]["L2"]
    assert busy[0] == pytest.approx(8 * L2_TAKES / sim.time.kernel_cycles, rel=0.02)
