"""Two submissions in turns: who is faster, who failed, and what is printed and recorded of it."""

from __future__ import annotations

import itertools
import json
import math
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
from eval.spans import Spans
from eval.stats import Ratio, paired_interval
from eval.supervisor import Limits, Result, Tolerance
from eval.workers.worker import Failure

CASE = parse_case("m: 8; n: 16; k: 64; l: 1; seed: 1111")
CPU = torch.device("cpu")
LIMITS = Limits(inputs=2, wall_s=0.0)


class Scripted:
    """A session that is as fast as its file's name says, or fails where it says."""

    made = ()

    running = None

    def __init__(self, submission, case, device, inputs, answer_s, data="board", span_calls=0):
        assert Scripted.running is None, "one at a time"
        self.name, self.inputs = str(submission), inputs
        Scripted.running = self
        self.printed, self.sandbox, self.backend, self.libraries = "", "all of it", "", []
        self.worst_error, self.wrong, self.checked, self.left = 0.5, None, 0, ""
        self.noise, self.pid = random.Random(len(Scripted.made)), 0
        Scripted.made.append(self)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        Scripted.asked.append((self.name, "close"))
        Scripted.running = None

    def null_overheads_us(self, count):
        return [1.0, 2.0, 3.0]

    def load(self):
        if self.name == "broken":
            raise Failure("import failed")

    def each_us(self):
        return {"slow": 110.0, "hides": 300.0}.get(self.name, 100.0) * self.noise.uniform(0.99, 1.01)

    def span(self, seeds, calls, check):
        return calls * self.each_us()

    def round(self, seeds, check, what, after=bool):
        Scripted.asked.append((self.name, what))
        if self.name == "wrong" and what == "time_round":
            raise Failure("wrong result")
        each = 100.0 if self.name == "hides" else self.each_us()
        span = 50 * each if self.name == "liar" else each
        return Round(each * len(seeds), span * len(seeds)), None


@pytest.fixture
def scripted(monkeypatch):
    Scripted.made, Scripted.asked, Scripted.running = [], [], None
    monkeypatch.setattr(comparison, "Session", Scripted)
    monkeypatch.setattr(comparison, "_write_out", lambda: None)
    monkeypatch.setattr(comparison, "measure_tolerance", lambda *_: Tolerance(4.0, 4.0, 2, Spans(2)))
    monkeypatch.setattr("eval.hardware.capacity.available_bytes", lambda device: 10**15)
    monkeypatch.setattr("eval.hardware.chip.attributes", lambda device: chip.Attributes("chip", 1e12, 0.0))
    monkeypatch.setattr("eval.hardware.chip.impossible_us", lambda shape, what: 10.0)


def compared(own, baseline):
    return run_comparison(Path(own), Path(baseline), CASE, CPU, LIMITS)


def test_pairs_of_processes_run_one_at_a_time_in_random_order(scripted):
    one = compared("fast", "slow")
    assert len(one.own.rounds_us) == len(one.baseline.rounds_us) == comparison.MIN_PAIRS
    assert one.ratio.high < 1 and one.ratio.ratio == pytest.approx(1 / 1.1, rel=0.02)
    assert comparison.words(one.ratio, True) == "faster"
    process = ["check", *["time_round"] * comparison.ROUNDS, "close"]
    names = [session.name for session in Scripted.made]
    assert Scripted.asked == [(name, what) for name in names for what in process]
    pairs = [tuple(names[i : i + 2]) for i in range(0, len(names), 2)]
    assert set(pairs) <= {("fast", "slow"), ("slow", "fast")} and len(pairs) == comparison.MIN_PAIRS
    assert {session.inputs for session in Scripted.made} == {48}, "for a span"
    for _ in range(9):
        Scripted.made.clear()
        compared("fast", "slow")
        if len({session.name for session in Scripted.made[::2]}) == 2:
            break
    else:
        pytest.fail("the order never changed")
    assert compared("slow", "fast").ratio.low > 1


@pytest.mark.parametrize("spans", [Spans(2, 100, 40.0), Spans(2)], ids=["GPU", "CPU"])
def test_each_process_is_timed_in_spans_by_the_harness(scripted, monkeypatch, spans):
    given = Tolerance(400.0, 4.0, 2, spans)
    monkeypatch.setattr(comparison, "measure_tolerance", lambda *_: given)
    one = compared("hides", "same")
    assert one.own.rounds_us == pytest.approx([300.0] * comparison.MIN_PAIRS, rel=0.01)
    assert max(one.baseline.rounds_us) < 105


def test_each_finished_pair_is_told(scripted):
    said = []
    run_comparison(Path("same"), Path("same"), CASE, CPU, LIMITS, told=said.append)
    assert [int(text.split()[0]) for text in said] == list(range(1, comparison.MIN_PAIRS + 1))


def test_a_submission_against_itself_shows_no_difference(scripted):
    ratio = compared("same", "same").ratio
    assert ratio.low <= 1 <= ratio.high and comparison.words(ratio, True) == "no difference"


def test_a_wide_interval_decides_nothing_on_a_busy_machine():
    assert comparison.words(Ratio(1.0, 0.9, 1.2), True) == "too busy to decide"
    assert comparison.words(Ratio(1.0, 0.9, 1.2), False) == "no difference"
    assert comparison.words(Ratio(1.3, 1.1, 1.6), True) == "slower"


@pytest.mark.parametrize(("waited", "busy"), [(0, False), (10, False), (12, True)])
def test_a_machine_is_busy_where_threads_wait_for_a_processor(scripted, monkeypatch, waited, busy):
    looks = itertools.count()
    monkeypatch.setattr(comparison, "ran_and_waited", lambda pid: ((look := next(looks)) * 100, look * waited))
    assert compared("same", "same").busy == busy


def test_identical_times_with_noise_between_processes_differ_rarely():
    noise = random.Random(7)

    def processes():
        return [100.0 * noise.lognormvariate(0.0, 0.1) for _ in range(comparison.MIN_PAIRS)]

    found = [comparison.words(paired_interval([(processes(), processes())]), False) for _ in range(400)]
    assert found.count("no difference") >= 392


def test_the_interval_by_hand():
    """Logs of the ratios are 0.1 and 0.3: mean 0.2, deviation 0.1414, standard error 0.1; t is 63.657."""
    a, b = [math.exp(0.1), math.exp(0.3)], [1.0, 1.0]
    ratio = paired_interval([(a, b)])
    assert ratio == pytest.approx((math.exp(0.2), math.exp(0.2 - 6.3657), math.exp(0.2 + 6.3657)))
    assert paired_interval([(a, b), (b, a)]).ratio == pytest.approx(1.0)


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


def test_two_submissions_for_real(monkeypatch):
    monkeypatch.setattr(comparison, "MIN_PAIRS", 2)
    monkeypatch.setattr(comparison, "MOST_PAIRS", 2)
    monkeypatch.setattr(comparison, "SPANS", 1)
    monkeypatch.setattr(comparison, "INPUTS", 3)
    honest = Path(__file__).resolve().parents[1] / "adversarial" / "honest" / "honest.py"
    one = run_comparison(honest, honest, CASE, CPU, Limits(answer_s=300.0, inputs=2, wall_s=0.0))
    assert one.own.passed and one.baseline.passed, (one.own.error, one.baseline.error)
    assert (
        one.ratio.low <= one.ratio.ratio <= one.ratio.high
        and one.own.checked >= 2 * comparison.MIN_PAIRS * comparison.ROUNDS
    )


def results(own_us, baseline_us, **own):
    return Comparison(
        Result(CASE, rounds_us=[own_us] * 3, **own),
        Result(CASE, rounds_us=[baseline_us] * 3),
        Ratio(own_us / baseline_us, 0.4, 0.6),
    )


def test_the_table_says_both_times_the_ratio_and_the_verdict(capsys):
    report.print_comparisons([results(10.0, 20.0), results(5.0, 10.0)], "chip")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "chip: median times of a call, in pairs of processes"
    assert lines[3].endswith("  faster") and "0.4000 to 0.6000" in lines[3]
    assert lines[3].split()[:8] == ["8", "16", "64", "10", "us", "20", "us", "0.5000"]
    assert lines[5].split()[:3] == ["geometric", "mean", "0.5000"] and len(lines) == 6


@pytest.mark.parametrize(("busy", "word"), [(False, "no difference"), (True, "too busy to decide")])
def test_a_wide_interval_is_said_to_hide_small_differences(capsys, busy, word):
    alike = Comparison(Result(CASE, rounds_us=[10.0]), Result(CASE, rounds_us=[10.0]), Ratio(1.0, 0.9, 1.125), busy)
    report.print_comparisons([alike], "chip")
    row, told = capsys.readouterr().out.splitlines()[3:]
    assert row.endswith(f"  {word}") and "a difference of less than 12 % may not show" in told


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
