"""Misuse of the command line gives a message and the documented exit code, and loses no measurement."""

from __future__ import annotations

import json
import os
import resource
import subprocess
import sys
import time
import traceback
from dataclasses import replace
from pathlib import Path
from typing import NamedTuple

import pytest
import torch

from eval import command, evaluation
from eval.hardware import capacity
from eval.sandbox import lifetime
from eval.supervisor import Result
from eval.workers import template

SPEC = "m: 8; n: 16; k: 64; l: 1; seed: 1"
HONEST = Path(__file__).resolve().parents[2] / "adversarial" / "honest" / "honest.py"
ENDED_BY_TRACEBACK, RAN = 99, 98


class Outcome(NamedTuple):
    """The result of a run."""

    code: int
    out: str
    err: str


def judged(arguments, environment=None, prepare=None, runner=None):
    """The command line in a copy of this process, whose streams `prepare` may spoil; the cases are only pretended.

    A copy, because a process that has to import torch takes two seconds.
    """
    out, err = os.pipe(), os.pipe()
    child = os.fork()
    if child == 0:
        try:
            for pipe, descriptor in ((out, 1), (err, 2)):
                os.dup2(pipe[1], descriptor)
                os.close(pipe[0])
                os.close(pipe[1])
            sys.stdin = open(os.devnull)  # noqa: PTH123, SIM115
            sys.stdout, sys.stderr = (os.fdopen(n, "w", closefd=False) for n in (1, 2))
            for name in ("POPCORN_FD", "POPCORN_SEED"):
                os.environ.pop(name, None)
            os.environ.update(environment or {})
            if prepare:
                prepare()
            pretend = runner or (
                lambda submission, case, device, limits, data: Result(case, rounds_us=[1.0], checked=1)
            )
            evaluation.RUNNERS = dict.fromkeys(evaluation.RUNNERS, pretend)
            evaluation._tolerances = lambda cases, device, limits: [None] * len(cases)
            template.prepare = bool  # there is no worker, and a template would import torch for it
            # A path of this machine that is not the harness's own.
            code = lifetime.run_to_the_end(lambda: command.main([str(x) for x in arguments]))
        except SystemExit as exit:
            code = exit.code
        except BaseException:
            code = ENDED_BY_TRACEBACK
            os.write(err[1] if err[1] > 2 else 2, traceback.format_exc().encode())
        try:
            for stream in (sys.stdout, sys.stderr):
                if stream is not None:
                    stream.flush()
        except (OSError, ValueError):
            code = 120  # as of an interpreter that cannot flush
        os._exit(code)
    texts = []
    for pipe in (out, err):
        os.close(pipe[1])
        with os.fdopen(pipe[0], "rb") as file:
            texts.append(file.read().decode(errors="surrogateescape"))
    return Outcome(os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]), *texts)


@pytest.fixture
def cases(tmp_path):
    path = tmp_path / "cases.txt"
    path.write_text(f"{SPEC}\n{SPEC}\n")
    return path


def common(cases, *more, mode="test"):
    return (mode, cases, "--device", "cpu", "--submission", HONEST, *more)


def told(outcome, code, text):
    assert outcome.code == code, outcome
    assert text in outcome.err + outcome.out, outcome
    assert "Traceback" not in outcome.err + outcome.out, outcome
    assert all(len(line) < 1500 for line in outcome.err.splitlines()[-1:]), outcome
    assert "\x1b" not in outcome.err + outcome.out


def test_the_pretended_run_passes(cases, tmp_path):
    outcome = judged(common(cases, "--json", tmp_path / "out.json"))
    told(outcome, 0, "2 of 2 tests pass")
    assert json.loads((tmp_path / "out.json").read_text())["complete"] is True


@pytest.mark.parametrize(
    ("content", "text"),
    [
        (b"m: " + b"9" * 5000 + b"; n: 1; k: 64; l: 1; seed: 1", "m has 5000 digits"),
        (b"m: 1; n: 1; k: 64; l: 1; seed: " + b"9" * 5000, "seed has 5000 digits"),
        (b"m: 99999999999; n: 99999999; k: 6400000; l: 1; seed: 1", "the case is too large for this machine"),
        (b"m: \x1b[2J; n: 1; k: 64; l: 1; seed: 1", r"\x1b[2J"),
        (b"\x00" * 2_000_000, "longer than"),
        (b"\xff\xfem\x00", "cannot read"),
        (b"\xef\xbb\xbf", "holds no case"),
    ],
)
def test_a_case_file_that_asks_for_the_impossible_is_a_bad_case_file(tmp_path, content, text):
    path = tmp_path / "bad.txt"
    path.write_bytes(content)
    told(judged(common(path)), 113, text)


def test_a_submission_that_waits_for_a_writer_is_no_file(cases, tmp_path):
    os.mkfifo(tmp_path / "fifo")
    told(judged(("test", cases, "--submission", tmp_path / "fifo")), 2, "fifo is no file that can be read")


def test_a_name_in_two_lines_forges_none(cases, tmp_path):
    named = tmp_path / "kernel\nsandbox: all of it.py"
    named.write_bytes(HONEST.read_bytes())
    outcome = judged(("test", cases, "--device", "cpu", "--submission", named))
    told(outcome, 0, f"test of {tmp_path}/kernel / sandbox: all of it.py: dual_gemm, backend cpu\n")
    told(judged(common(named)), 113, f"nvfp4 eval: {tmp_path}/kernel / sandbox: all of it.py:1: ")


def test_a_folder_and_a_device_without_end_are_no_case_files(tmp_path):
    told(judged(common(tmp_path)), 113, "cannot read")
    told(judged(common("/dev/zero")), 113, "/dev/zero")
    told(judged(common(tmp_path / ("x" * 5000))), 113, "cannot read")


def test_a_byte_order_mark_is_no_harm(cases):
    cases.write_text(SPEC, encoding="utf-8-sig")
    told(judged(common(cases)), 0, "1 of 1 tests pass")


@pytest.mark.parametrize(
    ("options", "text"),
    [
        (("--json", "{tmp}"), "Is a directory"),
        (("--json", "{tmp}/none/out.json"), "is not a folder"),
        (("--json", "{tmp}/" + "x" * 5000), "name too long"),
        (("--json", "{tmp}/fifo"), "No such device or address"),
        (("--submission", "{tmp}"), "is no file that can be read"),
        (("--submission", "{tmp}/\x1b[31m"), r"\x1b[31m does not exist"),
        (("--submission", "x" * 5000), "does not exist"),
        (("--device", "\x1b[2J"), "'; expected cpu or cuda"),
        (("--device", "cuda:99999999999999999999"), "'cuda:99999999999999999999'"),
        (("--timeout", "nan"), "'nan'; expected seconds"),
        (("--timeout", "inf"), "'inf'; expected seconds"),
        (("--timeout", "0"), "'0'; expected seconds"),
        (("--timeout", "-1"), "expected seconds"),
        (("--timeout", "soon"), "'soon'; expected seconds"),
        (("--timeout", "\u0661"), "expected seconds"),
        (("--timeout", "9" * 5000), "expected seconds"),
        (("\x1b[2J",), "unrecognized arguments"),
        (("--data", "some"), "invalid choice: 'some'"),
        (("--baseline", "{tmp}/none.py"), "--baseline: {tmp}/none.py does not exist"),
        (("--baseline", str(HONEST)), "--baseline: not in mode test; expected benchmark or leaderboard"),
    ],
)
def test_wrong_usage_is_told_and_nothing_runs(cases, tmp_path, options, text):
    os.mkfifo(tmp_path / "fifo")
    outcome = judged(common(cases, *(option.replace("{tmp}", str(tmp_path)) for option in options)))
    assert (outcome.code, "Traceback" in outcome.err) == (2, False), outcome
    assert (
        text.replace("{tmp}", str(tmp_path)) in outcome.err
        and "tests pass" not in outcome.out
        and "\x1b" not in outcome.err
    ), outcome


@pytest.mark.parametrize("seed", ["x", "9" * 5000, "1.5", "\x1b[2J"])
def test_a_secret_seed_that_is_no_integer_is_wrong_usage(cases, seed):
    told(judged(common(cases), {"POPCORN_SEED": seed}), 2, "expected an integer of at most 19 digits")


def closed(*descriptors):
    def prepare():
        for descriptor in descriptors:
            os.close(descriptor)
            if descriptor < 3:
                setattr(sys, ("stdin", "stdout", "stderr")[descriptor], None)

    return prepare


@pytest.mark.parametrize(("stream", "text"), [("closed", "standard output is closed"), ("unread", "no process reads")])
def test_standard_output_that_takes_nothing_is_refused_at_the_start(cases, stream, text):
    def unread():
        read, write = os.pipe()
        os.close(read)
        os.dup2(write, 1)

    outcome = judged(
        common(cases),
        prepare=closed(1) if stream == "closed" else unread,
        runner=lambda *everything: os._exit(RAN),
    )
    told(outcome, 2, text)


def test_a_full_device_is_refused_at_the_start(cases):
    def full():
        os.dup2(os.open("/dev/full", os.O_WRONLY), 1)

    told(judged(common(cases), prepare=full, runner=lambda *everything: os._exit(RAN)), 2, "No space left on device")


def test_standard_output_that_breaks_later_loses_the_report_alone(cases, tmp_path):
    """The verdict and the record stay."""

    def breaks(submission, case, device, limits, data):
        os.dup2(os.open("/dev/full", os.O_WRONLY), 1)
        return Result(case, error="it broke")

    outcome = judged(common(cases, "--json", tmp_path / "out.json"), runner=breaks)
    told(outcome, 112, "No space left on device: the report is lost")
    record = json.loads((tmp_path / "out.json").read_text())
    assert [result["error"] for result in record["results"]] == ["it broke"] * 2 and record["complete"]


@pytest.mark.parametrize("descriptors", [(0,), (2,), (0, 2)])
def test_other_streams_may_be_closed(cases, tmp_path, descriptors):
    outcome = judged(common(cases, "--json", tmp_path / "out.json"), prepare=closed(*descriptors))
    assert outcome.code == 0 and "2 of 2 tests pass" in outcome.out, outcome
    assert json.loads((tmp_path / "out.json").read_text())["complete"]


def test_standard_error_that_takes_nothing_loses_no_report(cases):
    def full():
        os.dup2(os.open("/dev/full", os.O_WRONLY), 2)

    outcome = judged(common(cases), prepare=full)
    assert outcome.code == 0 and "2 of 2 tests pass" in outcome.out, outcome


def test_a_record_that_its_file_does_not_take_is_put_elsewhere(cases, tmp_path):
    (tmp_path / "tmp").mkdir()

    def prepare():
        import tempfile

        tempfile.tempdir = str(tmp_path / "tmp")

    outcome = judged(common(cases, "--json", "/dev/full"), prepare=prepare)
    told(outcome, 0, "--json: /dev/full: No space left on device; the record is in ")
    (path,) = (tmp_path / "tmp").glob("*.json")
    assert json.loads(path.read_text())["complete"]


def test_measurements_before_an_end_by_signal_are_kept(cases, tmp_path):
    (tmp_path / "out.json").write_text("an older, much longer text" * 1000)

    def runner(submission, case, device, limits, data, seen=[]):  # noqa: B006
        seen.append(case)
        if len(seen) == 2:
            os.kill(os.getpid(), 15)
            time.sleep(10)
        return Result(case, rounds_us=[7.0])

    outcome = judged(common(cases, "--json", tmp_path / "out.json", mode="benchmark"), runner=runner)
    told(outcome, 143, "nvfp4 eval: ended by SIGTERM")
    record = json.loads((tmp_path / "out.json").read_text())
    assert (len(record["results"]), record["complete"], record["results"][0]["median_us"]) == (1, False, 7.0)


def test_a_record_of_nothing_leaves_no_file(cases, tmp_path):
    path = tmp_path / "bad.txt"
    path.write_text("m: x")
    assert judged(common(path, "--json", tmp_path / "out.json")).code == 113
    assert not (tmp_path / "out.json").exists()


def test_a_descriptor_that_cannot_be_written_to_has_its_own_code(cases, tmp_path):
    read, write = os.pipe()
    told(judged(common(cases), {"POPCORN_FD": str(read)}), 111, "open for reading only")
    os.close(read)
    told(judged(common(cases), {"POPCORN_FD": str(write)}), 111, "its other end is closed")
    os.close(write)
    for text in ("", "999", "-1", "abc", "9" * 5000, "\x1b[2J"):
        told(judged(common(cases), {"POPCORN_FD": text}), 111, "POPCORN_FD is '")


def test_a_descriptor_that_breaks_later_keeps_the_record(cases, tmp_path):
    read, write = os.pipe()

    def runner(submission, case, device, limits, data):
        os.dup2(os.open("/dev/full", os.O_WRONLY), write)
        return Result(case)

    outcome = judged(common(cases, "--json", tmp_path / "out.json"), {"POPCORN_FD": str(write)}, runner=runner)
    told(outcome, 111, "POPCORN_FD: No space left on device: results are lost")
    assert json.loads((tmp_path / "out.json").read_text())["complete"]
    os.close(read)
    os.close(write)


def test_a_baseline_has_no_place_in_the_protocol(cases):
    read, write = os.pipe()
    options = common(cases, "--baseline", HONEST, mode="benchmark")
    told(judged(options, {"POPCORN_FD": str(write)}), 2, "--baseline")
    os.close(read)
    os.close(write)


def test_text_that_standard_output_cannot_encode_is_written_out(cases):
    def prepare():
        sys.stdout = os.fdopen(1, "w", encoding="ascii", closefd=False)

    outcome = judged(
        common(cases),
        prepare=prepare,
        runner=lambda s, case, d, limits, data: Result(case, error="5 µs \ud800 \x1b[2J"),
    )
    told(outcome, 112, r"5 \xb5s \ud800 \x1b[2J")


def test_the_first_failure_can_be_the_last(cases, tmp_path):
    outcome = judged(
        common(cases, "--fail-fast", "--json", tmp_path / "out.json"),
        runner=lambda s, case, d, limits, data: Result(case, error="it broke"),
    )
    told(outcome, 112, "0 of 1 tests pass")
    assert json.loads((tmp_path / "out.json").read_text())["complete"] is False


def test_a_timeout_is_the_deadline_of_each_answer(cases):
    outcome = judged(
        common(cases, "--timeout", "2.5"),
        runner=lambda s, case, d, limits, data: Result(case, error=f"{limits.answer_s}"),
    )
    told(outcome, 112, "FAIL 2 cases (8 16 64): 2.5")


def test_capacity_is_asked_for_the_device_that_is_judged(monkeypatch, cases, capsys):
    asked = []
    monkeypatch.delenv("POPCORN_FD", raising=False)
    monkeypatch.setattr(capacity, "available_bytes", lambda device: asked.append(device) or 1)
    assert command.main([str(argument) for argument in common(cases)]) == 113
    assert f"{cases}: {SPEC}: the case is too large for this machine" in capsys.readouterr().err
    assert asked == [torch.device("cpu")]


def test_what_needs_no_torch_is_told_without_loading_it(cases, tmp_path):
    """A process that has to import torch takes seconds."""
    program = (
        "import sys; from eval.command import main\n"
        "try: code = main(sys.argv[1:])\n"
        "except SystemExit as end: code = end.code\n"
        "print(code, 'torch' in sys.modules)"
    )
    for arguments in (
        ("dance", cases),
        ("test", tmp_path / "none.txt"),
        common(cases, "--json", tmp_path / "no" / "x"),
    ):
        done = subprocess.run([sys.executable, "-c", program, *map(str, arguments)], capture_output=True, text=True)
        assert done.stdout.split() in (["2", "False"], ["113", "False"]), done


@pytest.mark.parametrize(
    ("wrong", "text"),
    [
        ({"BUILD": "/nonexistent/build"}, "/nonexistent/build/libtiming_core.so does not exist; run `make build`"),
        ({}, "files are limited to 0 bytes (ulimit -f)"),
    ],
)
def test_a_setting_that_cannot_work_is_not_the_submissions_fault(cases, wrong, text):
    """In a new process: BUILD is read at the start."""

    def limit():
        resource.setrlimit(resource.RLIMIT_FSIZE, (0, resource.RLIM_INFINITY))

    done = subprocess.run(
        [sys.executable, "-m", "eval", *map(str, common(cases))],
        env={**os.environ, **wrong}, preexec_fn=None if wrong else limit, capture_output=True, text=True,
    )  # fmt: skip
    told(Outcome(done.returncode, done.stdout, done.stderr), 2, text)


def test_a_current_folder_that_is_gone_is_told(cases, tmp_path):
    def leave():
        (tmp_path / "gone").mkdir()
        os.chdir(tmp_path / "gone")
        (tmp_path / "gone").rmdir()

    told(judged(common(cases), prepare=leave), 2, "the current folder: No such file or directory")


def test_the_record_overwrites_no_file_that_the_run_reads(cases, tmp_path):
    own, link, baseline = tmp_path / "own.py", tmp_path / "link.json", tmp_path / "baseline.py"
    for path in (own, baseline):
        path.write_bytes(HONEST.read_bytes())
    hard = tmp_path / "hard.json"
    hard.hardlink_to(own)
    link.symlink_to(tmp_path / "elsewhere.json")
    options = ("benchmark", cases, "--device", "cpu", "--submission", own, "--baseline", baseline)
    for record, text in (
        (own, "is the submission"),
        (hard, "is the submission"),
        (baseline, "is the baseline"),
        (cases, "is the case file"),
        (link, "is a link"),
    ):
        told(judged((*options, "--json", record)), 2, text)
    assert own.read_bytes() == HONEST.read_bytes() and not (tmp_path / "elsewhere.json").exists()


def test_a_record_may_go_to_standard_output(cases):
    told(judged(common(cases, "--json", "/dev/stdout")), 0, '"complete": true')


def test_a_busy_machine_is_told_last_and_the_outputs_stay_right(cases):
    outcome = judged(
        common(cases, mode="benchmark"),
        runner=lambda s, case, d, limits, data: Result(case, error="busy", unmeasured=True, checked=9),
    )
    told(outcome, 112, "8 16 64")
    *_, last = outcome.out.splitlines()
    assert (
        "2 of 2 cases NOT MEASURED: the machine was too busy" in last and "All 18 of their outputs were right" in last
    )
    assert last.endswith("Run again when nothing else runs.")


def test_a_wrong_output_on_a_busy_machine_stays_a_failure(cases):
    results = iter((Result(None, error="busy", unmeasured=True, checked=9), Result(None, error="wrong result")))
    outcome = judged(
        common(cases, mode="benchmark"),
        runner=lambda s, case, d, limits, data: replace(next(results), case=case),
    )
    told(outcome, 112, "FAIL 8 16 64: wrong result")
    assert "1 of 2 cases NOT MEASURED" in outcome.out and "1 other cases failed" in outcome.out
