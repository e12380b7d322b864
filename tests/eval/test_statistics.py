"""The statistics of timings, by hand and by simulation."""

from __future__ import annotations

import random

import numpy as np
import pytest

from eval import stats
from eval.stats import Ratio, Summary, geomean_ratio_interval, ratio_interval, relative_spread, summarise, verdict


def test_a_summary_by_hand():
    figures = summarise([2.0, 4.0, 4.0, 4.0, 5.0, 5.0, 7.0, 9.0, 5.0])
    assert figures._fields == ("runs", "mean", "std", "err", "best", "worst")
    assert figures == pytest.approx((9, 5.0, 2.0, 2 / 3, 2.0, 9.0))
    assert summarise([3.0, 5.0]) == pytest.approx((2, 4.0, 2**0.5, 1.0, 3.0, 5.0))
    assert summarise([7.0]) == Summary(1, 7.0, 0.0, 0.0, 7.0, 7.0)


@pytest.mark.parametrize(
    ("samples", "spread"),
    [
        ([5.0], 0.0),
        ([10.0, 20.0], 5 / 2 / 15),  # quartiles 12.5 and 17.5
        ([4.0, 1.0, 3.0, 2.0, 5.0], 2 / 2 / 3),
        ([1.0, 2.0, 3.0, 10.0], (4.75 - 1.75) / 2 / 2.5),
        ([100.0, 104.0, 101.0], 1.0 / 101),  # 100.5 and 102.5
    ],
)
def test_the_spread_is_half_the_range_of_quartiles_over_the_median(samples, spread):
    assert relative_spread(samples) == pytest.approx(spread)


def in_turn(seed, sizes):
    """Resampling that draws number i alone in round i, the last one again at the end, and keeps what it was asked."""
    in_turn.asked = (seed, sizes)
    return [np.minimum(np.arange(2000), size - 1)[:, None] for size in sizes]


def test_draws_are_those_of_the_standard_library():
    of_three, of_five = stats.resampled(9, [3, 5])
    generator = random.Random(9)
    for some, more in zip(of_three.tolist(), of_five.tolist(), strict=True):
        assert some == generator.choices(range(3), k=3)
        assert more == generator.choices(range(5), k=5)
    assert len(of_three) == 2000


def test_an_interval_leaves_out_a_fortieth_of_2000_rounds_at_each_end(monkeypatch):
    monkeypatch.setattr(stats, "resampled", in_turn)
    numbers = [float(i) for i in range(1, 2001)]
    ratio = ratio_interval(numbers, [2.0] * 2000, seed=9)
    assert ratio == (1000.5 / 2, 51 / 2, 1950 / 2)
    assert in_turn.asked == (9, [2000]), "pairs are drawn once a round"
    assert ratio_interval(numbers, [1.0] * 2000) and in_turn.asked[0] == 0


def test_samples_of_unequal_number_are_drawn_apart(monkeypatch):
    monkeypatch.setattr(stats, "resampled", in_turn)
    apart = ratio_interval([3.0, 2.0, 1.0], [2.0, 4.0])
    assert in_turn.asked == (0, [3, 2])
    assert (apart.ratio, apart.low, apart.high) == (2 / 3, 1 / 4, 1 / 4)


def test_the_geometric_means_interval_by_hand(monkeypatch):
    monkeypatch.setattr(stats, "resampled", in_turn)
    ones = [1.0] * 2000
    numbers = [float(i) ** 2 for i in range(1, 2001)]
    ratio = geomean_ratio_interval([(numbers, ones), (ones, ones)], seed=4)
    assert in_turn.asked == (4, [2000, 2000])
    assert (ratio.low, ratio.high) == pytest.approx((51.0, 1950.0))
    assert ratio.ratio == pytest.approx(((1000**2 + 1001**2) / 2) ** 0.5)
    geomean_ratio_interval([([1.0, 2.0, 3.0], [1.0, 2.0]), ([1.0] * 4, [2.0] * 4)])
    assert in_turn.asked == (0, [3, 2, 4])


def test_shared_drift_cancels_in_pairs_and_not_apart():
    drift = [1 + i / 40 for i in range(40)]
    paired = ratio_interval(drift, [2 * x for x in drift])
    assert paired == (0.5, 0.5, 0.5)
    apart = ratio_interval(drift, [2 * x for x in drift[:-1]])
    assert apart.high - apart.low > 0.1
    assert geomean_ratio_interval([(drift, [2 * x for x in drift])]) == pytest.approx((0.5, 0.5, 0.5))


def test_an_interval_holds_the_truth_about_as_often_as_it_says():
    source = random.Random(3)
    held = 0
    for trial in range(40):
        a, b = ([source.gauss(100, 2) for _ in range(25)] for _ in range(2))
        ratio = ratio_interval(a, b, seed=trial)
        held += ratio.low <= 1 <= ratio.high
    assert held >= 33


@pytest.mark.parametrize(
    ("low", "high", "noise", "said"),
    [
        (0.8, 0.99, 0.0, "faster"),
        (0.8, 1.0, 0.0, "no difference"),
        (1.0, 1.2, 0.0, "no difference"),
        (1.01, 1.2, 0.0, "slower"),
        (0.9, 1.1, 0.0, "no difference"),
        (0.5, 0.74, 0.25, "faster"),
        (0.5, 0.75, 0.25, "no difference"),
        (1.25, 1.5, 0.25, "no difference"),
        (1.26, 1.5, 0.25, "slower"),
    ],
)
def test_a_verdict_needs_an_interval_beyond_the_noise(low, high, noise, said):
    assert verdict(Ratio((low + high) / 2, low, high), noise) == said
