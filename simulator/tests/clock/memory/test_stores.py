"""Simulated time of stores: their order on the way out of an SM, and what they wait for while others load."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.tests.clock.clock_kit import CHIP, SHARED, span
from simulator.tests.clock.test_who_waits import cycles_of_ctas
from simulator.tests.sim_kit import Sim, body

FENCE = "fence.acq_rel.gpu;"
TURN = 1000  # cycles that a store takes on its way out, where it is slow
WHOLE = {"store_line_bytes": 0, "l2_store_line_bytes": 0, "store_part_bytes": 32}


def test_warps_take_turns_on_the_way_out_of_their_sm(chip):
    """Eight warps, two in each sub-partition, store eight times each; no warp finishes long before the others."""
    warps, stores, spin = 8, 8, "mul.lo.u32 %r4, %r4, %r4;" * 5
    text = body(
        "ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; mul.wide.u32 %rd5, %r2, 32;"
        "mov.u32 %r4, %r1;"
        "add.u64 %rd5, %rd5, %rd1; and.b32 %r3, %r1, 31; setp.eq.u32 %p1, %r3, 0; bar.sync 0; mov.u64 %rd2, %clock64;",
        *(f"{spin} @%p1 st.global.u32 [%rd5+{4096 * (1 + i)}], %r4;" for i in range(stores)),
        "mov.u64 %rd3, %clock64; sub.u64 %rd4, %rd3, %rd2; @%p1 st.global.u64 [%rd5], %rd4;",
    )
    sim = Sim(text, chip=chip(sm_store_rate=32 / TURN, **WHOLE))
    out = sim.buffer(np.zeros(1 << 13, np.uint64))
    assert sim.launch("k", out, block=32 * warps) == 0, sim.findings
    ends = out[: 4 * warps : 4].astype(int)
    assert max(ends) - min(ends) < 2 * warps * TURN, "none waits until another has stored all, half of the time"
    assert max(ends) == pytest.approx((warps * stores - 1) * TURN, rel=0.05)


@pytest.mark.parametrize("chain", [2, 6])
def test_warps_that_compute_between_their_stores_take_turns_too(chain: int):
    """Eight warps store 512 bytes sixteen times each, at the H200's rate; a warp whose turn comes late waits for the
    others."""
    warps, stores, turn = 8, 16, 512 / CHIP["sm_store_rate"]
    spin = "mul.lo.u32 %r4, %r4, %r4;" * chain
    text = body(
        "ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; mul.wide.u32 %rd5, %r1, 16;"
        "mov.u32 %r4, %r1; add.u64 %rd5, %rd5, %rd1; bar.sync 0; mov.u64 %rd2, %clock64;",
        *(f"{spin} st.global.v4.u32 [%rd5+{4096 * (1 + i)}], {{%r4, %r1, %r1, %r1}};" for i in range(stores)),
        "mov.u64 %rd3, %clock64; sub.u64 %rd4, %rd3, %rd2; mul.wide.u32 %rd6, %r2, 8; add.u64 %rd6, %rd6, %rd1;"
        "and.b32 %r3, %r1, 31; setp.eq.u32 %p1, %r3, 0; @%p1 st.global.u64 [%rd6], %rd4;",
    )
    sim = Sim(text, chip="h200")
    out = sim.buffer(np.zeros(1 << 14, np.uint64))
    assert sim.launch("k", out, block=32 * warps) == 0, sim.findings
    ends = out[:warps].astype(int)
    assert max(ends) - min(ends) < 2 * warps * turn


def test_a_store_to_shared_memory_takes_what_it_takes_of_a_wavefront(chip):
    interval = 300

    def cycles(**of: float) -> float:
        few, many = (
            span("mov.u32 %r2, tile; mov.u64 %rd2, %clock64;" + "st.shared.u32 [%r2], %r1;" * count,
                 registers=SHARED, block=1, chip=chip(**of)) for count in (40, 80)
        )  # fmt: skip
        return (many - few) / 40

    assert cycles(shared_store_interval=interval) == pytest.approx(interval, rel=0.02)
    assert cycles(shared_store_interval=interval, shared_interval=2 * interval) == pytest.approx(interval, rel=0.02)


def stored_beside_loads(chip: str, stores: int, *behind: str) -> int:
    """CTA 1 loads what takes L2 9,000 cycles. When at least 7,000 of them remain, CTA 0 stores to lines that it has
    stored to before. Returns the cycles of these stores and of the lines after them."""
    spin = "mul.lo.u32 %r6, %r6, %r6;"
    loads = "".join(f"ld.global.cg.u32 %r{2 + i}, [%rd5+{4096 + 4096 * i}];" for i in range(3))
    text = "".join(f"st.global.u32 [%rd5+{512 * i}], %r6;" for i in range(stores))
    path = (
        f"setp.eq.u32 %p1, %r20, 0; @%p1 bra STORES; mov.u32 %r6, %r20; {spin * 800} {loads}"
        "add.u32 %r2, %r2, %r4; bra OVER;"
        f"STORES: mov.u32 %r6, %r20; {text} {FENCE} {spin * 600} mov.u64 %rd7, %clock64; {text} {''.join(behind)} OVER:"
    )
    return cycles_of_ctas(path, block=1, chip=chip)[0]


SLOW_LOADS = {"l2_warp_rate": 32 / 3000, "l2_behind_misses": 0, "l2_store_behind_misses": 0}


@pytest.mark.parametrize("share", [0, 0.5])
def test_a_store_waits_behind_a_share_of_other_sms_requests(chip, share: float):
    slow = chip(l2_store_behind=share, **SLOW_LOADS)
    assert stored_beside_loads(slow, 8) < 600
    fenced = stored_beside_loads(slow, 8, FENCE) - CHIP["store_answered"]
    assert share * 7000 <= fenced < share * 9000 + 600


def test_what_a_store_waits_for_begins_when_it_has_left_its_sm(chip):
    """Eight stores, of which the last one leaves the SM 3,500 cycles after the first."""
    turn, share = 500, 0.5
    slow = {**SLOW_LOADS, **WHOLE, "sm_store_rate": 32 / turn, "store_queue": 8 * turn, "l2_store_behind": share}
    fenced = stored_beside_loads(chip(**slow), 8, FENCE) - CHIP["store_answered"]
    assert 7 * turn + share * 3000 < fenced < 7 * turn + share * 9000, "of 9,000 more than 3,000 are to come then"


def test_a_launch_begins_without_the_loads_of_the_one_that_it_overlaps(chip):
    """The first launch triggers and loads what takes L2 30,000 cycles; the second one stores meanwhile."""
    text = body(
        "ld.param.u64 %rd1, [p]; mov.u32 %r7, %ntid.x; griddepcontrol.launch_dependents;"
        "setp.eq.u32 %p4, %r7, 1; @%p4 bra ONCE;",
        *(f"ld.global.cg.u32 %r{2 + i}, [%rd1+{4096 + 4096 * i}];" for i in range(3)),
        "add.u32 %r2, %r2, %r4; bra END; ONCE: mov.u64 %rd2, %clock64; st.global.u64 [%rd1+64], %rd2;",
        FENCE,
        "mov.u64 %rd3, %clock64; sub.u64 %rd4, %rd3, %rd2; st.global.u64 [%rd1], %rd4; END:",
    )
    sim = Sim(text, chip=chip(l2_store_behind=1, l2_warp_rate=32 / 10000, hbm_latency=700))
    out = sim.buffer(np.zeros(1 << 11, np.uint64))
    for i, threads in enumerate([32, 1]):
        assert sim.launch("k", out, block=threads, dependent=i) == 0, sim.findings
    assert int(out[0]) < CHIP["store_answered"] + 600


def test_beside_loads_l2_takes_a_store_more_slowly(chip):
    takes, beside = 1000, 3
    slow = {**SLOW_LOADS, **WHOLE, "l2_store_behind": 0, "l2_store_rate": 32 / takes}
    longer, alone = (stored_beside_loads(chip(l2_store_beside=of, **slow), 3, FENCE) for of in (beside, 1))
    assert longer - alone == pytest.approx(2 * takes * (beside - 1), rel=0.1), "two stores' turns before the last one's"


@pytest.mark.parametrize("share", [0, 1])
def test_memory_answers_a_store_behind_a_share_of_what_others_have_asked_of_it(chip, share: int):
    """CTA 0 stores again to a line that it has, while CTA 1's reads from HBM need 2,000 to 4,000 more cycles."""
    turn, spin = 4000, "mul.lo.u32 %r6, %r6, %r6;"
    slow = chip(hbm_warp_rate=64 / turn, l2_store_behind_misses=share, l2_store_behind=0, l2_behind_own=0)
    store = f"st.global.u32 [%rd5], %r6; {FENCE}"
    load = f"mov.u32 %r6, %r20; {spin * 800} ld.global.cg.u32 %r2, [%rd5+8192]; bra OVER;"
    again = f"{spin * 600} mov.u64 %rd7, %clock64; {store}"
    path = f"setp.eq.u32 %p1, %r20, 0; @%p1 bra STORES; {load} STORES: mov.u32 %r6, %r20; {store} {again} OVER:"
    took = cycles_of_ctas(path, block=1, chip=slow)[0]
    assert share * turn / 2 < took - CHIP["store_answered"] < share * turn + 200
