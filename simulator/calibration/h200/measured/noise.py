"""How noisy a measured round's ratio is, from the record's samples (shark_tank/runs).

Two sources: a kernel timed against itself in one run, and the same two commits timed in two runs.  The chip's state and
the placement of memory are the same throughout a run, so they only show between runs.  A ratio's noise is therefore
its own confidence interval combined with the difference between runs.  The spread of samples counts in both, so this
is an upper bound.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from math import hypot, log
from statistics import NormalDist, mean, median
from typing import Any

from scripts.common.bootstrap import CONFIDENCE
from scripts.rounds.model import Tank
from simulator.calibration.rows import ROOT

MOST_ROWS = 256  # shapes with more rows are not simulated
AGAIN = "+again"
LEDGER = "h200-ledger"  # the run whose variants are named by their commits
WIDE = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)  # standard deviations on either side of a confidence interval

Side = tuple[str, str]  # commit and tile


@dataclass(frozen=True)
class Repeat:
    """The ratio of the same two commits at the same shape in two runs."""

    round: int
    shape: str
    ratio: float
    other: float
    run: str  # the run that gave `other`

    @property
    def difference(self) -> float:
        """Percent."""
        return percent(self.other / self.ratio)


def percent(ratio: float) -> float:
    """A ratio as 100 times its logarithm: a ratio and its inverse differ in sign only."""
    return 100 * log(ratio)


def rms(values: Iterable[float]) -> float:
    """Root of the mean square."""
    return mean(value**2 for value in values) ** 0.5


def is_small(shape: str) -> bool:
    """True if a shape is a single problem with at most MOST_ROWS rows."""
    return "," not in shape and int(shape.partition("x")[0]) <= MOST_ROWS


def of_one_run(samples: dict[str, dict[str, dict[int, float]]], base: str, candidate: str) -> dict[str, float]:
    """The ratio of medians by shape, for the small shapes at which both were timed."""
    return {
        shape: median(by[candidate].values()) / median(by[base].values())
        for shape, by in samples.items()
        if is_small(shape) and base in by and candidate in by
    }


def variants(samples: dict[str, dict[str, Any]]) -> set[str]:
    """The names of a run's variants."""
    return {name for by in samples.values() for name in by}


@cache
def h200_rounds() -> list[dict[str, Any]]:
    """The measured rounds of the dual GEMM."""
    every = Tank(ROOT).all()
    return [
        of
        for of in every
        if of["backend"] == "hopper" and of.get("measurement") and "H200" in of["measurement"]["chip"]
    ]


@cache
def runs() -> dict[str, dict[str, dict[str, dict[int, float]]]]:
    """The samples of those rounds' runs."""
    return {run: Tank(ROOT).samples(run) for run in sorted({of["measurement"]["run"] for of in h200_rounds()})}


@cache
def beside_itself() -> list[float]:
    """Percent by which a kernel's time differs from its own second time in the same run."""
    return [
        percent(ratio)
        for samples in runs().values()
        for name in sorted(variants(samples))
        if name.endswith(AGAIN)
        for ratio in of_one_run(samples, name.removesuffix(AGAIN), name).values()
    ]


def sides(of: dict[str, Any]) -> tuple[Side, Side]:
    """Commit and tile of a round's base and candidate."""
    base, candidate = ((of[side]["commit"], of[side]["variant"].rpartition("/")[2]) for side in ("base", "candidate"))
    return base, candidate


@cache
def commits_by_digest() -> dict[str, str]:
    """The commit that a library was built from by the digest of its sources, for rounds that record both."""
    found = {}
    for of in h200_rounds():
        digests = Tank(ROOT).env(of["measurement"]["run"])["digests"]
        for side in ("base", "candidate"):
            if of[side]["variant"] in digests:
                found[digests[of[side]["variant"]]] = of[side]["commit"]
    return found


@cache
def known(run: str) -> dict[Side, str]:
    """The name of each variant of a run whose commit and tile are known, by commit and tile."""
    found: dict[Side, str] = {}
    rounds, digests = h200_rounds(), Tank(ROOT).env(run)["digests"]
    for name in sorted(variants(runs()[run])):
        where, _, tile = name.rpartition("/")
        commit = commits_by_digest().get(digests.get(name, ""))
        if run == LEDGER and where:
            commit = next(
                (of[s]["commit"] for of in rounds for s in ("base", "candidate") if of[s]["commit"].startswith(where)),
                None,
            )
        if commit is not None and not name.endswith(AGAIN):
            found[commit, tile] = name
    for of in rounds:
        if of["measurement"]["run"] == run:
            found |= {
                side: of[of_side]["variant"] for side, of_side in zip(sides(of), ("base", "candidate"), strict=True)
            }
    return found


@cache
def repeats() -> list[Repeat]:
    """Every ratio of a round that another run measured too."""
    found = []
    for of in h200_rounds():
        base, candidate = sides(of)
        for run, samples in runs().items():
            names = known(run)
            if base != candidate and run != of["measurement"]["run"] and base in names and candidate in names:
                for shape, other in of_one_run(samples, names[base], names[candidate]).items():
                    if shape in of["measurement"]["shapes"]:
                        ratio = of["measurement"]["shapes"][shape]["ratio"]
                        found.append(Repeat(of["number"], shape, ratio, other, run))
    return found


def between_runs() -> float:
    """The standard deviation of a ratio between runs, percent."""
    return rms(of.difference for of in repeats()) / 2**0.5


def of_round(number: int, shapes: Iterable[str]) -> float:
    """An upper bound of the standard deviation of a round's ratio over these shapes, percent."""
    measured = next(of for of in h200_rounds() if of["number"] == number)["measurement"]["shapes"]
    own = [percent(measured[shape]["high"] / measured[shape]["low"]) / (2 * WIDE) for shape in shapes]
    return hypot(sum(one**2 for one in own) ** 0.5 / len(own), between_runs())
