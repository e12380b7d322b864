"""What the plots of the rounds show, and the digest that ties a committed plot to its data."""

from __future__ import annotations

import hashlib
import json
import math
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from scripts.rounds import render
from scripts.rounds.model import Tank

PNG_KEYWORD = "Rounds-Digest"


@dataclass
class ShapeSeries:
    """What the plot of one shape shows, us."""

    shape: str
    floor: float
    floor_label: str
    # number, verdict, us, whether it was adopted with the lowest geometric mean so far
    rounds: list[tuple[int, str, float, bool]] = field(default_factory=list)
    baselines: dict[str, float] = field(default_factory=dict)  # label -> us


def shape_series(tank: Tank, rounds: list[dict[str, Any]], backend: str = "hopper") -> list[ShapeSeries]:
    """Series per benchmark shape of one backend, from the measured rounds and the latest baselines."""
    target = render.targets(tank)[backend]
    baselines = render.latest_baselines(tank, rounds, backend)
    series = []
    measured = [data for data in rounds if data["backend"] == backend and data["measurement"]]
    for shape, floor in target["floor"]["us"].items():
        one = ShapeSeries(shape, floor, target["floor"]["label"])
        best = math.inf
        for data in measured:
            found, verdict = data["measurement"], render.verdict_state(data) or "measured"
            leads = verdict == "adopted" and found["geomean"]["candidate_us"] < best
            best = found["geomean"]["candidate_us"] if leads else best
            if shape in found["shapes"]:
                one.rounds.append((data["number"], verdict, found["shapes"][shape]["candidate_us"], leads))
        one.baselines = {target["baselines"][name]: times[shape] for name, times in baselines.items() if shape in times}
        series.append(one)
    return series


def series_digest(series: list[ShapeSeries]) -> str:
    """Identifies what a plot was drawn from."""
    return hashlib.sha256(json.dumps([asdict(one) for one in series], sort_keys=True).encode()).hexdigest()


def png_digest(path: Path) -> str | None:
    """The digest that `png` put into a file, or None."""
    match = re.search(rf"tEXt{PNG_KEYWORD}\0([0-9a-f]{{64}})".encode(), path.read_bytes())
    return match.group(1).decode() if match else None


def chip_of(rounds: list[dict[str, Any]], backend: str = "hopper") -> str:
    """The chip of the latest measured round of a backend; "H200" before any."""
    chips = [r["measurement"]["chip"] for r in rounds if r["backend"] == backend and r["measurement"]]
    return chips[-1] if chips else "H200"
