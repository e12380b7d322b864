"""Comparing an output with the reference and the oracle: tolerances, special values, planted errors."""

from __future__ import annotations

import math
import re

import pytest
import torch

from reference import nvfp4
from reference.reference import (
    RTOL,
    check_against_oracle,
    check_implementation,
    check_with_rounding,
    compare,
    oracle,
    oracle_with_error,
    ref_kernel,
)
from tests.reference.reference_kit import NAN, by_hand, cpu_input, with_scale


def halves(*values: float) -> torch.Tensor:
    return torch.tensor(values, dtype=torch.float16)


def test_the_first_mismatches_are_listed_in_order():
    want = torch.zeros(4, 3, 1, dtype=torch.float16)
    got = want.clone()
    for row, column in ((3, 2), (0, 1), (1, 0), (1, 1), (2, 2), (3, 0)):
        got[row, column, 0] = 1 + row
    passed, message = compare(got, want)
    assert not passed
    assert message.startswith("6 of 12 elements differ: at (0, 1, 0) got 1, expected 0; at (1, 0, 0) got 2")
    assert re.findall(r"\((\d), (\d), 0\)", message) == [("0", "1"), ("1", "0"), ("1", "1"), ("2", "2"), ("3", "0")]


@pytest.mark.parametrize(
    ("spoil", "message"),
    [
        (lambda c: None, "the output is a NoneType; expected a torch.Tensor"),
        (lambda c: c[:-1], r"the output has shape (5, 5, 1); expected (6, 5, 1)"),
        (lambda c: c.transpose(0, 1), r"the output has shape (5, 6, 1); expected (6, 5, 1)"),
        (lambda c: c[..., 0], r"the output has shape (6, 5); expected (6, 5, 1)"),
        (lambda c: c.float(), "the output has dtype torch.float32; expected torch.float16"),
        (lambda c: c.to("meta"), "the output is on meta; expected cpu"),
    ],
)
def test_outputs_of_the_wrong_kind_are_named(spoil, message):
    data = cpu_input(6, 5, 64)
    spoilt = spoil(ref_kernel(data))
    assert check_implementation(data, spoilt) == (False, message)
    assert check_against_oracle(data, spoilt) == (False, message)


def test_the_references_own_output_passes():
    for full in (False, True):
        data = cpu_input(48, 40, 256, 2, full=full)
        assert check_implementation(data, ref_kernel(data)) == (True, "")
        assert check_against_oracle(data, ref_kernel(data)) == (True, "")


# --- planted errors ---------------------------------------------------------------------------------------


def drop_a_group(data):
    return oracle(with_scale(data, 3, (slice(None), 1), 0))


def swap_gate_and_factor(data):
    return oracle((data[0], data[2], data[1], data[3], data[5], data[4], data[9]))


def swap_nibbles(data):
    packed = nvfp4.as_bytes(data[0])
    return oracle(((packed << 4 | packed >> 4).view(torch.float4_e2m1fn_x2), *data[1:]))


def shift_scales(data):
    return oracle((*data[:4], data[4].view(torch.uint8).roll(1, dims=1).view(torch.float8_e4m3fn), *data[5:]))


def forget_silu(data):
    codes, scales = data[:3], data[3:6]
    a, b1, b2 = (nvfp4.decode(x[..., 0], s[..., 0]).double() for x, s in zip(codes, scales, strict=True))
    return ((a @ b1.t()) * (a @ b2.t())).unsqueeze(-1)


def one_wrong_element(data):
    value, error = oracle_with_error(data)
    slack = (1e-3 + 1e-3 * value.abs() + error).where(value.abs() < 6e4, torch.inf)
    surest = slack.argmin()  # the element with the smallest allowance
    wrong = value.flatten()
    wrong[surest] += 1.5 * slack.flatten()[surest]
    return wrong.view_as(value)


PLANTED = [drop_a_group, swap_gate_and_factor, swap_nibbles, shift_scales, forget_silu, one_wrong_element]


@pytest.mark.parametrize("full", [False, True])
@pytest.mark.parametrize("plant", PLANTED)
def test_planted_errors_are_caught(plant, full):
    data = cpu_input(64, 48, 256, seed=5, full=full)
    wrong = plant(data).half()
    for check in (check_implementation, check_against_oracle):
        passed, message = check(data, wrong)
        assert not passed and re.match(r"\d+ of 3072 elements differ: at \(", message), check.__name__


@pytest.mark.parametrize("full", [False, True])
def test_a_garbage_nan_or_a_missing_one_is_caught(full):
    data = cpu_input(8, 8, 64, full=full)
    spoilt = ref_kernel(data).clone()
    spoilt[3, 4, 0] = math.nan
    broken = with_scale(data, 3, (3, 0, 0), NAN)
    for check in (check_implementation, check_against_oracle):
        assert "1 of 64 elements differ: at (3, 4, 0) got nan" in check(data, spoilt)[1]
        assert not check(broken, ref_kernel(data))[0]


@pytest.mark.parametrize("sign", [1, -1])
def test_a_missing_overflow_is_caught(sign):
    data = by_hand({"a": [6.0], "b1": [6.0], "b2": [6.0 * sign]}, {"a": 0x7E})  # far past the largest fp16
    for wrong in (-math.inf, 0.0, 60000.0, 65504.0, math.nan):
        assert not check_against_oracle(data, halves(wrong * sign).view(1, 1, 1))[0], wrong
    assert check_against_oracle(data, halves(math.inf * sign).view(1, 1, 1))[0]


@pytest.mark.parametrize("full", [False, True])
def test_sums_in_any_order_stay_within_the_oracles_allowance(full):
    data = cpu_input(24, 24, 1024, seed=9, full=full)
    value, error = oracle_with_error(data)
    assert (error >= 0).all()
    # Reversing whole bytes keeps each byte's nibbles and each group's 8 bytes together: the same sums in reverse order.
    codes = [nvfp4.as_bytes(x).flip(1).view(torch.float4_e2m1fn_x2) for x in data[:3]]
    scales = [nvfp4.as_bytes(x).flip(1).view(torch.float8_e4m3fn) for x in data[3:6]]
    backwards = (*codes, *scales, data[9])
    assert ((oracle(backwards) - value).abs() <= error * 2.0**-20).all()
    assert check_against_oracle(data, ref_kernel(backwards))[0]


def test_the_allowance_is_of_the_tolerances_order_on_leaderboard_data():
    value, error = oracle_with_error(cpu_input(32, 32, 1024))
    assert (error / (RTOL + RTOL * value.abs())).median() < 2


def test_a_cancelled_element_may_be_off_by_its_sums_rounding_and_no_more():
    data = cpu_input(64, 64, 2048)
    value, error = oracle_with_error(data, roundings=1)
    assert (oracle_with_error(data).fp32_error >= error * (2048 / 16 - 1)).all(), "far below the worst case"
    tolerance = RTOL + RTOL * value.abs()
    # The element whose sum's rounding is the largest share of the tolerance.
    place = (*divmod(int((error / tolerance)[..., 0].argmax()), 64), 0)
    assert error[place] > 0.5 * tolerance[place]
    for share, strict, lenient in ((0.2, True, True), (0.9, False, True), (2.0, False, False), (-2.0, False, False)):
        output = ref_kernel(data).clone()
        output[place] = value[place] + share * (tolerance + error)[place]
        assert check_implementation(data, output)[0] == strict, share
        assert check_with_rounding(data, output)[0] == lenient, share


def test_allowing_for_rounding_passes_no_other_wrong_output():
    data = cpu_input(48, 80, 1024)
    right = ref_kernel(data)
    gate, up = (
        (nvfp4.decode(data[0][..., 0], data[3][..., 0]).half() @ nvfp4.decode(b[..., 0], s[..., 0]).half().t()).float()
        for b, s in ((data[1], data[4]), (data[2], data[5]))
    )
    sums_in_half = (torch.nn.functional.silu(gate) * up).half().unsqueeze(-1)
    one_wrong = right.clone()
    one_wrong[7, 9, 0] += 1
    for wrong in (sums_in_half, one_wrong, right.float(), right[:-1], right * torch.nan, torch.zeros_like(right)):
        assert check_with_rounding(data, wrong)[0] is False
        assert check_with_rounding(data, wrong) == check_implementation(data, wrong)
    assert check_with_rounding(data, right) == (True, "")
