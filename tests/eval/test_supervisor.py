"""A case as the parent runs it: limits, seeds, stop rules, whose clock counts."""

from __future__ import annotations

import secrets
from dataclasses import replace
from pathlib import Path
from types import SimpleNamespace

import pytest
import torch

from eval import evaluation, spans, supervisor
from eval.cases import case_seeds, fresh_seeds, parse_case
from eval.hardware import capacity, chip
from eval.judge import judges_of
from eval.lending import layout
from eval.output.origin import Library
from eval.sandbox import State
from eval.session import NULL_SEARCH_S, Round, Session, Timings, tolerance_us
from eval.spans import Spans
from eval.supervisor import Limits, Result, limits_for
from eval.workers.worker import Failure
from reference.problems.dual_gemm import DualGemm

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
CASE = parse_case("m: 8; n: 16; k: 64; l: 1; seed: 1111")


# --- limits and seeds ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("device", "mode", "limits"),
    [
        (GPU, "leaderboard", Limits(180.0, 30.0, 120.0, 1000, 50, 10, span_calls=5000)),
        (GPU, "benchmark", Limits(180.0, 10.0, 120.0, 200, 50, 10, span_calls=5000)),
        (GPU, "test", Limits(180.0, 10.0, 120.0, 200, 50, 10, span_calls=5000)),
        (CPU, "leaderboard", Limits(180.0, 3.0, 20.0, 200, 12, 0, 250.0, 0.5, inputs_bytes=4 << 20)),
        (CPU, "benchmark", Limits(180.0, 3.0, 10.0, 200, 12, 0, 250.0, 0.5, inputs_bytes=4 << 20)),
        (CPU, "profile", Limits(180.0, 3.0, 10.0, 200, 12, 0, 250.0, 0.5, inputs_bytes=4 << 20)),
    ],
)
def test_the_limits_of_each_mode_and_device(device, mode, limits):
    assert limits_for(device, mode) == limits


def test_a_cases_seeds_are_42_apart():
    assert case_seeds(1111, 3) == [1111, 1153, 1195]
    assert case_seeds(0, 1) == [0]
    assert case_seeds(2**63 - 1, 2) == [2**63 - 1, 41]


def test_fresh_seeds_are_drawn_from_all_that_torch_takes(monkeypatch):
    limits = []
    monkeypatch.setattr(secrets, "randbelow", lambda limit: limits.append(limit) or len(limits))
    assert fresh_seeds(3) == [1, 2, 3]
    assert limits == [2**63] * 3


def test_half_of_the_free_memory_is_for_inputs(monkeypatch):
    m, n, k, batches = shape = DualGemm(64, 128, 256, 2)
    rows = m + 2 * n
    codes, scales, outputs = (x * batches for x in (rows * k // 2, rows * k // 16, 2 * m * n))
    padded = scales + 64 * k // 16 * batches  # the permuted ones of 64 rows have 128
    each = 2 * (codes + scales + padded + outputs)  # staged and in use
    for memory, count in ((2 * 7 * each, 7), (2 * 7 * each - 2, 6), (0, 1), (each, 1), (10**15, 9)):
        monkeypatch.setattr("eval.hardware.capacity.available_bytes", lambda device, memory=memory: memory)
        assert capacity.inputs_that_fit(shape, CPU, 9) == count


@pytest.mark.parametrize(
    ("inputs", "bytes_", "count"), [(9, 1e12, 9), (9, 5.5, 5), (9, 2.0, 3), (2, 1.0, 2), (60, 1e12, 50)]
)
def test_a_round_has_many_small_inputs_and_few_large_ones(monkeypatch, inputs, bytes_, count):
    monkeypatch.setattr("eval.hardware.capacity.available_bytes", lambda device: 10**15)
    each = layout.Layout(CASE.shape).call_bytes
    assert supervisor.round_inputs(CASE.shape, CPU, Limits(inputs=inputs, inputs_bytes=bytes_ * each)) == count


# --- stop rules ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("rounds_us", "inputs", "steady"),
    [
        ([40000.0, 40000.0], 50, False),  # two rounds are too few
        ([33400.0] * 3, 1, True),  # 0.1 s in all
        ([33300.0] * 3, 1, False),
        ([20000.0] * 3, 2, True),  # of each round's every input
        ([16600.0] * 3, 2, False),
        ([25000.0] * 4, 1, True),  # exactly
        # A standard error of the mean just below and just above a thousandth of it: 100 +- d in four rounds.
        ([1e5 + d for d in (-172, -172, 172, 172)], 1, True),
        ([1e5 + d for d in (-174, -174, 174, 174)], 1, False),
    ],
)
def test_the_leaderboards_stop_rule(rounds_us, inputs, steady):
    assert supervisor._steady(rounds_us, inputs) == steady


WILD = [100.0, 200.0, 300.0]  # never steady


@pytest.mark.parametrize(
    ("rounds_us", "inputs", "wall_s", "limits", "done"),
    [
        (WILD, 1, 0.0, Limits(), False),
        (WILD, 1, 9.0, Limits(wall_s=9.0), False),
        (WILD, 1, 9.1, Limits(wall_s=9.0), True),
        (WILD[:2], 1, 9.1, Limits(wall_s=9.0), False),  # late, yet three rounds there are
        (WILD, 10, 0.0, Limits(timing_s=0.006), False),
        (WILD, 10, 0.0, Limits(timing_s=0.0059), True),
        (WILD, 1, 0.0, Limits(timing_s=0.0059), False),
        (WILD, 1, 0.0, Limits(max_rounds=4), False),
        (WILD, 1, 0.0, Limits(max_rounds=3), True),
        (WILD, 1, 0.0, Limits(max_rounds=2), True),
        ([40000.0] * 3, 1, 0.0, Limits(), True),
    ],
)
def test_rounds_end_where_the_mean_is_steady_or_time_is_up(rounds_us, inputs, wall_s, limits, done):
    result = Result(CASE, rounds_us=rounds_us, inputs=inputs)
    assert supervisor._done(result, limits, wall_s, len(rounds_us)) == done


def test_rounds_that_do_not_count_use_up_the_rounds_there_may_be():
    result = Result(CASE, rounds_us=WILD, inputs=1)
    assert not supervisor._done(result, Limits(max_rounds=9), 0.0, 8)
    assert supervisor._done(result, Limits(max_rounds=9), 0.0, 9)


# --- a case -------------------------------------------------------------------------------------------


ALL_OF_IT = State({"everything": "on"})


class Scripted:
    """A session that answers from a list of times, and keeps what it was asked."""

    rounds: list[Round]
    null_us = (4.0, 8.0, 6.0)

    def __init__(self, submission, case, device, inputs, answer_s, data="board", span_calls=0):
        self.before, Scripted.last = getattr(Scripted, "last", None), self
        self.data = data
        self.device, self.asked, self.checked, self.printed, self.pid = device, [], 7, "what it printed", 0
        self.sandbox, self.backend, self.libraries = ALL_OF_IT, "hopper", [Library("libx.so", "00ff")]
        self.worst_error, self.wrong, self.left = 0.5, {"elements": 3}, ""
        self.times = list(Scripted.rounds)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        self.asked.append("close")

    def null_overheads_us(self, count, request="round"):
        self.asked.append(("null", count))
        return self.null_us

    def span(self, seeds, calls, check):
        self.asked.append(("span", list(seeds), calls, check.__name__))
        return self.spans_us.pop(0) * calls

    def load(self):
        self.asked.append("load")

    def round(self, seeds, check, what, after=bool, most_adds=0):
        self.asked.append((what, list(seeds), check.__name__, *([most_adds] if most_adds else [])))
        after()
        return (self.times.pop(0) if what == "time_round" else Round(20.0, 21.0)), None

    def profile(self, seed, check):
        self.asked.append(("profile", seed, check.__name__))
        return "a table"


@pytest.fixture
def scripted(monkeypatch):
    monkeypatch.setattr(supervisor, "Session", Scripted)
    monkeypatch.setattr(supervisor.Load, "busy", property(lambda self: False))
    monkeypatch.setattr("eval.hardware.capacity.available_bytes", lambda device: 10**15)
    monkeypatch.setattr("eval.hardware.chip.attributes", lambda device: chip.Attributes("chip", 1e12, 0.0))
    monkeypatch.setattr("eval.hardware.chip.impossible_us", lambda shape, what: 10.0)
    for module in (supervisor, spans):
        monkeypatch.setattr(module, "fresh_seeds", lambda count: [-1] * count)
    monkeypatch.setattr(spans, "INPUTS", 4)


LIMITS = Limits(inputs=4, singles=2, max_rounds=5)


def honest(*each_us):
    """Rounds of four calls that are timed like this."""
    return [Round(4 * us, 4 * us + 7.0) for us in each_us]


def test_a_benchmark_measures_null_rounds_checks_then_times(scripted):
    Scripted.rounds = honest(11.0, 15.0, 12.0, 19.0, 10.0, 77.0)
    result = supervisor.run_benchmark(None, CASE, CPU, LIMITS)
    assert Scripted.last.before.asked == [("null", 4), ("null", 1), "close"], "by a worker that loads nothing"
    assert Scripted.last.asked == [
        "load",
        ("check", [1111, 1153, 1195, 1237], "judge_as_board"),
        *[("time_round", [-1] * 4, "judge_fresh")] * 5,
        *[("time_single", [-1], "judge_fresh")] * 2,
        "close",
    ]
    assert result.error == "" and result.rounds_us == [11.0, 15.0, 12.0, 19.0, 10.0]
    assert result.single_us == [20.0, 20.0] and (result.inputs, result.checked) == (4, 7)
    assert result.printed == "what it printed"
    assert (result.tolerance_us, result.doubted) == ((8.0 + 8.0 - 4.0) / 4, 0)


def test_no_more_single_calls_than_inputs_and_none_if_none_are_wanted(scripted):
    Scripted.rounds = [Round(40.0, 41.0)] * 10
    result = supervisor.run_benchmark(None, CASE, CPU, Limits(inputs=2, singles=10, max_rounds=3))
    assert len(result.single_us) == 2
    result = supervisor.run_benchmark(None, CASE, CPU, Limits(inputs=2, singles=0, max_rounds=3))
    assert result.single_us == [] and ("null", 1) not in Scripted.last.before.asked


def test_a_time_below_the_floor_is_told_and_ends_the_case(scripted):
    Scripted.rounds = honest(10.0, 9.99, 50.0)
    result = supervisor.run_benchmark(None, CASE, CPU, LIMITS)
    assert result.error == "9.99 us is less than 10 us, which no chip can beat"
    assert result.rounds_us == [10.0] and result.single_us == [] and Scripted.last.asked[-1] == "close"


def test_a_single_call_below_the_floor_is_told(scripted, monkeypatch):
    monkeypatch.setattr("eval.hardware.chip.impossible_us", lambda shape, what: 20.5)
    Scripted.rounds = honest(30.0, 30.0, 30.0, 30.0, 30.0)
    result = supervisor.run_benchmark(None, CASE, CPU, LIMITS)
    assert result.error == "20 us is less than 20.5 us, which no chip can beat"


def test_a_test_is_a_call_of_the_cases_seed_and_one_of_a_fresh_seed(scripted):
    Scripted.rounds = []
    result = supervisor.run_test(None, CASE, CPU, LIMITS)
    load, own, *more, close = Scripted.last.asked
    assert (load, own, close) == ("load", ("check", [1111], "judge_as_board"), "close")
    assert more == [("fresh inputs", [-1], "judge_fresh", 2**34)]
    assert (result.sandbox, result.backend, result.libraries) == (ALL_OF_IT, "hopper", [("libx.so", "00ff")])
    assert (result.worst_error, result.wrong) == (0.5, {"elements": 3})
    assert (result.inputs, result.error) == (1, "")


def test_a_profile_is_one_call_after_a_checked_one(scripted):
    Scripted.rounds = []
    result = supervisor.run_profile(None, CASE, CPU, LIMITS)
    asked = ["load", ("check", [1111], "judge_as_board"), ("profile", -1, "judge_fresh"), "close"]
    assert Scripted.last.asked == asked
    assert (result.inputs, result.report) == (1, "a table")


@pytest.mark.parametrize("run", [supervisor.run_test, supervisor.run_benchmark, supervisor.run_profile])
@pytest.mark.parametrize("when", ["__init__", "load", "round"])
@pytest.mark.parametrize(
    ("failure", "said"),
    [
        (Failure("it broke"), "it broke"),
        (OSError("no descriptors"), "the harness could not run the case: no descriptors"),
        (torch.OutOfMemoryError("the device is full"), "the harness could not run the case: the device is full"),
    ],
)
def test_whatever_ends_a_case_is_told_as_its_error(scripted, monkeypatch, run, when, failure, said):
    def fail(*_, **__):
        raise failure

    monkeypatch.setattr(Scripted, when, fail)
    result = run(None, CASE, CPU, LIMITS)
    assert result.error == said
    assert result.printed == ("" if when == "__init__" else "what it printed")


# --- whose clock counts -------------------------------------------------------------------------------


def test_tolerance_is_the_costliest_null_round_plus_the_range():
    assert tolerance_us([90.0, 60.0, 80.0]) == 120.0
    assert tolerance_us([81.0, 80.0, 80.0]) == 100.0


def test_a_claim_stands_within_the_tolerance_and_else_the_parents_time_counts():
    for claimed, stands, counted in ((100.0, True, 100.0), (70.0, True, 70.0), (69.0, False, 70.0), (1.0, False, 70.0)):
        made = Round(claimed, 100.0)
        assert (made.stands(30.0), made.counted_us(30.0)) == (stands, counted)


def timings(*rounds):
    made = Timings(2, 10.0)
    for one in rounds:
        made.add(Round(*one))
    return made


TRUE, SHAVED, FALSE = (100.0, 105.0), (60.0, 105.0), (40.0, 105.0)


@pytest.mark.parametrize(
    ("rounds", "counting", "doubted", "lies"),
    [
        ([TRUE] * 3, [50.0] * 3, 0, False),
        ([TRUE, SHAVED, TRUE], [50.0, 47.5, 50.0], 1, False),
        ([SHAVED, TRUE, SHAVED, TRUE, SHAVED, TRUE, FALSE], [50.0] * 3, 4, False),
        ([TRUE, SHAVED, SHAVED], [50.0, 47.5, 47.5], 2, False),
        ([SHAVED] * 3, [47.5] * 3, 3, False),
        ([SHAVED, FALSE, FALSE], [47.5] * 3, 3, False),
        ([FALSE] * 3, [47.5] * 3, 3, True),
    ],
)
def test_doubted_rounds_are_dropped_or_take_the_parents_time(rounds, counting, doubted, lies):
    made = timings(*rounds)
    assert (made.rounds_us(), made.doubted, made.count) == (counting, doubted, len(rounds))
    said = "the worker's clock shows 0.04 ms for calls that took 0.105 ms (tolerance 0.01 ms)"
    assert made.lie() == (said if lies else None)
    assert made.tolerance_us == 5.0


@pytest.mark.parametrize(
    ("rounds", "measured", "noted"),
    [
        ([TRUE] * 3, True, ""),
        ([TRUE] * 3 + [FALSE], True, "1 of 4 rounds do not count: the worker's clock shows less than the harness's"),
        # 95 us count, 5 or 9 % more than were claimed; then 11 %.
        ([TRUE, (90.5, 105.0), (90.5, 105.0)], True, ": all times are the harness's, 5 % longer"),
        ([(87.0, 105.0)] * 3, True, "in 3 of 3 rounds the worker's clock shows less than the harness's: all times are"),
        ([(85.0, 105.0)] * 3, False, "12 % longer"),
        ([SHAVED, TRUE, FALSE], False, "in 2 of 3 rounds the worker's clock shows less"),
        ([TRUE], True, ""),
    ],
)
def test_a_case_is_measured_if_enough_claims_stand_or_the_harness_agrees_with_them(rounds, measured, noted):
    made = timings(*rounds)
    assert noted in made.note() and bool(noted) == bool(made.note()), made.note()
    assert (made.too_few() is None) == measured
    if not measured:
        assert made.too_few().startswith("not measured: ") and "The machine is busy, or" in made.too_few()


@pytest.mark.parametrize("busy", [True, False])
def test_on_a_busy_machine_a_case_gets_more_time_until_enough_rounds_count(scripted, monkeypatch, busy):
    Scripted.rounds = [Round(80.0, 250.0)] * 6 + [Round(80.0, 81.0)] * 9
    monkeypatch.setattr(supervisor.Load, "busy", property(lambda self: busy))
    result = supervisor.run_benchmark(None, CASE, CPU, replace(LIMITS, max_rounds=3, singles=0))
    assert result.passed == busy and (len(result.rounds_us), result.doubted) == ((3, 6) if busy else (0, 3))


@pytest.mark.parametrize("busy", [True, False])
def test_on_a_busy_machine_nobody_is_called_a_liar(scripted, monkeypatch, busy):
    Scripted.rounds = [Round(80.0, 250.0)] * 5
    monkeypatch.setattr(supervisor.Load, "busy", property(lambda self: busy))
    monkeypatch.setattr(supervisor, "PATIENCE_S", -LIMITS.wall_s)
    result = supervisor.run_benchmark(None, CASE, CPU, LIMITS)
    assert result.error.startswith("not measured" if busy else "the worker's clock shows 0.08 ms")
    assert result.unmeasured == busy and not result.passed and result.rounds_us == []


@pytest.mark.parametrize(("span_us", "measured"), [(60.0, True), (59.0, False)])
@pytest.mark.parametrize("claimed_us", [1.0, 50.0])
def test_a_case_with_a_tolerance_above_the_cap_has_no_time(scripted, monkeypatch, span_us, measured, claimed_us):
    monkeypatch.setattr("eval.hardware.chip.impossible_us", lambda shape, what: 0.0)
    Scripted.rounds = [Round(claimed_us, span_us)] * 5  # the tolerance of a round is 12 us
    result = supervisor.run_benchmark(
        None, CASE, CPU, Limits(inputs=4, singles=0, max_rounds=5, small_us=2.5, most_tolerance=0.2)
    )
    assert result.error.startswith("not measured") == result.unmeasured != measured
    assert measured or (result.rounds_us, result.error.count("20 %")) == ([], 1)


@pytest.mark.parametrize(("true_us", "times", "doubted"), [(12.0, [12.0] * 5, 0), (40.0, [40.0 - 12.0 / 15] * 5, 5)])
def test_claims_are_held_to_spans_of_many_calls(scripted, true_us, times, doubted):
    Scripted.rounds = [Round(4 * 12.0, 4 * 12.0 + 7.0)] * 5  # which alone supports such a claim
    Scripted.spans_us = [1.5 * true_us, true_us, 2 * true_us]
    limits = Limits(inputs=4, singles=0, max_rounds=5, span_calls=15)
    result = supervisor.run_benchmark(None, CASE, CPU, limits)
    assert Scripted.last.asked[-4:] == [*[("span", [-1] * 4, 15, "judge_fresh")] * 3, "close"]
    assert (result.error, result.rounds_us, result.doubted) == ("", pytest.approx(times), doubted)
    assert (result.span_us, result.span_calls, result.tolerance_us) == (true_us, 15, 12.0 / 15)


ADVERSARIAL = Path(__file__).resolve().parents[1] / "adversarial"
SPANS = [
    ("honest/honest", ""),
    ("cheating_results/cached_by_pointer", "wrong result (span, call"),
    ("wrong/modifies_inputs", "the submission modified its inputs"),
    ("cheating_harness/reads_ahead", "wrong result (span, call"),
]


@pytest.mark.parametrize(("name", "error"), SPANS, ids=[name for name, _ in SPANS])
def test_a_span_computes_every_call_anew(name, error):
    said = ""
    with Session(ADVERSARIAL / f"{name}.py", CASE, CPU, 3, 60.0, span_calls=9) as session:
        assert all(us >= 0 for us in session.null_overheads_us(9, "span"))
        session.load()
        try:
            assert session.span([1, 2, 3], 9, judges_of("board")[1]) > 0
        except Failure as failure:
            said = str(failure)
    assert said.startswith(error) and bool(said) == bool(error)
    assert error or session.checked == 3


def test_no_two_calls_of_a_span_are_alike():
    blocks = CASE.shape.inputs()
    inputs = [[(index, number) for number in range(len(blocks))] for index in range(3)]
    calls = [layout.paired(CASE.shape, inputs, call) for call in range(9)]
    assert calls[:3] == inputs and len({tuple(call) for call in calls}) == 9
    assert [call[1][0] for call in calls] == [0, 1, 2] * 3, "weights in rotation"


@pytest.mark.parametrize(("claimed_us", "calls"), [(12.0, 600), (100.0, 50), (9.0, 500)])
def test_a_span_has_enough_calls_for_a_tolerance_of_a_fiftieth(scripted, claimed_us, calls):
    """144 us is 600 fiftieths of 12; calls of less than 10 us are no more than a GPU takes ahead."""
    Scripted.spans_us = [claimed_us] * 3
    session = Scripted(None, CASE, CPU, 40, 1.0)
    result = Result(CASE, rounds_us=[claimed_us] * 3, inputs=40, tolerance_us=144.0 / 40)
    supervisor._time_spans(session, result, Spans(40, 1600, 144.0 if calls != 50 else 100.0))
    assert (result.span_calls, result.rounds_us) == (calls, [claimed_us] * 3)


def test_a_given_tolerance_is_not_measured_again(scripted):
    Scripted.rounds = honest(11.0, 15.0, 12.0)
    given = supervisor.Tolerance(40.0, 1.0, 4, Spans(4))
    result = supervisor.run_benchmark(None, CASE, CPU, Limits(singles=0, max_rounds=3), "board", given)
    assert (result.tolerance_us, result.inputs) == (10.0, 4)
    assert Scripted.last.before is None or ("null", 4) not in Scripted.last.asked


def test_every_tolerance_is_measured_before_any_submission_runs(monkeypatch):
    order, passed = [], supervisor.Result(CASE)
    given = supervisor.Tolerance(1.0, 1.0, 3, Spans(3))
    monkeypatch.setattr(evaluation, "measure_tolerance", lambda case, *_: order.append(case.shape.m) or given)
    monkeypatch.setitem(evaluation.RUNNERS, "benchmark", lambda *words: order.append(("run", words[-1])) or passed)
    other = parse_case("m: 9; n: 16; k: 64; l: 1; seed: 1111")
    evaluation.evaluate("benchmark", None, [CASE, other, CASE], CPU, None)
    assert order == [8, 9, *[("run", given)] * 3]


NOISY = [9.0, 90.0] * 3 + [9.0]


@pytest.mark.parametrize(
    ("batches", "counting"),
    [([[20.0] * 7], [20.0] * 7), ([NOISY, [20.0] * 6 + [25.0]], [20.0] * 6 + [25.0]), ([NOISY] * 2, [9.0] * 7)],
)
def test_a_quiet_batch_of_null_rounds_counts_else_the_cheapest(monkeypatch, batches, counting):
    spans = [5.0, 5.0, *(each for batch in batches for each in batch)]
    quiet = object.__new__(Session)
    monkeypatch.setattr(Session, "_generated", lambda self, seed: [])
    quiet._lender = SimpleNamespace(stage=lambda inputs, calls: None)
    quiet._inputs = 3
    monkeypatch.setattr(Session, "_exchange", lambda self, *_, **__: (Round(0.0, spans.pop(0)),))
    now = iter(range(9))  # each batch takes a third of the time for the search
    monkeypatch.setattr("eval.session.time", SimpleNamespace(monotonic=lambda: NULL_SEARCH_S / 3 * next(now)))
    assert quiet.null_overheads_us(3) == counting and spans == []


def test_a_worker_whose_every_claim_is_false_fails(scripted):
    Scripted.rounds = [Round(80.0, 250.0)] * 5
    result = supervisor.run_benchmark(None, CASE, CPU, LIMITS)
    assert result.error.startswith("the worker's clock shows 0.08 ms for calls that took 0.25 ms")
    assert result.doubted == 5 and result.single_us == []


def test_a_surviving_process_fails_a_case_that_passed(scripted, monkeypatch):
    Scripted.rounds = []
    monkeypatch.setattr(Scripted, "__exit__", lambda self, *_: setattr(self, "left", "a process survived"))
    assert supervisor.run_test(None, CASE, CPU, LIMITS).error == "a process survived"
