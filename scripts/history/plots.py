"""Plots of the rounds: time per shape by round, steps as a waterfall, prediction against measurement."""

from __future__ import annotations

import io
import math
import re
from collections.abc import Sequence
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from scripts.history.data import PNG_KEYWORD, ShapeSeries
from scripts.history.stories import Step
from scripts.rounds.pages import round_page

matplotlib.use("Agg")

# Text and axes are drawn in this colour, which the page replaces by its own text colour.
INK = "#3b3f46"
# Hues that keep a contrast of 3 on both a white and a near-black page.
OURS, BASELINES, FLOOR = "#2f7de1", ("#c26a00", "#7a8f00", "#a04fd6", "#d13a72"), "#7a8290"
# A verdict has its own colour and its own mark, so that either alone identifies it.
KEPT, DROPPED, OPEN = "#0b8f5a", "#d9363e", "#a67c00"
MARKS = {"adopted": ("o", KEPT), "rejected": ("x", DROPPED), "inconclusive": ("s", OPEN)}
STYLE = {
    "font.size": 9,
    "font.family": "DejaVu Sans",
    "axes.spines.top": False,
    "axes.spines.right": False,
    "axes.edgecolor": INK,
    "axes.labelcolor": INK,
    "axes.titlesize": 10,
    "text.color": INK,
    "xtick.color": INK,
    "ytick.color": INK,
    "svg.fonttype": "none",
    "svg.hashsalt": "rounds",
    "legend.frameon": False,
}


def _time_axis(axes: Axes, series: ShapeSeries) -> None:
    start = [] if series.first is None else [series.first]
    values = [series.floor, *start, *(us for _, _, us, _ in series.rounds), *series.baselines.values()]
    low, high = 0.85 * min(values), 1.18 * max(values)
    axes.set_yscale("log")
    axes.set_ylim(low, high)
    nice = [f * 10**e for e in range(0, 4) for f in (1, 1.5, 2, 3, 4, 5, 6, 8)]
    axes.yaxis.set_major_locator(FixedLocator([v for v in nice if low <= v <= high]))
    axes.yaxis.set_minor_locator(NullLocator())
    axes.yaxis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
    axes.grid(axis="y", color=FLOOR, alpha=0.25, linewidth=0.6)


def draw_shape(axes: Axes, series: ShapeSeries) -> None:
    """One shape: our rounds, the floor and the baselines."""
    axes.set_title(series.shape.replace("x", " "), loc="left", fontweight="bold")
    axes.axhline(series.floor, color=FLOOR, linestyle="--", linewidth=1.4)
    for color, us in zip(BASELINES, series.baselines.values(), strict=False):
        axes.axhline(us, color=color, linewidth=1.4)
    line: list[tuple[float, float]] = []
    if series.first is not None:  # the start of the first step, left of the first round
        axes.scatter([-1], [series.first], marker="D", s=30, color=OURS, zorder=3)
        line.append((-1, series.first))
    for at, (_, verdict, us, leads) in enumerate(series.rounds):
        marker, color = MARKS.get(verdict, ("s", OPEN))
        axes.scatter([at], [us], marker=marker, s=34, linewidths=1.6, zorder=3, color=color)
        if leads or line:
            line.append((at, us if leads else line[-1][1]))
    axes.plot([x for x, _ in line], [y for _, y in line], color=OURS, drawstyle="steps-post", linewidth=1.6)
    _time_axis(axes, series)
    count = max(1, len(series.rounds))
    axes.set_xlim(-0.6 if series.first is None else -1.6, count - 0.4)
    step = max(1, -(-count // 8))
    axes.set_xticks(range(0, len(series.rounds), step))
    axes.set_xticklabels([f"{number:04d}" for number, *_ in series.rounds][::step])
    axes.set_ylabel("us")
    if not series.rounds:
        axes.text(0.5, 0.62, "no round measured yet", transform=axes.transAxes, ha="center", va="center")


def legend_handles(series: list[ShapeSeries]) -> list[Line2D]:
    """The legend of `draw_shape`."""
    handles = []
    if any(one.rounds for one in series):
        handles += [
            Line2D([], [], linestyle="", marker=marker, color=color, label=f"ours: {verdict}")
            for verdict, (marker, color) in MARKS.items()
        ]
        handles.append(Line2D([], [], color=OURS, label="ours: the kernel that stood"))
    if any(one.first is not None for one in series):
        handles.append(Line2D([], [], linestyle="", marker="D", color=OURS, label="ours: the first right kernel"))
    handles.append(Line2D([], [], color=FLOOR, linestyle="--", label=series[0].floor_label))
    labels = list(dict.fromkeys(label for one in series for label in one.baselines))
    handles += [Line2D([], [], color=c, label=label) for c, label in zip(BASELINES, labels, strict=False)]
    return handles


def progress_figure(series: list[ShapeSeries], chip: str) -> Figure:
    """All shapes in one figure, for README and the PNG."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(9.0, 6.4), layout="constrained")
        panels = figure.subplots(2, 2).flat
        for axes, one in zip(panels, series, strict=False):
            draw_shape(axes, one)
        figure.suptitle(f"NVFP4 dual GEMM on {chip}: time per call by round", fontweight="bold")
        figure.legend(handles=legend_handles(series), loc="outside lower center", ncols=2)
        return figure


def calibration_figure(rounds: list[dict[str, Any]]) -> Figure | None:
    """All measured rounds: predicted against measured ratio, in the colours of the verdicts. None without one."""
    marks: dict[str, list[tuple[float, float]]] = {}
    for data in rounds:
        predicted = round_page.predicted_geomean(data)
        if predicted and data["measurement"]:
            verdict = round_page.verdict_state(data) or "inconclusive"
            point = (math.sqrt(predicted[0] * predicted[1]), data["measurement"]["geomean"]["ratio"])
            marks.setdefault(verdict if verdict in MARKS else "inconclusive", []).append(point)
    if not marks:
        return None
    values = [value for points in marks.values() for point in points for value in point]
    low, high = 0.95 * min(values), 1.05 * max(values)
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(4.4, 4.2), layout="constrained")
        axes = figure.subplots()
        axes.plot([low, high], [low, high], color=INK, linewidth=0.8)
        for verdict, points in marks.items():
            marker, color = MARKS[verdict]
            axes.scatter(*zip(*points, strict=True), marker=marker, s=24, color=color, label=verdict)
        for axis, scale in ((axes.xaxis, axes.set_xscale), (axes.yaxis, axes.set_yscale)):
            scale("log")
            ticks = (0.1, 0.2, 0.3, 0.4, 0.5, 0.6, 0.7, 0.8, 0.9, 1.0, 1.2, 1.4, 1.7, 2.0, 2.5)  # apart on a phone, too
            axis.set_major_locator(FixedLocator([value for value in ticks if low <= value <= high]))
            axis.set_minor_locator(NullLocator())
            axis.set_major_formatter(FuncFormatter(lambda value, _: f"{value:g}"))
        axes.set_xlim(low, high)
        axes.set_ylim(low, high)
        axes.grid(color=FLOOR, alpha=0.25, linewidth=0.6)
        axes.set_xlabel("predicted ratio (middle of the interval)")
        axes.set_ylabel("measured ratio")
        figure.legend(loc="outside lower center", ncols=3)
        return figure


def waterfall_figure(
    steps: Sequence[Step], unit: str = "us a call, geometric mean", start_us: float | None = None
) -> Figure:
    """One bar a step, from its time before to its time after, under one for the time at the start if that is given."""
    first = 0 if start_us is None else -1
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(4.4, 0.9 + 0.42 * (len(steps) - first)), layout="constrained")
        axes = figure.subplots()
        place = {"transform": axes.get_yaxis_transform(), "va": "center"}
        if start_us is not None:
            axes.text(0.0, first - 0.38, "start", fontsize=8, **place)
            axes.barh(first, start_us, height=0.34, color=FLOOR)
            axes.text(start_us, first, f"{start_us:.1f} ", fontsize=8, ha="right", va="center", color="white")
        for at, step in enumerate(steps):
            axes.text(0.0, at - 0.38, f"{step.number:04d} {step.words}", fontsize=8, **place)
            axes.barh(at, step.before_us - step.after_us, left=step.after_us, height=0.34, color=KEPT)
            axes.text(step.after_us, at, f"{step.after_us:.1f} ", fontsize=8, ha="right", va="center")
        axes.set_yticks([])
        axes.spines.left.set_visible(False)
        axes.set_ylim(len(steps) - 0.5, first - 0.8)
        axes.set_xlim(0, 1.05 * max(step.before_us for step in steps))
        axes.set_xlabel(unit)
        axes.grid(axis="x", color=FLOOR, alpha=0.25, linewidth=0.6)
        return figure


# --- output -------------------------------------------------------------------------------------------
def svg(figure: Figure, prefix: str, label: str) -> str:
    """Inline SVG: text colour taken from the page, ids made unique by `prefix`, scaled to its container."""
    buffer = io.StringIO()
    with matplotlib.rc_context(STYLE):
        figure.savefig(buffer, format="svg", transparent=True, metadata={"Date": None, "Creator": None})
    text = buffer.getvalue()
    text = text[text.index("<svg") :].replace(INK, "currentColor")
    text = text.replace("'DejaVu Sans'", "system-ui, 'DejaVu Sans', sans-serif")
    # matplotlib's style sheet would apply to the whole page, whose own sheet has the same rule for figures.
    text = re.sub(r"<metadata>.*?</metadata>|<style[^>]*>.*?</style>", "", text, flags=re.DOTALL)
    text = re.sub(r'\bid="', f'id="{prefix}-', text)
    text = re.sub(r'((?:xlink:)?href="|url\()#', rf"\1#{prefix}-", text)
    text = re.sub(r'(<svg[^>]*?) width="[^"]*"', r"\1", text, count=1)
    text = re.sub(r'(<svg[^>]*?) height="[^"]*"', r"\1", text, count=1)
    return text.replace("<svg ", f'<svg role="img" aria-label="{label}" ', 1)


def png(figure: Figure, path: Path, digest: str) -> None:
    """PNG on white with the digest of its data."""
    with matplotlib.rc_context(STYLE):
        figure.savefig(path, format="png", dpi=130, facecolor="white", metadata={PNG_KEYWORD: digest, "Software": None})
