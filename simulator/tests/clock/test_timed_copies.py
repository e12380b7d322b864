"""Simulated time of copies: latency, the port that they share, rings, and who waits for them."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.calibration.rows import parameters_of
from simulator.tests.clock.clock_kit import BARRIER, CHIP, END, INIT, SMALL, START, copies, copy, span
from simulator.tests.sim_kit import Sim, body

B200 = {name: entry["value"] for name, entry in parameters_of("b200").items()}


def test_a_copy_takes_its_way_from_memory_and_then_from_l2():
    def curve(name: str, size: int) -> float:
        return dict(CHIP[name])[size]

    first = copies([4096], [0])  # a large copy's parts wait for each other, up to 4 cycles
    for size in (1024, 4096, 16384):
        far = copies([4096, size], [0, 65536]) - first
        near = copies([4096, size, size], [0, 65536, 65536]) - first - far
        assert far - near == pytest.approx(curve("copy_latency_hbm", size) - curve("copy_latency_l2", size), abs=4)
    near = [copies([16384, size], [0, 0]) - copies([16384], [0]) for size in (1024, 16384)]
    assert near[1] - near[0] == pytest.approx(curve("copy_latency_l2", 16384) - curve("copy_latency_l2", 1024), abs=4)


def shared_copies(multicast: int, plain: int) -> int:
    """Cycles of a cluster whose first CTA copies blocks to both CTAs while the second copies others to itself."""
    size, word = 16384, "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes"
    both = "".join(
        f"@%p1 {word}.multicast::cluster [%r2+{i * size}], [%rd5], {size}, [%r3], %rs1;" for i in range(multicast)
    )
    own = "".join(f"@!%p1 {word} [%r2+{(multicast + i) * size}], [%rd5], {size}, [%r3];" for i in range(plain))
    lines = (
        "ld.param.u64 %rd5, [p];", INIT, "mov.u32 %r4, %cluster_ctarank; setp.eq.u32 %p1, %r4, 0; mov.u16 %rs1, 3;",
        f"selp.u32 %r5, {multicast * size}, {(multicast + plain) * size}, %p1;",
        "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
        "mbarrier.arrive.expect_tx.shared.b64 _, [%r3], %r5;", both, own,
        "W: mbarrier.try_wait.parity.shared.b64 %p2, [%r3], 0; @!%p2 bra W;",
    )  # fmt: skip
    rooms = f".shared .align 1024 .b8 tile[{(multicast + plain) * size}]; .shared .align 8 .b64 full; .reg .b16 %rs1;"
    sim = Sim(body(*lines, registers=rooms), chip="h200")
    assert sim.launch("k", sim.buffer(np.zeros(size, np.uint8)), grid=2, cluster=2, block=1) == 0, sim.findings
    assert sim.verdict == "clean", sim.findings
    return sim.time.kernel_cycles


def test_what_a_multicast_brings_an_sm_takes_its_turn_at_the_port_there():
    one = 16384 / CHIP["sm_load_rate"]
    assert shared_copies(4, 3) - shared_copies(1, 3) == pytest.approx(3 * one, rel=0.1)


def ring(slots: int, laps: int, ctas: int, chip: str = "h200") -> float:
    """Cycles of a launch in which one thread of each CTA keeps `slots` copies of 16 KB from L2 in flight."""
    size, text = 16384, ""
    for lap in range(laps):
        for slot in range(slots):
            number = lap * slots + slot
            wait = f"{{W{number}: mbarrier.try_wait.parity.shared.b64 %p2, [%r3+{8 * slot}], {(lap + 1) % 2};"
            text += (f"{wait} @!%p2 bra W{number};}}" if lap else "") + (
                f"mbarrier.arrive.expect_tx.shared.b64 _, [%r3+{8 * slot}], {size};"
                f"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2+{slot * size}], [%rd5],"
                f" {size}, [%r3+{8 * slot}];"
            )
    for slot in range(slots):
        text += (
            f"{{V{slot}: mbarrier.try_wait.parity.shared.b64 %p2, [%r3+{8 * slot}], {(laps - 1) % 2};"
            f" @!%p2 bra V{slot};}}"
        )
    rooms = f".shared .align 1024 .b8 tile[{slots * size}]; .shared .align 8 .b64 full[{slots}];"
    init = "mov.u32 %r2, tile; mov.u32 %r3, full;" + "".join(
        f"mbarrier.init.shared.b64 [%r3+{8 * slot}], 1;" for slot in range(slots)
    )
    lines = ("ld.param.u64 %rd5, [p];", init, "fence.mbarrier_init.release.cluster;", text)
    sim = Sim(body(*lines, registers=rooms), chip=chip)
    assert sim.launch("k", sim.buffer(np.zeros(size, np.uint8)), grid=ctas, block=1) == 0, sim.findings
    assert sim.verdict == "clean"
    return sim.time.kernel_cycles


def test_a_short_ring_is_bound_by_latency_and_a_deep_one_by_bandwidth(small_chip):
    lap = (ring(1, 12, 1) - ring(1, 4, 1)) / 8
    assert lap == pytest.approx(dict(CHIP["copy_latency_l2"])[16384], rel=0.3)  # and its issue and wake-up
    assert lap > dict(CHIP["copy_latency_l2"])[16384]
    assert (ring(2, 12, 1) - ring(2, 4, 1)) / 8 == pytest.approx(lap, rel=0.3)  # twice the copies in the same time
    full = (ring(6, 8, SMALL["sms"], small_chip) - ring(6, 4, SMALL["sms"], small_chip)) / 4
    assert full == pytest.approx(SMALL["sms"] * 6 * 16384 / SMALL["l2_load_rate"], rel=0.02)


@pytest.mark.parametrize(
    "order", ["fence.acq_rel.gpu;", "mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r6];"]
)
def test_a_release_beyond_the_cta_waits_for_the_copies_that_its_sm_has_under_way(order):
    def cycles(before: str, after: str = "") -> int:
        """Cycles from `before` to the end of `order`; then all copies are waited for."""
        text = body(
            "ld.param.u64 %rd5, [q];", INIT, "mov.u32 %r6, other; mbarrier.init.shared.b64 [%r6], 9;", START, before,
            order, END, after, registers=BARRIER + " .shared .align 8 .b64 other;",
            params=".param .u64 p, .param .u64 q",
        )  # fmt: skip
        sim = Sim(text, chip="h200")
        out = sim.buffer(np.zeros(4, np.uint64))
        assert sim.launch("k", out, sim.buffer(np.zeros(1 << 20, np.uint8)), block=1) == 0, sim.findings
        return int(out[0])

    asked, _, waited = copy(0, 16384, 0, 0).partition("{")
    alone, beside = cycles(""), cycles(asked, "{" + waited)
    completed = copies([16384], [0])
    assert alone == pytest.approx(CHIP["fence_gpu"], abs=60)
    assert beside == pytest.approx(completed + CHIP["fence_gpu_completed"], abs=120)
    again = cycles(asked + "{" + waited + order) - cycles(asked + "{" + waited)
    assert again == pytest.approx(alone, abs=60), "no copy since the last fence"
    assert cycles(asked + "{" + waited) - completed == pytest.approx(CHIP["fence_gpu_copies"], abs=60), (
        "they have completed"
    )


def test_an_arrival_at_the_clusters_barrier_that_releases_is_a_fence_behind_copies():
    def cycles(*lines: str) -> int:
        text = body(
            "ld.param.u64 %rd5, [q];", INIT, START, *lines, END,
            registers=BARRIER, params=".param .u64 p, .param .u64 q",
        )  # fmt: skip
        sim = Sim(text, chip="b200")
        out = sim.buffer(np.zeros(4, np.uint64))
        assert sim.launch("k", out, sim.buffer(np.zeros(1 << 20, np.uint8)), cluster=1, block=1) == 0, sim.findings
        return int(out[0])

    wait = "barrier.cluster.wait.acquire.aligned;"
    release, relaxed = (f"barrier.cluster.arrive.{order}.aligned; {wait}" for order in ("release", "relaxed"))
    copied = copy(0, 4096, 0, 0)
    assert cycles(copied, release) - cycles(copied, relaxed) == B200["fence_gpu_copies"]
    assert cycles(release) == cycles(relaxed), "no copy under way"
    again = cycles(copied, release, release) - cycles(copied, release)
    assert again == cycles(copied, relaxed, relaxed) - cycles(copied, relaxed), "no copy since the last one"


def test_a_fence_waits_for_copies_that_leave_before_it_asks(chip):
    asks = 300
    asking = chip(fence_gpu_asks=asks)

    def fence(later: int) -> int:
        """Cycles of one warp's fence while another warp starts a copy some cycles after the fence's begin."""
        asked, _, waited = copy(0, 16384, 0, 0).partition("{")
        idle = (
            f"mov.u64 %rd6, %clock64; {{I: mov.u64 %rd7, %clock64; sub.u64 %rd7, %rd7, %rd6;"
            f"setp.lt.u64 %p3, %rd7, {later}; @%p3 bra I;}}"
        )
        text = body(
            "ld.param.u64 %rd5, [q];", START, "setp.eq.u32 %p4, %r1, 0; @%p4 bra FENCED;",
            "setp.ne.u32 %p4, %r1, 32; @%p4 bra LEFT;", INIT, idle, asked, "{" + waited, "bra LEFT;",
            "FENCED: fence.acq_rel.gpu;", END, "LEFT:",
            registers=BARRIER, params=".param .u64 p, .param .u64 q",
        )  # fmt: skip
        sim = Sim(text, chip=asking)
        out = sim.buffer(np.zeros(4, np.uint64))
        assert sim.launch("k", out, sim.buffer(np.zeros(1 << 20, np.uint8)), block=64) == 0, sim.findings
        return int(out[0])

    assert fence(asks + 200) == pytest.approx(CHIP["fence_gpu"], abs=60)
    assert fence(asks // 3) > CHIP["fence_gpu_copies"], "it had left before the fence asked"


@pytest.mark.parametrize("less", [10, 26])
def test_a_copy_takes_its_curves_latency_less_what_machine_code_shows_itself(chip, less: int):
    def takes(**values: int) -> int:
        text = body(
            "ld.param.u64 %rd5, [q];", INIT, START, copy(0, 4096, 0, 0), END,
            registers=BARRIER, params=".param .u64 p, .param .u64 q",
        )  # fmt: skip
        sim = Sim(text, chip=chip(**values))
        out = sim.buffer(np.zeros(4, np.uint64))
        assert sim.launch("k", out, sim.buffer(np.zeros(1 << 20, np.uint8)), block=1) == 0, sim.findings
        return int(out[0])

    assert takes() - takes(copy_latency_less=less) == less


WORD = "red.{order}.gpu.global.add.u32 [%rd1+256], 1;"


def test_a_released_word_waits_as_a_fence_and_for_the_answers_of_stores():
    store = "mov.u32 %r6, 7; st.global.u32 [%rd1+128], %r6;"
    relaxed, release = WORD.format(order="relaxed"), WORD.format(order="release")
    assert span(release) - span(relaxed) == pytest.approx(CHIP["fence_gpu"], abs=20)
    assert span(store, release) - span(store, relaxed) == pytest.approx(CHIP["store_answered"], abs=20)


def test_a_word_waits_for_the_copies_that_its_sm_has_under_way():
    asked, _, waited = copy(0, 16384, 0, 0).partition("{")
    lines = ("ld.param.u64 %rd5, [q];", INIT, START, asked, WORD.format(order="release"), END, "{" + waited)
    text = body(*lines, registers=BARRIER, params=".param .u64 p, .param .u64 q")
    sim = Sim(text, chip="h200")
    out = sim.buffer(np.zeros(64, np.uint64))
    assert sim.launch("k", out, sim.buffer(np.zeros(1 << 20, np.uint8)), block=1) == 0, sim.findings
    assert int(out[0]) == pytest.approx(copies([16384], [0]) + CHIP["fence_gpu_completed"], abs=120)
