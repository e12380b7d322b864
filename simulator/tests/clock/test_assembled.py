"""Simulated time of what ptxas merges or reorders, and of clusters that start in the first free place."""

from __future__ import annotations

import json

import numpy as np
import pytest

from simulator.tests.clock.clock_kit import CHIP, H200, span
from simulator.tests.clock.test_work_at_once import MMA, ROOM, SUMS, B
from simulator.tests.sim_kit import Sim, body

COUNT = 60
NAMES = ROOM + " .reg .b32 %x<200>, %y<200>, %z<200>; .reg .pred %q<200>, %w<200>;"


def work(line: str) -> str:
    """The line once for each of a number of registers, as nvcc writes it."""
    return "".join(line.replace("#", str(i)) for i in range(COUNT))


def cycles(line: str) -> float:
    """Cycles of one such line among others like it."""
    return (span(work(line), registers=NAMES) - span("", registers=NAMES)) / COUNT


def test_two_logic_operations_become_one_unless_the_first_is_used_again():
    one = cycles("or.b32 %y#, %r1, %r2;")
    assert one == pytest.approx(CHIP["alu_interval"], rel=0.1)
    assert cycles("and.b32 %x#, %r1, 14; or.b32 %y#, %r2, %x#;") == pytest.approx(one, rel=0.1)
    again = "and.b32 %x#, %r1, 14; or.b32 %y#, %r2, %x#; prmt.b32 %z#, %x#, %x#, %r2;"
    assert cycles(again) == pytest.approx(3 * one, rel=0.1)
    three = "and.b32 %x#, %r1, 14; or.b32 %z#, %r2, %x#; xor.b32 %y#, %z#, %r3;"  # has four inputs
    assert cycles(three) == pytest.approx(2 * one, rel=0.1)


def test_operations_that_a_short_branch_leaves_out_are_not_put_together():
    """Each of three operations with a predicate stays alone, wherever among them it stands."""
    skip = "@%p1 bra S#; {0} S#:"
    logic = "and.b32 %x#, %r1, 14; or.b32 %y#, %r2, %x#;"
    apart = "prmt.b32 %x#, %r1, 14, %r3; prmt.b32 %y#, %r2, %x#, %r3;"
    for before in ("", "prmt.b32 %z#, %r1, %r2, %r3;"):
        both, each = (cycles(skip.format(before + line)) for line in (logic, apart))
        assert both == pytest.approx(each, rel=0.05)


def test_every_kernel_of_a_module_is_assembled():
    text = body(work("and.b32 %x#, %r1, 14; or.b32 %y#, %r2, %x#;"), registers=NAMES)
    twice = text + text[text.index(".visible") :].replace(" k(", " k2(")
    times = []
    for name in ("k", "k2"):
        sim = Sim(twice, chip="h200")
        assert sim.launch(name, sim.buffer(np.zeros(1, np.uint64)), block=32) == 0
        times.append(sim.time.kernel_cycles)
    assert times[0] == times[1]


def test_what_is_known_and_a_flag_that_was_a_number_cost_nothing():
    assert cycles("mov.u32 %x#, 3; add.u32 %y#, %x#, 4; setp.ne.u32 %q#, %y#, 0;") == 0
    flag = cycles("setp.ne.u32 %w#, %r1, %r2;")
    assert flag == pytest.approx(CHIP["alu_interval"], rel=0.1)  # the second predicate, which is none, holds up none
    there = "setp.ne.u32 %w#, %r1, %r2; selp.u32 %x#, 1, 0, %w#; setp.eq.u32 %q#, %x#, 0;"
    assert cycles(there) == pytest.approx(flag, rel=0.1)
    chosen = "setp.ne.u32 %w#, %r1, %r2; selp.u32 %x#, 1, %r1, %w#; setp.eq.u32 %q#, %x#, 0;"
    assert cycles(chosen) == pytest.approx(3 * flag, rel=0.1)


def after_a_group(line: str, fragment: str) -> int:
    """Cycles of two groups of MMAs with work between them."""
    mma = MMA % (SUMS, "{%r6, %r7, %r8, %r9}", "0")
    other = MMA % (SUMS, "{" + fragment + ", %r7, %r8, %r9}", "0")
    group = "wgmma.fence.sync.aligned;" + "%s" * 4 + "wgmma.commit_group.sync.aligned;"
    text = (
        "bar.sync 0; mov.u64 %rd2, %clock64;",
        group % (mma, mma, mma, mma) + "wgmma.wait_group.sync.aligned 1;" + work(line),
        group % (other, mma, mma, mma) + "mov.u64 %rd3, %clock64; sub.u64 %rd4, %rd3, %rd2;",
        "wgmma.wait_group.sync.aligned 0; st.global.u64 [%rd1], %rd4;",
    )
    zero = "mov.b32 %r6, 0; mov.b32 %r7, 0; mov.b32 %r8, 0; mov.b32 %r9, 0; mov.b32 %z0, 0;"
    start = "ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; shf.l.wrap.b32 %z1, %r1, %r1, 3;"
    sim = Sim(body(start, zero, B, *text, registers=NAMES), chip="h200")
    out = sim.buffer(np.zeros(1 << 10, np.uint64))
    assert sim.launch("k", out, block=128) == 0, sim.findings
    return int(out[0])


def test_work_that_leaves_a_pending_mmas_registers_alone_is_done_beside_it():
    none = after_a_group("", "%r6")
    beside = after_a_group("shf.l.wrap.b32 %x#, %z1, %r1, 3;", "%r6")
    held = 3 * 64 * CHIP["wgmma_column"]  # issue that the first group's MMAs hold
    assert COUNT * CHIP["alu_interval"] > held
    assert beside - none == pytest.approx(COUNT * CHIP["alu_interval"] - 64 * CHIP["wgmma_column"], abs=24)
    for own in ("shf.l.wrap.b32 %x#, %r6, %r1, 3;", "shf.l.wrap.b32 %r6, %r6, %r1, 3;"):  # reads %r6, an MMA's operand
        assert after_a_group(own, "%r6") - none > COUNT * CHIP["alu_interval"] - 24


def test_clusters_start_where_a_place_is_free_first(tmp_path):
    chip = json.loads(H200.read_text())
    sms, ctas, least = 16, 384, 2000
    chip["parameters"]["sms"]["value"] = sms
    chip["parameters"]["processing_cluster_sms"]["value"] = 1
    path = tmp_path / "few.json"
    path.write_text(json.dumps(chip))
    spin = (
        "mov.u32 %r2, %ctaid.x; mul.lo.u32 %r3, %r2, 1103515245; shr.u32 %r3, %r3, 20; add.u32 %r3, %r3, LEAST;"
        "cvt.u64.u32 %rd7, %r3; mov.u64 %rd5, %clock64; {L: mov.u64 %rd6, %clock64; sub.u64 %rd6, %rd6, %rd5;"
        "setp.lt.u64 %p1, %rd6, %rd7; @%p1 bra L;}"
    ).replace("LEAST", str(least))
    sim = Sim(body("ld.param.u64 %rd1, [p];", spin), chip=str(path))
    assert sim.launch("k", sim.buffer(np.zeros(4, np.uint64)), grid=ctas, block=256) == 0, sim.findings
    # Eight of an SM's at a time, of 2000 to 6095 cycles each.
    life = least + 4096 / 2 + CHIP["cta_start"] + CHIP["cta_end"]
    assert sim.time.kernel_cycles < ctas / sms * life / 8 + least + 4095
