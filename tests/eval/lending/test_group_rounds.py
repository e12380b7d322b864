"""Rounds of a problem whose input is a list of groups and whose output is a list of tensors."""

from __future__ import annotations

import pytest
import torch

import eval.workers.worker as worker_module
from eval.lending.canaries import SEGMENT_BYTES, Canaries
from eval.lending.layout import Layout, copy_in
from eval.workers.worker import Failure
from examples.submission import custom_kernel as honest
from reference import group_reference
from reference.problems.group_gemm import GroupGemm
from reference.problems.interface import BOARD
from tests.adversarial.grouped import hides_time, modifies_scales
from tests.eval.lending.cuda_kit import FakeDevice, lend
from tests.eval.lending.round_kit import CPU, Pair

SHAPE = GroupGemm((40, 0, 8), (16, 24, 8), (128, 64, 64))


@pytest.fixture
def pair_of(monkeypatch):
    monkeypatch.setattr(worker_module, "SETTLE_S", 0.0)
    monkeypatch.setattr(worker_module.secrets, "randbelow", lambda limit: 0)
    return lambda kernel: Pair(kernel, SHAPE)


def flat(data):
    """Every tensor of the leaderboard's lists."""
    return [tensor for members in data[:3] for group in members for tensor in group]


def test_a_call_is_given_the_leaderboards_lists(pair_of):
    seen = []
    pair = pair_of(lambda data: seen.append(data) or honest(data))
    outputs = pair.round(5, 6)
    for data, seed, output in zip(seen, (5, 6), outputs, strict=True):
        wanted = group_reference.generate_input(*SHAPE, 3, seed, device="cpu")
        assert data[3] == wanted[3] == [(40, 16, 128, 1), (0, 24, 64, 1), (8, 8, 64, 1)]
        for index, (got, want) in enumerate(zip(flat(data), flat(wanted), strict=True)):
            assert (got.shape, got.dtype, got.device) == (want.shape, want.dtype, want.device)
            assert got.numel() == 0 or got.stride() == want.stride()
            assert index in (2, 5, 8) or torch.equal(got.view(torch.uint8), want.view(torch.uint8))
        assert group_reference.check_implementation(data, output) == (True, "")


def test_every_output_of_a_list_is_nan_until_it_is_written(pair_of):
    seen = []
    pair = pair_of(lambda data: seen.extend(c.isnan().all().item() for _, _, c in data[0]) or honest(data))
    assert not any(part.isnan().any() for output in pair.round(1, 2) for part in output)
    assert seen == [True] * 6
    pair.worker._kernel = lambda data: tuple(c.fill_(0) if c.shape[0] == 40 else c for _, _, c in data[0])
    (output,) = pair.round(3)  # a tuple does as well
    assert not output[0].isnan().any() and output[2].isnan().all()


def as_output(tensor):
    """The first bytes of a tensor as an output of 8 by 8."""
    return torch.as_strided(tensor.view(torch.uint8), (128,), (1,)).view(torch.float16).view(8, 8, 1)


@pytest.mark.parametrize(
    ("spoiled", "reason"),
    [
        (lambda data, outputs: outputs[0], "the output is a Tensor; expected a list of 3 tensors"),
        (lambda data, outputs: outputs[:2], "the output is a list of 2; expected 3 tensors"),
        (lambda data, outputs: hides_time.Slow(outputs), "the output is a Slow; expected a list of 3 tensors"),
        (lambda data, outputs: [*outputs[:2], None], r"group 2 of 3 \(M N K = 8 8 64\): the output is a NoneType"),
        (lambda data, outputs: [outputs[0].float(), *outputs[1:]], "group 0 of 3 .*: the output has dtype torch.float"),
        (lambda data, outputs: [outputs[0][:8], *outputs[1:]], r"group 0 of 3 .*: the output has shape \(8, 16, 1\)"),
        (
            lambda data, outputs: [outputs[0], outputs[1], outputs[0].flatten()[:64].view(8, 8, 1)],
            "group 2 of 3 .*: the output shares memory with the output of an earlier call",
        ),
        (
            lambda data, outputs: [*outputs[:2], as_output(data[2][0][0])],
            "group 2 of 3 .*: the output shares memory with an input",
        ),
    ],
)  # fmt: skip
def test_an_output_that_is_none_is_told_with_its_group(pair_of, spoiled, reason):
    with pytest.raises(Failure, match=f"^{reason}"):
        pair_of(lambda data: spoiled(data, honest(data))).round(1)


def test_outputs_of_its_own_are_taken_from_a_list(pair_of):
    pair = pair_of(lambda data: [c.clone() for c in honest(data)])
    (output,) = pair.round(4)
    assert group_reference.check_implementation(pair.worker._data[0], output) == (True, "")


@pytest.mark.parametrize("group", [0, 2])
def test_a_late_write_to_any_group_is_found(pair_of, group):
    outputs = []
    pair = pair_of(lambda data: outputs.append(honest(data)) or outputs[-1])
    pair.worker._sleep = lambda seconds: outputs[0][group][-1, -1].fill_(1)
    with pytest.raises(Failure, match="an output changed after the call had returned"):
        pair.round(1, 2)


def test_a_change_of_any_groups_input_is_found_by_the_parent(pair_of):
    pair = pair_of(modifies_scales.custom_kernel)
    pair.round(1)
    assert pair.lender.modified()
    for index in (0, 1, 4, 5, 12, 17):  # of the first group and of the last

        def kernel(data, index=index):
            if data is pair.worker._data[0]:
                tensor = pair.worker._borrower.inputs[1][index]
                tensor.view(torch.uint8)[(-1,) * tensor.ndim] ^= 1
            return honest(data)

        pair.worker._kernel = kernel
        pair.round(1, 2)
        assert pair.lender.modified(), index
    pair.worker._kernel = honest
    pair.round(1, 2)
    assert not pair.lender.modified()


# --- a GPU, without one ---------------------------------------------------------------------------------


def test_canaries_spoil_every_row_of_every_group():
    layout = Layout(SHAPE, apart=True)
    memory = torch.empty(2 * layout.input_bytes, dtype=torch.uint8)
    host = torch.empty(2 * layout.host_bytes, dtype=torch.uint8)
    staged = copy_in(layout, memory, (SHAPE.generate(seed, BOARD, CPU) for seed in (1, 2)), host)
    whole, right = memory.clone(), [[tensor.view(torch.uint8).clone() for tensor in tensors] for tensors in staged]
    canaries = Canaries(layout, memory, 2)
    for tensors, before in zip(staged, right, strict=True):
        for operand in (0, 1, 12, 13):  # all rows of a; of b all too, since there are few
            changed = (tensors[operand].view(torch.uint8) != before[operand]).squeeze(-1)
            assert changed.any(dim=1).all() and changed.sum(dim=1).max() <= SEGMENT_BYTES
        assert all(torch.equal(tensors[index].view(torch.uint8), before[index]) for index in (2, 3, 4, 5, 14))
    canaries.complete(memory)
    assert torch.equal(memory, whole)


def test_host_tensors_beside_a_gpu_come_with_the_word_and_are_held_to(monkeypatch):
    """Scale factors that lie on the CPU while the rest is on the device: unknown before, right after, and watched."""
    lent = lend(monkeypatch, Layout(SHAPE, apart=True))
    lender, borrower = lent.lender, lent.borrower
    plain = [borrower.inputs[index][number] for index in (0, 1) for number in (2, 3, 14, 15)]
    staged = lender.stage(SHAPE.generate(seed, BOARD, CPU) for seed in (1, 2))
    lender.begin(lent.mine)
    assert all((tensor.view(torch.uint8) == 0).all() for tensor in plain)
    device, seen = FakeDevice(), []
    borrower._core._cuda = device.table
    data = [SHAPE.data(*given) for given in zip(borrower.inputs, borrower.own, strict=True)]
    lists = [SHAPE.offered(one) for one in data]
    borrower.round(
        lambda one: lists[0 if one is data[0] else 1], lambda one, output: seen.append(output), data, borrower.own
    )
    assert [id(output) for output in seen] == list(map(id, lists)), "handed over: not the very list that was offered"
    for tensors, right in zip(borrower.inputs, staged, strict=True):
        assert all(torch.equal(x.view(torch.uint8), y.view(torch.uint8)) for x, y in zip(tensors, right, strict=True))
    assert not lender.modified()
    plain[0].view(torch.uint8).view(-1)[0] ^= 1
    assert lender.modified()
    lender.close()
