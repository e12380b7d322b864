"""The reference of the extended GEMM, against tables of the formats and a direct transcription of custom_kernel.h."""

from __future__ import annotations

import numpy as np
import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reference import extended_reference as extended
from reference import nvfp4
from reference.extended_reference import Extension

E2M1 = (0, 0.5, 1, 1.5, 2, 3, 4, 6)
E4M3 = [
    float(np.ldexp(byte & 7, -9) if byte < 8 else np.ldexp(8 + (byte & 7), (byte >> 3) - 10)) for byte in range(127)
]


def nearest(value: float, table: list[float] | tuple[float, ...]) -> int:
    """The index of the nearest number; the even index of two equally near; the last one beyond the end."""
    return min(range(len(table)), key=lambda i: (abs(table[i] - value), i % 2))


def quantized(group: np.ndarray, scale: np.float32) -> tuple[list[int], int]:
    """Codes and scale factor of a group, by custom_kernel.h's formulas in numpy's float32."""
    with np.errstate(all="ignore"):
        if np.isnan(group).any():
            factor, byte = np.float32("nan"), 0x7F
        else:
            byte = nearest(min(float(np.abs(group).max() * scale * np.float32(1 / 6)), 448.0), E4M3)
            factor = scale / np.float32(E4M3[byte]) if byte else np.float32(0)
        codes = []
        for value in group * factor:
            code = 7 if np.isnan(value) else nearest(min(abs(float(value)), 6.0), E2M1)
            codes.append(code | (8 if np.signbit(value) and not np.isnan(value) else 0))
    return codes, byte


@settings(max_examples=60, deadline=None)
@given(st.lists(st.floats(width=32), min_size=16, max_size=16), st.sampled_from([1.0, 0.0078125, 3.0, 2688.0, 1e-30]))
def test_a_group_is_quantized_as_the_header_says(values, scale):
    group = np.array(values, dtype=np.float32)
    found = extended.quantize(torch.from_numpy(group)[None], torch.tensor(scale))
    codes = [int(code) for byte in found.codes[0] for code in (byte & 15, byte >> 4)]
    want, byte = quantized(group, np.float32(scale))
    assert (codes, int(found.scales[0, 0])) == (want, byte)


def test_ties_go_to_even_and_the_largest_saturate():
    ties = torch.tensor([[0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0, 6.0, -0.25, -0.75, -5.0, 0.0, -0.0, 1, 2, 3]])
    found = extended.quantize(ties)
    assert found.scales.item() == 0x38
    assert nvfp4.decode_e2m1(found.codes)[0].tolist() == [0, 1, 1, 2, 2, 4, 4, 6, 0, -1, -4, 0, 0, 1, 2, 3]
    assert extended.quantize(torch.full((1, 16), 1e30)).scales.item() == 0x7E
    assert (
        extended.quantize(torch.full((1, 16), 6 * 2.0**-11)).scales.item() == 0
    )  # halfway to the smallest scale factor: to even, 0


@pytest.mark.parametrize("weights", [extended.STACKED, *extended.INTERLEAVED])
def test_joint_weights_are_pieces_of_gate_and_up_in_turn(weights):
    gate, up = torch.arange(128).reshape(128, 1), torch.arange(1000, 1128).reshape(128, 1)
    joint = extended.join(gate, up, weights)
    piece = 128 if weights == extended.STACKED else weights
    want = [row for start in range(0, 128, piece) for of in (gate, up) for row in of[start : start + piece, 0].tolist()]
    assert joint[:, 0].tolist() == want
    assert all(torch.equal(*pair) for pair in zip(extended.split(joint, weights), (gate, up), strict=True))


def test_the_activation_is_that_of_the_models():
    gate, up = torch.tensor([[-9.0, 0.5, 8.0, 8.0]]), torch.tensor([[2.0, -9.0, 9.0, 3.0]])
    gpt = extended.activate(gate, up, Extension(limit=7.0, alpha=1.702, beta=1.0))
    clamped, linear = torch.tensor([[-9.0, 0.5, 7.0, 7.0]]), torch.tensor([[3.0, -6.0, 8.0, 4.0]])
    assert torch.allclose(gpt, clamped * torch.sigmoid(1.702 * clamped) * linear, rtol=1e-6)
    scaled = extended.activate(
        gate, up, Extension(scale_gate=torch.tensor(2.0), scale_up=torch.tensor(3.0), token_scale=torch.tensor([0.5]))
    )
    assert torch.allclose(scaled, torch.nn.functional.silu(gate) * up * 1.5, rtol=1e-6)
    nan = extended.activate(torch.tensor([[torch.nan, 1.0]]), torch.tensor([[1.0, torch.nan]]), Extension(limit=1.0))
    assert nan.isnan().all()


def test_the_oracle_bounds_what_float32_loses_and_no_more():
    generator = torch.Generator().manual_seed(3)
    codes = [torch.randint(0, 256, (rows, 96), dtype=torch.uint8, generator=generator) for rows in (9, 32, 32)]
    scales = [torch.randint(0x28, 0x41, (rows, 12), dtype=torch.uint8, generator=generator) for rows in (9, 32, 32)]
    options = Extension(output=extended.BF16, scale_gate=torch.tensor(0.01), limit=3.0, alpha=1.7, beta=1.0)
    value, error = extended.oracle(codes, scales, options)
    assert (error < 2e-3 * value.abs().clamp(min=1)).all()
    found = extended.reference(codes, scales, options).double()
    assert ((found - value).abs() <= error + value.abs() * 2.0**-8).all()
    assert extended.oracle((*codes[:2], None), (*scales[:2], None), Extension(plain=True)).value.shape == (9, 32)


def test_each_order_of_weights_is_another():
    """The orders of weights in one tensor differ from each other and from two separate tensors."""
    assert len({extended.APART, extended.STACKED, *extended.INTERLEAVED}) == 5
    gate, up = torch.arange(128).reshape(-1, 1), torch.arange(1000, 1128).reshape(-1, 1)
    first = {tuple(extended.join(gate, up, weights)[:, 0].tolist()) for weights in (extended.STACKED, 8, 32, 64)}
    assert len(first) == 4


def test_the_oracles_bound_knows_the_limit():
    """If the limit cuts the gate, the error bound is up's error times the limit, so it grows with the limit."""
    generator = torch.Generator().manual_seed(5)
    codes = tuple(torch.randint(0, 256, (rows, 32), generator=generator, dtype=torch.uint8) for rows in (3, 4, 4))
    scales = tuple(torch.randint(0x28, 0x38, (rows, 4), generator=generator, dtype=torch.uint8) for rows in (3, 4, 4))
    largest = []
    for limit in (0.5, 4.0, torch.inf):
        extension = Extension(limit=limit, scale_gate=torch.tensor(0.25), scale_up=torch.tensor(2.0))
        want = extended.reference(codes, scales, extension).double()
        value, bound = extended.oracle(codes, scales, extension)
        assert ((value - want).abs() <= bound + 2**-10 * value.abs() + 2**-24).all()
        largest.append(bound.max().item())
    assert largest[0] < largest[1] < largest[2], largest


def test_a_call_without_options_is_the_plain_dual_gemm_in_fp16():
    assert Extension() == (False, extended.FP16, None, None, None, None, float("inf"), 1.0, 0.0, None, None, None)
