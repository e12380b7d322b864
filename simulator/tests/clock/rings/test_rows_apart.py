"""Simulated time of boxes whose rows lie far apart in memory, with and without prefetches."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.tests.clock.clock_kit import CHIP, INIT
from simulator.tests.sim_kit import Sim, body

UINT8, WIDTH, ROWS, APART = 0, 64, 64, 2048
LONG = 3000  # additions: prefetches are over
WORD = "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"


def box_cycles(chip: str, pitch: int, ahead: bool = False) -> int:
    """Cycles of a kernel that copies one box with rows `apart` bytes from each other, from HBM or after prefetches."""
    prefetches = "".join(f"prefetch.global.L2 [%rd5+{i * pitch}];" for i in range(ROWS)) if ahead else ""
    text = (
        f"ld.param.u64 %rd5, [p];{prefetches} mov.u32 %r9, {LONG};"
        "WAIT: sub.u32 %r9, %r9, 1; setp.ne.u32 %p3, %r9, 0; @%p3 bra WAIT;"
        f"mbarrier.arrive.expect_tx.shared.b64 _, [%r3], {ROWS * WIDTH};"
        f"{WORD} [%r2], [%rd9, {{%r6, %r6}}], [%r3];"
        "DONE: mbarrier.try_wait.parity.shared.b64 %p2, [%r3], 0; @!%p2 bra DONE;"
    )
    start = "mov.b64 %rd9, map; cvta.param.u64 %rd9, %rd9; mov.u32 %r6, 0;"
    room = f".shared .align 128 .b8 tile[{ROWS * WIDTH}]; .shared .align 8 .b64 full;"
    params = ".param .u64 p, .param .align 64 .b8 map[128]"
    sim = Sim(body(start, INIT, text, registers=room, params=params), chip=chip)
    memory = sim.buffer(np.zeros(ROWS * APART, np.uint8))
    image = sim.tensor_map(memory, UINT8, [WIDTH, ROWS], sizes=[WIDTH, ROWS], strides=[pitch])
    assert sim.launch("k", memory, image, block=1) == 0, sim.findings
    return sim.time.kernel_cycles


def test_rows_that_lie_apart_come_from_hbm_as_a_warps_loads_of_them_do(chip):
    latency, rows = dict(CHIP["copy_latency_hbm"]), dict(CHIP["rows_latency_hbm"])[ROWS]
    half_line = np.interp(WIDTH, sorted(latency), [latency[bytes] for bytes in sorted(latency)])
    more = half_line + rows - latency[ROWS * WIDTH]
    assert box_cycles(chip(), APART) - box_cycles(chip(), WIDTH) == pytest.approx(more, abs=4)


def test_of_several_lines_that_l2_has_ahead_the_last_is_later_than_one_alone(chip):
    rows = CHIP["l2_prefetched_rows"]
    assert box_cycles(chip(), APART, ahead=True) - box_cycles(chip(l2_prefetched_rows=0), APART, ahead=True) == rows
