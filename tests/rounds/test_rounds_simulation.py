"""Rounds without a chip: counts of the simulator in the place of times, and planted faults that `check` must find."""

from __future__ import annotations

import json

import pytest

from scripts.rounds import commands as rounds
from scripts.rounds import render as rounds_render
from tests.rounds.rounds_kit import SHAPES, commit, edit, git, make_tank, problems_of, run, write_prose

VIEWS = ("--performance", "0.9: halved B", "--practicality", "0.97: known", "--theory", "0.88: halved B")


def counters(right=True):
    def of(scale):
        return {shape: {"tensor_cycles": 100, "bytes": 1000 * scale, "none": 0} for shape in SHAPES}

    verdict = {"late": {"right": True, "verdict": "clean"}}
    wrong = {"late": {"right": right, "verdict": "clean"}}
    return {
        "command": "count",
        "counters": {"one": of(4), "two": of(3)},
        "correct": {"one": verdict, "two": wrong},
    }


@pytest.fixture
def predicted(tmp_path):
    """A committed prediction of round 4."""
    tank = make_tank(tmp_path / "repo")
    new = ("new", "pair", "--backend", "blackwell", "--base", "one", "--candidate", "two", "--unmeasured")
    assert run(tank, *new) == 0
    write_prose(tank, 4)
    assert run(tank, "predict", 4, "--all", "0.8:0.9", *VIEWS) == 0
    commit(tank.root, "predict 4")
    return tank


def simulate(tank, data, name="counted"):
    path = tank.root.parent / "counters.json"
    path.write_text(json.dumps(data))
    return run(tank, "simulate", 4, "--counters", path, "--run", name)


def close(tank):
    state = ("close", 4, "--state", "adopted", "--evidence", "simulated")
    assert run(tank, *state, "--reason", "three quarters of the bytes", "--why", "half of B each") == 0
    edit(tank, 4, lambda data: data.update(reopen_if="a B200 measures it"))
    rounds.render(tank)
    return commit(tank.root, "count 4")


def test_counts_give_ratios_and_the_round_ends_adopted_unmeasured(predicted):
    assert simulate(predicted, counters()) == 0
    close(predicted)
    assert problems_of(predicted) == ""
    data = predicted.get(4)
    assert data["evidence"] == "simulated" and data["measurement"] is None
    entry = data["simulation"]["shapes"][SHAPES[0]]
    assert entry["bytes"] == {"base": 4000, "candidate": 3000, "ratio": 0.75}
    assert entry["none"]["ratio"] is None
    assert rounds_render.state_text(data) == "adopted (unmeasured)"
    text = (predicted.find(4) / "round.md").read_text()
    assert "4,000 to 3,000 (0.750)" in text and "They are no times" in text


def test_counts_are_refused_until_the_prediction_is_committed(predicted, capsys):
    assert run(predicted, "predict", 4, "--all", "0.7:0.9") == 0
    assert simulate(predicted, counters()) == 1
    assert "in no commit" in capsys.readouterr().err
    commit(predicted.root)
    assert simulate(predicted, counters()) == 0


def test_counts_of_a_variant_with_wrong_results_are_refused(predicted, capsys):
    assert simulate(predicted, counters(right=False)) == 1
    assert "two gives wrong results" in capsys.readouterr().err


def test_a_round_without_a_chip_takes_no_times_and_one_with_a_chip_no_counts(predicted, capsys):
    assert run(predicted, "measure", 4, "--samples", "x", "--env", "y") == 1
    assert "without times" in capsys.readouterr().err
    new = ("new", "fast", "--backend", "hopper", "--base", "one", "--candidate", "two", "--noise-round", 3)
    assert run(predicted, *new) == 0
    assert run(predicted, "simulate", 5, "--counters", "x", "--run", "y") == 1
    assert "unmeasured-v1" in capsys.readouterr().err


def test_a_hopper_round_cannot_be_of_the_rule_for_no_chip(predicted):
    edit(predicted, 4, lambda data: data.update(backend="hopper"))
    assert "unmeasured-v1 is for the backend without a chip" in problems_of(predicted)


def spoil_ratio(tank):
    edit(tank, 4, lambda data: data["simulation"]["shapes"][SHAPES[0]]["bytes"].update(ratio=0.5))


def spoil_counters(tank):
    path = tank.runs_dir / "counted" / "counters.json"
    path.write_text(path.read_text().replace("3000", "2000"))


def spoil_prediction(tank):
    edit(tank, 4, lambda data: data["prediction"]["shapes"].update({SHAPES[0]: [0.7, 0.8]}))


def drop_simulation(tank):
    edit(tank, 4, lambda data: data.pop("simulation"))


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (spoil_ratio, "simulation.shapes is not what runs/counted gives"),
        (spoil_counters, "simulation.counters_sha256 is not what runs/counted gives"),
        (spoil_prediction, "simulation.prediction_commit is"),
        (drop_simulation, "evidence simulated and a simulation come together"),
    ],
)
def test_a_spoilt_simulation_is_found(predicted, spoil, message):
    assert simulate(predicted, counters()) == 0
    close(predicted)
    spoil(predicted)
    assert message in problems_of(predicted)


def test_counts_committed_before_the_prediction_are_found(predicted):
    # The same counters stand in a commit that does not follow the prediction's.
    root = predicted.root
    start, head = git(root, "rev-parse", "HEAD~1"), git(root, "branch", "--show-current")
    git(root, "checkout", "-q", "-b", "early", start)
    path = predicted.runs_dir / "counted" / "counters.json"
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(counters()))
    commit(root, "counts first")
    git(root, "checkout", "-q", head)
    git(root, "merge", "-q", "-m", "merge", "early")
    assert simulate(predicted, counters()) == 0
    close(predicted)
    assert "does not come after the prediction" in problems_of(predicted)
