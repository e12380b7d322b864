"""Conversions: every code both ways, against torch where it has the type and against Fractions everywhere."""

from __future__ import annotations

from bisect import bisect_left
from fractions import Fraction

import numpy as np
import pytest
import torch

from simulator.python.tensorcore import RELU, SATFINITE, from_f32, to_f32
from simulator.validation.fused_sum import LAYOUTS, codes_of, decode

TORCH = {
    "e4m3": torch.float8_e4m3fn,
    "e5m2": torch.float8_e5m2,
    "f16": torch.float16,
    "bf16": torch.bfloat16,
    "ue8m0": torch.float8_e8m0fnu,
}
NARROW = ("e2m1", "e2m3", "e3m2")  # no NaN, no infinity
NAN_CODE = {"e4m3": 0x7F, "ue4m3": 0x7F, "e5m2": 0x7F, "f16": 0x7FFF, "bf16": 0x7FFF, "tf32": 0x7FFFE000}
LARGEST = {"e2m1": 7, "e2m3": 31, "e3m2": 31, "e4m3": 0x7E, "e5m2": 0x7B, "f16": 0x7BFF, "bf16": 0x7F7F}


def floats(count: int, seed: int) -> np.ndarray:
    """Bit patterns of every kind: random, near each format's range, ties, subnormals, NaN, infinity."""
    rng = np.random.default_rng(seed)
    bits = rng.integers(0, 1 << 32, count, dtype=np.uint32)
    part = count // 4
    bits[:part] = (bits[:part] & 0x807FFFFF) | rng.integers(100, 147, part, dtype=np.uint32) << np.uint32(23)
    for i, mask in enumerate((0xFFFF0000, 0xFFFFF000, 0xFFF80000, 0xFFC00000)):  # exact, halfway
        bits[part + i * 1000 : part + i * 1000 + 1000] &= np.uint32(mask)
    special = [0, 0x80000000, 1, 0x80000001, 0x7F7FFFFF, 0xFF7FFFFF, 0x7F800000, 0xFF800000, 0x7F800001, 0xFFC00000]
    bits[-len(special) :] = special
    return bits.view(np.float32)


@pytest.mark.parametrize("fmt", TORCH)
def test_every_code_to_f32_as_torch_does(fmt):
    codes = np.arange(1 << (16 if fmt in ("f16", "bf16") else 8), dtype=np.uint32)
    storage = torch.from_numpy(codes.astype(np.uint16 if codes.size > 256 else np.uint8))
    want = storage.view(TORCH[fmt]).float().numpy()
    got = to_f32(fmt, codes)
    nan = np.isnan(want)
    assert (np.isnan(got) == nan).all()
    assert (got[~nan].view(np.uint32) == want[~nan].view(np.uint32)).all()
    assert (got[nan].view(np.uint32) == 0x7FFFFFFF).all()


@pytest.mark.parametrize("fmt", [*NARROW, "e4m3", "e5m2", "ue4m3", "f16", "bf16"])
def test_every_code_to_f32_by_definition(fmt):
    codes = np.arange(codes_of(fmt))
    x, got = decode(fmt, codes), to_f32(fmt, codes)
    finite = x.kind == 0
    want = x.sig.astype(np.float64) * 2.0 ** (x.exp.astype(np.float64) - x.frac)
    assert (got[finite] == want[finite]).all()
    assert np.isinf(got[x.kind == 1]).all() and np.isnan(got[x.kind == 2]).all()
    if fmt in NARROW:
        assert finite.all()


@pytest.mark.parametrize("fmt", [*NARROW, "e4m3", "e5m2", "f16", "bf16", "ue8m0"])
@pytest.mark.parametrize("mode", ["rn", "rz"])
def test_every_code_returns_to_itself(fmt, mode):
    codes = np.arange(codes_of(fmt) if fmt != "ue8m0" else 256, dtype=np.uint32)
    x = to_f32(fmt, codes)
    keep = ~np.isnan(x)
    assert (from_f32(fmt, x, mode)[keep] == codes[keep]).all()


@pytest.mark.parametrize("fmt", ["f16", "bf16", "e5m2", "e4m3"])
def test_round_to_nearest_as_torch_does(fmt):
    x = floats(400_000, 1)
    want = torch.from_numpy(x.copy()).to(TORCH[fmt])
    want = want.view(torch.uint16 if fmt in ("f16", "bf16") else torch.uint8).numpy().astype(np.uint32)
    got = from_f32(fmt, x, "rn", SATFINITE if fmt == "e4m3" else 0)  # torch saturates there
    nan = np.isnan(x)
    assert (got[~nan] == want[~nan]).all()
    assert (got[nan] == NAN_CODE[fmt]).all()


def values_of(fmt):
    """The finite magnitudes in ascending order: a magnitude's index is its code."""
    x = decode(fmt, np.arange(LARGEST[fmt] + 1))
    return [Fraction(int(s)) * Fraction(2) ** (int(e) - x.frac) for s, e in zip(x.sig, x.exp, strict=True)]


def rounded(values, x: Fraction, mode: str) -> int:
    """The code of x >= 0 in a rounding mode; len(values): overflow."""
    at = bisect_left(values, x)
    if at < len(values) and values[at] == x:
        return at
    if mode == "rz":
        return at - 1
    above = values[at] if at < len(values) else values[-1] + (values[-1] - values[-2])
    low, high = x - values[at - 1], above - x
    up = high < low or (high == low and (mode == "rna" or at % 2 == 0))
    return at if up else at - 1


@pytest.mark.parametrize("fmt", [*NARROW, "e4m3", "e5m2", "f16"])
@pytest.mark.parametrize("mode", ["rn", "rz"])
def test_rounding_by_definition(fmt, mode):
    values = values_of(fmt)
    rng = np.random.default_rng(2)
    index = rng.integers(0, len(values) - 1, 1500)
    points = np.array([float(values[i]) for i in index]), np.array([float(values[i + 1]) for i in index])
    share = rng.choice([0, 0.5, 0.5, 0.25, 0.75, 0.999, 1e-3], 1500)
    x = (points[0] + share * (points[1] - points[0])).astype(np.float32)
    x = np.concatenate([x, np.float32([float(values[-1]) * s for s in (1.01, 1.03, 1.05, 1.2, 2, 1e6)])])
    x = x * rng.choice(np.float32([1, -1]), x.size)
    got = from_f32(fmt, x, mode, SATFINITE)
    sign = 1 << sum(LAYOUTS[fmt][:2])
    for one, code in zip(x, got, strict=True):
        want = min(rounded(values, Fraction(abs(float(one))), mode), LARGEST[fmt])
        assert code == want | (sign if np.signbit(one) else 0), float(one)


def test_tf32_modes():
    x = floats(200_000, 3)
    bits, nan = x.view(np.uint32), np.isnan(x)
    inf = np.isinf(x)
    plain = ~nan & ~inf
    rz, rna, rn = (from_f32("tf32", x, mode) for mode in ("rz", "rna", "rn"))
    assert (rz[plain] == bits[plain] & ~np.uint32(0x1FFF)).all()
    away = (bits.astype(np.uint64) + 0x1000 & ~np.uint64(0x1FFF)).astype(np.uint32)
    assert (rna[plain] == away[plain]).all()
    even = (bits.astype(np.uint64) + 0xFFF + (bits.astype(np.uint64) >> 13 & 1) & ~np.uint64(0x1FFF)).astype(np.uint32)
    assert (rn[plain] == even[plain]).all()
    for codes in (rz, rn):
        assert (codes[nan] == NAN_CODE["tf32"]).all()
    assert (rna[nan] == bits[nan] & ~np.uint32(0x1FFF)).all()  # as an H200 does
    for codes in (rz, rna, rn):
        assert (codes[inf] == bits[inf]).all()
    top = np.float32([np.finfo(np.float32).max, np.finfo(np.float32).min, np.inf])
    assert (from_f32("tf32", top, "rna", SATFINITE) == [0x7F7FE000, 0xFF7FE000, 0x7F7FE000]).all()


def test_ue8m0():
    x = np.float32([1, 1.5, -2, 3, 0, 2.0**-127, 2.0**-127 * 1.5, 2.0**-128, 3e38, np.inf, -np.inf, np.nan])
    assert list(from_f32("ue8m0", x, "rz")) == [127, 127, 128, 128, 0, 0, 0, 0, 254, 255, 255, 255]
    assert list(from_f32("ue8m0", x, "rp")) == [127, 128, 128, 129, 0, 0, 1, 0, 255, 255, 255, 255]
    assert list(from_f32("ue8m0", x, "rp", SATFINITE)) == [127, 128, 128, 129, 0, 0, 1, 0, 254, 254, 254, 255]


@pytest.mark.parametrize("fmt", [*NARROW, "e4m3", "e5m2", "f16", "bf16"])
def test_overflow_nan_and_relu(fmt):
    x = np.float32([1e38, -1e38, np.inf, -np.inf, np.nan, -np.nan, -1, -0.0, 1])
    x[:2] *= 3
    top, sign = LARGEST[fmt], 1 << sum(LAYOUTS[fmt][:2])
    nan = top if fmt in NARROW else NAN_CODE[fmt]
    one = int(from_f32(fmt, np.float32([1]))[0])
    if fmt == "bf16":
        x[:2] = [3.4e38, -3.4e38]
    got = from_f32(fmt, x, "rn", SATFINITE)
    assert list(got) == [top, top | sign, top, top | sign, nan, nan, one | sign, sign, one]
    got = from_f32(fmt, x, "rn", SATFINITE | RELU)
    assert list(got) == [top, 0, top, 0, nan, nan, 0, 0, one]
    over = {"e4m3": 0x7F, "e5m2": 0x7C, "f16": 0x7C00, "bf16": 0x7F80}.get(fmt, top)
    assert list(from_f32(fmt, x, "rn")[:4]) == [over, over | sign, over, over | sign]


@pytest.mark.parametrize("fmt", ["e2m1", "e4m3", "f16", "bf16"])
def test_stochastic_rounding_goes_up_with_the_carry(fmt):
    rng = np.random.default_rng(4)
    index = rng.integers(0, LARGEST[fmt], 2000) if fmt != "bf16" else rng.integers(0x3000, 0x4800, 2000)
    low, high = to_f32(fmt, index), to_f32(fmt, index + 1)
    eighths = rng.integers(0, 8, 2000)
    x = (low.astype(np.float64) + (high.astype(np.float64) - low) * eighths / 8).astype(np.float32)
    random = rng.integers(0, 8, 2000)
    got = from_f32(fmt, x, "rs", SATFINITE, random=(random << 29).astype(np.uint32))
    assert (got == index + (eighths + random >= 8)).all()
    # 2^-17 is 2^-8 of the least number; a little less, and random bits just short of 1 - 2^-8, do not carry.
    tiny = np.repeat(np.nextafter(np.float32(2.0**-17), np.float32(0)), 2)
    assert list(from_f32("e4m3", tiny, "rs", random=np.uint32([0xFF000000, 0xFF000001]))) == [0, 1]


BY_HAND = {  # codes and their values, chosen so that no two formats agree on all of theirs
    "e2m1": {0x7: 6, 0x9: -0.5},
    "e2m3": {0x1F: 7.5, 0x21: -0.125},
    "e3m2": {0x1F: 28, 0x21: -0.0625},
    "e4m3": {0x7E: 448, 0x81: -(2.0**-9)},
    "e5m2": {0x7B: 57344, 0x81: -(2.0**-16)},
    "ue8m0": {0x7F: 1, 0x81: 4},
    "ue4m3": {0x7E: 448, 0x81: 2.0**-9},  # the sign bit is ignored
    "f16": {0x7BFF: 65504, 0x8001: -(2.0**-24)},
    "bf16": {0x7F7F: 255 * 2.0**120, 0xC040: -3},
    "tf32": {0x3F802000: 1 + 2.0**-10, 0xC0400000: -3},
    "f32": {0x3F800001: 1 + 2.0**-23, 0xC0400000: -3},
}


@pytest.mark.parametrize("fmt", BY_HAND)
def test_a_codes_value_by_hand(fmt):
    codes, values = (np.array([*of]) for of in (BY_HAND[fmt], BY_HAND[fmt].values()))
    assert to_f32(fmt, codes).tolist() == values.tolist()


def test_rounding_by_mode_by_hand():
    """In bf16, whose numbers near 1 are 2^-7 apart: a tie and a quarter above it, of both signs."""
    x = np.float32([1 + 2.0**-8, -(1 + 2.0**-8), 1 + 3 * 2.0**-9, 1 + 3 * 2.0**-8])
    even = [0x3F80, 0xBF80, 0x3F81, 0x3F82]
    assert from_f32("bf16", x).tolist() == from_f32("bf16", x, "rn").tolist() == even, "rounds to nearest by default"
    assert from_f32("bf16", x, "rz").tolist() == [0x3F80, 0xBF80, 0x3F80, 0x3F81]
    assert from_f32("ue8m0", x, "rp").tolist() == [128, 128, 128, 128]
    assert from_f32("tf32", np.float32([1 + 2.0**-11]), "rna").tolist() == [0x3F802000]
