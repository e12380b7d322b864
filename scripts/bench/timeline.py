"""A call's simulated timeline: a Chrome trace for Perfetto, a picture, and the critical resource of each launch.

    ./nvfp4 bench timeline 256 4096 7168 blackwell              # build/timeline.json and .png
    ./nvfp4 bench timeline 256 3072 4096 hopper --to FOLDER/NAME

Rows are the warps of a launch's first cluster, its units, and memory.  The times are simulated, never measured.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import defaultdict
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.patches import Patch

from scripts.common.options import positive
from scripts.common.toolchain import BUILD
from simulator.calibration.b200.board import simulated_chip
from simulator.calibration.calls.board_times import clock_errors
from simulator.package.simulated_call import CHIPS, simulated_calls

matplotlib.use("Agg")
from matplotlib import pyplot

COLOURS = {
    "warp": "#7aa6c2", "mbarrier": "#e8e3d3", "barrier": "#d9cfb4", "cluster barrier": "#c9b98f",
    "own operations": "#efd9b4",
}  # fmt: skip
UNIT_COLOUR = "#b5651d"
CALLS = 3  # the last one counts as behind others
GROUPS_K = 64  # of which K is a multiple (custom_kernel.h)

Bar = tuple[float, float, str]  # start and length in us, colour


def rows(trace: dict[str, Any]) -> dict[str, list[Bar]]:
    """Bars by row, warps first, then units.  Waits are drawn over the bar of the warp's life."""
    events = trace["traceEvents"]
    process = {event["pid"]: event["args"]["name"] for event in events if event["name"] == "process_name"}
    found: dict[str, list[Bar]] = defaultdict(list)
    slices = sorted((event for event in events if event["ph"] == "X"), key=lambda event: event["name"] != "warp")
    for event in slices:
        row = f"{process[event['pid']].removesuffix(' (simulated)')}, warp {event['tid']}"
        found[row].append((event["ts"], event["dur"], COLOURS.get(event["name"], "#999999")))
    begun = {(event["cat"], event["id"]): event for event in events if event["ph"] == "b"}
    for event in events:
        if event["ph"] == "e":
            start = begun[event["cat"], event["id"]]["ts"]
            row = f"CTA {(event['pid'] - 2) // 2}, {event['name']}"
            found[row].append((start, event["ts"] - start, UNIT_COLOUR))
    return dict(sorted(found.items(), key=lambda item: (item[0].split(",")[0], "warp" not in item[0], item[0])))


def counters(trace: dict[str, Any]) -> dict[str, tuple[list[float], list[float]]]:
    """Times in us and shares in percent of the resources that all SMs share."""
    found: dict[str, tuple[list[float], list[float]]] = {}
    for event in trace["traceEvents"]:
        if event["ph"] == "C":
            times, shares = found.setdefault(event["name"], ([], []))
            times.append(event["ts"])
            shares.append(event["args"]["memory busy, %"])
    return found


def draw(trace: dict[str, Any], title: str, target: Path) -> None:
    """The picture: rows of bars, and below them the chip's memory."""
    bars = rows(trace)
    figure, (top, bottom) = pyplot.subplots(
        2, 1, sharex=True, figsize=(14, 2.5 + 0.28 * len(bars)), height_ratios=[max(len(bars), 1), 4]
    )
    for i, (_, found) in enumerate(bars.items()):
        top.broken_barh([(start, length) for start, length, _ in found], (i - 0.4, 0.8),
                        facecolors=[colour for _, _, colour in found], alpha=0.85)  # fmt: skip
    top.set_yticks(range(len(bars)), list(bars), fontsize=7)
    top.invert_yaxis()
    names = {"warp": "instructions", "mbarrier": "waits at mbarriers", "barrier": "at barriers",
             "cluster barrier": "at cluster barriers", "own operations": "for own operations"}  # fmt: skip
    keys = [Patch(color=colour, label=names[name]) for name, colour in COLOURS.items()]
    top.legend(handles=[*keys, Patch(color=UNIT_COLOUR, label="operations of units")], fontsize=7, loc="lower right")
    for name, (times, shares) in counters(trace).items():
        bottom.step(times, shares, where="post", label=name, linewidth=0.8)
    # A request counts when it is made, in full: where requests queue, more is asked for than memory does meanwhile.
    bottom.set_ylabel("asked for, % of rate")
    bottom.set_xlabel("us (simulated, not measured)")
    bottom.legend(fontsize=7)
    figure.suptitle(title, fontsize=9)
    figure.tight_layout()
    figure.savefig(target, dpi=120)
    pyplot.close(figure)


def main(arguments: list[str]) -> int:
    """Simulates, writes both files, prints a summary."""
    parser = argparse.ArgumentParser(
        prog="nvfp4 bench timeline", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    for name in ("m", "n", "k"):
        parser.add_argument(name, type=positive)
    parser.add_argument("backend", choices=CHIPS)
    parser.add_argument("--to", type=Path, default=BUILD / "timeline", help="the files' name without .json and .png")
    options = parser.parse_args(arguments)
    if options.k % GROUPS_K:
        parser.error(f"argument k: {options.k}; expected a multiple of {GROUPS_K}")
    target = options.to.resolve()
    target.parent.mkdir(parents=True, exist_ok=True)
    trace_file, picture = target.with_name(target.name + ".json"), target.with_name(target.name + ".png")
    shape = (options.m, options.n, options.k)
    with simulated_chip(options.backend) as chip:
        time = simulated_calls(shape, options.backend, timeline=trace_file, **chip)
        behind = simulated_calls(shape, options.backend, CALLS, **chip)["launches"]
    each = len(behind) // CALLS
    behind_us = behind[-1]["end_us"] - behind[-1 - each]["end_us"]
    alone_us = time["launches"][-1]["end_us"] - time["launches"][0]["start_us"]
    what = f"{options.backend} {options.m} x {options.n} x {options.k} on {time['chip']} at {time['clock_ghz']} GHz"
    took = f"simulated, not measured: {behind_us:.1f} us behind other calls, {alone_us:.1f} us alone, as drawn"
    draw(json.loads(trace_file.read_text()), f"{what}; {took}", picture)
    print(f"{what}; {took}")
    for launch in time["launches"]:
        print(f"{launch['name']}: {launch['critical']}")
    error = f"{clock_errors()}, on public kernels" if options.backend == "blackwell" else time["error"]
    print(f"the clock's error: {error}")
    print(f"{trace_file} (open it in Perfetto), {picture}")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
