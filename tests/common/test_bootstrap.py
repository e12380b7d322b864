"""Bootstrap intervals of ratios, by hand and by simulation."""

from __future__ import annotations

import random

import numpy as np
import pytest

from eval.stats import verdict
from scripts.common import bootstrap
from scripts.common.bootstrap import geomean_ratio_interval, ratio_interval


def in_turn(seed, sizes):
    """Resampling that draws number i alone in round i, the last one again at the end, and keeps what it was asked."""
    in_turn.asked = (seed, sizes)
    return [np.minimum(np.arange(2000), size - 1)[:, None] for size in sizes]


def test_draws_are_those_of_the_standard_library():
    of_three, of_five = bootstrap.resampled(9, [3, 5])
    generator = random.Random(9)
    for some, more in zip(of_three.tolist(), of_five.tolist(), strict=True):
        assert some == generator.choices(range(3), k=3)
        assert more == generator.choices(range(5), k=5)
    assert len(of_three) == 2000


def test_an_interval_leaves_out_a_fortieth_of_2000_rounds_at_each_end(monkeypatch):
    monkeypatch.setattr(bootstrap, "resampled", in_turn)
    numbers = [float(i) for i in range(1, 2001)]
    ratio = ratio_interval(numbers, [2.0] * 2000, seed=9)
    assert ratio == (1000.5 / 2, 51 / 2, 1950 / 2)
    assert in_turn.asked == (9, [2000]), "pairs are drawn once a round"
    assert ratio_interval(numbers, [1.0] * 2000) and in_turn.asked[0] == 0


def test_samples_of_unequal_number_are_drawn_apart(monkeypatch):
    monkeypatch.setattr(bootstrap, "resampled", in_turn)
    apart = ratio_interval([3.0, 2.0, 1.0], [2.0, 4.0])
    assert in_turn.asked == (0, [3, 2])
    assert (apart.ratio, apart.low, apart.high) == (2 / 3, 1 / 4, 1 / 4)


def test_the_geometric_means_interval_by_hand(monkeypatch):
    monkeypatch.setattr(bootstrap, "resampled", in_turn)
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


def test_equal_things_show_no_difference_and_slightly_faster_ones_are_faster():
    generator = random.Random(2)
    a, b = ([generator.gauss(100, 3) for _ in range(30)] for _ in range(2))
    assert verdict(ratio_interval(a, b)) == "no difference"
    assert verdict(ratio_interval([x * 0.98 for x in a], a)) == "faster"
