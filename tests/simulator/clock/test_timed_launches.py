"""Simulated launches: when they start, where their CTAs and clusters lie, when those end."""

from __future__ import annotations

import json

import numpy as np
import pytest

from tests.simulator.clock.clock_kit import CHIP, DONE, H200, SMALL, SPIN, STAMP
from tests.simulator.sim_kit import Sim, body


def pair(dependent: int, *, trigger: bool = True, shared: int = 0, chip: str = "h200") -> tuple[int, int]:
    """Starts of the second of two kernels that take 20,000 cycles, and the end of its wait, after the first's end."""
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
    ended = max(CHIP["store_answered"], CHIP["cta_end"] + CHIP["launch_drain"])  # of a kernel that stores at its end
    plain = ended + CHIP["launch_gap"] + CHIP["cta_start"]
    started, released = pair(0)
    assert started == pytest.approx(plain, abs=12)  # and the stores around the stamps
    assert released - started < 20
    started, released = pair(1)
    assert started < -15000  # it began while the first one spun
    assert released == pytest.approx(ended + CHIP["dependent_release"], abs=12)
    started, _ = pair(1, trigger=False)  # a kernel that never says so lets them start at its end
    assert started == pytest.approx(CHIP["cta_end"] + CHIP["dependent_gap_ended"] + CHIP["cta_start"], abs=12)


@pytest.mark.parametrize(("drain", "answered"), [(2000, 500), (2000, 2500), (0, 2500)])
def test_what_a_kernels_end_takes_goes_on_while_memory_answers_its_stores(chip, drain: int, answered: int):
    _, released = pair(1, chip=chip(launch_drain=drain, store_answered=answered))
    ended = max(answered, CHIP["cta_end"] + drain)
    assert released == pytest.approx(ended + CHIP["dependent_release"], abs=12)


@pytest.mark.parametrize(("before", "last", "waits"), [(0, 100, True), (100, 100, False), (100, 210, False)])
def test_the_split_that_a_kernel_of_shared_memory_leaves_behind_serves_another_beside_one_of_none(
    chip, before: int, last: int, waits: bool
):
    """Three launches on one SM, each let go by the one before: of `before` KB, of none and of `last`; two of 100 KB
    take 202 of the 228 that the SM then has."""
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
    """Of 8, 3 and 2 SMs: those that no cluster fits into stay idle."""
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


def test_an_sm_takes_its_ctas_down_in_turn_and_the_chip_counts_them(tmp_path):
    chip = json.loads(H200.read_text())
    path = tmp_path / "chip.json"

    def cycles(ctas: int, sms: int, shared: int = 0, **parameters: float) -> float:
        for name, value in {"sms": sms, "processing_cluster_sms": sms, **parameters}.items():
            chip["parameters"][name]["value"] = value
        path.write_text(json.dumps(chip))
        sim = Sim(body(""), chip=str(path))
        assert sim.launch("k", 0, grid=ctas, block=32, shared=shared) == 0
        return sim.time.kernel_cycles

    room = 200 * 1024  # one an SM: the next comes into the place of one that is gone
    after = CHIP["cta_end"] + CHIP["cta_start"]
    assert cycles(2, 1, room) - cycles(1, 1, room) == pytest.approx(after, abs=4)
    assert cycles(8, 1) - cycles(1, 1) == pytest.approx(7 * CHIP["sm_start_interval"], abs=2)
    assert cycles(8, 1, sm_end_interval=500) - cycles(1, 1) == pytest.approx(7 * 500, abs=2)
    assert cycles(4, 4, cta_end_interval=1000) - cycles(1, 4) == pytest.approx(3 * 1000, abs=2)


def test_what_starts_ctas_counts_them_as_they_end(chip):
    def cycles(ctas: int, interval: int) -> float:
        sim = Sim(body(""), chip=chip(cta_count_interval=interval))
        assert sim.launch("k", 0, grid=ctas, block=32) == 0
        return sim.time.kernel_cycles

    assert cycles(4, 1000) == pytest.approx(4 * 1000 - CHIP["cta_start"], abs=2)
    assert cycles(4, 1) < 1000


def test_a_dependent_launch_comes_when_the_ctas_before_have_been_counted(chip):
    sim = Sim(body(STAMP, "griddepcontrol.wait;"), chip=chip(cta_count_interval=4000))
    first, second = (sim.buffer(np.zeros(4, np.uint64)) for _ in range(2))
    assert sim.launch("k", first, grid=4, block=1) == 0
    assert sim.launch("k", second, block=1, dependent=1) == 0
    assert int(second[0]) - int(first[0]) == pytest.approx(4 * 4000 + CHIP["dependent_gap_ended"], abs=100)


def test_a_cta_begins_in_a_place_when_the_one_before_it_has_been_counted(chip):
    """On one SM that holds 32 of them."""
    stamp = "mov.u32 %r9, %ctaid.x; mul.wide.u32 %rd6, %r9, 8; ld.param.u64 %rd1, [p]; add.u64 %rd1, %rd1, %rd6;"
    text = body(stamp, "mov.u64 %rd2, %clock64; st.global.u64 [%rd1], %rd2;")
    sim = Sim(text, chip=chip(sms=1, processing_cluster_sms=1, cta_count_interval=500))
    starts = sim.buffer(np.zeros(64, np.uint64))
    assert sim.launch("k", starts, grid=64, block=1) == 0
    since = starts.astype(int) - int(starts[0])
    assert since[31] == pytest.approx(31 * CHIP["sm_start_interval"], abs=40)
    assert since[63] > 32 * 500


@pytest.mark.parametrize(("ctas", "counted"), [(64, True), (32, False)])
def test_a_place_that_several_ctas_have_in_turn_is_free_when_the_one_before_has_been_counted(
    chip, ctas: int, counted: bool
):
    """On one SM that holds 32 of them; the last of the first 32 would have been gone long before."""
    sim = Sim(body(""), chip=chip(sms=1, processing_cluster_sms=1, cta_count_interval=500))
    assert sim.launch("k", 0, grid=ctas, block=32) == 0
    from_first_end = sim.time.kernel_cycles - ctas * 500
    assert (from_first_end > 0) == counted
