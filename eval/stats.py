"""Statistics of times: medians, spread, and whether two sets differ by more than noise."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, mean, quantiles, stdev
from typing import NamedTuple


class Summary(NamedTuple):
    """The leaderboard's figures of one benchmark, in the samples' unit."""

    runs: int
    mean: float
    std: float
    err: float  # standard error of the mean
    best: float
    worst: float


def summarise(samples: Sequence[float]) -> Summary:
    """The figures of one or more samples; the spread of a single sample is 0."""
    # Not statistics.stdev, whose exact fractions take a second for the rounds of a case: it is called after each.
    count, middle = len(samples), fmean(samples)
    std = math.sqrt(math.fsum((x - middle) ** 2 for x in samples) / max(1, count - 1))
    return Summary(count, middle, std, std / math.sqrt(count), min(samples), max(samples))


def relative_spread(samples: Sequence[float]) -> float:
    """Half the interquartile range over the median: outliers do not change it."""
    if len(samples) < 2:
        return 0.0
    low, middle, high = quantiles(samples, n=4, method="inclusive")
    return (high - low) / 2 / middle


class Ratio(NamedTuple):
    """A ratio of two times with its interval."""

    ratio: float
    low: float
    high: float


# Student's t: 99.5 % of the distribution with 1, 2, ... degrees of freedom lie below.
_T_995 = (
    63.657, 9.925, 5.841, 4.604, 4.032, 3.707, 3.499, 3.355, 3.250, 3.169, 3.106, 3.055, 3.012, 2.977, 2.947, 2.921,
    2.898, 2.878, 2.861,
)  # fmt: skip
PAIRED_CONFIDENCE = 0.99


def paired_interval(shapes: Sequence[tuple[Sequence[float], Sequence[float]]]) -> Ratio:
    """The geometric mean of the ratios of paired times, over shapes, with Student's interval at PAIRED_CONFIDENCE.

    Each pair is one independent measurement, so the interval includes the variation between processes.
    """
    logs = [[math.log(x / y) for x, y in zip(a, b, strict=True)] for a, b in shapes]
    middle = mean(mean(each) for each in logs)
    error = math.sqrt(sum(stdev(each) ** 2 / len(each) for each in logs)) / len(logs)
    reach = _T_995[min(len(_T_995), *(len(each) - 1 for each in logs)) - 1] * error
    return Ratio(math.exp(middle), math.exp(middle - reach), math.exp(middle + reach))


def verdict(ratio: Ratio, undecided: bool = False) -> str:
    """'faster', 'slower', or 'no difference' when the interval holds 1; with `undecided` it then decides nothing."""
    if ratio.high < 1:
        return "faster"
    if ratio.low > 1:
        return "slower"
    return "too busy to decide" if undecided else "no difference"
