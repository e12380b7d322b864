"""The JSON record: every measurement, and what it ran on."""

from __future__ import annotations

import math
import platform
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, geometric_mean
from typing import Any, NamedTuple

import torch

from eval.comparison import Comparison
from eval.hardware import chip
from eval.output import origin
from eval.stats import relative_spread
from eval.supervisor import Result


def case_record(result: Result, chip_name: str) -> dict[str, Any]:
    """The record of one case. Times are in us except `seconds`, the wall time of the case."""
    floor = chip.speed_of_light(result.case.shape, chip_name)
    return {
        **result.case.shape.record(),
        "seed": result.case.seed,
        "spec": result.case.spec,
        "passed": result.passed,
        "error": result.error,
        "inputs": result.inputs,
        "outputs_checked": result.checked,
        "seconds": result.seconds,
        "worst_error": result.worst_error if math.isfinite(result.worst_error or 0) else None,  # JSON has no infinity
        "wrong": result.wrong,
        "rounds_us": result.rounds_us,
        "median_us": result.median_us if result.rounds_us else None,
        "mean_us": fmean(result.rounds_us) if result.rounds_us else None,
        "relative_spread": relative_spread(result.rounds_us) if result.rounds_us else None,
        "single_us": result.single_us,
        "tolerance_us": result.tolerance_us,
        "doubted_rounds": result.doubted,
        "notes": result.notes,
        "span_us": result.span_us,
        "span_calls": result.span_calls,
        "sm_clock_mhz": result.clock_mhz,
        "speed_of_light_us": floor.us if floor else None,
        "speed_of_light_basis": floor.basis if floor else None,
        "printed": result.printed,
    }


def of_results(results: Sequence[Result]) -> dict[str, Any]:
    """The backends that the submission reported, the libraries that it had loaded, and its sandbox."""
    libraries = sorted({library for result in results for library in result.libraries})
    return {
        "backend": ", ".join(dict.fromkeys(result.backend for result in results if result.backend)) or None,
        "libraries": [library._asdict() for library in libraries],
        "sandbox": next((said for result in results if (said := result.sandbox.text())), None),
    }


class Given(NamedTuple):
    """The request of a run."""

    mode: str
    problem: str
    submission: Path
    device: torch.device
    data: str
    cases: int


def _ran(given: Given, chip_name: str) -> dict[str, Any]:
    """What was judged, and on which machine."""
    return {
        "mode": given.mode,
        "problem": given.problem,
        "data": given.data,
        "submission": given.submission.name,
        "submission_sha256": origin.digest(given.submission)[0],
        "device": given.device.type,
        "chip": chip_name,
        "driver": origin.driver(given.device),
        "clock_mhz": origin.clock_mhz(given.device),
        "torch": torch.__version__,
        "python": platform.python_version(),
    }


def run_record(given: Given, results: Sequence[Result]) -> dict[str, Any]:
    """Every measurement so far; `complete` says whether it has every case."""
    chip_name = chip.name(given.device)
    timed = len(results) == given.cases and all(result.passed and result.rounds_us for result in results)
    return {
        **_ran(given, chip_name),
        **of_results(results),
        "complete": len(results) == given.cases,
        "geomean_median_us": geometric_mean(result.median_us for result in results) if timed else None,
        "results": [case_record(result, chip_name) for result in results],
    }


def comparison_record(given: Given, baseline: Path, compared: Sequence[Comparison]) -> dict[str, Any]:
    """The record of two submissions timed in turns; a ratio is the submission's time over the baseline's."""
    chip_name = chip.name(given.device)
    return {
        **_ran(given, chip_name),
        "baseline": baseline.name,
        "baseline_sha256": origin.digest(baseline)[0],
        **of_results([one.own for one in compared]),
        "complete": len(compared) == given.cases,
        "results": [
            {
                "submission": case_record(one.own, chip_name),
                "baseline": case_record(one.baseline, chip_name),
                "ratio": one.ratio._asdict() if one.ratio else None,
                "verdict": one.verdict if one.passed else None,
            }
            for one in compared
        ],
    }
