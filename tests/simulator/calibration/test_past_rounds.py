"""The rounds that the clock judged, timed again: what counts as a wrong verdict, and the committed page."""

from __future__ import annotations

import json

import pytest

from simulator.calibration.calls import past_rounds


@pytest.mark.parametrize(
    ("then", "now", "said"),
    [
        (0.9, [0.95, 0.98], "right"), (0.9, [1.02], "wrong"), (1.2, [0.9, 0.8], "wrong"),
        (0.9, [0.95, 1.02], "ends differ"), (0.9, [1.005], "no difference now"), (1.0, [0.9], "difference now"),
        (1.0, [0.995, 1.004], "right"), (0.9, [], ""),
    ],
)  # fmt: skip
def test_a_verdict_is_wrong_where_the_other_side_is_faster_at_every_end(then, now, said):
    assert past_rounds.answer(then, now) == said


def test_every_judged_round_is_timed_and_on_the_page():
    times = json.loads(past_rounds.RESULT.read_text())["times"]
    for one in past_rounds.judged():
        assert all(past_rounds.ratios(one, times).values()), one.number
    assert past_rounds.TEXT.read_text() == past_rounds.render(times)
