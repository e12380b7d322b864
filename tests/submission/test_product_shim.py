"""The shim of the GEMM and the GEMV: results by hand, and what it says of wrong tensors."""

from __future__ import annotations

import pytest
import torch

from reference.problems.gemm import Gemm
from reference.problems.gemv import Gemv
from reference.problems.interface import BOARD, FULL, blank
from reference.product_reference import oracle_with_error, ref_kernel

CPU = torch.device("cpu")


@pytest.fixture(scope="module")
def custom_kernel(library_path):
    from submission import custom_kernel_product

    assert custom_kernel_product.__name__ == "custom_kernel_product"
    return custom_kernel_product


def made(shape, kind=BOARD, seed=3):
    data = shape.data(shape.generate(seed, kind, CPU), blank(shape, CPU))
    data[-1].fill_(float("nan"))
    return data


@pytest.mark.parametrize("shape", [Gemm(40, 24, 192, 3), Gemm(1, 8, 64, 1), Gemm(56, 1, 128, 2), Gemv(40, 192, 3)])
def test_boards_data_gives_the_exact_result(custom_kernel, shape):
    """Sums of the board's data are exact in fp32, in any order."""
    data = made(shape)
    assert custom_kernel(data) is data[-1]
    assert torch.equal(data[-1], ref_kernel(data)) and torch.equal(data[-1], oracle_with_error(data).value.half())


def test_the_padding_of_b_counts_for_nothing_and_may_be_missing(custom_kernel):
    data = made(Gemv(40, 192, 2))
    want = custom_kernel(data).clone()
    data[1].view(torch.uint8)[1:] = 0x77
    data[5].view(torch.uint8)[1:] = 0x7F  # rows 1 to 31: NaN
    data[5].view(torch.uint8)[:, 1:] = 0x7F
    assert torch.equal(custom_kernel(data), want)
    row = data[1].view(torch.uint8).permute(2, 0, 1)[:, :1].clone().view(torch.float4_e2m1fn_x2).permute(1, 2, 0)
    data[-1].fill_(float("nan"))
    assert torch.equal(custom_kernel((data[0], row, *data[2:])), want)


def test_more_batches_than_a_call_has_groups(custom_kernel):
    data = made(Gemv(8, 64, 300), FULL)
    oracle = oracle_with_error(data)
    error = (custom_kernel(data).double() - oracle.value).abs()
    finite = oracle.value.abs() < 6e4
    assert finite.sum() > 1000 and (error <= 1e-3 * (1 + oracle.value.abs()) + oracle.fp32_error)[finite].all()


def test_a_late_batch_that_is_wrong_leaves_the_early_ones_unchanged(custom_kernel):
    """The last batch of c lies over the first bytes of b."""
    data = list(made(Gemv(8, 64, 300)))
    memory = torch.zeros(16 * 300 + 128 * 32 * 300, dtype=torch.uint8)
    c = memory[: 16 * 300].view(torch.float16).view(300, 8, 1).permute(1, 2, 0)
    b = memory[16 * 299 :][: 128 * 32 * 300].view(torch.float4_e2m1fn_x2).view(300, 128, 32).permute(1, 2, 0)
    c.fill_(7.0)
    with pytest.raises(ValueError, match=r"c of batch 299 .* overlaps b of batch 0"):
        custom_kernel((data[0], b, *data[2:6], c))
    assert (c == 7.0).all()
    few = [tensor[..., :1].expand(*tensor.shape[:-1], 65537) for tensor in data]
    with pytest.raises(ValueError, match="L = 65537; expected at most 65536"):
        custom_kernel(few)


def test_no_rows_is_no_work(custom_kernel):
    data = list(made(Gemm(8, 8, 64, 1)))
    data[0], data[4], data[6] = data[0][:0], data[4][:, :, :0], data[6][:0]
    assert custom_kernel(data).shape == (0, 8, 1)
    data = list(made(Gemm(8, 8, 64, 2)))
    data[0], data[4] = data[0][:0].view(torch.uint8).contiguous().view(torch.float4_e2m1fn_x2), data[4][:, :, :0]
    data[6] = data[6][:0].contiguous()  # without elements, strides mean nothing
    assert custom_kernel(data).shape == (0, 8, 2)


def in_the_memory_of(codes):
    """An output that begins where the codes do."""
    return codes.view(torch.uint8).permute(2, 0, 1).flatten()[:1280].view(torch.half).view(2, 40, 8)


WRONG = {
    "six tensors": (lambda d: d[:6], ValueError, "data has 6 tensors; expected 7"),
    "no tensor": (lambda d: [*d[:6], None], TypeError, "c is a NoneType; expected a torch.Tensor"),
    "dtype": (lambda d: [d[0].view(torch.uint8), *d[1:]], TypeError, "a has dtype torch.uint8; expected torch.float4"),
    "b's rows": (lambda d: [d[0], d[1][:7], *d[2:]], ValueError, r"b has shape \(7, 32, 2\); expected 8 rows, for c"),
    "plain scales": (
        lambda d: [*d[:4], d[2], *d[5:]],
        ValueError,
        r"sfa_permuted has shape \(40, 4, 2\); expected \(32, 4, 1, 4, 1, 2\) for M = 40, N = 8, K = 64, L = 2",
    ),
    "K": (lambda d: [d[0][:, :16], *d[1:]], ValueError, "K = 32; expected a multiple of 64"),
    "strides": (
        lambda d: [*d[:6], torch.empty(40, 8, 2).half()],
        ValueError,
        r"c has strides \(16, 2, 1\); expected \(8, 1, 320\)",
    ),
    "two dimensions": (lambda d: [*d[:6], d[6][..., 0]], ValueError, r"c has shape \(40, 8\); expected three"),
    "overlap": (
        lambda d: [*d[:6], in_the_memory_of(d[0]).permute(1, 2, 0)],
        ValueError,
        "c of batch [01] at .* overlaps a of batch",
    ),
}


@pytest.mark.parametrize("name", WRONG)
def test_what_is_wrong_is_named_and_nothing_is_written(custom_kernel, name):
    data = made(Gemm(40, 8, 64, 2))
    change, kind, message = WRONG[name]
    with pytest.raises(kind, match=message):
        custom_kernel(change(list(data)))
    assert data[-1].isnan().all()


def test_a_batch_of_c_that_begins_in_between_is_named_by_the_callers_name(custom_kernel):
    with pytest.raises(ValueError, match=r"c of batch 1 .*aligned to 16 bytes"):
        custom_kernel(made(Gemv(41, 64, 2)))
    data = list(made(Gemv(48, 64, 1)))
    with pytest.raises(TypeError, match="queue is a str"):
        custom_kernel(data, queue="x")
    data[0] = torch.zeros(48 * 32 + 8, dtype=torch.uint8)[8:].view(1, 48, 32).view(torch.float4_e2m1fn_x2)
    data[0] = data[0].permute(1, 2, 0)
    with pytest.raises(ValueError, match=r"a of batch 0 .*aligned to 16 bytes"):
        custom_kernel(data)
