"""Plots of the rounds: time per shape by round, and prediction against measurement."""

from __future__ import annotations

import io
import re
from pathlib import Path
from typing import Any

import matplotlib
from matplotlib.axes import Axes
from matplotlib.figure import Figure
from matplotlib.lines import Line2D
from matplotlib.ticker import FixedLocator, FuncFormatter, NullLocator

from scripts.history.data import PNG_KEYWORD, ShapeSeries
from scripts.rounds.ledger import Ledger
from scripts.rounds.model import VIEWPOINTS
from scripts.rounds.pages import round_page

matplotlib.use("Agg")

# Text and axes are drawn in this colour, which the page replaces by its own text colour.
INK = "#3b3f46"
# Hues that keep a contrast of 3 on both a white and a near-black page.
OURS, BASELINES, FLOOR = "#2f7de1", ("#c26a00", "#7a8f00", "#a04fd6", "#d13a72"), "#7a8290"
# A verdict has its own colour and its own mark, so that either alone identifies it.
KEPT, DROPPED, OPEN = "#0b8f5a", "#d9363e", "#a67c00"
MARKS = {"adopted": ("o", KEPT), "rejected": ("x", DROPPED), "inconclusive": ("s", OPEN)}
PREDICTIONS_A_FIGURE = 13
# Text in place of the dot of a round without a time.
NO_TIME = {"simulated": "no chip: counted", "compiled": "no chip: compiled", "predicted": "not measured"}
VIEW_MARKS = dict(zip(VIEWPOINTS, "^sD", strict=True))
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


def shape_figure(series: ShapeSeries) -> Figure:
    """One shape alone, small enough for a phone."""
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(4.2, 2.9), layout="constrained")
        draw_shape(figure.subplots(), series)
        return figure


def _prediction_row(axes: Axes, at: float, data: dict[str, Any]) -> None:
    """Title, predicted interval, viewpoints, and the measured ratio or the reason why there is none."""
    low, high = round_page.predicted_geomean(data)
    title = f"{data['number']:04d} {data['title']}" + (" (inherited)" if "inherited" in data else "")
    place = {"transform": axes.get_yaxis_transform(), "va": "center"}
    axes.text(0.0, at - 0.42, title, fontsize=8, **place)
    axes.plot([low, high], [at, at], color=FLOOR, linewidth=7, alpha=0.45, solid_capstyle="butt")
    for name, view in (data["prediction"] or {"viewpoints": {}})["viewpoints"].items():
        axes.plot([view["ratio"]], [at], VIEW_MARKS[name], color=BASELINES[0], markersize=4.5)
    found = data["measurement"]["geomean"] if data["measurement"] else None
    ratio = found["ratio"] if found else round_page.inherited_ratio(data)
    color = MARKS.get(round_page.verdict_state(data) or "", ("s", OPEN))[1]
    if ratio:
        if found:
            axes.plot([found["low"], found["high"]], [at, at], color=color, linewidth=2)
        axes.plot([ratio], [at], "o", color=color, markersize=6)
    else:
        axes.text(1.0, at, NO_TIME.get(data["evidence"], "no time"), fontsize=7.5, ha="right", **place)


def prediction_figure(rounds: list[dict[str, Any]], limits: tuple[float, float] | None = None) -> Figure | None:
    """Two lines a round, narrow enough for a phone: title, prediction and measurement. None without a prediction."""
    rows = [data for data in rounds if round_page.predicted_geomean(data)]
    if not rows:
        return None
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(4.4, 1.2 + 0.4 * len(rows)), layout="constrained")
        axes = figure.subplots()
        for at, data in enumerate(rows):
            _prediction_row(axes, at, data)
        axes.axvline(1.0, color=INK, linewidth=0.8)
        axes.set_yticks([])
        axes.spines.left.set_visible(False)
        axes.set_ylim(len(rows) - 0.4, -0.8)
        if limits:
            axes.set_xlim(*limits)
        axes.set_xlabel("candidate time / base time (below 1 is faster)")
        axes.grid(axis="x", color=FLOOR, alpha=0.25, linewidth=0.6)
        handles = [
            Line2D([], [], color=FLOOR, alpha=0.45, linewidth=7, label="predicted"),
            *(Line2D([], [], linestyle="", marker=m, color=BASELINES[0], label=v) for v, m in VIEW_MARKS.items()),
            Line2D([], [], color=KEPT, marker="o", label="measured"),
        ]
        figure.legend(handles=handles, loc="outside lower center", ncols=3, handlelength=1.2, columnspacing=1.2)
        return figure


def prediction_figures(rounds: list[dict[str, Any]]) -> list[Figure]:
    """Prediction figures of PREDICTIONS_A_FIGURE rounds each, on one scale."""
    rows = [data for data in rounds if round_page.predicted_geomean(data)]
    values = [value for data in rows for value in round_page.predicted_geomean(data)]
    values += [data["measurement"]["geomean"]["ratio"] for data in rows if data["measurement"]]
    values += [ratio for data in rows if (ratio := round_page.inherited_ratio(data))]
    limits = (0.95 * min(values), 1.05 * max(values)) if values else None
    parts = [rows[at : at + PREDICTIONS_A_FIGURE] for at in range(0, len(rows), PREDICTIONS_A_FIGURE)]
    return [prediction_figure(part, limits) for part in parts]


def ledger_figure(ledger: Ledger) -> Figure:
    """One bar a step, from its time before to its time after."""
    rows = ledger.steps
    with matplotlib.rc_context(STYLE):
        figure = Figure(figsize=(4.4, 1.0 + 0.42 * len(rows)), layout="constrained")
        axes = figure.subplots()
        for at, step in enumerate(rows):
            place = {"transform": axes.get_yaxis_transform(), "va": "center"}
            axes.text(0.0, at - 0.38, f"{step.number:04d} {step.title}", fontsize=8, **place)
            if step.ratio is None:
                axes.text(0.0, at, "not measured yet", fontsize=7.5, **place)
                continue
            axes.barh(at, step.base_us - step.candidate_us, left=step.candidate_us, height=0.34, color=KEPT)
            axes.text(step.candidate_us, at, f"{step.candidate_us:.1f} ", fontsize=8, ha="right", va="center")
        axes.set_yticks([])
        axes.spines.left.set_visible(False)
        axes.set_ylim(len(rows) - 0.5, -0.8)
        axes.set_xlim(0, 1.05 * ledger.first_us)
        axes.set_xlabel(f"us a call, geometric mean; the first right kernel took {ledger.first_us:.1f}")
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
