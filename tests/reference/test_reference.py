"""reference/reference.py: values by hand, exact sums, and the inputs' contract."""

from __future__ import annotations

import math
from fractions import Fraction

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from reference import nvfp4
from reference.reference import (
    check_against_oracle,
    check_implementation,
    default_device,
    generate_input,
    oracle,
    ref_kernel,
)
from tests.reference.reference_kit import NAN, ONE, by_hand, cpu_input, with_scale

NAMES = ("a", "b1", "b2", "sfa", "sfb1", "sfb2", "sfa_permuted", "sfb1_permuted", "sfb2_permuted", "c")


def silu(x: float) -> float:
    return x / (1 + math.exp(-x))


@pytest.mark.parametrize(
    ("a", "b1", "b2", "scale", "gate", "up"),
    [
        ([1.0], [1.0], [1.0], ONE, 1, 1),
        ([2.0, 0.5], [1.0, 2.0], [-3.0, 4.0], ONE, 3, -4),
        ([6.0], [-6.0], [6.0], ONE, -36, 36),  # silu(-36) is 8e-15: fp16 zero
        ([1.0, 1.5], [0.5, 1.0], [1.0, 1.0], 0x40, 8, 10),  # scales 2 on both sides: 4 * 2 and 4 * 2.5
        ([1.0], [1.0], [1.0], 0x01, 2**-18, 2**-18),  # the smallest scale factor, subnormal: 2^-9 squared
        ([0.0], [6.0], [6.0], ONE, 0, 0),
    ],
)
def test_one_element_by_hand(a, b1, b2, scale, gate, up):
    data = by_hand({"a": a, "b1": b1, "b2": b2}, {"a": scale, "b1": scale, "b2": scale})
    wanted = silu(gate) * up
    assert oracle(data).item() == pytest.approx(wanted, rel=1e-12)
    assert ref_kernel(data).item() == torch.tensor(wanted).half().item()


def test_overflow_becomes_infinity_with_its_sign():
    for factor, wanted in ((6.0, math.inf), (-6.0, -math.inf)):
        data = by_hand({"a": [6.0], "b1": [6.0], "b2": [factor]}, {"a": 0x7E})
        assert ref_kernel(data).item() == wanted


@settings(max_examples=15, deadline=None)
@given(st.integers(1, 3), st.integers(1, 3), st.sampled_from([64, 128]), st.integers(1, 2), st.integers(0, 2**32 - 1))
def test_oracle_equals_sums_of_exact_fractions(m, n, k, batches, seed):
    data = cpu_input(m, n, k, batches, seed, full=True)
    operands = [
        [[[Fraction(v) for v in row] for row in nvfp4.decode(code[..., i], scale[..., i]).tolist()]
         for code, scale in zip(data[:3], data[3:6], strict=True)]
        for i in range(batches)
    ]  # fmt: skip
    got = oracle(data)
    for i, (a, b1, b2) in enumerate(operands):
        for row in range(m):
            for column in range(n):
                gate = float(sum(x * y for x, y in zip(a[row], b1[column], strict=True)))
                up = float(sum(x * y for x, y in zip(a[row], b2[column], strict=True)))
                wanted = gate / (1 + math.exp(min(-gate, 700))) * up
                assert got[row, column, i].item() == pytest.approx(wanted, rel=1e-9, abs=1e-290)


def test_seven_tensors_give_what_ten_give():
    data = cpu_input(5, 7, 128, 2)
    assert torch.equal(ref_kernel((*data[:6], data[9])), ref_kernel(data))


def test_batches_are_independent():
    data = cpu_input(6, 5, 128, 3)
    whole = ref_kernel(data)
    assert whole.shape == (6, 5, 3)
    for i in range(3):
        alone = tuple(tensor[..., i : i + 1] for tensor in (*data[:6], data[9]))
        assert torch.equal(ref_kernel(alone)[..., 0], whole[..., i])


def test_the_sign_bit_of_a_scale_is_ignored():
    data = cpu_input(6, 5, 64, full=True)
    stripped = [(nvfp4.as_bytes(scale) & 0x7F).view(torch.float8_e4m3fn) for scale in data[3:6]]
    assert any((nvfp4.as_bytes(scale) >= 0x80).any() for scale in data[3:6])
    assert torch.equal(oracle((*data[:3], *stripped, data[9])), oracle(data))


@pytest.mark.parametrize("byte", [NAN, NAN | 0x80])
@pytest.mark.parametrize(("index", "axis"), [(3, 0), (4, 1), (5, 1)])
def test_a_nan_scale_reaches_its_row_or_column_alone(index, axis, byte):
    data = with_scale(cpu_input(6, 5, 128), index, (2, 3, 0), byte)
    for result in (ref_kernel(data), oracle(data)):
        wrong = result[..., 0].isnan()
        assert wrong.select(axis, 2).all()
        assert wrong.sum() == wrong.select(axis, 2).numel()
    assert check_implementation(data, ref_kernel(data)) == (True, "")
    assert check_against_oracle(data, ref_kernel(data)) == (True, "")


# --- generate_input ---------------------------------------------------------------------------------------


@pytest.mark.parametrize(("m", "n", "k", "l"), [(128, 256, 256, 1), (40, 72, 64, 2), (129, 1, 320, 3)])
@pytest.mark.parametrize("full", [False, True])
def test_tensors_have_the_leaderboards_shapes_strides_and_dtypes(m, n, k, l, full):  # noqa: E741
    data = dict(zip(NAMES, cpu_input(m, n, k, l, full=full), strict=True))
    for name, rows in (("a", m), ("b1", n), ("b2", n)):
        codes, scales, permuted = data[name], data[f"sf{name}"], data[f"sf{name}_permuted"]
        tiles_m, tiles_k = math.ceil(rows / 128), k // 64
        assert (codes.shape, codes.dtype) == ((rows, k // 2, l), torch.float4_e2m1fn_x2)
        assert codes.stride() == (k // 2, 1, rows * k // 2)
        assert (scales.shape, scales.dtype) == ((rows, k // 16, l), torch.float8_e4m3fn)
        assert scales.stride() == (k // 16, 1, rows * k // 16)
        assert (permuted.shape, permuted.dtype) == ((32, 4, tiles_m, 4, tiles_k, l), torch.float8_e4m3fn)
        assert permuted.stride() == (16, 4, tiles_k * 512, 1, 512, tiles_m * tiles_k * 512)
        back = nvfp4.from_blocked(permuted, rows, k // 16)
        assert torch.equal(nvfp4.as_bytes(back), nvfp4.as_bytes(scales))
        assert permuted.float().isnan().sum() == permuted.numel() - scales.numel(), "padding is NaN"
    assert (data["c"].shape, data["c"].dtype, data["c"].stride()) == ((m, n, l), torch.float16, (n, 1, m * n))


def test_a_seed_fixes_the_data_and_another_changes_every_tensor():
    first, again, other = cpu_input(16, 24, 64, seed=3), cpu_input(16, 24, 64, seed=3), cpu_input(16, 24, 64, seed=4)
    for name, x, y, z in zip(NAMES[:9], first, again, other, strict=False):
        x, y, z = (nvfp4.as_bytes(tensor) for tensor in (x, y, z))
        assert torch.equal(x, y), name
        assert not torch.equal(x, z), name


def test_the_torch_generator_of_the_caller_is_left_alone():
    torch.manual_seed(0)
    wanted = torch.rand(3)
    torch.manual_seed(0)
    cpu_input(4, 4, 64)
    assert torch.equal(torch.rand(3), wanted)


def test_full_data_overflows_somewhere_but_not_everywhere():
    finite = ref_kernel(cpu_input(64, 64, 256, full=True)).isfinite()
    assert finite.any() and not finite.all()


def test_the_device_defaults_to_the_gpu_if_there_is_one():
    assert default_device().type == ("cuda" if torch.cuda.is_available() else "cpu")
    assert generate_input(1, 1, 64)[9].device.type == default_device().type
