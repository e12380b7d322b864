"""The order of prediction and measurement in git, and the sections that a round's text needs by then."""

from __future__ import annotations

import shutil

import pytest

from scripts.rounds import check as rounds_check
from scripts.rounds import model as rounds_model
from scripts.rounds.model import RoundError, Tank
from scripts.rounds.pages.round_page import page_text
from scripts.rounds.steps import read_run, store_run
from tests.rounds.rounds_kit import (
    ENV,
    SHAPES,
    commit,
    edit,
    edit_env,
    env_of,
    finish,
    git,
    make_tank,
    measure_all,
    new_predicted,
    problems_of,
    run,
    write_json,
    write_run,
)


def put(**values):
    return lambda data: data.update(values)


pytestmark = pytest.mark.usefixtures("no_plot")


@pytest.fixture(scope="module")
def measured_once(tmp_path_factory):
    return measure_all(make_tank(tmp_path_factory.mktemp("order") / "repo"), ("deep", "same"))


@pytest.fixture
def measured(measured_once, tmp_path):
    shutil.copytree(measured_once.root, tmp_path / "repo")
    return Tank(tmp_path / "repo")


@pytest.mark.parametrize(
    "change",
    [
        lambda data: data["prediction"]["shapes"].update({SHAPES[1]: [0.1, 0.2]}),
        lambda data: data["rule"].update(noise_round=3),
        put(backend="blackwell"),
        put(kind="noise-floor"),
        lambda data: data["base"].update(variant="other"),
        lambda data: data["candidate"].update(variant="other"),
    ],
    ids=["prediction", "rule", "backend", "kind", "base", "candidate"],
)
def test_the_text_of_a_prediction_is_frozen_with_it(measured, change):
    data = measured.get(5)
    assert rounds_check.git_problems(measured, data) == []
    change(data)
    assert rounds_check.git_problems(measured, data) == [
        "no commit holds this prediction, as it stands, before a measurement"
    ]


def test_later_sections_are_not_frozen(measured):
    data = measured.get(5)
    data.update(title="better", cost={"lines": 1}, reopen_if="never", verdict={}, state="superseded")
    data["candidate"]["commit"] = data["measurement"]["prediction_commit"]
    assert rounds_check.git_problems(measured, data) == []


def test_a_round_names_the_commit_of_its_prediction(measured):
    data = measured.get(5)
    wanted = data["measurement"]["prediction_commit"]
    assert git(measured.root, "show", "-s", "--format=%s", wanted) == "predict 5"
    data["measurement"]["prediction_commit"] = other = git(measured.root, "rev-parse", "HEAD")
    assert rounds_check.git_problems(measured, data) == [
        f"measurement.prediction_commit is {other[:9]}, git says {wanted[:9]}"
    ]


@pytest.mark.parametrize("side", ["base", "candidate"])
@pytest.mark.parametrize("commit_name", ["0" * 40, None])
def test_commits_that_are_not_there_are_found(measured, side, commit_name):
    data = measured.get(5)
    data[side]["commit"] = commit_name
    assert rounds_check.git_problems(measured, data) == [f"{side}.commit {commit_name} is not in this repository"]


def test_samples_added_in_the_commit_of_the_prediction_are_found(measured):
    samples, env = write_run(measured, seed=9)
    assert store_run(measured, *read_run(samples, env), "early") == "early"
    number = new_predicted(measured, "at-once", "v0", "deep", "--noise-round", 4)
    predicted = git(measured.root, "rev-parse", "HEAD")
    assert git(measured.root, "log", "--format=%H", "--", str(measured.samples_path("early"))) == predicted
    assert run(measured, "measure", number, "--samples", samples, "--env", env) == 0
    finish(measured, number)
    assert (
        f"{measured.find(number).name}: run early was committed in {predicted[:9]}, which does not come after the "
        f"prediction ({predicted[:9]})"
    ) in problems_of(measured)


def test_a_measurement_taken_at_a_commit_without_the_prediction_is_found(measured):
    before = git(measured.root, "rev-parse", "HEAD")
    number = new_predicted(measured, "late", "v0", "deep", "--noise-round", 4)
    predicted = git(measured.root, "rev-parse", "HEAD")
    after = commit(measured.root, "later")
    samples, env = write_run(measured, seed=9)
    write_json(env, env_of(measured, commit=predicted))
    assert run(measured, "measure", number, "--samples", samples, "--env", env, "--run", "late") == 0
    data = measured.get(number)
    commit(measured.root)
    for taken, wanted in ((after, []), (predicted, []), ("0" * 40, []), (before, [before[:9]])):
        edit_env(measured, "late", ENV | {"commit": taken})
        assert rounds_check.git_problems(measured, data) == [
            f"env.json was taken at {name}, which does not hold the prediction ({predicted[:9]})" for name in wanted
        ]


def test_numbers_that_occur_twice_and_folders_of_another_name_are_found(measured):
    shutil.copytree(measured.find(5), measured.rounds_dir / "0005-twin")
    problems = problems_of(measured)
    assert "0005-twin: number and slug give 0005-deep" in problems and "round number 0005 is used twice" in problems
    with pytest.raises(RoundError, match=r"round 5: expected one folder 0005-\*, found 2"):
        measured.find(5)


def test_a_broken_round_is_named_and_the_others_still_checked(measured):
    (measured.find(5) / "round.json").write_text("{")
    with pytest.raises(RoundError, match=r"shark_tank/rounds/0005-deep/round.json: Expecting"):
        measured.all()
    git(measured.root, "checkout", "-q", ".")
    edit(measured, 5, put(score=1))
    edit(measured, 6, put(slug="other"))
    problems = problems_of(measured)
    assert "0005-deep: top level:" in problems and "0006-same: number and slug give" in problems


# --- text ---------------------------------------------------------------------------------------------


@pytest.mark.parametrize("state", ["draft", "predicted", "measured", "adopted", "blocked"])
@pytest.mark.parametrize("section", rounds_model.SECTIONS)
@pytest.mark.parametrize("body", ["UNWRITTEN: it", "<!-- only\na comment -->"])
def test_sections_are_written_when_their_state_asks_for_them(measured_once, tmp_path, state, section, body):
    data = measured_once.get(5)
    shutil.copytree(measured_once.find(5), tmp_path / "shark_tank" / "rounds" / "0005-deep")
    path = tmp_path / "shark_tank" / "rounds" / "0005-deep" / "round.md"
    sections = rounds_model.SECTIONS
    path.write_text("# T\n\n" + "".join(f"## {name}\n{body if name == section else 'Yes.'}\n\n" for name in sections))
    needed = {
        "draft": (),
        "predicted": ("Pitch", "Hypothesis", "Feasibility", "Objections"),
        "blocked": ("Pitch", "Verdict", "What would reopen it"),
    }.get(state, sections)
    wanted = f"shark_tank/rounds/0005-deep/round.md: section {section} is not written"
    assert rounds_check.text_problems(Tank(tmp_path), data, upto=state) == ([wanted] if section in needed else [])


def test_sections_stand_in_their_order(measured):
    path = measured.find(5) / "round.md"
    path.write_text(path.read_text().replace("## Cost", "## Coast"))
    (problem,) = rounds_check.text_problems(measured, measured.get(5))
    assert "Verdict, Coast, What would" in problem and "expected Pitch, Hypothesis" in problem


def test_only_a_lost_rounds_text_may_be_in_git_alone(measured):
    folder, data = measured.find(5), measured.get(5) | {"page": "0123456"}
    lost, kept = (data | {"state": of, "verdict": data["verdict"] | {"state": of}} for of in ("rejected", "adopted"))
    only = "only the text of a lost round may be in git alone"
    assert only in rounds_check.text_problems(measured, lost)[0], "round.md is still there"
    (folder / "round.md").unlink()
    assert rounds_check.text_problems(measured, lost) == []
    assert "git show 0123456:shark_tank/rounds/" in page_text(folder, lost)
    assert only in rounds_check.text_problems(measured, kept)[0]


def test_a_final_round_says_why_and_what_would_reopen_it(measured):
    data = measured.get(5)
    assert rounds_check.text_problems(measured, data) == []
    data["reopen_if"], data["verdict"]["why"] = "", ""
    assert [problem.partition(": ")[2] for problem in rounds_check.text_problems(measured, data)] == [
        "round.json has no reopen_if",
        "round.json has no verdict.why",
    ]
    data["verdict"] = None
    assert "no verdict.why" in rounds_check.text_problems(measured, data)[1]
    data["state"] = "measured"
    assert rounds_check.text_problems(measured, data) == []
