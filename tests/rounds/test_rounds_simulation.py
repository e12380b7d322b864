"""Rounds without a chip, judged by the clock; and what the commands refuse."""

from __future__ import annotations

import json

import pytest

from scripts.rounds import commands as rounds
from tests.rounds.rounds_kit import SHAPES, commit, edit, git, make_tank, problems_of, run, write_prose, write_run

VIEWS = ("--performance", "0.9: halved B", "--practicality", "0.97: known", "--theory", "0.88: halved B")


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
        (("model", 5, "--times", other, "--run", "x"), "rule modelled-v1"),
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
