"""How much of a measured round's ratio is noise: kernels timed beside themselves, and the same two commits in two runs.

All of it is read from the record's samples (shark_tank/runs).  What a run shares, the chip's state and where memory
lies, does not show within it: so a ratio's noise is taken as its own interval and, beside it, what ratios of the same
two commits differ by from run to run.  That counts the samples' spread twice, and is no less than the noise.
"""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from functools import cache
from math import hypot, log
from statistics import NormalDist, mean, median
from typing import Any

from eval.stats import CONFIDENCE
from scripts.evidence.clock.row import ROOT
from scripts.rounds.model import Tank

MOST_ROWS = 256  # of the shapes that are simulated
AGAIN = "+again"
LEDGER = "h200-ledger"  # its variants are named by their commits
WIDE = NormalDist().inv_cdf((1 + CONFIDENCE) / 2)  # standard deviations on either side that an interval covers

Side = tuple[str, str]  # commit and tile


@dataclass(frozen=True)
class Repeat:
    """The same two commits at the same shape in two runs."""

    round: int
    shape: str
    ratio: float
    other: float
    run: str  # the other one

    @property
    def difference(self) -> float:
        """Percent."""
        return percent(self.other / self.ratio)


def percent(ratio: float) -> float:
    """As a logarithm: the same for a ratio and its inverse."""
    return 100 * log(ratio)


def rms(values: Iterable[float]) -> float:
    """Root of the mean square."""
    return mean(value**2 for value in values) ** 0.5


def is_small(shape: str) -> bool:
    """Whether a shape is one problem with no more rows than are simulated."""
    return "," not in shape and int(shape.partition("x")[0]) <= MOST_ROWS


def of_one_run(samples: dict[str, dict[str, dict[int, float]]], base: str, candidate: str) -> dict[str, float]:
    """The ratio of medians by shape, where both were timed and rows are few."""
    return {
        shape: median(by[candidate].values()) / median(by[base].values())
        for shape, by in samples.items()
        if is_small(shape) and base in by and candidate in by
    }


def variants(samples: dict[str, dict[str, Any]]) -> set[str]:
    """All names that a run has."""
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
    """The samples of their runs."""
    return {run: Tank(ROOT).samples(run) for run in sorted({of["measurement"]["run"] for of in h200_rounds()})}


@cache
def beside_itself() -> list[float]:
    """Percent by which a kernel differs from itself in one run."""
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
    """The commit that a library was built from, by the digest of its sources, where a round tells both."""
    found = {}
    for of in h200_rounds():
        digests = Tank(ROOT).env(of["measurement"]["run"])["digests"]
        for side in ("base", "candidate"):
            if of[side]["variant"] in digests:
                found[digests[of[side]["variant"]]] = of[side]["commit"]
    return found


@cache
def known(run: str) -> dict[Side, str]:
    """The names of a run's variants by what they are, of those that a round or a digest tells."""
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
    """Every ratio of a round that another run has too."""
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
    """Percent: the standard deviation of one ratio from run to run."""
    return rms(of.difference for of in repeats()) / 2**0.5


def of_round(number: int, shapes: Iterable[str]) -> float:
    """Percent: the standard deviation of a round's ratio over these shapes, no less than it is."""
    measured = next(of for of in h200_rounds() if of["number"] == number)["measurement"]["shapes"]
    own = [percent(measured[shape]["high"] / measured[shape]["low"]) / (2 * WIDE) for shape in shapes]
    return hypot(sum(one**2 for one in own) ** 0.5 / len(own), between_runs())
