"""Rounds without a chip: simulated counts instead of times, and planted faults that `check` must find."""

from __future__ import annotations

import gzip
import json

import pytest

from scripts.rounds import commands as rounds
from scripts.rounds.model import read_bytes
from scripts.rounds.pages import round_page
from scripts.rounds.simulated import simulation
from tests.rounds.rounds_kit import SHAPES, commit, edit, git, make_tank, problems_of, run, write_prose, write_run

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


def test_counts_give_ratios_and_the_round_ends_adopted_unmeasured(predicted, capsys):
    assert simulate(predicted, counters()) == 0
    close(predicted)
    assert problems_of(predicted) == ""
    data = predicted.get(4)
    assert data["evidence"] == "simulated" and data["measurement"] is None
    entry = data["simulation"]["shapes"][SHAPES[0]]
    assert entry["bytes"] == {"base": 4000, "candidate": 3000, "ratio": 0.75}
    assert entry["none"]["ratio"] is None
    assert round_page.state_text(data) == "adopted (unmeasured)"
    assert run(predicted, "show", 4) == 0
    assert "4,000 to 3,000 (0.750)" in capsys.readouterr().out


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
    assert "unmeasured-v1 is for blackwell or geforce, not for hopper" in problems_of(predicted)


def spoil_ratio(tank):
    edit(tank, 4, lambda data: data["simulation"]["shapes"][SHAPES[0]]["bytes"].update(ratio=0.5))


def spoil_counters(tank):
    path = simulation.counters_path(tank, "counted")
    path.write_bytes(gzip.compress(read_bytes(path).replace(b"3000", b"2000")))


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
        (drop_simulation, "evidence simulated and a simulation must go together"),
    ],
)
def test_a_spoilt_simulation_is_found(predicted, spoil, message):
    assert simulate(predicted, counters()) == 0
    close(predicted)
    spoil(predicted)
    assert message in problems_of(predicted)


def test_counts_committed_before_the_prediction_are_found(predicted):
    # The same counters are in a commit that does not follow the prediction's.
    root = predicted.root
    start, head = git(root, "rev-parse", "HEAD~1"), git(root, "branch", "--show-current")
    git(root, "checkout", "-q", "-b", "early", start)
    path = predicted.runs_dir / "counted" / "counters.json"  # the older name of a run's counters
    path.parent.mkdir(parents=True)
    path.write_text(json.dumps(counters()))
    commit(root, "counts first")
    git(root, "checkout", "-q", head)
    git(root, "merge", "-q", "-m", "merge", "early")
    assert simulate(predicted, counters()) == 0
    close(predicted)
    assert "does not come after the prediction" in problems_of(predicted)


# --- the clock --------------------------------------------------------------------------------------------------


def times_of(tank, candidate=0.8, **changes):
    """A file of simulated times of the commits `v0` and `deep`; the candidate is faster."""
    path = tank.root.parent / "times.json"
    times = {"one": dict.fromkeys(SHAPES, 10.0), "two": dict.fromkeys(SHAPES, 10.0 * candidate)}
    times["two"][SHAPES[1]] = 9.5
    commits = {"one": git(tank.root, "rev-parse", "v0"), "two": git(tank.root, "rev-parse", "deep")}
    record = {"chip_sha256": "1" * 64, "command": "time it", "error": {"percent": 4.5, "source": "the page"}}
    path.write_text(json.dumps(record | {"commits": commits, "times": times} | changes))
    return path


def refused(tank, capsys, *words):
    """The reason that a command gives when it refuses."""
    assert run(tank, *words) == 1
    return capsys.readouterr().err


def test_a_round_that_the_clock_judges_from_draft_to_check(tmp_path, capsys):
    tank = make_tank(tmp_path / "repo")
    new = ("new", "pair", "--backend", "blackwell", "--base", "one", "--candidate", "two", "--modelled")
    assert run(tank, *new) == 0
    write_prose(tank, 4)
    take = ("model", 4, "--times", times_of(tank), "--run", "timed", "--why", "half of B each")
    assert "only a predicted round" in refused(tank, capsys, *take)
    assert run(tank, "predict", 4, "--all", "0.75:0.85", *VIEWS) == 0
    assert "in no commit" in refused(tank, capsys, *take)
    commit(tank.root, "predict 4")
    assert "only a round that was judged on counts" in refused(tank, capsys, "again", 4, *take[2:6])
    assert run(tank, *take) == 0
    assert "only a predicted round" in refused(tank, capsys, *take)
    edit(tank, 4, lambda data: data.update(reopen_if="a B200 measures it"))
    rounds.render(tank)
    commit(tank.root, "time 4")
    assert problems_of(tank) == "" and run(tank, "check") == 0
    data = tank.get(4)
    # Three shapes at 0.8 and one at 0.95: 0.8351, a gain of more than the model's 4.5 %.
    assert data["model"]["geomean"] == pytest.approx((0.8**3 * 0.95) ** 0.25, abs=1e-6)
    assert (data["state"], data["evidence"]) == ("adopted", "timed:model")
    assert [data[side]["commit"] for side in ("base", "candidate")] == [
        git(tank.root, "rev-parse", name) for name in ("v0", "deep")
    ]
    assert "**adopted (by the clock)**" in (tank.find(4) / "round.md").read_text()
    edit(tank, 4, lambda data: data["model"].update(geomean=0.7, error_percent=50.0))
    edit(tank, 4, lambda data: data["base"].update(commit="0" * 40))
    problems = problems_of(tank)
    for wrong in ("model.geomean is not", "model.error_percent is not", "base.commit is not the one"):
        assert wrong in problems
    assert run(tank, "check") == 1
    edit(tank, 4, lambda data: data["rule"].update(name="unmeasured-v1"))
    edit(tank, 4, lambda data: data["model"].update(prediction_commit="0" * 40))
    problems = problems_of(tank)
    assert "expected modelled-v1" in problems and "model.prediction_commit is 000000000" in problems
    edit(tank, 4, lambda data: data.pop("model"))
    assert "evidence timed:model and a model's times must go together" in problems_of(tank)


def test_a_round_that_counts_judged_is_judged_again_by_the_clock(predicted, capsys):
    again = ("again", 4, "--run", "timed", "--times")
    assert "only a round that was judged on counts" in refused(predicted, capsys, *again, times_of(predicted))
    of = ("--base-commit", "v0", "--candidate-commit", "deep")
    path = predicted.root.parent / "counters.json"
    path.write_text(json.dumps(counters()))
    counted = ("simulate", 4, "--counters", path, "--run", "counted")
    assert "not a commit of this repository" in refused(predicted, capsys, *counted, "--base-commit", "none")
    assert run(predicted, *counted, *of) == 0
    close(predicted)
    for _ in range(2):  # a second time nothing is added
        assert run(predicted, *again, times_of(predicted)) == 0
    commit(predicted.root, "again 4")
    assert problems_of(predicted) == ""
    page, found = (predicted.find(4) / "round.md").read_text(), predicted.get(4)
    assert (found["state"], found["judged_again"]["state"]) == ("adopted", "adopted")
    assert page.count("judged again on the simulator's clock") == 1 and "**adopted (unmeasured)**" in page
    other = refused(predicted, capsys, *again, times_of(predicted, candidate=0.9))
    assert "run timed exists with other times" in other
    edit(predicted, 4, lambda data: data["judged_again"].update(reason="it is the faster one by far"))
    edit(predicted, 4, lambda data: data["candidate"].update(commit="0" * 40))
    problems = problems_of(predicted)
    assert "judged_again is not what runs/timed gives" in problems
    assert "judged_again: candidate.commit is not the one" in problems
    edit(predicted, 4, lambda data: data.pop("simulation"))
    assert "judged_again is for a round that was judged on counts" in problems_of(predicted)


def test_commands_refuse_what_cannot_be(measured, capsys):
    """Each refusal names its reason and leaves the record as it was."""
    samples, env = write_run(measured)
    other = measured.root.parent / "other.json"
    other.write_text("{")
    new = ("new", "idea", "--backend", "hopper", "--base", "v0", "--candidate", "deep")
    files = ("--samples", samples, "--env", env)
    before = git(measured.root, "status", "--porcelain")
    for words, reason in (
        ((*new, "--number", 5), "round 5 exists"),
        (("new", "deep", *new[2:]), "slug 'deep' is taken"),
        ((*new[:-1], "v0"), "one variant, 'v0'"),
        ((*new, "--parent", 77), "round 77: expected one folder"),
        ((*new, "--noise-round", 77), "round 77: expected one folder"),
        (("new", "idea", "--backend", "cpu", *new[4:], "--noise-round", 4), "of backend hopper"),
        (("predict", 5, "--all", "0.9:1.0"), "round 5 is measured"),
        (("measure", 5, *files), "only a predicted round can be measured"),
        (("measure", 5, *files, "--base", "other"), "only a predicted round can be measured"),
        (("measure", 5, "--samples", samples, "--env", other), "only a predicted round can be measured"),
        (("simulate", 5, "--counters", other, "--run", "x"), "rule unmeasured-v1"),
        (("model", 5, "--times", other, "--run", "x"), "rule modelled-v1"),
        (("again", 5, "--times", other, "--run", "x"), "only a round that was judged on counts"),
        (("close", 5, "--state", "superseded"), "give --by N"),
        (("close", 5, "--state", "superseded", "--by", 77), "round 77: expected one folder"),
        (("close", 5, "--state", "blocked"), "give --reason"),
        (("close", 5, "--state", "blocked", "--reason", "no chip"), "cannot go from adopted to blocked"),
        (("rerun", 4), "records no command"),
        (("rerun", 1), "has no measurement to repeat"),
    ):
        assert reason in refused(measured, capsys, *words), words
    assert git(measured.root, "status", "--porcelain") == before
    assert run(measured, *new, "--shapes", "1x2x64,3x4x64", "--reconstructed", "deep: it was made in a hurry") == 0
    assert "is reconstructed" in refused(measured, capsys, "predict", 8, "--all", "0.9:1.0")
    assert run(measured, *new[:1], "other", *new[2:], "--shapes", "1,2x3x64;4x5x64", "--title", "Of lists") == 0
    for words, reason in (
        (("--shape", "1x2x3=0.9:1.0"), "not a shape of this round"),
        (("--shape", "4x5x64=0.9:1.0", "--theory", "0.9"), "no ratio interval for 1,2x3x64"),
        (("--all", "0.9:x"), "expected LOW:HIGH"),
        (("--all", "0.9:0.8", "--theory", "0.9: so", "--practicality", "x: so"), "expected 'RATIO: reason'"),
        (("--all", "0.9:0.8", *VIEWS), "low 0.9 is above high 0.8"),
    ):
        assert reason in refused(measured, capsys, "predict", 9, *words), words
    assert measured.get(8)["reconstructed"] == {
        "from": git(measured.root, "rev-parse", "deep"),
        "why": "it was made in a hurry",
    }
    assert (measured.get(8)["shapes"], measured.get(9)["shapes"]) == (["1x2x64", "3x4x64"], ["1,2x3x64", "4x5x64"])
    assert (measured.get(8)["title"], measured.get(9)["title"]) == ("Idea", "Of lists")
