"""The JSON record: everything that was measured, and what on."""

from __future__ import annotations

import math
import platform
from collections.abc import Sequence
from pathlib import Path
from statistics import fmean, geometric_mean
from typing import Any

import torch

from eval import chip
from eval.output import origin
from eval.stats import relative_spread
from eval.supervisor import Result


def case_record(result: Result, chip_name: str) -> dict[str, Any]:
    """One case's part; times in us but for `seconds`, the wall time of the whole case."""
    floor = chip.speed_of_light(result.case.shape, chip_name)
    return {
        **{key: getattr(result.case, key) for key in ("m", "n", "k", "l", "seed", "spec")},
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
        "sm_clock_mhz": result.clock_mhz,
        "speed_of_light_us": floor.us if floor else None,
        "speed_of_light_basis": floor.basis if floor else None,
        "printed": result.printed,
    }


def of_results(results: Sequence[Result]) -> dict[str, Any]:
    """What the workers said of backend and sandbox, and which libraries they had loaded."""
    libraries = sorted({library for result in results for library in result.libraries})
    return {
        "backend": ", ".join(dict.fromkeys(result.backend for result in results if result.backend)) or None,
        "libraries": [library._asdict() for library in libraries],
        "sandbox": " | ".join(dict.fromkeys(result.sandbox for result in results if result.sandbox)) or None,
    }


def run_record(
    mode: str, submission: Path, device: torch.device, data: str, results: Sequence[Result], cases: int
) -> dict[str, Any]:
    """Everything measured so far; `complete` once every one of the `cases` is in it."""
    chip_name = chip.name(device)
    timed = len(results) == cases and all(result.passed and result.rounds_us for result in results)
    return {
        "mode": mode,
        "data": data,
        "submission": submission.name,
        "submission_sha256": origin.digest(submission),
        "device": device.type,
        "chip": chip_name,
        "driver": origin.driver(device),
        "clock_mhz": origin.clock_mhz(device),
        "torch": torch.__version__,
        "python": platform.python_version(),
        **of_results(results),
        "complete": len(results) == cases,
        "geomean_median_us": geometric_mean(result.median_us for result in results) if timed else None,
        "results": [case_record(result, chip_name) for result in results],
    }
