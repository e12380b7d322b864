"""Two submissions in turns: who is faster, who failed, and what is printed and recorded of it."""

from __future__ import annotations

import json
import random
from pathlib import Path

import pytest
import torch

from eval import comparison
from eval.cases import parse_case
from eval.comparison import Comparison, run_comparison
from eval.hardware import chip
from eval.output import report
from eval.output.record import Given, comparison_record
from eval.session import Round
from eval.stats import Ratio
from eval.supervisor import Limits, Result
from eval.workers.worker import Failure

CASE = parse_case("m: 8; n: 16; k: 64; l: 1; seed: 1111")
CPU = torch.device("cpu")
LIMITS = Limits(inputs=2, wall_s=0.0)


class Scripted:
    """A session that is as fast as its file's name says, or fails where it says."""

    made = ()

    def __init__(self, submission, case, device, inputs, answer_s, data):
        self.name, self.inputs = str(submission), inputs
        self.printed, self.sandbox, self.backend, self.libraries = "", "all of it", "", []
        self.worst_error, self.wrong, self.checked, self.left = 0.5, None, 0, ""
        self.noise = random.Random(inputs)
        Scripted.made.append(self)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        Scripted.asked.append((self.name, "close"))

    def null_overheads_us(self, count):
        return [1.0, 2.0, 3.0]

    def load(self):
        if self.name == "broken":
            raise Failure("import failed")

    def round(self, seeds, check, what, after=bool):
        Scripted.asked.append((self.name, what))
        if self.name == "wrong" and what == "time_round":
            raise Failure("wrong result")
        each = {"fast": 100.0, "slow": 110.0, "liar": 100.0}.get(self.name, 100.0) * self.noise.uniform(0.99, 1.01)
        span = 50 * each if self.name == "liar" else each
        return Round(each * len(seeds), span * len(seeds)), None


@pytest.fixture
def scripted(monkeypatch):
    Scripted.made, Scripted.asked = [], []
    monkeypatch.setattr(comparison, "Session", Scripted)
    monkeypatch.setattr("eval.hardware.chip.free_memory", lambda device: 10**15)
    monkeypatch.setattr("eval.hardware.chip.attributes", lambda device: chip.Attributes("chip", 1e12, 0.0))
    monkeypatch.setattr("eval.hardware.chip.impossible_us", lambda shape, what: 10.0)


def compared(own, baseline):
    return run_comparison(Path(own), Path(baseline), CASE, CPU, LIMITS)


def test_both_are_checked_then_timed_in_turns_of_changing_order(scripted):
    one = compared("fast", "slow")
    assert len(one.own.rounds_us) == len(one.baseline.rounds_us) == comparison.MIN_PAIRS
    assert one.ratio.high < 1 and one.ratio.ratio == pytest.approx(1 / 1.1, rel=0.02)
    assert Scripted.asked[:2] == [("fast", "check"), ("slow", "check")]
    timed = [name for name, what in Scripted.asked if what == "time_round"]
    assert timed[:8] == ["fast", "slow", "slow", "fast", "fast", "slow", "slow", "fast"]
    assert {name for name, what in Scripted.asked[-2:] if what == "close"} == {"fast", "slow"}
    assert [session.inputs for session in Scripted.made] == [2, 2]
    assert compared("slow", "fast").ratio.low > 1


def test_a_submission_against_itself_shows_no_difference(scripted):
    ratio = compared("same", "same").ratio
    assert ratio.low <= 1 <= ratio.high


@pytest.mark.parametrize(
    ("own", "baseline", "error", "whose"),
    [
        ("broken", "fast", "import failed", "own"),
        ("fast", "broken", "import failed", "baseline"),
        ("wrong", "fast", "wrong result", "own"),
        ("fast", "wrong", "wrong result", "baseline"),
        ("liar", "fast", "the worker's clock shows", "own"),
        ("fast", "liar", "the worker's clock shows", "baseline"),
    ],
)
def test_a_failure_is_that_sides_alone(scripted, own, baseline, error, whose):
    one = compared(own, baseline)
    sides = {"own": one.own.error, "baseline": one.baseline.error}
    assert sides.pop(whose).startswith(error) and list(sides.values()) == [""]
    assert one.ratio is None
    opened, closed = [session.name for session in Scripted.made], [n for n, what in Scripted.asked if what == "close"]
    assert sorted(opened) == sorted(closed)


def test_two_submissions_for_real():
    honest = Path(__file__).resolve().parents[1] / "adversarial" / "honest" / "honest.py"
    one = run_comparison(honest, honest, CASE, CPU, Limits(answer_s=60, inputs=2, wall_s=0.0))
    assert one.own.passed and one.baseline.passed, (one.own.error, one.baseline.error)
    assert one.ratio.low <= one.ratio.ratio <= one.ratio.high and one.own.checked >= 2 * comparison.MIN_PAIRS


def results(own_us, baseline_us, **own):
    return Comparison(
        Result(CASE, rounds_us=[own_us], **own),
        Result(CASE, rounds_us=[baseline_us]),
        Ratio(own_us / baseline_us, 0.4, 0.6),
    )


def test_the_table_says_both_times_the_ratio_and_the_verdict(capsys):
    report.print_comparisons([results(10.0, 20.0), results(5.0, 10.0)], "chip")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "chip: median times of a call, both in turns"
    assert lines[3].endswith("  faster") and "0.4000 to 0.6000" in lines[3]
    assert lines[3].split()[:8] == ["8", "16", "64", "10", "us", "20", "us", "0.5000"]
    assert lines[5].split()[:3] == ["geometric", "mean", "0.5000"]


def test_a_side_that_failed_is_named(capsys):
    broken = Result(CASE, error="it broke", printed="why")
    report.print_comparisons([Comparison(broken, Result(CASE)), Comparison(Result(CASE), broken)], "chip")
    out = capsys.readouterr().out
    assert "FAIL 8 16 64: it broke\n  submission: why\n" in out
    assert "FAIL 8 16 64: the baseline: it broke\n" in out
    assert "geometric" not in out


def test_the_record_of_a_comparison(monkeypatch):
    monkeypatch.setattr(chip, "name", lambda device: "chip")
    given = Given("benchmark", Path("a.py"), CPU, "board", 2)
    found = comparison_record(given, Path("b.py"), [results(10.0, 20.0)])
    assert (found["submission"], found["baseline"], found["complete"]) == ("a.py", "b.py", False)
    (one,) = json.loads(json.dumps(found))["results"]
    assert one["ratio"] == {"ratio": 0.5, "low": 0.4, "high": 0.6} and one["verdict"] == "faster"
    assert (one["submission"]["median_us"], one["baseline"]["median_us"]) == (10.0, 20.0)
