"""Records of rounds to spoil, and what the tests leave out."""

from __future__ import annotations

import json
import platform
import re
import shutil
import sys
from importlib.metadata import PackageNotFoundError, version

import pytest

from scripts.rounds import check as rounds_check
from scripts.rounds.model import Tank
from tests.rounds.recorded import FOLDER, numbered
from tests.rounds.rounds_kit import ROOT, SAID, make_tank, measure_all

WORDS = FOLDER / "said.json"


def words_of() -> list[str]:
    """Whose own words are among those of the commands: another release of them has others."""
    try:
        return [".".join(platform.python_version_tuple()[:2]), version("jsonschema")]
    except PackageNotFoundError:
        return []


@pytest.fixture(autouse=True)
def said_as_recorded(request, tmp_path_factory):
    """Every word that commands and check say in a test is the recorded one (`-n 0 --record-outcomes` writes it)."""
    SAID.clear()
    yield
    text = re.sub(rf"{re.escape(str(tmp_path_factory.getbasetemp()))}/[\w.-]+", "TMP", "".join(SAID))
    text = text.replace(sys.executable, "PYTHON").replace(str(ROOT), "ROOT")  # the one may lie in the other
    lines = [line for line in numbered(text).split("\n") if line]
    recorded = json.loads(WORDS.read_text()) if WORDS.is_file() else {}
    test = request.node.nodeid.removeprefix("tests/rounds/")
    if request.config.getoption("--record-outcomes"):
        recorded |= {"of": words_of(), test: lines}
        WORDS.write_text(json.dumps({key: recorded[key] for key in sorted(recorded) if recorded[key]}, indent=0) + "\n")
    elif recorded["of"] == words_of():
        assert lines == recorded.get(test, [])


@pytest.fixture(scope="module")
def no_plot():
    """The plot takes long to draw, and is tested with the history."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rounds_check, "plot_problems", lambda tank: [])
        yield


@pytest.fixture
def tank(tmp_path):
    return make_tank(tmp_path / "repo")


@pytest.fixture(scope="session")
def measured_once(tmp_path_factory):
    """An A/A round 4 and three candidates (5 deep, 6 same, 7 mixed) measured in one shared run."""
    return measure_all(make_tank(tmp_path_factory.mktemp("measured") / "repo"))


@pytest.fixture
def measured(measured_once, tmp_path):
    """A copy of the measured record, free to be spoilt."""
    shutil.copytree(measured_once.root, tmp_path / "repo")
    return Tank(tmp_path / "repo")
