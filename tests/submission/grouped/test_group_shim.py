"""The grouped GEMM's shim: what it computes through the library, and how it names the tensor and group it refuses."""

from __future__ import annotations

import ctypes
import re
import struct
import threading

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._subclasses import FakeTensorMode

import submission as package
from reference.group_reference import check_against_oracle, check_implementation, generate_input
from submission import group_submission as shim
from submission.group_submission import custom_kernel

SIZES = ((40, 33, 130), (24, 8, 16), (192, 64, 128))
WITH_AN_EMPTY_GROUP = ((40, 0, 130), (24, 8, 16), (192, 64, 128))


def problem(sizes=SIZES, seed=7, full=True):
    return generate_input(*sizes, len(sizes[0]), seed, full, device="cpu")


def changed(data, place, value):
    """A copy of the lists with another object at [list, group, member], [list, group] or [list]."""
    lists = [list(members) for members in data]
    if len(place) == 1:
        lists[place[0]] = value
    elif len(place) == 2:
        lists[place[0]][place[1]] = value
    else:
        group = list(lists[place[0]][place[1]])
        group[place[2]] = value
        lists[place[0]][place[1]] = tuple(group)
    return tuple(lists)


@pytest.mark.parametrize("sizes", [SIZES, WITH_AN_EMPTY_GROUP])
def test_every_group_is_computed_and_its_c_is_returned(sizes):
    data = problem(sizes)
    for c in (group[2] for group in data[0]):
        c.fill_(float("nan"))
    outputs = custom_kernel(data)
    assert type(outputs) is list and all(got is group[2] for got, group in zip(outputs, data[0], strict=True))
    assert check_against_oracle(data, outputs) == (True, "")


@settings(max_examples=15, deadline=None)
@given(
    sizes=st.lists(
        st.tuples(st.integers(0, 200), st.integers(1, 150), st.integers(1, 6).map(lambda groups: 64 * groups)),
        min_size=1,
        max_size=9,
    ),
    full=st.booleans(),
    seed=st.integers(0, 2**31),
)
def test_agrees_with_the_oracle_on_any_groups(sizes, full, seed):
    data = problem(tuple(zip(*sizes, strict=True)), seed, full)
    for c in (group[2] for group in data[0]):
        c.fill_(float("nan"))
    assert check_against_oracle(data, custom_kernel(data)) == (True, "")


def test_padding_of_scale_factors_and_the_plain_ones_are_not_read():
    data = problem(((5, 129), (7, 130), (64, 128)), full=False)
    for sfa, sfb in data[2]:  # generate_input fills the padding with NaN
        for blocked, rows in ((sfa, sfa.shape[2]), (sfb, sfb.shape[2])):
            assert (blocked.view(torch.uint8) == 0x7F).any(), rows
    no_scales = (data[0], [(None, None)] * 2, *data[2:])
    assert check_implementation(data, custom_kernel(no_scales)) == (True, "")


def test_more_groups_than_a_backend_gets_at_once(monkeypatch):
    many = ((3,) * 260, (8,) * 260, (64,) * 260)
    data = problem(many, full=False)
    assert check_implementation(data, custom_kernel(data)) == (True, "")
    monkeypatch.setattr(shim, "_call_python", None)
    for _, _, c in data[0]:
        c.fill_(7)
    assert check_implementation(data, custom_kernel(data)) == (True, "")


def test_more_groups_than_there_may_be_are_refused(monkeypatch):
    assert shim.MOST_GROUPS == 65536
    monkeypatch.setattr(shim, "MOST_GROUPS", 2)  # reading as many takes seconds
    data = [list(members[:2]) for members in problem()]
    assert len(custom_kernel(data)) == 2
    monkeypatch.setattr(shim, "_call_python", None)
    with pytest.raises(ValueError, match="abc_tensors has 3 groups; expected 1 to 2"):
        custom_kernel(tuple([members[0]] * 3 for members in data))
    data[2].pop()
    with pytest.raises(ValueError, match="sfasfb_reordered_tensors has 1 groups; expected 2, as abc_tensors"):
        custom_kernel(tuple(data))


C = torch.empty(1, 40, 24, dtype=torch.float16).permute(1, 2, 0)


@pytest.mark.parametrize(
    ("place", "value", "error", "message"),
    [
        ((0, 0, 0), None, TypeError, "a of group 0 is a NoneType; expected a torch.Tensor"),
        ((0, 2, 1), C, TypeError, "b of group 2 has dtype torch.float16; expected torch.float4_e2m1fn_x2"),
        ((0, 2, 1), problem()[0][2][1].view(torch.uint8), TypeError, "b of group 2 has dtype torch.uint8; expected"),
        ((0, 1, 2), problem()[0][1][2].view(torch.int16), TypeError, "c of group 1 has dtype torch.int16; expected"),
        ((2, 0, 1), problem()[2][0][1].view(torch.uint8), TypeError, "sfb_reordered of group 0 has dtype torch.uint8"),
        ((0, 2, 2), C, ValueError, "c of group 2 has shape (40, 24, 1); expected (130, 16, 1) for M = 130, N = 16"),
        ((0, 0, 2), C.mT.contiguous().mT.as_strided((40, 24, 1), (1, 40, 1)), ValueError, "c of group 0 has strides"),
        ((0, 0, 2), torch._neg_view(C), ValueError, "c of group 0 has torch's negative bit"),
        ((0, 0, 2), C.to("meta"), ValueError, "c of group 0 is on meta"),
        ((2, 2, 0), problem()[2][0][0], ValueError, "sfa_reordered of group 2 has shape (32, 4, 1, 4, 3, 1); expected"),
        ((2, 2, 1), problem()[1][2][1], ValueError, "sfb_reordered of group 2 has shape (16, 8, 1); expected"),
        ((3, 2), (130, 16, 64, 1), ValueError, "a of group 2 has shape (130, 64, 1); expected (130, 32, 1)"),
        ((3, 1), (33, 8, 64, 2), ValueError, "l of group 1 is 2; expected 1"),
        ((3, 1), (33, 8, 96, 1), ValueError, "k of group 1 is 96; expected a multiple of 64"),
        ((3, 1), (-1, 8, 64, 1), ValueError, "m of group 1 is -1; expected at least 0"),
        ((3, 1), (33, 0, 64, 1), ValueError, "n of group 1 is 0; expected at least 1"),
        ((3, 1), (33, 8, 0, 1), ValueError, "k of group 1 is 0; expected at least 1"),
        ((3, 1), (33, 8, 2**64 + 64, 1), ValueError, "k of group 1 is 18446744073709551680; expected less than 2^63"),
        ((3, 1), (2**63, 8, 64, 1), ValueError, "m of group 1 is 9223372036854775808; expected less than 2^63"),
        ((3, 1), (33, "8", 64, 1), TypeError, "n of group 1 is a str; expected an integer"),
        ((3, 1), (33, 8, 64), ValueError, "problem_sizes[1] has 3 members; expected 4"),
        ((0, 1), (C, C), ValueError, "abc_tensors[1] has 2 members; expected 3"),
        ((2, 1), 5, TypeError, "sfasfb_reordered_tensors[1] is a int; expected a list"),
        ((2,), [], ValueError, "sfasfb_reordered_tensors has 0 groups; expected 3, as abc_tensors"),
        ((0,), [], ValueError, "abc_tensors has 0 groups; expected 1 to 65536"),
        ((0,), C, TypeError, "abc_tensors is a Tensor; expected a list"),
    ],
)  # fmt: skip
def test_a_wrong_argument_is_named_with_its_group_and_nothing_is_written(place, value, error, message):
    data = changed(problem(), place, value)
    outputs = [member[2] for member in data[0] if len(member) == 3] if isinstance(data[0], list) else []
    for c in outputs:
        if c.device.type == "cpu" and not c.is_neg():
            c.fill_(7)
    assert shim._read_by_library(data, None)[0] == shim._NOT_AS_EXPECTED
    with pytest.raises(error, match="^" + re.escape(message)):
        custom_kernel(data)
    assert all((c == 7).all() for c in outputs if c.device.type == "cpu" and not c.is_neg())


@pytest.mark.parametrize("data", [None, (), problem()[:3], {1: 2, 3: 4, 5: 6, 7: 8}])
def test_data_other_than_the_four_lists_is_refused(data):
    with pytest.raises((TypeError, ValueError), match=r"^data (is a|has)"):
        custom_kernel(data)


def test_the_librarys_findings_are_reported_with_the_shims_names():
    data = problem()
    shared = changed(data, (0, 2, 2), torch.as_strided(torch.empty(130 * 16 + 8).half(), (130, 16, 1), (16, 1, 1), 1))
    with pytest.raises(ValueError, match=r"^c of group 2 .*16"):
        custom_kernel(shared)
    c = data[0][0][2]
    twice = tuple([members[0], members[0]] for members in data)
    with pytest.raises(ValueError, match=r"c of group \d"):
        custom_kernel(twice)
    assert c is data[0][0][2]


def test_a_storage_that_was_shrunk_is_refused(monkeypatch):
    data = problem()
    data[0][2][2].untyped_storage().resize_(8)
    with monkeypatch.context() as alone:
        alone.setattr(shim, "_have_memory", None)  # a bundle has none
        with pytest.raises(ValueError, match="c of group 2 has 4160 bytes, of which its storage holds 8"):
            custom_kernel(data)
    data = problem()
    a = data[0][0][0]
    a.untyped_storage().resize_(0)  # the package asks this of inputs, too (operators.py)
    assert shim._have_memory is not None and package.operators.have_memory is shim._have_memory
    with pytest.raises(ValueError, match="a of group 0 has 3840 bytes, of which its storage holds 0"):
        custom_kernel(data)


def test_tensors_without_memory_are_refused():
    with FakeTensorMode():
        data = (
            [(torch.empty(40, 96, 1).to(torch.uint8).view(torch.float4_e2m1fn_x2),) * 3],
            [(None, None)],
            [(torch.empty(1),) * 2],
            [(40, 24, 192, 1)],
        )
        with pytest.raises(TypeError, match="a of group 0 is a FakeTensor, which has no memory"):
            custom_kernel(data)


@pytest.mark.parametrize(("queue", "error"), [(-1, ValueError), (2**64, ValueError), ("x", TypeError)])
def test_a_queue_that_is_none_is_refused(queue, error):
    with pytest.raises(error, match=r"^queue is "):
        custom_kernel(problem(), queue=queue)


READS = shim._call_python is not None  # the library reads this torch's tensors; else the shim does


@pytest.mark.parametrize("reader", ["library", "shim"] if READS else ["shim"])
def test_right_tensors_need_no_second_look(monkeypatch, reader):
    monkeypatch.setattr(shim, "_check_groups", lambda data: pytest.fail("the slow test was asked"))
    if reader == "shim":
        monkeypatch.setattr(shim, "_call_python", None)
    else:
        monkeypatch.setattr(shim, "call_grouped", lambda address: pytest.fail("the library did not read the objects"))
    data = problem(full=False)
    forms = [data, tuple(map(tuple, data))]
    if reader == "library":
        forms.append(tuple([list(member) for member in members] for members in data))
    for members in forms:
        for c in (group[2] for group in data[0]):
            c.fill_(float("nan"))
        assert check_implementation(data, custom_kernel(members)) == (True, "")


class Int(int):
    """Another type whose conversion may do anything."""


class Tensor(torch.Tensor):
    """Another type, whose object may be of another form."""


SHRUNK = torch.empty(1, 130, 16, dtype=torch.float16).permute(1, 2, 0)
SHRUNK.untyped_storage().resize_(130 * 16 * 2 - 1)
PUSHED = torch.empty(130 * 16 + 8, dtype=torch.float16)[8:].as_strided((130, 16, 1), (16, 1, 1))
PUSHED.untyped_storage().resize_(130 * 16 * 2)
TRANSPOSED = problem()[2][1][0].transpose(0, 1).contiguous().transpose(0, 1)


@pytest.mark.parametrize(
    ("place", "value"),
    [
        ((3, 1), (33, 8, Int(64), 1)),
        ((3, 1), (33, 8, 2**64, 1)),
        ((3, 1), (33.0, 8, 64, 1)),
        ((0, 1, 0), problem()[0][1][0].as_subclass(Tensor)),
        ((0, 1, 0), 5),
        ((0, 2, 2), SHRUNK),
        ((0, 2, 2), PUSHED),
        ((0, 2, 0), problem()[0][0][0]),
        ((2, 1, 0), TRANSPOSED),
        ((2, 1), problem()[2][1][0]),
        ((0,), {}),
    ],
)
@pytest.mark.skipif(not READS, reason="this torch's tensors are read by the shim")
def test_the_library_reads_only_the_exact_types_and_layouts(place, value, monkeypatch):
    monkeypatch.setattr(shim, "_have_memory", None)
    data = changed(problem(), place, value)
    assert shim._call_python(shim._functions_address, data, 0) == shim._NOT_AS_EXPECTED
    assert shim._call_python(shim._functions_address, data[:3], 0) == shim._NOT_AS_EXPECTED
    assert shim._call_python(shim._functions_address, problem(), 0) == 0


@pytest.mark.skipif(not READS, reason="this torch's tensors are read by the shim")
def test_a_torch_without_the_interface_leaves_the_reading_to_the_shim(monkeypatch):
    monkeypatch.setattr(torch.Tensor, "_cdata", 0, raising=False)
    assert shim._python_functions() is None
    monkeypatch.undo()
    assert shim._python_functions() is not None
    monkeypatch.setattr(shim, "object", type("Wider", (), {"__basicsize__": object.__basicsize__ + 8}), raising=False)
    assert shim._python_functions() is None  # torch's tensor lies elsewhere than was thought


def test_an_error_in_packing_valid_input_is_raised_unchanged(monkeypatch):
    def pack_into(*_):
        raise struct.error("no room")

    packing = shim.packing
    monkeypatch.setattr(shim, "_call_python", None)
    monkeypatch.setattr(shim, "packing", lambda groups: (pack_into, packing(groups)[1]))
    with pytest.raises(struct.error, match="no room"):
        custom_kernel(problem(), 0)


def test_a_call_within_a_call_leaves_its_arguments_alone(monkeypatch):
    seen = []

    def call(address):
        before = ctypes.string_at(address, shim.ARGS_BYTES + len(SIZES[0]) * shim.GROUP_BYTES)
        seen.append(before)
        if len(seen) == 1:
            custom_kernel(problem(seed=8))
        assert ctypes.string_at(address, len(before)) == before
        return 0

    monkeypatch.setattr(shim, "_call_python", None)
    monkeypatch.setattr(shim, "call_grouped", call)
    custom_kernel(problem())
    assert len(seen) == 2 and seen[0] != seen[1]


def test_threads_share_nothing():
    data = [problem(seed=seed, full=False) for seed in range(4)]
    failures = []

    def work(one):
        for _ in range(20):
            if check_implementation(one, custom_kernel(one)) != (True, ""):
                failures.append(one)

    threads = [threading.Thread(target=work, args=(one,)) for one in data]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_a_backend_without_a_grouped_gemm_is_not_available(monkeypatch):
    assert [backend.name for backend in shim.backends()] == [backend.name for backend in package.backends()]
    assert shim.backends()[-1] == package.backends()[-1], "the CPU's has one"
    everywhere = {3: package.Backend("blackwell", True, True, "a B200"), 1: package.Backend("cpu", True, True, "here")}
    monkeypatch.setattr(shim, "numbered_backends", lambda: everywhere)
    monkeypatch.setattr(shim, "call_grouped", lambda address: shim._STATUS_UNSUPPORTED)
    assert [backend.available for backend in shim.backends()] == [False, False]
