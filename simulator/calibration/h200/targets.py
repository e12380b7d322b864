"""The accuracy that the H200's clock is meant to have, beside the accuracy that it has."""

from __future__ import annotations

from collections.abc import Mapping
from statistics import mean, median

from simulator.calibration.h200.measured import ratios
from simulator.calibration.rows import Row, errors
from simulator.python.markdown import table

CALIBRATED, MEAN, LARGEST, LADDER, RATIO, SIGNS = 5.0, 5.0, 12.0, 10.0, 4.0, 0.9  # percent; SIGNS: a share


def lines(groups: Mapping[str, list[Row]]) -> list[list[str]]:
    """Table rows: the target, its limit, the value reached, yes or no."""
    found = []

    def line(what: str, aim: str, reached: str, good: bool) -> None:
        found.append([what, aim, reached, "yes" if good else "**no**"])

    if "micro" in groups:
        off = errors(groups["micro"])
        near = sum(error <= CALIBRATED for error in off)
        reached = f"{near} of {len(off)}; median {median(off):.1f} %"
        line("microbenchmarks, which calibrate", f"each within {CALIBRATED:.0f} %", reached, near == len(off))
    if "kernels" in groups:
        off = errors(groups["kernels"])
        line("our Hopper kernels: mean", f"{MEAN:.0f} %", f"{mean(off):.1f} %", mean(off) <= MEAN)
        line("our Hopper kernels: largest", f"{LARGEST:.0f} %", f"{max(off):.1f} %", max(off) <= LARGEST)
    if "rounds" in groups:
        of = ratios.ratios(groups["rounds"])
        moved = [ratio for ratio in of if ratio.moved]
        right = sum(ratio.right for ratio in moved)
        reached = f"{ratios.rms(of):.1f} % over {len(of)}"
        line("measured rounds' ratios: rms", f"{RATIO:.0f} %", reached, ratios.rms(of) <= RATIO)
        line("their signs", "9 of 10", f"{right} of {len(moved)}", right >= SIGNS * len(moved))
    if "ladder" in groups:
        off = errors(groups["ladder"])
        line("fast.cu's ladder: mean", f"{LADDER:.0f} %", f"{mean(off):.1f} % over {len(off)}", mean(off) <= LADDER)
    return found


def text(groups: Mapping[str, list[Row]]) -> str:
    """The table as Markdown."""
    return table(["target", "limit", "reached", "met"], lines(groups))
