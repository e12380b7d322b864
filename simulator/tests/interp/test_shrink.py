"""The search for the smallest set of delays that still shows a fault."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from simulator.python import ptxsim
from simulator.tests.sim_kit import MODES, PTX, Sim, body, built

SLOTS, ROW = 24, 16
SEED = 3  # for mode random: with this seed the rows that are read are late
DELAYING = [mode for mode in MODES if mode != "eager"]


@pytest.fixture(autouse=True)
def library(monkeypatch):
    monkeypatch.setenv("PTXSIM_LIBRARY", str(built("libptxsim.so")))


def copies(unwaited: tuple[int, ...], use: str) -> str:
    """A thread of each CTA copies 24 rows of ones to slots, uses some of them too early, then waits for all."""
    lines = ["mov.u32 %r2, room; mov.u32 %r3, bars; ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [in];"]
    lines += ["mov.u32 %r8, %ctaid.x; mul.wide.u32 %rd3, %r8, 4; add.s64 %rd1, %rd1, %rd3; mov.u32 %r9, 0;"]
    lines += [f"st.shared.u32 [%r2+{ROW * i}], %r9;" for i in range(SLOTS)]
    lines += [f"mbarrier.init.shared.b64 [%r3+{8 * i}], 1;" for i in range(SLOTS)]
    lines += ["fence.mbarrier_init.release.cluster; fence.proxy.async;"]
    for i in range(SLOTS):
        lines += [
            f"mbarrier.arrive.expect_tx.shared.b64 _, [%r3+{8 * i}], {ROW};",
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes "
            f"[%r2+{ROW * i}], [%rd2], {ROW}, [%r3+{8 * i}];",
        ]
    lines += [f"ld.shared.u32 %r1{j}, [%r2+{ROW * i}];" for j, i in enumerate(unwaited)]
    lines += [use]
    lines += [f"W{i}: mbarrier.try_wait.parity.shared.b64 %p1, [%r3+{8 * i}], 0; @!%p1 bra W{i};" for i in range(SLOTS)]
    return body(
        *lines,
        params=".param .u64 out, .param .u64 in",
        registers=f".shared .align 128 .b8 room[{ROW * SLOTS}]; .shared .align 8 .b8 bars[{8 * SLOTS}];",
    )


def places(shrunk: ptxsim.Shrunk) -> list[tuple[int, int]]:
    """CTA and number of the copy of each delay."""
    first = min(delay.ptx_line for delay in shrunk.delays)
    assert {delay.operation for delay in shrunk.delays} == {"bulk load"} and first > 0
    return [(delay.cta[0], int(delay.ptx.split("%r2+")[1].split("]")[0]) // ROW) for delay in shrunk.delays]


@pytest.mark.parametrize("mode", DELAYING)
def test_the_set_has_exactly_the_delays_that_the_fault_needs(mode):
    """The fault needs one late row, or, if either of two rows suffices for a right result, both."""
    ones, out = np.ones(4, np.uint32), np.zeros(3, np.uint32)
    for unwaited, use in (((17,), ""), ((5, 17), "setp.eq.u32 %p1, %r10, 1; @!%p1 mov.u32 %r10, %r11;")):
        module = ptxsim.Simulator(mode, SEED).load(copies(unwaited, f"{use} st.global.u32 [%rd1], %r10;"))
        wrong = lambda: bool(out[1] != 1)  # noqa: E731
        shrunk = module.shrink("k", out, ones, grid=3, block=1, shows=wrong)
        assert shrunk.found and not shrunk.always and shrunk.least and shrunk.operations == 3 * SLOTS
        assert places(shrunk) == [(1, slot) for slot in unwaited]
        assert all(delay.occurrence == 1 and delay.until.startswith("until ") for delay in shrunk.delays)
        assert shrunk == module.shrink("k", out, ones, grid=3, block=1, shows=wrong)
        assert not out.any(), "memory is put back"


def test_a_finding_of_a_late_copy():
    """An index used too early leads out of bounds; findings that appear without delays are ignored."""
    index = np.full(4, 2, np.uint32)
    lines = "mul.wide.u32 %rd4, %r10, 4; add.s64 %rd4, %rd2, %rd4; ld.global.u32 %r12, [%rd4];"
    sim = ptxsim.Simulator("poison")
    module = sim.load(copies((9,), lines))
    shrunk = module.shrink("k", np.zeros(1, np.uint32), index, block=1)
    assert shrunk.finding.kind == "out-of-bounds" and places(shrunk) == [(0, 9)] and sim.findings == ()
    assert [delay.until for delay in shrunk.delays] == ["until after the finding"]
    always = module.shrink("k", np.zeros(1, np.uint32), index, block=1, kind="read-before-completion")
    assert always.found and always.always and always.delays == () and always.runs == 2
    nothing = module.shrink("k", np.zeros(1, np.uint32), index, block=1, kind="deadlock")
    assert (nothing.found, nothing.finding, nothing.delays) == (False, None, ())
    bounded = module.shrink("k", np.zeros(1, np.uint32), index, block=1, most_runs=4)
    assert not bounded.least and bounded.stopped == "the bound on runs" and (0, 9) in places(bounded)
    for most, found in ((9, False), (10, True), (SLOTS - 1, True), (SLOTS, True)):
        some = module.shrink("k", np.zeros(1, np.uint32), index, block=1, kind="out-of-bounds", most_operations=most)
        assert (some.found, some.least) == (found, most == SLOTS), most
        assert some.stopped == ("" if most == SLOTS else "the bound on operations")
    right = sim.load((PTX / "gather.ptx").read_text())
    table = np.ones(64, np.uint32), np.zeros(256, np.uint32)
    assert not right.shrink("gather", np.zeros(32, np.uint32), *table).found


def test_the_random_order_of_warps_may_be_part_of_the_set():
    """Warp 1's result is right only if warp 0 ran first, as it does when warps run in order."""
    race = body(
        "mov.u32 %r1, %tid.x; mov.u32 %r2, cell; ld.param.u64 %rd1, [out]; mov.u32 %r3, 1; setp.ge.u32 %p1, %r1, 32;",
        "@%p1 bra LATER; st.shared.u32 [%r2], %r3; ret;",
        "LATER: ld.shared.u32 %r4, [%r2]; st.global.u32 [%rd1], %r4;",
        params=".param .u64 out",
        registers=".shared .align 8 .b8 cell[8];",
    )
    out = np.zeros(1, np.uint32)
    shrunk = [
        ptxsim.Simulator("random", seed).load(race).shrink("k", out, block=64, shows=lambda: bool(out[0] != 1))
        for seed in range(6)
    ]
    found = [one for one in shrunk if one.found]
    assert 0 < len(found) < len(shrunk)
    assert all([delay.operation for delay in one.delays] == ["turns of the warps"] for one in found)


@pytest.mark.parametrize("mode", ["late", "reverse"])
def test_a_delay_has_the_warp_that_ran_last_and_its_line(mode):
    """Warp 0 of CTA 2 uses a row without waiting, and is the last warp to run after the barrier."""
    text = body(
        "mov.u32 %r1, %tid.x; mov.u32 %r2, room; mov.u32 %r3, bars; ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [in];",
        "setp.ge.u32 %p2, %r1, 32; @%p2 bra SECOND; setp.ne.u32 %p3, %r1, 0; mov.u32 %r9, 0; @%p3 bra SECOND;",
        "st.shared.u32 [%r2], %r9; mbarrier.init.shared.b64 [%r3], 1; fence.mbarrier_init.release.cluster;",
        "fence.proxy.async; mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 16;",
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd2], 16, [%r3];",
        "ld.shared.u32 %r10, [%r2]; mov.u32 %r8, %ctaid.x; setp.eq.u32 %p4, %r8, 2; @%p4 st.global.u32 [%rd1], %r10;",
        "SECOND: bar.sync 0;",
        "W: mbarrier.try_wait.parity.shared.b64 %p1, [%r3], 0; @!%p1 bra W;",
        params=".param .u64 out, .param .u64 in",
        registers=".shared .align 128 .b8 room[16]; .shared .align 8 .b8 bars[8];",
    )
    out = np.zeros(1, np.uint32)
    module = ptxsim.Simulator(mode).load(text)
    shrunk = module.shrink("k", out, np.ones(4, np.uint32), grid=4, block=64, shows=lambda: bool(out[0] != 1))
    assert shrunk.found and len(shrunk.delays) == 1 and shrunk.delays[0].cta == (2, 0, 0)
    line = next(i for i, line in enumerate(text.splitlines(), 1) if line.startswith("W:"))
    said = f"until no warp could go on: last warp 0 of CTA 2,0,0 had run to PTX line {line}"
    assert shrunk.delays[0].until == said


def asked(module: ptxsim.Module, **options) -> tuple[ptxsim.structs.Shrunk | None, list[tuple[int, int]]]:
    """The library's answer for a copy that is used too early, and its progress calls."""
    index, out = np.full(4, 2, np.uint32), np.zeros(1, np.uint32)
    calls: list[tuple[int, int]] = []
    progress = ptxsim.structs.PROGRESS(lambda _, runs, left: calls.append((runs, left)))
    chosen = ptxsim.structs.ShrinkOptions(progress=progress, **options)
    attributes = ptxsim._attributes(module._blobs("k", (out, index)), 1, 1, 0, 0, False)
    call = module._lib.sim_shrink
    address = call(module._simulator._sim, module._handle, b"k", ctypes.byref(attributes), ctypes.byref(chosen))
    return ptxsim.structs.Shrunk.from_address(address) if address else None, calls


OUT_OF_BOUNDS = "mul.wide.u32 %rd4, %r10, 4; add.s64 %rd4, %rd2, %rd4; ld.global.u32 %r12, [%rd4];"


def test_the_search_reports_progress_and_stops_at_its_limit():
    module = ptxsim.Simulator("poison").load(copies((9,), OUT_OF_BOUNDS))
    whole, calls = asked(module, kind=b"out-of-bounds")
    assert whole.found and whole.least and [run for run, _ in calls] == list(range(1, whole.runs + 1))
    assert calls[-1][1] == 1 and [left for _, left in calls] == sorted((left for _, left in calls), reverse=True)
    bounded, calls = asked(module, kind=b"out-of-bounds", most_instructions=1)
    assert bounded.stopped == b"the bound on instructions" and not bounded.least and len(calls) == bounded.runs


def test_suppressed_findings_are_not_searched_for():
    simulator = ptxsim.Simulator("poison")
    module = simulator.load(copies((9,), OUT_OF_BOUNDS))
    message = ctypes.create_string_buffer(100)
    assert asked(module)[0].found
    rules = b"read-before-completion\nuninitialised-read\n"
    assert module._lib.sim_suppress(simulator._sim, rules, message, ctypes.c_size_t(100)) == 0
    assert not asked(module, kind=b"read-before-completion")[0].found
    assert asked(module, kind=b"out-of-bounds")[0].found


def test_shrinking_is_refused_with_simulated_time():
    sim = Sim(copies((9,), ""), chip="h200")
    assert not sim.lib.sim_shrink(sim.sim, sim.module, b"k", None, None)
    assert sim.message() == "with simulated time no mode delays anything"


def test_the_callers_exceptions_and_bad_arguments_are_raised():
    module = ptxsim.Simulator("late").load(copies((9,), ""))
    with pytest.raises(ZeroDivisionError):
        module.shrink("k", np.zeros(1, np.uint32), np.ones(4, np.uint32), block=1, shows=lambda: bool(1 // 0))
    with pytest.raises(ptxsim.LaunchRefused, match="arguments"):
        module.shrink("k", block=1)
