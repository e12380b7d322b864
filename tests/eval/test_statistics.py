"""The statistics of timings, by hand."""

from __future__ import annotations

import pytest

from eval.stats import Ratio, Summary, relative_spread, summarise, verdict


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


@pytest.mark.parametrize(
    ("low", "high", "said"),
    [
        (0.8, 0.99, "faster"),
        (0.8, 1.0, "no difference"),
        (1.0, 1.2, "no difference"),
        (1.01, 1.2, "slower"),
        (0.9, 1.1, "no difference"),
    ],
)
def test_a_verdict_needs_an_interval_without_1(low, high, said):
    assert verdict(Ratio((low + high) / 2, low, high)) == said
