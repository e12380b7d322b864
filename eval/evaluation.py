"""Runs every case of a command line, reports results as they come and records them."""

from __future__ import annotations

import argparse
import base64
import contextlib
import math
import sys
import time
from collections.abc import Callable, Sequence
from dataclasses import replace
from functools import partial
from pathlib import Path
from typing import Any

import torch

from eval import sandbox
from eval.cases import Case
from eval.comparison import Comparison, run_comparison
from eval.hardware import capacity, chip
from eval.hardware.device import device_for, why_not_the_backend
from eval.judge import codes_never_seen
from eval.output import outlets, protocol, record, report
from eval.output.outlets import tell
from eval.output.protocol import Protocol
from eval.output.text import clean
from eval.sandbox import lifetime
from eval.stats import DEFAULT_BOUNDS, Bounds, summarise
from eval.supervisor import (
    FAILURES,
    MIN_ROUNDS,
    Limits,
    Result,
    Tolerance,
    limits_for,
    measure_tolerance,
    round_inputs,
    run_benchmark,
    run_profile,
    run_test,
)
from reference.problems.interface import BOARD, FULL

Runner = Callable[..., Result]  # takes the submission, case, device, limits and kind of data; benchmarks a tolerance
RUNNERS: dict[str, Runner] = {
    "test": run_test,
    "benchmark": run_benchmark,
    "leaderboard": run_benchmark,
    "profile": run_profile,
}
Keep = Callable[[list[Any], bool], None]  # takes the results so far, and whether there will be no others
BENCHMARKS = ("benchmark", "leaderboard")
NS_PER_US = 1000
# Judging against float64 takes this long on a core of an EPYC for each multiply-add, and as long for 1/200 of a byte.
FLOAT64_S, ADDS_PER_BYTE = 1.1e-10, 200
LONG_S = 60.0


def log_result(out: Protocol, mode: str, key: str, result: Result) -> None:
    """Writes the protocol's lines for one finished case: a benchmark's figures in ns, a profile in base64."""
    if not result.passed:
        out.log(f"{key}.status", "fail")
        out.log(f"{key}.error", result.error)
    elif mode == "test":
        out.log(f"{key}.status", "pass")
    elif mode == "profile":
        out.log(f"{key}.report", base64.b64encode(result.report.encode()).decode())
    else:
        for name, value in summarise(result.rounds_us)._asdict().items():
            out.log(f"{key}.{name}", value if name == "runs" else value * NS_PER_US)
    for note in report.case_notes(result):
        out.log(f"{key}.note", note)


def _tolerances(cases: Sequence[Case], device: torch.device, limits: Limits) -> list[Tolerance | None]:
    """Each case's tolerance, measured before any submission runs: what it leaves behind cannot widen them.

    None if that fails; run_benchmark then reports why.
    """
    measured: dict[object, Tolerance | None] = {}
    for case in cases:
        if case.shape not in measured:
            measured[case.shape] = None
            with contextlib.suppress(*FAILURES):
                measured[case.shape] = measure_tolerance(case, device, limits)
    return [measured[case.shape] for case in cases]


def long_wait(cases: Sequence[Case], device: torch.device, mode: str, limits: Limits) -> str:
    """What to tell a user whose cases of full data take long to judge on this CPU; "" if they do not."""
    seconds = 0.0
    for case in cases if device.type == "cpu" else ():
        outputs = 2 if mode == "test" else (1 + MIN_ROUNDS) * round_inputs(case.shape, device, limits)
        work = case.shape.work()
        seconds += (
            outputs * FLOAT64_S * (work.multiply_adds + ADDS_PER_BYTE * work.read_bytes) / torch.get_num_threads()
        )
    if seconds < LONG_S:
        return ""
    return (
        f"--data full: judging against float64 takes at least {math.ceil(seconds / 60)} minutes here; the default cases"
        " (no case file), mode test or fewer cases take less"
    )


def evaluate(
    mode: str, submission: Path, cases: Sequence[Case], device: torch.device, out: Protocol | None,
    limits: Limits | None = None, fail_fast: bool = False, data: str = BOARD, keep: Keep = lambda results, last: None,
) -> list[Result]:  # fmt: skip
    """Runs the cases (with fail_fast, up to the first failure), writing protocol lines or showing progress.

    Calls `keep` with the results so far after each case, and says which call is the last.
    """
    limits = limits or limits_for(device, mode)
    kind = "test" if mode == "test" else "benchmark"
    results: list[Result] = []
    tolerances = _tolerances(cases, device, limits) if mode in BENCHMARKS else [None] * len(cases)
    step = report.progress(mode, len(cases))
    if out is not None:
        out.log(f"{kind}-count", len(cases))
    for index, (case, tolerance) in enumerate(zip(cases, tolerances, strict=True)):
        if out is None:
            step(clean(case.spec))
        else:
            out.log(f"{kind}.{index}.spec", case.spec)
        begin = time.monotonic()
        known = () if tolerance is None else (tolerance,)
        try:
            result = RUNNERS[mode](submission, case, device, limits, data, *known)
        except sandbox.Weakened as error:
            if out is not None:
                log_result(out, mode, f"{kind}.{index}", Result(case, error=str(error)))
                out.log("check", "fail")
            raise
        result.seconds = time.monotonic() - begin
        results.append(result)
        if out is not None:
            log_result(out, mode, f"{kind}.{index}", result)
        stop = fail_fast and not result.passed
        keep(results, stop or len(results) == len(cases))
        if stop:
            break
    if out is not None:
        if lacking := report.lacking(results):
            out.log("sandbox.lacking", lacking)
        out.log("check", "pass" if all(result.passed for result in results) else "fail")
    return results


def compare(
    submission: Path, baseline: Path, cases: Sequence[Case], device: torch.device, limits: Limits, fail_fast: bool,
    data: str, keep: Keep, bounds: Bounds = DEFAULT_BOUNDS,
) -> list[Comparison]:  # fmt: skip
    """As `evaluate`, but times two submissions."""
    compared: list[Comparison] = []
    step = report.progress("compare", len(cases))
    for case in cases:
        named = clean(case.spec)
        step(named)
        begin = time.monotonic()
        one = run_comparison(submission, baseline, case, device, limits, data, bounds, partial(step, named))
        one.own.seconds = one.baseline.seconds = time.monotonic() - begin
        compared.append(one)
        stop = fail_fast and not one.passed
        keep(compared, stop or len(compared) == len(cases))
        if stop:
            break
    return compared


def coverage(results: Sequence[Result], options: argparse.Namespace) -> str:
    """What to tell a user whose submission passed on data that never hold some codes; "" if they hold all."""
    passed = results and options.data == BOARD and all(result.passed for result in results)
    if not passed or options.mode == "profile":
        return ""
    case = min((result.case for result in results), key=lambda case: case.shape.work().multiply_adds)
    unseen = ", ".join(f"{value:g}" for value in codes_never_seen(case.shape))
    return f"the leaderboard's data never hold the codes of {unseen}: --data full judges those too" if unseen else ""


def print_report(mode: str, results: list[Result], chip_name: str) -> None:
    """Prints the report of a mode."""
    if mode == "test":
        report.print_tests(results)
    elif mode == "profile":
        for result in results:
            print(f"{report.shape_text(result)}\n{clean(result.report)}")
        report.print_failures(results)
    else:
        report.print_benchmarks(results, chip_name)


def judge(options: argparse.Namespace, cases: list[Case], out: Protocol | None) -> int:
    """Runs the requested cases, reports to `out` or the terminal, and returns the exit code."""
    if out is None and (reason := why_not_the_backend(options.submission)):
        tell(reason)
        return protocol.EXIT_USAGE
    device = torch.device(options.device) if options.device else device_for(options.submission)
    options.device = torch.device("cuda", device.index or 0) if device.type == "cuda" else device
    if options.device.type == "cpu":
        for path in filter(None, (options.submission, options.baseline, Path(__file__), Path(sys.prefix))):
            if path.resolve().is_relative_to("/dev"):
                tell(f"{path} lies in /dev, and a worker on a CPU has a /dev of its own: move it to another folder")
                return protocol.EXIT_USAGE
    chip_name = chip.name(options.device)
    given = record.Given(
        options.mode, options.problem.name, options.submission, options.device, options.data, len(cases)
    )
    if out is None:
        outlets.say(report.header(given, options.baseline))
    for case in cases:
        if reason := capacity.does_not_fit(case, options.device):
            tell(f"{options.cases}: {case.spec}: {reason}")
            return protocol.EXIT_BAD_CASES
    limits = limits_for(options.device, options.mode)
    if options.timeout:
        limits = replace(limits, answer_s=options.timeout)
    if options.data == FULL and (warning := long_wait(cases, options.device, options.mode, limits)):
        tell(warning)
    lost: list[str] = []

    def keep(done: list[Any], last: bool) -> None:
        if options.record is None:
            return
        written = (
            record.comparison_record(given, options.baseline, done)
            if options.baseline
            else record.run_record(given, done)
        )
        try:
            with contextlib.suppress(OSError):
                lifetime.make_room()
            options.record.write(written, last)
        except outlets.OutletError as error:
            lost.append(f"--json: {error.strerror}; {outlets.rescue(written)}")

    sandbox.shield()
    submission, how = options.submission.resolve(), (limits, options.fail_fast, options.data, keep)
    compared: list[Comparison] = []
    if options.baseline:
        compared = compare(submission, options.baseline.resolve(), cases, options.device, *how, options.bounds)
        results, passed = [one.own for one in compared], all(one.passed for one in compared)
    else:
        results = evaluate(options.mode, submission, cases, options.device, out, *how)
        passed = all(result.passed for result in results)
    for line in lost[-1:]:
        tell(line)
    if out is None:
        try:
            if options.baseline:
                report.print_comparisons(compared, chip_name)
            else:
                print_report(options.mode, results, chip_name)
            closing = report.footer(results, options.verbose), coverage(results, options), report.last_words(results)
            for said in filter(None, closing):
                print(said)
            sys.stdout.flush()
        except OSError as error:
            tell(f"standard output: {error.strerror}: the report is lost")
            outlets.abandon(sys.stdout)
    elif out.broken is not None:
        tell(f"{protocol.FD_VARIABLE}: {out.broken.strerror}: results are lost")
        return protocol.EXIT_NO_DESCRIPTOR
    return protocol.EXIT_OK if passed else protocol.EXIT_FAILED
