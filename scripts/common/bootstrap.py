"""Ratios of medians with bootstrap intervals, for times that are measured in turns."""

from __future__ import annotations

import random
from collections.abc import Sequence
from statistics import geometric_mean, median
from typing import Any

from eval.stats import Ratio

BOOTSTRAP_ROUNDS = 2000
CONFIDENCE = 0.95


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
