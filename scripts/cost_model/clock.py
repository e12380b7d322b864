"""The Blackwell kernel's simulated times at the benchmark shapes: shark_tank/blackwell_clock.json and .md.

    python -m scripts.cost_model            # simulate each shape (a minute in all), write both
    python -m scripts.cost_model --render   # both from the committed times
    python -m scripts.cost_model --check    # say whether the page is the data's, and the chip's parameters are the same

The cost model that this replaces is kept as history: shark_tank/blackwell_cost_model.md.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from statistics import geometric_mean, mean
from typing import Any

from reference.problems.dual_gemm import PROBLEM
from scripts.common.markdown import table
from scripts.common.simulated_call import simulated_calls
from scripts.cost_model.counters import ROOT
from scripts.evidence.clock import b200_page
from scripts.evidence.clock import table as h200_table
from scripts.rounds.model import benchmark_shapes

COUNTERS = ROOT / "shark_tank" / "cost_model_counters.json"
RESULT = ROOT / "shark_tank" / "blackwell_clock.json"
TEXT = ROOT / "shark_tank" / "blackwell_clock.md"
CALLS = 3  # the last is in its stride: behind others, with inputs of its own
# The best public time of each shape (gpu-mode-kernels and the leaderboard), from others' B200s.
PUBLISHED_BEST_US = (12.4, 15.3, 9.43, 14.4)


def simulate(shape: str) -> dict[str, Any]:
    """A call alone and a call behind others, in us, and what each hangs on."""
    m, n, k = (int(part) for part in shape.split("x"))
    launches = simulated_calls((m, n, k), "blackwell", CALLS)["launches"]
    first, before, last = launches[0], launches[-2], launches[-1]
    return {
        "back_to_back_us": round(last["end_us"] - before["end_us"], 3),
        "isolated_us": round(first["end_us"] - first["start_us"], 3),
        "critical": last["critical"],
        "busiest": {name: taken[1] for name, taken in first["busy"].items() if taken[1] >= 0.1},
    }


def whole_kernel_errors() -> list[float]:
    """Percent: of our Hopper kernels on an H200's clock, the only whole kernels that were compared with a card."""
    rows = [row for row in h200_table.load().values() if row.group == "kernels"]
    return [row.error for row in rows if row.error is not None]


def compute(times: dict[str, dict[str, Any]], errors: list[float]) -> dict[str, Any]:
    """The document: the shapes' times, and predictions with the largest of whole kernels' errors around them."""
    chosen = json.loads(COUNTERS.read_text())["blackwell"]["chosen"]
    largest = max(abs(error) for error in errors) / 100
    predicted = {
        shape: {
            "us": found["back_to_back_us"], "low_us": round(found["back_to_back_us"] * (1 - largest), 3),
            "high_us": round(found["back_to_back_us"] * (1 + largest), 3), "config": chosen[shape],
        }
        for shape, found in times.items()
    }  # fmt: skip
    return {
        "format": "blackwell-clock-1",
        "evidence": "simulated",
        "chip_sha256": b200_page.digest(),
        "error": {
            "parts": b200_page.error_line(b200_page.load()),
            "whole_kernels_percent": [round(error, 1) for error in errors],
            "mean_percent": round(mean(abs(error) for error in errors), 1),
            "largest_percent": round(100 * largest, 1),
        },
        "times": times,
        "published_best_us": dict(zip(times, PUBLISHED_BEST_US, strict=True)),
        "speed_of_light_us": {
            shape: PROBLEM.published_us["B200"][(*(int(part) for part in shape.split("x")), 1)] for shape in times
        },
        "predictions": {"blackwell": predicted},
    }


def rows(data: dict[str, Any]) -> str:
    """The table of README and of the page."""
    shapes, predicted = list(data["times"]), data["predictions"]["blackwell"]

    def line(label: str, values: list[float], bold: bool = False) -> list[str]:
        mark = "**" if bold else ""
        return [f"{mark}{label}{mark}", *(f"{value:.1f}" for value in values), f"{geometric_mean(values):.1f}"]

    body = [
        ["tile chosen for 148 SMs", *(f"`{predicted[shape]['config']}`" for shape in shapes), ""],
        line("behind other calls (simulated)", [data["times"][s]["back_to_back_us"] for s in shapes], bold=True),
        line("the kernel alone (simulated)", [data["times"][s]["isolated_us"] for s in shapes]),
        line("best public time of each shape", [data["published_best_us"][s] for s in shapes]),
        line("speed of light at 1.5 GHz", [data["speed_of_light_us"][s] for s in shapes]),
    ]
    return table(["us a call", *(shape.replace("x", " ") for shape in shapes), "geomean"], body)


def error_text(data: dict[str, Any]) -> str:
    """How far off such times may be."""
    error = data["error"]
    return (
        f"**Simulated, not measured.** The model's error: {error['parts']}. Whole kernels were compared on the other "
        f"chip alone: there {error['mean_percent']} % off in the mean, {error['largest_percent']} % at most."
    )


def render(data: dict[str, Any]) -> str:
    """The page."""
    critical = "\n".join(
        f"- {shape.replace('x', ' ')}: {found['critical']}. Taken of the SM where it is most, in a call alone: "
        f"{', '.join(f'{name} {100 * share:.0f} %' for name, share in found['busiest'].items())}."
        for shape, found in data["times"].items()
    )
    parts = [
        "# The Blackwell kernel's time, simulated",
        "Generated by `scripts/cost_model` from [blackwell_clock.json](blackwell_clock.json): the package's compiled "
        "kernels on [the simulator's clock](../simulator/ARCHITECTURE.md#simulated-time) with a B200's parameters. It "
        "takes the place of [the cost model](blackwell_cost_model.md), which stays as history.",
        error_text(data),
        rows(data),
        "Behind other calls: from end to end of calls, each with inputs of its own. The kernel alone: from its first "
        "CTA's start to its last one's end. Rates and latencies, row by row: "
        "[beside published B200 measurements](../simulator/results/clock_b200.md); the Hopper kernels' times "
        "[beside an H200](../simulator/results/clock.md).",
        "## What the time hangs on",
        critical,
    ]
    return "\n\n".join(parts) + "\n"


def problems() -> list[str]:
    """What of the committed files is not current."""
    found = []
    data = json.loads(RESULT.read_text())
    if data["chip_sha256"] != b200_page.digest():
        found.append(f"{RESULT.name}: simulated with other parameters of the chip")
    if data != compute(data["times"], data["error"]["whole_kernels_percent"]):
        found.append(f"{RESULT.name}: not what its times give")
    if TEXT.read_text() != render(data):
        found.append(f"{TEXT.name}: not what {RESULT.name} gives")
    return found


def write(path: Path, text: str) -> None:
    """Only what differs, so that make sees no change."""
    if not path.is_file() or path.read_text() != text:
        path.write_text(text)


def main(arguments: list[str]) -> int:
    """Simulates and writes, or says whether both files are current."""
    parser = argparse.ArgumentParser(
        prog="python -m scripts.cost_model", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--render", action="store_true")
    options = parser.parse_args(arguments)
    if options.check:
        for problem in (found := problems()):
            print(f"{problem}; run python -m scripts.cost_model", file=sys.stderr)
        return int(bool(found))
    kept = json.loads(RESULT.read_text())["times"] if options.render else None
    times = kept or {shape: simulate(shape) for shape in benchmark_shapes(ROOT)}
    data = compute(times, [round(error, 1) for error in whole_kernel_errors()])
    write(RESULT, json.dumps(data, indent=1) + "\n")
    write(TEXT, render(data))
    print(rows(data))
    return 0
