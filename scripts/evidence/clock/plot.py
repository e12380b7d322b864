"""The distribution of the clock's errors, a curve a set of rows: simulator/results/clock.svg."""

from __future__ import annotations

import hashlib
import io
from collections.abc import Mapping

from scripts.evidence.clock.table import FAR, NEAR, ROOT, TITLES, Row

PICTURE = "simulator/results/clock.svg"
LEAST = 0.1  # percent: smaller errors are drawn there


def digest(rows: Mapping[str, Row]) -> str:
    """Of the errors that are drawn."""
    return hashlib.sha256(repr([(key, rows[key].error) for key in sorted(rows)]).encode()).hexdigest()


def draw(rows: Mapping[str, Row]) -> str:
    """SVG: the share of a set's rows whose error is no larger than that, in percent."""
    import matplotlib

    matplotlib.use("svg")
    from matplotlib import pyplot

    with pyplot.rc_context({"svg.hashsalt": "clock", "svg.fonttype": "none"}):
        figure, axes = pyplot.subplots(figsize=(8, 4.5))
        for group, title in TITLES.items():
            errors = sorted(abs(row.error) for row in rows.values() if row.group == group and row.error is not None)
            if errors:
                shares = [100 * (i + 1) / len(errors) for i in range(len(errors))]
                at = [max(error, LEAST) for error in errors]
                axes.step([*at, 1000], [*shares, 100], where="post", label=f"{title} ({len(errors)})")
        for limit in (NEAR, FAR):
            axes.axvline(limit, color="grey", linewidth=0.7, linestyle=":")
        axes.set(xscale="log", xlim=(LEAST, 1000), ylim=(0, 100), xlabel="error of no more than, %", ylabel="rows, %")
        axes.legend(fontsize=7, loc="upper left")
        text = io.StringIO()
        metadata = {"Date": None, "Title": "The clock beside an H200: errors", "Description": digest(rows)}
        figure.savefig(text, format="svg", metadata=metadata)
        pyplot.close(figure)
    return "\n".join(line.rstrip() for line in text.getvalue().splitlines()) + "\n"


def write(rows: Mapping[str, Row]) -> None:
    """Only where what is drawn has changed, so that another release of the library changes nothing."""
    path = ROOT / PICTURE
    if not path.is_file() or digest(rows) not in path.read_text():
        path.write_text(draw(rows))
