"""A picture of the clock's errors: for each set the share of rows within an error."""

from __future__ import annotations

import io
from collections.abc import Mapping

from simulator.calibration.h200.page import TITLES
from simulator.calibration.rows import FAR, NEAR, Row, errors

LEAST = 0.1  # percent: smaller errors are drawn there


def draw(rows: Mapping[str, Row]) -> str:
    """The picture as SVG."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    with pyplot.rc_context({"svg.hashsalt": "clock", "svg.fonttype": "none"}):
        figure, axes = pyplot.subplots(figsize=(8, 4.5))
        for group, title in TITLES.items():
            off = sorted(errors(row for row in rows.values() if row.group == group))
            if off:
                shares = [100 * (i + 1) / len(off) for i in range(len(off))]
                at = [max(error, LEAST) for error in off]
                axes.step([*at, 1000], [*shares, 100], where="post", label=f"{title} ({len(off)})")
        for limit in (NEAR, FAR):
            axes.axvline(limit, color="grey", linewidth=0.7, linestyle=":")
        axes.set(xscale="log", xlim=(LEAST, 1000), ylim=(0, 100), xlabel="error of no more than, %", ylabel="rows, %")
        axes.legend(fontsize=7, loc="upper left")
        text = io.StringIO()
        figure.savefig(text, format="svg", metadata={"Date": None, "Title": "The clock's errors beside an H200"})
        pyplot.close(figure)
    return text.getvalue()
