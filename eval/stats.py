"""Statistics of times: medians, spread, whether two sets differ by more than noise, and how many pairs that takes."""

from __future__ import annotations

import math
from collections.abc import Sequence
from statistics import fmean, median, quantiles
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


PAIRED_CONFIDENCE = 0.99
LEAST_PAIRS = 8  # fewer have no interval at this confidence
MOST_PAIRS, SECONDS = 40, 60.0  # of a case, if the user sets no bounds


def _left_out(count: int) -> int:
    """How many of the smallest, and of the largest, averages of two differences lie outside the interval.

    It is the number of rank sums that are too small to occur by chance, if a coin decides the sign of each difference.
    """
    ways = [1]  # subsets of the ranks 1 to count, by their sum
    for rank in range(1, count + 1):
        longer = ways + [0] * rank
        ways = [both + (longer[at - rank] if at >= rank else 0) for at, both in enumerate(longer)]
    chance, most = 0, (1 - PAIRED_CONFIDENCE) / 2 * 2**count
    for left_out, each in enumerate(ways):
        chance += each
        if chance > most:
            return left_out
    raise AssertionError("the sums of all ranks are certain")


def paired_interval(shapes: Sequence[tuple[Sequence[float], Sequence[float]]]) -> Ratio | None:
    """The ratio of paired times, geometrically averaged over shapes, with its interval; None for too few pairs.

    Wilcoxon's signed ranks: the pairs need neither be independent of each other nor spread alike. A coin decides who is
    first in each pair, so that without a difference it decides the sign of the logarithm too, however the machine's
    load drifts. The ratio is the median of the averages of two logarithms (Hodges and Lehmann), the interval those
    ratios for which no rank sum is too small.
    """
    count = min(len(times) for pair in shapes for times in pair)
    left_out = _left_out(count) if count >= LEAST_PAIRS else 0
    if not left_out:
        return None
    logs = [fmean(math.log(a[i] / b[i]) for a, b in shapes) for i in range(count)]
    averages = sorted((logs[i] + logs[j]) / 2 for i in range(count) for j in range(i + 1))
    return Ratio(*(math.exp(x) for x in (median(averages), averages[left_out - 1], averages[-left_out])))


TOO_BUSY = "too busy to decide"


def verdict(ratio: Ratio, undecided: bool = False) -> str:
    """'faster', 'slower', or 'no difference' when the interval holds 1; with `undecided` it then decides nothing."""
    if ratio.high < 1:
        return "faster"
    if ratio.low > 1:
        return "slower"
    return TOO_BUSY if undecided else "no difference"


class Bounds(NamedTuple):
    """How many pairs a case gets: up to `pairs`, as long as `seconds` last, and at least `least`."""

    pairs: int = MOST_PAIRS
    seconds: float = SECONDS
    least: int = LEAST_PAIRS

    def estimate(self, done: int, took_s: float) -> str:
        """How far a case is, and how long the rest takes if it goes on like this."""
        most = max(self.least, min(self.pairs, int(self.seconds / took_s * done)))
        left_s = (most - done) * took_s / done
        return f"{done} of about {most} pairs done, about {left_s:.0f} s left" if done < most else f"{done} pairs done"

    def go_on(self, done: int, took_s: float) -> bool:
        """Whether there is to be another pair. The ratio has no say: it would leave 1 by chance too often."""
        in_time = not done or took_s + took_s / done <= self.seconds
        return done < self.pairs and (in_time or done < self.least)


DEFAULT_BOUNDS = Bounds()
