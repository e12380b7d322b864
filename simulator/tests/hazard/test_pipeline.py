"""A correct pipeline is clean in every mode; without any one of its synchronisations it is not."""

from __future__ import annotations

import pytest

from simulator.tests.sim_kit import MODES, RUN_ERROR
from simulator.validation.mutants.tma_pipeline import MUTANTS, TEXT, run


@pytest.mark.parametrize("mode", MODES)
def test_clean_in_every_mode(mode):
    for seed in range(8 if mode == "random" else 1):
        sim, status, right = run(TEXT, mode, seed)
        assert (status, sim.verdict, right) == (0, "clean", True), sim.findings


@pytest.mark.parametrize("name", MUTANTS)
@pytest.mark.parametrize("mode", ["eager", "late", "random"])
def test_mutants_are_reported(name, mode):
    before, after, kinds = MUTANTS[name]
    assert before in TEXT
    sim, status, _ = run(TEXT.replace(before, after), mode)
    assert sim.verdict in ("error", "review"), (status, name)
    assert sim.kinds & kinds, (name, sim.findings)
    for finding in sim.findings:
        assert finding["message"]
        assert finding["kernel"] == "pipeline"
        assert finding["ptx_line"] > 0 or finding["kind"] == "tx-count"


def test_a_deadlock_lists_who_waits_on_what():
    sim, status, _ = run(TEXT.replace("    mbarrier.arrive.shared::cta.b64 _, [%r15];", ""), "late")
    assert status == RUN_ERROR
    table = next(f["message"] for f in sim.findings if f["kind"] == "deadlock")
    assert "warp 0 lanes 00000001" in table
    assert "32 of 32 arrivals pending" in table
    assert "parity" in table
