"""Rounds that the clock judges: verdicts and refusals."""

from __future__ import annotations

import argparse
import gzip
import json

import pytest

from scripts.rounds import modelled
from scripts.rounds.commands import WRITING, parser
from scripts.rounds.model import RoundError, Tank
from scripts.rounds.pages import round_page

READING = {"results", "show", "check", "render", "rerun"}  # they write nothing, or only pages
SHAPES = ("256x4096x7168", "256x3072x4096")


def model(*ratios, error=10.0):
    shapes = {shape: {"ratio": ratio} for shape, ratio in zip(SHAPES, ratios, strict=True)}
    return {"shapes": shapes, "geomean": (ratios[0] * ratios[1]) ** 0.5, "error_percent": error}


@pytest.mark.parametrize(
    ("ratios", "state", "reason"),
    [
        ((0.8, 0.85), "adopted", "beyond the model's error, 10.0 %"),
        ((0.9, 0.9), "inconclusive", "within the model's error"),  # a gain that equals the error
        ((0.95, 0.99), "inconclusive", "within the model's error"),
        ((1.0, 1.0), "rejected", "no gain"),
        ((0.6, 1.02), "rejected", "over 1.01"),
    ],
)
def test_a_gain_within_the_models_error_decides_nothing(ratios, state, reason):
    found = modelled.judge(model(*ratios))
    assert found[0] == state
    assert reason in found[1]


def times(**changes):
    document = {
        "chip_sha256": "1" * 64, "command": "x", "error": {"percent": 10.9, "source": "y"},
        "commits": {"a": "1", "b": "2"}, "times": {name: dict.fromkeys(SHAPES, 2.0) for name in "ab"},
    }  # fmt: skip
    return json.dumps(document | changes).encode()


@pytest.mark.parametrize(
    "changes",
    [
        {"times": {}},
        {"times": {"a": {SHAPES[0]: 0}, "b": {SHAPES[0]: 1}}},
        {"error": {"percent": 0, "source": "y"}},
        {"error": {"percent": 10.9, "source": ""}},
        {"commits": {"a": "1"}},
        {"chip_sha256": ""},
    ],
)
def test_times_without_an_error_a_chip_or_commits_are_refused(changes):
    assert modelled.load_times(times(), "times")
    with pytest.raises(RoundError):
        modelled.load_times(times(**changes), "times")


@pytest.fixture
def record(tmp_path):
    """A round that the clock judged, and the record that it is in."""
    tank = Tank(tmp_path)
    tank.runs_dir.mkdir(parents=True)
    fast = {"a": dict.fromkeys(SHAPES, 2.0), "b": dict.fromkeys(SHAPES, 1.0)}
    modelled.times_path(tank, "run").write_bytes(gzip.compress(times(times=fast)))
    sides = {"base": {"variant": "a", "commit": "1"}, "candidate": {"variant": "b", "commit": "2"}}
    data = {
        "number": 9,
        "shapes": list(SHAPES),
        "evidence": modelled.EVIDENCE,
        "rule": {"name": modelled.RULE},
        **sides,
    }
    data["model"] = modelled.model_of(tank, data, "run", "0" * 40)
    state, reason = modelled.judge(data["model"])
    return tank, data | {"verdict": {"state": state, "reason": reason}}


def test_a_round_as_its_run_gives_it_has_no_problems(record):
    assert modelled.problems(*record) == []


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        ({"evidence": "simulated"}, "must go together"),
        ({"rule": {"name": "unmeasured-v1"}}, "expected modelled-v1"),
        ({"verdict": {"state": "inconclusive", "reason": "x"}}, "the rule gives adopted"),
        ({"base": {"variant": "a", "commit": "3"}}, "base.commit"),
    ],
)
def test_a_claim_that_the_run_does_not_support_is_reported(record, change, problem):
    tank, data = record
    assert any(problem in found for found in modelled.problems(tank, data | change))


def test_a_changed_ratio_is_reported(record):
    tank, data = record
    data["model"]["shapes"][SHAPES[0]]["ratio"] = 0.4
    assert any("model.shapes" in found for found in modelled.problems(tank, data))


def test_a_second_judgement_is_what_its_run_gives(record):
    tank, data = record
    judged = {key: data[key] for key in ("shapes", "base", "candidate", "number")}
    judged["simulation"] = {"prediction_commit": "0" * 40}
    state, reason = modelled.judge(data["model"])
    judged["judged_again"] = {"date": "2026-11-22", "state": state, "reason": reason, "model": data["model"]}
    assert modelled.again_problems(tank, judged) == []
    assert "2026-11-22" in modelled.again_text(judged) and reason in modelled.again_text(judged)
    judged["judged_again"]["state"], judged["base"] = "rejected", {"variant": "a", "commit": "2"}
    wrong = modelled.again_problems(tank, judged)
    assert "is not what runs/run gives" in wrong[0] and "base.commit is not the one" in wrong[1]


def test_the_times_of_a_run_and_their_mean_stand_in_the_page(record):
    _, data = record
    wanted = {SHAPES[0]: [0.4, 0.6], SHAPES[1]: [0.6, 0.7]}
    lines = modelled.block(data | {"prediction": {"shapes": wanted}}).splitlines()
    mean = data["model"]["geomean"]
    assert "[run](../../runs/run.model.json.gz)" in lines[0] and mean == 0.5
    cells = [[cell.strip() for cell in line.strip("|").split("|")] for line in lines if line.startswith("|")]
    assert cells[2:] == [
        ["256 4096 7168", "2.00", "1.00", "0.5000", "0.400 to 0.600, inside"],
        ["256 3072 4096", "2.00", "1.00", "0.5000", "0.600 to 0.700, outside"],
        ["geomean", "", "", "0.5000", ""],
    ]


def test_a_table_of_rounds_says_where_a_ratio_is_from(record):
    _, data = record
    assert round_page.measured_text(data | {"measurement": None}) == "0.5000 (simulated)"
    figures = [{"after_us": 1.0, "before_us": 2.0}]
    inherited = {"measurement": None, "inherited": {"figures": figures}}
    assert round_page.measured_text(inherited) == "0.500"
    assert round_page.measured_text({"measurement": None}) == round_page.NO_DATA


def test_every_command_that_writes_puts_back_what_it_wrote_when_it_refuses():
    (commands,) = [action for action in parser()._actions if isinstance(action, argparse._SubParsersAction)]
    assert set(commands.choices) - set(WRITING) == READING and set(WRITING) <= set(commands.choices)
