"""Simulates the Blackwell kernel's times at the benchmark shapes (data/blackwell_calls.json).

python -m simulator.calibration.calls            # simulate each shape with each tile (minutes), write data and page
python -m simulator.calibration.calls --render   # the page from the committed times
python -m simulator.calibration.calls --check    # exit 1 if the page or the chip's parameters have changed
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Iterable
from pathlib import Path
from statistics import geometric_mean, mean
from typing import Any

from reference.problems.dual_gemm import PROBLEM
from reference.problems.group_gemm import PROBLEM as GROUP_GEMM
from scripts.common import tile_table
from scripts.common.markdown import table
from scripts.rounds.model import benchmark_shapes
from simulator.calibration.b200 import page as b200_page
from simulator.calibration.calls.board_times import (
    BOARD_HEAD,
    board_rows,
    board_text,
    errors_by_clock,
    public,
    public_errors,
)
from simulator.calibration.packed import DATA
from simulator.calibration.rows import RESULTS, ROOT, load, parameters_digest
from simulator.package.simulated_call import simulated_calls

CHIP = "b200"
RESULT = DATA / "blackwell_calls.json"
TEXT = RESULTS / "BLACKWELL_TIMES.md"
CALLS = 3  # the last one counts: behind others, with inputs of its own
SMS = 148
# The best public time of each shape on a real B200 (gpu-mode-kernels and the leaderboard).
PUBLISHED_BEST_US = (12.4, 15.3, 9.43, 14.4)


def simulate(shape: str, config: str = "") -> dict[str, Any]:
    """A call's us alone and behind others, and its critical resource; config: a tile instead of the chosen one."""
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
    """Percent: the errors of our Hopper kernels on the H200's clock, the only kernels of ours compared with a card."""
    return [row.error for row in load("h200").values() if row.group == "kernels" and row.error is not None]


def compute(
    times: dict[str, dict[str, Any]], tiles: dict[str, dict[str, float]], errors: list[float]
) -> dict[str, Any]:
    """The document: times by shape, and predictions with an interval as wide as the largest error of whole kernels.

    tiles: us behind other calls by shape and tile, which `make bring-up` compares with a chip's.
    """
    chosen = {shape: str(row["tile"]) for shape, row in tile_table.selected("blackwell", SMS, *times).items()}
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
        "parameters_sha256": parameters_digest(CHIP),
        "error": {
            "parts": b200_page.error_line(load(CHIP)),
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


def with_mean(label: str, values: Iterable[float], digits: int = 1) -> list[str]:
    """A table row: the values and their geometric mean."""
    values = list(values)
    return [label, *(f"{value:.{digits}f}" for value in values), f"{geometric_mean(values):.{digits}f}"]


def shape_head(shapes: Iterable[str]) -> list[str]:
    """The header of a table by shape."""
    return ["us a call", *(shape.replace("x", " ") for shape in shapes), "geomean"]


def rows(data: dict[str, Any]) -> str:
    """The table of README and of the page."""
    shapes, predicted = list(data["times"]), data["predictions"]["blackwell"]
    behind = with_mean("behind other calls (simulated)", [data["times"][s]["back_to_back_us"] for s in shapes])
    body = [
        ["tile chosen for 148 SMs", *(f"`{predicted[shape]['config']}`" for shape in shapes), ""],
        [f"**{behind[0]}**", *behind[1:]],
        with_mean("the kernel alone (simulated)", [data["times"][s]["isolated_us"] for s in shapes]),
        with_mean("best public time of each shape", [data["published_best_us"][s] for s in shapes]),
        with_mean("speed of light at 1.5 GHz", [data["speed_of_light_us"][s] for s in shapes]),
    ]
    return table(shape_head(shapes), body)


def ours_at(data: dict[str, Any], row: dict[str, Any]) -> dict[str, Any]:
    """Our times at a public kernel's case: today's, or those of the row's own run if that is older."""
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
    """Public dual GEMMs on the same clock, their published times, and ours over theirs."""
    shapes, body = list(data["times"]), []
    for kernel, ratios in dual_ratios(data).items():
        of = {row["case"]: row for row in public()["rows"] if row["kernel"] == kernel}
        theirs = [of[s]["theirs"] for s in shapes]
        alone = [ours_at(data, of[s])["isolated_us"] / of[s]["theirs"]["isolated_us"] for s in shapes]
        body += [
            with_mean(f"{kernel}: behind other calls (simulated)", [times["back_to_back_us"] for times in theirs]),
            with_mean(f"{kernel}: alone (simulated)", [times["isolated_us"] for times in theirs]),
            with_mean(f"{kernel}: published, B200", [of[s]["published_us"] for s in shapes]),
            with_mean(f"**ours / {kernel}, behind other calls**", [ratios[s] for s in shapes], 2),
            with_mean(f"ours / {kernel}, alone", alone, 2),
        ]
    return table(shape_head(shapes), body)


def grouped() -> list[dict[str, Any]]:
    """The public grouped GEMM's rows; each also has our kernels' times."""
    return [row for row in public()["rows"] if row["problem"] == "grouped"]


def grouped_rows() -> str:
    """The grouped GEMM's benchmarks: ours and a public kernel on the same clock, and the published times."""
    found, shapes = grouped(), list(GROUP_GEMM.published_us["B200"])
    theirs, body = found[0]["kernel"], []
    for who, name in (("ours", "**this package**"), ("theirs", theirs)):
        body.append(
            with_mean(f"{name}: behind other calls (simulated)", [row[who]["back_to_back_us"] for row in found])
        )
        body.append(with_mean(f"{name}: alone (simulated)", [row[who]["isolated_us"] for row in found]))
    body.append(with_mean(f"{theirs}: published, B200", [row["published_us"] for row in found]))
    for when, key in (("behind other calls", "back_to_back_us"), ("alone", "isolated_us")):
        body.append(with_mean(f"ours / {theirs}, {when}", [row["ours"][key] / row["theirs"][key] for row in found], 2))
    body.append(with_mean("speed of light at 1.5 GHz", GROUP_GEMM.published_us["B200"].values()))
    heads = [f"{len(shape.m)} groups, {shape.text()}" for shape in shapes]
    return table(["us a call", *heads, "geomean"], body)


def grouped_doubt() -> str:
    """A sentence: how far the clock is from the public kernel's published times, and ours scaled by as much."""
    found = grouped()
    behind = {who: geometric_mean(row[who]["back_to_back_us"] for row in found) for who in ("ours", "theirs")}
    off = geometric_mean(row["published_us"] for row in found) / behind["theirs"]
    return (
        f"The public kernel's published times are {off:.2f} of its simulated ones; they include a call's launch and "
        f"the leaderboard's timer. Ours times {off:.2f} would be {behind['ours'] * off:.1f} us."
    )


def grouped_tiles() -> str:
    """Every tile of the grouped kernels, behind other calls."""
    found = grouped()
    body = [[f"`{tile}`", *(f"{row['tiles_us'][tile]:.1f}" for row in found)] for tile in found[0]["tiles_us"]]
    return table(["us behind other calls, each tile (simulated)", *(row["case"] for row in found)], body)


def grouped_critical() -> str:
    """A list: the critical resource of each of the grouped GEMM's times."""
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
    """Every tile of the dual GEMM, behind other calls."""
    predicted = data["predictions"]["blackwell"]
    names = list(next(iter(predicted.values()))["tiles_us"])
    body = [[f"`{name}`", *(f"{found['tiles_us'][name]:.1f}" for found in predicted.values())] for name in names]
    return table(["us behind other calls (simulated)", *(shape.replace("x", " ") for shape in predicted)], body)


def older_text(rows: list[dict[str, Any]] | None = None) -> str:
    """A sentence that names the public kernels whose times are of older parameters; empty if none."""
    older = {row["kernel"]: None for row in (public()["rows"] if rows is None else rows) if row.get("older")}
    if not older:
        return ""
    names = ", ".join(older)
    return f" The simulated times of {names}, and ours next to them, were made with earlier parameters of the chip."


def error_text(data: dict[str, Any]) -> str:
    """A sentence: how far off such times may be."""
    error = data["error"]
    return (
        f"**Simulated, not measured.** Simulated times differ from published ones by: {error['parts']}. This package's "
        f"own kernels could be compared with a chip only on an H200: simulated times differ from measured ones there "
        f"by {error['mean_percent']} % on average and {error['largest_percent']} % at most."
    )


def critical(data: dict[str, Any]) -> str:
    """A list: the critical resource of each shape, and the busiest resources."""
    return "\n".join(
        f"- {shape.replace('x', ' ')}: {found['critical']}. Busy in a call alone, on the busiest SM: "
        f"{', '.join(f'{name} {100 * share:.0f} %' for name, share in found['busiest'].items())}."
        for shape, found in data["times"].items()
    )


def render(data: dict[str, Any]) -> str:
    """The committed page."""
    parts = [
        "# The Blackwell kernel's simulated times",
        "Written by `./nvfp4 cost_model` from "
        "[blackwell_calls.json](../calibration/data/blackwell_calls.json): the package's compiled kernels on "
        "[the simulator's clock](../ARCHITECTURE.md#simulated-time) with a B200's parameters.",
        error_text(data),
        rows(data),
        "Behind other calls: from the end of one call to the end of the next, each with inputs of its own. The kernel "
        "alone: from its first CTA's start to its last CTA's end. [How far the clock can be trusted](CLOCK.md).",
        "## At the leaderboard's clock",
        board_text(),
        table(BOARD_HEAD, board_rows()),
        "Alone: one call, not behind others. Every public row before and after:",
        public_errors(),
        "Error against clock, without the mechanisms: 1.39 and 1.965 GHz are simulated, the others are linear in the "
        "clock's period between them.",
        errors_by_clock(),
        "## What the time depends on",
        critical(data),
        "## Public kernels on the same clock",
        "Compiled from their authors' sources with their host code, without dependent launch, as their authors launch "
        "them ([public_kernels.json](../calibration/data/public_kernels.json); the sources are fetched, not kept). "
        "Published: the authors' times of a real B200, from a timer that steps by some 2 us." + older_text(),
        public_rows(data),
        "`s_128t` is a single GEMM; our dual GEMM beside it has half the columns, which is as many products and bytes.",
        single_rows(),
        "## The grouped GEMM",
        "The leaderboard's four benchmarks of `nvfp4_group_gemm`. Each row comes from one run of ours and theirs, "
        "three calls with buffers of their own. The public kernel's host code is changed: it encodes its tensor maps "
        "anew, writes C by columns and pads its rows to 16. Our times depend on where the host puts the operands: "
        "another run gave 23.0, 16.5, 5.6 and 3.5 us.",
        grouped_rows(),
        grouped_doubt(),
    ]
    return "\n\n".join(parts) + "\n"


def report(data: dict[str, Any]) -> str:
    """The page of `make clock-report`: the committed one, and every tile."""
    more = [
        "## Every tile",
        "`make bring-up` compares a B200's times of the same tiles with these.",
        tile_rows(data),
        "## The grouped GEMM's tiles",
        grouped_tiles(),
        grouped_critical(),
    ]
    return "\n\n".join([render(data), *more]) + "\n"


def problems() -> list[str]:
    """The committed files that are not current, and why."""
    found = []
    data = json.loads(RESULT.read_text())
    if data["parameters_sha256"] != parameters_digest(CHIP):
        found.append(f"{RESULT.name}: simulated with other parameters of the chip")
    tiles = {shape: found["tiles_us"] for shape, found in data["predictions"]["blackwell"].items()}
    if data != compute(data["times"], tiles, data["error"]["whole_kernels_percent"]):
        found.append(f"{RESULT.name}: not what its times give")
    if public()["parameters_sha256"] != data["parameters_sha256"]:
        found.append("public_kernels.json: simulated with other parameters of the chip")
    if TEXT.read_text() != render(data):
        found.append(f"{TEXT.name}: not what {RESULT.name} gives")
    return found


def write(path: Path, text: str) -> None:
    """Writes a file only if it differs, so that make sees no change."""
    if not path.is_file() or path.read_text() != text:
        path.write_text(text)


def main(arguments: list[str]) -> int:
    """Simulates and writes, or checks the committed files."""
    parser = argparse.ArgumentParser(
        prog="python -m simulator.calibration.calls",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--render", action="store_true")
    options = parser.parse_args(arguments)
    if options.check:
        for problem in (found := problems()):
            print(f"{problem}; run `./nvfp4 cost_model`", file=sys.stderr)
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
