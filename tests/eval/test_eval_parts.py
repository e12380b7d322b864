"""The harness's parts by themselves: limits, seeds, stop rules, each guard, the timer, a round of the worker."""

from __future__ import annotations

import builtins
import gc
import re
import secrets
import time
from types import SimpleNamespace

import pytest
import torch

import eval.guards
import eval.supervisor as supervisor
import eval.timing as timing
import eval.worker as worker_module
from eval.cases import parse_case
from eval.guards import FunctionWatch, extent, fingerprint, output_problem
from eval.supervisor import Limits, Result, WorkerProcess, case_seeds, fresh_seeds, inputs_that_fit, limits_for
from eval.timing import Calls, CpuTimer
from eval.worker import Failure, Setup, Worker
from reference.reference import generate_input

CPU, GPU = torch.device("cpu"), torch.device("cuda", 0)
CASE = parse_case("m: 8; n: 16; k: 64; l: 1; seed: 1111")


# --- limits and seeds ---------------------------------------------------------------------------------


@pytest.mark.parametrize(
    ("device", "mode", "limits"),
    [
        (GPU, "leaderboard", Limits(180.0, 30.0, 120.0, 1000, 50, 10, None)),
        (GPU, "benchmark", Limits(180.0, 10.0, 120.0, 200, 50, 10, 5)),
        (GPU, "test", Limits(180.0, 10.0, 120.0, 200, 50, 10, 5)),
        (CPU, "leaderboard", Limits(180.0, 3.0, 20.0, 200, 3, 0, None)),
        (CPU, "benchmark", Limits(180.0, 3.0, 10.0, 200, 3, 0, 1)),
        (CPU, "profile", Limits(180.0, 3.0, 10.0, 200, 3, 0, 1)),
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
    m, n, k, batches = shape = (64, 128, 256, 2)
    rows = m + 2 * n
    codes, scales, outputs = (x * batches for x in (rows * k // 2, rows * k // 16, 2 * m * n))
    each = 2 * (codes + 2 * scales + outputs)  # staged and in use; plain and permuted scale factors
    for memory, count in ((2 * 7 * each, 7), (2 * 7 * each - 2, 6), (0, 1), (each, 1), (10**15, 9)):
        monkeypatch.setattr("eval.chip.free_memory", lambda device, memory=memory: memory)
        assert inputs_that_fit(shape, CPU, 9) == count


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
    assert supervisor._done(Result(CASE, rounds_us=rounds_us, inputs=inputs), limits, wall_s) == done


# --- the parent's side of a request -------------------------------------------------------------------


def half_a_worker(case=CASE, limits=None, answers=()):
    """A parent's side without a process behind it: it receives the given messages."""
    worker = object.__new__(WorkerProcess)
    worker._case, worker._device, worker._limits = case, CPU, limits or Limits()
    worker._result = Result(case)
    m, n, _, batches = case.shape
    worker._output_bytes = 2 * m * n * batches
    worker._marks, worker._clocks_mhz = {}, []
    worker._clock = SimpleNamespace(read_mhz=lambda: 1234)
    messages = list(answers)
    worker.sent = []
    worker._send = worker.sent.append
    worker._receive = lambda request: messages.pop(0)
    return worker


@pytest.mark.parametrize(
    ("claimed_s", "seen_s", "right"), [(1, 1.349, True), (1, 1.351, False), (0, 0.099, True), (0, 0.101, False)]
)
def test_the_workers_clock_may_be_a_quarter_and_a_tenth_of_a_second_behind(claimed_s, seen_s, right):
    worker = half_a_worker()
    worker._marks = {"begin": 5.0, "end": 5.0 + seen_s}
    if right:
        worker.check_clock(claimed_s)
    else:
        with pytest.raises(Failure) as error:
            worker.check_clock(claimed_s)
        said = f"the worker's clock shows {claimed_s * 1e3:.3g} ms for calls that took {seen_s * 1e3:.3g} ms"
        assert str(error.value) == said


def test_the_sm_clock_is_read_at_the_end_of_timed_rounds_alone():
    messages = [b'{"mark": "begin"}', b'{"mark": "end"}', b'{"ok": {"x": 1}}']
    for request, clocks in (("time_round", [1234]), ("check", []), ("time_single", [])):
        worker = half_a_worker(answers=messages)
        before = time.monotonic()
        assert worker._answer(request) == {"x": 1}
        assert worker._clocks_mhz == clocks
        assert before <= worker._marks["begin"] <= worker._marks["end"] <= time.monotonic()


@pytest.mark.parametrize(
    ("message", "reason"),
    [
        (b'{"fail": "it broke"}', "^it broke$"),
        (b"rubbish", "^the worker's answer is garbled: something else wrote to its pipe"),
        (b"[1]", "garbled"),
        (b'{"a": 1, "b": 2}', "garbled"),
        (b"{}", "garbled"),
        (b"\xff\xfe", "garbled"),
    ],
)
def test_an_answer_that_is_none_is_a_failure(message, reason):
    with pytest.raises(Failure, match=reason):
        half_a_worker(answers=[message])._answer("check")


@pytest.mark.parametrize(
    ("request_name", "checks"), [("check", "implementation"), ("time_round", "rounding"), ("time_single", "rounding")]
)
def test_a_cases_own_seeds_are_judged_as_the_leaderboard_judges_them(monkeypatch, request_name, checks):
    asked = []

    def check(name):
        def run(data, output):
            asked.append((name, data, output))
            return name == "rounding", "too far off"

        return run

    monkeypatch.setattr(supervisor, "check_implementation", check("implementation"))
    monkeypatch.setattr(supervisor, "check_with_rounding", check("rounding"))
    case = parse_case("m: 2; n: 3; k: 64; l: 2; seed: 7")
    memory = torch.arange(12, dtype=torch.float16).view(2, 2, 3)  # (L, M, N)
    worker = half_a_worker(case, answers=[memory.numpy().tobytes()])
    if checks == "implementation":
        with pytest.raises(Failure) as error:
            worker._check_output(request_name, 1, [7, 49, 91])
        assert str(error.value) == "wrong result (check, input 2 of 3, seed 49): too far off"
    else:
        worker._check_output(request_name, 1, [7, 49, 91])
    assert worker.sent == [{"request": "output", "index": 1}]
    assert worker._result.checked == (0 if checks == "implementation" else 1)
    ((name, data, output),) = asked
    assert name == checks
    assert torch.equal(output, memory.permute(1, 2, 0))
    wanted = generate_input(2, 3, 64, 2, 49, device="cpu")
    assert all(torch.equal(x.view(torch.uint8), y.view(torch.uint8)) for x, y in zip(data[:9], wanted[:9], strict=True))


@pytest.mark.parametrize("count", [0, 2 * 8 * 16 - 2, 2 * 8 * 16 + 2])
def test_an_output_of_another_length_is_garbled(count):
    worker = half_a_worker(answers=[bytes(count)])
    with pytest.raises(Failure, match=rf"garbled.* \({count} bytes of output; expected 256\)"):
        worker._check_output("check", 0, [1])


@pytest.mark.parametrize(("checked", "count"), [(None, 6), (6, 6), (9, 6), (4, 4), (1, 1), (0, 0)])
def test_outputs_are_drawn_after_the_calls(monkeypatch, checked, count):
    worker = half_a_worker(answers=[b'{"ok": {"mean_us": 5.0}}'])
    looked_at = []
    worker._check_output = lambda request, index, seeds: looked_at.append((request, index, tuple(seeds)))
    seeds = range(10, 16)
    assert worker.request("time_round", seeds, checked) == {"mean_us": 5.0}
    assert worker.sent == [{"request": "time_round", "seeds": list(seeds)}]
    indices = [index for _, index, _ in looked_at]
    assert len(set(indices)) == count and indices == sorted(indices) and set(indices) <= set(range(6))
    assert {(request, all_seeds) for request, _, all_seeds in looked_at} <= {("time_round", tuple(seeds))}


class Scripted:
    """A worker that answers from a list of times, and keeps what it was asked."""

    rounds: list[float]

    def __init__(self, submission, case, device, limits, result):
        self.asked, self.clocks = [], []
        Scripted.last = self
        self.times = list(Scripted.rounds)

    def __enter__(self):
        return self

    def __exit__(self, *_):
        return None

    def request(self, name, seeds, checked=None):
        self.asked.append((name, list(seeds), checked))
        return {
            "mean_us": self.times.pop(0) if name == "time_round" else 0,
            "single_us": [1.0] * len(seeds),
            "report": "a table",
        }

    def check_clock(self, claimed_s):
        self.clocks.append(claimed_s)


@pytest.fixture
def scripted(monkeypatch):
    monkeypatch.setattr(supervisor, "WorkerProcess", Scripted)
    monkeypatch.setattr("eval.chip.free_memory", lambda device: 10**15)
    monkeypatch.setattr("eval.chip.name", lambda device: "some chip")
    monkeypatch.setattr("eval.chip.impossible_us", lambda shape, name, processors: 10.0)
    monkeypatch.setattr(supervisor, "fresh_seeds", lambda count: [-1] * count)


LIMITS = Limits(inputs=4, singles=2, max_rounds=5, checked=3)


def test_a_benchmark_checks_its_own_seeds_then_times_fresh_ones_then_single_calls(scripted):
    Scripted.rounds = [11.0, 15.0, 12.0, 19.0, 10.0, 77.0]
    result = supervisor.run_benchmark(None, CASE, CPU, LIMITS)
    assert Scripted.last.asked == [
        ("check", [1111, 1153, 1195, 1237], None),
        *[("time_round", [-1] * 4, 3)] * 5,
        ("time_single", [-1] * 2, None),
    ]
    assert result.error == "" and result.rounds_us == [11.0, 15.0, 12.0, 19.0, 10.0]
    assert result.single_us == [1.0, 1.0] and result.inputs == 4
    assert Scripted.last.clocks == pytest.approx([x * 4 / 1e6 for x in result.rounds_us])


def test_on_a_gpu_the_parents_clock_says_nothing(scripted):
    Scripted.rounds = [11.0, 15.0, 12.0, 19.0, 10.0]
    assert supervisor.run_benchmark(None, CASE, GPU, LIMITS).passed
    assert Scripted.last.clocks == []


def test_no_more_single_calls_than_inputs_and_none_if_none_are_wanted(scripted):
    Scripted.rounds = [20.0] * 10
    result = supervisor.run_benchmark(None, CASE, CPU, Limits(inputs=2, singles=10, max_rounds=3))
    assert len(result.single_us) == 2
    result = supervisor.run_benchmark(None, CASE, CPU, Limits(inputs=2, singles=0, max_rounds=3))
    assert result.single_us == [] and Scripted.last.asked[-1][0] == "time_round"


def test_a_time_below_the_floor_is_told_and_ends_the_case(scripted):
    Scripted.rounds = [10.0, 9.99, 50.0]
    result = supervisor.run_benchmark(None, CASE, CPU, LIMITS)
    assert result.error == "9.99 us is less than 10 us, which no some chip can beat"
    assert result.rounds_us == [10.0] and result.single_us == []


@pytest.mark.parametrize(("device", "processors"), [(CPU, 6), (GPU, 0)])
def test_the_floor_of_a_cpu_counts_its_processors(scripted, monkeypatch, device, processors):
    asked = []
    monkeypatch.setattr(supervisor.os, "cpu_count", lambda: 6)
    monkeypatch.setattr("eval.chip.impossible_us", lambda *arguments: asked.append(arguments) or 0.0)
    Scripted.rounds = [20.0] * 5
    supervisor.run_benchmark(None, CASE, device, LIMITS)
    assert asked == [(CASE.shape, "some chip", processors)]


def test_a_test_is_one_call_of_the_cases_seed(scripted):
    Scripted.rounds = []
    result = supervisor.run_test(None, CASE, CPU, LIMITS)
    assert Scripted.last.asked == [("check", [1111], None)]
    assert (result.inputs, result.error) == (1, "")


def test_a_profile_is_one_call_after_a_checked_one(scripted):
    Scripted.rounds = []
    result = supervisor.run_profile(None, CASE, CPU, LIMITS)
    assert Scripted.last.asked == [("check", [1111], None), ("profile", [-1], None)]
    assert (result.inputs, result.report) == (1, "a table")


@pytest.mark.parametrize("run", [supervisor.run_test, supervisor.run_benchmark, supervisor.run_profile])
def test_a_workers_failure_is_the_cases(scripted, monkeypatch, run):
    def fail(*_):
        raise Failure("it broke")

    monkeypatch.setattr(Scripted, "request", fail)
    assert run(None, CASE, CPU, LIMITS).error == "it broke"


# --- guards -------------------------------------------------------------------------------------------

WATCHED = [
    *(
        (time, name)
        for name in ("perf_counter", "perf_counter_ns", "time", "time_ns", "monotonic", "monotonic_ns", "sleep")
    ),
    *(
        (builtins, name)
        for name in ("sum", "min", "max", "len", "abs", "all", "any", "isinstance", "type", "open", "print")
    ),
    *(
        (torch, name)
        for name in ("equal", "empty", "full", "allclose", "isclose", "tensor", "rand", "randint", "where")
    ),
    *(
        (torch.Tensor, name)
        for name in ("clone", "copy_", "fill_", "cpu", "numpy", "sum", "data_ptr", "view", "contiguous")
    ),
    *((torch.cuda, name) for name in ("Event", "synchronize", "current_device", "is_available")),
    *((torch.cuda.Event, name) for name in ("record", "elapsed_time", "synchronize")),
    (torch.Tensor, "__eq__"),
    (supervisor, "check_implementation"),
    (eval.guards, "fingerprint"),
    (FunctionWatch, "replaced"),
    (CpuTimer, "round_us"),
    (Worker, "_round"),
    (worker_module, "generate_input"),
]


@pytest.mark.parametrize(
    ("owner", "name"), WATCHED, ids=lambda x: x if isinstance(x, str) else getattr(x, "__name__", "")
)
def test_each_function_the_harness_rests_on_is_watched(owner, name):
    seen = FunctionWatch()._seen
    assert any(place.owner is owner and place.name == name for place in seen)


def test_the_reference_is_watched_too():
    import reference.nvfp4
    import reference.reference as checks

    watch = FunctionWatch()
    for owner, name in ((checks, "RTOL"), (checks, "ref_kernel"), (reference.nvfp4, "decode")):
        value = getattr(owner, name)
        try:
            setattr(owner, name, lambda *_: None)
            assert watch.replaced() == f"{owner.__name__}.{name}"
        finally:
            setattr(owner, name, value)
    assert watch.replaced() is None


def spans_of(begin, end):
    """A tensor of these bytes of a made-up memory, as its extent."""
    return (begin, end)


@pytest.mark.parametrize(
    ("shape", "strides", "count"),
    [
        ((2, 3), (3, 1), 6),
        ((2, 3), (10, 1), 13),
        ((2, 3), (1, 2), 6),
        ((1, 1), (7, 9), 1),
        ((4,), (0,), 1),
        ((2, 2, 2), (1, 2, 100), 104),
    ],
)
def test_an_extent_goes_from_the_first_byte_to_the_one_after_the_last(shape, strides, count):
    memory = torch.zeros(200, dtype=torch.int16)
    tensor = torch.as_strided(memory[3:], shape, strides)
    assert extent(tensor) == (memory.data_ptr() + 6, memory.data_ptr() + 6 + 2 * count)
    empty = memory[:0]
    assert extent(empty) == (empty.data_ptr(), empty.data_ptr())


@pytest.mark.parametrize("kind", ["input", "output of an earlier call"])
def test_an_output_may_touch_other_memory_and_not_reach_into_it(kind):
    c = torch.zeros(8, 4, 1, dtype=torch.float16)
    begin, end = extent(c)
    assert end - begin == 64
    for span, apart in (
        ((begin - 10, begin), True),
        ((begin - 10, begin + 1), False),
        ((begin, end), False),
        ((begin + 3, begin + 4), False),
        ((end - 1, end + 10), False),
        ((end, end + 10), True),
    ):
        other = [(0, 1), span]
        problem = output_problem(c, c, other, []) if kind == "input" else output_problem(c, c, [], other)
        article = "an" if kind == "input" else "the"
        assert problem == (None if apart else f"the output shares memory with {article} {kind}")


class Derived(torch.Tensor):
    pass


@pytest.mark.parametrize(
    ("spoil", "said"),
    [
        (lambda c: None, "the output is a NoneType; expected a plain torch.Tensor"),
        (lambda c: c.as_subclass(Derived), "the output is a Derived; expected a plain torch.Tensor"),
        (lambda c: torch.nn.Parameter(c), "the output is a Parameter; expected a plain torch.Tensor"),
        (lambda c: c.to_sparse(), "the output has layout torch.sparse_coo; expected torch.strided"),
        (lambda c: c[:, :1], "the output has shape (2, 1, 2); expected (2, 2, 2)"),
        (lambda c: c.bfloat16(), "the output has dtype torch.bfloat16; expected torch.float16"),
        (lambda c: c.to("meta"), "the output is on meta; expected cpu"),
        (lambda c: torch._neg_view(c), "the output is a lazy view of other data; expected plain memory"),
        (
            lambda c: torch._efficientzerotensor(c.shape, dtype=c.dtype),
            "the output is a lazy view of other data; expected plain memory",
        ),
        (lambda c: c.contiguous(), "the output has strides (4, 2, 1); expected (2, 1, 4)"),
    ],
)
def test_each_rule_of_an_outputs_form_is_told_in_full(spoil, said):
    c = torch.zeros(2, 2, 2, dtype=torch.float16).permute(1, 2, 0)
    assert c.stride() == (2, 1, 4)
    assert output_problem(spoil(c.clone() if said.endswith("(2, 1, 4)") else c), c, [], []) == said


def test_a_lazy_conjugate_is_told():
    c = torch.zeros(2, dtype=torch.complex64)
    assert "lazy view" in output_problem(c.conj(), c, [], [])


def test_strides_of_size_one_dimensions_are_free():
    c = torch.zeros(2, 1, 1, dtype=torch.float16)
    assert (
        output_problem(torch.zeros(2, 1, 1, dtype=torch.float16).as_strided((2, 1, 1), (1, 50, 60)), c, [], []) is None
    )


@pytest.mark.parametrize("count", [1, 7, 8, 9, 15, 16, 17, 24])
def test_a_fingerprint_changes_with_each_single_byte_of_any_length(count):
    memory = torch.arange(1, count + 1, dtype=torch.uint8)
    before = fingerprint(memory)
    for i in range(count):
        changed = memory.clone()
        changed[i] ^= 0x80
        assert not torch.equal(fingerprint(changed), before), i
    assert torch.equal(fingerprint(memory.clone()), before)


# --- the timer ----------------------------------------------------------------------------------------


def test_a_cpus_round_times_the_calls_and_nothing_beside_them(monkeypatch):
    now, events = [0], []
    monkeypatch.setattr(timing, "now_ns", lambda: now[0])

    def passing(name, ns):
        def run(i):
            events.append((name, i))
            now[0] += ns * (i + 1 if name == "call" else 1)

        return run

    def calls():
        return Calls(
            passing("publish", 7000),
            passing("call", 1000),
            passing("returned", 90000),
            3,
            lambda name: events.append(name),
        )

    assert CpuTimer().single_us(calls()) == [1.0, 2.0, 3.0]
    assert events == [
        *(("publish", i) for i in range(3)),
        "begin",
        *((name, i) for i in range(3) for name in ("call", "returned")),
        "end",
    ]
    assert CpuTimer().round_us(calls()) == 2.0


# --- a round of the worker ----------------------------------------------------------------------------

SHAPE = (8, 16, 64, 2)


@pytest.fixture
def worker_of(monkeypatch):
    def make(kernel, shape=SHAPE):
        monkeypatch.setattr(worker_module, "_load", lambda path: kernel)
        monkeypatch.setattr(worker_module, "SETTLE_S", 0.0)
        marks = []
        worker = Worker(Setup("", shape, "cpu", ""), marks.append)
        worker.marks = marks
        return worker

    return make


def test_outputs_are_nan_until_they_are_written(worker_of):
    seen = []
    worker = worker_of(lambda data: seen.append(data[-1].isnan().all().item()) or data[-1])
    worker.check([1, 2])
    worker.check([3])
    assert seen == [True] * 3
    for index in range(2):
        raw = torch.frombuffer(bytearray(worker.output_bytes(index)), dtype=torch.float16)
        assert raw.isnan().all()


def test_an_outputs_bytes_lie_as_batches_of_rows(worker_of):
    wanted = torch.arange(2 * 8 * 16, dtype=torch.float16).view(2, 8, 16)
    worker = worker_of(lambda data: data[-1].copy_(wanted.permute(1, 2, 0)))
    worker.check([1])
    assert torch.equal(torch.frombuffer(bytearray(worker.output_bytes(0)), dtype=torch.float16).view(2, 8, 16), wanted)


def test_every_input_of_a_round_is_fresh_and_behind_the_same_pointers(worker_of):
    seen = []

    def kernel(data):
        seen.append(([x.data_ptr() for x in data], [x.view(torch.uint8).clone() for x in data[:-1]]))
        return data[-1].fill_(0)

    worker = worker_of(kernel)
    worker.check([1, 2])
    worker.check([3, 4])
    assert [pointers for pointers, _ in seen[:2]] == [pointers for pointers, _ in seen[2:]]
    for seed, (_, contents) in zip((1, 2, 3, 4), seen, strict=True):
        wanted = generate_input(*SHAPE, seed, device="cpu")
        assert all(torch.equal(x, y.view(torch.uint8)) for x, y in zip(contents, wanted[:-1], strict=True))


@pytest.mark.parametrize("index", range(9))
@pytest.mark.parametrize("which", [0, 1])
def test_a_change_of_any_input_of_any_call_is_found(worker_of, which, index):
    count = [0]

    def kernel(data):
        if count[0] == which:
            data[index].view(torch.uint8)[(0,) * data[index].ndim] ^= 1
        count[0] += 1
        return data[-1].fill_(0)

    with pytest.raises(Failure, match=r"^the submission modified its inputs$"):
        worker_of(kernel).check([1, 2])


@pytest.mark.parametrize("which", [0, 1])
def test_a_write_to_an_output_after_its_call_is_found(worker_of, which):
    outputs = []

    def kernel(data):
        outputs.append(data[-1].fill_(0))
        if len(outputs) == 2:
            worker.later = lambda: outputs[which][(-1,) * 3].fill_(1)
        return data[-1]

    worker = worker_of(kernel)
    worker._sleep = lambda seconds: worker.later()
    with pytest.raises(Failure, match=r"^an output changed after the call had returned$"):
        worker.check([1, 2])


def test_the_same_memory_may_not_be_returned_twice(worker_of):
    kept = []

    def kernel(data):
        kept.append(data[-1])
        return kept[0].fill_(0)

    with pytest.raises(Failure, match="shares memory with the output of an earlier call"):
        worker_of(kernel).check([1, 2])


@pytest.mark.parametrize("index", range(9))
@pytest.mark.parametrize(("call", "of"), [(0, 0), (1, 0), (0, 1)])
def test_memory_of_any_calls_input_is_no_output(worker_of, call, of, index):
    """The submission knows the pointers from the round before."""
    inputs, honest = [], [True]

    def kernel(data):
        inputs.append(data)
        if honest[0] or len(inputs) != 3 + call:
            return data[-1].fill_(0)
        memory = inputs[of][index]
        return torch.as_strided(memory.view(torch.uint8), (4,), (1,)).view(torch.float16).view(data[-1].shape)

    worker = worker_of(kernel, (2, 1, 64, 1))
    worker.check([1, 2])
    honest[0] = False
    with pytest.raises(Failure, match=r"^the output shares memory with an input$"):
        worker.check([3, 4])


def test_a_function_replaced_during_a_round_is_found(worker_of, monkeypatch):
    def kernel(data):
        monkeypatch.setattr(torch, "isclose", lambda *_: True)
        return data[-1].fill_(0)

    with pytest.raises(Failure, match=r"^the submission replaced torch\.isclose, which the harness relies on$"):
        worker_of(kernel).check([1])


def test_garbage_is_not_collected_while_calls_are_timed(worker_of):
    enabled = []
    worker = worker_of(lambda data: enabled.append(gc.isenabled()) or data[-1].fill_(0))
    worker.check([1])
    assert enabled == [False]
    assert gc.isenabled()
    with pytest.raises(Failure):
        worker_of(lambda data: 1 / 0).check([1])
    assert gc.isenabled()


@pytest.mark.parametrize("extra", [0, 1, 3])
def test_timed_rounds_come_after_a_random_number_of_further_calls(worker_of, monkeypatch, extra):
    limits, count = [], [0]

    def kernel(data):
        count[0] += 1
        return data[-1].fill_(0)

    worker = worker_of(kernel)
    worker.check([1, 2, 3])
    assert count == [3]

    def randbelow(limit):
        limits.append(limit)
        return extra if len(limits) == 1 else limit - 1

    monkeypatch.setattr(worker_module.secrets, "randbelow", randbelow)
    answer = worker.time_round([4, 5])
    assert count == [3 + extra + 2]
    assert limits == [4, *[3] * extra]
    assert set(answer) == {"mean_us"} and answer["mean_us"] > 0
    assert worker.marks == [{"mark": name} for name in ("begin", "end") * 2]
    assert len(worker.time_single([6, 7])["single_us"]) == 2


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        (lambda data: 1 / 0, r"custom_kernel failed: ZeroDivisionError: division by zero \(test_eval_parts\.py:\d+\)"),
        (lambda data: exec("raise SystemExit(3)"), "custom_kernel failed: SystemExit: 3"),
        (lambda data: None, "the output is a NoneType"),
    ],
)
def test_what_a_submission_raises_is_told_with_its_place(worker_of, kernel, reason):
    with pytest.raises(Failure, match=f"^{reason}"):
        worker_of(kernel).check([1])


@pytest.mark.parametrize(
    ("text", "reason"),
    [
        ("", "^the submission has no function custom_kernel$"),
        ("custom_kernel = 3", "^the submission has no function custom_kernel$"),
        ("raise ValueError('x')", r"^import failed: ValueError: x \(submission\.py:1\)$"),
        ("def f(:", r"^import failed: SyntaxError"),
    ],
)
def test_a_file_that_is_no_submission_is_told(tmp_path, monkeypatch, text, reason):
    path = tmp_path / "submission.py"
    path.write_text(text)
    monkeypatch.setattr("sys.path", [*__import__("sys").path])
    with pytest.raises(Failure, match=reason):
        worker_module._load(str(path))


INSIDE = """
import ctypes, os, sys, torch
from task import input_t, output_t
import beside

assert input_t == tuple[torch.Tensor, ...] and output_t is torch.Tensor
assert sys.argv == ["submission.py"], sys.argv
assert os.environ["CUTE_DSL_DISABLE_FILE_CACHING"] == "1"
assert not {"POPCORN_FD", "POPCORN_SEED"} & set(os.environ)
assert os.getsid(0) == os.getpid(), "a session of its own"
signal = ctypes.c_int()
assert ctypes.CDLL(None).prctl(2, ctypes.byref(signal)) == 0 and signal.value == 9  # ends with its parent
for i in range(9):
    print(f"line {i}")
os.write(2, b"and an error\\n")
raise ValueError("seen it all")
"""


def test_a_submission_runs_by_itself_with_what_the_leaderboard_gives_it(tmp_path, monkeypatch):
    (tmp_path / "beside.py").write_text("")
    path = tmp_path / "kernel.py"
    path.write_text(INSIDE)
    monkeypatch.setenv("POPCORN_SEED", "9")
    result = supervisor.run_test(path, CASE, CPU, Limits(answer_s=60))
    assert re.fullmatch(r"import failed: ValueError: seen it all \(kernel\.py:\d+\)", result.error), result.error
    assert [line for line in result.printed.splitlines() if line.startswith("line")] == [f"line {i}" for i in range(9)]
    assert "and an error" in result.printed


def test_a_worker_that_ends_is_told_with_its_last_five_lines(tmp_path):
    path = tmp_path / "kernel.py"
    path.write_text("import os\nfor i in range(9):\n    print(f'line {i}', flush=True)\nos._exit(7)\n")
    result = supervisor.run_test(path, CASE, CPU, Limits(answer_s=60))
    lines = " / ".join(f"line {i}" for i in range(4, 9))
    assert result.error == f"the worker ended by itself: exit code 7; it printed: {lines}"


def test_what_is_kept_of_the_clock_is_its_median(tmp_path):
    worker = half_a_worker()
    worker._clocks_mhz = [1000, 1900, 1200]
    worker._end = lambda: None
    worker._connection = SimpleNamespace(close=lambda: None)
    worker._log = tmp_path / "log.txt"
    worker._log.write_text("what it printed")
    worker._folder = SimpleNamespace(cleanup=lambda: None)
    worker.close()
    assert worker.sent == [None]
    assert worker._result.clock_mhz == 1200
    assert worker._result.printed == "what it printed"
