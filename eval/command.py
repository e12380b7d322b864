"""Judges a submission: eval.py MODE [CASES_FILE] [--submission FILE] [--json FILE].

MODE is test (is it right), benchmark (how fast), leaderboard (the same with the leaderboard's time limits) or
profile. With POPCORN_FD set, results go there as the leaderboard's `key: value` lines; without it they are printed
for a person. Exit codes: 0 all right, 112 something failed, 113 bad case file, 2 wrong usage, 111 POPCORN_FD set to
what is no open file descriptor that can be written to; 129, 130 and 143 ended by SIGHUP, SIGINT and SIGTERM.
"""

from __future__ import annotations

import argparse
import base64
import contextlib
import math
import os
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from pathlib import Path
from typing import Any, NoReturn

import torch

from eval import sandbox
from eval.cases import Case, CasesError, read_cases
from eval.comparison import Comparison, run_comparison
from eval.data import KINDS
from eval.hardware import capacity, chip
from eval.hardware.device import device_for
from eval.output import outlets, protocol, record, report
from eval.output.protocol import DescriptorError, Protocol
from eval.output.text import clean, shortened
from eval.stats import summarise
from eval.supervisor import Limits, Result, limits_for, run_benchmark, run_profile, run_test

ROOT = Path(__file__).resolve().parent.parent

Runner = Callable[[Path, Case, torch.device, Limits, str], Result]
RUNNERS: dict[str, Runner] = {
    "test": run_test,
    "benchmark": run_benchmark,
    "leaderboard": run_benchmark,
    "profile": run_profile,
}
NS_PER_US = 1000
LONGEST_TIMEOUT_S = 86400.0
TOLD_CHARACTERS = 1000  # of one message


def log_test(out: Protocol, index: int, result: Result) -> None:
    """The protocol's lines of one finished test."""
    out.log(f"test.{index}.status", "pass" if result.passed else "fail")
    if not result.passed:
        out.log(f"test.{index}.error", result.error)


def log_benchmark(out: Protocol, index: int, result: Result) -> None:
    """The protocol's lines of one finished benchmark: its figures in ns, or why it failed."""
    if not result.passed:
        out.log(f"benchmark.{index}.status", "fail")
        out.log(f"benchmark.{index}.error", result.error)
        return
    for name, value in summarise(result.rounds_us)._asdict().items():
        out.log(f"benchmark.{index}.{name}", value if name == "runs" else value * NS_PER_US)


def log_profile(out: Protocol, index: int, result: Result) -> None:
    """The protocol's lines of one profile: the report in base64, or why it failed."""
    if result.passed:
        out.log(f"benchmark.{index}.report", base64.b64encode(result.report.encode()).decode())
    else:
        out.log(f"benchmark.{index}.status", "fail")
        out.log(f"benchmark.{index}.error", result.error)


def evaluate(
    mode: str,
    submission: Path,
    cases: Sequence[Case],
    device: torch.device,
    out: Protocol | None,
    limits: Limits | None = None,
    fail_fast: bool = False,
    data: str = "board",
    keep: Callable[[list[Result]], None] = lambda results: None,
) -> list[Result]:
    """Runs every case, or up to the first that fails, writing protocol lines as they come or showing progress.

    `keep` is handed the results so far after each case.
    """
    limits = limits or limits_for(device, mode)
    kind = "test" if mode == "test" else "benchmark"
    log = {"test": log_test, "profile": log_profile}.get(mode, log_benchmark)
    results: list[Result] = []
    with report.progress(mode, len(cases)) if out is None else contextlib.nullcontext() as step:
        if out is not None:
            out.log(f"{kind}-count", len(cases))
        for index, case in enumerate(cases):
            if out is None:
                step(clean(case.spec))
            else:
                out.log(f"{kind}.{index}.spec", case.spec)
            begin = time.monotonic()
            result = RUNNERS[mode](submission, case, device, limits, data)
            result.seconds = time.monotonic() - begin
            results.append(result)
            if out is not None:
                log(out, index, result)
            keep(results)
            if fail_fast and not result.passed:
                break
    if out is not None:
        out.log("check", "pass" if all(result.passed for result in results) else "fail")
    return results


def compare(
    submission: Path,
    baseline: Path,
    cases: Sequence[Case],
    device: torch.device,
    limits: Limits,
    data: str = "board",
    fail_fast: bool = False,
    keep: Callable[[list[Comparison]], None] = lambda compared: None,
) -> list[Comparison]:
    """Times two submissions in turns on every case, or up to the first in which one fails, showing progress."""
    compared: list[Comparison] = []
    with report.progress("compare", len(cases)) as step:
        for case in cases:
            step(clean(case.spec))
            begin = time.monotonic()
            one = run_comparison(submission, baseline, case, device, limits, data)
            one.own.seconds = one.baseline.seconds = time.monotonic() - begin
            compared.append(one)
            keep(compared)
            if fail_fast and one.ratio is None:
                break
    return compared


def print_report(mode: str, results: list[Result], chip_name: str) -> None:
    """The human report of a mode."""
    if mode == "test":
        report.print_tests(results)
    elif mode == "profile":
        for result in results:
            print(f"{report.shape_text(result)}\n{clean(result.report)}")
        report.print_failures(results)
    else:
        report.print_benchmarks(results, chip_name)


def device_option(text: str) -> torch.device:
    """--device as a device that is there, with its index. Raises argparse's error otherwise."""
    try:
        device = torch.device(text)
    except (RuntimeError, ValueError) as error:
        raise argparse.ArgumentTypeError(f"'{text}' is no device torch knows; expected cpu or cuda") from error
    if device.type not in ("cpu", "cuda"):
        raise argparse.ArgumentTypeError(f"'{text}'; expected cpu or cuda")
    if device.type == "cpu":
        return torch.device("cpu")
    count = torch.cuda.device_count()
    if (device.index or 0) >= count:
        raise argparse.ArgumentTypeError(f"'{text}'; torch sees {count} CUDA devices here")
    return torch.device("cuda", device.index or 0)


def seconds_option(text: str) -> float:
    """--timeout as a time. Raises argparse's error otherwise."""
    try:
        seconds = float(text)
    except ValueError:
        seconds = math.nan
    if not 0 < seconds <= LONGEST_TIMEOUT_S:
        raise argparse.ArgumentTypeError(f"'{text}'; expected seconds, more than 0 and at most {LONGEST_TIMEOUT_S:g}")
    return seconds


class Parser(argparse.ArgumentParser):
    """Tells what is wrong with the command line in text that a terminal can be shown."""

    def error(self, message: str) -> NoReturn:
        super().error(clean(shortened(message, TOLD_CHARACTERS)))


def _is_file(path: Path) -> bool:
    try:
        return path.is_file() and os.access(path, os.R_OK)
    except (OSError, ValueError):  # a name no file can have
        return False


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    """The command line's options; ends the program with code 2 and a message if they are wrong."""
    parser = Parser(prog="eval.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("mode", choices=RUNNERS)
    parser.add_argument(
        "cases",
        type=Path,
        nargs="?",
        help="one case a line: m: 256; n: 4096; k: 7168; l: 1; seed: 1111 (default: the leaderboard's for the mode)",
    )
    parser.add_argument("--submission", type=Path, default=ROOT / "submission" / "submission.py", metavar="FILE")
    parser.add_argument("--device", type=device_option, metavar="cpu|cuda", help="default: cuda if it can run there")
    parser.add_argument("--json", type=Path, metavar="FILE", help="also write every measurement there")
    parser.add_argument("--timeout", type=seconds_option, metavar="S", help="for each answer of the submission")
    parser.add_argument("--fail-fast", action="store_true", help="end with the first case that fails")
    parser.add_argument(
        "--data", choices=KINDS, default="board",
        help="full: every code and scale factor, NaNs included, held against float64 (default: the leaderboard's)",
    )  # fmt: skip
    parser.add_argument(
        "--baseline", type=Path, metavar="FILE",
        help="time this submission in turns with the other one: faster, slower or no difference",
    )  # fmt: skip
    options = parser.parse_args(arguments)
    usual = "full.txt" if options.data == "full" else "test.txt" if options.mode == "test" else "benchmark.txt"
    options.cases = options.cases or ROOT / "eval" / "cases" / usual
    if not _is_file(options.submission):
        parser.error(f"--submission: {options.submission} does not exist or cannot be read")
    if options.baseline:
        if not _is_file(options.baseline):
            parser.error(f"--baseline: {options.baseline} does not exist or cannot be read")
        if options.mode not in ("benchmark", "leaderboard"):
            parser.error(f"--baseline: not in mode {options.mode}; expected benchmark or leaderboard")
        if protocol.FD_VARIABLE in os.environ:
            parser.error(f"--baseline: the leaderboard's protocol has no words for it; unset {protocol.FD_VARIABLE}")
    options.device = options.device or device_option(device_for(options.submission).type)
    try:
        options.secret = protocol.secret_seed()
    except ValueError as error:
        parser.error(str(error))
    options.record = None
    if options.json:
        if not options.json.parent.is_dir():
            parser.error(f"--json: {options.json.parent} is no folder")
        try:
            options.record = outlets.RecordFile(options.json)
        except outlets.OutletError as error:
            parser.error(f"--json: {options.json}: {error.strerror or error}")
    return options


def _tell(text: object) -> None:
    """A line to standard error, which may be gone."""
    with contextlib.suppress(OSError, ValueError):
        print(f"eval.py: {clean(shortened(str(text), TOLD_CHARACTERS))}", file=sys.stderr, flush=True)


def _cases_that_fit(path: Path, secret: int | None, device: torch.device) -> list[Case]:
    """Every case of a file. Raises CasesError, also for one that no submission could be given here."""
    cases = read_cases(path, secret)
    for case in cases:
        if reason := capacity.does_not_fit(case, device):
            raise CasesError(f"{path}: {case.spec}: {reason}")
    return cases


def main(arguments: list[str]) -> int:
    """Runs the command line; returns its exit code."""
    closed = outlets.closed_streams()
    options = parse_arguments(arguments)
    try:
        return _judge(options, closed)
    finally:
        if options.record is not None:
            options.record.close()


def _judge(options: argparse.Namespace, closed: set[int]) -> int:
    """The run that the options ask for; its exit code."""
    out = None
    chip_name = chip.name(options.device)
    if protocol.FD_VARIABLE in os.environ:
        try:
            out = Protocol(os.environ[protocol.FD_VARIABLE])
        except DescriptorError as error:
            _tell(error)
            return protocol.EXIT_NO_DESCRIPTOR
    else:
        try:
            outlets.prepare_stdout(closed)
            outlets.say(report.header(options.mode, options.submission, options.device, options.data, options.baseline))
        except outlets.OutletError as error:
            _tell(error.strerror)
            outlets.abandon_stdout()
            return protocol.EXIT_USAGE
    try:
        cases = _cases_that_fit(options.cases, options.secret, options.device)
    except CasesError as error:
        _tell(error)
        return protocol.EXIT_BAD_CASES
    limits = limits_for(options.device, options.mode)
    if options.timeout:
        limits = replace(limits, answer_s=options.timeout)
    lost: list[str] = []

    def keep(written: dict[str, Any], last: bool) -> None:
        if options.record is None:
            return
        try:
            options.record.write(written, last)
        except outlets.OutletError as error:
            lost.append(f"--json: {error.strerror}; {outlets.rescue(written)}")

    sandbox.shield()
    given = record.Given(options.mode, options.submission, options.device, options.data, len(cases))
    if options.baseline:
        passed, show = _compared(options, given, cases, limits, keep)
    else:
        passed, show = _evaluated(options, given, cases, limits, out, keep)
    for line in lost[-1:]:
        _tell(line)
    if out is None:
        try:
            show(chip_name)
        except OSError as error:
            _tell(f"standard output: {error.strerror}: the report is lost")
            outlets.abandon_stdout()
    elif out.broken is not None:
        _tell(f"{protocol.FD_VARIABLE}: {out.broken.strerror}: results are lost")
        return protocol.EXIT_NO_DESCRIPTOR
    return protocol.EXIT_OK if passed else protocol.EXIT_FAILED


Keep = Callable[[dict[str, Any], bool], None]
Show = Callable[[str], None]


def _evaluated(
    options: argparse.Namespace, given: record.Given, cases: list[Case], limits: Limits, out: Protocol | None,
    keep: Keep,
) -> tuple[bool, Show]:  # fmt: skip
    """Runs the cases; whether all passed, and what prints their report."""

    def keep_results(results: list[Result]) -> None:
        last = len(results) == len(cases) or (options.fail_fast and not results[-1].passed)
        keep(record.run_record(given, results), last)

    submission = options.submission.resolve()
    results = evaluate(
        options.mode, submission, cases, options.device, out, limits, options.fail_fast, options.data, keep_results
    )

    def show(chip_name: str) -> None:
        print_report(options.mode, results, chip_name)
        outlets.say(report.footer(results))

    return all(result.passed for result in results), show


def _compared(
    options: argparse.Namespace, given: record.Given, cases: list[Case], limits: Limits, keep: Keep
) -> tuple[bool, Show]:
    """Runs both submissions; whether all passed, and what prints the report."""

    def keep_compared(compared: list[Comparison]) -> None:
        last = len(compared) == len(cases) or (options.fail_fast and compared[-1].ratio is None)
        keep(record.comparison_record(given, options.baseline, compared), last)

    files = (options.submission.resolve(), options.baseline.resolve())
    compared = compare(*files, cases, options.device, limits, options.data, options.fail_fast, keep_compared)

    def show(chip_name: str) -> None:
        report.print_comparisons(compared, chip_name)
        outlets.say(report.footer([one.own for one in compared]))

    return all(one.ratio is not None for one in compared), show
