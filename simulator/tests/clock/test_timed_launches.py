"""Simulated launches: when they start, where their CTAs and clusters are placed, and when they end."""

from __future__ import annotations

import json

import numpy as np
import pytest

from simulator.tests.clock.clock_kit import CHIP, DONE, H200, SMALL, SPIN, STAMP
from simulator.tests.sim_kit import Sim, body

LETS_GO = "griddepcontrol.launch_dependents;"


def pair(dependent: int, *, trigger: bool = True, shared: int = 0, chip: str = "h200") -> tuple[int, int]:
    """For two kernels of 20,000 cycles: the second one's start, and the end of its wait, relative to the first one's
    end."""
    early = "griddepcontrol.launch_dependents;" if trigger else ""
    text = body(
        STAMP, early, "griddepcontrol.wait;", "mov.u64 %rd7, %clock64; st.global.u64 [%rd1+16], %rd7;", SPIN, DONE
    )
    sim = Sim(text, chip=chip)
    first, second = (sim.buffer(np.zeros(4, np.uint64)) for _ in range(2))
    assert sim.launch("k", first, block=1, shared=shared) == 0
    assert sim.launch("k", second, block=1, shared=shared, dependent=dependent) == 0
    return int(second[0]) - int(first[1]), int(second[2]) - int(first[1])


def test_two_launches_wait_for_each_other_and_dependent_ones_start_before():
    counted = CHIP["cta_count_interval"] + CHIP["cta_end"]
    ended = counted + CHIP["launch_drain"] + CHIP["launch_flush_alone"]  # the kernel stores
    plain = ended + CHIP["launch_gap"] + CHIP["cta_start"]
    started, released = pair(0)
    assert started == pytest.approx(plain, abs=12)  # and the stores around the stamps
    assert released - started < 20
    started, released = pair(1)
    assert started < -15000  # it began while the first one spun
    assert released == pytest.approx(ended + CHIP["dependent_release"], abs=12)
    started, _ = pair(1, trigger=False)  # a kernel that never says so lets them start at its end
    assert started == pytest.approx(counted + CHIP["dependent_gap_alone"] + CHIP["cta_start"], abs=12)


# The first launch's CTAs, a lane of each, store at q, go on and end, the second's say when they have waited.
THEN_WAITS = "NEXT: griddepcontrol.wait; mov.u64 %rd7, %clock64; st.global.u64 [%rd1], %rd7; END:"
FIRST = "ld.param.u64 %rd1, [p]; setp.ne.u64 %p2, %rd1, 0; @%p2 bra NEXT; ld.param.u64 %rd1, [q];"
STORED = "st.global.u64 [%rd1], %rd2;"


def released(path: str, *lines: str, dependent: int = 0, **first) -> int:
    """The time at which a dependent launch's wait returns, after a launch whose CTAs run those lines."""
    sim = Sim(body(FIRST, *lines, "bra.uni END;", THEN_WAITS, params=".param .u64 p, .param .u64 q"), chip=path)
    out, elsewhere = sim.buffer(np.zeros(1, np.uint64)), sim.buffer(np.zeros(1 << 10, np.uint64))
    assert sim.launch("k", 0, elsewhere, dependent=dependent, **{"block": 1, **first}) == 0
    assert sim.launch("k", out, elsewhere, block=1, dependent=1) == 0
    return int(out[0])


@pytest.mark.parametrize("dependent", [0, 1])
@pytest.mark.parametrize(("stores", "more"), [("", 0), (STORED, 3000)])
def test_a_kernel_that_has_stored_ends_so_much_later_however_long_ago_that_was(chip, stores, more, dependent: int):
    """A dependent launch has its own parameter for this."""
    figures = ("launch_flush_alone", "launch_flush")
    ends = [released(chip(**{figures[dependent]: flush}), stores, LETS_GO, SPIN, dependent=dependent)
            for flush in (0, 3000)]  # fmt: skip
    assert ends[1] - ends[0] == more
    other = [released(chip(**{figures[1 - dependent]: flush}), stores, LETS_GO, SPIN, dependent=dependent)
             for flush in (0, 3000)]  # fmt: skip
    assert other[0] == other[1]


@pytest.mark.parametrize(("stores", "sms"), [("", 0), (STORED, 4)])
def test_a_launchs_sms_are_asked_one_after_another_to_have_their_stores_seen(chip, stores: str, sms: int):
    """Eight CTAs on four SMs, two each."""
    room = {"grid": 8, "block": 32, "shared": 100 * 1024}
    at = [released(chip(sm_flush_interval=interval), stores, LETS_GO, SPIN, **room) for interval in (2000, 3000)]
    assert at[1] - at[0] == sms * 1000


def test_the_sms_are_asked_while_ends_are_still_being_heard_of(chip):
    """Four CTAs end together; counting each takes 1,000 cycles, and flushing each SM 500."""

    def at(interval: int) -> int:
        path = chip(sm_flush_interval=interval, cta_count_interval=1000, trigger_ahead=0)
        return released(path, STORED, LETS_GO, SPIN, grid=4, block=32)

    assert at(500) == at(0)
    assert at(3000) - at(0) == pytest.approx(4 * 2000, abs=50)


def test_stores_of_parts_of_sectors_are_seen_later_than_whole_ones(chip):
    parts = "mov.u32 %r1, %tid.x; mad.wide.u32 %rd8, %r1, {apart}, %rd1; st.global.u32 [%rd8], %r1;"

    def later(apart: int, *behind: str) -> int:
        lines = [LETS_GO, parts.format(apart=apart), *behind]
        slow, quick = (released(chip(store_part_seen=seen), *lines, block=32) for seen in (15000, 10000))
        return slow - quick

    assert (later(4), later(32), later(32, SPIN)) == (0, 5000, 0)


def test_a_store_of_parts_of_sectors_is_seen_so_long_behind_its_turn_at_l2(chip):
    """The second store's turn at L2 comes after the first store's."""
    store = "mov.u32 %r1, %tid.x; mul.wide.u32 %rd8, %r1, 32; add.u64 %rd8, %rd1, %rd8; st.global.u32 [%rd8], %r1;"

    def at(rate: float, *lines: str) -> int:
        return released(chip(store_part_seen=20000, l2_store_rate=rate), LETS_GO, *lines, block=32)

    quick, slow = (at(rate, store, store) - at(rate, store) for rate in (1e6, 0.5))
    assert quick < 100
    assert 1000 < slow - quick < 10000


def test_a_kernel_that_stores_nothing_does_not_wait_for_stores_of_the_one_before(chip):
    def at(flush: int) -> int:
        text = body(FIRST, "setp.eq.u64 %p1, %rd1, 0; @%p1 bra QUIET;", STORED, "QUIET:", LETS_GO, SPIN, "bra.uni END;",
                    THEN_WAITS, params=".param .u64 p, .param .u64 q")  # fmt: skip
        sim = Sim(text, chip=chip(launch_flush=flush))
        out, elsewhere = sim.buffer(np.zeros(1, np.uint64)), sim.buffer(np.zeros(1, np.uint64))
        assert sim.launch("k", 0, elsewhere, block=1) == 0
        assert sim.launch("k", 0, 0, block=1, dependent=1) == 0
        assert sim.launch("k", out, elsewhere, block=1, dependent=1) == 0
        return int(out[0])

    assert at(3000) == at(0)


@pytest.mark.parametrize(("before", "last", "waits"), [(0, 100, True), (100, 100, False), (100, 210, False)])
def test_a_split_for_shared_memory_serves_the_next_kernel_too(chip, before: int, last: int, waits: bool):
    """Three dependent launches on one SM with `before` KB of shared memory, none, and `last`; two of 100 KB take 202 of
    the 228 KB that the SM then has."""
    one = chip(sms=1, processing_cluster_sms=1)
    sim = Sim(body(STAMP, "griddepcontrol.launch_dependents;", SPIN, DONE), chip=one)
    out = [sim.buffer(np.zeros(4, np.uint64)) for _ in range(3)]
    for stamps, shared, dependent in zip(out, (before * 1024, 0, last * 1024), (0, 1, 1), strict=True):
        assert sim.launch("k", stamps, block=32, shared=shared, dependent=dependent) == 0
    behind_the_second = int(out[2][0]) - int(out[1][1])
    assert (behind_the_second > 0) == waits


def test_ctas_beyond_the_chips_room_start_when_one_ends(small_chip):
    sim = Sim(body(SPIN), chip=small_chip)
    room = {"block": 32, "shared": 200 * 1024}  # one an SM

    def cycles(ctas: int) -> float:
        assert sim.launch("k", 0, grid=ctas, **room) == 0
        return sim.time.kernel_cycles

    wave, two = cycles(SMALL["sms"]), cycles(SMALL["sms"] + 1)
    assert wave == pytest.approx(20000, rel=0.03)
    assert two - wave == pytest.approx(wave + CHIP["cta_start"], rel=0.03)


@pytest.mark.parametrize(("ctas", "at_once"), [(2, 6), (4, 2), (8, 1)])
def test_clusters_lie_in_one_processing_cluster_each(tmp_path, ctas, at_once):
    """Processing clusters of 8, 3 and 2 SMs; one that no cluster fits into stays idle."""
    chip = json.loads(H200.read_text())
    parts = {"processing_cluster_sms": 8, "processing_clusters_whole": 1, "processing_cluster_short_sms": 3}
    for name, value in {"sms": 13, **parts}.items():
        chip["parameters"][name]["value"] = value
    path = tmp_path / "chip.json"
    path.write_text(json.dumps(chip))

    def cycles(clusters: int) -> float:
        sim = Sim(body(SPIN), chip=str(path))
        assert sim.launch("k", 0, grid=clusters * ctas, cluster=ctas, block=32, shared=200 * 1024) == 0
        return sim.time.kernel_cycles

    wave = cycles(1)
    assert cycles(at_once) == pytest.approx(wave, rel=0.05)
    assert cycles(at_once + 1) == pytest.approx(2 * wave, rel=0.1)


def test_an_sm_starts_its_ctas_in_turn_and_takes_them_down_so(chip):
    def cycles(ctas: int, sms: int, block: int = 32, shared: int = 0, **parameters: float) -> float:
        sim = Sim(body(""), chip=chip(sms=sms, processing_cluster_sms=sms, **parameters))
        assert sim.launch("k", 0, grid=ctas, block=block, shared=shared) == 0
        return sim.time.kernel_cycles

    room = 200 * 1024  # one an SM: the next comes into the place of one that is gone
    after = CHIP["cta_count_interval"] + CHIP["cta_end"] + CHIP["cta_start"]
    assert cycles(2, 1, shared=room) - cycles(1, 1, shared=room) == pytest.approx(after, abs=4)
    assert cycles(8, 1) - cycles(1, 1) == pytest.approx(7 * CHIP["sm_start_interval"], abs=2)
    wider = CHIP["sm_start_interval"] + 7 * CHIP["warp_start_interval"]
    assert cycles(8, 1, block=256) - cycles(1, 1, block=256) == pytest.approx(7 * wider, abs=2)
    apart = cycles(8, 1, sm_end_interval=500) - cycles(1, 1, sm_end_interval=500)
    assert apart == pytest.approx(7 * 500, abs=2)
    assert cycles(4, 4, cta_end_interval=1000) - cycles(1, 4) == pytest.approx(4 * 1000, abs=CHIP["cta_start"])


def starts(path: str, ctas: int, **launch) -> list[int]:
    """The start of each CTA of a kernel that takes 20,000 cycles."""
    stamp = "mov.u32 %r9, %ctaid.x; mul.wide.u32 %rd8, %r9, 8; ld.param.u64 %rd1, [p]; add.u64 %rd1, %rd1, %rd8;"
    sim = Sim(body("mov.u64 %rd2, %clock64;", stamp, "st.global.u64 [%rd1], %rd2;", SPIN), chip=path)
    out = sim.buffer(np.zeros(ctas, np.uint64))
    assert sim.launch("k", out, grid=ctas, **launch) == 0
    return [int(start) for start in out]


def test_clusters_start_one_after_another(chip):
    values = {"sms": 8, "processing_cluster_sms": 8, "cta_start_interval": 0, "cluster_start": 300}
    values |= {"cluster_start_interval": 40}
    path, room = chip(**values), {"block": 32, "shared": 200 * 1024}
    alone, ones, pairs = starts(path, 8, **room), starts(path, 8, cluster=1, **room), starts(path, 8, cluster=2, **room)
    assert alone == [alone[0]] * 8
    assert [start - alone[0] for start in ones] == [300 + 40 * i for i in range(8)]
    assert [start - alone[0] for start in pairs] == [300 + 40 * (i // 2) for i in range(8)]


# Each CTA leaves when it began, lets the next launch go and goes on for 20,000 cycles.
BEGINS = (
    "mov.u64 %rd2, %clock64; mov.u32 %r9, %ctaid.x; mul.wide.u32 %rd8, %r9, 8; ld.param.u64 %rd1, [p];"
    "add.u64 %rd1, %rd1, %rd8; st.global.u64 [%rd1], %rd2;"
)
WHOLE_SMS = {"block": 32, "shared": 200 * 1024}


@pytest.mark.parametrize(
    ("sms", "cluster", "interval", "apart"),
    [(4, 2, 1, 4000), (4, 2, 300, 4000 + 2 * 300), (4, 0, 300, 3 * 300), (8, 2, 300, 4000)],
)
def test_starts_of_clusters_and_messages_of_ends_take_turns(chip, sms: int, cluster: int, interval: int, apart: int):
    """Two clusters of two after four CTAs that end together. CTAs without clusters do not wait so, nor do those that
    find free SMs."""
    values = {"sms": sms, "processing_cluster_sms": sms, "cta_count_interval": interval}
    sim = Sim(body(BEGINS, LETS_GO, SPIN), chip=chip(cluster_start_interval=4000, cta_start_interval=0, **values))
    first, second = (sim.buffer(np.zeros(4, np.uint64)) for _ in range(2))
    assert sim.launch("k", first, grid=4, **WHOLE_SMS) == 0
    assert sim.launch("k", second, grid=4, dependent=1, cluster=cluster, **WHOLE_SMS) == 0
    assert int(second.max()) - int(second.min()) == pytest.approx(apart, abs=50)


def test_so_do_starts_of_clusters_and_messages_of_their_own_launch(chip):
    """Four clusters on two places: the first two begin 400 cycles apart, and the others after them."""
    path = chip(cluster_start_interval=400, cta_start_interval=0, cta_count_interval=1000)
    sim = Sim(body(BEGINS, SPIN), chip=path)
    begins = sim.buffer(np.zeros(8, np.uint64))
    assert sim.launch("k", begins, grid=8, cluster=2, **WHOLE_SMS) == 0
    at = np.sort(begins.astype(int))
    assert at[2] - at[0] == 400
    assert at[6] - at[4] == pytest.approx(400 + 2 * 1000, abs=50)


def test_a_dependent_launch_begins_on_sms_that_hold_least(chip):
    """The previous kernel has one CTA, on the first of four SMs; a launch of clusters of one CTA uses that SM last."""
    path = chip(cta_start_interval=0, cluster_start_interval=500)
    text = body(
        "mov.u64 %rd2, %clock64; griddepcontrol.launch_dependents; mov.u32 %r9, %smid; mul.wide.u32 %rd8, %r9, 8;",
        "ld.param.u64 %rd1, [p]; add.u64 %rd1, %rd1, %rd8; st.global.u64 [%rd1], %rd2;", SPIN,
    )  # fmt: skip
    sim = Sim(text, chip=path)
    first, second = (sim.buffer(np.zeros(4, np.uint64)) for _ in range(2))
    assert sim.launch("k", first, block=32) == 0
    assert sim.launch("k", second, grid=4, block=32, cluster=1, dependent=1) == 0
    assert first[0] > 0 and int(second[0]) == max(map(int, second))


def test_what_starts_ctas_hears_of_their_ends_one_after_another(chip):
    def cycles(ctas: int, interval: int, cluster: int = 0) -> float:
        sim = Sim(body(""), chip=chip(cta_count_interval=interval))
        assert sim.launch("k", 0, grid=ctas, block=32, cluster=cluster) == 0
        return sim.time.kernel_cycles

    assert cycles(4, 1000) - cycles(1, 1000) == pytest.approx(3 * 1000, abs=2)
    assert cycles(4, 1000, cluster=2) - cycles(2, 1000, cluster=2) == pytest.approx(2 * 1000, abs=2)
    assert cycles(4, 1) < 1000


@pytest.mark.parametrize(
    ("interval", "ahead", "goes_on", "messages"), [(2000, 0, 20000, 4), (3000, 0, 1000, 8), (3000, 20000, 1000, 4)]
)
def test_a_dependent_launch_comes_when_the_triggers_before_have_been_counted(chip, interval, ahead, goes_on, messages):
    """Four CTAs trigger. Ends that come meanwhile count before some of the triggers only, as trigger_ahead says."""
    path = chip(cta_count_interval=interval, trigger_ahead=ahead)
    sim = Sim(body(STAMP, LETS_GO, SPIN.replace("20000", str(goes_on))), chip=path)
    first, second = (sim.buffer(np.zeros(4, np.uint64)) for _ in range(2))
    assert sim.launch("k", first, grid=4, block=1) == 0
    assert sim.launch("k", second, block=1, dependent=1) == 0
    waited = messages * interval + CHIP["dependent_gap_alone"] + CHIP["cta_start"]
    assert int(second[0]) - int(first[0]) == pytest.approx(waited, abs=100)


def test_a_dependent_launch_comes_when_the_ctas_before_have_been_counted(chip):
    sim = Sim(body(STAMP, "griddepcontrol.wait;"), chip=chip(cta_count_interval=4000))
    first, second = (sim.buffer(np.zeros(4, np.uint64)) for _ in range(2))
    assert sim.launch("k", first, grid=4, block=1) == 0
    assert sim.launch("k", second, block=1, dependent=1) == 0
    after = CHIP["cta_end"] + CHIP["dependent_gap_alone"] + CHIP["cta_start"]
    assert int(second[0]) - int(first[0]) == pytest.approx(4 * 4000 + after, abs=100)


def test_a_cta_begins_in_a_place_when_the_one_before_it_has_been_counted(chip):
    """One SM holds 32 CTAs."""
    stamp = "mov.u32 %r9, %ctaid.x; mul.wide.u32 %rd6, %r9, 8; ld.param.u64 %rd1, [p]; add.u64 %rd1, %rd1, %rd6;"
    text = body(stamp, "mov.u64 %rd2, %clock64; st.global.u64 [%rd1], %rd2;")
    sim = Sim(text, chip=chip(sms=1, processing_cluster_sms=1, cta_count_interval=500))
    starts = sim.buffer(np.zeros(64, np.uint64))
    assert sim.launch("k", starts, grid=64, block=1) == 0
    since = starts.astype(int) - int(starts[0])
    assert since[31] == pytest.approx(31 * CHIP["sm_start_interval"], abs=40)
    assert since[63] == pytest.approx(32 * 500, abs=400)
