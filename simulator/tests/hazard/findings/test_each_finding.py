"""Each kind of finding in its smallest kernel: found in every mode, alone and at the right lines; the corrected kernel
is clean."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.tests.hazard.findings.finding_cases import BEGIN, EXPECT, INIT, LOAD, RACES, ROOM, TRY, Case
from simulator.tests.hazard.findings.misuse_cases import MISUSES
from simulator.tests.sim_kit import MODES, Sim, body

CASES = RACES | MISUSES


def texts(case: Case) -> tuple[str, str]:
    """The faulty kernel and the corrected one."""
    lines = "\n".join((BEGIN, *case.lines))
    faulty = lines.replace("FIX", "")
    good = lines.replace("FIX", case.fix) if case.fixed is None else faulty.replace(*case.fixed)
    good = good.replace("st.ORDERED", "st.release").replace("ld.ORDERED", "ld.acquire")
    registers = ROOM + " .local .align 8 .b8 depot[16];"
    make = lambda text: body("mov.u64 %rd4, cell;", *text.split("\n"), registers=registers)  # noqa: E731
    return make(faulty), make(good)


def run(text: str, mode: str, case: Case) -> Sim:
    sim = Sim(text, mode, limit=2_000_000)
    sim.launch("k", sim.buffer(np.arange(1024, dtype=np.uint32)), **({"block": 64} | case.launch))
    return sim


def line_of(text: str, mark: str) -> int:
    return next((i for i, line in enumerate(text.splitlines(), 1) if line.rstrip().endswith(mark)), 0)


@pytest.mark.parametrize("name", CASES)
def test_the_fault_is_found_and_its_correction_is_clean(name):
    case = CASES[name]
    faulty, good = texts(case)
    for mode in MODES:
        sim = run(good, mode, case)
        assert sim.verdict == "clean", (mode, sim.findings)
        sim = run(faulty, mode, case)
        if mode == "random":
            assert sim.kinds & (case.also | {case.kind}), (mode, sim.findings)
            assert sim.verdict == case.verdict, (mode, sim.findings)
            continue
        assert sim.kinds == {case.kind}, (mode, sim.findings)
        finding = sim.findings[0]
        assert finding["verdict"] == case.verdict == sim.verdict
        assert finding["ptx_line"] == line_of(faulty, "//HERE") or not line_of(faulty, "//HERE"), (mode, finding)
        if line_of(faulty, "//OTHER"):
            assert finding["other_ptx_line"] == line_of(faulty, "//OTHER"), (mode, finding)


@pytest.mark.parametrize("mode", ["late", "reverse", "poison"])
def test_bytes_that_arrive_in_a_later_phase_than_their_issue(mode):
    """Phase 0 does not expect them and completes without them; phase 1 expects them, so its count balances."""
    lines = (
        INIT,
        LOAD + " //HERE",
        "@%p2 mbarrier.arrive.shared.b64 _, [%r4]; //",
        TRY.format(0),
        EXPECT.format(16),
        TRY.format(1),
    )
    case = Case(
        "tx-count",
        lines,
        launch={"block": 1},
        fixed=("mbarrier.arrive.shared.b64 _, [%r4]; //", "mbarrier.arrive.expect_tx.shared.b64 _, [%r4], 16;"),
    )
    faulty, _ = texts(case)
    sim = run(faulty, mode, case)
    assert [(f["kind"], f["verdict"], f["ptx_line"]) for f in sim.findings] == [
        ("tx-count", "error", line_of(faulty, "//HERE"))
    ]
    for part in ("16 bytes", "phase 1", "phase 0"):
        assert part in sim.findings[0]["message"]


def test_a_deadlock_names_every_waiter_and_what_it_waits_for():
    text = body(BEGIN, INIT, "@!%p1 bar.sync 3, 96; @%p3 bra END; " + TRY.format(0) + "END:", registers=ROOM)
    sim = run(text, "eager", Case("deadlock", ()))
    assert sim.kinds == {"deadlock"}, sim.findings
    message = sim.findings[0]["message"]
    for part in ("CTA 0,0,0 warp 0 lanes ffffffff", "1 of 1 arrivals pending", "CTA 0,0,0 warp 1 lanes ffffffff"):
        assert part in message, message


def test_a_repeated_finding_is_counted():
    text = body(BEGIN, "@%p2 ld.shared.u32 %r3, [%r2];", "@%p2 ld.shared.u32 %r3, [%r2];", registers=ROOM)
    sim = run(text, "eager", Case("", (), launch={"grid": 5}))
    assert [(f["kind"], f["times"]) for f in sim.findings] == [("uninitialised-read", 5)] * 2


def test_one_access_that_races_with_two_gives_two_findings():
    text = body(
        BEGIN,
        "@%p2 st.shared.u32 [%r2], %r1;",
        "@%p2 st.shared.u32 [%r2+64], %r1;",
        "@!%p3 bra END; mov.u32 %r5, 0; L: mad.lo.u32 %r7, %r5, 64, %r2;",
        "ld.shared.u32 %r6, [%r7];",
        "add.u32 %r5, %r5, 1; setp.lt.u32 %p4, %r5, 2; @%p4 bra L; END:",
        registers=ROOM,
    )
    sim = run(text, "eager", Case("", ()))
    found = sorted((f["kind"], f["ptx_line"], f["other_ptx_line"], f["times"]) for f in sim.findings)
    assert found == [("read-after-write-race", 13, 10, 1), ("read-after-write-race", 13, 11, 1)]
