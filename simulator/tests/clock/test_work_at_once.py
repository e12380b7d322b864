"""Simulated time of work that competes: MMAs that block issue, stores that wait on their way out, and kernels whose
shared memory does not fit beside others'. Expected times are worked out by hand."""

from __future__ import annotations

import json

import numpy as np
import pytest

from simulator.tests.clock.clock_kit import CHIP, DONE, H200, PRODUCT, SHARED, STAMP, span
from simulator.tests.sim_kit import Sim, body

SUMS = ", ".join(f"%sum{i}" for i in range(32))
B = (
    "mov.u32 %r2, tile; fence.proxy.async; bar.sync 0; shr.u32 %r5, %r2, 4; cvt.u64.u32 %rd5, %r5;"
    "or.b64 %rd5, %rd5, 0x0000000800080000; setp.ne.u32 %p1, 0, 0; st.global.u64 [%rd1+64], %rd5; bar.sync 0;"
    "mov.u64 %rd2, %clock64;"
)
MMA = "wgmma.mma_async.sync.aligned.m64n64k16.f32.f16.f16 {%s}, %s, %%rd5, %%p1, 1, 1, %s;"
REGISTERS = MMA % (SUMS, "{%r6, %r7, %r8, %r9}", "0")
FROM_SHARED = MMA % (SUMS, "%rd5", "0, 0")
ROOM = SHARED + " .reg .f32 %sum<32>;"
STEP = 64 * CHIP["wgmma_column"]


def group(mma: str, count: int, then: str = "") -> int:
    """Cycles of a group of MMAs and of the instructions after it, until these have issued."""
    text = (
        "wgmma.fence.sync.aligned;" + mma * count + "wgmma.commit_group.sync.aligned;" + then,
        "mov.u64 %rd3, %clock64; sub.u64 %rd4, %rd3, %rd2;",
        "wgmma.wait_group.sync.aligned 0; st.global.u64 [%rd1], %rd4;",
    )
    zero = "mov.b32 %r6, 0; mov.b32 %r7, 0; mov.b32 %r8, 0; mov.b32 %r9, 0;"
    sim = Sim(body("ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x;", zero, B, *text, registers=ROOM), chip="h200")
    out = sim.buffer(np.zeros(1 << 10, np.uint64))
    assert sim.launch("k", out, block=128) == 0, sim.findings
    return int(out[0])


def test_only_mmas_with_registers_hold_the_issue_until_each_has_begun():
    for count in (2, 4):
        held = group(REGISTERS, count) - group(REGISTERS, 1)
        assert held == pytest.approx((count - 1) * STEP, abs=count)
        assert group(FROM_SHARED, count) - group(FROM_SHARED, 1) <= count * CHIP["issue_interval"]
    work = "shf.l.wrap.b32 %r1, %r1, %r1, %r1;" * 20  # beside the last MMA: not at its end
    assert group(REGISTERS, 4, work) - group(REGISTERS, 4) == pytest.approx(20 * CHIP["alu_latency"], abs=4)


def test_an_mma_that_waits_for_another_warpgroup_holds_no_issue():
    """Eight MMAs of warpgroup 0 run, warpgroup 1 issues one with A in registers, and warpgroup 2 computes."""
    fence, commit, wait = (f"wgmma.{word}.sync.aligned" for word in ("fence", "commit_group", "wait_group"))

    def cycles(one: str) -> int:
        text = (
            "shr.u32 %r10, %r1, 7; setp.eq.u32 %p5, %r10, 1; setp.eq.u32 %p6, %r10, 2; @%p5 bra ONE; @%p6 bra TWO;",
            f"{fence}; {FROM_SHARED * 8} {commit}; {wait} 0; bra END; ONE: {fence}; {one} {commit}; {wait} 0; bra END;",
            "TWO:", "shf.l.wrap.b32 %r11, %r11, %r11, %r11;" * 30,
            "mov.u64 %rd3, %clock64; sub.u64 %rd4, %rd3, %rd2; st.global.u64 [%rd1], %rd4; END:",
        )  # fmt: skip
        zero = "".join(f"mov.b32 %r{i}, 0;" for i in (6, 7, 8, 9)) + "mov.u32 %r11, %tid.x;"
        sim = Sim(body("ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x;", zero, B, *text, registers=ROOM), chip="h200")
        out = sim.buffer(np.zeros(1 << 10, np.uint64))
        assert sim.launch("k", out, block=384) == 0, sim.findings
        return int(out[0])

    assert 30 * CHIP["alu_latency"] < 8 * STEP
    assert cycles(REGISTERS) == pytest.approx(cycles(""), abs=8)


def test_the_clock_falls_with_the_first_mma():
    text = (B, "wgmma.fence.sync.aligned;", FROM_SHARED, "wgmma.commit_group.sync.aligned;")
    sim = Sim(
        body("ld.param.u64 %rd1, [p];", "mov.u32 %r1, 1;", *text, "wgmma.wait_group.sync.aligned 0;", registers=ROOM),
        chip="h200",
    )
    assert sim.launch("k", sim.buffer(np.zeros(1 << 10, np.uint64)), block=128) == 0, sim.findings
    assert sim.time.clock_ghz == CHIP["sm_clock_tensor"] < CHIP["sm_clock"]
    assert sim.time.kernel_us == pytest.approx(sim.time.kernel_cycles / CHIP["sm_clock_tensor"] / 1000)
    for line, clock in (("mov.u32 %r1, 1;", "sm_clock"), (PRODUCT, "sm_clock_tensor")):
        sim = Sim(body(line), chip="h200")
        assert sim.launch("k", 0) == 0
        assert sim.time.clock_ghz == CHIP[clock]


def test_stores_leave_an_sm_at_its_rate_and_the_warp_waits_for_the_way_out():
    address = "shl.b32 %r2, %r1, 4; cvt.u64.u32 %rd5, %r2; add.u64 %rd5, %rd1, %rd5; mov.u64 %rd2, %clock64;"
    spans = [
        span(address, "st.global.v4.u32 [%rd5+4096], {%r1, %r1, %r1, %r1};" * count, block=32) for count in (300, 900)
    ]
    assert (spans[1] - spans[0]) / 600 == pytest.approx(32 * 16 / CHIP["sm_store_rate"], rel=0.05)


def test_a_sector_leaves_once_whichever_lanes_write_it():
    def stores(offset: str) -> int:
        address = f"{offset} cvt.u64.u32 %rd5, %r2; add.u64 %rd5, %rd1, %rd5; mov.u64 %rd2, %clock64;"
        return span(address, "st.global.u32 [%rd5+4096], %r1;" * 600, block=32)

    along = stores("shl.b32 %r2, %r1, 2;")
    turned = stores("and.b32 %r2, %r1, 3; shl.b32 %r2, %r2, 5; and.b32 %r3, %r1, 28; add.u32 %r2, %r2, %r3;")
    assert turned == pytest.approx(along, abs=12)  # the same four sectors, neighbours in other ones


def test_registers_change_hands_in_their_time():
    take = "setmaxnreg.dec.sync.aligned.u32 24;"
    one = "setp.ne.u32 %p4, %r1, 0; @%p4 exit;"  # notes the time
    assert span(take, one, block=128) - span(one, block=128) == pytest.approx(CHIP["set_registers_latency"], abs=3)


@pytest.mark.parametrize("fixed", [0, 1])
def test_much_shared_memory_starts_only_where_the_split_can_change(tmp_path, fixed):
    chip = json.loads(H200.read_text())
    chip["parameters"]["sm_split_fixed"]["value"] = fixed
    chip["parameters"]["sms"]["value"] = chip["parameters"]["processing_cluster_sms"]["value"] = 1
    path = tmp_path / "chip.json"
    path.write_text(json.dumps(chip))
    spin = (
        "mov.u64 %rd5, %clock64; {L: mov.u64 %rd6, %clock64; sub.u64 %rd6, %rd6, %rd5;"
        "setp.lt.u64 %p1, %rd6, 20000; @%p1 bra L;}"
    )
    sim = Sim(body(STAMP, "griddepcontrol.launch_dependents;", spin, DONE), chip=str(path))
    first, second = (sim.buffer(np.zeros(4, np.uint64)) for _ in range(2))
    assert sim.launch("k", first, block=32) == 0
    assert sim.launch("k", second, block=32, shared=100 * 1024, dependent=1) == 0
    after = int(second[0]) - int(first[1])
    if fixed:
        assert after == pytest.approx(CHIP["cta_end"] + CHIP["cta_start"], abs=12)
    else:
        assert after < -15000


def test_an_mma_and_loads_share_what_shared_memory_gives():
    address = "shl.b32 %r4, %r1, 4; and.b32 %r4, %r4, 0x1ff; add.u32 %r4, %r4, %r2;"
    loads = address + "ld.shared.v4.u32 {%r6, %r7, %r8, %r9}, [%r4];" * 8 + "st.shared.u32 [%r4], %r9;"
    alone, beside = group(FROM_SHARED, 0, loads), group(FROM_SHARED, 4, loads)
    assert alone > 4 * 8 * 4 * CHIP["shared_interval"]  # four warps, eight loads of 512 bytes each
    reads = 4 * (CHIP["wgmma_read_a"] + 64 * CHIP["wgmma_read_column"])
    assert beside - alone == pytest.approx(reads, abs=20)  # less what is read before the first load


def test_work_of_two_pipes_takes_the_slots_of_each_however_ptx_orders_it():
    chains = range(2, 18)
    shifts = [f"shf.l.wrap.b32 %r{i}, %r{i}, %r{i}, %r{i};" for i in chains]
    products = [f"fma.rn.f32 %f{i}, %f{i}, %f{i}, %f{i};" for i in chains]
    apart = "".join(shifts[:8] + products[:8] + shifts[8:] + products[8:])
    mixed = "".join(one + other for one, other in zip(shifts, products, strict=True))
    bound = 16 * CHIP["alu_interval"]  # the slower pipe's
    for text in (apart, mixed):
        assert span(text * 8) - span(text * 4) == pytest.approx(4 * bound, abs=CHIP["assembled_ahead"])


def test_of_two_warps_the_one_that_issued_last_goes_on():
    work = "".join(f"fma.rn.f32 %f{i}, %f{i}, %f{i}, %f{i};" for i in range(2, 18)) * 4

    def ends(warps: int) -> list[int]:
        text = "bar.sync 0; mov.u64 %rd2, %clock64;", work, "mov.u64 %rd3, %clock64; shl.b32 %r3, %r1, 3;"
        store = "cvt.u64.u32 %rd5, %r3; add.u64 %rd1, %rd1, %rd5; st.global.u64 [%rd1], %rd3;"
        sim = Sim(body("ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x;", *text, store), chip="h200")
        out = sim.buffer(np.zeros(1 << 10, np.uint64))
        assert sim.launch("k", out, block=32 * warps) == 0, sim.findings
        return sorted(int(out[32 * warp]) for warp in range(warps))

    first, *_, last = ends(8)[::4]  # warps 0 and 4 share a sub-partition
    assert last - first == pytest.approx(64 * CHIP["issue_interval"], abs=8)


def test_a_wait_for_groups_that_are_done_takes_its_latency():
    waits = "wgmma.wait_group.sync.aligned 1;"
    per = (group(FROM_SHARED, 1, waits * 9) - group(FROM_SHARED, 1, waits)) / 8
    assert per == pytest.approx(CHIP["wgmma_wait_latency"], abs=0.5)
