"""A round by itself: both ends of the line in one process, with the compiled core between them."""

from __future__ import annotations

import gc
import os
import time
from pathlib import Path

import pytest
import torch

import eval.workers.worker as worker_module
from eval.timing import CoreError, ParentGone
from eval.workers import channel
from eval.workers.worker import Failure
from reference.problems.dual_gemm import DualGemm
from reference.reference import generate_input
from tests.eval.lending.round_kit import Pair

SHAPE = DualGemm(8, 16, 64, 2)


@pytest.fixture
def pair_of(monkeypatch):
    monkeypatch.setattr(worker_module, "SETTLE_S", 0.0)
    monkeypatch.setattr(worker_module.secrets, "randbelow", lambda limit: 0)
    return lambda kernel, shape=SHAPE: Pair(kernel, shape)


def test_inputs_lie_in_memory_as_the_leaderboard_lays_them_out(pair_of):
    shape, seen = DualGemm(40, 72, 128, 2), []
    pair = pair_of(lambda data: seen.append(data) or data[-1].fill_(0), shape)
    pair.round(5, 6)
    for data, seed in zip(seen, (5, 6), strict=True):
        for got, want in zip(data, generate_input(*shape, seed, device="cpu"), strict=True):
            assert (got.shape, got.stride(), got.dtype) == (want.shape, want.stride(), want.dtype)
            assert got is data[-1] or torch.equal(got.view(torch.uint8), want.view(torch.uint8))


def test_inputs_are_unknown_until_the_word_and_then_behind_the_same_pointers(pair_of):
    seen = []

    def kernel(data):
        seen.append(([x.data_ptr() for x in data], [x.view(torch.uint8).clone() for x in data[:-1]]))
        return data[-1].fill_(0)

    pair = pair_of(kernel)
    pair.round(1, 2)
    pair.lender.stage(generate_input(*SHAPE, seed, device="cpu")[:-1] for seed in (3, 4))
    before = [x.view(torch.uint8).clone() for x in pair.worker._data[0][:-1]]
    assert all(torch.equal(x, y) for x, y in zip(before, seen[0][1], strict=True)), "the last round's"
    pair.round(3, 4)
    assert [pointers for pointers, _ in seen[:2]] == [pointers for pointers, _ in seen[2:]]
    for seed, (_, contents) in zip((1, 2, 3, 4), seen, strict=True):
        wanted = generate_input(*SHAPE, seed, device="cpu")
        assert all(torch.equal(x, y.view(torch.uint8)) for x, y in zip(contents, wanted[:-1], strict=True))


def test_outputs_are_nan_until_they_are_written(pair_of):
    seen = []
    pair = pair_of(lambda data: seen.append(data[-1].isnan().all().item()) or data[-1])
    assert all(output.isnan().all() for output in pair.round(1, 2))
    pair.round(3)
    assert seen == [True] * 3


def test_lent_memory_for_outputs_is_nan_until_something_is_handed_over(pair_of):
    pair = pair_of(lambda data: data[-1].fill_(1))
    pair.round(1, 2)
    pair.lender.stage(generate_input(*SHAPE, seed, device="cpu")[:-1] for seed in (3, 4))
    assert all(output.isnan().all() for output in pair.lender.take(2))


def test_the_parent_takes_what_the_calls_returned(pair_of):
    wanted = torch.arange(2 * 8 * 16, dtype=torch.float16).view(2, 8, 16).permute(1, 2, 0)
    pair = pair_of(lambda data: data[-1].copy_(wanted))
    (output,) = pair.round(1)
    assert torch.equal(output, wanted) and output.stride() == (16, 1, 128)
    pair.worker._borrower.kept[0].fill_(0)
    assert torch.equal(output, wanted), "a copy of its own"


def test_a_round_says_ready_then_done_with_the_time_of_its_calls(pair_of):
    def kernel(data):
        time.sleep(0.01)
        return data[-1].fill_(0)

    pair = pair_of(kernel)
    begin = time.monotonic()
    pair.round(1, 2)
    assert pair.said[0] == {"ready": None}
    ((kind, total_us),) = pair.said[1].items()
    assert kind == "done"
    assert 20e3 <= total_us <= pair.lender.span_us <= (time.monotonic() - begin) * 1e6


def test_what_comes_after_a_call_is_not_in_its_time_but_in_the_parents(pair_of, monkeypatch):
    pair = pair_of(lambda data: data[-1].clone())
    monkeypatch.setattr(pair.worker, "_copy", lambda kept, output: time.sleep(0.05) or kept.copy_(output))
    calls_us = []
    for _ in range(9):  # the least: a busy machine makes any call long
        pair.round(1, 2)
        calls_us.append(pair.said[1]["done"])
        assert pair.lender.span_us > 100e3
        if calls_us[-1] < 50e3:
            break
    assert min(calls_us) < 50e3


@pytest.mark.parametrize("index", range(9))
@pytest.mark.parametrize("which", [0, 1])
def test_a_change_of_any_input_of_any_call_is_found_by_the_parent(pair_of, which, index):
    count = [0]

    def kernel(data):
        if count[0] == which:
            data[index].view(torch.uint8)[(-1,) * data[index].ndim] ^= 1
        count[0] += 1
        return data[-1].fill_(0)

    pair = pair_of(kernel)
    pair.round(1, 2)
    assert pair.lender.modified()
    wanted = generate_input(*SHAPE, 1 + which, device="cpu")[index]
    assert torch.equal(pair.staged[which][index].view(torch.uint8), wanted.view(torch.uint8)), "the parent's own"
    pair.worker._kernel = lambda data: data[-1].fill_(0)
    pair.round(1, 2)
    assert not pair.lender.modified()


def test_the_worker_cannot_take_lent_memory_from_under_the_parent(pair_of):
    pair = pair_of(lambda data: data[-1])
    pair.lender.stage([generate_input(*SHAPE, 1, device="cpu")[:-1]])
    for descriptor in (pair.lender._outputs.descriptor, pair.lender._lent.descriptor):
        for size in (0, 1 << 30):
            with pytest.raises(PermissionError):
                os.ftruncate(descriptor, size)


@pytest.mark.parametrize("which", [0, 1])
def test_a_write_to_an_output_after_its_call_is_found(pair_of, which):
    outputs = []

    def kernel(data):
        outputs.append(data[-1].fill_(0))
        return data[-1]

    pair = pair_of(kernel)
    pair.worker._sleep = lambda seconds: outputs[which][(-1,) * 3].fill_(1)
    with pytest.raises(Failure, match=r"^an output changed after the call had returned$"):
        pair.round(1, 2)


def test_the_same_memory_may_not_be_returned_twice(pair_of):
    kept = []

    def kernel(data):
        kept.append(data[-1])
        return kept[0].fill_(0)

    with pytest.raises(Failure, match="shares memory with the output of an earlier call"):
        pair_of(kernel).round(1, 2)


@pytest.mark.parametrize("index", [0, 4, 8])
@pytest.mark.parametrize(("call", "of"), [(0, 0), (1, 0), (0, 1)])
def test_memory_of_any_calls_input_is_no_output(pair_of, call, of, index):
    calls = [0]

    def kernel(data):
        calls[0] += 1
        if calls[0] != 1 + call:
            return data[-1].fill_(0)
        memory = pair.worker._data[of][index]
        return torch.as_strided(memory.view(torch.uint8), (4,), (1,)).view(torch.float16).view(data[-1].shape)

    pair = pair_of(kernel, DualGemm(2, 1, 64, 1))
    with pytest.raises(Failure, match=r"^the output shares memory with an input$"):
        pair.round(1, 2)


def test_the_memory_that_outputs_are_kept_in_is_no_output(pair_of):
    pair = pair_of(lambda data: pair.worker._borrower.kept[0])
    with pytest.raises(Failure, match="shares memory with"):
        pair.round(1)


def test_an_offered_output_keeps_its_memory(pair_of):
    with pytest.raises(Failure, match=r"^the offered output has other memory now; expected results in its own$"):
        pair_of(lambda data: data[-1].set_(data[-1].clone())).round(1)


def test_an_output_that_has_a_gradient_is_one(pair_of):
    pair = pair_of(lambda data: data[-1].fill_(2).detach().requires_grad_())
    (output,) = pair.round(1)
    assert (output == 2).all() and not output.requires_grad


def test_garbage_is_not_collected_while_calls_are_timed(pair_of):
    enabled = []
    pair = pair_of(lambda data: enabled.append(gc.isenabled()) or data[-1].fill_(0))
    pair.round(1)
    assert enabled == [False] and gc.isenabled()
    with pytest.raises(Failure):
        pair_of(lambda data: 1 / 0).round(1)
    assert gc.isenabled()


@pytest.mark.parametrize("extra", [0, 1, 3])
def test_rounds_come_after_a_random_number_of_further_calls(pair_of, monkeypatch, extra):
    limits, count = [], [0]

    def kernel(data):
        count[0] += 1
        return data[-1].fill_(0)

    def randbelow(limit):
        limits.append(limit)
        return extra if len(limits) == 1 else limit - 1

    monkeypatch.setattr(worker_module.secrets, "randbelow", randbelow)
    pair = pair_of(kernel)
    pair.round(1, 2)
    assert (count, limits) == ([2], []), "no input has been seen before"
    pair.round(4, 5)
    assert count == [2 + extra + 2]
    assert limits == [4, *[2] * extra]


@pytest.mark.parametrize(
    ("kernel", "reason"),
    [
        (
            lambda data: 1 / 0,
            r"custom_kernel failed: ZeroDivisionError: division by zero \(test_worker_rounds\.py:\d+\)",
        ),
        (lambda data: exec("raise SystemExit(3)"), "custom_kernel failed: SystemExit: 3"),
        (lambda data: None, "the output is a NoneType"),
    ],
)
def test_what_a_submission_raises_is_told_with_its_place(pair_of, kernel, reason):
    with pytest.raises(Failure, match=f"^{reason}"):
        pair_of(kernel).round(1)


def test_a_parent_that_is_gone_ends_the_round(pair_of):
    pair = pair_of(lambda data: data[-1])
    pair.parent.close()
    pair.worker._send = lambda message: None
    with pytest.raises(ParentGone):
        pair.worker.round(1)


@pytest.mark.parametrize("word", [b"x", b"gg"])
def test_another_word_begins_nothing(pair_of, word):
    pair = pair_of(lambda data: pytest.fail("called"))
    pair.parent.send_bytes(word)
    with pytest.raises(ParentGone):
        pair.worker.round(1)


def test_a_word_without_memory_begins_nothing(pair_of):
    pair = pair_of(lambda data: pytest.fail("called"))
    pair.parent.send_bytes(b"g")
    with pytest.raises(CoreError, match="the lent memory cannot be mapped"):
        pair.worker.round(1)


# --- the line -----------------------------------------------------------------------------------------


def test_silence_and_a_line_that_is_cut_are_told_apart():
    mine, theirs = (channel.Channel(end) for end in channel.pair())
    begin = time.monotonic()
    with pytest.raises(channel.Silence):
        mine.receive(begin + 0.05)
    assert time.monotonic() - begin >= 0.05
    theirs.send({"x": 1})
    theirs.send({"y": 2})
    assert [mine.receive(begin), mine.receive(None)] == [b'{"x": 1}', b'{"y": 2}']
    theirs.close()
    with pytest.raises(EOFError):
        mine.receive(time.monotonic() + 5)
    with pytest.raises(OSError, match="Broken pipe"):
        mine.send({})


def test_what_is_lent_for_a_round_is_given_back(pair_of):
    pair = pair_of(lambda data: data[-1].fill_(0))
    pair.round(1)
    gc.collect()  # what other tests have left must not be closed while descriptors are counted
    held = len(list(Path("/proc/self/fd").iterdir()))
    for seed in range(4):
        pair.round(seed)
    assert len(list(Path("/proc/self/fd").iterdir())) == held
    lent = pair.lender._lent
    pair.lender.close()
    assert pair.lender._lent is None
    with pytest.raises(OSError, match="Bad file descriptor"):
        os.fstat(lent.descriptor)
