"""The reference's edge cases: distributions of inputs, the oracle's bounds and the tolerance on both sides."""

from __future__ import annotations

import functools
import math

import pytest
import torch

from reference import extended_reference as extended
from reference import nvfp4, operands, reference
from reference.reference import (
    Oracle,
    check_against_oracle,
    check_with_rounding,
    compare,
    generate_input,
    oracle_with_error,
    ref_kernel,
)
from tests.reference.reference_kit import by_hand, cpu_input

MANY = (192, 160, 2048, 1)  # some hundred thousand numbers in each tensor
INF, NAN = math.inf, math.nan


def halves(*values):
    return torch.tensor(values, dtype=torch.float16)


# --- the inputs' distributions ------------------------------------------------------------------------


@pytest.mark.parametrize("full", [False, True])
def test_every_allowed_byte_of_codes_comes_equally_often(full):
    for codes in cpu_input(*MANY, full=full)[:3]:
        counts = torch.bincount(nvfp4.as_bytes(codes).flatten().int(), minlength=256).double()
        allowed = [byte for byte in range(256) if full or byte & ~0xBB == 0]
        assert counts.nonzero().flatten().tolist() == allowed
        share = counts[allowed] / counts.sum() * len(allowed)
        assert share.min() > 0.8 and share.max() < 1.2


def test_leaderboard_scales_are_uniform_in_zero_to_one():
    for scales in cpu_input(*MANY)[3:6]:
        assert not (nvfp4.as_bytes(scales) & 0x80).any()
        values = scales.float().flatten()
        for edge in (0.125, 0.25, 0.5, 0.75, 0.875, 0.9375):
            # The share that rounds to below an edge: e4m3 has steps of 1/16 of a binade.
            assert (values < edge).double().mean().item() == pytest.approx(edge, abs=0.04)
        assert values.max() == 1


def test_full_scales_come_in_rows_of_two_kinds_in_equal_shares():
    for scales in cpu_input(1024, 1024, 1024, 1, full=True)[3:6]:
        raw = nvfp4.as_bytes(scales)[..., 0].int()
        magnitudes = raw & 0x7F
        small = (magnitudes <= nvfp4.SCALE_MAX_FINITE // 4).all(dim=1)
        assert small.double().mean().item() == pytest.approx(0.5, abs=0.07)
        for rows, most in ((magnitudes[small], nvfp4.SCALE_MAX_FINITE // 4), (magnitudes[~small], 0x7E)):
            counts = torch.bincount(rows.flatten(), minlength=128).double()
            assert counts.nonzero().flatten().tolist() == list(range(most + 1))
            share = counts[: most + 1] / counts.sum() * (most + 1)
            assert share.min() > 0.7 and share.max() < 1.3
        assert (raw >> 7).double().mean().item() == pytest.approx(0.5, abs=0.02)
        # The sign is independent of the magnitude and of the row's kind.
        assert (raw[small] >> 7).double().mean().item() == pytest.approx(0.5, abs=0.02)
        assert (raw[magnitudes == 0] >> 7).double().mean().item() == pytest.approx(0.5, abs=0.1)


def test_rows_of_full_scales_are_drawn_anew_in_each_batch():
    scales = nvfp4.as_bytes(cpu_input(256, 8, 512, 2, full=True)[3]) & 0x7F
    small = (scales <= nvfp4.SCALE_MAX_FINITE // 4).all(dim=1)
    assert 64 < (small[:, 0] != small[:, 1]).sum() < 192


def test_the_tensors_of_a_problem_differ_from_each_other():
    data = cpu_input(32, 32, 128, 2)
    for first, second in ((0, 1), (1, 2), (0, 2), (3, 4), (4, 5), (3, 5)):
        assert not torch.equal(nvfp4.as_bytes(data[first]), nvfp4.as_bytes(data[second]))


def test_the_defaults_are_the_leaderboards():
    wanted = cpu_input(8, 8, 64, 1, 1111, False)
    for got, want in zip(generate_input(8, 8, 64, device="cpu")[:9], wanted, strict=False):
        assert torch.equal(nvfp4.as_bytes(got), nvfp4.as_bytes(want))


def test_the_first_numbers_of_a_seed_are_these():
    """A different order of draws would invalidate every recorded result."""
    data = cpu_input(2, 3, 64, 1)
    generator = torch.Generator("cpu").manual_seed(1111)
    for codes, rows in zip(data[:3], (2, 3, 3), strict=True):
        drawn = torch.randint(0, 256, (1, rows, 32), dtype=torch.uint8, generator=generator) & 0xBB
        assert torch.equal(nvfp4.as_bytes(codes).permute(2, 0, 1), drawn)
    for scales, rows in zip(data[3:6], (2, 3, 3), strict=True):
        drawn = torch.rand((1, rows, 4), generator=generator).to(torch.float8_e4m3fn)
        assert torch.equal(nvfp4.as_bytes(scales).permute(2, 0, 1), drawn.view(torch.uint8))


@pytest.mark.parametrize("name", ["m", "n", "k", "l"])
@pytest.mark.parametrize("value", [0, -1])
def test_every_extent_is_at_least_one(name, value):
    with pytest.raises(ValueError, match=f"^{name} is {value}; expected at least 1$"):
        generate_input(**{"m": 1, "n": 1, "k": 64, "l": 1, name: value}, device="cpu")


@pytest.mark.parametrize("k", [1, 32, 63, 65, 96, 127])
def test_k_is_a_multiple_of_64(k):
    with pytest.raises(ValueError, match=f"^k is {k}; expected a multiple of 64$"):
        generate_input(1, 1, k, device="cpu")


# --- the tolerance ------------------------------------------------------------------------------------


def test_the_tolerance_is_a_thousandth_and_a_thousandth():
    want = torch.tensor([0.0, 1.0, -1.0, 8.0, -4096.0], dtype=torch.float64)
    slack = 0.001 + 0.001 * want.abs()
    for sign in (1, -1):
        assert compare(want + sign * slack * (1 - 1e-9), want) == (True, "")
        passed, message = compare(want + sign * slack * (1 + 1e-9), want)
        assert not passed and message.startswith("5 of 5")


def test_the_tolerance_is_of_the_wanted_value_and_includes_its_end():
    one = torch.ones(1, dtype=torch.float64)
    assert compare(one * 1.5, one, rtol=0.5, atol=0)[0]
    assert compare(one * 0.5, one, rtol=0.5, atol=0)[0]
    assert not compare(one, one * 1.75, rtol=0.375, atol=0)[0]
    assert compare(one, one * 1.6, rtol=0.375, atol=0)[0]  # 0.6 of 1.6 * 0.375; of the got value it would be too much
    assert compare(one, one * 0.75, rtol=0, atol=0.25)[0]


@pytest.mark.parametrize("want", [0.0, -1.0, 65504.0, INF, -INF, NAN])
@pytest.mark.parametrize("got", [0.0, -1.0, 65504.0, INF, -INF, NAN])
def test_one_special_value_among_right_ones_is_found(got, want):
    x, y = halves(1, got, 2), halves(1, want, 2)
    same = got == want or (math.isnan(got) and math.isnan(want))
    passed, message = compare(x, y)
    assert passed == same
    if not same:
        assert message == f"1 of 3 elements differ: at (1,) got {got:g}, expected {want:g}"


# --- the oracle's bounds ------------------------------------------------------------------------------


def verdict_of(monkeypatch, value, error, output):
    """check_against_oracle() with an oracle that returns `value` and `error`."""
    known = Oracle(torch.tensor([value], dtype=torch.float64), torch.tensor([error], dtype=torch.float64))
    monkeypatch.setattr(reference, "oracle_with_error", lambda data, roundings=None: known)
    return check_against_oracle((halves(0),) * 7, halves(output))[0]


TOP, HALF, NEXT = 65504.0, 65520.0, 65472.0  # the largest fp16 value, where infinity begins, the one below the largest
UNDER = 65519.99


@pytest.mark.parametrize("sign", [1, -1])
@pytest.mark.parametrize(
    ("low", "high", "passing"),
    [
        # The interval of values before rounding; the fp16 values that may result.
        (60000, 65471.9, ()),
        (60000, NEXT, (NEXT,)),
        (60000, 65503.9, (NEXT,)),
        (60000, TOP, (NEXT, TOP)),
        (60000, UNDER, (NEXT, TOP)),
        (60000, HALF, (NEXT, TOP, INF)),
        (60000, 70000, (NEXT, TOP, INF)),
        (NEXT, 70000, (NEXT, TOP, INF)),
        (65472.1, 70000, (TOP, INF)),
        (TOP, 70000, (TOP, INF)),
        (65504.1, 70000, (TOP, INF)),
        (UNDER, 70000, (TOP, INF)),
        (65505, 65510, (TOP,)),
        (HALF, 70000, (INF,)),
        (70000, 80000, (INF,)),
    ],
)
def test_both_ends_of_the_oracles_interval_are_rounded_as_fp16_is(monkeypatch, low, high, passing, sign):
    value = sign * (low + high) / 2
    error = (high - low) / 2 - (reference.ATOL + reference.RTOL * abs(value))
    for output in (0.0, NEXT, TOP, INF, -NEXT, -TOP, -INF, NAN):
        wanted = output in passing
        monkeypatch.undo()
        assert verdict_of(monkeypatch, value, error, sign * output) == wanted, output


@pytest.mark.parametrize("value", [0.0, 0.5, -3.0, 200.0])
def test_the_oracle_allows_its_error_beside_the_tolerance_on_both_sides(monkeypatch, value):
    error = 0.25
    slack = 0.001 + 0.001 * abs(value) + error
    for side in (1, -1):
        inside = halves(value + side * (slack - 0.13)).item()
        outside = halves(value + side * (slack + 0.13)).item()
        assert abs(inside - value) < slack < abs(outside - value)
        assert verdict_of(monkeypatch, value, error, inside)
        assert not verdict_of(monkeypatch, value, error, outside)


@pytest.mark.parametrize("value", [0.0, 1000.0])
def test_the_tolerances_both_parts_count_for_the_oracle(monkeypatch, value):
    slack = 0.001 + 0.001 * value
    step = 2.0**-12 if value == 0 else 0.5
    assert verdict_of(monkeypatch, value, 0.0, value + slack // step * step)
    assert not verdict_of(monkeypatch, value, 0.0, value + (slack // step + 1) * step)


@pytest.mark.parametrize(
    ("want", "got", "right"), [(NAN, NAN, True), (NAN, 1.0, False), (NAN, INF, False), (1.0, NAN, False)]
)
def test_nan_matches_nan_alone_for_the_oracle(monkeypatch, want, got, right):
    assert verdict_of(monkeypatch, want, 0.0, got) == right


@pytest.mark.parametrize("roundings", [None, 1.0, 3.0])
@pytest.mark.parametrize("groups", [4, 8])
def test_the_allowance_is_what_its_description_says(roundings, groups):
    data = by_hand({"a": [2.0, 3.0, -1.0], "b1": [1.0, -2.0, 4.0], "b2": [0.5, 6.0, 3.0]}, {}, k=16 * groups)
    gate, up = 2 - 6 - 4, 1 + 18 - 3
    gate_magnitudes, up_magnitudes = 2 + 6 + 4, 1 + 18 + 3
    relative = (groups if roundings is None else roundings) * 2.0**-23
    gate_error, up_error = relative * gate_magnitudes, relative * up_magnitudes
    silu = gate / (1 + math.exp(-gate))
    value, error = oracle_with_error(data, roundings)
    assert value.item() == pytest.approx(silu * up, rel=1e-12)
    # 1.1 bounds the slope of silu: at 2.4 it is 1.0998.
    wanted = 1.1 * gate_error * (abs(up) + up_error) + abs(silu) * up_error
    assert error.item() == pytest.approx(wanted, rel=1e-12)


def test_the_slopes_of_activations_are_bounded_closely():
    """GELU's is the steepest of the extended GEMM's that are bounded."""
    slopes = []
    for function in (torch.nn.functional.silu, functools.partial(torch.nn.functional.gelu, approximate="tanh")):
        x = torch.linspace(-30, 30, 60001, dtype=torch.float64, requires_grad=True)
        function(x).sum().backward()
        slopes.append(x.grad.abs().max())
    assert 0.999 * reference.SILU_MAX_SLOPE < slopes[0] <= reference.SILU_MAX_SLOPE
    assert 0.998 * extended.SLOPE < max(slopes) <= extended.SLOPE


def test_checks_with_rounding_allow_one_rounding(monkeypatch):
    asked = []

    def against_oracle(data, output, roundings=None):
        asked.append(roundings)
        return True, ""

    monkeypatch.setattr(reference, "check_against_oracle", against_oracle)
    data = cpu_input(4, 4, 64, 1)
    output = ref_kernel(data)
    assert check_with_rounding(data, output) == (True, "")
    assert asked == [], "what the reference says is right is right"
    assert check_with_rounding(data, output + 1) == (True, "")
    assert asked == [1.0]


# --- the reference kernel -----------------------------------------------------------------------------


def test_the_product_is_rounded_to_fp16_once():
    """If gate and up were rounded first, the product would differ."""
    data = by_hand({"a": [6.0, 0.5, 1.0], "b1": [6.0, 0.5, 0.5], "b2": [6.0, 0.5, -0.5]}, {})
    gate, up = 36.75, 35.75
    exact = gate / (1 + math.exp(-gate)) * up
    assert ref_kernel(data).item() == halves(exact).item()
    # 36.75 * 35.75 = 1313.8125: one rounding gives 1314.
    data = cpu_input(64, 64, 512, 1)
    value, _ = oracle_with_error(data)
    wrong = ref_kernel(data).double() != value.half().double()
    assert wrong.double().mean() < 0.01


@pytest.mark.parametrize("allowed", [False, True])
def test_the_product_turns_tf32_off_and_back_as_it_was(allowed):
    matmul = torch.backends.cuda.matmul
    before = matmul.allow_tf32
    seen = []

    class Watched:
        def __matmul__(self, other):
            seen.append(matmul.allow_tf32)
            raise RuntimeError("no product")

        def t(self):
            return self

    try:
        matmul.allow_tf32 = allowed
        with pytest.raises(RuntimeError, match="no product"):
            operands.exact_product(Watched(), Watched())
        assert seen == [False]
        assert matmul.allow_tf32 == allowed
    finally:
        matmul.allow_tf32 = before


@pytest.mark.parametrize(
    ("capability", "m", "n", "scaled"),
    [
        ((10, 0), 128, 256, True),
        ((10, 3), 128, 256, True),
        ((12, 0), 128, 256, True),
        ((9, 0), 128, 256, False),
        (None, 128, 256, False),
        ((10, 0), 120, 256, False),
        ((10, 0), 128, 200, False),
    ],
)
def test_fp4_tensor_cores_are_used_if_chip_and_shape_allow(monkeypatch, capability, m, n, scaled):
    """torch._scaled_mm is replaced by a function that counts calls and checks its operands."""
    calls = []

    def scaled_mm(a, b, scale_a, scale_b, out_dtype):
        calls.append((a.shape, b.shape, scale_a.shape, scale_b.shape))
        assert out_dtype is torch.float32
        assert (a.stride(), b.stride()) == ((32, 1), (1, 32))
        unblocked = []
        for scale, rows in ((scale_a, a.shape[0]), (scale_b, b.shape[1])):
            assert not (scale.view(torch.uint8) & 0x80).any(), "magnitudes"
            tiles = scale.view(torch.uint8).view(-1, 1, 32, 4, 4).permute(0, 3, 2, 1, 4).reshape(-1, 4)
            unblocked.append(tiles[:rows].contiguous().view(torch.float8_e4m3fn))
        return nvfp4.decode(a, unblocked[0]) @ nvfp4.decode(b.t(), unblocked[1]).t()

    monkeypatch.setattr(torch, "_scaled_mm", scaled_mm)
    if capability is not None:
        monkeypatch.setattr(torch.Tensor, "is_cuda", property(lambda tensor: True), raising=False)
        monkeypatch.setattr(torch.cuda, "get_device_capability", lambda device: capability)
    data = cpu_input(m, n, 64, 2, full=True)
    output = ref_kernel(data)
    monkeypatch.undo()
    shapes = ((m, 32), (32, n), (-(-m // 128) * 512,), (-(-n // 128) * 512,))
    assert calls == ([shapes] * 4 if scaled else [])
    assert check_against_oracle(data, output) == (True, "")


@pytest.mark.parametrize("count", [0, 3, 6, 8, 9, 11])
def test_data_of_another_length_is_refused(count):
    data = (*cpu_input(1, 1, 64, 1), None)[:count]
    for function in (ref_kernel, oracle_with_error):
        with pytest.raises(ValueError, match=f"^data has {count} tensors; expected 7 or 10$"):
            function(data)
