"""What every launch of these tests takes is compared with a record, so that a change shows all that it moves.

After a change that is meant: `pytest -n 0 --record-times tests/simulator/clock`, and read the record's difference.
"""

from __future__ import annotations

import json
from pathlib import Path

import pytest

from scripts.common.ptxsim import Sim
from tests.simulator.clock.clock_kit import H200, SMALL
from tests.simulator.durations import summary

RECORD = Path(__file__).resolve().parent / "recorded_times.json"


@pytest.fixture(scope="session")
def recorded(request: pytest.FixtureRequest):
    """Test -> what its launches took, as it was recorded."""
    if not request.config.getoption("record_times"):
        return json.loads(RECORD.read_text())
    made: dict[str, list[str]] = {}

    def save() -> None:
        kept = json.loads(RECORD.read_text()) if RECORD.exists() else {}
        lines = (f"{json.dumps(name)}: {json.dumps(took)}" for name, took in sorted((kept | made).items()))
        RECORD.write_text("{\n" + ",\n".join(lines) + "\n}\n")

    request.addfinalizer(save)
    return made


@pytest.fixture(autouse=True)
def launches_take_what_was_recorded(
    request: pytest.FixtureRequest, recorded: dict, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
):
    """Holds each timed launch of a test that passes against the record."""
    took: list[str] = []
    launch = Sim.launch

    def timed(sim: Sim, *arguments, **options) -> int:
        status = launch(sim, *arguments, **options)
        if status == 0 and sim.time is not None:
            took.append(summary(sim, tmp_path))
        return status

    monkeypatch.setattr(Sim, "launch", timed)
    yield
    name = f"{request.node.path.stem}::{request.node.name}"
    if request.config.getoption("record_times"):
        if took:
            recorded[name] = took
    else:
        assert took == recorded.get(name, []), "another time than was recorded; see this folder's conftest.py"


@pytest.fixture(scope="session")
def small_chip(tmp_path_factory):
    """The H200 with fewer SMs, and their share of L2: quick to fill."""
    chip = json.loads(H200.read_text())
    for name, value in SMALL.items():
        chip["parameters"][name]["value"] = value
    path = tmp_path_factory.mktemp("chip") / "small.json"
    path.write_text(json.dumps(chip))
    return str(path)


@pytest.fixture
def chip(tmp_path: Path):
    """Makes a chip of four SMs with some values of its own."""

    def make(**values: float | list) -> str:
        parameters = json.loads(H200.read_text())
        for name, value in {"sms": 4, "processing_cluster_sms": 4, **values}.items():
            parameters["parameters"][name]["value"] = value
        path = tmp_path / f"{len(list(tmp_path.iterdir()))}.json"
        path.write_text(json.dumps(parameters))
        return str(path)

    return make
