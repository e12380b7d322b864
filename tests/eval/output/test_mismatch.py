"""Where an output is wrong, and by how much of the tolerance."""

from __future__ import annotations

import json
import math

import pytest
import torch

from eval.output.mismatch import Span, mismatch


def plain(m=4, n=6, batches=1):
    return torch.arange(m * n * batches, dtype=torch.float32).view(m, n, batches)


def test_an_output_within_the_tolerance_says_how_near_it_came():
    want = plain()
    got = want.clone()
    got[2, 3, 0] += 0.5 * (1e-3 + 1e-3 * 15)
    found = mismatch(got, want)
    assert found.worst == pytest.approx(0.5, rel=1e-3) and found.at == (2, 3, 0)
    assert (found.wrong, found.rows, found.columns, found.text(), found.record()) == (0, None, None, "", None)


def test_special_values_in_their_places_are_right():
    want = plain()
    want[0, 0, 0], want[1, 1, 0], want[2, 2, 0] = math.nan, math.inf, -math.inf
    assert mismatch(want.clone(), want).worst == 0


def test_the_worst_element_and_the_rows_and_columns_of_all_are_told():
    want = plain(8, 8, 2)
    got = want.clone()
    for row, column, batch in ((2, 1, 0), (3, 5, 1), (4, 1, 0)):
        got[row, column, batch] += 1
    got[3, 5, 1] += 9
    found = mismatch(got, want)
    assert (found.wrong, found.at) == (3, (3, 5, 1))
    assert (found.rows, found.columns) == (Span(2, 4, 3, 8), Span(1, 5, 2, 8))
    expected = 10 / (1e-3 + 1e-3 * float(want[3, 5, 1]))
    assert found.worst == pytest.approx(expected)
    assert found.text() == (
        f"in rows 2 to 4, 2 of 8 columns between 1 and 5; the worst is {expected:.3g} times the tolerance off, "
        "at (3, 5, 1)"
    )
    assert json.loads(json.dumps(found.record())) == {
        "elements": 3,
        "rows": {"first": 2, "last": 4, "count": 3, "of": 8},
        "columns": {"first": 1, "last": 5, "count": 2, "of": 8},
        "worst_at": [3, 5, 1],
        "nan": 0,
        "infinite": 0,
    }


def test_nans_and_infinities_out_of_place_are_counted():
    want = plain()
    want[0, 0, 0] = math.nan
    want[0, 1, 0] = math.inf
    got = want.clone()
    got[1, :, 0] = math.nan  # six
    got[0, 0, 0] = 5.0  # a number for a NaN
    got[0, 1, 0] = -math.inf
    got[2, 0, 0] = math.inf
    found = mismatch(got, want)
    assert (found.worst, found.wrong, found.nans, found.infinities) == (math.inf, 9, 6, 2)
    assert found.text() == "in rows 0 to 2, all 6 columns; the worst, at (0, 0, 0); 6 are NaN; 2 are infinite"


@pytest.mark.parametrize(
    ("span", "text"),
    [
        (Span(0, 7, 8, 8), "all 8 rows"),
        (Span(5, 5, 1, 8), "row 5"),
        (Span(2, 4, 3, 8), "rows 2 to 4"),
        (Span(0, 6, 4, 8), "4 of 8 rows between 0 and 6"),
    ],
)
def test_a_span_is_told_as_people_say_it(span, text):
    assert span.text("row") == text
