"""Judges a submission: eval.py MODE [CASES_FILE] [--submission FILE] [--json FILE].

MODE is test (is it right), benchmark (how fast), leaderboard (the same with the leaderboard's time limits) or
profile. With POPCORN_FD set, results go there as the leaderboard's `key: value` lines; without it they are printed
for a person. Exit codes: 0 all right, 112 something failed, 113 bad case file, 2 wrong usage, 111 POPCORN_FD set to
what is no open file descriptor.
"""

from __future__ import annotations

import argparse
import base64
import json
import os
import platform
import sys
from collections.abc import Callable
from pathlib import Path
from statistics import fmean, geometric_mean

import torch

from eval import chip, protocol, report
from eval.cases import Case, CasesError, read_cases
from eval.device import device_for
from eval.protocol import DescriptorError, Protocol
from eval.stats import relative_spread, summarise
from eval.supervisor import Limits, Result, limits_for, run_benchmark, run_profile, run_test

ROOT = Path(__file__).resolve().parent.parent

Runner = Callable[[Path, Case, torch.device, Limits], Result]
RUNNERS: dict[str, Runner] = {
    "test": run_test,
    "benchmark": run_benchmark,
    "leaderboard": run_benchmark,
    "profile": run_profile,
}
NS_PER_US = 1000


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


def as_json(mode: str, submission: Path, device: torch.device, results: list[Result]) -> dict[str, object]:
    """Everything measured, for programs; times in us."""
    chip_name = chip.name(device)
    timed = all(result.passed and result.rounds_us for result in results)
    return {
        "mode": mode,
        "submission": submission.name,
        "device": device.type,
        "chip": chip_name,
        "torch": torch.__version__,
        "python": platform.python_version(),
        "geomean_median_us": geometric_mean(result.median_us for result in results) if timed else None,
        "results": [case_json(result, chip_name) for result in results],
    }


def case_json(result: Result, chip_name: str) -> dict[str, object]:
    """One case's part of the JSON."""
    floor = chip.speed_of_light(result.case.shape, chip_name)
    return {
        **{key: getattr(result.case, key) for key in ("m", "n", "k", "l", "seed", "spec")},
        "passed": result.passed,
        "error": result.error,
        "inputs": result.inputs,
        "outputs_checked": result.checked,
        "rounds_us": result.rounds_us,
        "median_us": result.median_us if result.rounds_us else None,
        "mean_us": fmean(result.rounds_us) if result.rounds_us else None,
        "relative_spread": relative_spread(result.rounds_us) if result.rounds_us else None,
        "single_us": result.single_us,
        "sm_clock_mhz": result.clock_mhz,
        "speed_of_light_us": floor.us if floor else None,
        "speed_of_light_basis": floor.basis if floor else None,
        "printed": result.printed,
    }


def evaluate(
    mode: str, submission: Path, cases: list[Case], device: torch.device, out: Protocol | None
) -> list[Result]:
    """Runs every case, writing protocol lines as they come or showing progress."""
    limits = limits_for(device, mode)
    run = RUNNERS[mode]
    if out is None:
        results = []
        with report.progress(mode, len(cases)) as step:
            for case in cases:
                step(case.spec)
                results.append(run(submission, case, device, limits))
        return results
    kind = "test" if mode == "test" else "benchmark"
    log = {"test": log_test, "profile": log_profile}.get(mode, log_benchmark)
    out.log(f"{kind}-count", len(cases))
    results = []
    for index, case in enumerate(cases):
        out.log(f"{kind}.{index}.spec", case.spec)
        results.append(run(submission, case, device, limits))
        log(out, index, results[-1])
    out.log("check", "pass" if all(result.passed for result in results) else "fail")
    return results


def print_report(mode: str, results: list[Result], chip_name: str) -> None:
    """The human report of a mode."""
    if mode == "test":
        report.print_tests(results)
    elif mode == "profile":
        for result in results:
            print(f"{report.shape_text(result)}\n{result.report}")
        report.print_failures(results)
    else:
        report.print_benchmarks(results, chip_name)


def device_option(text: str) -> torch.device:
    """--device as a device that is there, with its index. Raises argparse's error otherwise."""
    try:
        device = torch.device(text)
    except RuntimeError as error:
        raise argparse.ArgumentTypeError(f"'{text}' is no device torch knows; expected cpu or cuda") from error
    if device.type not in ("cpu", "cuda"):
        raise argparse.ArgumentTypeError(f"'{text}'; expected cpu or cuda")
    if device.type == "cpu":
        return torch.device("cpu")
    count = torch.cuda.device_count()
    if (device.index or 0) >= count:
        raise argparse.ArgumentTypeError(f"'{text}'; torch sees {count} CUDA devices here")
    return torch.device("cuda", device.index or 0)


def parse_arguments(arguments: list[str]) -> argparse.Namespace:
    """The command line's options; ends the program with code 2 and a message if they are wrong."""
    parser = argparse.ArgumentParser(
        prog="eval.py", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
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
    options = parser.parse_args(arguments)
    usual = "test.txt" if options.mode == "test" else "benchmark.txt"
    options.cases = options.cases or ROOT / "eval" / "cases" / usual
    if not options.submission.is_file():
        parser.error(f"--submission: {options.submission} does not exist")
    if options.json and not options.json.resolve().parent.is_dir():
        parser.error(f"--json: {options.json.parent} is no folder")
    options.device = options.device or device_option(device_for(options.submission).type)
    try:
        options.secret = protocol.secret_seed()
    except ValueError as error:
        parser.error(str(error))
    return options


def main(arguments: list[str]) -> int:
    """Runs the command line; returns its exit code."""
    options = parse_arguments(arguments)
    out = None
    if protocol.FD_VARIABLE in os.environ:
        try:
            out = Protocol(os.environ[protocol.FD_VARIABLE])
        except DescriptorError as error:
            print(f"eval.py: {error}", file=sys.stderr)
            return protocol.EXIT_NO_DESCRIPTOR
    try:
        cases = read_cases(options.cases, options.secret)
    except CasesError as error:
        print(f"eval.py: {error}", file=sys.stderr)
        return protocol.EXIT_BAD_CASES
    results = evaluate(options.mode, options.submission.resolve(), cases, options.device, out)
    if out is None:
        print_report(options.mode, results, chip.name(options.device))
    if options.json:
        record = as_json(options.mode, options.submission, options.device, results)
        options.json.write_text(json.dumps(record, indent=2) + "\n")
    return protocol.EXIT_OK if all(result.passed for result in results) else protocol.EXIT_FAILED
