"""Forged, mistaken or missing origins of a measurement are refused, and a refusal leaves nothing behind."""

from __future__ import annotations

import json
import shutil

import pytest

from scripts.rounds import origin, steps
from scripts.rounds.model import Tank
from tests.rounds.rounds_kit import (
    commit,
    edit,
    git,
    kernel_digest,
    make_tank,
    measure_all,
    new_predicted,
    problems_of,
    run,
    write_json,
    write_run,
)

pytestmark = pytest.mark.usefixtures("no_plot")


@pytest.fixture(scope="module")
def once(tmp_path_factory):
    """An A/A round 4, a measured round 5 and a predicted round 6, without samples."""
    tank = measure_all(make_tank(tmp_path_factory.mktemp("origin") / "repo"), ("deep",))
    new_predicted(tank, "again", "v0", "deep", "--noise-round", 4)
    return tank


@pytest.fixture
def tank(once, tmp_path):
    shutil.copytree(once.root, tmp_path / "repo")
    return Tank(tmp_path / "repo")


def state_of(tank):
    return {
        path: path.read_bytes() for path in sorted(tank.root.rglob("*")) if path.is_file() and ".git" not in path.parts
    }


def lines(change):
    """Alters every sample's line."""

    def alter(samples, env):
        rows = [json.loads(line) for line in samples.read_text().splitlines()]
        for row in rows:
            change(row)
        samples.write_text("".join(json.dumps(row) + "\n" for row in rows))

    return alter


def environment(**changes):
    """Alters env.json; None takes a key out."""

    def alter(samples, env):
        data = json.loads(env.read_text()) | changes
        write_json(env, {key: value for key, value in data.items() if key not in changes or changes[key] is not None})

    return alter


def both(**changes):
    """Alters env.json and each line in the same way, as a careful forger would."""

    def alter(samples, env):
        lines(lambda row: row.update(changes))(samples, env)
        environment(**changes)(samples, env)

    return alter


def without(*keys):
    return lines(lambda row: [row.pop(key) for key in keys])


ALIKE = {name: kernel_digest("v0") for name in ("v0", "deep")}
FORGERIES = {
    "empty digests": (environment(digests={}), "digests is empty"),
    "a digest that is none": (environment(digests=dict.fromkeys(("v0", "deep"), "x")), "expected a sha256"),
    "digests of others": (environment(digests={"other": kernel_digest("v0")}), "digest of 'v0' is not"),
    "one source for both": (environment(digests=ALIKE), "digest of 'deep' is not"),
    "lines by hand": (without("program", "digest", "host", "chip", "sm_mhz"), "lacks program, digest, host, chip"),
    "no clock": (without("sm_mhz"), "lacks sm_mhz"),
    "another host": (lines(lambda row: row.update(host="elsewhere")), "host is 'elsewhere', env.json says"),
    "another chip in a line": (lines(lambda row: row.update(chip="NVIDIA H100")), "chip is 'NVIDIA H100', env.json"),
    "another clock": (lines(lambda row: row.update(sm_mhz=345)), "clock's median is 345, env.json says 1980"),
    "a CPU for a GPU": (both(chip="AMD EPYC, 2 processors"), "the backend hopper does not run on"),
    "a chip of another kind": (both(chip="NVIDIA B200"), "the backend hopper does not run on"),
    "a capability of another": (environment(capability="10.0"), "backend hopper needs 9.0"),
    "the simulator": (both(chip="PTX simulator"), "the backend hopper does not run on"),
    "no program": (environment(program={}), "a path and the sha256"),
    "a program that git lacks": (
        environment(program={"path": "scripts/bench/mine.py", "sha256": "0" * 64}),
        "program is 'scripts/bench/compare.py', env.json says 'scripts/bench/mine.py'",
    ),
    "a program from anywhere": (environment(program={"path": "../x.py", "sha256": "0" * 64}), "under scripts/bench/"),
    "a changed program": (
        environment(program={"path": "scripts/bench/compare.py", "sha256": "0" * 64}),
        "scripts/bench/compare.py was not as it is in",
    ),
    "a commit of nowhere": (environment(commit="0" * 40), "which is not in this repository"),
    "no commit": (environment(commit=None), "lacks commit"),
}


@pytest.mark.parametrize("name", FORGERIES)
def test_a_forged_measurement_is_refused_and_leaves_nothing(tank, capsys, name):
    alter, words = FORGERIES[name]
    samples, env = write_run(tank, seed=3)
    alter(samples, env)
    before = state_of(tank)
    assert run(tank, "measure", 6, "--samples", samples, "--env", env, "--run", "forged") == 1
    assert words in capsys.readouterr().err
    assert state_of(tank) == before


@pytest.mark.parametrize(
    ("base", "candidate", "words"),
    [
        ("v0", "v0", "base and candidate are one commit"),
        ("HEAD", "HEAD", "base and candidate are one commit"),
        ("same", "deep", "base 'v0' was not built from the sources of"),
        ("v0", "mixed", "candidate 'deep' was not built from the sources of"),
    ],
)
def test_commits_have_to_be_two_and_those_that_were_timed(tank, capsys, base, candidate, words):
    samples, env = write_run(tank, seed=3)
    before = state_of(tank)
    commits = ("--base-commit", base, "--candidate-commit", candidate)
    assert run(tank, "measure", 6, "--samples", samples, "--env", env, *commits) == 1
    assert words in capsys.readouterr().err
    assert state_of(tank) == before


def test_two_commits_of_equal_sources_are_no_change(tank, capsys):
    (tank.root / "notes").write_text("x")
    twin = commit(tank.root, "twin")  # the tree has the sources of `mixed`
    samples, env = write_run(tank, seed=3)
    digests = {"v0": kernel_digest("mixed"), "deep": kernel_digest("mixed")}
    lines(lambda row: row.update(digest=digests.get(row["variant"], row["digest"])))(samples, env)
    environment(digests=json.loads(env.read_text())["digests"] | digests)(samples, env)
    commits = ("--base-commit", "mixed", "--candidate-commit", twin)
    assert run(tank, "measure", 6, "--samples", samples, "--env", env, *commits) == 1
    assert "built from the same sources" in capsys.readouterr().err


def test_an_a_a_round_times_one_commit(tank, capsys):
    number = new_predicted(tank, "second-floor", "v0", "v0-again", "--noise-floor", interval="0.99:1.01")
    samples, env = write_run(tank, seed=3)
    commits = ("--base-commit", "v0", "--candidate-commit", "deep")
    assert run(tank, "measure", number, "--samples", samples, "--env", env, *commits) == 1
    assert "an A/A round times one commit twice" in capsys.readouterr().err
    assert run(tank, "measure", number, "--samples", samples, "--env", env) == 0


def test_a_change_after_the_measurement_is_found_too(tank):
    edit(tank, 5, lambda data: data["candidate"].update(commit=data["base"]["commit"]))
    assert "0005-deep: base and candidate are one commit" in problems_of(tank)


@pytest.mark.parametrize("moment", ["write_round", "render", "store_run"])
def test_whatever_ends_a_measurement_leaves_nothing(tank, monkeypatch, moment):
    samples, env = write_run(tank, seed=3)
    before = state_of(tank)
    work = getattr(steps, moment)

    def interrupted(*words):
        work(*words)
        raise KeyboardInterrupt

    monkeypatch.setattr(steps, moment, interrupted)
    with pytest.raises(KeyboardInterrupt):
        run(tank, "measure", 6, "--samples", samples, "--env", env)
    assert state_of(tank) == before


def test_a_slug_that_is_used_twice_is_found(tank):
    shutil.copytree(tank.find(5), tank.rounds_dir / "0009-deep")
    edit(tank, 9, lambda data: data.update(number=9))
    assert "slug 'deep' is used twice" in problems_of(tank)


def test_a_run_without_origin_passes_only_where_it_was_listed_before(tank):
    """The list names the runs from before samples had their origin; git shows that no run was added later."""
    path = tank.runs_dir / origin.OLDER
    sha = tank.get(5)["measurement"]["samples_sha256"]
    write_json(path, {"note": "", "runs": {"shared": sha}})
    commit(tank.root, "list")
    assert problems_of(tank) == ""
    samples, env = write_run(tank, seed=3)
    without("program", "digest", "host", "chip", "sm_mhz")(samples, env)
    write_json(path, {"note": "", "runs": {"shared": sha, "forged": steps.digest(samples.read_bytes())}})
    assert run(tank, "measure", 6, "--samples", samples, "--env", env, "--run", "forged") == 0
    assert "forged was recorded after the list was made" in problems_of(tank)
    commit(tank.root, "forged")
    assert "forged was recorded after the list was made" in problems_of(tank)


@pytest.mark.parametrize(
    ("backend", "chip", "capability", "right"),
    [
        ("hopper", "NVIDIA H100 80GB HBM3", "9.0", True),
        ("hopper", "NVIDIA GH200 480GB", "9.0", True),
        ("hopper", "NVIDIA GeForce RTX 5090", "12.0", False),
        ("blackwell", "NVIDIA B200", "10.0", True),
        ("blackwell", "NVIDIA GB300", "10.3", True),
        ("blackwell", "NVIDIA H200", "9.0", False),
        ("blackwell", "NVIDIA RTX PRO 6000 Blackwell Server Edition", "12.0", False),
        ("geforce", "NVIDIA GeForce RTX 5090", "12.0", True),
        ("geforce", "NVIDIA RTX PRO 6000 Blackwell Server Edition", "12.0", True),
        ("geforce", "NVIDIA GB10", "12.1", True),
        ("geforce", "NVIDIA GeForce RTX 4090", "8.9", False),
        ("geforce", "NVIDIA B200", "10.0", False),
        ("cpu", "Intel(R) Xeon(R) CPU E5-2686 v4 @ 2.30GHz, 8 processors", None, True),
        ("cpu", "AMD EPYC 9V74 80-Core Processor, 2 processors", None, True),
        ("cpu", "unnamed CPU, 4 processors", None, True),
        ("cpu", "H200", None, False),
        ("cpu", "NVIDIA H200, 2 processors", None, False),
        ("cpu", "AMD EPYC, 2 processors", "9.0", False),
    ],
)
def test_a_chip_runs_its_backend_alone(backend, chip, capability, right):
    assert (origin.chip_problems(backend, {"chip": chip, "capability": capability}) == []) == right


# --- reconstructed rounds ---------------------------------------------------------------------------------------


def reconstructed(tank, made):
    words = ("--backend", "hopper", "--base", "v0", "--candidate", "same", "--noise-round", 4)
    return run(tank, "new", "found-later", *words, "--reconstructed", f"{made}: it came between two rounds")


def test_a_change_without_a_round_is_reconstructed_from_git(tank, capsys):
    assert reconstructed(tank, "v0") == 0
    views = ("--performance", "0.9: x", "--practicality", "0.9: x", "--theory", "0.9: x")
    assert run(tank, "predict", 7, "--all", "0.9:1.0", *views) == 1  # too late
    samples, env = write_run(tank, seed=3)
    assert run(tank, "measure", 7, "--samples", samples, "--env", env) == 0
    found = tank.get(7)
    assert [entry["state"] for entry in found["history"]][:2] == ["draft", "measured"]
    assert found["measurement"]["prediction_commit"] is None and found["prediction"] is None
    assert "reconstructed from git and measured later" in (tank.find(7) / "round.md").read_text()
    commit(tank.root)
    problems = [line for line in problems_of(tank).splitlines() if "is not written" not in line]
    assert [line for line in problems if "reopen_if" not in line and "verdict.why" not in line] == []


def test_a_new_idea_cannot_be_passed_off_as_reconstructed(tank):
    assert reconstructed(tank, git(tank.root, "rev-parse", "HEAD")) == 0
    samples, env = write_run(tank, seed=3)
    assert run(tank, "measure", 7, "--samples", samples, "--env", env) == 0
    assert "no measured round builds on it" in problems_of(tank)
    edit(tank, 7, lambda data: data["reconstructed"].update({"from": "0" * 40}))
    assert "is not in this repository" in problems_of(tank)
    edit(tank, 7, lambda data: data["measurement"].update(prediction_commit="0" * 40))
    assert "a reconstructed round has no prediction" in problems_of(tank)
