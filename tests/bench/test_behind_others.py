"""The cost of one more call, from rounds of two lengths; costs that a round pays once cancel."""

from __future__ import annotations

import json

import pytest

from scripts.bench import behind_others


class Clock:
    """Rounds with a cost for each call and one for the round."""

    last_mhz = 1980

    def __init__(self, once: float) -> None:
        self.once, self.rounds = once, []

    def round_us(self, call, count: int) -> float:
        self.rounds.append((call, count))
        return (self.once + call * count) / count


@pytest.mark.parametrize("once", [0.0, 7.0])
def test_a_rounds_fixed_cost_is_not_counted_in_a_call(once):
    clock = Clock(once)
    short, long = behind_others.rounds_us(clock, {"auto": 20.0}, 24, 3)["auto"]
    assert [count for _, count in clock.rounds] == [8, *[8, 24] * 3]
    found = behind_others.summary(short, long, 24)
    assert found["median_us"] == pytest.approx(20.0)
    assert found["mean_us"] == pytest.approx([20 + once / 8, 20 + once / 24])
    assert found["spread"] == pytest.approx([0, 0])


def test_variants_take_turns():
    clock = Clock(1.0)
    found = behind_others.rounds_us(clock, {"a": 10.0, "b": 20.0}, 12, 5)
    assert {name: [len(rounds) for rounds in both] for name, both in found.items()} == {"a": [5, 5], "b": [5, 5]}
    turns = [call for call, _ in clock.rounds[2:]]
    assert all({*turns[i : i + 4]} == {10.0, 20.0} for i in range(0, len(turns), 4))


def test_a_cpu_is_timed_and_its_record_says_of_what(tmp_path, capsys):
    path = tmp_path / "record.json"
    words = ["--device", "cpu", "--shapes", "16x64x256", "--repeats", "1", "--json", str(path), "--commit", "abc"]
    assert behind_others.main(words) == 0
    found = json.loads(path.read_text())
    assert found["commit"] == "abc" and found["left_out"] == {} and found["digests"]["auto"]
    assert [*found["median_us"]["auto"]] == ["16x64x256"] and "16x64x256" in capsys.readouterr().out


def test_a_variant_that_is_wrong_is_left_out(tmp_path, monkeypatch):
    kind = behind_others.compare.KINDS["dual_gemm"]._replace(check=lambda *of: "auto: wrong")
    monkeypatch.setitem(behind_others.compare.KINDS, "dual_gemm", kind)
    path = tmp_path / "record.json"
    assert behind_others.main(["--device", "cpu", "--shapes", "16x64x256", "--repeats", "1", "--json", str(path)]) == 1
    found = json.loads(path.read_text())
    assert found["left_out"] == {"16x64x256 auto": "before timing: auto: wrong"} and found["median_us"] == {}
