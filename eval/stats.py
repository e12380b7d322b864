"""Statistics of timings: medians, spread, and whether two sets differ by more than noise."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from statistics import geometric_mean, mean, median, stdev
from typing import NamedTuple

BOOTSTRAP_ROUNDS = 2000
CONFIDENCE = 0.95


class Summary(NamedTuple):
    """The leaderboard's figures of one benchmark, in the samples' unit."""

    runs: int
    mean: float
    std: float
    err: float  # standard error of the mean
    best: float
    worst: float


def summarise(samples: Sequence[float]) -> Summary:
    """The figures of at least one sample; one alone has no spread."""
    std = stdev(samples) if len(samples) > 1 else 0.0
    return Summary(len(samples), mean(samples), std, std / math.sqrt(len(samples)), min(samples), max(samples))


def relative_spread(samples: Sequence[float]) -> float:
    """Half the interquartile range over the median: a spread that outliers do not move."""
    if len(samples) < 2:
        return 0.0
    ordered = sorted(samples)

    def quantile(fraction: float) -> float:
        position = fraction * (len(ordered) - 1)
        low = math.floor(position)
        high = min(low + 1, len(ordered) - 1)
        return ordered[low] + (ordered[high] - ordered[low]) * (position - low)

    return (quantile(0.75) - quantile(0.25)) / 2 / median(ordered)


class Ratio(NamedTuple):
    """median(a) / median(b) with its bootstrap interval at CONFIDENCE."""

    ratio: float
    low: float
    high: float


def ratio_interval(a: Sequence[float], b: Sequence[float], seed: int = 0) -> Ratio:
    """The ratio of two medians. Interleaved samples of equal number are resampled in pairs, so that drift both
    suffered cancels; others are resampled apart."""
    generator = random.Random(seed)
    paired = len(a) == len(b)
    ratios = []
    for _ in range(BOOTSTRAP_ROUNDS):
        of_a = generator.choices(range(len(a)), k=len(a))
        of_b = of_a if paired else generator.choices(range(len(b)), k=len(b))
        ratios.append(median(a[i] for i in of_a) / median(b[i] for i in of_b))
    ratios.sort()
    tail = (1 - CONFIDENCE) / 2
    low, high = ratios[int(tail * BOOTSTRAP_ROUNDS)], ratios[int((1 - tail) * BOOTSTRAP_ROUNDS) - 1]
    return Ratio(median(a) / median(b), low, high)


def geomean_ratio_interval(pairs: Sequence[tuple[Sequence[float], Sequence[float]]], seed: int = 0) -> Ratio:
    """The geometric mean of ratio_interval's ratios over shapes, each shape resampled on its own."""
    generator = random.Random(seed)
    means = []
    for _ in range(BOOTSTRAP_ROUNDS):
        ratios = []
        for a, b in pairs:
            of_a = generator.choices(range(len(a)), k=len(a))
            of_b = of_a if len(a) == len(b) else generator.choices(range(len(b)), k=len(b))
            ratios.append(median(a[i] for i in of_a) / median(b[i] for i in of_b))
        means.append(geometric_mean(ratios))
    means.sort()
    tail = (1 - CONFIDENCE) / 2
    low, high = means[int(tail * BOOTSTRAP_ROUNDS)], means[int((1 - tail) * BOOTSTRAP_ROUNDS) - 1]
    return Ratio(geometric_mean(median(a) / median(b) for a, b in pairs), low, high)


def verdict(ratio: Ratio, noise: float = 0.0) -> str:
    """What a ratio of times says: 'faster', 'slower', or 'no difference' when its interval, widened by the noise
    floor of an A/A run (a relative difference), holds 1."""
    if ratio.high < 1 - noise:
        return "faster"
    if ratio.low > 1 + noise:
        return "slower"
    return "no difference"
