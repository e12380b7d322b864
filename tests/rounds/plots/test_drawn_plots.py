"""How each mark, line and word of the plots looks, beside a record: size, colour, width, place, what lies on what.

After a change that is meant: `pytest -n 0 --record-outcomes` on this file, and read the record's difference.
"""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import matplotlib
import numpy as np
import pytest
from matplotlib.artist import Artist
from matplotlib.axis import Axis
from matplotlib.colors import to_hex
from matplotlib.figure import Figure
from matplotlib.spines import Spine

from scripts.history import plots
from scripts.history.data import ShapeSeries
from scripts.rounds.ledger import Ledger, Step
from tests.rounds.plots.test_history_plots import ROUNDS, a_round

RECORD = Path(__file__).with_name("drawn_plots.json")
SHOWN = ("text", "fontsize", "fontweight", "ha", "va", "marker", "markersize", "linestyle", "linewidth", "alpha")
SHOWN += ("label", "zorder", "sizes", "rotation", "visible")


def shown(artist: Artist) -> str:
    """What is set of an artist, numbers to three places."""
    said = {name: getattr(artist, f"get_{name}")() for name in SHOWN if hasattr(artist, f"get_{name}")}
    for name in ("color", "facecolor"):
        if hasattr(artist, f"get_{name}"):
            colours = np.asarray(getattr(artist, f"get_{name}")(), dtype=object)
            flat = [colours.item()] if colours.ndim == 0 else list(colours) if colours.ndim > 1 else [tuple(colours)]
            said[name] = [to_hex(colour, keep_alpha=True) for colour in flat if len(colour)]
    for name in ("xydata", "offsets", "position", "xy", "width", "height"):
        if hasattr(artist, f"get_{name}") and not isinstance(artist, Spine):
            said[name] = np.round(np.asarray(getattr(artist, f"get_{name}")(), dtype=float), 3).tolist()
    return f"{type(artist).__name__} " + json.dumps(said, default=lambda value: np.round(value, 3).tolist())


def artists(figure: Figure) -> Iterator[Artist]:
    """What the figures' own code put there, in the order it did."""
    for axes in figure.axes:
        yield from (*axes.lines, *axes.collections, *axes.patches, *axes.texts)
        yield from (axes.title, *(one.label for one in (axes.xaxis, axes.yaxis)), *axes.spines.values())
        yield from (line for axis in (axes.xaxis, axes.yaxis) for line in gridlines(axis))
    for legend in figure.legends:
        yield from (*legend.get_lines(), *legend.get_texts())
    yield from figure.texts


def gridlines(axis: Axis) -> list[Artist]:
    """The first line of a grid stands for all."""
    return [line for line in axis.get_gridlines()[:1] if line.get_visible()]


SERIES = ShapeSeries("256x4096x7168", 4.0, "the floor", list(ROUNDS), {"cuBLAS": 20.0, "Triton": 30.0})
FIGURES = {
    "a shape": lambda: plots.shape_figure(SERIES),
    "a shape without rounds": lambda: plots.shape_figure(ShapeSeries("1x2x3", 4.0, "the floor", [])),
    "all shapes": lambda: plots.progress_figure([SERIES, ShapeSeries("1x2x3", 5.0, "the floor", list(ROUNDS))], "H200"),
    "predictions": lambda: plots.prediction_figure(
        [
            a_round(1),
            a_round(3, measurement=None, evidence="simulated", title="A title that is too long to stand by its row"),
            {
                **{"number": 4, "title": "Theirs", "prediction": None, "measurement": None, "verdict": None},
                "evidence": "inherited",
                "inherited": {"predicted": [0.6, 0.7], "figures": [{"after_us": 3.0, "before_us": 4.0}]},
            },
        ]
    ),
    "the ledger": lambda: plots.ledger_figure(
        Ledger(90.0, "the first", [Step(9, "One", "", 90.0, 60.0, 0.667), Step(51, "Two", "", None, None, None)])
    ),
}


@pytest.mark.parametrize("name", FIGURES)
def test_a_plot_looks_as_it_was_recorded(name, request):
    figure = FIGURES[name]()
    found = [shown(artist) for artist in artists(figure)]
    found.append(f"Figure {np.round(figure.get_size_inches(), 3).tolist()}")
    release = ".".join(matplotlib.__version__.split(".")[:2])
    recorded = json.loads(RECORD.read_text()) if RECORD.is_file() else {}
    if request.config.getoption("record_outcomes"):
        recorded |= {name: found, "matplotlib": release}
        RECORD.write_text(json.dumps(recorded, indent=0, sort_keys=True) + "\n")
    if recorded["matplotlib"] != release:
        pytest.skip(f"recorded of matplotlib {recorded['matplotlib']}: another release has other defaults")
    assert found == recorded[name]


def test_what_is_shown_tells_size_and_what_lies_on_what():
    axes = Figure().subplots()
    word = axes.text(0.5, 1.0, "a", fontsize=8, zorder=3.5, color="red")
    before = shown(word)
    word.set_fontsize(9)
    assert before != shown(word) and '"#ff0000ff"' in before and '"zorder": 3.5' in before
