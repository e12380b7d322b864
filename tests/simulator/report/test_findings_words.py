"""All that findings say, case by case: a record, so that a word, a line or a number of one cannot change unseen.

After a change that is meant: `pytest -n 0 --record-commands tests/simulator/report/test_findings_words.py`, and read
the difference.
"""

from __future__ import annotations

import ctypes
import json
import re
from pathlib import Path

import pytest

from simulator.validation.mutants import overlapping_launches as launches
from tests.simulator.hazard.findings.test_each_finding import CASES, run, texts
from tests.simulator.sim_kit import Sim

RECORD = Path(__file__).with_name("findings_words.json")
MODES = ("eager", "late", "reverse", "poison")


def word(value: object) -> str:
    """A member's value, without addresses of this run."""
    text = str(list(value) if isinstance(value, ctypes.Array) else value)
    return re.sub(r"0x[0-9a-f]+|\b\d{9,}\b", "#", text)


def rows(sim: Sim) -> list[str]:
    """A finding a line, each of its members that is not empty by name."""
    return [
        "; ".join(f"{name} {word(value)}" for name, value in sorted(finding.items()) if value not in ("", 0))
        for finding in sim.findings
    ]


def told() -> dict[str, dict[str, list[str]]]:
    """Case -> what its findings are in eager mode, and in the others where that differs."""
    found: dict[str, dict[str, list[str]]] = {}
    for name, case in CASES.items():
        if name == "a load before the buffer":  # whose memory that is differs from run to run
            continue
        found[name] = {mode: rows(run(texts(case)[0], mode, case)) for mode in MODES}
    for name, launched in launches.CASES.items():
        found[f"launches: {name}"] = {mode: rows(launches.run(launched, True, mode)[0]) for mode in MODES}
    return {
        name: {mode: lines for mode, lines in modes.items() if mode == "eager" or lines != modes["eager"]}
        for name, modes in found.items()
    }


def test_findings_say_what_was_recorded(request: pytest.FixtureRequest):
    found = told()
    if request.config.getoption("record_commands"):
        RECORD.write_text(json.dumps(found, indent=1) + "\n")
    recorded = json.loads(RECORD.read_text())
    assert set(found) == set(recorded)
    for name in found:
        assert found[name] == recorded[name], name
