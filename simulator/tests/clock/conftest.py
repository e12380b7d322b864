"""Chips for the clock's tests: the H200 with fewer SMs, or with other parameter values."""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from simulator.tests.clock.clock_kit import H200, SMALL


@pytest.fixture(scope="session")
def small_chip(tmp_path_factory):
    """The H200 with fewer SMs and their share of L2, which fill quickly."""
    chip = json.loads(H200.read_text())
    for name, value in SMALL.items():
        chip["parameters"][name]["value"] = value
    path = tmp_path_factory.mktemp("chip") / "small.json"
    path.write_text(json.dumps(chip))
    return str(path)


@pytest.fixture
def chip(tmp_path: Path):
    """Makes a chip of four SMs with the given parameter values."""

    def make(**values: float | list) -> str:
        parameters = json.loads(H200.read_text())
        for name, value in {"sms": 4, "processing_cluster_sms": 4, **values}.items():
            parameters["parameters"][name]["value"] = value
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.json"
        path.write_text(json.dumps(parameters))
        return str(path)

    return make
