"""Bulk stores compared with an H200's measurements, and the cost of one more copy, cp.async, MMA or launch by the chip
files."""

from __future__ import annotations

import json
from itertools import pairwise

import numpy as np
import pytest

from simulator.calibration import packed
from simulator.calibration.rows import CHIPS
from simulator.tests.clock.clock_kit import BARRIER, END, INIT, PRODUCT, SHARED, START, more
from simulator.tests.sim_kit import Sim, body

PARAMETERS = ".param .u64 p, .param .u64 q"


def changed(folder, chip: str, **values: float) -> str:
    """A chip file with other parameter values."""
    file = json.loads((CHIPS / f"{chip}.json").read_text())
    for name, value in values.items():
        file["parameters"][name]["value"] = value
    path = folder / f"{len(list(folder.iterdir()))}.json"
    path.write_text(json.dumps(file))
    return str(path)


def of_memory(*lines: str, registers: str, chip: str = "h200", block: int = 1) -> int:
    """Cycles of lines that access a megabyte at %rd5."""
    text = body("ld.param.u64 %rd5, [q];", *lines, END, registers=registers, params=PARAMETERS)
    sim = Sim(text, chip=chip)
    out = sim.buffer(np.zeros(64, np.uint64))
    assert sim.launch("k", out, sim.buffer(np.zeros(1 << 20, np.uint8)), block=block) == 0, sim.findings
    return int(out[0])


@pytest.mark.parametrize("until", ["read", "written"])
@pytest.mark.parametrize("size", [4096, 16384])
def test_a_bulk_store_is_read_and_written_as_on_a_card(until, size):
    store = f"cp.async.bulk.global.shared::cta.bulk_group [%rd5], [%r2], {size}; cp.async.bulk.commit_group;"
    wait = f"cp.async.bulk.wait_group{'.read' if until == 'read' else ''} 0;"

    def cycles(count: int) -> int:
        turns = (store + wait) * count
        return of_memory("mov.u32 %r2, tile;", START, turns, "cp.async.bulk.wait_group 0;", registers=SHARED)

    _, rows = packed.read("h200_micro")
    found = {(row["name"], row["parameters"]): float(row["value"]) for row in rows}
    card = found["left_unit_cycles", f"bytes={size};until={until};ctas=1"]
    assert (cycles(12) - cycles(4)) / 8 == pytest.approx(card, rel=0.06)


def test_a_bulk_store_counts_as_written_later_than_as_read(tmp_path):
    slow = changed(tmp_path, "h200", copy_store_latency=1000)
    store = "cp.async.bulk.global.shared::cta.bulk_group [%rd5], [%r2], 4096; cp.async.bulk.commit_group;"
    read, written = (
        of_memory("mov.u32 %r2, tile;", START, store, f"cp.async.bulk.wait_group{how} 0;", registers=SHARED, chip=slow)
        for how in (".read", "")
    )
    assert written - read == pytest.approx(1000, abs=8)


def test_small_copies_of_one_sm_follow_each_other_at_the_copy_engine(tmp_path):
    """Eight copies of 16 bytes, too small for memory's rates to matter."""

    def cycles(count: int, chip: str) -> int:
        copy = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd5], 16, [%r3];"
        asked = f"mbarrier.arrive.expect_tx.shared.b64 _, [%r3], {16 * count};" + copy * count
        wait = "{W: mbarrier.try_wait.parity.shared.b64 %p2, [%r3], 0; @!%p2 bra W;}"
        return of_memory(INIT, START, asked, wait, registers=BARRIER, chip=chip)

    chip = changed(tmp_path, "h200", copy_engine_interval=400)
    assert cycles(12, chip) - cycles(4, chip) == pytest.approx(8 * 400, abs=8)


@pytest.mark.parametrize("cached", [0, 50])
def test_a_copy_of_a_warp_through_l1_takes_longer_than_one_past_it(tmp_path, cached):
    chip = changed(tmp_path, "h200", async_copy_cached=cached, async_copy_line=20, memory_queue=0)
    place = "mov.u32 %r1, %tid.x; shl.b32 %r9, %r1, 4; mov.u32 %r2, tile; add.u32 %r2, %r2, %r9;"
    address = "cvt.u64.u32 %rd6, %r9; add.u64 %rd5, %rd5, %rd6;"

    def cycles(how: str, count: int) -> int:
        copies = f"cp.async.{how}.shared.global [%r2], [%rd5], 16;" * count
        done = "cp.async.commit_group; cp.async.wait_group 0;"
        return of_memory(START, place, address, copies, done, registers=SHARED, chip=chip, block=32)

    each = {how: (cycles(how, 20) - cycles(how, 4)) / 16 for how in ("ca", "cg")}
    assert each["cg"] == pytest.approx(4 * 20, rel=0.1)  # 32 lanes of 16 bytes lie in four lines
    assert each["ca"] == pytest.approx(4 * 20 + cached, rel=0.1)


def test_independent_warp_mmas_follow_each_other_at_the_tensor_core(tmp_path):
    """On the H200 an MMA also blocks issue, which hides its interval; without that block the interval shows."""
    chip = changed(tmp_path, "h200", warp_mma_interval=40, warp_mma_hold=0)
    zero = "".join(f"mov.b32 %r{i}, 0;" for i in (6, 7, 8, 9))
    sums = "".join(f".reg .f32 %s{i}_<4>;" for i in range(8))
    row = "{%f1, %f2, %f3, %f4}"
    lines = "".join(PRODUCT.replace(row, "{" + ", ".join(f"%s{i}_{j}" for j in range(4)) + "}") for i in range(8))
    took = more(lines, (2, 6), before=zero, registers=sums, block=32, chip=chip)
    assert took == pytest.approx(8 * 40, abs=1)


def test_the_host_asks_for_one_launch_after_another(tmp_path):
    """Short kernels begin as far apart as the host can launch them."""
    chip = changed(tmp_path, "h200", host_launch=50_000)
    sim = Sim(body("ld.param.u64 %rd1, [p]; mov.u64 %rd2, %clock64; st.global.u64 [%rd1], %rd2;"), chip=chip)
    begun = [sim.buffer(np.zeros(1, np.uint64)) for _ in range(3)]
    for out in begun:
        assert sim.launch("k", out, block=1) == 0
    assert [int(b[0]) - int(a[0]) for a, b in pairwise(begun)] == [50_000, 50_000]
