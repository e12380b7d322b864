"""The timeline of a simulated call, drawn."""

from __future__ import annotations

import json

import pytest

from scripts.bench import timeline
from simulator.tests.sim_kit import Sim, body

pytest.importorskip("matplotlib")


def test_each_warp_of_a_trace_has_a_row_in_the_drawing(tmp_path):
    sim = Sim(body("bar.sync 0;"), chip="h200", timeline=True)
    assert sim.launch("k", 0, block=64) == 0
    trace = json.loads(sim.report(tmp_path / "trace.json", "sim_print_timeline"))
    assert list(timeline.rows(trace)) == ["CTA 0, warp 0", "CTA 0, warp 1"]
    timeline.draw(trace, "simulated", tmp_path / "drawn.png")
    assert (tmp_path / "drawn.png").read_bytes().startswith(b"\x89PNG")
