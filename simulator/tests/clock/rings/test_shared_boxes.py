"""Simulated time of boxes that several SMs copy at once, and of rows past a tensor's end."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np
import pytest

from simulator.tests.clock.clock_kit import H200, INIT
from simulator.tests.sim_kit import Sim, body

UINT8, WIDTH, HEIGHT, BOXES, CTAS = 0, 128, 64, 1, 4
SIZE = WIDTH * HEIGHT
SLOW = 16  # bytes a cycle of L2, so that it binds


def slow(folder: Path, ctas: int, without: str = "", **more: float) -> str:
    """The H200 with few SMs, a small L2 and other parameter values."""
    chip = json.loads(H200.read_text())
    few = {"sms": ctas, "processing_cluster_sms": ctas, "l2_box_rate": SLOW, "l2_bytes": 1 << 20, **more}
    for name, value in few.items():
        chip["parameters"][name]["value"] = value
    chip["parameters"].pop(without, None)
    path = folder / "slow.json"
    path.write_text(json.dumps(chip))
    return str(path)


@pytest.fixture(scope="module")
def slow_l2(tmp_path_factory):
    return slow(tmp_path_factory.mktemp("chip"), CTAS)


def boxes(chip: str, laps: int, step: int, rows: int, ctas: int, later: int = 0, count: int = BOXES) -> int:
    """Cycles of a kernel in which each CTA copies boxes that begin `step` rows after those of the previous CTA, of a
    tensor with so many rows. CTA i starts its laps `later` additions after CTA i + 1."""
    word = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
    delay = f"mov.u32 %r9, %ctaid.x; mov.u32 %r10, %nctaid.x; sub.u32 %r9, %r10, %r9; mul.lo.u32 %r9, %r9, {later};"
    delay += "{WLAP: setp.eq.u32 %p3, %r9, 0; @%p3 bra XLAP; sub.u32 %r9, %r9, 1; bra WLAP; XLAP:}"
    text = "".join(
        (delay.replace("LAP", str(lap)) if later else "")
        + f"mbarrier.arrive.expect_tx.shared.b64 _, [%r3], {count * SIZE};"
        + "".join(f"{word} [%r2+{i * SIZE}], [%rd9, {{%r6, %r7}}], [%r3];" for i in range(count))
        + f"{{V{lap}: mbarrier.try_wait.parity.shared.b64 %p2, [%r3], {lap % 2}; @!%p2 bra V{lap};}}"
        for lap in range(laps)
    )
    start = "mov.b64 %rd9, map; cvta.param.u64 %rd9, %rd9; mov.u32 %r6, 0; mov.u32 %r7, %ctaid.x;"
    start += f" mul.lo.u32 %r7, %r7, {step};"
    room = f".shared .align 128 .b8 tile[{count * SIZE}]; .shared .align 8 .b64 full;"
    sim = Sim(body(start, INIT, text, registers=room, params=".param .align 64 .b8 map[128]"), chip=chip)
    memory = sim.buffer(np.zeros((CTAS * HEIGHT, WIDTH), np.uint8))
    image = sim.tensor_map(memory, UINT8, [WIDTH, HEIGHT], sizes=[WIDTH, rows])
    assert sim.launch("k", image, grid=ctas, block=1) == 0, sim.findings
    assert sim.verdict == "clean", sim.findings
    return sim.time.kernel_cycles


def test_sms_that_ask_for_a_box_at_a_time_are_one_to_l2(slow_l2):
    def lap(step: int, rows: int = CTAS * HEIGHT, ctas: int = CTAS) -> float:
        return (boxes(slow_l2, 4, step, rows, ctas) - boxes(slow_l2, 2, step, rows, ctas)) / 2

    own = BOXES * SIZE / SLOW
    assert lap(HEIGHT) == pytest.approx(CTAS * own, rel=0.05), "each its own"
    assert own < lap(0, ctas=1) < 2 * own, "its parts wait for each other, beside the copy's own latency"
    assert own < lap(0) < 4 * own, "all the same: one takes L2's time, and the others wait for it"


@pytest.mark.parametrize(("pair", "deliveries"), [(False, 2), (True, 1)])
def test_sms_of_a_tpc_take_a_box_together_and_others_once_more(tmp_path, pair: bool, deliveries: int):
    """Two SMs, of one TPC or of two, copy the same box. Delivery to a second TPC is as slow as the first is fast."""
    cycles = 8000
    chip = slow(tmp_path, CTAS, l2_box_rate=4096, l2_shared_rate=SIZE / cycles, l2_shared_for=4 * cycles)
    more = boxes(chip, 1, 0, HEIGHT, 2 if pair else 3) - boxes(chip, 1, 0, HEIGHT, 1)
    assert more == pytest.approx((deliveries - 1) * cycles * 7 / 8, abs=400), "but for the last of its eight parts"


def test_a_multicast_copy_leaves_l2_once_for_each_tpc(tmp_path):
    """CTA 0 of a cluster copies 4 KB to all its CTAs: two SMs of one TPC, or four of two."""
    size, cycles = 4096, 8000
    chip = slow(tmp_path, CTAS, l2_shared_rate=size / cycles)

    def taken(ctas: int) -> int:
        word = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
        text = body(
            "ld.param.u64 %rd5, [q];", INIT, "mov.u32 %r7, %ctaid.x; setp.ne.u32 %p1, %r7, 0;"
            f"mbarrier.arrive.expect_tx.shared.b64 _, [%r3], {size};"
            "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; { .reg .b16 %m;"
            f"mov.b16 %m, {(1 << ctas) - 1}; @!%p1 {word} [%r2], [%rd5], {size}, [%r3], %m; }}"
            "{V: mbarrier.try_wait.parity.shared.b64 %p2, [%r3], 0; @!%p2 bra V;}"
            "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
            registers=f".shared .align 128 .b8 tile[{size}]; .shared .align 8 .b64 full;", params=".param .u64 q",
        )  # fmt: skip
        sim = Sim(text, chip=chip)
        assert sim.launch("k", sim.buffer(np.zeros(size, np.uint8)), grid=ctas, block=1, cluster=ctas) == 0
        assert sim.verdict == "clean", sim.findings
        return sim.time.kernel_cycles

    assert taken(4) - taken(2) == pytest.approx(cycles * 7 / 8, abs=600), "but for the last of its eight parts"


def test_without_sharing_each_sm_gets_its_box_in_any_order(tmp_path):
    chip = slow(tmp_path, CTAS, without="l2_shared_for")
    for later in (0, 2):
        taken = boxes(chip, 4, 0, CTAS * HEIGHT, CTAS, later) - boxes(chip, 2, 0, CTAS * HEIGHT, CTAS, later)
        assert taken / 2 == pytest.approx(CTAS * BOXES * SIZE / SLOW, rel=0.05)


def test_boxes_have_a_rate_of_hbm_of_their_own(tmp_path):
    """HBM delivers a box of 8 KB at a byte a cycle; blocks have another rate."""
    took = [
        boxes(slow(tmp_path, 1, l2_box_rate=4096, hbm_rate=4096, hbm_box_rate=rate), 1, 0, HEIGHT, 1)
        for rate in (4096, 1)
    ]
    assert took[1] - took[0] > 0.8 * SIZE
