"""The Blackwell kernel's simulated times at the benchmark shapes: shark_tank/simulated/blackwell_clock.json and .md.

    python -m scripts.cost_model            # simulate each shape, on every tile too (minutes), write both
    python -m scripts.cost_model --render   # both from the committed times
    python -m scripts.cost_model --check    # say whether the page is the data's, and the chip's parameters are the same

The cost model that this replaces is kept as history: shark_tank/simulated/blackwell_cost_model.md.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from statistics import geometric_mean, mean
from typing import Any

from reference.problems.dual_gemm import PROBLEM
from reference.problems.group_gemm import PROBLEM as GROUP_GEMM
from scripts.common import tile_table
from scripts.common.markdown import table
from scripts.common.simulated_call import simulated_calls
from scripts.cost_model.counters import ROOT
from scripts.evidence.clock import b200_page
from scripts.evidence.clock import table as h200_table
from scripts.rounds.model import benchmark_shapes

COUNTERS = ROOT / "shark_tank" / "simulated" / "cost_model_counters.json"
RESULT = ROOT / "shark_tank" / "simulated" / "blackwell_clock.json"
TEXT = ROOT / "shark_tank" / "simulated" / "blackwell_clock.md"
PUBLIC = ROOT / "shark_tank" / "simulated" / "blackwell_public.json"
CALLS = 3  # the last is in its stride: behind others, with inputs of its own
# The best public time of each shape (gpu-mode-kernels and the leaderboard), from others' B200s.
PUBLISHED_BEST_US = (12.4, 15.3, 9.43, 14.4)


def simulate(shape: str, config: str = "") -> dict[str, Any]:
    """A call alone and a call behind others, in us, and what each hangs on; config: not the chosen tile but this."""
    m, n, k = (int(part) for part in shape.split("x"))
    launches = simulated_calls((m, n, k), "blackwell", CALLS, NVFP4_BLACKWELL_CONFIG=config)["launches"]
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


def compute(
    times: dict[str, dict[str, Any]], tiles: dict[str, dict[str, float]], errors: list[float]
) -> dict[str, Any]:
    """The document: the shapes' times, and predictions with the largest of whole kernels' errors around them.

    tiles: every tile's time behind other calls, us, by shape: what `make bring-up` sets beside a chip's.
    """
    chosen = json.loads(COUNTERS.read_text())["blackwell"]["chosen"]
    largest = max(abs(error) for error in errors) / 100
    predicted = {
        shape: {
            "us": found["back_to_back_us"], "low_us": round(found["back_to_back_us"] * (1 - largest), 3),
            "high_us": round(found["back_to_back_us"] * (1 + largest), 3), "config": chosen[shape],
            "tiles_us": tiles[shape],
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


def public() -> dict[str, Any]:
    """The public kernels' times on the clock (scripts/cost_model/public_kernels.py)."""
    return json.loads(PUBLIC.read_text())


def ours_at(data: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    """Our times beside a public kernel's: today's, or those of the row's own run where that is of older parameters."""
    return row["ours"] if row.get("older") else data["times"][row["case"]]


def dual_ratios(data: dict[str, Any]) -> dict[str, dict[str, float]]:
    """Ours over each public dual GEMM behind other calls, by kernel and shape."""
    found: dict[str, dict[str, float]] = {}
    for row in public()["rows"]:
        if row["problem"] == "dual":
            us = ours_at(data, row)["back_to_back_us"]
            found.setdefault(row["kernel"], {})[row["case"]] = us / row["theirs"]["back_to_back_us"]
    return found


def public_rows(data: dict[str, Any]) -> str:
    """Public dual GEMMs on the same clock, beside their published times, and ours over theirs."""
    shapes, body = list(data["times"]), []

    def line(label: str, values: list[float], digits: int = 1) -> None:
        mean = geometric_mean(values)
        body.append([label, *(f"{value:.{digits}f}" for value in values), f"{mean:.{digits}f}"])

    for kernel, ratios in dual_ratios(data).items():
        of = {row["case"]: row for row in public()["rows"] if row["kernel"] == kernel}
        line(f"{kernel}: behind other calls (simulated)", [of[s]["theirs"]["back_to_back_us"] for s in shapes])
        line(f"{kernel}: alone (simulated)", [of[s]["theirs"]["isolated_us"] for s in shapes])
        line(f"{kernel}: published, B200", [of[s]["published_us"] for s in shapes])
        line(f"**ours / {kernel}, behind other calls**", [ratios[s] for s in shapes], 2)
        alone = [ours_at(data, of[s])["isolated_us"] / of[s]["theirs"]["isolated_us"] for s in shapes]
        line(f"ours / {kernel}, alone", alone, 2)
    return table(["us a call", *(shape.replace("x", " ") for shape in shapes), "geomean"], body)


def grouped() -> list[dict[str, Any]]:
    """The public grouped GEMM's rows, in each of which our own kernels' time stands beside."""
    return [row for row in public()["rows"] if row["problem"] == "grouped"]


def grouped_rows() -> str:
    """The grouped GEMM's benchmarks: ours and a public one on the same clock, and the published times."""
    found, shapes = grouped(), list(GROUP_GEMM.published_us["B200"])
    body = []

    def line(label: str, values: list[float], digits: int = 1) -> None:
        body.append([label, *(f"{value:.{digits}f}" for value in values), f"{geometric_mean(values):.{digits}f}"])

    for who, name in (("ours", "**this package**"), ("theirs", found[0]["kernel"])):
        line(f"{name}: behind other calls (simulated)", [row[who]["back_to_back_us"] for row in found])
        line(f"{name}: alone (simulated)", [row[who]["isolated_us"] for row in found])
    line(f"{found[0]['kernel']}: published, B200", [row["published_us"] for row in found])
    for when, key in (("behind other calls", "back_to_back_us"), ("alone", "isolated_us")):
        line(f"ours / {found[0]['kernel']}, {when}", [row["ours"][key] / row["theirs"][key] for row in found], 2)
    line("speed of light at 1.5 GHz", list(GROUP_GEMM.published_us["B200"].values()))
    heads = [f"{len(shape.m)} groups, {shape.text()}" for shape in shapes]
    return table(["us a call", *heads, "geomean"], body)


def grouped_doubt() -> str:
    """How far the clock is from the public kernel's published times, and what ours would be by as much."""
    found = grouped()
    behind = {who: geometric_mean(row[who]["back_to_back_us"] for row in found) for who in ("ours", "theirs")}
    off = geometric_mean(row["published_us"] for row in found) / behind["theirs"]
    return (
        f"The public kernel's published times are {off:.2f} of its simulated ones, a call's launch and the "
        f"leaderboard's timer in them; ours times that would be {behind['ours'] * off:.1f} us."
    )


def grouped_tiles() -> str:
    """Every tile of the grouped kernels, behind other calls."""
    found = grouped()
    body = [[f"`{tile}`", *(f"{row['tiles_us'][tile]:.1f}" for row in found)] for tile in found[0]["tiles_us"]]
    return table(["us behind other calls, each tile (simulated)", *(row["case"] for row in found)], body)


def grouped_critical() -> str:
    """What each of the grouped GEMM's times hangs on."""
    return "\n".join(
        f"- {row['case']}: {who}: {row[key]['critical']}."
        for row in grouped()
        for who, key in (("ours", "ours"), (row["kernel"], "theirs"))
    )


def single_rows() -> str:
    """Public single GEMMs on the same clock, beside ours."""
    body = [
        [
            row["kernel"], row["case"], f"{row['theirs']['back_to_back_us']:.1f}",
            f"{row['theirs']['isolated_us']:.1f}", f"{row['ours']['back_to_back_us']:.1f}",
            f"{row['ours']['isolated_us']:.1f}",
            f"{row['ours']['back_to_back_us'] / row['theirs']['back_to_back_us']:.2f}", f"{row['published_us']:g}",
        ]
        for row in public()["rows"] if row["problem"] == "single"
    ]  # fmt: skip
    head = ["kernel", "case", "theirs", "alone", "ours", "alone", "ours / theirs", "published, B200"]
    return table(head, body)


def tile_rows(data: dict[str, Any]) -> str:
    """Every tile behind other calls."""
    predicted = data["predictions"]["blackwell"]
    names = list(next(iter(predicted.values()))["tiles_us"])
    body = [[f"`{name}`", *(f"{found['tiles_us'][name]:.1f}" for found in predicted.values())] for name in names]
    return table(["us behind other calls (simulated)", *(shape.replace("x", " ") for shape in predicted)], body)


def older_text(rows: list[dict[str, Any]] | None = None) -> str:
    """Which public kernels' times, of these rows or of all, are of older parameters."""
    older = {row["kernel"]: None for row in (public()["rows"] if rows is None else rows) if row.get("older")}
    if not older:
        return ""
    return (
        f" Of an earlier chip file, theirs and ours beside them alike: {', '.join(older)}; they have not been run "
        "again."
    )


def error_text(data: dict[str, Any]) -> str:
    """How far off such times may be."""
    error = data["error"]
    return (
        f"**Simulated, not measured.** The model's error: {error['parts']}. Kernels of ours were compared on the "
        f"other chip alone: there {error['mean_percent']} % off in the mean, {error['largest_percent']} % at most."
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
        "kernels on [the simulator's clock](../../simulator/ARCHITECTURE.md#simulated-time) with a B200's parameters. "
        "It takes the place of [the cost model](blackwell_cost_model.md), which stays as history.",
        error_text(data),
        rows(data),
        "Behind other calls: from end to end of calls, each with inputs of its own. The kernel alone: from its first "
        "CTA's start to its last one's end. Rates and latencies, row by row: "
        "[beside published B200 measurements](../../simulator/results/clock_b200.md); the Hopper kernels' times "
        "[beside an H200](../../simulator/results/clock.md).",
        "## Public kernels on the same clock",
        "Compiled from their own sources with their own host code (`scripts/cost_model/public_kernels.py`, "
        "[blackwell_public.json](blackwell_public.json); the sources are fetched, not kept), on the same parameters. "
        "They are launched without dependent launch, as their authors do. Published: their authors' own, of a real "
        "B200, whose timer steps by some 2 us." + older_text(),
        public_rows(data),
        "`s_128t` is a single GEMM: beside it stands our dual one of half the columns, which takes as many products "
        "and bytes of operands.",
        single_rows(),
        "## The grouped GEMM",
        "The leaderboard's four benchmarks of `nvfp4_group_gemm`, by `python -m scripts.cost_model.public_kernels "
        "--only v6b`: in each row's run ours and theirs, three calls with buffers of their own. The public one's host "
        "code encodes its tensor maps anew here, writes C by columns and pads its rows to 16; ours is called by the "
        "package's own shim and chooses its tile. Another run of ours gave 23.0, 16.5, 5.6 and 3.5 us: where the host "
        "puts the operands moves the first by 4 %.",
        grouped_rows(),
        grouped_doubt(),
        grouped_tiles(),
        grouped_critical(),
        "## Every tile",
        "What `make bring-up` sets beside a B200's times of the same tiles.",
        tile_rows(data),
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
    tiles = {shape: found["tiles_us"] for shape, found in data["predictions"]["blackwell"].items()}
    if data != compute(data["times"], tiles, data["error"]["whole_kernels_percent"]):
        found.append(f"{RESULT.name}: not what its times give")
    if public()["chip_sha256"] != data["chip_sha256"]:
        found.append(f"{PUBLIC.name}: simulated with other parameters of the chip")
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
    if options.render:
        kept = json.loads(RESULT.read_text())
        times = kept["times"]
        tiles = {shape: found["tiles_us"] for shape, found in kept["predictions"]["blackwell"].items()}
    else:
        times = {shape: simulate(shape) for shape in benchmark_shapes(ROOT)}
        configs = tile_table.tiles("blackwell")
        tiles = {shape: {name: simulate(shape, name)["back_to_back_us"] for name in configs} for shape in times}
    data = compute(times, tiles, [round(error, 1) for error in whole_kernel_errors()])
    write(RESULT, json.dumps(data, indent=1) + "\n")
    write(TEXT, render(data))
    print(rows(data))
    return 0
