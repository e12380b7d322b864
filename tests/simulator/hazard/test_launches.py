"""Launches that overlap: each fault is found at both of its lines in every mode, and its mend is clean; where stores
are held back the values show it."""

from __future__ import annotations

import pytest

from scripts.evidence.mutants.launches import CASES, run, text
from tests.simulator.sim_kit import MODES, VERDICTS


def line_of(whole: str, mark: str) -> int:
    return next(i for i, line in enumerate(whole.splitlines(), 1) if line.endswith(mark))


@pytest.mark.parametrize("name", CASES)
def test_a_fault_between_launches_is_found_and_its_mend_is_clean(name):
    case = CASES[name]
    whole = text(case, True)
    for mode in MODES:
        sim, right = run(case, False, mode)
        assert sim.verdict == "clean" and (right or not case.shows), (mode, sim.findings)
        sim, right = run(case, True, mode)
        assert sim.kinds == {case.kind}, (mode, sim.findings)
        for finding in sim.findings:
            assert VERDICTS[finding["verdict"]] == case.verdict
            lines = (finding["ptx_line"], finding["other_ptx_line"])
            assert lines == (line_of(whole, "//HERE"), line_of(whole, "//OTHER")), (mode, finding)
            assert 0 < finding["other_launch"] < finding["launch"]
            assert finding["other_kernel"] in "abc"
        assert not (right and case.shows and mode in ("late", "reverse", "poison")), mode
