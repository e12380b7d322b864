"""Overlapping launches: each fault is found at both of its lines in every mode, and its correction is clean.  In modes
that delay stores, the values show the fault too."""

from __future__ import annotations

import pytest

from simulator.tests.sim_kit import MODES
from simulator.validation.mutants.overlapping_launches import CASES, TRIGGER, Case, run, text


def line_of(whole: str, mark: str) -> int:
    return next(i for i, line in enumerate(whole.splitlines(), 1) if line.endswith(mark))


@pytest.mark.parametrize("name", CASES)
def test_a_fault_between_launches_is_found_and_its_correction_is_clean(name):
    case = CASES[name]
    whole = text(case, True)
    for mode in MODES:
        sim, right = run(case, False, mode)
        assert sim.verdict == "clean" and (right or not case.shows), (mode, sim.findings)
        sim, right = run(case, True, mode)
        assert sim.kinds == {case.kind}, (mode, sim.findings)
        for finding in sim.findings:
            assert finding["verdict"] == case.verdict
            lines = (finding["ptx_line"], finding["other_ptx_line"])
            assert lines == (line_of(whole, "//HERE"), line_of(whole, "//OTHER")), (mode, finding)
            assert 0 < finding["other_launch"] < finding["launch"]
            assert finding["other_kernel"] in "abc"
        assert not (right and case.shows and mode in ("late", "reverse", "poison")), mode


@pytest.mark.parametrize("which", [0, 1, 2])
def test_the_finding_names_the_line_that_wrote_the_word(which):
    """Two lines of a kernel write neighbouring words; the next launch reads one of them."""
    words = ("[%rd1]", "[%rd1+4]", "[%rd1+8]")
    stores = tuple(f"@%p1 st.global.u32 {word}, %r2;" + " //OTHER" * (at == which) for at, word in enumerate(words))
    again = ("@%p1 st.global.u32 [%rd1+64], %r2;", "@%p1 st.global.u32 [%rd1+64], %r2;")
    load = f"@%p1 ld.global.u32 %r3, {words[which]}; //HERE"
    case = Case("", ((TRIGGER, *stores, *again), ("MEND", load)), shows=False)
    for mode in MODES:
        sim, _ = run(case, True, mode)
        whole = text(case, True)
        assert [(f["ptx_line"], f["other_ptx_line"]) for f in sim.findings] == [
            (line_of(whole, "//HERE"), line_of(whole, "//OTHER"))
        ], (mode, sim.findings)
        assert run(case, False, mode)[0].verdict == "clean"
