"""The quantizer on the CPU: its bits, its layouts, its fused forms, and the operators as torch sees them."""

from __future__ import annotations

import math

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from submission import (
    linear_scales,
    plain_gemm,
    quantize_nvfp4,
    rms_norm_quantize_nvfp4,
    silu_mul_quantize_nvfp4,
    swizzle_scales,
)
from tests.submission.cpu_kit import ISAS
from tests.submission.quantize.on_device import wrong_on
from tests.submission.quantize.quantize_kit import LAYOUTS, TYPES, decoded, normed, random_bits, ties, wrong

SCALES = (None, 1.0, 0.37, 2.0**-20, 2.0**30, 2.0**-140, 2.0**124)
BAD_SCALES = (0.0, -0.0, -1.0, math.inf, -math.inf, math.nan)


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 140), st.integers(1, 13), st.sampled_from(TYPES), st.sampled_from(LAYOUTS),
    st.sampled_from((*SCALES, *BAD_SCALES)), st.integers(0, 40), st.integers(0, 3), st.integers(0, 1000),
)  # fmt: skip
def test_bits_of_any_numbers_are_the_definitions(m, groups, dtype, layout, scale, gap, shift, seed):
    """Rows at any distance and alignment, every kind of number, every kind of scale."""
    k = 16 * groups
    memory = torch.full((m * (k + gap) + shift,), 7.0, dtype=dtype)
    x = memory[shift:].view(m, k + gap)[:, :k]
    x.copy_(random_bits(m, k, dtype, seed))
    saturated = torch.full((1,), 5, dtype=torch.int64)
    found = quantize_nvfp4(x, scale, layout, saturated=saturated)
    assert wrong(x, scale, layout, found, int(saturated) - 5) == ""


@pytest.mark.parametrize("isa", ISAS)
@pytest.mark.parametrize("dtype", TYPES)
def test_ties_of_codes_and_scale_factors(dtype, isa, monkeypatch):
    monkeypatch.setenv("NVFP4_CPU_ISA", isa)
    x = torch.cat([ties(dtype), random_bits(33, 64, dtype, 3)])
    try:
        found = quantize_nvfp4(x)
    except RuntimeError as error:
        pytest.skip(str(error))
    assert wrong(x, None, "linear", found) == ""


@pytest.mark.parametrize("scale", BAD_SCALES)
def test_a_scale_that_is_not_positive_and_finite_marks_every_group(scale):
    x = torch.randn(3, 64)
    codes, factors = quantize_nvfp4(x, scale)
    assert (factors.view(torch.uint8) == 0x7F).all() and (codes == 0x77).all()
    a, sfa = quantize_nvfp4(torch.randn(5, 64))
    out = {"scale_c": torch.tensor(scale), "out_dtype": "nvfp4", "scale_layout": "linear"}
    codes, factors = plain_gemm(a, torch.cat([a] * 13)[:64], sfa, torch.cat([sfa] * 13)[:64], **out)
    assert (factors.view(torch.uint8) == 0x7F).all() and (codes == 0x77).all()


@pytest.mark.parametrize("dtype", TYPES)
@pytest.mark.parametrize("k", [16, 48, 4096 + 64, 9216])
def test_rms_norm_gives_the_promised_bits(dtype, k):
    x, residual = torch.randn(3, k).to(dtype), torch.randn(3, k).to(dtype) * 3
    weight = torch.rand(k).to(dtype) + 0.5
    for given_weight, given_residual in ((weight, residual), (weight, None), (None, None)):
        values, h = normed(x, given_weight, 1e-6, given_residual)
        found = rms_norm_quantize_nvfp4(x, given_weight, 1e-6, 3.0, "swizzled128x4", residual=given_residual)
        assert wrong(values, 3.0, "swizzled128x4", found) == ""
        if given_residual is not None:
            assert torch.equal(found[2], h)
    mean = x.double().pow(2).mean(1, keepdim=True)
    exact = x.double() / (mean + 1e-6).sqrt() * weight.double()
    assert torch.allclose(normed(x, weight, 1e-6, None)[0].double(), exact, rtol=2e-6, atol=0)


@pytest.mark.parametrize("dtype", TYPES)
def test_the_gated_form_is_the_products_activation(dtype):
    """Gates of 0 and of 32 and more, whose sigmoid is 1/2 or 1 exactly; then any, within their rounding."""
    gate = torch.tensor([0.0, 32.0, 40.0, 64.0])[torch.randint(0, 4, (9, 96))]
    up = torch.randint(-8, 9, (9, 96)).float()
    x = torch.cat([gate, up], 1).to(dtype)
    values = gate * torch.where(gate == 0, 0.5, 1.0) * up
    assert wrong(values, 0.1, "linear", silu_mul_quantize_nvfp4(x, 0.1)) == ""
    limited = gate.clamp(max=34.0) * torch.where(gate == 0, 0.5, 1.0) * (up.clamp(-34, 34) + 1)
    assert wrong(limited, 0.1, "linear", silu_mul_quantize_nvfp4(x, 0.1, limit=34.0, beta=1.0)) == ""
    assert wrong(values, 0.1, "linear", silu_mul_quantize_nvfp4(x, 0.1, activation="gelu_tanh")) == ""
    assert wrong(gate * gate * up, 0.1, "linear", silu_mul_quantize_nvfp4(x, 0.1, activation="relu2")) == ""


def test_gathered_rows_and_scales_of_rows_have_the_definitions_bits():
    assert wrong_on("cpu") == []


def test_a_rows_own_scale_keeps_its_largest_number():
    """A product undoes it by token_scale, for rows of any size, and rows of zeros stay zeros."""
    x = torch.randn(5, 64) * torch.tensor([1e-30, 1.0, 0.0, 1e30, 1e-3]).unsqueeze(1)
    codes, scales, token_scale = quantize_nvfp4(x, dynamic=True)
    found = decoded(codes, scales).double() * token_scale.double().unsqueeze(1)
    assert (found - x).abs().max(1).values.le(0.18 * x.abs().max(1).values.double()).all()
    assert torch.allclose(found.abs().max(1).values, x.abs().max(1).values.double(), rtol=1e-6)
    product = plain_gemm(codes, codes, scales, scales, scale=1e-3, token_scale=token_scale, out_dtype="bfloat16")
    assert product[2].eq(0).all() and product.isfinite().all()


@pytest.mark.parametrize("layout", LAYOUTS)
@pytest.mark.parametrize("dtype", TYPES)
def test_no_rows(layout, dtype):
    codes, scales = quantize_nvfp4(torch.empty(0, 80, dtype=dtype), 2.0, layout)
    assert codes.shape == (0, 40) and scales.numel() == 0
    assert rms_norm_quantize_nvfp4(torch.empty(0, 32), None, 0.0, residual=torch.empty(0, 32))[2].shape == (0, 32)


def test_leading_dimensions_are_rows():
    x = torch.randn(2, 3, 32)
    assert torch.equal(quantize_nvfp4(x)[0], quantize_nvfp4(x.view(6, 32))[0])
    codes, _, total = rms_norm_quantize_nvfp4(x, None, 1e-6, residual=2 * x)
    assert torch.equal(total, 3 * x) and torch.equal(codes, rms_norm_quantize_nvfp4(total.view(6, 32), None, 1e-6)[0])
    with pytest.raises(ValueError, match=r"residual has shape \(3, 2, 32\); expected \(2, 3, 32\), as x"):
        rms_norm_quantize_nvfp4(x, None, 1e-6, residual=x.view(3, 2, 32))


@pytest.mark.parametrize("layout", LAYOUTS)
def test_the_output_is_a_products_operand(layout):
    x, weight = torch.randn(17, 128), torch.randn(24, 128)
    b, sfb = quantize_nvfp4(weight, 4.0, layout)
    a, sfa = quantize_nvfp4(x, 2.0, layout)
    found = plain_gemm(a, b, sfa, sfb, scale=1 / 8, scale_layout=layout)
    assert ((found - x @ weight.t()).norm() / (x @ weight.t()).norm()) < 0.2


def test_torchs_own_checks_and_compiled_graphs():
    x, count = torch.randn(5, 64), torch.zeros(1, dtype=torch.int64)
    quantize, scale = torch.ops.nvfp4_gemm.quantize, torch.tensor(2.0)
    for operator, arguments in (
        (quantize.default, (x, 1, scale, count)),
        (quantize.default, (x, 2 << 4, None, None, None, 0.0, 1.0, 1.5, 1.0)),
        (quantize.rows, (x, torch.tensor([1, -1, 4], dtype=torch.int32), 1, scale)),
        (quantize.token, (x, 1, torch.tensor([1, -1, 4], dtype=torch.int32))),
        (quantize.token, (x,)),
        (quantize.sum, (x, torch.randn(5, 64), 2 | 1 << 4, scale, None, torch.ones(64))),
    ):
        assert set(torch.library.opcheck(operator, arguments).values()) == {"SUCCESS"}
    for options in (3, 3 << 4, -1):
        with pytest.raises(RuntimeError, match=r"options is 0x.*; expected a layout 0 to 2 in bits 0-3 and a form"):
            quantize.default(x, options)
    compiled = torch.compile(lambda x: quantize_nvfp4(x, 2.0)[0], backend="eager", fullgraph=True, dynamic=True)
    for m in (5, 1, 0, 130):
        x = torch.randn(m, 64)
        assert torch.equal(compiled(x), quantize_nvfp4(x, 2.0)[0])


@pytest.mark.parametrize(
    ("change", "text"),
    [
        ({"x": torch.randn(2, 24)}, "x has 24 columns; expected a positive multiple of 16"),
        ({"x": torch.randn(2, 32).double()}, "x has dtype torch.float64"),
        ({"x": torch.randn(32, 32).t()}, "x has strides"),
        ({"x": torch.randn(1, 32).expand(4, 32)}, "x has strides"),
        ({"scale_layout": "rows"}, "scale_layout is 'rows'"),
        ({"global_scale": torch.ones(2)}, "global_scale has 2 numbers"),
        ({"saturated": torch.zeros(1)}, "saturated has dtype torch.float32"),
        ({"saturated": torch.zeros(2, dtype=torch.int64)}, "saturated has 2 numbers"),
        ({"rows": torch.zeros(2, dtype=torch.int64)}, "rows has dtype torch.int64; expected torch.int32"),
        ({"rows": torch.zeros(2, dtype=torch.int32), "x": torch.empty(0, 32)}, "x has no rows; expected some"),
        ({"dynamic": True, "global_scale": 1.0}, "global_scale or saturated is given with dynamic"),
    ],
)
def test_a_wrong_argument_is_named(change, text):
    with pytest.raises((RuntimeError, ValueError), match=text):
        quantize_nvfp4(**{"x": torch.randn(2, 32), **change})


def test_wrong_arguments_of_the_fused_forms_are_named():
    x = torch.randn(2, 32)
    for arguments, text in (
        ((torch.ones(16), 1e-6), "weight has shape"),
        ((torch.ones(32).half(), 1e-6), "weight has dtype"),
        ((None, -1.0), "epsilon is -1"),
        ((None, math.nan), "epsilon is nan"),
    ):
        with pytest.raises((RuntimeError, ValueError), match=text):
            rms_norm_quantize_nvfp4(x, *arguments)
    with pytest.raises(RuntimeError, match="residual has shape"):
        rms_norm_quantize_nvfp4(x, None, 1e-6, residual=torch.randn(2, 48))
    with pytest.raises(RuntimeError, match="limit is -1"):
        silu_mul_quantize_nvfp4(x, limit=-1.0)
    with pytest.raises(ValueError, match="activation is 'gelu'"):
        silu_mul_quantize_nvfp4(x, activation="gelu")


@pytest.mark.parametrize("layout", ["linear", "swizzled128x4"])
@pytest.mark.parametrize("k", [16, 80, 1616])
def test_k_of_16_n_in_every_layout(layout, k):
    """Operands from the quantizer; the product is that of their values, within a rounding of fp16."""
    a, b = torch.randn(17, k), torch.randn(40, k)
    values = []
    for x in (a, b):
        codes, scales = quantize_nvfp4(x)
        values.append(decoded(codes, scales).double())
    made = [quantize_nvfp4(x, 1.0, layout) for x in (a, b)]
    found = plain_gemm(made[0][0], made[1][0], made[0][1], made[1][1], scale_layout=layout)
    assert torch.allclose(found.double(), values[0] @ values[1].t(), rtol=2e-3, atol=2e-3)
    if layout == "swizzled128x4":
        assert torch.equal(
            linear_scales(made[0][1], 17, k // 16).view(torch.uint8), quantize_nvfp4(a)[1].view(torch.uint8)
        )
        rows = swizzle_scales(quantize_nvfp4(a)[1])
        assert torch.equal(rows.view(torch.uint8), made[0][1].view(torch.uint8))
