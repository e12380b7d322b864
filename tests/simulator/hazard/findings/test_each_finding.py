"""Each kind of finding by the smallest kernel that has it: exactly that kind, at its line and against the other one, in
every mode; and the same kernel mended is clean."""

from __future__ import annotations

import numpy as np
import pytest

from tests.simulator.hazard.findings.finding_cases import BEGIN, EXPECT, INIT, LOAD, RACES, ROOM, TRY, Case
from tests.simulator.hazard.findings.misuse_cases import MISUSES
from tests.simulator.sim_kit import MODES, VERDICTS, Sim, body

CASES = RACES | MISUSES


def texts(case: Case) -> tuple[str, str]:
    """The kernel with the fault and the mended one."""
    lines = "\n".join((BEGIN, *case.lines))
    faulty = lines.replace("MEND", "")
    good = lines.replace("MEND", case.mend) if case.mended is None else faulty.replace(*case.mended)
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
def test_the_fault_is_named_and_its_mend_is_clean(name):
    case = CASES[name]
    faulty, good = texts(case)
    for mode in MODES:
        sim = run(good, mode, case)
        assert sim.verdict == "clean", (mode, sim.findings)
        sim = run(faulty, mode, case)
        if mode == "random":
            assert sim.kinds & (case.also | {case.kind}), (mode, sim.findings)
            continue
        assert sim.kinds == {case.kind}, (mode, sim.findings)
        finding = sim.findings[0]
        assert VERDICTS[finding["verdict"]] == case.verdict == sim.verdict
        assert finding["ptx_line"] == line_of(faulty, "//HERE") or not line_of(faulty, "//HERE"), (mode, finding)
        if line_of(faulty, "//OTHER"):
            assert finding["other_ptx_line"] == line_of(faulty, "//OTHER"), (mode, finding)


@pytest.mark.parametrize("mode", ["late", "reverse", "poison"])
def test_bytes_that_arrive_in_a_later_phase_than_they_were_issued_in(mode):
    """Phase 0 ends without them, since it did not expect them; phase 1 does, so that its count comes out even."""
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
        mended=("mbarrier.arrive.shared.b64 _, [%r4]; //", "mbarrier.arrive.expect_tx.shared.b64 _, [%r4], 16;"),
    )
    faulty, _ = texts(case)
    sim = run(faulty, mode, case)
    assert [(f["kind"], f["verdict"], f["ptx_line"]) for f in sim.findings] == [
        ("tx-count", 2, line_of(faulty, "//HERE"))
    ]
    assert "its 16 bytes arrive in phase 1" in sim.findings[0]["message"]
    assert "it was issued in phase 0" in sim.findings[0]["message"]


def test_a_deadlock_names_every_waiter_and_what_it_waits_for():
    text = body(BEGIN, INIT, "@!%p1 bar.sync 3, 96; @%p3 bra END; " + TRY.format(0) + "END:", registers=ROOM)
    sim = run(text, "eager", Case("deadlock", ()))
    assert sim.kinds == {"deadlock"}, sim.findings
    message = sim.findings[0]["message"]
    assert "CTA 0,0,0 warp 0 lanes ffffffff" in message, message
    assert "parity 0: in phase 0, 1 of 1 arrivals pending, tx 0" in message, message
    assert "CTA 0,0,0 warp 1 lanes ffffffff" in message, message


def test_a_finding_that_comes_again_is_counted():
    text = body(BEGIN, "@%p2 ld.shared.u32 %r3, [%r2];", "@%p2 ld.shared.u32 %r3, [%r2];", registers=ROOM)
    sim = run(text, "eager", Case("", (), launch={"grid": 5}))
    assert [(f["kind"], f["times"]) for f in sim.findings] == [("uninitialised-read", 5)] * 2


def test_a_place_that_meets_two_others_is_found_against_each():
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
