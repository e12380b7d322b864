"""The ctypes shim: results through the library, and the exceptions for wrong tensors."""

from __future__ import annotations

import threading

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st
from torch._subclasses import FakeTensorMode

from reference.reference import check_against_oracle, generate_input, oracle
from submission.submission import backends, custom_kernel

M, N, K, L = 40, 24, 192, 2
NAMES = ("a", "b1", "b2", "sfa", "sfb1", "sfb2", "sfa_permuted", "sfb1_permuted", "sfb2_permuted", "c")
READ_IN_TEN = (0, 1, 2, 6, 7, 8, 9)


def problem(m=M, n=N, k=K, l=L, seed=7, full=True):  # noqa: E741
    return generate_input(m, n, k, l, seed, full=full, device="cpu")


def seven(data):
    return (*data[:6], data[9])


def replaced(data, index, tensor):
    return (*data[:index], tensor, *data[index + 1 :])


def assert_right(data):
    output = custom_kernel(data)
    assert output is data[-1]
    ok, message = check_against_oracle(data, output)
    assert ok, message


@pytest.mark.parametrize("form", [tuple, list, seven])
def test_computes_the_dual_gemm_from_either_form(form):
    assert_right(form(problem()))


@settings(max_examples=40, deadline=None)
@given(
    m=st.integers(1, 300),
    n=st.integers(1, 300),
    k=st.integers(1, 8).map(lambda groups: 64 * groups),
    batches=st.integers(1, 3),
    full=st.booleans(),
    rows=st.booleans(),
    seed=st.integers(0, 2**31),
)
def test_agrees_with_the_oracle_on_any_shape(m, n, k, batches, full, rows, seed):
    data = problem(m, n, k, batches, seed, full)
    data[-1].fill_(float("nan"))  # every element must be written
    assert_right(seven(data) if rows else data)


def test_both_scale_layouts_give_the_same_bits():
    data = problem()
    blocked = custom_kernel(data).clone()
    data[-1].zero_()
    assert torch.equal(custom_kernel(seven(data)).view(torch.int16), blocked.view(torch.int16))


def test_sums_stay_in_fp32_up_to_the_one_rounding():
    data = problem(128, 128, 2048, 1, full=False)
    want = oracle(data)
    error = (custom_kernel(data).double() - want).abs()
    # Half an ulp of fp16 relative, plus what fp32 sums of this length may lose.
    assert (error <= want.abs() * 2**-11 * 1.02 + 1e-4).all()


def test_reads_no_plain_scales_in_the_ten_tensor_form():
    data = problem()
    want = custom_kernel(data).clone()
    for tensor in data[3:6]:
        tensor.view(torch.uint8).fill_(0x7F)
    assert torch.equal(custom_kernel(data).nan_to_num(), want.nan_to_num())


def test_inputs_are_not_modified():
    data = problem()
    before = [tensor.view(torch.uint8).clone() for tensor in data[:9]]
    custom_kernel(data)
    for name, tensor, copy in zip(NAMES, data, before, strict=False):
        assert torch.equal(tensor.view(torch.uint8), copy), name


@pytest.mark.parametrize("index", READ_IN_TEN)
@pytest.mark.parametrize("wrong", [None, 3, "tensor"])
def test_an_argument_that_is_no_tensor_is_a_type_error_naming_it(index, wrong):
    with pytest.raises(TypeError, match=rf"^{NAMES[index]} is a (NoneType|int|str); expected a torch.Tensor"):
        custom_kernel(replaced(problem(), index, wrong))


@pytest.mark.parametrize("index", READ_IN_TEN)
def test_wrong_device_is_a_value_error(index):
    data = problem()
    with pytest.raises(ValueError, match="is on meta; expected a CPU or CUDA device"):
        custom_kernel(replaced(data, index, data[index].to("meta")))


def test_misaligned_tensor_is_a_value_error_naming_the_argument():
    data = problem(1, 8, 64, 1)
    storage = torch.zeros(64, dtype=torch.uint8)
    shifted = storage[1:33].view(1, 1, 32).permute(1, 2, 0).view(torch.float4_e2m1fn_x2)
    with pytest.raises(ValueError, match=r"^a is at .*aligned to 16 bytes"):
        custom_kernel(replaced(data, 0, shifted))


@pytest.mark.parametrize("index", [0, 9])
def test_empty_or_flat_tensors_are_value_errors(index):
    data = problem()
    with pytest.raises(ValueError, match="expected no empty dimension"):
        custom_kernel(replaced(data, index, data[index][:, :0]))
    with pytest.raises(ValueError, match="expected three dimensions"):
        custom_kernel(replaced(data, index, data[index][..., 0]))


def test_output_overlapping_an_input_is_a_value_error():
    data = problem(4, 32, 64, 1)  # a: 128 bytes, c: 256 bytes
    storage = torch.zeros(256, dtype=torch.uint8)
    a = storage[:128].view(1, 4, 32).permute(1, 2, 0).view(torch.float4_e2m1fn_x2)
    c = storage.view(torch.float16).view(1, 4, 32).permute(1, 2, 0)
    with pytest.raises(ValueError, match="overlaps a at"):
        custom_kernel(replaced(replaced(data, 0, a), 9, c))


@pytest.mark.parametrize("count", [0, 6, 8, 9, 11])
def test_wrong_number_of_tensors_is_a_value_error(count):
    data = (problem() * 2)[:count]
    with pytest.raises(ValueError, match=rf"data has {count} tensors; expected 10 \(a, b1"):
        custom_kernel(data)


def test_data_that_is_no_sequence_is_a_type_error():
    with pytest.raises(TypeError, match="data is a int; expected a tuple of tensors"):
        custom_kernel(3)


def test_queue_with_host_tensors_is_refused():
    with pytest.raises(ValueError, match="queue is not NULL"):
        custom_kernel(problem(), queue=1)


def test_library_errors_become_exceptions(monkeypatch):
    monkeypatch.setenv("NVFP4_BACKEND", "turing")
    with pytest.raises(ValueError, match="NVFP4_BACKEND is 'turing'"):
        custom_kernel(problem())
    monkeypatch.setenv("NVFP4_BACKEND", "hopper")
    with pytest.raises(ValueError, match="backend hopper cannot read memory of the host"):
        custom_kernel(problem())


def test_rejected_call_leaves_the_output_alone():
    data = problem()
    data[9].fill_(3)
    with pytest.raises(TypeError):
        custom_kernel(replaced(data, 8, data[8].view(torch.uint8)))
    assert (data[9] == 3).all()


def test_threads_can_call_at_the_same_time():
    problems = [problem(seed=seed) for seed in range(4)]
    wants = [custom_kernel(data).clone() for data in problems]
    failures = []

    def work(data, want):
        for _ in range(50):
            data[9].zero_()
            if not torch.equal(custom_kernel(data).view(torch.int16), want.view(torch.int16)):
                failures.append(data)

    threads = [threading.Thread(target=work, args=pair) for pair in zip(problems, wants, strict=True)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert not failures


def test_backends_lists_what_the_library_was_built_with():
    found = {backend.name: backend for backend in backends()}
    assert set(found) == {"cpu", "hopper", "blackwell", "geforce"}
    assert found["cpu"].available


@pytest.mark.parametrize("index", READ_IN_TEN)
def test_a_storage_that_was_shrunk_after_its_view_is_refused(index):
    for form, at in ((problem(), index), (seven(problem()), min(index, 6))):
        storage = form[at].untyped_storage()
        storage.resize_(storage.nbytes() // 2)
        with pytest.raises(ValueError, match=r"has \d+ bytes, of which its storage holds \d+"):
            custom_kernel(form)


def test_a_view_into_a_larger_storage_is_taken_if_it_lies_in_it():
    data = problem(1, 64, 128, 1)
    room = torch.zeros(256, dtype=torch.float16)
    c = room[128:192].view(1, 64, 1)
    assert_right(replaced(data, 9, c))
    room.untyped_storage().resize_(2 * 160)
    with pytest.raises(ValueError, match="c has 128 bytes, of which its storage holds 64"):
        custom_kernel(replaced(data, 9, c))


@pytest.mark.parametrize("index", READ_IN_TEN)
def test_a_tensor_with_the_negative_bit_is_refused(index):
    data = problem()
    before = data[9].view(torch.int16).clone()
    with pytest.raises(ValueError, match=rf"^{NAMES[index]} has torch's negative bit; expected values as they lie"):
        custom_kernel(replaced(data, index, torch._neg_view(data[index])))
    assert torch.equal(data[9].view(torch.int16), before)


@pytest.mark.parametrize("which", [READ_IN_TEN, (0,), (1,), (6,), (9,)])
def test_a_fake_tensor_is_reported(which):
    data = list(problem())
    with FakeTensorMode() as mode:
        for index in which:
            data[index] = mode.from_tensor(data[index])
    with pytest.raises(TypeError, match=rf"^{NAMES[which[0]]} is a FakeTensor, which has no memory"):
        custom_kernel(tuple(data))


@pytest.mark.parametrize(
    ("queue", "kind", "text"),
    [
        ("7", TypeError, "queue is a str; expected .* an integer"),
        (1.5, TypeError, "queue is a float; expected"),
        (object(), TypeError, "queue is a object; expected"),
        (-1, ValueError, r"queue is -1; expected .* 0 to 2\^64 - 1"),
        (2**64, ValueError, "queue is 18446744073709551616; expected"),
        (16, ValueError, "queue is not NULL; expected NULL for host memory"),
    ],
)
def test_a_wrong_queue_is_refused(queue, kind, text):
    with pytest.raises(kind, match=f"^{text}"):
        custom_kernel(problem(), queue=queue)


def test_an_overlap_names_the_tensor_that_was_given():
    data = problem(1, 8, 64, 1)
    inside = torch.empty(0, dtype=torch.float16).set_(data[6].untyped_storage(), 0, (1, 8, 1), (8, 1, 8))
    with pytest.raises(ValueError, match=r"c at \S+ with 16 bytes overlaps sfa_permuted at "):
        custom_kernel(replaced(data, 9, inside))
