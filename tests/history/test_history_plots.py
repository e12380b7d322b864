"""The plots: their marks and lines, and the data that they show."""

from __future__ import annotations

import re

import pytest
from matplotlib.colors import to_rgba
from matplotlib.figure import Figure

from scripts.history import data, plots
from scripts.history.data import ShapeSeries
from scripts.history.stories import Step

FLOOR_US, PEER_US = 4.0, {"cuBLAS": 20.0, "Triton": 30.0}
ROUNDS = [
    (4, "adopted", 40.0, True),
    (5, "rejected", 44.0, False),
    (7, "inconclusive", 39.0, False),
    (9, "adopted", 36.0, True),
    (11, "adopted", 37.0, False),
]


@pytest.fixture
def series():
    return ShapeSeries("256x4096x7168", FLOOR_US, "the floor", list(ROUNDS), dict(PEER_US))


def drawn(series):
    axes = Figure().subplots()
    plots.draw_shape(axes, series)
    return axes


def test_every_round_is_a_mark_of_its_verdict(series):
    marks = drawn(series).collections
    assert [tuple(mark.get_offsets()[0]) for mark in marks] == [(i, us) for i, (_, _, us, _) in enumerate(ROUNDS)]
    kept, dropped, left_open = map(to_rgba, (plots.KEPT, plots.DROPPED, plots.OPEN))
    assert len({kept, dropped, left_open}) == 3
    faces = [tuple(mark.get_facecolor()[0]) for mark in marks]
    assert faces == [kept, dropped, left_open, kept, kept]
    corners = [len(mark.get_paths()[0].vertices) for mark in marks]  # points of a circle, a cross, a square
    assert corners[0] == corners[3] == corners[4] > 8 and len(set(corners[:3])) == 3


def test_the_kernel_that_the_ledger_starts_from_stands_first(series):
    series.first = 90.0
    axes = drawn(series)
    assert tuple(axes.collections[0].get_offsets()[0]) == (-1, 90.0)
    best = axes.lines[-1]
    assert (list(best.get_xdata())[:2], list(best.get_ydata())[:2]) == ([-1, 0], [90.0, 40.0])
    assert axes.get_xlim()[0] == -1.6 and axes.get_ylim()[1] == pytest.approx(1.18 * 90.0)
    assert plots.legend_handles([series])[4].get_label() == "ours: the first right kernel"


def test_lines_are_the_floor_the_baselines_and_the_best_so_far(series):
    floor, *baselines, best = drawn(series).lines
    assert (floor.get_ydata()[0], floor.get_linestyle(), floor.get_color()) == (FLOOR_US, "--", plots.FLOOR)
    assert [(line.get_ydata()[0], line.get_color()) for line in baselines] == [
        (20.0, plots.BASELINES[0]),
        (30.0, plots.BASELINES[1]),
    ]
    assert list(best.get_xdata()) == [0, 1, 2, 3, 4] and list(best.get_ydata()) == [40.0, 40.0, 40.0, 36.0, 36.0]
    assert best.get_drawstyle() == "steps-post" and best.get_color() == plots.OURS
    series.rounds[0] = (4, "rejected", 40.0, False)
    assert list(drawn(series).lines[-1].get_xdata()) == [3, 4]  # the line begins at the first adopted step


def test_axes_hold_every_mark_and_name_rounds_and_times(series):
    axes = drawn(series)
    assert axes.get_title(loc="left") == "256 4096 7168" and axes.get_ylabel() == "us"
    assert axes.get_ylim() == pytest.approx((0.85 * 4.0, 1.18 * 44.0)) and axes.get_yscale() == "log"
    assert list(axes.get_yticks()) == [4, 5, 6, 8, 10, 15, 20, 30, 40, 50]
    assert axes.yaxis.get_major_formatter()(15.0, 0) == "15" and len(axes.yaxis.get_minorticklocs()) == 0
    assert axes.get_xlim() == (-0.6, 4.6) and list(axes.get_xticks()) == [0, 1, 2, 3, 4]
    assert [label.get_text() for label in axes.get_xticklabels()] == ["0004", "0005", "0007", "0009", "0011"]
    assert list(axes.texts) == []


def test_many_rounds_have_eight_labels_at_most(series):
    for count, step in ((8, 1), (9, 2), (16, 2), (17, 3)):
        series.rounds = [(i, "adopted", 5.0, False) for i in range(count)]
        axes = drawn(series)
        assert list(axes.get_xticks()) == list(range(0, count, step)) and axes.get_xlim()[1] == count - 0.4
        assert [label.get_text() for label in axes.get_xticklabels()] == [f"{i:04d}" for i in range(0, count, step)]


def test_without_rounds_the_plot_says_so(series):
    series.rounds = []
    axes = drawn(series)
    assert [text.get_text() for text in axes.texts] == ["no round measured yet"] and list(axes.collections) == []
    assert axes.get_ylim() == pytest.approx((0.85 * 4.0, 1.18 * 30.0)) and axes.get_xlim() == (-0.6, 0.6)


def test_the_legend_names_what_is_there(series):
    def labels(*of):
        return [handle.get_label() for handle in plots.legend_handles(list(of))]

    other = ShapeSeries("x", 1.0, "another", [], {"Triton": 1.0, "torch": 2.0})
    ours = ["ours: adopted", "ours: rejected", "ours: inconclusive", "ours: the kernel that stood"]
    assert labels(other) == ["another", "Triton", "torch"]
    assert labels(other, series) == [*ours, "another", "Triton", "torch", "cuBLAS"]


def test_all_shapes_in_one_figure(series):
    shapes = [ShapeSeries(name, 4.0, "the floor", list(ROUNDS)) for name in ("1x2x3", "4x5x6", "7x8x9", "9x9x9")]
    figure = plots.progress_figure(shapes, "H200")
    assert [axes.get_title(loc="left") for axes in figure.axes] == ["1 2 3", "4 5 6", "7 8 9", "9 9 9"]
    assert "on H200" in figure.get_suptitle() and len(figure.legends[0].get_texts()) == 5


def a_round(number, **changes):
    base = {
        "number": number,
        "title": "Some idea",
        "evidence": "measured:H200",
        "verdict": {"state": "adopted"},
        "prediction": {
            "shapes": {"a": [0.8, 0.9], "b": [0.2, 0.4]},
            "viewpoints": {"theory": {"ratio": 0.5}, "performance": {"ratio": 0.7}},
        },
        "measurement": {"geomean": {"ratio": 0.95, "low": 0.93, "high": 0.97}},
    }
    return base | changes


def test_a_mark_is_the_predicted_and_the_measured_ratio():
    assert plots.calibration_figure([a_round(1, prediction=None), a_round(2, measurement=None)]) is None
    rows = [a_round(1), a_round(2, verdict={"state": "rejected"}), a_round(3, prediction=None)]
    (axes,) = plots.calibration_figure(rows).axes
    # Predicted: geometric means of 0.8 and 0.2, and of 0.9 and 0.4, are 0.4 and 0.6; their middle is sqrt(0.24).
    for marks, colour in zip(axes.collections, (plots.KEPT, plots.DROPPED), strict=True):
        assert marks.get_offsets().tolist() == [pytest.approx([0.24**0.5, 0.95])]
        assert tuple(marks.get_facecolor()[0]) == to_rgba(colour)
    assert axes.get_xlim() == axes.get_ylim()
    (right,) = axes.lines
    assert list(right.get_xdata()) == list(right.get_ydata())


def test_a_waterfall_is_a_bar_a_step():
    steps = [Step(9, "One", 90.0, 60.0), Step(10, "X", 61.0, 40.0)]
    (axes,) = plots.waterfall_figure(steps).axes
    assert [(bar.get_x(), bar.get_width()) for bar in axes.patches] == [(60.0, 30.0), (40.0, 21.0)]
    assert axes.get_xlim() == (0, 1.05 * 90.0)
    assert [text.get_text() for text in axes.texts] == ["0009 One", "60.0 ", "0010 X", "40.0 "]
    (axes,) = plots.waterfall_figure(steps, start_us=90.0).axes
    assert [(bar.get_x(), bar.get_width()) for bar in axes.patches] == [(0.0, 90.0), (60.0, 30.0), (40.0, 21.0)]
    assert [text.get_text() for text in axes.texts][:2] == ["start", "90.0 "]


def test_a_plot_in_the_page_takes_its_colours_and_width(series):
    text, again = (plots.svg(plots.progress_figure([series], "H200"), "first", "times of a shape") for _ in range(2))
    head = text[: text.index(">")]
    assert head.startswith('<svg role="img" aria-label="times of a shape" ')
    assert "viewBox" in head and not re.search(r'\b(width|height)="', head)
    assert plots.INK not in text and "currentColor" in text and plots.OURS in text
    assert "<style" not in text and "<metadata" not in text and "<text" in text
    ids = re.findall(r'\bid="([^"]*)"', text)
    assert ids and all(name.startswith("first-") for name in ids)
    assert set(re.findall(r'(?:href="|url\()#([^")]*)', text)) <= set(ids)
    assert "system-ui" in text and text == again


def test_a_plot_as_a_file_names_its_data(series, tmp_path):
    path = tmp_path / "x.png"
    plots.png(plots.progress_figure([series], "H200"), path, "ab" * 32)
    assert data.png_digest(path) == "ab" * 32 and b"Software" not in path.read_bytes()
    plots.png(plots.progress_figure([series], "H200"), path, "no digest")
    assert data.png_digest(path) is None


# --- data ------------------------------------------------------------------------------------------------------


def test_a_digest_is_of_every_figure(series):
    digests = {data.series_digest([series])}
    for change in (
        {"floor": 5.0},
        {"floor_label": "x"},
        {"shape": "y"},
        {"baselines": {}},
        {"rounds": ROUNDS[:-1]},
        {"first": 9.0},
    ):
        digests.add(data.series_digest([ShapeSeries(**(vars(series) | change))]))
    digests.add(data.series_digest([series, series]))
    assert len(digests) == 8


def test_the_chip_is_that_of_the_latest_measurement():
    def measured(chip, backend="hopper"):
        return {"backend": backend, "measurement": chip and {"chip": chip}}

    assert data.chip_of([]) == data.chip_of([measured(None), measured("B200", "blackwell")]) == "H200"
    assert data.chip_of([measured("H100"), measured("H20"), measured(None)]) == "H20"
    assert data.chip_of([measured("B200", "blackwell"), measured("H100")], "blackwell") == "B200"
