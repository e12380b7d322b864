"""Statistics of times: medians, spread, and whether two sets differ by more than noise."""

from __future__ import annotations

import math
import random
from collections.abc import Sequence
from statistics import geometric_mean, mean, median, stdev
from typing import Any, NamedTuple

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
    """The figures of one or more samples; the spread of a single sample is 0."""
    std = stdev(samples) if len(samples) > 1 else 0.0
    return Summary(len(samples), mean(samples), std, std / math.sqrt(len(samples)), min(samples), max(samples))


def relative_spread(samples: Sequence[float]) -> float:
    """Half the interquartile range over the median: outliers do not change it."""
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


def resampled(seed: int, sizes: Sequence[int]) -> list[Any]:
    """Indices for the bootstrap: an array [BOOTSTRAP_ROUNDS, size] for each size.

    They equal what random.Random(seed).choices(range(size), k=size) draws, size after size in every round, because
    recorded intervals were computed that way. Both generators are the same Mersenne twister.
    """
    import numpy as np  # not at the top: a usage error must not wait for it

    state = random.Random(seed).getstate()[1]
    generator = np.random.RandomState()
    generator.set_state(("MT19937", state[:-1], state[-1]))
    drawn = generator.random_sample((BOOTSTRAP_ROUNDS, sum(sizes)))
    parts = np.split(drawn, np.cumsum(sizes)[:-1], axis=1)
    return [(part * size).astype(np.int64) for part, size in zip(parts, sizes, strict=True)]


def _resampled_ratios(pairs: Sequence[tuple[Sequence[float], Sequence[float]]], seed: int) -> list[list[float]]:
    """For each pair, median(a) / median(b) in each bootstrap round."""
    import numpy as np

    drawn = iter(resampled(seed, [n for a, b in pairs for n in ((len(a),) if len(a) == len(b) else (len(a), len(b)))]))
    ratios = []
    for a, b in pairs:
        of_a = next(drawn)
        of_b = of_a if len(a) == len(b) else next(drawn)
        ratios.append((np.median(np.asarray(a)[of_a], axis=1) / np.median(np.asarray(b)[of_b], axis=1)).tolist())
    return ratios


def _interval(point: float, rounds: list[float]) -> Ratio:
    """The point with the central CONFIDENCE of the bootstrap values."""
    ordered, tail = sorted(rounds), (1 - CONFIDENCE) / 2
    return Ratio(point, ordered[int(tail * len(ordered))], ordered[int((1 - tail) * len(ordered)) - 1])


def ratio_interval(a: Sequence[float], b: Sequence[float], seed: int = 0) -> Ratio:
    """The ratio of two medians.

    Interleaved samples of equal number are resampled in pairs, so that drift common to both cancels; other samples are
    resampled separately.
    """
    return _interval(median(a) / median(b), _resampled_ratios([(a, b)], seed)[0])


def geomean_ratio_interval(pairs: Sequence[tuple[Sequence[float], Sequence[float]]], seed: int = 0) -> Ratio:
    """The geometric mean of ratio_interval's ratios over shapes; each shape is resampled separately."""
    means = [geometric_mean(ratios) for ratios in zip(*_resampled_ratios(pairs, seed), strict=True)]
    return _interval(geometric_mean(median(a) / median(b) for a, b in pairs), means)


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


def verdict(ratio: Ratio, noise: float = 0.0, widest: float = math.inf) -> str:
    """'faster', 'slower', or 'no difference' when the interval, widened by `noise`, holds 1.

    `noise` is the noise floor of an A/A run, as a relative difference. An interval that holds 1 and is wider than
    `widest` decides nothing: 'too busy to decide'.
    """
    if ratio.high < 1 - noise:
        return "faster"
    if ratio.low > 1 + noise:
        return "slower"
    return "no difference" if ratio.high - ratio.low <= widest else "too busy to decide"
