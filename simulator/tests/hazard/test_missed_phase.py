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


def test_a_second_wait_for_one_parity_is_told():
    """The second copy's bytes are awaited by the parity of the first phase."""
    copy = (
        "mbarrier.arrive.expect_tx.shared.b64 _, [%r2], 16;"
        " cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r3], [%rd1], 16, [%r2];"
    )
    wait = "{0}: mbarrier.try_wait.parity.shared.b64 %p1, [%r2], {1}; @!%p1 bra {0}; ld.shared.u32 %r4, [%r3];"
    text = body(
        "mov.u32 %r2, bar; mov.u32 %r3, data; ld.param.u64 %rd1, [p];",
        "mbarrier.init.shared.b64 [%r2], 1; fence.mbarrier_init.release.cluster;",
        copy + wait.format("A", 0) + "fence.proxy.async.shared::cta;",
        copy + wait.format("B", "PARITY"),
        registers=".shared .align 16 .b8 data[16]; .shared .align 8 .b8 bar[8];",
    )
    for mode in MODES:
        sim = run(text.replace("PARITY", "1"), mode, 1, threads=1)
        assert sim.verdict == "clean", (mode, sim.findings)
    sim = run(text.replace("PARITY", "0"), "late", 1, threads=1)
    (told,) = (one for one in sim.findings if "seen end before" in one["message"])
    assert (told["kind"], told["verdict"]) == ("missed-phase", "review") and "phase 0" in told["message"]
