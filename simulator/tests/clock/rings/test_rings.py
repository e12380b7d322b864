"""Simulated time of two things that a ring of copies needs: mbarrier tests, and boxes by the width of their rows."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.calibration.rows import parameters_of
from simulator.tests.clock.clock_kit import BARRIER, CHIP, END, INIT, START, copy
from simulator.tests.sim_kit import Sim, body

B200 = parameters_of("b200")
TRY = "mbarrier.try_wait.parity.shared.b64 %p2, [%r3], 0;"
MORE = "add.u32 %r8, %r8, %r8;" * 16  # so that a try in front is not one of the wait behind
BOXES, HEIGHT = 8, 64  # boxes of a launch, and rows of a box
UINT8 = 0


def cycles(*lines: str) -> int:
    """Cycles from START to END of a thread that has started a copy of 4 KB, which it waits for afterwards."""
    asked, waited = copy(0, 4096, 0, 0).split("{W0")
    text = body(
        "ld.param.u64 %rd5, [q];", INIT, asked, START, *lines, END, MORE, "{W0" + waited,
        registers=BARRIER, params=".param .u64 p, .param .u64 q",
    )  # fmt: skip
    sim = Sim(text, chip="h200")
    out = sim.buffer(np.zeros(4, np.uint64))
    assert sim.launch("k", out, sim.buffer(np.zeros(4096, np.uint8)), block=1) == 0, sim.findings
    return int(out[0])


def test_a_try_that_the_program_does_not_repeat_says_no_within_the_time_of_a_test():
    """CUTLASS's producers test the stage after the one that they are about to fill in this way."""
    arrival = dict(CHIP["copy_latency_hbm"])[4096]
    loop = cycles("{W: " + TRY + " @!%p2 bra W;}")
    rotated = cycles(TRY + " @%p2 bra OVER; {W: " + TRY + " @%p2 bra OVER; bra W;} OVER:")
    as_number = cycles("{W: " + TRY + " selp.u32 %r7, 1, 0, %p2; setp.eq.u32 %p3, %r7, 0; @%p3 bra W;}")
    for waited in (loop, rotated, as_number):
        assert waited > arrival - 2 * CHIP["tensor_copy_barrier_hold"]
    peek = cycles(TRY + " selp.u32 %r7, 1, 0, %p2; add.u32 %r8, %r7, %r7;")
    held = CHIP["copy_barrier_hold"]
    assert peek <= held + CHIP["mbarrier_test_latency"] + 20 < arrival / 2


def box_cycles(width: int) -> float:
    """Cycles of BOXES boxes in L2 with rows of `width` bytes, from the first one's issue to the last one's arrival."""
    size = width * HEIGHT
    issue = "".join(
        "cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
        f" [%r2+{i * size}], [%rd9, {{%r6, %r6}}], [%r3];"
        for i in range(BOXES)
    )
    lap = f"mbarrier.arrive.expect_tx.shared.b64 _, [%r3], {BOXES * size};" + issue
    wait = "{{V{0}: mbarrier.try_wait.parity.shared.b64 %p2, [%r3], {0}; @!%p2 bra V{0};}}"
    room = f".shared .align 128 .b8 tile[{BOXES * size}]; .shared .align 8 .b64 full;"
    text = body(
        "mov.b64 %rd9, map; cvta.param.u64 %rd9, %rd9; mov.u32 %r6, 0;", INIT, lap, wait.format(0),
        START, lap, wait.format(1), END,
        registers=room, params=".param .u64 p, .param .align 64 .b8 map[128]",
    )  # fmt: skip
    sim = Sim(text, chip="b200")
    out, memory = sim.buffer(np.zeros(4, np.uint64)), sim.buffer(np.zeros((HEIGHT, width), np.uint8))
    image = sim.tensor_map(memory, UINT8, [width, HEIGHT])
    assert sim.launch("k", out, image, block=1) == 0, sim.findings
    assert sim.verdict == "clean", sim.findings
    return int(out[0])


def test_a_narrow_row_of_a_box_takes_as_long_as_a_wide_one():
    rows = (BOXES - 1) * HEIGHT
    parts = {name: B200[name]["value"] for name in ("copy_row_interval", "sm_load_rate", "copy_latency_l2")}

    def expected(width: int) -> float:
        row = max(parts["copy_row_interval"], width / parts["sm_load_rate"])
        return rows * row

    narrow, wide, line = (box_cycles(width) for width in (16, 64, 128))
    assert expected(16) == expected(64) < expected(128)
    assert wide - narrow == pytest.approx(latency(64) - latency(16), abs=12)
    assert line - wide == pytest.approx(expected(128) - expected(64) + latency(128) - latency(64), abs=24)
    assert narrow > expected(16)


def latency(width: int) -> float:
    """Latency of a box in L2, interpolated between the points of the chip's file."""
    points = B200["copy_latency_l2"]["value"]
    return float(np.interp(width * HEIGHT, *zip(*points, strict=True)))
