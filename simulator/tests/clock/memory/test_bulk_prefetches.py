"""Simulated time of bulk prefetches, and how wrong ones are reported."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.tests.clock.clock_kit import CHIP, END, SPIN, START
from simulator.tests.sim_kit import PtxError, Sim, body

ASK = "cp.async.bulk.prefetch.L2.global [%rd9], {0};"
LOAD = "mov.u64 %rd2, %clock64; ld.global.cg.u32 %r2, [%rd9+{0}]; add.u32 %r3, %r2, %r2;"


def cycles(*lines: str, chip: str = "h200", block: int = 1) -> int:
    """Cycles from START, or from the last clock that the lines read, to END. %rd9: memory that is not in L2."""
    text = body("ld.param.u64 %rd9, [q];", START, *lines, END, params=".param .u64 p, .param .u64 q")
    sim = Sim(text, chip=chip)
    out = sim.buffer(np.zeros(64, np.uint64))
    assert sim.launch("k", out, sim.buffer(np.zeros(1 << 16, np.uint8)), block=block) == 0, sim.findings
    return int(out[0])


@pytest.mark.parametrize(("bytes_", "at", "comes"), [(256, 128, True), (256, 256, False), (16, 64, True)])
def test_a_bulk_prefetch_brings_its_lines_to_l2_and_no_others(chip, bytes_: int, at: int, comes: bool):
    far, asked = cycles(SPIN, LOAD.format(at)), cycles(ASK.format(bytes_), SPIN, LOAD.format(at))
    assert far - asked == (pytest.approx(CHIP["hbm_latency"] - CHIP["l2_prefetched"], abs=2) if comes else 0)


def test_what_a_bulk_prefetch_asks_of_memory_takes_its_turn_there(chip):
    """64 KB at a byte a cycle; a load of another line waits until they have come."""
    slow = chip(hbm_rate=1, hbm_warp_rate=1)
    whole = ASK.format(32768)
    other = "ld.global.cg.u32 %r2, [%rd9+49152]; add.u32 %r3, %r2, %r2;"
    assert cycles(whole, other, chip=slow) - cycles(other, chip=slow) > 0.9 * 32768


UINT8, WIDTH, ROWS, PITCH = 0, 128, 8, 4096
BOX = "cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%rd8, {%r6, %r7}];"


def box_run(*lines: str, row: int, map_bytes: np.ndarray | None = None) -> Sim:
    """%r6 and %r7: where the box begins in a tensor with twice as many rows."""
    start = f"mov.b64 %rd8, map; cvta.param.u64 %rd8, %rd8; mov.u32 %r6, 0; mov.u32 %r7, {row}; ld.param.u64 %rd9, [q];"
    params = ".param .u64 p, .param .u64 q, .param .align 64 .b8 map[128]"
    sim = Sim(body(start, START, *lines, END, params=params), chip="h200")
    out, memory = sim.buffer(np.zeros(64, np.uint64)), sim.buffer(np.zeros(2 * ROWS * PITCH, np.uint8))
    image = sim.tensor_map(memory, UINT8, [WIDTH, ROWS], sizes=[WIDTH, 2 * ROWS], strides=[PITCH])
    sim.status = sim.launch("k", out, memory, image if map_bytes is None else map_bytes, block=1)
    sim.counted = int(out[0])
    return sim


@pytest.mark.parametrize(("row", "sooner"), [(0, True), (ROWS - 1, True), (ROWS, False)])
def test_a_prefetch_of_a_box_brings_its_rows_and_no_others(row: int, sooner: bool):
    load = LOAD.format(row * PITCH)
    far, asked = (box_run(*lines, SPIN, load, row=0).counted for lines in ((), (BOX,)))
    assert far - asked == (pytest.approx(CHIP["hbm_latency"] - CHIP["l2_prefetched"], abs=2) if sooner else 0)


def test_rows_of_a_box_past_the_tensors_end_are_asked_of_nothing():
    last = box_run(BOX, SPIN, LOAD.format((2 * ROWS - 1) * PITCH), row=2 * ROWS - 1)
    assert last.status == 0 and last.counted < CHIP["hbm_latency"]


def test_a_prefetch_without_a_valid_map_is_reported():
    sim = box_run(BOX, row=0, map_bytes=np.ones(128, np.uint8))
    assert sim.status != 0 and "there is no tensor map" in str(sim.findings)


@pytest.mark.parametrize(
    "form",
    [
        "cp.async.bulk.prefetch.L2 [%rd9], 16;",
        "cp.async.bulk.prefetch.global [%rd9], 16;",
        "cp.async.bulk.prefetch.L2.global [%rd9];",
        "cp.async.bulk.prefetch.tensor.2d.global.tile [%rd9, {%r6, %r6}];",
        "cp.async.bulk.prefetch.tensor.2d.L2.global.tile [%rd9, {%r6}];",
        "cp.async.bulk.prefetch.tensor.L2.global.tile [%rd9, {%r6}];",
    ],
)
def test_a_form_that_is_none_is_refused(form: str):
    with pytest.raises(PtxError):
        Sim(body(form)).launch("k", block=1)


@pytest.mark.parametrize("size", [8, 24])
def test_a_bulk_prefetch_of_a_wrong_size_is_reported(size: int):
    sim = Sim(body("ld.param.u64 %rd9, [p];", ASK.format(size)))
    assert sim.launch("k", sim.buffer(np.zeros(64, np.uint8)), block=1) != 0
    assert f"a bulk prefetch of {size} bytes; expected a multiple of 16" in str(sim.findings)


@pytest.mark.parametrize("size", [0, 1 << 20])
def test_a_bulk_prefetch_may_be_of_nothing_and_of_more_than_shared_memory_holds(size: int):
    sim = Sim(body("ld.param.u64 %rd9, [p];", ASK.format(size)))
    assert sim.launch("k", sim.buffer(np.zeros(1 << 20, np.uint8)), block=1) == 0
    assert sim.verdict == "clean", sim.findings


def test_a_misaligned_bulk_prefetch_is_reported():
    sim = Sim(body("ld.param.u64 %rd9, [p];", "cp.async.bulk.prefetch.L2.global [%rd9+8], 16;"))
    assert sim.launch("k", sim.buffer(np.zeros(64, np.uint8)), block=1) != 0
    assert "not aligned to 16 bytes" in str(sim.findings)
