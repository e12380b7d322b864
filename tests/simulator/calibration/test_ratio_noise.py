"""The share of noise in the rounds' ratios, from the record's samples."""

from __future__ import annotations

from math import hypot, log

import pytest

from simulator.calibration.h200.measured import noise, ratios


def test_a_kernel_beside_itself_counts_where_rows_are_few():
    samples = {
        "256x512x512": {"a": {0: 1.0, 1: 2.0, 2: 9.0}, "a+again": {0: 2.2, 1: 2.2, 2: 2.2}, "b": {0: 1.0}},
        "257x512x512": {"a": {0: 1.0}, "a+again": {0: 3.0}},
        "80,176x512x512": {"a": {0: 1.0}, "a+again": {0: 3.0}},
        "8x512x512": {"a": {0: 1.0}},
    }
    assert noise.of_one_run(samples, "a", "a+again") == {"256x512x512": 1.1}
    assert noise.variants(samples) == {"a", "a+again", "b"}


def test_a_difference_is_the_same_for_a_ratio_and_its_inverse():
    there, back = noise.Repeat(9, "", 0.5, 0.55, "run"), noise.Repeat(9, "", 0.55, 0.5, "run")
    assert there.difference == pytest.approx(100 * log(1.1)) == pytest.approx(-back.difference)


def test_two_runs_of_the_same_two_commits_are_found_by_their_names_and_digests():
    found = {(of.round, of.shape, of.run): of for of in noise.repeats()}
    named = found[9, "256x3072x4096", "h200-ledger"]
    assert (named.ratio, round(named.other, 4)) == (0.665757, 0.6645)
    digest = found[56, "192x3072x4096", "2026-11-22-5774e889"]
    assert (digest.ratio, round(digest.other, 4)) == (0.998955, 0.9713)
    assert not [of for of in found.values() if noise.h200_rounds()[0]["measurement"]["run"] == of.run]
    assert all(abs(of.difference) < 10 for of in found.values()), "another pair of kernels"


def test_the_noise_of_a_round_is_its_interval_beside_what_runs_differ_by():
    between = noise.between_runs()
    assert between == pytest.approx(noise.rms(of.difference for of in noise.repeats()) / 2**0.5)
    shapes = noise.h200_rounds()
    measured = next(of for of in shapes if of["number"] == 12)["measurement"]["shapes"]["256x3072x4096"]
    own = 100 * log(measured["high"] / measured["low"]) / (2 * 1.959964)
    assert noise.of_round(12, ["256x3072x4096"]) == pytest.approx(hypot(own, between), rel=1e-6)
    twice = noise.of_round(12, ["256x3072x4096", "256x3072x4096"])
    assert twice == pytest.approx(hypot(own / 2**0.5, between), rel=1e-6)


def test_what_is_left_without_the_noise():
    assert ratios.without(5.0, 3.0) == 4.0 and ratios.without(3.0, 5.0) == 0
