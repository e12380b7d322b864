"""The leaderboard's protocol, line by line, and the command line's exit codes."""

from __future__ import annotations

import base64
import json
import os
import socket
import subprocess
import sys
import tempfile

import pytest

ADVERSARIAL = "tests/adversarial"
SPECS = ("m: 128; n: 128; k: 256; l: 1; seed: 1111", "m: 40; n: 72; k: 64; l: 2; seed: 7")


@pytest.fixture(scope="module")
def cases(tmp_path_factory):
    path = tmp_path_factory.mktemp("cases") / "cases.txt"
    path.write_text("\n".join(SPECS) + "\n\n")
    return path


# What `python -m eval` does, again and again: with a process for each, every harness and its template would import
# torch.  Cases are timed in fewer rounds.
PROGRAM = """
import json, os, sys
from dataclasses import replace
from eval import command, evaluation
from eval.output.protocol import note_descriptor
from eval.sandbox import lifetime

limits_for, before, answers = evaluation.limits_for, dict(os.environ), os.fdopen(os.dup(1), "w")
evaluation.limits_for = lambda *of: replace(limits_for(*of), max_rounds=20)
for line in sys.stdin:
    arguments, environment, lines, printed = json.loads(line)
    os.environ.update(environment)
    if lines:
        os.environ["POPCORN_FD"] = str(os.open(lines, os.O_WRONLY | os.O_APPEND))
    note_descriptor()
    opened = os.open(printed, os.O_WRONLY | os.O_APPEND)
    for descriptor in (1, 2):
        os.dup2(opened, descriptor)
    os.close(opened)
    try:
        code = lifetime.run_to_the_end(lambda: command.main(arguments))
    except SystemExit as end:
        code = end.code
    sys.stdout.flush()
    os.environ.clear()
    os.environ.update(before)
    print(code, file=answers, flush=True)
"""


@pytest.fixture(scope="module")
def run(root):
    """Runs the command line: (exit code, protocol lines, what it printed)."""
    harness = subprocess.Popen(
        [sys.executable, "-c", PROGRAM], cwd=root, stdin=subprocess.PIPE, stdout=subprocess.PIPE, text=True,
        env={**os.environ, "OMP_WAIT_POLICY": "passive"},  # as the command line has it before it imports torch
    )  # fmt: skip

    def run(*arguments, popcorn=True, **environment):
        with tempfile.NamedTemporaryFile("r") as lines, tempfile.NamedTemporaryFile("r") as printed:
            asked = [*map(str, arguments)], environment, lines.name if popcorn else "", printed.name
            print(json.dumps(asked), file=harness.stdin, flush=True)
            code = harness.stdout.readline()
            assert code, printed.read()
            return int(code), lines.read().splitlines(), printed.read()

    with harness:
        yield run


def measured(run, *arguments, **options):
    """Runs the command line, again if other tests loaded the machine so much that a case was not measured."""
    for _ in range(4):
        code, lines, printed = run(*arguments, **options)
        if code == 0 or "not measured" not in (printed + "".join(lines)).lower():
            break
    return code, lines, printed


def run_script(root, *arguments):
    """The command line as the leaderboard has it: eval.py in an interpreter of its own, and a pipe for the lines."""
    read, write = os.pipe()
    done = subprocess.run(
        [sys.executable, str(root / "eval" / "eval.py"), *map(str, arguments)],
        env={**os.environ, "POPCORN_FD": str(write)},
        pass_fds=[write],
        capture_output=True,
        text=True,
    )
    os.close(write)
    with os.fdopen(read) as pipe:
        return done.returncode, pipe.read().splitlines(), done.stdout + done.stderr


def test_tests_report_each_case_and_the_check(root, cases):
    code, lines, printed = run_script(root, "test", cases)
    assert code == 0, printed
    assert lines == [
        "test-count: 2",
        f"test.0.spec: {SPECS[0]}",
        "test.0.status: pass",
        f"test.1.spec: {SPECS[1]}",
        "test.1.status: pass",
        "check: pass",
    ]


@pytest.mark.parametrize(
    ("made", "number", "stream", "other"),
    [(os.pipe, 1, "stdout", 2), (lambda: [end.detach() for end in socket.socketpair()], 2, "stderr", 1)],
    ids=["pipe", "socket"],
)
def test_the_lines_may_go_to_a_standard_stream_while_the_other_is_closed(root, cases, made, number, stream, other):
    read, write = made()
    done = subprocess.run(
        ["sh", "-c", f'exec "$0" "$@" {other}>&-', sys.executable, root / "eval" / "eval.py", "test", cases],
        env={**os.environ, "POPCORN_FD": str(number)}, **{stream: write},
    )  # fmt: skip
    os.close(write)
    with os.fdopen(read) as said:
        lines = said.read().splitlines()
    assert (done.returncode, lines[-1]) == (0, "check: pass"), lines


def test_a_failing_test_reports_its_error_and_exits_112(run, root, cases):
    code, lines, _ = run("test", cases, "--submission", root / ADVERSARIAL / "wrong/one_gemm.py")
    assert code == 112
    assert lines[:3] == ["test-count: 2", f"test.0.spec: {SPECS[0]}", "test.0.status: fail"]
    assert lines[3].startswith("test.0.error: wrong result")
    assert lines[-1] == "check: fail"


def test_benchmarks_report_figures_in_nanoseconds(run, tmp_path):
    path = tmp_path / "one.txt"
    path.write_text(SPECS[0])
    code, lines, printed = measured(run, "leaderboard", path)
    assert code == 0, printed
    assert lines[:2] == ["benchmark-count: 1", f"benchmark.0.spec: {SPECS[0]}"]
    keys = ["runs", "mean", "std", "err", "best", "worst"]
    assert [line.split(": ")[0] for line in lines[2:8]] == [f"benchmark.0.{key}" for key in keys]
    figures = dict(zip(keys, (float(line.split(": ")[1]) for line in lines[2:8]), strict=True))
    assert figures["runs"] >= 3
    assert 1e3 < figures["best"] <= figures["mean"] <= figures["worst"] < 1e9
    assert figures["err"] == pytest.approx(figures["std"] / figures["runs"] ** 0.5)
    assert lines[-1] == "check: pass" and all(line.startswith("benchmark.0.note: ") for line in lines[8:-1])


def test_a_failing_benchmark_reports_status_and_error(run, root, cases):
    code, lines, _ = run("benchmark", cases, "--submission", root / ADVERSARIAL / "failing/raises.py")
    assert code == 112
    assert lines[2] == "benchmark.0.status: fail"
    assert lines[3].startswith("benchmark.0.error: custom_kernel failed: ValueError: no such shape")
    assert lines[-1] == "check: fail"


def test_profile_reports_base64(run, root, tmp_path):
    path = tmp_path / "one.txt"
    path.write_text(SPECS[0])
    code, lines, printed = run("profile", path, "--submission", root / ADVERSARIAL / "honest/honest.py")
    assert code == 0, printed
    key, value = lines[2].split(": ")
    assert key == "benchmark.0.report"
    assert "aten::mm" in base64.b64decode(value).decode()


def test_a_submission_that_prints_cannot_write_results(run, root, tmp_path):
    path = tmp_path / "one.txt"
    path.write_text(SPECS[0])
    code, lines, printed = run("test", path, "--submission", root / ADVERSARIAL / "honest/noisy.py", POPCORN_SEED="99")
    assert code == 0, printed
    assert lines.count("check: pass") == 1
    assert "check: pass" not in printed


def test_a_submission_that_writes_to_every_descriptor_cannot_write_results(run, root, tmp_path):
    path = tmp_path / "one.txt"
    path.write_text(SPECS[0])
    code, lines, _ = run("test", path, "--submission", root / ADVERSARIAL / "cheating_results/writes_everywhere.py")
    assert code == 112
    assert lines[:3] == ["test-count: 1", f"test.0.spec: {SPECS[0]}", "test.0.status: fail"]
    assert lines[3].startswith(("test.0.error: the worker's answer is garbled", "test.0.error: an output changed"))
    assert lines[4:] == ["check: fail"]


def test_a_secret_seed_changes_the_data_but_not_the_spec(run, tmp_path):
    path, record = tmp_path / "one.txt", tmp_path / "out.json"
    path.write_text(SPECS[0])
    code, lines, _ = run("test", path, "--json", record, POPCORN_SEED="3")
    assert code == 0
    assert lines[1] == f"test.0.spec: {SPECS[0]}"
    assert json.loads(record.read_text())["results"][0]["seed"] == 1111 + (1111 + 3) * (1111 + 3 + 1) // 2


@pytest.mark.parametrize(
    "text", ["", "m: 1; n: 2", "m: x; n: 1; k: 64; l: 1; seed: 1", "m: 1; n: 1; k: 65; l: 1; seed: 1", None]
)
def test_a_bad_case_file_exits_113(run, tmp_path, text):
    path = tmp_path / "bad.txt"
    if text is not None:
        path.write_text(text)
    code, lines, printed = run("test", path)
    assert (code, lines) == (113, [])
    assert "bad.txt" in printed


def test_wrong_usage_exits_2(run, cases, tmp_path):
    assert run()[0] == 2
    assert run("dance", cases)[0] == 2
    for options, text in (
        (("--submission", tmp_path / "none.py"), "none.py does not exist"),
        (("--json", tmp_path / "none" / "out.json"), "none is not a folder"),
        (("--device", "abacus"), "'abacus'; expected cpu or cuda"),
        (("--device", "meta"), "'meta'; expected cpu or cuda"),
        (("--device", "cuda:99"), "CUDA devices here"),
    ):
        code, lines, printed = run("test", cases, *options)
        assert (code, lines) == (2, [])
        assert text in printed
    code, lines, printed = run("test", cases, POPCORN_SEED="x")
    assert (code, lines) == (2, [])
    assert "POPCORN_SEED is 'x'; expected an integer" in printed


@pytest.mark.parametrize("descriptor", ["999", "-1", "abc"])
def test_an_unusable_descriptor_exits_111(run, cases, descriptor):
    code, _, printed = run("test", cases, popcorn=False, POPCORN_FD=descriptor)
    assert code == 111
    assert "POPCORN_FD" in printed


def test_without_a_descriptor_a_person_gets_tables_and_json(run, cases, tmp_path):
    record = tmp_path / "out.json"
    code, lines, printed = measured(run, "benchmark", cases, "--json", record, popcorn=False)
    assert (code, lines) == (0, [])
    for text in ("128 128 256", "40 72 64 x 2", "geometric mean", "speed of light", "spread"):
        assert text in printed
    written = json.loads(record.read_text())
    results = written["results"]
    assert written["geomean_median_us"] == pytest.approx((results[0]["median_us"] * results[1]["median_us"]) ** 0.5)
    # A checked pass over all inputs, then every output of every round.
    for result in results:
        assert result["outputs_checked"] >= result["inputs"] * (1 + len(result["rounds_us"]))
        assert result["outputs_checked"] % result["inputs"] == 0
    assert [result["passed"] for result in results] == [True, True]
    assert all(len(result["rounds_us"]) >= 3 for result in results)
