"""Planted faults in the rounds' record that `check` must find."""

import gzip
import shutil

import pytest

from scripts.rounds import check as rounds_check
from scripts.rounds.model import Tank, read_bytes, write_json
from tests.rounds.rounds_kit import (
    ROOT,
    edit,
    edit_env,
    env_of,
    finish,
    new_predicted,
    problems_of,
    run,
    write_run,
)


def test_prediction_committed_after_the_measurement_is_found(measured):
    """The samples are already in git when the prediction is written: the record must not pass."""
    number = new_predicted(measured, "hindsight", "v0", "deep", "--noise-round", 4)
    samples, env = write_run(measured)
    write_json(env, measured.env("shared"))
    assert run(measured, "measure", number, "--samples", samples, "--env", env) == 0
    finish(measured, number)
    assert "which does not come after the prediction" in problems_of(measured)


def adopt(data):
    data["state"] = data["verdict"]["state"] = data["history"][-1]["state"] = "adopted"


@pytest.mark.parametrize(
    ("change", "problem"),
    [
        (
            lambda data: data["prediction"]["viewpoints"]["theory"].update(ratio=0.9),
            "0007-mixed: no commit holds this prediction",
        ),
        (lambda data: data["measurement"]["geomean"].update(ratio=0.85), "geomean.ratio is 0.85, the samples give"),
        (
            lambda data: data["measurement"]["shapes"]["256x4096x7168"].update(candidate_us=30.0),
            "256x4096x7168.candidate_us is 30.0",
        ),
        (lambda data: data["history"].pop(1), "history: draft to measured is not allowed"),
        (adopt, "verdict is adopted"),
        (adopt, "the rule gives rejected"),
    ],
)
def test_a_round_altered_by_hand_is_found(measured, change, problem):
    edit(measured, 7, change)
    assert problem in problems_of(measured)


def test_altered_samples_are_found(measured):
    path = measured.samples_path("shared")
    content = read_bytes(path).replace(b'"repeat": 3,', b'"repeat": 33,', 1)
    path.write_bytes(gzip.compress(content, mtime=0))
    assert "digest differs from measurement.samples_sha256" in problems_of(measured)


def test_altered_env_is_found(measured):
    edit_env(measured, "shared", env_of(measured, driver="other"))
    assert "digest differs from measurement.env_sha256" in problems_of(measured)


def test_stale_calibration_table_is_found(measured):
    path = measured.dir / "README.md"
    text = path.read_text()
    assert "Per-shape intervals that held the measured ratio: 7 of 12" in text
    path.write_text(text.replace("7 of 12", "9 of 12"))
    assert "shark_tank/README.md: generated blocks are out of date" in problems_of(measured)


def test_table_of_a_round_altered_by_hand_is_found(measured):
    path = measured.find(5) / "round.md"
    path.write_text(path.read_text().replace("**adopted**", "**adopted** by far", 1))
    assert "round.md: generated blocks are out of date" in problems_of(measured)


def test_stale_plot_is_found(measured):
    shutil.copy(ROOT / "shark_tank" / "progress.png", measured.dir / "progress.png")
    assert "progress.png does not show the present rounds" in problems_of(measured)
    (measured.dir / "progress.png").unlink()
    assert "progress.png is missing" in problems_of(measured)


def test_run_that_no_round_refers_to_is_found(measured):
    shutil.copy(measured.samples_path("shared"), measured.samples_path("spare"))
    edit_env(measured, "bare", env_of(measured))
    problems = problems_of(measured)
    assert "run spare: no round refers to it" in problems and "run bare: no round refers to it" in problems


def test_learning_without_a_round_is_found(measured):
    path = measured.dir / "LEARNINGS.md"
    path.write_text(path.read_text() + "- Deeper is better.\n")
    assert "is not linked to a round" in problems_of(measured)


@pytest.mark.parametrize(
    ("sentence", "problem"),
    [
        ("It takes [{us:.1f} us]({link}.shapes.256x4096x7168.candidate_us).", ""),
        ("It is [{faster:.1f} %]({link}.geomean.ratio:faster) faster.", ""),
        ("It takes [12.3 us]({link}.shapes.256x4096x7168.candidate_us).", "quotes '12.3 us'"),
        ("It is [3.0 %]({link}.geomean.ratio:faster) faster.", "quotes '3.0 %'"),
        ("It takes [12.3 us]({link}.shapes.1x1x1.candidate_us).", "KeyError"),
        ("It takes 35.9 us.", "'35.9 us' is not linked"),
        ("It is 10 % faster.", "'10 %' is not linked"),
        ("The ratio is 0.901.", "'0.901' is not linked"),
        ("The task's target is 4.708 us. <!-- figure-ok: published with the task -->", ""),
        ("Run `make run 4.708 us`, version 2.13.0, round 0004, 4 shapes, sm_90a.", ""),
    ],
)
@pytest.mark.parametrize("where", ["README.md", "shark_tank/LEARNINGS.md", "verdict"])
def test_quoted_figures_must_be_links_that_hold(measured, sentence, problem, where):
    found = measured.get(5)["measurement"]
    path = measured.find(5) / "round.md" if where == "verdict" else measured.root / where
    prefix = {"README.md": "shark_tank/rounds/0005-deep/", "verdict": ""}.get(where, "rounds/0005-deep/")
    text = sentence.format(
        us=found["shapes"]["256x4096x7168"]["candidate_us"],
        faster=100 * (1 - found["geomean"]["ratio"]),
        link=f"{prefix}round.json#measurement",
    )
    before = path.read_text() if path.is_file() else "# Title\n"
    marker = "## Verdict\n"
    path.write_text(before.replace(marker, f"{marker}\n{text}\n") if where == "verdict" else f"{before}\n{text}\n")
    found_problems = "\n".join(rounds_check.figure_problems(measured))
    assert problem in found_problems if problem else found_problems == ""


def test_without_full_history_the_check_says_what_it_left_out(measured, tmp_path):
    shutil.copytree(measured.root, tmp_path / "tarball", ignore=shutil.ignore_patterns(".git"))
    notes, problems = rounds_check.check(Tank(tmp_path / "tarball"))
    assert problems == [] and "not checked" in notes[0]
