"""scripts/release/submit.py: the command it runs, and that only a real pass counts as one."""

from __future__ import annotations

import json
import os
import stat
import subprocess
import sys

import pytest

from scripts.release.submit import command_line, directives, read_verdict

SUBMISSION = """#!POPCORN leaderboard nvfp4_dual_gemm
#!POPCORN gpu B200
def custom_kernel(data):
    return data[-1]
"""
TESTS = "Tests\n✅ m: 256; n: 512\n\n✅ m: 128; n: 128\n"
LOCAL = f"{TESTS}\nBenchmarks\nm: 256\n ⏱ 12.4 ± 0.02 µs\n\nRanked benchmarks\nm: 256\n 12.4 µs\n\n"


def runs(*entries):
    """Output of the hosted board: JSON with a list of runs."""
    keys = ("mode", "secret", "score", "passed")
    return json.dumps({"id": 7, "runs": [dict(zip(keys, entry, strict=True)) for entry in entries]}, indent=2)


PUBLIC = ("leaderboard", False, "0.0000131", True)
SECRET = ("leaderboard", True, "0.0000132", True)
SCORES = "Geomean score (public) on B200: 0.0000131 s\nGeomean score (secret) on B200: 0.0000132 s\n"


@pytest.mark.parametrize(
    ("output", "mode", "local", "line"),
    [
        (TESTS, "test", True, "✅ m: 256; n: 512"),
        (runs(("test", False, None, True)), "test", False, "test passed"),
        (LOCAL, "benchmark", True, "⏱ 12.4 ± 0.02 µs"),
        (LOCAL + "Local geom score: 0.0000124 s\n", "leaderboard", True, "Local geom score: 0.0000124 s"),
        (SCORES + runs(PUBLIC, SECRET), "leaderboard", False, "Geomean score (public) on B200: 0.0000131 s"),
    ],
)
def test_passes_are_read(output, mode, local, line):
    verdict = read_verdict(output, 0, mode, local)
    assert verdict.passed and verdict.lines[0] == line


@pytest.mark.parametrize(
    ("output", "status", "mode", "local", "line"),
    [
        ("", 0, "test", True, "the output has no verdict"),
        ("Waiting for results...\n", 0, "benchmark", False, "the output has no verdict"),
        (TESTS, 1, "test", True, "popcorn-cli ended with exit status 1"),
        (TESTS + "❌ m: 1\n> wrong result\n", 0, "test", True, "❌ m: 1"),
        (TESTS + "\nBenchmarks\nCompilation failed:\nnvcc: error\n", 0, "benchmark", True, "Compilation failed:"),
        (LOCAL + "Ranked benchmarks\nExecution failed:\nboom\n", 0, "leaderboard", True, "Execution failed:"),
        ("Error: deadline has passed\n" + TESTS, 0, "test", False, "Error: deadline has passed"),
        (runs(("test", False, None, True), ("test", False, None, False)), 0, "test", False, "a run failed: test"),
        (SCORES + runs(PUBLIC, (*SECRET[:3], False)), 0, "leaderboard", False, "a run failed: leaderboard (secret)"),
        (SCORES.splitlines()[0] + "\n" + runs(PUBLIC), 0, "leaderboard", False,
         "not ranked: the output has no passed run with the secret seed"),
        (runs(PUBLIC, SECRET), 0, "leaderboard", False, "not ranked: the output has no score"),
        (LOCAL, 0, "leaderboard", True, "not ranked: the output has no score"),
        (json.dumps({"success": False, "error": "no GPU"}), 0, "test", False, "a run failed: no GPU"),
        (SCORES + runs(PUBLIC, SECRET) + "\nsubmission is not ranked", 0, "leaderboard", False,
         "submission is not ranked"),
    ],
)  # fmt: skip
def test_failures_come_first(output, status, mode, local, line):
    verdict = read_verdict(output, status, mode, local)
    assert not verdict.passed and verdict.lines[0] == line


def test_commands():
    hosted = command_line("popcorn-cli", "build/x.py", "nvfp4_dual_gemm", "B200", "leaderboard", False)
    assert " ".join(hosted) == (
        "popcorn-cli submit --no-tui --leaderboard nvfp4_dual_gemm --gpu B200 --mode leaderboard build/x.py"
    )
    assert command_line("popcorn", "build/x.py", "x", "B200", "test", True)[:3] == ["popcorn", "submit", "--local"]


def test_directives_are_read():
    assert directives(SUBMISSION) == {"leaderboard": "nvfp4_dual_gemm", "gpu": "B200"}


# --- the command, with a stand-in for popcorn-cli ---------------------------------------------------------------


@pytest.fixture
def submit(root, tmp_path):
    """Runs submit.py on a small submission, with a shell script in place of popcorn-cli."""
    file, programs = tmp_path / "submission.py", tmp_path / "bin"
    programs.mkdir()

    def run(*arguments, popcorn=None, text=SUBMISSION):
        file.write_text(text)
        if popcorn is not None:
            program = programs / "popcorn-cli"
            program.write_text(f"#!/bin/sh\necho sent >> {tmp_path}/sent\n{popcorn}\n")
            program.chmod(program.stat().st_mode | stat.S_IXUSR)
        return subprocess.run(
            [sys.executable, "-m", "scripts.release.submit", str(file), *arguments],
            cwd=root,
            env={**os.environ, "PATH": f"{programs}:/usr/bin:/bin"},
            capture_output=True,
            text=True,
        )

    run.sent = tmp_path / "sent"
    return run


def test_a_pass_exits_0_and_shows_the_command_and_the_verdict(submit):
    done = submit(popcorn="echo '✅ m: 256'")
    assert done.returncode == 0, done.stderr
    assert done.stdout.startswith("popcorn-cli submit --no-tui --leaderboard nvfp4_dual_gemm --gpu B200 --mode test ")
    assert done.stdout.endswith("submit: test passed\nsubmit:   ✅ m: 256\n")


def test_a_failure_exits_1_and_is_named(submit):
    done = submit("--mode", "leaderboard", "--local", popcorn="echo '✅ a'; echo '❌ b'; exit 0")
    assert done.returncode == 1
    assert done.stdout.endswith("submit: leaderboard FAILED\nsubmit:   ❌ b\n")


def test_popcorns_standard_error_counts(submit):
    done = submit(popcorn="echo '✅ a'; echo 'Error: 503' >&2")
    assert done.returncode == 1 and "submit:   Error: 503" in done.stdout


def test_a_dry_run_sends_nothing(submit):
    done = submit("--dry-run", "--local", "--gpu", "H100", "--mode", "benchmark", popcorn="exit 9")
    assert done.returncode == 0
    assert "popcorn-cli submit --local --leaderboard nvfp4_dual_gemm --gpu H100 --mode benchmark " in done.stdout
    assert not submit.sent.exists()


@pytest.mark.parametrize(
    ("mode", "printed"), [("test", "✅ a"), ("benchmark", "1.5 us"), ("leaderboard", "Local geom score: 1 s")]
)
def test_every_mode_may_be_asked_for_and_no_other(submit, mode, printed):
    done = submit("--mode", mode, "--local", popcorn=f"echo '{printed}'")
    assert done.returncode == 0 and f" --mode {mode} " in done.stdout and f"submit: {mode} passed" in done.stdout
    assert submit("--mode", f"{mode}s").returncode == 2


def test_without_popcorn_the_command_is_shown_and_nothing_was_sent(submit):
    done = submit()
    assert done.returncode == 3
    assert done.stdout.startswith("popcorn-cli submit ") and "popcorn-cli is not installed" in done.stderr


def test_a_file_with_findings_is_not_sent(submit):
    done = submit(popcorn="echo '✅ a'", text=SUBMISSION + "# stream\n")
    assert done.returncode == 1
    assert "submission.py:5:3: filtered-word" in done.stdout and "nothing sent" in done.stderr
    assert not submit.sent.exists()


def test_a_missing_file_is_wrong_usage(root, tmp_path):
    command = [sys.executable, "-m", "scripts.release.submit", str(tmp_path / "none.py")]
    done = subprocess.run(command, cwd=root, capture_output=True, text=True)
    assert done.returncode == 2 and "`./nvfp4 bundle --target b200`" in done.stderr


def test_a_bundle_for_a_cpu_is_not_sent_whoever_names_the_gpu(submit):
    for kind, arguments, text in (
        ("CPU", (), SUBMISSION.replace("B200", "CPU")),
        ("CPU", ("--gpu", "cpu"), SUBMISSION),
        ("GeForce GPU", (), SUBMISSION.replace("B200", "GEFORCE")),
    ):
        done = submit(*arguments, "--dry-run", popcorn="echo '✅ a'", text=text)
        assert done.returncode == 1 and f"is for a {kind}, which no board has; nothing sent" in done.stderr
    assert not submit.sent.exists()
