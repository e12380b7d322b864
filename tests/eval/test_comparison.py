"""Two submissions in turns: who is faster, who failed, and what is printed and recorded of it."""

from __future__ import annotations

import itertools
import json
import math
import os
import random
import re
from pathlib import Path

import pytest
import torch

from eval import comparison, stats
from eval.cases import parse_case
from eval.comparison import Comparison, run_comparison
from eval.hardware import chip, load
from eval.output import report
from eval.output.record import Given, comparison_record
from eval.sandbox import State
from eval.session import Round
from eval.stats import Bounds, Ratio, paired_interval
from eval.supervisor import Limits, Result
from eval.workers.worker import Failure

CASE = parse_case("m: 8; n: 16; k: 64; l: 1; seed: 1111")
CPU = torch.device("cpu")
LIMITS = Limits(inputs=2)


class Scripted:
    """A session that is as fast as its file's name says, or fails where it says."""

    made = ()

    running = None

    def __init__(self, submission, case, device, inputs, answer_s, data="board", span_calls=0):
        assert Scripted.running is None, "one at a time"
        self.name, self.inputs = str(submission), inputs
        Scripted.running = self
        self.printed, self.sandbox, self.backend, self.libraries = "", State(), "", []
        self.worst_error, self.wrong, self.checked, self.left = 0.5, None, 0, ""
        self.noise, self.waits = random.Random(len(Scripted.made)), load.Load()
        Scripted.made.append(self)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        Scripted.asked.append((self.name, "close"))
        Scripted.running = None

    def load(self):
        if self.name == "broken":
            raise Failure("import failed")

    def each_us(self):
        usual = {"slow": 110.0, "very slow": 1e6, "impossible": 9.0}.get(self.name, 100.0)
        return usual * self.noise.uniform(0.99, 1.01)

    def span(self, seeds, calls, check, checked):
        Scripted.asked.append((self.name, "span"))
        assert len(seeds) == min(calls, self.inputs) and checked
        if self.name == "wrong" and len(Scripted.made) > 4:
            raise Failure("wrong result")
        Scripted.calls.append(calls)
        self.waits.begin(0)
        self.waits.end()
        return calls * self.each_us()

    def round(self, seeds, check, what):
        Scripted.asked.append((self.name, what))
        self.waits.begin(0)
        self.waits.end()
        return Round(1.0, 1.0), None


@pytest.fixture
def scripted(monkeypatch):
    Scripted.made, Scripted.asked, Scripted.running, Scripted.calls = [], [], None, []
    monkeypatch.setattr(comparison, "Session", Scripted)
    monkeypatch.setattr(comparison, "_write_out", lambda: None)
    monkeypatch.setattr("eval.hardware.capacity.available_bytes", lambda device: 10**15)
    monkeypatch.setattr("eval.hardware.chip.attributes", lambda device: chip.Attributes("chip", 1e12, 0.0))
    monkeypatch.setattr("eval.hardware.chip.impossible_us", lambda shape, what: 10.0)


EIGHT = Bounds(pairs=8)


def compared(own, baseline, bounds=EIGHT):
    return run_comparison(Path(own), Path(baseline), CASE, CPU, LIMITS, bounds=bounds)


def test_pairs_of_processes_run_one_at_a_time_in_random_order(scripted):
    one = compared("fast", "slow")
    assert len(one.own.rounds_us) == len(one.baseline.rounds_us) == 8
    assert one.ratio.high < 1 and one.ratio.ratio == pytest.approx(1 / 1.1, rel=0.02)
    assert comparison.words(one.ratio, True) == "faster"
    names = [session.name for session in Scripted.made]
    first, later = (["check", *["span"] * count, "close"] for count in (comparison.SPANS + 1, comparison.SPANS))
    asked = [(name, what) for i, name in enumerate(names) for what in (first if i < 2 else later)]
    assert Scripted.asked == asked, "only the first process of a side finds out how long a call takes"
    pairs = [tuple(names[i : i + 2]) for i in range(0, len(names), 2)]
    assert set(pairs) <= {("fast", "slow"), ("slow", "fast")} and len(pairs) == 8
    assert {session.inputs for session in Scripted.made} == {48}, "for a span"
    for _ in range(9):
        Scripted.made.clear()
        compared("fast", "slow")
        if len({session.name for session in Scripted.made[::2]}) == 2:
            break
    else:
        pytest.fail("the order never changed")
    assert compared("slow", "fast").ratio.low > 1


def test_a_span_takes_a_tenth_of_a_second_or_the_fewest_calls(scripted):
    compared("very slow", "fast")
    assert set(Scripted.calls) == {comparison.WARM_UP_CALLS, 48}


def test_a_span_on_a_gpu_has_as_many_calls_as_take_a_tenth_of_a_second(scripted):
    side = comparison._Side(Path("same"), Result(CASE), CPU, Limits(inputs=2, span_calls=5000))
    side._call_us = 100.0
    assert (side._spans.inputs, side._calls()) == (71, 1000)


@pytest.mark.parametrize(
    ("bounds", "each_s", "pairs", "told"),
    [
        (Bounds(), 1.0, 40, "1 of about 40 pairs done, about 39 s left"),
        (Bounds(), 4.0, 15, "1 of about 15 pairs done, about 56 s left"),
        (Bounds(), 20.0, 8, "1 of about 8 pairs done, about 140 s left"),
        (Bounds(pairs=9), 1.0, 9, "1 of about 9 pairs done, about 8 s left"),
        (Bounds(seconds=50.0, least=1), 20.0, 2, "1 of about 2 pairs done, about 20 s left"),
        (Bounds(seconds=1.0, least=1), 20.0, 1, "1 pairs done"),
    ],
)
def test_a_case_gets_as_many_pairs_as_the_time_allows(scripted, monkeypatch, bounds, each_s, pairs, told):
    now, said = [0.0], []
    monkeypatch.setattr(comparison.time, "monotonic", lambda: now[0])

    def timed(self, process=comparison._Side.time_process):
        now[0] += each_s / 2
        process(self)

    monkeypatch.setattr(comparison._Side, "time_process", timed)
    one = run_comparison(Path("same"), Path("same"), CASE, CPU, LIMITS, bounds=bounds, told=said.append)
    assert (len(one.own.rounds_us), len(said), said[0]) == (pairs, pairs, told)
    assert (one.ratio is None) == (pairs < 8) and one.passed
    assert pairs >= 8 or comparison.words(one.ratio, False) == "too few pairs to decide"


def test_a_submission_against_itself_shows_no_difference(scripted):
    ratios = [compared("same", "same").ratio for _ in range(5)]  # one of 128 intervals does not hold 1
    alike = [ratio for ratio in ratios if ratio.low <= 1 <= ratio.high]
    assert len(alike) >= 3 and {comparison.words(ratio, True) for ratio in alike} == {"no difference"}


def test_a_wide_interval_decides_nothing_on_a_busy_machine():
    assert comparison.words(Ratio(1.0, 0.9, 1.2), True) == "too busy to decide"
    assert comparison.words(Ratio(1.0, 0.9, 1.2), False) == "no difference"
    assert comparison.words(Ratio(1.3, 1.1, 1.6), True) == "slower"


@pytest.mark.parametrize(
    ("own", "waits", "baseline_waits", "word"),
    [
        ("fast", 1, 9, "faster"),
        ("fast", 1, 12, "too busy to decide"),
        ("fast", 30, 39, "faster"),
        ("fast", 30, 42, "too busy to decide"),
        ("fast", 42, 30, "faster"),
        ("slow", 1, 12, "slower"),
    ],
)
def test_a_submission_that_was_timed_while_others_paused_is_not_called_faster(
    scripted, monkeypatch, capsys, own, waits, baseline_waits, word
):
    """Of 100 ns, a side waits so many for a processor while the clock runs; before that it is the other way round."""
    looks = itertools.count()
    baseline = "slow" if own == "fast" else "fast"
    waiting = {own: waits, baseline: baseline_waits}

    def ran_and_waited(pid):
        name, asked = Scripted.asked[-1]
        waited = waiting[name] if asked == "span" else 90 - waiting[name]
        return (look := next(looks)) * (100 - waited), look * waited

    monkeypatch.setattr(load, "ran_and_waited", ran_and_waited)
    one = compared(own, baseline)
    assert one.verdict == word
    report.print_comparisons([one], "chip")
    said = (
        f"8 16 64: the baseline's threads waited for a processor for {baseline_waits} % of their time, "
        f"the submission's for {waits} %"
    )
    assert (said in (printed := capsys.readouterr().out)) == (word == "too busy to decide"), printed


def test_threads_of_processors_prove_nothing_of_a_gpu(scripted, monkeypatch):
    looks = itertools.count()

    def ran_and_waited(pid):
        waited = 50 if Scripted.running.name == "slow" else 0
        return (look := next(looks)) * (100 - waited), look * waited

    monkeypatch.setattr(load, "ran_and_waited", ran_and_waited)
    limits = Limits(inputs=2, span_calls=5000)
    one = run_comparison(Path("fast"), Path("slow"), CASE, torch.device("cuda"), limits, bounds=EIGHT)
    assert (one.verdict, one.own.notes) == ("faster", [])


@pytest.mark.parametrize(
    ("own_waits", "baseline_waits", "busy"),
    [(0, 0, False), (10, 10, False), (12, 12, True), (30, 0, True), (0, 30, True)],
)
def test_a_machine_is_busy_where_threads_of_either_side_wait_for_a_processor(
    scripted, monkeypatch, own_waits, baseline_waits, busy
):
    looks = itertools.count()

    def ran_and_waited(pid):
        waited = own_waits if Scripted.running.name == "fast" else baseline_waits
        return (look := next(looks)) * (100 - waited), look * waited

    monkeypatch.setattr(load, "ran_and_waited", ran_and_waited)
    assert compared("fast", "slow").busy == busy


def test_a_machine_of_which_nothing_is_known_is_busy(scripted, monkeypatch):
    monkeypatch.setattr(load, "ran_and_waited", lambda pid: (0, 0))
    one = compared("fast", "slow")
    assert one.busy and not one.favoured


def drifting(noise, pairs, own=1.0):
    """Times of pairs on a machine whose load drifts and jumps: neighbours are alike, and there are outliers."""
    level, times = 0.0, ([], [])
    for _ in range(pairs):
        order = noise.sample([0, 1], 2)
        for side in order:
            level = 0.9 * level + noise.gauss(0.05, 0.1)
            jump = noise.uniform(0.3, 2.0) if noise.random() < 0.1 else 0.0
            times[side].append(math.exp(level + jump + noise.gauss(0.0, 0.05)) * (own if side == 0 else 1.0))
    return times


def test_no_difference_is_rarely_called_one_under_drifting_load():
    noise = random.Random(7)
    found = [comparison.words(paired_interval([drifting(noise, pairs)]), False) for pairs in (8, 16, 40) * 200]
    assert found.count("no difference") >= 590


def test_a_tenth_more_is_found_and_lies_in_the_interval_under_drifting_load():
    noise = random.Random(11)
    intervals = [paired_interval([drifting(noise, 40, 1.1)]) for _ in range(200)]
    assert sum(one.low <= 1.1 <= one.high for one in intervals) >= 196
    assert sum(one.low > 1 for one in intervals) >= 100


def test_the_interval_by_hand():
    """With eight pairs one average of two logarithms is left out on each side: 2 of 256 orders of signs are as extreme.

    The logarithms are 1 to 8 tenths; the averages of two, their own included, lie between, symmetrically about 4.5.
    """
    times = [math.exp(x / 10) for x in (3, 1, 2, 8, 5, 4, 7, 6)]
    ratio = paired_interval([(times, [1.0] * 8)])
    assert ratio == pytest.approx((math.exp(0.45), math.exp(0.1), math.exp(0.8)))
    assert paired_interval([(times[:7], [1.0] * 7)]) is None
    both = paired_interval([(times, [1.0] * 8), ([1.0] * 8, times)])
    assert both == pytest.approx((1.0, 1.0, 1.0))


@pytest.mark.parametrize(("pairs", "left_out"), [(8, 1), (10, 4), (12, 8), (15, 16), (20, 38)])
def test_as_many_averages_are_left_out_as_tables_of_signed_ranks_say(pairs, left_out):
    """Critical values of Wilcoxon's signed ranks at 0.01, two-sided: 0, 3, 7, 15 and 37; one more is left out."""
    assert stats._left_out(pairs) == left_out


@pytest.mark.parametrize(
    ("own", "baseline", "error", "whose"),
    [
        ("broken", "fast", "import failed", "own"),
        ("fast", "broken", "import failed", "baseline"),
        ("wrong", "fast", "wrong result", "own"),
        ("fast", "wrong", "wrong result", "baseline"),
        ("impossible", "fast", r"\S+ us is less than 10 us, which no chip", "own"),
    ],
)
def test_a_failure_is_that_sides_alone(scripted, own, baseline, error, whose):
    one = compared(own, baseline)
    sides = {"own": one.own.error, "baseline": one.baseline.error}
    assert re.match(error, sides.pop(whose)) and list(sides.values()) == [""]
    assert one.ratio is None
    opened, closed = [session.name for session in Scripted.made], [n for n, what in Scripted.asked if what == "close"]
    assert sorted(opened) == sorted(closed)


def test_two_submissions_for_real(monkeypatch):
    monkeypatch.setattr(comparison, "SPANS", 1)
    monkeypatch.setattr(comparison, "INPUTS", 3)
    loads = []
    monkeypatch.setattr(comparison, "Load", lambda: loads.append(load.Load()) or loads[-1])
    honest = Path(__file__).resolve().parents[1] / "adversarial" / "honest" / "honest.py"
    one = run_comparison(honest, honest, CASE, CPU, Limits(answer_s=300.0, inputs=2), bounds=Bounds(8, 1.0))
    assert one.passed, (one.own.error, one.baseline.error)
    assert one.ratio.low <= one.ratio.ratio <= one.ratio.high and one.own.checked >= 8 * 3
    told = load.ran_and_waited(os.getpid())[0] > 0  # not by every kernel
    assert [side.waiting < 1 for side in loads] == [told, told], "each side's threads ran while the clock did"


def results(own_us, baseline_us, **own):
    return Comparison(
        Result(CASE, rounds_us=[own_us] * 8, **own),
        Result(CASE, rounds_us=[baseline_us] * 8),
        Ratio(own_us / baseline_us, 0.4, 0.6),
    )


def test_the_table_says_both_times_the_ratio_and_the_verdict(capsys):
    report.print_comparisons([results(10.0, 20.0), results(5.0, 10.0)], "chip")
    lines = capsys.readouterr().out.splitlines()
    assert lines[0] == "chip: median times of a call, in pairs of processes"
    assert lines[3].endswith("  faster") and "0.4000 to 0.6000" in lines[3]
    assert lines[3].split()[:9] == ["8", "16", "64", "10", "us", "20", "us", "8", "0.5000"]
    assert lines[5].split()[:3] == ["geometric", "mean", "0.5000"] and len(lines) == 6


def test_one_favoured_case_leaves_its_row_and_the_mean_undecided(capsys):
    favoured, other = results(10.0, 20.0), results(5.0, 10.0)
    favoured.favoured = True
    report.print_comparisons([favoured, other], "chip")
    rows = capsys.readouterr().out.splitlines()[3:]
    ends = ["too busy to decide", "faster", "too busy to decide"]
    assert [row.endswith(f"  {end}") for row, end in zip(rows, ends, strict=True)] == [True] * 3, rows


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
    given = Given("benchmark", "dual_gemm", Path("a.py"), CPU, "board", 2)
    found = comparison_record(given, Path("b.py"), [results(10.0, 20.0)])
    assert (found["submission"], found["baseline"], found["complete"]) == ("a.py", "b.py", False)
    (one,) = json.loads(json.dumps(found))["results"]
    assert one["ratio"] == {"ratio": 0.5, "low": 0.4, "high": 0.6} and one["verdict"] == "faster"
    assert (one["submission"]["median_us"], one["baseline"]["median_us"]) == (10.0, 20.0)
    favoured = results(10.0, 20.0)
    favoured.favoured = True
    (one,) = comparison_record(given, Path("b.py"), [favoured])["results"]
    assert one["verdict"] == "too busy to decide"
