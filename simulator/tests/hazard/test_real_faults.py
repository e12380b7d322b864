"""Faults from kernels of 2026: each is found in every mode, and the corrected kernel is clean."""

from __future__ import annotations

import pytest

from simulator.validation.mutants.real_faults import FAULTS, MODES


@pytest.mark.parametrize("name", FAULTS)
def test_a_fault_is_found_in_every_mode_and_its_absence_is_clean(name):
    fault = FAULTS[name]
    for mode in MODES:
        assert fault.run(False, mode) == ("clean", set()), mode
        verdict, kinds = fault.run(True, mode)
        assert verdict in ("error", "review"), mode
        accepted = (
            {fault.kind, "no-mbarrier"}
            if fault.kind in ("mbarrier-init-race", "read-after-write-race")
            else {fault.kind}
        )
        assert kinds & accepted, (mode, kinds)
