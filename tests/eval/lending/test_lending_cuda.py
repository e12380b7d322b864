"""Lending on a GPU, tested without one: canaries, the order of queued work, and the timed part of the core."""

from __future__ import annotations

import pytest
import torch

from eval.lending import cuda
from eval.lending.canaries import SEGMENT_BYTES, WEIGHT_ROWS, Canaries
from eval.lending.cuda import BUSY_ROUNDS_EXCUSED
from eval.lending.cuda_runtime import CudaError, Runtime
from eval.lending.layout import Layout, copy_in
from eval.timing import Core, CoreError, Timed
from eval.workers import channel
from reference.problems.dual_gemm import DualGemm
from reference.reference import generate_input, ref_kernel
from tests.eval.lending.cuda_kit import FakeDevice, lend

SHAPE = DualGemm(160, 256, 1024, 1)
CPU = torch.device("cpu")


def memory_of(layout, *seeds):
    memory = torch.empty(len(seeds) * layout.input_bytes, dtype=torch.uint8)
    inputs = copy_in(layout, memory, (generate_input(*SHAPE, seed, device="cpu")[:-1] for seed in seeds))
    return memory, inputs


# --- canaries -----------------------------------------------------------------------------------------


def test_canaries_spoil_every_row_and_many_columns_and_are_put_right():
    layout = Layout(SHAPE)
    memory, inputs = memory_of(layout, 1, 2)
    whole = memory.clone()
    c = torch.empty(SHAPE[0], SHAPE[1], 1, dtype=torch.float16)
    right = [ref_kernel((*tensors, c)) for tensors in inputs]
    canaries = Canaries(layout, memory, 2)
    # A result of the weights before they are right, and of A after it.
    early = [(data[0].view(torch.uint8).clone(), *data[1:]) for data in layout_copies(layout, memory, 2)]
    spoiled = [ref_kernel((*tensors, c)) for tensors in inputs]
    for got, want in zip(spoiled, right, strict=True):
        close = (got.float() - want.float()).abs() <= 1e-3 + 1e-3 * want.float().abs()
        assert close.float().mean() < 0.2  # where the gate is far below zero, everything is nearly zero
        assert not close.all(dim=1).any()
    canaries.complete(memory)
    assert torch.equal(memory, whole)
    for old, now, want in zip(early, inputs, right, strict=True):
        got = ref_kernel((now[0], *old[1:], c))
        close = (got.float() - want.float()).abs() <= 1e-3 + 1e-3 * want.float().abs()
        assert (~close).any(dim=0).sum() > 60  # of the 128 that have a canary


def layout_copies(layout, memory, count):
    copy = memory.clone()
    return [layout.input(copy, index) for index in range(count)]


def test_canaries_are_few_and_nowhere_twice():
    layout = Layout(DualGemm(256, 4096, 7168, 1))
    memory = torch.randint(256, (layout.input_bytes,), dtype=torch.uint8)
    whole = memory.clone()
    first = Canaries(layout, memory, 1)
    assert (memory != whole).sum() <= (256 + 2 * WEIGHT_ROWS) * SEGMENT_BYTES < 0.001 * memory.numel()
    first.complete(memory)
    second = Canaries(layout, memory, 1)
    assert not torch.equal(first.places.sort()[0], second.places.sort()[0])


# --- the order of what is queued ------------------------------------------------------------------------


@pytest.fixture
def lent(monkeypatch):
    return lend(monkeypatch, Layout(SHAPE))


def generated(*seeds):
    return [generate_input(*SHAPE, seed, device="cpu")[:-1] for seed in seeds]


def same(tensors, others):
    return all(torch.equal(x.view(torch.uint8), y.view(torch.uint8)) for x, y in zip(tensors, others, strict=True))


def test_inputs_become_whole_after_the_flush_and_before_the_event(lent, monkeypatch):
    wanted, states = generated(3, 4), []

    def state():
        return [same(tensors, right) for tensors, right in zip(lent.borrower.inputs, wanted, strict=True)]

    def record(event):
        states.append(("record", event, state()))

    lent.lender._flush.fill_ = lambda value: states.append(("flush", state()))
    monkeypatch.setattr(lent.lender._runtime, "record", record)
    monkeypatch.setattr(lent.mine, "send_bytes", lambda raw, fds=(): states.append(("word", raw, state())))
    staged = lent.lender.stage(wanted)
    assert state() == [False, False]
    lent.lender.begin(lent.mine)
    flushes = [("flush", [False, False])] * cuda.FLUSH_FILLS
    assert states[: len(flushes)] == flushes
    began, whole = lent.lender._began, lent.lender._whole
    assert whole > 100, "the shared event"
    assert states[len(flushes) :] == [
        ("record", began, [True, True]),
        ("record", whole, [True, True]),
        ("word", b"g", [True, True]),
    ]
    assert all(same(tensors, right) for tensors, right in zip(staged, wanted, strict=True)), "the parent's own"
    assert not lent.lender.modified()
    lent.borrower.inputs[1][8].view(torch.uint8)[(-1,) * 6] ^= 1
    assert lent.lender.modified()


def test_before_the_flush_each_input_is_all_there_but_for_the_canaries(lent, monkeypatch):
    wanted = generated(3, 4)
    lent.lender.stage(wanted)
    seen = []
    lent.lender._flush.fill_ = lambda value: seen or seen.append(lent.lender._inputs.clone())
    lent.lender.begin(lent.mine)
    differ = (seen[0] != lent.lender._inputs).sum().item()
    assert 0 < differ <= 2 * (SHAPE[0] + 2 * WEIGHT_ROWS) * SEGMENT_BYTES


def test_a_single_call_has_a_flush_of_its_own(lent):
    lent.lender.stage(generated(3))
    lent.lender.begin(lent.mine)
    assert lent.done.count("flush") == 8  # GiB written: some 2 ms on an H200, longer than the host's part of a call


def test_outputs_are_copied_before_the_parents_clock_stops(lent):
    lent.lender.stage(generated(3, 4))
    assert all(kept.isnan().all() for kept in lent.borrower.kept)
    for i, kept in enumerate(lent.borrower.kept):
        kept.fill_(i + 1)
    lent.done.clear()
    outputs = lent.lender.take(2)
    ended = lent.lender._ended
    assert lent.done == [("record", ended), ("wait for", ended)]
    assert lent.lender.span_us == 1000.0 * lent.lender._began + ended
    for kept in lent.borrower.kept:
        kept.fill_(9)
    assert [(output == i + 1).all().item() for i, output in enumerate(outputs)] == [True, True]
    lent.lender.close()
    assert lent.done.count("free") == 2


@pytest.mark.parametrize(
    ("queue", "rest_us", "said"),
    [
        ("the default queue", 199.0, None),
        ("the default queue", 201.0, "the device was busy for 201 us after the default queue was done"),
        ("another", 0.0, "the submission made another queue the current one"),
    ],
)
def test_what_makes_a_gpus_time_meaningless(lent, queue, rest_us, said):
    lent.borrower._current_queue = lambda: queue
    lent.borrower._busy_rounds = BUSY_ROUNDS_EXCUSED
    assert lent.borrower.problem(Timed(1000.0, rest_us)) == said


def test_two_delayed_rounds_are_excused_as_a_busy_host(lent):
    lent.borrower._current_queue = lambda: "the default queue"
    late, prompt = Timed(1000.0, 201.0), Timed(1000.0, 0.0)
    assert [lent.borrower.problem(timed) for timed in (late, prompt, late, prompt)] == [None] * 4
    assert "was busy for 201 us" in lent.borrower.problem(late)


# --- the core ----------------------------------------------------------------------------------------------


def round_on(device, kernel, returned, data, copied=0):
    mine, theirs = (channel.Channel(end) for end in channel.pair())
    mine.send_bytes(b"g")
    core = Core(theirs.fileno(), cuda=device.table, outputs=(80, 90, 16))
    return core.round(kernel, returned, data, 0, None, copied)


def test_calls_stand_between_two_events_after_a_wait_for_the_parents():
    device = FakeDevice()
    timed = round_on(
        device,
        lambda data: device.done.append(("call", data[0])) or data[data[0]],
        lambda data, output: device.done.append(("returned", data, output)),
        [(1, "its own"), (0, "offered"), (1, "offered")],
        copied=3,
    )
    assert device.done == [
        ("wait", 70, 71, 0),
        ("record", 72, 70),
        ("call", 1),
        ("call", 0),
        ("call", 1),
        ("record", 73, 70),
        ("copy", 90, 80, 48, 3, 70),
        ("returned", (0, "offered"), 0),
        ("record", 74, 70),
        ("event", 74),
        ("device",),
        ("elapsed", 72, 73),
    ]
    assert timed.total_us == 250.0 and 0 <= timed.rest_us < 1e6


@pytest.mark.parametrize("failing", ["record", "wait", "event", "device", "elapsed", "copy"])
def test_a_cuda_call_that_fails_is_told(failing):
    with pytest.raises(CoreError, match=r"^CUDA error 7$"):
        round_on(FakeDevice(failing), lambda data: data[0], lambda data, output: None, [(1,), (2,)], copied=2)


@pytest.mark.parametrize("raising", ["kernel", "returned"])
def test_no_output_is_kept_of_a_round_that_raised(raising):
    class Output:
        alive = 0

        def __init__(self):
            Output.alive += 1

        def __del__(self):
            Output.alive -= 1

    def kernel(data):
        if raising == "kernel" and data[0] == 3:
            raise ValueError("the third")
        return Output()

    def returned(data, output):
        if raising == "returned":
            raise ValueError("the third")

    for _ in range(3):
        with pytest.raises(ValueError, match="the third"):
            round_on(FakeDevice(), kernel, returned, [(1,), (2,), (3,)])
    assert Output.alive == 0


# --- the runtime's calls -----------------------------------------------------------------------------------


def test_a_failing_call_of_the_runtime_is_told_by_name():
    class Library:
        def __getattr__(self, name):
            def call(*arguments):
                return b"out of memory" if name == "cudaGetErrorString" else 2

            return call

    with pytest.raises(CudaError, match=r"^cudaMalloc: error 2, out of memory$"):
        Runtime(Library()).allocate(5)
    assert Runtime(Library()).attribute(13, 0) == 0
