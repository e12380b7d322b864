"""Judges a submission: eval.py MODE [CASES_FILE] [--submission FILE] [--json FILE].

MODE is test (is it right), benchmark (how fast), leaderboard (the same with the leaderboard's time limits) or
profile. With POPCORN_FD set, results go there as the leaderboard's `key: value` lines; without it they are printed
as tables. Exit codes: 0 all right, 112 something failed, 113 bad case file, 2 wrong usage, 111 POPCORN_FD is not an
open, writable file descriptor; 129, 130 and 143 ended by SIGHUP, SIGINT and SIGTERM.
"""

from __future__ import annotations

import argparse
import contextlib
import math
import os
import re
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import NoReturn

from eval import settings
from eval.cases import CaseFile, CasesError
from eval.output import outlets, protocol
from eval.output.outlets import tell
from eval.output.protocol import DescriptorError, Protocol
from eval.output.text import TOLD_CHARACTERS, one_line, shortened
from eval.sandbox import Weakened
from eval.stats import LEAST_PAIRS, MOST_PAIRS, SECONDS, Bounds
from reference.problems import DEFAULT, PROBLEMS, problem_of_submission, short_name
from reference.problems.interface import BOARD, FULL, KINDS, Problem

ROOT = Path(__file__).resolve().parent.parent
MODES = ("test", "benchmark", "leaderboard", "profile")
LONGEST_TIMEOUT_S = 86400.0


def device_option(text: str) -> str:
    """Parses --device: `cpu`, or `cuda:INDEX` of a device that torch sees. Raises argparse's error otherwise."""
    match = re.fullmatch(r"cpu(?::0)?|cuda(?::([0-9]{1,9}))?", text)
    if not match:
        raise argparse.ArgumentTypeError(f"'{text}'; expected cpu or cuda")
    if text.startswith("cpu"):
        return "cpu"
    import torch

    index, count = int(match[1] or 0), torch.cuda.device_count()
    if index >= count:
        raise argparse.ArgumentTypeError(f"'{text}'; torch sees {count} CUDA devices here")
    return f"cuda:{index}"


def pairs_option(text: str) -> int:
    """Parses --pairs. Raises argparse's error if it is not a usable count."""
    if not re.fullmatch(r"[0-9]{1,4}", text) or int(text) < LEAST_PAIRS:
        raise argparse.ArgumentTypeError(f"'{text}'; expected {LEAST_PAIRS} or more: fewer have no interval")
    return int(text)


def seconds_option(text: str) -> float:
    """Parses --timeout and --seconds. Raises argparse's error if it is not a usable time."""
    try:
        seconds = float(text.encode("ascii"))
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= LONGEST_TIMEOUT_S:
        raise argparse.ArgumentTypeError(f"'{text}'; expected seconds, more than 0 and at most {LONGEST_TIMEOUT_S:g}")
    return seconds


class Parser(argparse.ArgumentParser):
    """Escapes and shortens its error messages, so that they are safe to print on a terminal."""

    def error(self, message: str) -> NoReturn:
        super().error(one_line(shortened(message, TOLD_CHARACTERS)))


def _is_file(path: Path) -> bool:
    try:
        return path.is_file() and os.access(path, os.R_OK)
    except (OSError, ValueError):  # no file can have this name
        return False


def _same_file(one: Path, other: Path) -> bool:
    try:
        return one.samefile(other)
    except (OSError, ValueError):  # one does not exist; no file can have this name
        return False


def _problem(options: argparse.Namespace, parser: Parser) -> Problem:
    """The problem that --problem names, else the case file's, else the submission's, else the default.

    The lines of some problems have the same keys; the submission's problem then decides. If it cannot be the case
    file's, nothing runs.
    """
    if options.problem:
        return PROBLEMS[options.problem]
    of_submission = problem_of_submission(options.submission) if options.submission else None
    if options.case_file is not None:
        with contextlib.suppress(CasesError):  # reading the cases reports the error later
            of_cases = options.case_file.problem(of_submission)
            if of_submission not in (None, of_cases):
                parser.error(
                    f"--submission: {options.submission} says that it is for {of_submission.name}, and {options.cases} "
                    f"has cases of {of_cases.name}; expected --problem, if they belong together"
                )
            return of_cases
    return of_submission or DEFAULT


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    """The command line's options; ends the program with code 2 and a message if they are wrong."""
    parser = Parser(prog="./nvfp4 eval", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=MODES)
    examples = " or ".join(problem.example for problem in PROBLEMS.values())
    parser.add_argument(
        "cases", type=Path, nargs="?",
        help=f"one case a line: {examples} (default: the leaderboard's cases for the mode)",
    )  # fmt: skip
    parser.add_argument(
        "--problem", type=short_name, choices=PROBLEMS,
        help=f"also as nvfp4_...; default: the case file's, else the submission's, else {DEFAULT.name}",
    )  # fmt: skip
    parser.add_argument(
        "--submission", type=Path, metavar="FILE", help="default: this package's own kernel for the problem"
    )
    parser.add_argument(
        "--device", type=device_option, metavar="cpu|cuda", help="default: cuda if the submission can run there"
    )
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every measurement to FILE")
    parser.add_argument(
        "--timeout", type=seconds_option, metavar="S", help="fail if the submission takes longer for one answer"
    )
    parser.add_argument("--fail-fast", action="store_true", help="stop at the first case that fails")
    parser.add_argument(
        "--data", choices=KINDS, default=BOARD,
        help="full: every code and scale factor, NaNs included, against float64 (default: the leaderboard's data)",
    )  # fmt: skip
    parser.add_argument(
        "--baseline", type=Path, metavar="FILE",
        help="time the submission and FILE in pairs of processes: faster, slower or no difference",
    )  # fmt: skip
    parser.add_argument(
        "--pairs",
        type=pairs_option,
        metavar="N",
        help=f"with --baseline: at most N pairs a case (default {MOST_PAIRS})",
    )
    parser.add_argument(
        "--seconds", type=seconds_option, metavar="S",
        help=f"with --baseline: the pairs of a case end after S seconds (default: after {SECONDS:g}, but not before "
        f"{LEAST_PAIRS} pairs)",
    )  # fmt: skip
    parser.add_argument("-v", "--verbose", action="store_true", help="also show what passing submissions print")
    options = parser.parse_args(arguments)
    for name in ("submission", "baseline"):  # before it is read
        if (path := getattr(options, name)) and not _is_file(path):
            wrong = "is no file that can be read" if os.path.lexists(path) else "does not exist"
            parser.error(f"--{name}: {path} {wrong}")
    options.case_file = CaseFile(options.cases) if options.cases else None
    options.problem = _problem(options, parser)
    usual = "full.txt" if options.data == FULL else "test.txt" if options.mode == "test" else "benchmark.txt"
    options.cases = options.cases or ROOT / options.problem.cases / usual
    options.case_file = options.case_file or CaseFile(options.cases)
    options.submission = options.submission or ROOT / options.problem.submission
    bounds = Bounds(pairs=options.pairs or MOST_PAIRS)
    options.bounds = bounds._replace(seconds=options.seconds, least=1) if options.seconds else bounds
    if not options.baseline and (options.pairs or options.seconds):
        parser.error(f"--{'pairs' if options.pairs else 'seconds'}: only with --baseline")
    if options.baseline:
        if options.mode not in ("benchmark", "leaderboard"):
            parser.error(f"--baseline: not in mode {options.mode}; expected benchmark or leaderboard")
        if protocol.FD_VARIABLE in os.environ:
            parser.error(f"--baseline: the leaderboard's protocol cannot report it; unset {protocol.FD_VARIABLE}")
    try:
        options.secret = protocol.secret_seed()
    except ValueError as error:
        parser.error(str(error))
    if reason := settings.unusable():
        parser.error(reason)
    options.record = None
    if options.json:
        if not options.json.parent.is_dir():
            parser.error(f"--json: {options.json.parent} is not a folder")
        for name, path in (
            ("submission", options.submission),
            ("baseline", options.baseline),
            ("case file", options.cases),
        ):
            if path and _same_file(options.json, path):
                parser.error(f"--json: {options.json} is the {name}; expected another file")
        try:
            options.record = outlets.RecordFile(options.json)
        except outlets.OutletError as error:
            parser.error(f"--json: {options.json}: {error.strerror or error}")
    return options


@contextlib.contextmanager
def _sleeping_threads() -> Iterator[None]:
    """Lets the threads of OpenMP libraries that are loaded here sleep between loops instead of spinning.

    Spinning, they would keep processors from the worker, and rounds would cost up to a hundred times as much. Workers
    keep the user's setting.
    """
    name = "OMP_WAIT_POLICY"
    before = os.environ.get(name)
    os.environ[name] = "passive"
    try:
        yield
    finally:
        del os.environ[name]
        if before is not None:
            os.environ[name] = before


def main(arguments: list[str]) -> int:
    """Runs the command line; returns its exit code."""
    closed = outlets.closed_streams()
    options = parse_arguments(arguments)
    try:
        return _judge(options, closed)
    except outlets.OutletError as error:  # standard output takes nothing
        tell(error.strerror)
        outlets.abandon(sys.stdout)
        return protocol.EXIT_USAGE
    finally:
        if options.record is not None:
            options.record.close()


def _judge(options: argparse.Namespace, closed: set[int]) -> int:
    """Runs the cases; returns the exit code. Checks that need no torch come first: importing it takes seconds."""
    out = None
    if protocol.FD_VARIABLE in os.environ:
        try:
            out = Protocol(os.environ[protocol.FD_VARIABLE])
        except DescriptorError as error:
            tell(error)
            return protocol.EXIT_NO_DESCRIPTOR
    else:
        outlets.prepare_stdout(closed)
    try:
        cases = options.case_file.cases(options.secret, options.problem)
    except CasesError as error:
        tell(error)
        return protocol.EXIT_BAD_CASES
    from eval.workers import template

    template.prepare()
    with _sleeping_threads():
        from eval import evaluation

    try:
        return evaluation.judge(options, cases, out)
    except Weakened as error:
        tell(error)
        return protocol.EXIT_USAGE
