"""A wait on an mbarrier is reported, in every schedule, exactly if two phases can complete before it looks."""

from __future__ import annotations

import re

import pytest

from simulator.tests.sim_kit import MODES, body
from simulator.validation.mutants.mbarrier_phases import ROUNDS, SAFE, THREADS, UNSAFE, run


@pytest.mark.parametrize("name", SAFE)
def test_a_wait_that_precedes_the_next_phase_is_not_reported(name):
    for mode in MODES:
        for seed in range(3 if mode == "random" else 1):
            sim = run(SAFE[name], mode, seed, THREADS.get(name, 64))
            assert sim.verdict == "clean", (mode, seed, sim.findings)


@pytest.mark.parametrize("name", UNSAFE)
def test_a_wait_that_may_come_two_phases_late_is_found_in_every_schedule(name):
    for mode in MODES:
        for seed in range(8 if mode == "random" else 1):
            sim = run(UNSAFE[name], mode, seed, THREADS.get(name, 64))
            assert "missed-phase" in sim.kinds, (mode, seed, sim.findings)
            finding = next(f for f in sim.findings if f["kind"] == "missed-phase")
            assert finding["verdict"] == "error"
            assert "try_wait" in UNSAFE[name].splitlines()[finding["ptx_line"] - 1]


def test_a_copy_issued_after_the_wait_holds_the_next_phase_back():
    """Warp 1 waits and then issues the copy whose bytes the arrival of warp 0 expects; nothing else orders the two."""
    text = body(
        "mov.u32 %r1, %tid.x; mov.u32 %r2, bar; mov.u32 %r3, data; ld.param.u64 %rd1, [p]; mov.u32 %r10, 0;",
        "setp.eq.u32 %p1, %r1, 0; setp.eq.u32 %p4, %r1, 32;",
        "@%p1 mbarrier.init.shared.b64 [%r2], 1; fence.mbarrier_init.release.cluster; bar.sync 0;",
        "@!%p1 bra ISSUE;",
        "ARM: mbarrier.arrive.expect_tx.shared.b64 %rd2, [%r2], 16;",
        "AWAIT: mbarrier.test_wait.shared.b64 %p2, [%r2], %rd2; @!%p2 bra AWAIT;",
        f"add.u32 %r10, %r10, 1; setp.lt.u32 %p3, %r10, {ROUNDS}; @%p3 bra ARM; bra END;",
        "ISSUE: @!%p4 bra END;",
        "NEXT: cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd1], 16, [%r2];",
        "and.b32 %r11, %r10, 1;",
        "WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], %r11; @!%p2 bra WAIT;",
        f"add.u32 %r10, %r10, 1; setp.lt.u32 %p3, %r10, {ROUNDS}; @%p3 bra NEXT;",
        "END:",
        registers=".shared .align 16 .b8 data[16]; .shared .align 8 .b8 bar[8];",
    )
    for mode in MODES:
        sim = run(text, mode, 1)
        assert sim.verdict == "clean", (mode, sim.findings)


def test_phases_start_again_after_inval_and_init():
    text = body(
        "mov.u32 %r1, %tid.x; mov.u32 %r2, bar; mov.u32 %r10, 0;",
        "LIFE: mbarrier.init.shared.b64 [%r2], 1;",
        "mbarrier.arrive.shared.b64 _, [%r2]; mov.u32 %r3, 0;",
        "WAIT: mbarrier.try_wait.parity.shared.b64 %p2, [%r2], %r3; @!%p2 bra WAIT;",
        "mbarrier.inval.shared.b64 [%r2];",
        "add.u32 %r10, %r10, 1; setp.lt.u32 %p3, %r10, 4; @%p3 bra LIFE;",
        registers=".shared .align 8 .b8 bar[8];",
    )
    sim = run(text, "eager", 1, threads=1)
    assert sim.verdict == "clean", sim.findings


def test_a_state_two_phases_old_is_an_error():
    text = body(
        "mov.u32 %r2, bar; mbarrier.init.shared.b64 [%r2], 1;",
        "mbarrier.arrive.shared.b64 %rd2, [%r2]; mbarrier.arrive.shared.b64 _, [%r2];",
        "mbarrier.test_wait.shared.b64 %p2, [%r2], %rd2;",
        registers=".shared .align 8 .b8 bar[8];",
    )
    sim = run(text, "eager", 1, threads=1)
    assert sim.kinds == {"missed-phase"}, sim.findings
    assert re.search("neither the current nor the preceding", sim.findings[0]["message"])


def test_issuing_a_copy_does_not_order_its_completion():
    """The bytes of phase 1 may arrive at any time: a wait for phase 2 without one for phase 1 may miss a phase, even
    if the copy happens to be complete when its thread arrives."""
    arrive, wait = "mbarrier.arrive.shared.b64 _, [%r2];", "mbarrier.try_wait.parity.shared.b64 %p1, [%r2], {0};"
    text = body(
        "mov.u32 %r2, bar; mov.u32 %r3, data; ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; setp.ne.u32 %p2, %r1, 0;",
        "setp.eq.u32 %p3, %r1, 32; @%p2 bra OTHERS; mbarrier.init.shared.b64 [%r2], 1;",
        "fence.mbarrier_init.release.cluster;" + arrive + "A: " + wait.format(0) + "@!%p1 bra A;",
        "mbarrier.expect_tx.relaxed.cta.shared.b64 [%r2], 16;",
        "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd1], 16, [%r2];",
        arrive + "AWAITED barrier.sync 0; C: " + wait.format(0) + "@!%p1 bra C; bra END;",
        "OTHERS: barrier.sync 0; @%p3 " + arrive + "END:",
        registers=".shared .align 16 .b8 data[16]; .shared .align 8 .b8 bar[8];",
    )
    for mode in MODES:
        sim = run(text.replace("AWAITED", "B: " + wait.format(1) + "@!%p1 bra B;"), mode, 1)
        assert sim.verdict == "clean", (mode, sim.findings)
    sim = run(text.replace("AWAITED", ""), "eager", 1)
    assert sim.kinds == {"missed-phase"}, sim.findings


COPY = (
    "mbarrier.arrive.expect_tx.shared.b64 {0}, [%r2], 16;"
    " cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd1], 16, [%r2];"
)
BY_PARITY = "try_wait.parity.shared.b64 %p1, [%r2], {0}".format


def second_wait(wait: str, again: str, mode: str, before: str = "", count: int = 1) -> list[dict]:
    """The findings of two copies and a wait for each by one thread, the mbarrier's second arrival if it counts two."""
    other = "mbarrier.arrive.shared.b64 _, [%r2];" if count == 2 else ""
    loop = "{0}: mbarrier.{1}; @!%p1 bra {0}; ld.shared.u32 %r4, [%r3];"
    text = body(
        "mov.u32 %r2, bar; mov.u32 %r3, data; ld.param.u64 %rd1, [p];",
        f"{before} mbarrier.init.shared.b64 [%r2], {count}; fence.mbarrier_init.release.cluster;",
        COPY.format("%rd2") + other + loop.format("A", wait) + "fence.proxy.async.shared::cta;",
        COPY.format("_") + (loop.format("B", again) + other if wait == again else other + loop.format("B", again)),
        registers=".shared .align 16 .b8 data[16]; .shared .align 8 .b8 bar[8];",
    )
    return run(text, mode, 1, threads=1).findings


LIVED = "mbarrier.init.shared.b64 [%r2], 1; mbarrier.arrive.shared.b64 _, [%r2]; mbarrier.inval.shared.b64 [%r2];"


@pytest.mark.parametrize(("mode", "before", "count"), [("late", "", 1), ("late", LIVED, 1), ("eager", "", 2)])
def test_a_second_wait_for_one_parity_is_told(mode: str, before: str, count: int):
    """The second copy is awaited by the parity of the first phase: its bytes are on their way, or, where copies end
    at once, the mbarrier's other arrival is.  Phases count from the mbarrier's init."""
    for each in MODES:
        findings = second_wait(BY_PARITY(0), BY_PARITY(1), each, before, count)
        assert not findings, (each, findings)
    findings = second_wait(BY_PARITY(0), BY_PARITY(0), mode, before, count)
    (told,) = (one for one in findings if "seen end before" in one["message"])
    assert (told["kind"], told["verdict"]) == ("missed-phase", "review")
    assert "waits by parity for phase 0 " in told["message"] and "operations of phase 1 " in told["message"]


@pytest.mark.parametrize("noinc", [".noinc", ""])
def test_a_second_wait_is_told_where_only_the_arrival_of_copies_is_on_its_way(noinc: str):
    """cp.async.mbarrier.arrive arrives at no count of bytes; without .noinc, phases last until the thread arrives."""
    copy = f"cp.async.ca.shared.global [%r3], [%rd1], 16; cp.async.mbarrier.arrive{noinc}.shared.b64 [%r2];"
    copy += "" if noinc else "mbarrier.arrive.shared.b64 _, [%r2];"
    wait = "{0}: mbarrier.{1}; @!%p1 bra {0}; ld.shared.u32 %r4, [%r3];"
    text = body(
        "mov.u32 %r2, bar; mov.u32 %r3, data; ld.param.u64 %rd1, [p]; mbarrier.init.shared.b64 [%r2], 1;",
        copy + wait.format("A", BY_PARITY(0)) + copy + wait.format("B", BY_PARITY("PARITY")),
        registers=".shared .align 16 .b8 data[16]; .shared .align 8 .b8 bar[8];",
    )
    for mode in MODES:
        sim = run(text.replace("PARITY", "1"), mode, 1, threads=1)
        assert sim.verdict == "clean", (mode, sim.findings)
    findings = run(text.replace("PARITY", "0"), "late", 1, threads=1).findings
    (told,) = (one for one in findings if "seen end before" in one["message"])
    assert (told["kind"], told["verdict"]) == ("missed-phase", "review")


def test_a_second_wait_for_a_state_says_itself_which_phase_it_means():
    wait = "try_wait.shared.b64 %p1, [%r2], %rd2"
    findings = second_wait(wait, wait, "late")
    assert findings and not [one for one in findings if "parity" in one["message"]], findings
