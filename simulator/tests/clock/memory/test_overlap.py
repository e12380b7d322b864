"""Simulated time of overlapping work: launches that share the chip, and memory latency that grows with load."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.tests.clock.clock_kit import BARRIER, CHIP, INIT, PRODUCT, SHARED, copy
from simulator.tests.sim_kit import Sim, body

BLOCK = 16384  # bytes of a copy
EARLY = "griddepcontrol.launch_dependents;"
STAMP = "ld.param.u64 %rd1, [p]; ld.param.u64 %rd5, [q]; mov.u64 %rd7, %clock64;"
DONE = "mov.u64 %rd3, %clock64; st.global.u64 [%rd1], %rd7; st.global.u64 [%rd1+8], %rd3;"
PARAMETERS = ".param .u64 p, .param .u64 q"


def spans(text: str, chip: str, dependent: int, *given: int | np.ndarray, **launch) -> list[tuple[int, int]]:
    """Starts and ends of launches, of which the later ones may be dependent. given: the q of each, or copies of one
    buffer."""
    sim, found = Sim(text, chip=chip), []
    for number, q in enumerate(given):
        out = sim.buffer(np.zeros(4, np.uint64))
        q = q if isinstance(q, int) else sim.buffer(q.copy())
        assert sim.launch("k", out, q, dependent=dependent and number, **launch) == 0, sim.findings
        found.append((int(out[0]), int(out[1])))
    return found


def test_a_launch_has_the_slots_that_an_overlapping_one_leaves_it(chip):
    """The first launch issues a shift every other cycle. The second issues an fma every cycle alone, and in the other
    cycles when they overlap."""
    shifts = "".join(f"shf.l.wrap.b32 %r{i}, %r{i}, %r{i}, %r{i};" for i in range(2, 18)) * 200
    products = "".join(f"fma.rn.f32 %f{i}, %f{i}, %f{i}, %f{i};" for i in range(2, 18)) * 40
    work = f"setp.ne.u64 %p1, %rd5, 0; @%p1 bra PRODUCTS; {shifts} bra END; PRODUCTS: {products} END:"
    text = body(EARLY, STAMP, work, DONE, params=PARAMETERS)

    def second(dependent: int) -> tuple[int, int]:
        (_, first), (start, end) = spans(text, chip(sms=1, processing_cluster_sms=1), dependent, 0, 1, block=32)
        return end - start, first - start

    alone, _ = second(0)
    beside, overlap = second(1)
    assert overlap > beside  # it ends before the first one does
    assert beside - alone == pytest.approx(16 * 40, rel=0.05)


def test_a_launch_has_the_bandwidth_that_an_overlapping_one_leaves_it(chip):
    count, rate = 8, 16
    wait = "{W: mbarrier.try_wait.parity.shared.b64 %p2, [%r3], 0; @!%p2 bra W;}"
    loads = "".join(
        f"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd5+{i * BLOCK}], {BLOCK}, [%r3];"
        for i in range(count)
    )
    expect = f"mbarrier.arrive.expect_tx.shared.b64 _, [%r3], {count * BLOCK};"
    text = body(EARLY, STAMP, INIT, expect, loads, wait, DONE, registers=BARRIER, params=PARAMETERS)
    bytes_of = np.zeros(count * BLOCK, np.uint8)
    ends = [spans(text, chip(hbm_rate=rate, hbm_loaded=0), early, bytes_of, bytes_of, block=1) for early in (0, 1)]
    took = count * BLOCK / rate
    (_, (start, end)), ((_, first), (_, last)) = ends
    assert end - start == pytest.approx(took, rel=0.15)  # alone: a queue, and the way of one copy
    assert last - first == pytest.approx(took, rel=0.1)  # begun beside the first, which had all of HBM


def test_the_latency_of_memory_grows_with_the_cube_of_its_load(chip):
    laps, size, rate, window = 12, 1008, 1.5, 1024  # bytes of one turn, which are served within a window
    text = body(
        "ld.param.u64 %rd1, [p]; ld.param.u64 %rd5, [q];", INIT,
        *(copy(i * size, size, i % 2, i) + ("mov.u64 %rd7, %clock64;" if i == 3 else "") for i in range(laps)),
        DONE, registers=BARRIER, params=PARAMETERS,
    )  # fmt: skip

    def lap(grown: float) -> float:
        path = chip(hbm_rate=rate, hbm_loaded=grown)
        ((start, end),) = spans(text, path, 0, np.zeros(laps * size, np.uint8), block=1)
        return (end - start) / (laps - 4)

    idle, loaded = lap(0), lap(200)
    assert size / rate < idle < loaded < window, "each is served before the next is asked for"
    assert loaded - idle == pytest.approx(200 * (size / rate / window) ** 3, rel=0.4)


@pytest.mark.parametrize(("power", "longer"), [(0, 400), (1, 100), (2, 25), (3, 6.25)])
def test_a_copy_under_a_quarter_of_the_load_takes_what_its_power_leaves(chip, power: int, longer: float):
    """HBM delivers 512 bytes in 256 cycles. Each copy starts about 800 cycles after the previous one, so that one of
    them lies in the 1,024 cycles over which load is counted: a quarter."""
    laps, size = 12, 512
    text = body(
        "ld.param.u64 %rd1, [p]; ld.param.u64 %rd5, [q];", INIT,
        *(copy(i * size, size, i % 2, i) + ("mov.u64 %rd7, %clock64;" if i == 3 else "") for i in range(laps)),
        DONE, registers=BARRIER, params=PARAMETERS,
    )  # fmt: skip
    latencies = {name: [[16, 680], [size, 680]] for name in ("copy_latency_l2", "copy_latency_hbm")}

    def lap(grown: float) -> float:
        path = chip(hbm_rate=2, hbm_loaded=grown, hbm_loaded_power=power, **latencies)
        ((start, end),) = spans(text, path, 0, np.zeros(laps * size, np.uint8), block=1)
        return (end - start) / (laps - 4)

    assert lap(400) - lap(0) == pytest.approx(longer, abs=2)


@pytest.mark.parametrize("grown", [0, 400, 3000])
def test_what_latency_grows_by_is_no_more_than_a_queue_that_is_there(chip, grown: int):
    """A copy's eight parts wait for seven turns of 128 cycles or for the added latency, whichever is longer, at any
    load."""
    size, rate = 16384, 16
    text = body(STAMP, INIT, copy(0, size, 0, 0), DONE, registers=BARRIER, params=PARAMETERS)

    def cycles(grown: int) -> int:
        path = chip(hbm_rate=rate, hbm_loaded=grown, hbm_loaded_power=0)
        ((start, end),) = spans(text, path, 0, np.zeros(size, np.uint8), block=1)
        return end - start

    queue = size / rate * 7 / 8
    assert cycles(grown) - cycles(0) == pytest.approx(max(grown - queue, 0), abs=2)


@pytest.mark.parametrize("middle", [512, 16384])
def test_a_launch_waits_for_no_answers_that_the_one_before_waits_for(chip, middle: int):
    """The first and the last of three dependent launches copy the same 512 bytes. The middle one's 16 KB take 9,000
    cycles from HBM, on the same SM, and complete after the last launch's copy."""
    text = body(
        STAMP, INIT, "ld.global.u32 %r9, [%rd5]; mbarrier.arrive.expect_tx.shared.b64 _, [%r3], %r9;"
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd5], %r9, [%r3];", EARLY,
        "{W: mbarrier.try_wait.parity.shared.b64 %p2, [%r3], 0; @!%p2 bra W;}", DONE, registers=BARRIER,
        params=PARAMETERS,
    )  # fmt: skip
    path = chip(sms=1, processing_cluster_sms=1, copy_latency_hbm=[[16, 700], [512, 700], [16384, 9000]])
    sim = Sim(text, chip=path)
    small, other = (sim.buffer(np.full(4096, size, np.uint32)) for size in (512, middle))
    ends = []
    for number, q in enumerate((small, other, small)):
        out = sim.buffer(np.zeros(4, np.uint64))
        assert sim.launch("k", out, q, dependent=number > 0, block=1) == 0, sim.findings
        ends.append((int(out[0]), int(out[1])))
    (_, first), (_, second), (start, last) = ends
    assert last - start < 1500 and (last < second) == (middle > 512), (first, second, last)


def asked_by_warps(path: str, step: int, count: int, before: str = "") -> int:
    """Cycles of `count` copies by a warp, 16 bytes a lane, with `step` bytes between lanes."""
    address = f"mov.u32 %r1, %tid.x; mul.wide.u32 %rd8, %r1, {step}; add.u64 %rd5, %rd5, %rd8; shl.b32 %r5, %r1, 4;"
    asked = "".join(f"cp.async.cg.shared.global [%r4+{512 * i}], [%rd5+{4096 * i}], 16;" for i in range(count))
    text = body(
        STAMP, "mov.u32 %r2, tile;", address, before, "add.u32 %r4, %r2, %r5; mov.u64 %rd7, %clock64;", asked,
        "cp.async.commit_group; cp.async.wait_group 0; mov.u64 %rd3, %clock64; setp.eq.u32 %p1, %r1, 0;"
        "@%p1 st.global.u64 [%rd1], %rd7; @%p1 st.global.u64 [%rd1+8], %rd3;",
        registers=SHARED, params=PARAMETERS,
    )  # fmt: skip
    ((start, end),) = spans(text, path, 0, np.zeros(4096 * count, np.uint8), block=32)
    return end - start


@pytest.mark.parametrize("step", [128, 16])
def test_a_copy_of_few_bytes_brings_half_a_line_at_the_rate_of_warps(chip, step):
    count, rate = 24, 8
    cycles = asked_by_warps(chip(hbm_warp_rate=rate, hbm_loaded=0), step, count)
    assert cycles == pytest.approx(count * 32 * min(step, 64) / rate + CHIP["hbm_latency"], rel=0.1)


def test_lines_that_a_warps_copies_touch_take_a_turn_each(chip):
    count = 24
    lines, few = (asked_by_warps(chip(), step, count) for step in (128, 32))
    assert lines - few == pytest.approx(count * (32 - 8) * CHIP["async_copy_line"], rel=0.1)
    path = chip(async_copy_line=0)
    assert asked_by_warps(path, 128, count) == pytest.approx(asked_by_warps(path, 32, count), abs=10)


def test_memory_keeps_its_clock_when_that_of_the_sms_falls(chip):
    path = chip(hbm_warp_rate=8, hbm_loaded=0)
    fallen = asked_by_warps(path, 128, 24, PRODUCT) / asked_by_warps(path, 128, 24)
    assert fallen == pytest.approx(CHIP["sm_clock_tensor"] / CHIP["sm_clock"], abs=0.01)
