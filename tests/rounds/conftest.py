"""Small records of rounds for the tests: fresh, and measured."""

from __future__ import annotations

import shutil

import pytest

from scripts.rounds import check as rounds_check
from scripts.rounds.model import Tank
from tests.rounds.rounds_kit import make_tank, measure_all


@pytest.fixture(scope="module")
def no_plot():
    """Skips the plot, which takes long to draw and is tested with the history."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rounds_check, "plot_problems", lambda tank: [])
        yield


@pytest.fixture(scope="session")
def tank_once(tmp_path_factory):
    return make_tank(tmp_path_factory.mktemp("tank") / "repo")


@pytest.fixture
def tank(tank_once, tmp_path):
    """A copy of a fresh record."""
    shutil.copytree(tank_once.root, tmp_path / "repo")
    return Tank(tmp_path / "repo")


@pytest.fixture(scope="session")
def measured_once(tmp_path_factory):
    """An A/A round 4 and three candidates (5 deep, 6 same, 7 mixed) measured in one shared run."""
    return measure_all(make_tank(tmp_path_factory.mktemp("measured") / "repo"))


@pytest.fixture
def measured(measured_once, tmp_path):
    """A copy of the measured record, free to be spoilt."""
    shutil.copytree(measured_once.root, tmp_path / "repo")
    return Tank(tmp_path / "repo")
