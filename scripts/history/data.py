"""Data of the rounds' plots, and the digest that ties a committed plot to its data."""

from __future__ import annotations

import hashlib
import json
import math
import re
from dataclasses import asdict, dataclass, field
from pathlib import Path
from typing import Any

from eval.hardware import chip
from reference.problems.dual_gemm import DualGemm
from scripts.common.dense_json import dumps
from scripts.rounds.ledger import read as read_ledger
from scripts.rounds.model import Tank, benchmark_shapes
from scripts.rounds.pages import round_page, tables
from scripts.rounds.pages.words import BASELINES

PNG_KEYWORD = "Rounds-Digest"
COMMITS_FILE = "commits.json"


@dataclass
class ShapeSeries:
    """The plot of one shape; times in us."""

    shape: str
    floor: float
    floor_label: str
    # In the order of commits: number, verdict, us, and whether the round is a step of the ledger (without a ledger:
    # whether it was adopted and is the fastest so far).
    rounds: list[tuple[int, str, float, bool]] = field(default_factory=list)
    baselines: dict[str, float] = field(default_factory=dict)  # label -> us
    first: float | None = None  # us of the kernel that the ledger starts from


def commit_times(tank: Tank) -> dict[str, int]:
    """Time of each commit that a round names, seconds since 1970: from git, or from commits.json without git."""
    path = tank.dir / COMMITS_FILE
    noted = json.loads(path.read_text()) if path.is_file() else {}
    names = {data[side]["commit"] for data in tank.all() for side in ("base", "candidate")} - {None}
    if tank.has_history() and names:
        lines = (tank.git("show", "-s", "--format=%H %ct", *sorted(names)) or "").splitlines()
        noted = {commit: int(seconds) for commit, seconds in map(str.split, lines)} or noted
    return dict(sorted(noted.items(), key=lambda item: (item[1], item[0])))


def commits_text(tank: Tank) -> str:
    """The correct content of commits.json, from which a tarball draws the same plots."""
    return dumps(commit_times(tank)) + "\n"


def by_commit(tank: Tank, rounds: list[dict[str, Any]]) -> list[dict[str, Any]]:
    """Rounds in the order of the commits they measured; a reconstructed round follows its base."""
    times = commit_times(tank)

    def when(data: dict[str, Any]) -> tuple[float, bool, float, int]:
        unknown = -math.inf if "inherited" in data else math.inf  # rounds of others came first
        base, candidate = (times.get(data[side]["commit"] or "", unknown) for side in ("base", "candidate"))
        late = "reconstructed" in data
        return (base if late else candidate, late, base, data["number"])

    return sorted(rounds, key=when)


def shape_series(tank: Tank, rounds: list[dict[str, Any]], backend: str = "hopper") -> list[ShapeSeries]:
    """Series per benchmark shape of one backend, from the measured rounds and the latest baselines."""
    baselines, chip_name = tables.latest_baselines(tank, rounds, backend), chip_of(rounds, backend)
    series = []
    measured = [data for data in by_commit(tank, rounds) if data["backend"] == backend and data["measurement"]]
    ledger = read_ledger(tank)
    steps = [step["round"] for step in ledger["steps"]] if ledger and ledger["backend"] == backend else None
    first = next((data for data in measured if steps and data["number"] == ledger["first"]["round"]), None)
    for shape in benchmark_shapes(tank.root):
        problem = DualGemm(*map(int, shape.split("x")), 1)
        one = ShapeSeries(shape, chip.speed_of_light(problem, chip_name).us, f"floor: {chip.peak(chip_name).source}")
        best = math.inf
        for data in measured:
            found, verdict = data["measurement"], round_page.verdict_state(data) or "measured"
            leads = verdict == "adopted" and found["geomean"]["candidate_us"] < best
            leads = leads if steps is None else data["number"] in steps
            best = found["geomean"]["candidate_us"] if leads else best
            if shape in found["shapes"]:
                one.rounds.append((data["number"], verdict, found["shapes"][shape]["candidate_us"], leads))
        one.first = first["measurement"]["shapes"][shape]["base_us"] if first else None
        one.baselines = {BASELINES[name]: times[shape] for name, times in baselines.items() if shape in times}
        series.append(one)
    return series


def series_digest(series: list[ShapeSeries]) -> str:
    """Identifies the data of a plot."""
    return hashlib.sha256(json.dumps([asdict(one) for one in series], sort_keys=True).encode()).hexdigest()


def png_digest(path: Path) -> str | None:
    """The digest that `png` put into a file, or None."""
    match = re.search(rf"tEXt{PNG_KEYWORD}\0([0-9a-f]{{64}})".encode(), path.read_bytes())
    return match.group(1).decode() if match else None


def chip_of(rounds: list[dict[str, Any]], backend: str = "hopper") -> str:
    """The chip of the latest measured round of a backend; "H200" before any."""
    chips = [r["measurement"]["chip"] for r in rounds if r["backend"] == backend and r["measurement"]]
    return chips[-1] if chips else "H200"
