"""The command line: options, the order of a run, its exit code."""

from __future__ import annotations

import argparse
import json
import os
from pathlib import Path

import pytest
import torch

from eval import command, evaluation
from eval.cases import parse_case
from eval.sandbox import State, Weakened
from eval.stats import Bounds
from eval.supervisor import Result

SPEC = "m: 256; n: 4096; k: 7168; l: 1; seed: 1111"
CASE = parse_case(SPEC)
CPU = torch.device("cpu")
ROUNDS = [2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0, 5.0]


class Lines:
    """A protocol that keeps its lines."""

    def __init__(self):
        self.lines = []

    def log(self, key, value):
        self.lines.append((key, value))


def test_each_mode_has_its_runner():
    from eval import supervisor

    assert {
        "test": supervisor.run_test,
        "benchmark": supervisor.run_benchmark,
        "leaderboard": supervisor.run_benchmark,
        "profile": supervisor.run_profile,
    } == evaluation.RUNNERS
    assert tuple(evaluation.RUNNERS) == command.MODES


@pytest.fixture
def runs(monkeypatch):
    """Runners that keep what they were asked: every second case fails."""
    asked = []

    def runner(submission, case, device, limits, data):
        asked.append((submission, case.shape.m, device, limits, data))
        failed = case.shape.m % 2 == 0
        return Result(case, error="wrong" if failed else "", rounds_us=[] if failed else ROUNDS, report="R", inputs=2)

    monkeypatch.setattr(evaluation, "RUNNERS", dict.fromkeys(evaluation.RUNNERS, runner))
    monkeypatch.setattr(evaluation, "_tolerances", lambda cases, device, limits: [None] * len(cases))
    return asked


def cases(*extents):
    return [parse_case(f"m: {m}; n: 1; k: 64; l: 1; seed: {m}") for m in extents]


@pytest.mark.parametrize(
    ("mode", "kind", "lines_of_passed"),
    [("test", "test", 1), ("benchmark", "benchmark", 6), ("profile", "benchmark", 1)],
)
@pytest.mark.parametrize(("extents", "verdict"), [((1, 3), "pass"), ((1, 2), "fail"), ((2, 1), "fail")])
def test_an_evaluation_logs_every_case_as_it_comes(runs, mode, kind, lines_of_passed, extents, verdict):
    out = Lines()
    results = evaluation.evaluate(mode, Path("s.py"), cases(*extents), CPU, out)
    assert [result.case.shape.m for result in results] == list(extents)
    assert [asked[:3] for asked in runs] == [(Path("s.py"), m, CPU) for m in extents]
    keys = [key for key, _ in out.lines]
    assert out.lines[0] == (f"{kind}-count", 2)
    assert out.lines[-1] == ("check", verdict)
    for i, m in enumerate(extents):
        assert (f"{kind}.{i}.spec", f"m: {m}; n: 1; k: 64; l: 1; seed: {m}") in out.lines
        own = [key for key in keys if key.startswith(f"{kind}.{i}.")]
        assert len(own) == 1 + (lines_of_passed if m % 2 else 2)
        assert own[0].endswith(".spec")


@pytest.mark.parametrize("mode", list(evaluation.RUNNERS))
def test_an_evaluation_takes_the_modes_limits(runs, capsys, mode):
    evaluation.evaluate(mode, Path("s.py"), cases(1, 2), CPU, None)
    assert {asked[3] for asked in runs} == {evaluation.limits_for(CPU, mode)}
    shown = capsys.readouterr().err.splitlines()
    assert shown == [f"{mode} {i}/2: m: {i}; n: 1; k: 64; l: 1; seed: {i}" for i in (1, 2)]


@pytest.mark.parametrize(("text", "index"), [("cuda", 0), ("cuda:0", 0), ("cuda:1", 1)])
def test_a_device_is_named_with_its_index(monkeypatch, text, index):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: 2)
    assert command.device_option(text) == f"cuda:{index}"
    assert command.device_option("cpu:0") == command.device_option("cpu") == "cpu"


@pytest.mark.parametrize(
    ("text", "count", "message"),
    [
        ("cuda", 0, "'cuda'; torch sees 0 CUDA devices here"),
        ("cuda:2", 2, "'cuda:2'; torch sees 2 CUDA devices here"),
        ("meta", 2, "'meta'; expected cpu or cuda"),
        ("abacus", 2, "'abacus'; expected cpu or cuda"),
        ("cuda:", 2, "'cuda:'; expected cpu or cuda"),
        ("cpu:1", 2, "'cpu:1'; expected cpu or cuda"),
    ],
)
def test_a_device_that_is_not_there_is_told(monkeypatch, text, count, message):
    monkeypatch.setattr(torch.cuda, "device_count", lambda: count)
    with pytest.raises(argparse.ArgumentTypeError) as error:
        command.device_option(text)
    assert str(error.value) == message


@pytest.fixture
def one_case(tmp_path):
    path = tmp_path / "cases.txt"
    path.write_text("m: 1; n: 1; k: 64; l: 1; seed: 1")
    return path


def test_the_command_lines_defaults(root, monkeypatch, one_case):
    monkeypatch.delenv("POPCORN_SEED", raising=False)
    options = command.parse_arguments(["test", str(one_case)])
    assert (options.mode, options.cases, options.json, options.secret) == ("test", one_case, None, None)
    assert options.submission == root / "submission" / "submission.py"
    assert options.device is None


@pytest.mark.parametrize(("found", "judged"), [("cpu", "cpu"), ("cuda", "cuda:0"), ("cuda:1", "cuda:1")])
def test_without_an_option_the_device_that_is_there_is_judged(runs, monkeypatch, one_case, found, judged):
    monkeypatch.delenv("POPCORN_FD", raising=False)
    monkeypatch.delenv("POPCORN_SEED", raising=False)
    monkeypatch.setattr(evaluation, "device_for", lambda submission: torch.device(found))
    monkeypatch.setattr(evaluation.chip, "name", lambda device: "some chip")
    monkeypatch.setattr(evaluation.capacity, "does_not_fit", lambda case, device: "")
    monkeypatch.setattr(evaluation.report, "header", lambda *given: "header")
    monkeypatch.setattr(evaluation.report, "footer", lambda results, verbose: "footer")
    assert command.main(["test", str(one_case)]) == 0
    assert [str(asked[2]) for asked in runs] == [judged]


@pytest.mark.parametrize(("extent", "code"), [(1, 0), (2, 112)])
def test_the_exit_code_tells_whether_every_case_passed(runs, monkeypatch, tmp_path, capsys, extent, code):
    path, record = tmp_path / "c.txt", tmp_path / "out.json"
    path.write_text("\n".join(f"m: {m}; n: 1; k: 64; l: 1; seed: 1" for m in (1, extent, 1)))
    monkeypatch.delenv("POPCORN_FD", raising=False)
    monkeypatch.setenv("POPCORN_SEED", "2")
    assert command.main(["test", str(path), "--json", str(record), "--device", "cpu"]) == code
    shown = capsys.readouterr().out
    assert f"{2 + extent % 2} of 3 tests pass" in shown
    written = json.loads(record.read_text())
    assert [result["passed"] for result in written["results"]] == [True, extent == 1, True]
    assert written["results"][0]["seed"] == 1 + 3 * 4 // 2
    assert record.read_text().endswith("}\n")


@pytest.mark.parametrize("words", [["test"], ["benchmark"], ["benchmark", "--baseline", "b.py"]])
def test_a_report_stands_between_its_header_and_its_footer(runs, monkeypatch, one_case, capsys, tmp_path, words):
    monkeypatch.delenv("POPCORN_FD", raising=False)
    monkeypatch.delenv("POPCORN_SEED", raising=False)
    monkeypatch.chdir(tmp_path)
    (tmp_path / "b.py").write_text("")
    shown = []
    monkeypatch.setattr(evaluation.report, "header", lambda *given: "header")
    monkeypatch.setattr(evaluation.report, "footer", lambda results, verbose: f"footer of {len(results)}")
    monkeypatch.setattr(evaluation, "print_report", lambda mode, results, chip: shown.append((mode, len(results))))
    monkeypatch.setattr(evaluation.report, "print_comparisons", lambda compared, chip: shown.append(len(compared)))
    monkeypatch.setattr(evaluation, "compare", lambda *given: [])
    assert command.main([words[0], str(one_case), *words[1:], "--device", "cpu"]) == 0
    assert capsys.readouterr().out.splitlines()[:2] == ["header", f"footer of {int(len(words) == 1)}"]
    assert shown == ([(words[0], 1)] if len(words) == 1 else [0])


def test_a_bad_case_file_is_told_before_anything_runs(runs, monkeypatch, tmp_path, capsys):
    monkeypatch.delenv("POPCORN_FD", raising=False)
    assert command.main(["test", str(tmp_path / "none.txt"), "--device", "cpu"]) == 113
    assert "nvfp4 eval: cannot read" in capsys.readouterr().err
    assert runs == []


@pytest.mark.parametrize(
    ("words", "bounds"),
    [
        ([], Bounds(40, 60.0, 8)),
        (["--pairs", "12"], Bounds(12, 60.0, 8)),
        (["--seconds", "30"], Bounds(40, 30.0, 1)),
        (["--pairs", "9", "--seconds", "30"], Bounds(9, 30.0, 1)),
    ],
)
def test_the_user_bounds_pairs_and_seconds_of_a_comparison(monkeypatch, one_case, tmp_path, words, bounds):
    monkeypatch.delenv("POPCORN_FD", raising=False)
    (tmp_path / "b.py").write_text("")
    given = ["benchmark", str(one_case), "--baseline", str(tmp_path / "b.py")]
    assert command.parse_arguments([*given, *words]).bounds == bounds


@pytest.mark.parametrize("words", [["--pairs", "7"], ["--pairs", "x"], ["--seconds", "0"]])
def test_bounds_that_allow_no_verdict_are_wrong_usage(one_case, tmp_path, words):
    (tmp_path / "b.py").write_text("")
    with pytest.raises(SystemExit):
        command.parse_arguments(["benchmark", str(one_case), "--baseline", str(tmp_path / "b.py"), *words])
    with pytest.raises(SystemExit):
        command.parse_arguments(["benchmark", str(one_case), "--pairs", "9"])


def test_a_sandbox_that_loses_a_part_ends_the_run_with_a_failure_of_the_harness(monkeypatch, tmp_path, capsys):
    """The record keeps what was judged before; the protocol says fail."""
    path, record, lines = tmp_path / "c.txt", tmp_path / "out.json", tmp_path / "lines"
    path.write_text("\n".join(f"m: {m}; n: 1; k: 64; l: 1; seed: 1" for m in (1, 2, 3)))

    def runner(submission, case, device, limits, data):
        if case.shape.m == 2:
            raise Weakened("the sandbox lost a part")
        return Result(case)

    monkeypatch.setattr(evaluation, "RUNNERS", dict.fromkeys(evaluation.RUNNERS, runner))
    with lines.open("w") as file:
        monkeypatch.setenv("POPCORN_FD", str(os.dup(file.fileno())))
        assert command.main(["test", str(path), "--json", str(record), "--device", "cpu"]) == 2
    assert "nvfp4 eval: the sandbox lost a part" in capsys.readouterr().err
    assert [result["passed"] for result in json.loads(record.read_text())["results"]] == [True]
    ended = ["test.1.error: the sandbox lost a part", "check: fail"]
    assert lines.read_text().splitlines()[-3:] == ["test.1.status: fail", *ended]


def test_a_pass_on_the_leaderboards_data_names_the_codes_that_it_never_saw(runs, monkeypatch, one_case, capsys):
    monkeypatch.delenv("POPCORN_FD", raising=False)
    said = "the leaderboard's data never hold the codes of 2, 3, 4, 6: --data full judges those too"
    for words, told in (
        (["--problem", "dual_gemm"], True),
        (["--problem", "gemm"], False),
        (["--data", "full"], False),
    ):
        assert command.main(["test", str(one_case), "--device", "cpu", *words]) == 0
        assert (said in capsys.readouterr().out) == told


def test_the_protocol_says_what_lacked_and_what_did_not_count(monkeypatch, one_case):
    result = Result(CASE, rounds_us=ROUNDS, notes=["1 of 9 rounds do not count"], sandbox=State({}, ["mounts: no"]))
    monkeypatch.setattr(evaluation, "RUNNERS", dict.fromkeys(evaluation.RUNNERS, lambda *given: result))
    monkeypatch.setattr(evaluation, "_tolerances", lambda cases, device, limits: [None] * len(cases))
    out = Lines()
    evaluation.evaluate("benchmark", Path("s.py"), cases(1), CPU, out)
    assert ("benchmark.0.note", "1 of 9 rounds do not count") in out.lines
    assert out.lines[-2:] == [("sandbox.lacking", "mounts: no"), ("check", "pass")]
