"""Rounds from draft to verdict, measuring again, and the verdict rules."""

import sys

import pytest

from scripts.rounds import check as rounds_check
from scripts.rounds import commands as rounds
from scripts.rounds import rerun
from scripts.rounds.model import RoundError, Tank, parse_samples, write_json
from scripts.rounds.pages import round_page, tables
from tests.rounds.rounds_kit import (
    ENV,
    ROOT,
    commit,
    edit,
    env_of,
    git,
    new_predicted,
    problems_of,
    run,
    sample_lines,
    write_prose,
    write_run,
)


# --- the ordinary way -------------------------------------------------------------------------------------
def test_rounds_measured_from_one_shared_run_pass_every_check(measured):
    assert problems_of(measured) == ""
    assert sorted(path.name for path in measured.runs_dir.iterdir()) == ["environments.jsonl", "shared.jsonl.gz"]
    assert measured.stored_runs() == {"shared"}
    assert len({measured.get(n)["measurement"]["samples_sha256"] for n in (4, 5, 6, 7)}) == 1


def test_round_json_has_a_line_for_each_shape_and_reads_back_the_same(measured):
    path = measured.find(5) / "round.json"
    found = measured.get(5)["measurement"]["shapes"]["256x4096x7168"]
    assert list(found) == ["base_us", "candidate_us", "samples", "ratio", "low", "high"]
    (line,) = [line for line in path.read_text().splitlines() if f"[{found['base_us']}, " in line]
    assert line.strip().removeprefix('"shapes": {') == f'"256x4096x7168": {list(found.values())},'
    before = path.read_bytes()
    measured.save(measured.get(5))
    assert path.read_bytes() == before


def test_show_prints_the_page_with_the_tables_that_are_not_committed(measured, capsys):
    page = (measured.find(5) / "round.md").read_text()
    assert "| 0.850 to 0.950 |" not in page and "## Measurement" not in page
    assert "predicted 0.850 to 0.950, measured 0.90" in page
    assert run(measured, "show", 5) == 0
    shown, found = capsys.readouterr().out, measured.get(5)["measurement"]
    for shape, entry in found["shapes"].items():
        extents = shape.replace("x", " ")
        assert f"| {extents} | 0.850 to 0.950 |" in shown
        times = f"{entry['base_us']:.2f} | {entry['candidate_us']:.2f}"
        interval = f"{entry['ratio']:.4f} [{entry['low']:.4f}, {entry['high']:.4f}]"
        assert f"| {extents} | {times} | {interval} | 0.850 to 0.950, inside |" in shown
    assert "| performance | 0.900 | fewer waits |" in shown
    assert [line for line in page.splitlines() if line not in shown] == []


def test_the_index_has_each_round_once_in_the_chapter_of_its_backend_and_shapes(measured):
    def of(backend, shapes=None):
        return {"backend": backend} | ({"shapes": shapes} if shapes else {})

    named = {
        "Hopper: dual GEMM": of("hopper"),
        "Hopper: dual GEMM at other shapes": of("hopper", ["1x4096x7168"]),
        "Hopper: grouped GEMM": of("hopper", ["80,176x4096x7168"]),
        "GeForce: dual GEMM": of("geforce"),
    }
    assert {title: tables.chapter(data) for title, data in named.items()} == {title: title for title in named}
    index = tables.rounds_index(measured.all())
    assert [index.count(f"[000{number}](rounds/000{number}-") for number in range(1, 8)] == [1] * 7
    assert "<summary>Hopper: dual GEMM: 4 rounds, 2 adopted</summary>" in index


def test_verdicts_follow_the_rule(measured):
    assert measured.get(4)["state"] == "adopted"
    assert measured.get(5)["state"] == "adopted"
    assert measured.get(6)["state"] in ("rejected", "inconclusive")
    assert measured.get(7)["state"] == "rejected"
    assert "256x3072x4096 is at 1.0" in measured.get(7)["verdict"]["reason"]
    assert measured.get(5)["evidence"] == "measured:H200"


def test_measured_ratio_is_the_one_that_was_put_into_the_samples(measured):
    found = measured.get(5)["measurement"]
    assert found["geomean"]["ratio"] == pytest.approx(0.9, abs=0.003)
    assert found["geomean"]["low"] < found["geomean"]["ratio"] < found["geomean"]["high"]
    assert all(entry["samples"] == 20 for entry in found["shapes"].values())


def test_generated_tables_show_winners_losers_and_baselines(measured):
    text = (measured.dir / "README.md").read_text()
    assert "[0005](rounds/0005-deep/round.md)" in text
    failures = tables.failures_table(measured.all())
    assert "0007-mixed" in failures and "0005-deep" not in failures


def test_calibration_is_bias_and_error_of_each_viewpoint(measured):
    found = tables.calibration(measured.all())
    ratios = [measured.get(n)["measurement"]["geomean"]["ratio"] for n in (5, 6, 7)]
    expected = (ratios[0] * ratios[1] * ratios[2] / 0.97**3) ** (1 / 3)
    assert found["practicality"]["bias"] == pytest.approx(expected, rel=1e-9)
    assert found["intervals"] == {"inside": 4 + 0 + 3, "total": 12}


def test_render_twice_changes_nothing(measured):
    before = {path: path.read_bytes() for path in measured.dir.rglob("*") if path.is_file()}
    assert run(measured, "render") == 0
    assert before == {path: path.read_bytes() for path in measured.dir.rglob("*") if path.is_file()}


def test_a_round_can_be_superseded_only_by_an_existing_round(measured):
    assert run(measured, "close", 5, "--state", "superseded", "--by", 99) == 1
    assert run(measured, "close", 5, "--state", "superseded", "--by", 7) == 0
    assert problems_of(measured) == ""
    assert round_page.state_text(measured.get(5)) == "superseded by 0007"


def test_blackwell_round_ends_at_best_as_adopted_unmeasured(tank):
    assert run(tank, "new", "pair", "--backend", "blackwell", "--base", "one", "--candidate", "two",
               "--noise-round", 3) == 0  # fmt: skip
    write_prose(tank, 4)
    views = ("--performance", "0.9: halved B", "--practicality", "0.97: known", "--theory", "0.88: halved B")
    assert run(tank, "predict", 4, "--all", "0.8:0.9", *views) == 0
    close = ("close", 4, "--state", "adopted", "--reason", "assembles without spills", "--why", "half the traffic")
    assert run(tank, *close, "--evidence", "compiled") == 0
    edit(tank, 4, lambda data: data.update(reopen_if="a B200 measures it"))
    rounds.render(tank)
    assert problems_of(tank) == ""
    assert round_page.state_text(tank.get(4)) == "adopted (unmeasured)"


def test_geforce_can_have_a_round(tank):
    new = ("new", "swizzle", "--backend", "geforce", "--base", "one", "--candidate", "two", "--modelled")
    assert run(tank, *new) == 0
    assert tank.get(4)["backend"] == "geforce" and problems_of(tank) == ""


# --- refusals ---------------------------------------------------------------------------------------------
def test_predict_names_what_is_missing(tank, capsys):
    run(tank, "new", "half", "--backend", "hopper", "--base", "v0", "--candidate", "deep", "--noise-round", 3)
    assert run(tank, "predict", 4, "--shape", "256x4096x7168=0.9:1.0") == 1
    message = capsys.readouterr().err
    for part in ("512x4096x7168", "performance, practicality, theory", "section Pitch is not written"):
        assert part in message


def test_measure_is_refused_until_the_prediction_is_committed(tank, capsys):
    number = new_predicted(tank, "noise", "v0", "v0-again", "--noise-floor", interval="0.99:1.01")
    assert run(tank, "predict", number, "--all", "0.98:1.02") == 0  # changed since the commit
    samples, env = write_run(tank)
    assert run(tank, "measure", number, "--samples", samples, "--env", env) == 1
    assert "in no commit" in capsys.readouterr().err
    commit(tank.root)
    assert run(tank, "measure", number, "--samples", samples, "--env", env) == 0


def test_measure_wants_another_chip_to_have_its_own_noise_floor(measured, capsys):
    number = new_predicted(measured, "other-chip", "v0", "deep", "--noise-round", 4)
    samples, env = write_run(measured, seed=2, chip="NVIDIA H100")
    write_json(env, env_of(measured, chip="NVIDIA H100"))
    assert run(measured, "measure", number, "--samples", samples, "--env", env) == 1
    assert "noise floor is of 'H200'" in capsys.readouterr().err


@pytest.mark.parametrize(
    ("line", "message"),
    [
        ("{", ":2: "),
        ("5", "expected"),
        ('["shape"]', "expected"),
        ('{"shape": [1, 2], "variant": "a", "repeat": 0, "us": 1}', "expected"),
        *(
            (f'{{"shape": [1, 2, 3], "variant": "a", "repeat": 0, "us": {us}}}', "a name and a time above 0")
            for us in (0, -1, "NaN", "Infinity")
        ),
        ('{"shape": [1, 2, 3], "variant": 5, "repeat": 0, "us": 1}', "a name and a time above 0"),
        ('{"shape": [1, 2, 3], "variant": "a", "repeat": 0}', "us"),
    ],
)
def test_bad_sample_lines_are_named(line, message):
    right = b'{"shape": [1, 2, 3], "variant": "b", "repeat": 0, "us": 1}\n'
    with pytest.raises(RoundError, match=r"file:2: ") as error:
        parse_samples(right + line.encode(), "file")
    assert message in str(error.value)


def test_repeated_sample_is_refused():
    line = b'{"shape": [1, 2, 3], "variant": "a", "repeat": 0, "us": 1}\n'
    with pytest.raises(RoundError, match="occurs twice"):
        parse_samples(line * 2, "file")


def test_env_without_its_facts_is_refused(tank, capsys):
    number = new_predicted(tank, "noise", "v0", "v0-again", "--noise-floor", interval="0.99:1.01")
    samples, env = write_run(tank)
    write_json(env, {"chip": "NVIDIA H200"})
    assert run(tank, "measure", number, "--samples", samples, "--env", env) == 1
    assert "lacks driver, versions, clocks, flags, digests" in capsys.readouterr().err
    assert not tank.runs_dir.exists()


# --- rerun --------------------------------------------------------------------------------------------------
@pytest.mark.parametrize(("factor", "status", "words"), [(0.9, 0, "the verdict holds"), (1.1, 3, "does not hold")])
def test_rerun_builds_both_commits_and_judges_again(measured, capsys, monkeypatch, factor, status, words):
    monkeypatch.setattr(rerun, "chip_here", lambda: ("NVIDIA H200", "9.0"))
    (measured.root / "samples.src").write_text(sample_lines(seed=5, factors={"v0": 1.0, "deep": factor}))
    write_json(measured.root / "env.src", ENV)
    head = commit(measured.root)

    def record(data):
        data["base"]["commit"] = data["candidate"]["commit"] = head
        data["build"] = "touch built"
        data["command"] = (
            "test -f {base_dir}/built && test -f {candidate_dir}/built && cp samples.src {samples} && cp env.src {env}"
        )

    edit(measured, 5, record)
    with pytest.raises(SystemExit) as exit_:
        run(measured, "rerun", 5)
    assert exit_.value.code == status
    assert words in capsys.readouterr().out
    assert git(measured.root, "worktree", "list").count("\n") == 0


def test_rerun_runs_old_commands_with_the_python_that_runs_it(measured, monkeypatch, capfd):
    monkeypatch.setattr(rerun, "chip_here", lambda: ("NVIDIA H200", "9.0"))
    show = "-c 'import sys; print(sys.prefix, sys.executable)'"
    edit(measured, 5, lambda data: data.update(build=f"python3 {show}; $PYTHON {show}", command=f"python {show}"))
    assert run(measured, "rerun", 5) == 1
    said = capfd.readouterr()
    assert "the recorded command wrote no samples.jsonl" in said.err
    shown = [line.split() for line in said.out.splitlines() if line.startswith(sys.prefix)]
    assert [prefix for prefix, _ in shown] == [sys.prefix] * 5


@pytest.mark.parametrize(
    ("found", "words"),
    [
        (None, "sees no CUDA device here"),
        (("NVIDIA GeForce RTX 5090", "12.0"), "which the backend hopper does not run on"),
        (("NVIDIA B200", "10.0"), "which the backend hopper does not run on"),
    ],
)
def test_rerun_asks_for_the_chip_before_it_builds(measured, monkeypatch, capsys, found, words):
    monkeypatch.setattr(rerun, "chip_here", lambda: found)
    edit(measured, 5, lambda data: data.update(build="touch ../../../built", command="true"))
    assert run(measured, "rerun", 5) == 1
    assert (
        f"was measured on H200{';' if found is None else ':'} " in (said := capsys.readouterr().err) and words in said
    )
    assert not (measured.root / "build").exists()


def test_rerun_without_torch_names_the_python(measured, monkeypatch, tmp_path, capsys):
    bare = tmp_path / "python-without-torch"
    bare.write_text("#!/bin/sh\necho \"ModuleNotFoundError: No module named 'torch'\" >&2; exit 1\n")
    bare.chmod(0o755)
    monkeypatch.setattr(rerun.sys, "executable", str(bare))
    edit(measured, 5, lambda data: data.update(command="true"))
    assert run(measured, "rerun", 5) == 1
    said = capsys.readouterr().err
    assert str(bare) in said and "No module named 'torch'" in said and "set PYTHON" in said


# --- this repository ----------------------------------------------------------------------------------------------
def test_the_record_of_this_repository_holds():
    notes, problems = rounds_check.check(Tank(ROOT))
    assert problems == []
    if notes:
        pytest.skip(notes[0])
