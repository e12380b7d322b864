"""Simulated memory: how much comes from HBM with an access, in what order, and what waits for it."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.tests.clock.clock_kit import BARRIER, CHIP, END, FOUR, INIT, PRODUCT, START, copy, more
from simulator.tests.sim_kit import Sim, body

PARAMETERS = ".param .u64 p, .param .u64 q"
MISS = CHIP["hbm_latency"] - CHIP["l2_latency"]
TILE = ".shared .align 128 .b8 tile[8192];"
LOAD = "ld.global.cg.u32 %r4, [%rd5+{at}]; xor.b32 %r5, %r4, %r5; cvt.u64.u32 %rd6, %r5; add.u64 %rd5, %rd5, %rd6;"
COPY = "cp.async.cg.shared.global{hint} [%r2], [%rd5+{at}], 16; cp.async.commit_group; cp.async.wait_group 0;"
LANES = "mul.wide.u32 %rd8, %r1, {apart}; add.u64 %rd5, %rd5, %rd8;"


def cycles(text: str, before: str = "", chip: str = "h200", threads: int = 1, registers: str = TILE) -> int:
    """Cycles of `text` in a kernel of one CTA. %rd5 points at zeros that no thread has accessed."""
    lines = "ld.param.u64 %rd5, [q]; mov.u32 %r2, tile; mov.u32 %r5, 0;", START, before, "mov.u64 %rd2, %clock64;"
    sim = Sim(body(*lines, text, END, registers=registers, params=PARAMETERS), chip=chip)
    out = sim.buffer(np.zeros(4, np.uint64))
    assert sim.launch("k", out, sim.buffer(np.zeros(1 << 19, np.uint8)), block=threads) == 0, sim.findings
    assert sim.verdict == "clean", sim.findings
    return int(out[0])


def second(one: str, at: int) -> int:
    """Cycles of an access to other bytes of a line after the line's first access."""
    first = one.replace("{at}", "0")
    return cycles(first + one.replace("{at}", str(at))) - cycles(first)


@pytest.mark.parametrize("one", [LOAD, COPY.replace("{hint}", "")], ids=["ld", "cp.async"])
def test_half_a_line_comes_from_memory_where_nothing_more_is_asked_for(one: str):
    assert second(one, 64) - second(one, 32) == pytest.approx(MISS, abs=2)
    assert second(one, 64) == pytest.approx(second(one, 1024), abs=2)


@pytest.mark.parametrize(("hint", "block"), [(".L2::64B", 64), (".L2::128B", 128), (".L2::256B", 256)])
def test_a_hint_brings_a_block_from_memory(hint: str, block: int):
    one = COPY.replace("{hint}", hint)
    assert second(one, block) - second(one, block // 2 + 16) == pytest.approx(MISS, abs=100)
    assert second(one, 16) == pytest.approx(second(one, 32), abs=2)


def test_the_other_line_of_a_block_is_where_a_prefetch_would_have_brought_it():
    one = COPY.replace("{hint}", ".L2::256B")
    spun = "{ .reg .u64 %a, %b; mov.u64 %a, %clock64; S{n}: mov.u64 %b, %clock64; sub.u64 %b, %b, %a;"
    spin = spun + "setp.lt.u64 %p1, %b, 4000; @%p1 bra S{n}; }"
    first = one.replace("{at}", "0") + spin.replace("{n}", "1")
    there = [cycles(first + one.replace("{at}", str(at))) for at in (64, 128)]
    assert there[1] - there[0] == pytest.approx(CHIP["l2_prefetched"] - CHIP["l2_latency"], abs=2)


def test_a_load_of_rows_far_apart_takes_longer_from_l2_and_from_memory():
    def load(apart: int, again: bool) -> int:
        address = LANES.replace("{apart}", str(apart))
        first = LOAD.replace("{at}", "0")
        return cycles(first, address + (first if again else ""), threads=32)

    far, near = dict(CHIP["rows_latency_hbm"])[32], dict(CHIP["rows_latency_l2"])[32]
    assert load(2048, again=False) - load(4, again=False) == pytest.approx(far, rel=0.2)
    assert load(2048, again=True) - load(4, again=True) == pytest.approx(near, rel=0.2)


@pytest.mark.parametrize("apart", [16, 128])
@pytest.mark.parametrize(("hint", "latency"), [("", "l1_latency"), (".cg", "l2_latency")])
def test_an_sm_takes_a_cycle_for_each_line_of_a_load(apart: int, hint: str, latency: str):
    """8 warps load from L1 or from L2; their 32 lanes load 16 bytes each, in four lines or in one line each."""
    lanes = LANES.format(apart=apart)
    bring = "ld.global.v4.u32 {%r6, %r7, %r8, %r9}, [%rd5]; xor.b32 %r5, %r6, %r9; bar.sync 0;"
    load = f"ld.global{hint}.v4.u32 {{{{%r{{0}}, %r{{1}}, %r{{2}}, %r{{3}}}}}}, [%rd5];"
    loads = "".join(load.format(*range(i, i + 4)) for i in range(10, 42, 4))
    use = "xor.b32 %r5, %r41, %r10; bar.sync 0;"
    took = cycles(loads + use, before=lanes + bring, threads=256)
    lines = 8 * 8 * apart * 32 // 128  # 8 warps with 8 loads each
    if apart == 128:
        assert took == pytest.approx(lines * CHIP["load_line"] + CHIP[latency], rel=0.1)
    else:
        assert lines * CHIP["load_line"] <= took < 1000


def test_a_launch_begins_without_the_lines_of_the_one_that_it_overlaps(chip):
    """On one SM, the first of two launches loads lines until long after the second has begun."""
    text = body(
        "ld.param.u64 %rd1, [p]; ld.param.u64 %rd5, [q]; mov.u32 %r1, %tid.x; griddepcontrol.launch_dependents;",
        "ld.param.u64 %rd7, [r]; setp.eq.u64 %p1, %rd7, 0;", LANES.format(apart=128), "@%p1 bra ONE;",
        "ld.global.v4.u32 {%r6, %r7, %r8, %r9}, [%rd5];" * 900, "bra.uni OVER; ONE: mov.u64 %rd2, %clock64;",
        "ld.global.v4.u32 {%r6, %r7, %r8, %r9}, [%rd5]; xor.b32 %r5, %r6, %r9;", END, "OVER:",
        params=".param .u64 p, .param .u64 q, .param .u64 r",
    )  # fmt: skip
    took = []
    for first in (False, True):
        sim = Sim(text, chip=chip(sms=1, processing_cluster_sms=1))
        out, data = sim.buffer(np.zeros(4, np.uint64)), sim.buffer(np.zeros(1 << 14, np.uint8))
        if first:
            assert sim.launch("k", out, data, 1, block=32) == 0, sim.findings
        else:  # which brings the same lines to L2
            assert sim.launch("k", out, data, 0, block=32) == 0, sim.findings
        assert sim.launch("k", out, data, 0, block=32, dependent=first) == 0, sim.findings
        took.append(int(out[0]))
    assert took[1] <= took[0] + 50


def test_rows_of_any_pitch_fall_into_all_sets_of_l2(chip):
    """If these rows fell into a sixteenth of L2's sets, only 32 of the 64 lines would stay in L2."""
    path = chip(l2_bytes=65536)
    loads = "".join(LOAD.replace("{at}", str(2048 * 32 * i)) for i in range(2))
    address = LANES.replace("{apart}", "2048")
    again = cycles(loads, address + loads, chip=path, threads=32)
    assert again < cycles(loads, address, chip=path, threads=32) - MISS


def test_copies_of_several_sms_take_turns_at_memory(chip):
    """Four SMs start copies of 16 KB at once; even the first completes only when nearly all have arrived."""
    size, rate = 16384, 16
    lines = (
        "ld.param.u64 %rd5, [q]; mov.u32 %r4, %ctaid.x;", f"mul.wide.u32 %rd6, %r4, {size}; add.u64 %rd5, %rd5, %rd6;",
        INIT, START, copy(0, size, 0, 0), END,
    )  # fmt: skip

    def first(ctas: int) -> int:
        sim = Sim(body(*lines, registers=BARRIER, params=PARAMETERS), chip=chip(hbm_rate=rate, hbm_loaded=0))
        out = sim.buffer(np.zeros(4, np.uint64))
        assert sim.launch("k", out, sim.buffer(np.zeros(1 << 19, np.uint8)), grid=ctas, block=1) == 0, sim.findings
        return int(out[0])

    assert first(4) - first(1) > 0.7 * 3 * size / rate


ASK = (
    "mbarrier.arrive.expect_tx.shared.b64 _, [{b}], {size}; "
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd5+{at}], {size}, [{b}];"
)
WAIT = "{W{n}: mbarrier.try_wait.parity.shared.b64 %p2, [{b}], {parity}; @!%p2 bra W{n};}"


def said(text: str, **words: str | int) -> str:
    """The text with its placeholders filled in."""
    for word, value in words.items():
        text = text.replace("{" + word + "}", str(value))
    return text


def copied_again(chip: str, far: str, by_warp: str = "", sizes: tuple[int, ...] = (16384,)) -> int:
    """Cycles of a bulk copy (or of the warp's own load) of bytes that are in L2. The thread also starts copies from
    HBM, "before" it, "behind" it, or not at all."""
    near = said(ASK, b="%r3", at=0, size=1024)
    other = "".join(said(ASK, b="%r10", at=65536 * (1 + i), size=size) for i, size in enumerate(sizes))
    again = said(by_warp, at=0, hint="") or near
    lines = (
        "ld.param.u64 %rd5, [q]; mov.u32 %r5, 0;", INIT,
        f"add.u32 %r10, %r3, 8; mbarrier.init.shared.b64 [%r10], {len(sizes)};",
        START, near, said(WAIT, b="%r3", parity=0, n=0), other if far == "before" else "", "mov.u64 %rd2, %clock64;",
        again, other if far == "behind" else "", "" if by_warp else said(WAIT, b="%r3", parity=1, n=1), END,
        said(WAIT, b="%r10", parity=0, n=2) if far else "",
    )  # fmt: skip
    text = body(*lines, registers=BARRIER.replace("full;", "full[2];"), params=PARAMETERS)
    sim = Sim(text, chip=chip)
    out = sim.buffer(np.zeros(4, np.uint64))
    assert sim.launch("k", out, sim.buffer(np.zeros(1 << 19, np.uint8)), block=1) == 0, sim.findings
    return int(out[0])


def test_a_copy_of_what_l2_has_is_not_there_before_what_its_sm_has_asked_of_memory(chip):
    """The 16 KB from HBM take 1,024 cycles at its rate and 5,000 of latency."""
    slow = chip(hbm_rate=16, hbm_loaded=0, copy_latency_hbm=[[16, 5000], [65536, 5000]])
    assert copied_again(slow, "before") == pytest.approx(6024, abs=150)
    assert copied_again(slow, "behind") == pytest.approx(copied_again(slow, ""), abs=100)


def test_a_copy_of_what_l2_has_waits_for_the_latest_answer(chip):
    """16 KB have a latency of 5,000 cycles, and the 512 bytes after them one of 700."""
    slow = chip(hbm_rate=1600, hbm_loaded=0, copy_latency_hbm=[[16, 700], [512, 700], [16384, 5000]])
    both, one = (copied_again(slow, "before", sizes=sizes) for sizes in ((16384, 512), (16384,)))
    assert one - 250 < both <= one, "its thread asks for 512 bytes more before it asks for the copy"


def test_a_copy_of_what_l2_has_waits_for_lines_that_its_sm_did_not_ask_for_first(chip):
    """CTA 1 requests them about 200 cycles after CTA 0, to which they come after 5,000."""
    slow = chip(hbm_loaded=0, hbm_latency=5000, copy_latency_hbm=[[16, 5000], [65536, 5000]])
    near, other = said(ASK, b="%r3", at=0, size=1024), said(ASK, b="%r10", at=65536, size=1024)
    text = body(
        "ld.param.u64 %rd5, [q]; mov.u32 %r5, 0;", INIT, "add.u32 %r10, %r3, 8; mbarrier.init.shared.b64 [%r10], 1;",
        START, near, said(WAIT, b="%r3", parity=0, n=0),
        "mov.u32 %r20, %ctaid.x; setp.eq.u32 %p1, %r20, 0; @%p1 bra ASK;", "mul.lo.u32 %r9, %r9, %r9;" * 50, "ASK:",
        other, "mov.u64 %rd2, %clock64;", near, said(WAIT, b="%r3", parity=1, n=1),
        "mov.u64 %rd3, %clock64; sub.u64 %rd3, %rd3, %rd2; mul.wide.u32 %rd6, %r20, 8; add.u64 %rd1, %rd1, %rd6;",
        "st.global.u64 [%rd1], %rd3;", said(WAIT, b="%r10", parity=0, n=2),
        registers=BARRIER.replace("full;", "full[2];"), params=PARAMETERS,
    )  # fmt: skip
    sim = Sim(text, chip=slow)
    out = sim.buffer(np.zeros(4, np.uint64))
    assert sim.launch("k", out, sim.buffer(np.zeros(1 << 19, np.uint8)), block=1, grid=2) == 0, sim.findings
    asked_first, behind = out[:2].astype(int)
    assert asked_first == pytest.approx(5000, abs=150)
    assert behind == pytest.approx(5000 - 200, abs=150)


def test_a_chip_without_hits_behind_misses_has_the_copy_at_once(chip):
    slow = chip(l2_behind_own=0, l2_behind_misses=0, hbm_rate=16, hbm_loaded=0)
    way = 16384 / CHIP["sm_load_rate"]  # into its SM
    assert copied_again(slow, "before") - copied_again(slow, "") == pytest.approx(way, abs=20)


@pytest.mark.parametrize("one", [LOAD, COPY], ids=["ld", "cp.async"])
def test_a_hit_in_l2_waits_for_a_share_of_its_own_sms_misses_alone(chip, one: str):
    slow = chip(hbm_rate=16, hbm_loaded=0, copy_latency_hbm=[[16, 5000], [65536, 5000]])
    more = copied_again(slow, "before", by_warp=one) - copied_again(slow, "", by_warp=one)
    assert more == pytest.approx(CHIP["l2_behind_own"] * 1024, rel=0.25)


def test_nothing_else_is_issued_beside_mma_sync(chip):
    assert more(PRODUCT, (4, 12), block=32) == pytest.approx(CHIP["warp_mma_latency"], abs=1)
    both = PRODUCT.replace(FOUR, "{%f5, %f6, %f7, %f8}", 1) + "".join(
        f"add.u32 %r{i}, %r{i}, 1;" for i in range(10, 26)
    )
    free, held = (more(both, (4, 12), block=256, chip=chip(warp_mma_hold=hold)) for hold in (0, 6))
    assert 6 < held - free <= 2 * 6, "two warps a sub-partition, some of whose slots wait for others anyhow"
