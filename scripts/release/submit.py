"""Submits a file with popcorn-cli and reports the verdict.

    python -m scripts.release.submit [FILE] [--mode test|benchmark|leaderboard] [--local] [--gpu NAME] [--dry-run]

The file is linted first and not sent if there are findings.  --local runs the leaderboard's checks on your own cloud
account (`popcorn submit --local`, popcorn-cli of August 2026 or later); it works even if the board is closed.
--dry-run prints the command and sends nothing; without popcorn-cli installed, nothing is sent either.  Exit status:
0 passed (or --dry-run), 1 findings or a verdict that is not a pass, 2 wrong usage, 3 not sent because popcorn-cli is
missing.
"""

from __future__ import annotations

import argparse
import json
import re
import shlex
import shutil
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NamedTuple

from scripts.common.toolchain import BUILD
from scripts.release.lint import DIRECTIVE, lint, read

PROGRAMS = ("popcorn-cli", "popcorn")  # the program's names from its package and from its installer
# `gpu` directives of bundles for chips that no leaderboard runs on.
CHIPS_WITHOUT_A_BOARD = {"CPU": "a CPU", "GEFORCE": "a GeForce GPU"}
MODES = ("test", "benchmark", "leaderboard")
NOT_INSTALLED = 3
# Matches a line of popcorn-cli's output that reports a failure.
FAILURE = re.compile(
    r"❌|Compilation failed|Execution failed|evaluation failed|^Error\b|\bnot ranked\b|timed out|\bcheck: fail\b"
    r"|\bstatus: fail\b|: failed\b",
    re.IGNORECASE,
)
SCORE = re.compile(r"^(?:Local \w+|Geomean) score\b.*$", re.MULTILINE)
TEST_PASSED = re.compile(r"^✅ .+$", re.MULTILINE)
TIME = re.compile(r"\b\d[\d.]*(?: ± [\d.]+)? (?:ns|µs|us|ms|s)\b")
MOST_LINES_SHOWN = 10


class Verdict(NamedTuple):
    """The result of a submission."""

    passed: bool
    lines: tuple[str, ...]  # popcorn-cli's lines with the scores, tests or times; the failures if it did not pass


def command_line(program: str, path: Path, leaderboard: str, gpu: str, mode: str, local: bool) -> list[str]:
    """The popcorn-cli command that submits the file; its full-screen interface is off."""
    options = ["--leaderboard", leaderboard, "--gpu", gpu, "--mode", mode]
    return [program, "submit", *(["--local"] if local else ["--no-tui"]), *options, str(path)]


def directives(text: str) -> dict[str, str]:
    """The !POPCORN directives of a submission, value by name; the first one counts if a name is repeated."""
    found: dict[str, str] = {}
    for line in text.splitlines():
        match = DIRECTIVE.match(line)
        if match is not None:
            found.setdefault(match.group(1), match.group(2).strip())
    return found


def _json_objects(text: str) -> Iterator[dict[str, object]]:
    """Yields every JSON object in the text, nested ones included; other text is skipped."""
    decoder, position = json.JSONDecoder(), 0
    while (start := min((i for i in (text.find("{", position), text.find("[", position)) if i >= 0), default=-1)) >= 0:
        try:
            value, position = decoder.raw_decode(text, start)
        except ValueError:
            position = start + 1
            continue
        pending = [value]
        while pending:
            part = pending.pop(0)
            if isinstance(part, dict):
                yield part
                pending.extend(part.values())
            elif isinstance(part, list):
                pending.extend(part)


def read_verdict(output: str, status: int, mode: str, local: bool) -> Verdict:
    """The verdict in popcorn-cli's output; `status` is its exit status.

    Any reported failure fails the submission.  A pass needs a score in mode leaderboard, and a passed test, a time or a
    JSON object that says so in the other modes.
    """
    objects = list(_json_objects(output))
    failures = [line.strip() for line in output.splitlines() if FAILURE.search(line)]
    for entry in objects:
        if entry.get("passed") is False or entry.get("success") is False:
            what = [str(entry[key]) for key in ("mode", "error", "stderr") if entry.get(key)]
            failures.append(" ".join(["a run failed:", *what, "(secret)" if entry.get("secret") else ""]).strip())
    if status != 0:
        failures.append(f"popcorn-cli ended with exit status {status}")
    if failures:
        return Verdict(False, tuple(dict.fromkeys(failures)))
    runs = [entry for entry in objects if entry.get("passed") is True]
    scores = SCORE.findall(output)
    if mode == "leaderboard":
        # A public score is ranked only if the run with the secret seed passed; a local run has no secret seed.
        secret = any(entry.get("secret") is True for entry in runs)
        if scores and (local or secret or "(secret)" in output):
            return Verdict(True, tuple(scores))
        missing = "score" if not scores else "passed run with the secret seed"
        return Verdict(False, (f"not ranked: the output has no {missing}",))
    shown = (
        TEST_PASSED.findall(output) if mode == "test" else [x.strip() for x in output.splitlines() if TIME.search(x)]
    )
    if shown or any(entry.get("mode", mode) == mode for entry in runs):
        return Verdict(True, tuple(shown) or (f"{mode} passed",))
    return Verdict(False, ("the output has no verdict",))


def main(arguments: list[str] | None = None) -> int:
    """Lints the file, sends it and prints the verdict; returns the exit status that the module's text lists."""
    parser = argparse.ArgumentParser(
        prog="./nvfp4 submit", description="Submit a file with popcorn-cli and report the verdict."
    )
    parser.add_argument("file", nargs="?", type=Path, default=BUILD / "submission_b200.py")
    parser.add_argument("--mode", choices=MODES, default="test")
    parser.add_argument("--gpu", help="the leaderboard's name of the GPU (default: the file's directive)")
    parser.add_argument("--local", action="store_true", help="run on your own cloud account")
    parser.add_argument("--dry-run", action="store_true", help="print the command and send nothing")
    options = parser.parse_args(arguments)
    try:
        content = read(options.file)
    except OSError as error:
        parser.error(
            f"cannot read {options.file}: {error.strerror}; `./nvfp4 bundle --target b200` writes submission_b200.py"
        )
    findings, notes = lint(content)
    for finding in findings:
        print(f"{options.file}:{finding.line}:{finding.column}: {finding.rule}: {finding.message}")
    for note in notes:
        print(f"submit: note: {note}", file=sys.stderr)
    if findings:
        print(f"submit: {len(findings)} finding(s), nothing sent", file=sys.stderr)
        return 1
    found = directives(content.decode("utf-8"))
    gpu = options.gpu or found.get("gpu") or found["gpus"].split()[0]
    if gpu.upper() in CHIPS_WITHOUT_A_BOARD:
        chip = CHIPS_WITHOUT_A_BOARD[gpu.upper()]
        print(f"submit: {options.file} is for {chip}, which no board has; nothing sent", file=sys.stderr)
        return 1
    program = next((name for name in PROGRAMS if shutil.which(name)), None)
    command = command_line(program or PROGRAMS[0], options.file, found["leaderboard"], gpu, options.mode, options.local)
    print(shlex.join(command), flush=True)
    if options.dry_run:
        return 0
    if program is None:
        print("submit: popcorn-cli is not installed, nothing sent; the command above would send it", file=sys.stderr)
        return NOT_INSTALLED
    done = subprocess.run(command, stdout=subprocess.PIPE, stderr=subprocess.STDOUT, check=False)
    output = done.stdout.decode(errors="replace")
    print(output, end="" if output.endswith("\n") else "\n")
    verdict = read_verdict(output, done.returncode, options.mode, options.local)
    print(f"submit: {options.mode} {'passed' if verdict.passed else 'FAILED'}")
    for line in verdict.lines[:MOST_LINES_SHOWN]:
        print(f"submit:   {line}")
    return 0 if verdict.passed else 1


if __name__ == "__main__":
    sys.exit(main())
