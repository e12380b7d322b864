"""Scalar instructions against numpy, a warp of random and special values at a time."""

from __future__ import annotations

import math

import numpy as np
import pytest

from tests.simulator.isa.values.value_table import permute
from tests.simulator.sim_kit import run_op

SEED = 20260
SPECIAL32 = np.array([0, 1, 2, 31, 32, 33, 0x7FFFFFFF, 0x80000000, 0xFFFFFFFF, 0xFFFFFFFE, 0x8000, 0xFFFF], np.uint32)


def words(seed: int, dtype=np.uint32) -> np.ndarray:
    values = np.random.default_rng(SEED + seed).integers(0, 1 << 8 * np.dtype(dtype).itemsize, 32, dtype)
    special = SPECIAL32.astype(dtype)
    values[: len(special)] = np.roll(special, seed)
    return values


def floats(seed: int) -> np.ndarray:
    rng = np.random.default_rng(SEED + seed)
    values = (rng.standard_normal(32) * 2.0 ** rng.integers(-20, 20, 32)).astype(np.float32)
    values[:6] = np.roll(np.array([0, -0.0, 1, -1, np.inf, 1e-40], np.float32), seed)
    return values


def s(x):
    return x.astype(np.int32 if x.dtype == np.uint32 else np.int64 if x.dtype == np.uint64 else np.int16)


def wide(x):
    return [int(v) for v in x]


BINARY = {
    "add.s32 {0}, {1}, {2};": lambda a, b: a + b,
    "sub.u32 {0}, {1}, {2};": lambda a, b: a - b,
    "mul.lo.s32 {0}, {1}, {2};": lambda a, b: a * b,
    "mul.hi.u32 {0}, {1}, {2};": lambda a, b: [(x * y) >> 32 for x, y in zip(wide(a), wide(b), strict=True)],
    "mul.hi.s32 {0}, {1}, {2};": lambda a, b: [
        ((x * y) >> 32) % 2**32 for x, y in zip(wide(s(a)), wide(s(b)), strict=True)
    ],
    "min.s32 {0}, {1}, {2};": lambda a, b: np.minimum(s(a), s(b)),
    "max.u32 {0}, {1}, {2};": np.maximum,
    "and.b32 {0}, {1}, {2};": lambda a, b: a & b,
    "xor.b32 {0}, {1}, {2};": lambda a, b: a ^ b,
    "shl.b32 {0}, {1}, {2};": lambda a, b: [
        (x << y) % 2**32 if y < 32 else 0 for x, y in zip(wide(a), wide(b), strict=True)
    ],
    "shr.u32 {0}, {1}, {2};": lambda a, b: [x >> y if y < 32 else 0 for x, y in zip(wide(a), wide(b), strict=True)],
    "shr.s32 {0}, {1}, {2};": lambda a, b: [
        (x >> min(y, 31)) % 2**32 for x, y in zip(wide(s(a)), wide(b), strict=True)
    ],
    "add.sat.s32 {0}, {1}, {2};": lambda a, b: np.clip(s(a).astype(np.int64) + s(b), -(2**31), 2**31 - 1) % 2**32,
    "div.u32 {0}, {1}, {2};": lambda a, b: [x // y if y else 2**32 - 1 for x, y in zip(wide(a), wide(b), strict=True)],
    "rem.u32 {0}, {1}, {2};": lambda a, b: [x % y if y else x for x, y in zip(wide(a), wide(b), strict=True)],
    "bmsk.clamp.b32 {0}, {1}, {2};": lambda a, b: [
        (((1 << min(y, 32)) - 1) << x) % 2**32 if x < 32 else 0 for x, y in zip(wide(a), wide(b), strict=True)
    ],
}


@pytest.mark.parametrize("instruction", BINARY)
def test_binary_integers(instruction):
    a, b = words(1), words(2)
    want = np.array(BINARY[instruction](a, b)).astype(np.int64) % 2**32
    np.testing.assert_array_equal(run_op(instruction, "u4", a, b), want.astype(np.uint32))


def test_sixty_four_bits():
    a, b = words(3, np.uint64), words(4, np.uint64)
    products = [x * y for x, y in zip(wide(a), wide(b), strict=True)]
    for instruction, want in {
        "add.u64 {0}, {1}, {2};": [(x + y) % 2**64 for x, y in zip(wide(a), wide(b), strict=True)],
        "mul.lo.u64 {0}, {1}, {2};": [p % 2**64 for p in products],
        "mul.hi.u64 {0}, {1}, {2};": [p >> 64 for p in products],
    }.items():
        got = run_op(instruction, "u8", a, b, result_width=64)
        np.testing.assert_array_equal(got, np.array(want, np.uint64), err_msg=instruction)


def test_carries_make_a_wide_sum():
    a, b = words(5, np.uint64), words(6, np.uint64)
    low, high = "%r20", "%r21"
    text = (
        f"{{{{ mov.b64 {{{{{low}, {high}}}}}, {{1}}; mov.b64 {{{{%r22, %r23}}}}, {{2}};"
        f" add.cc.u32 {low}, {low}, %r22; addc.u32 {high}, {high}, %r23; mov.b64 {{0}}, {{{{{low}, {high}}}}}; }}}}"
    )
    want = [(x + y) % 2**64 for x, y in zip(wide(a), wide(b), strict=True)]
    np.testing.assert_array_equal(run_op(text, "u8", a, b, result_width=64), np.array(want, np.uint64))


def test_lop3_every_table():
    a, b, c = words(7), words(8), words(9)
    for table in (0, 0x80, 0xE8, 0x96, 0xCA, 0xFE, 0xFF, 0x1B):
        want = np.zeros(32, np.uint32)
        for i in range(8):
            if table >> i & 1:
                want |= (a if i & 4 else ~a) & (b if i & 2 else ~b) & (c if i & 1 else ~c)
        got = run_op(f"lop3.b32 {{0}}, {{1}}, {{2}}, {{3}}, {table};", "u4", a, b, c)
        np.testing.assert_array_equal(got, want, err_msg=hex(table))


def signed(value: int, bits: int) -> int:
    """The low bits as a signed number."""
    top = 1 << (bits - 1)
    return ((value & (2 * top - 1)) ^ top) - top


def signed24(value: int) -> int:
    return signed(value, 24)


def on_halves(function, x: int, y: int) -> int:
    """A function of signed 16-bit numbers on each half."""
    low, high = function(signed(x, 16), signed(y, 16)), function(signed(x >> 16, 16), signed(y >> 16, 16))
    return (high & 0xFFFF) << 16 | (low & 0xFFFF)


def test_prmt_and_funnel_shifts():
    a, b, c = words(10), words(11), words(12)

    rows = list(zip(wide(a), wide(b), wide(c), strict=True))
    cases = {
        "prmt.b32 {0}, {1}, {2}, {3};": [permute(*row) for row in rows],
        "shf.l.wrap.b32 {0}, {1}, {2}, {3};": [((y << 32 | x) << (z & 31) >> 32) % 2**32 for x, y, z in rows],
        "shf.r.clamp.b32 {0}, {1}, {2}, {3};": [((y << 32 | x) >> min(z, 32)) % 2**32 for x, y, z in rows],
        "mad.lo.u32 {0}, {1}, {2}, {3};": [(x * y + z) % 2**32 for x, y, z in rows],
        "mad24.hi.u32 {0}, {1}, {2}, {3};": [(((x & 0xFFFFFF) * (y & 0xFFFFFF) >> 16) + z) % 2**32 for x, y, z in rows],
        "mad24.lo.s32 {0}, {1}, {2}, {3};": [(signed24(x) * signed24(y) + z) % 2**32 for x, y, z in rows],
        "mad24.hi.s32 {0}, {1}, {2}, {3};": [((signed24(x) * signed24(y) >> 16) + z) % 2**32 for x, y, z in rows],
        "mad24.hi.sat.s32 {0}, {1}, {2}, {3};": [
            min(max((signed24(x) * signed24(y) >> 16) + (z ^ 2**31) - 2**31, -(2**31)), 2**31 - 1) % 2**32
            for x, y, z in rows
        ],
        "min.relu.s32 {0}, {1}, {2};": [max(min(signed(x, 32), signed(y, 32)), 0) for x, y, _ in rows],
        "max.relu.s32 {0}, {1}, {2};": [max(signed(x, 32), signed(y, 32), 0) for x, y, _ in rows],
        "min.relu.s16x2 {0}, {1}, {2};": [on_halves(lambda v, w: max(min(v, w), 0), x, y) for x, y, _ in rows],
        "max.relu.s16x2 {0}, {1}, {2};": [on_halves(lambda v, w: max(v, w, 0), x, y) for x, y, _ in rows],
        "mul24.hi.u32 {0}, {1}, {2};": [((x & 0xFFFFFF) * (y & 0xFFFFFF) >> 16) % 2**32 for x, y, _ in rows],
        "mul24.hi.s32 {0}, {1}, {2};": [(signed24(x) * signed24(y) >> 16) % 2**32 for x, y, _ in rows],
        "sad.u32 {0}, {1}, {2}, {3};": [(abs(x - y) + z) % 2**32 for x, y, z in rows],
    }
    for instruction, want in cases.items():
        np.testing.assert_array_equal(
            run_op(instruction, "u4", a, b, c), np.array(want, np.uint32), err_msg=instruction
        )


def test_bit_fields():
    a, b = words(13), words(14)
    start, length = np.arange(32, dtype=np.uint32), (np.arange(32, dtype=np.uint32) * 7) % 35
    unsigned, signed, inserted = [], [], []
    for x, y, p, n in zip(wide(a), wide(b), wide(start), wide(length), strict=True):
        field = (x >> p) & ((1 << n) - 1)
        unsigned.append(field)
        top = x >> min(p + n - 1, 31) & 1 if n else 0
        got = min(n, 32 - p)
        signed.append((field | (-1 << got if top else 0)) % 2**32)
        ones = ((1 << min(n, 32 - p)) - 1) << p
        inserted.append((y & ~ones) | (x << p & ones))
    assert (run_op("bfe.u32 {0}, {1}, {2}, {3};", "u4", a, start, length) == np.array(unsigned)).all()
    assert (run_op("bfe.s32 {0}, {1}, {2}, {3};", "u4", a, start, length) == np.array(signed)).all()
    assert (run_op("bfi.b32 {0}, {1}, {2}, {3}, {4};", "u4", a, b, start, length) == np.array(inserted)).all()
    assert (run_op("popc.b32 {0}, {1};", "u4", a) == [bin(x).count("1") for x in wide(a)]).all()
    assert (run_op("clz.b32 {0}, {1};", "u4", a) == [32 - x.bit_length() for x in wide(a)]).all()
    assert (run_op("brev.b32 {0}, {1};", "u4", a) == [int(f"{x:032b}"[::-1], 2) for x in wide(a)]).all()


def test_dp4a():
    a, b, c = words(15), words(16), words(17)
    dots = (a.view(np.int8).reshape(32, 4).astype(np.int64) * b.view(np.uint8).reshape(32, 4)).sum(1)
    want = (dots + s(c)) % 2**32
    np.testing.assert_array_equal(run_op("dp4a.s32.u32 {0}, {1}, {2}, {3};", "u4", a, b, c), want.astype(np.uint32))


@pytest.mark.parametrize("name", ["add", "sub", "mul", "div"])
@pytest.mark.parametrize("rounding", ["rn", "rz", "rm", "rp"])
def test_float_rounding(name, rounding):
    a, b = floats(1), floats(2)
    got = run_op(f"{name}.{rounding}.f32 {{0}}, {{1}}, {{2}};", "f4", a.view(np.uint32), b.view(np.uint32))
    for x, y, result in zip(a, b, got, strict=True):
        with np.errstate(all="ignore"):
            wide_x, wide_y = np.longdouble(x), np.longdouble(y)
            exact = {"add": wide_x + wide_y, "sub": wide_x - wide_y, "mul": wide_x * wide_y, "div": wide_x / wide_y}[
                name
            ]
            nearest = np.float32(exact)
        if not np.isfinite(exact) or exact == 0 or abs(exact) > 3e38 or abs(exact) < 1e-37:
            continue  # infinities and the subnormal range are compared elsewhere
        if rounding == "rn":
            assert result == nearest
        below = nearest if nearest <= exact else np.nextafter(nearest, np.float32(-np.inf))
        above = nearest if nearest >= exact else np.nextafter(nearest, np.float32(np.inf))
        if rounding == "rm":
            assert result == below
        elif rounding == "rp":
            assert result == above
        elif rounding == "rz":
            assert result == (below if exact > 0 else above)


def test_fma_ftz_and_saturation():
    a, b, c = (floats(i) for i in (3, 4, 5))
    bits = [x.view(np.uint32) for x in (a, b, c)]
    got = run_op("fma.rn.f32 {0}, {1}, {2}, {3};", "f4", *bits)
    for x, y, z, result in zip(a, b, c, got, strict=True):
        if all(map(math.isfinite, (x, y, z))):
            from fractions import Fraction

            exact = Fraction(float(x)) * Fraction(float(y)) + Fraction(float(z))
            if abs(exact) > Fraction(1, 2**126):
                assert abs(Fraction(float(result)) - exact) <= abs(exact) * Fraction(1, 2**24)
    tiny = np.full(32, 1e-40, np.float32).view(np.uint32)
    assert (run_op("add.ftz.f32 {0}, {1}, {1};", "f4", tiny) == 0).all()
    assert (run_op("mul.f32 {0}, {1}, 0f3F800000;", "f4", tiny) == np.float32(1e-40)).all()
    saturated = run_op("add.sat.f32 {0}, {1}, {2};", "f4", bits[0], bits[1])
    with np.errstate(all="ignore"):
        assert np.array_equal(saturated, np.nan_to_num(np.clip(a + b, 0, 1)))


def halves(seed: int) -> np.ndarray:
    return np.random.default_rng(SEED + seed).integers(0, 1 << 16, 32, np.uint16)


@pytest.mark.parametrize("name", ["add", "sub", "mul"])
def test_half_arithmetic(name):
    a, b = halves(1).view(np.float16), halves(2).view(np.float16)
    got = run_op(f"{name}.rn.f16 {{0}}, {{1}}, {{2}};", "f2", a.view(np.uint16), b.view(np.uint16), result_width=16)
    with np.errstate(all="ignore"):
        want = {"add": a + b, "sub": a - b, "mul": a * b}[name]
    assert np.array_equal(got, want, equal_nan=True)


def test_half_fma_rounds_once():
    a, b, c = (halves(i).view(np.float16) for i in (3, 4, 5))
    got = run_op("fma.rn.f16 {0}, {1}, {2}, {3};", "f2", *(x.view(np.uint16) for x in (a, b, c)), result_width=16)
    with np.errstate(all="ignore"):
        want = (a.astype(np.longdouble) * b.astype(np.longdouble) + c.astype(np.longdouble)).astype(np.float16)
    assert np.array_equal(got, want, equal_nan=True)


@pytest.mark.parametrize("kind", ["s16", "u16", "s8", "u8", "s4", "u4", "s2", "u2"])
def test_packing_saturates_two_integers_below_a_third(kind):
    """PTX ISA, cvt.pack: b lowest, then a, then c; the halves of 16 bits leave no room for c."""
    bits, edges = (
        int(kind[1:]),
        np.array([-(2**31), -32769, -129, -9, -3, -1, 0, 1, 2, 7, 8, 255, 256, 65536], np.int64),
    )
    a, b = (np.resize(np.roll(edges, i), 32).astype(np.int32) for i in (0, 5))
    c = np.arange(32, dtype=np.uint32) * 0x9E3779B9
    low, high = (-(1 << bits - 1), (1 << bits - 1) - 1) if kind[0] == "s" else (0, (1 << bits) - 1)
    la, lb = (np.clip(x.astype(np.int64), low, high) & ((1 << bits) - 1) for x in (a, b))
    above = c.astype(np.int64) << 2 * bits if bits < 16 else 0
    text = f"cvt.pack.sat.{kind}.s32{'.b32' if bits < 16 else ''} {{0}}, {{1}}, {{2}}{', {3}' if bits < 16 else ''};"
    got = run_op(text, "u4", a.view(np.uint32), b.view(np.uint32), c)
    assert np.array_equal(got, ((above | la << bits | lb) & 0xFFFFFFFF).astype(np.uint32))


def test_conversions_of_integers_and_floats():
    a = floats(6)
    bits = a.view(np.uint32)
    with np.errstate(all="ignore"):
        clipped = np.clip(np.trunc(a.astype(np.float64)), -(2**31), 2**31 - 1).astype(np.int64)
    assert (run_op("cvt.rzi.s32.f32 {0}, {1};", "i4", bits) == clipped).all()
    w = words(18)
    assert (run_op("cvt.rn.f32.u32 {0}, {1};", "f4", w) == w.astype(np.float64).astype(np.float32)).all()
    assert (run_op("cvt.s64.s32 {0}, {1};", "i8", w, result_width=64) == s(w)).all()
    assert (run_op("cvt.sat.s8.s32 {0}, {1};", "i4", w) == np.clip(s(w), -128, 127)).all()
    assert (run_op("cvt.s32.s8 {0}, {1};", "i4", w) == w.astype(np.uint8).view(np.int8)).all()
    with np.errstate(all="ignore"):
        assert (run_op("cvt.rn.f16.f32 {0}, {1};", "f2", bits, result_width=16) == a.astype(np.float16)).all()
    h = halves(6)
    assert np.array_equal(
        run_op("cvt.f32.f16 {0}, {1};", "f4", h), h.view(np.float16).astype(np.float32), equal_nan=True
    )


E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6], np.float32)


def test_fp4_and_fp8_conversions():
    codes = np.arange(32, dtype=np.uint32) * 8 + 3
    text = "{{ .reg .b8 t; cvt.u8.u32 t, {1}; cvt.rn.f16x2.e2m1x2 {0}, t; }}"
    got = run_op(text, "f2", codes).reshape(32, 2)
    for half, shift in ((0, 0), (1, 4)):
        nibble = codes >> shift & 15
        want = E2M1[nibble & 7] * np.where(nibble & 8, -1, 1)
        np.testing.assert_array_equal(got[:, half], want.astype(np.float16))
    pairs = (codes | (codes * 5 % 120) << 8).astype(np.uint16)
    got = run_op("cvt.rn.f16x2.e4m3x2 {0}, {1};", "f2", pairs).reshape(32, 2)
    for half in (0, 1):
        code = (pairs >> 8 * half & 0xFF).astype(int)
        e, m = code >> 3 & 15, code & 7
        magnitude = np.where(e == 0, m / 8 * 2.0**-6, (1 + m / 8) * 2.0 ** (e - 7.0))
        want = np.where(code & 0x7F == 0x7F, np.nan, magnitude * np.where(code & 0x80, -1, 1))
        assert np.array_equal(got[:, half], want.astype(np.float16), equal_nan=True)
    back = run_op(
        "{{ .reg .b16 t; cvt.rn.satfinite.e4m3x2.f16x2 t, {1}; cvt.u32.u16 {0}, t; }}",
        "u4",
        got.reshape(-1).view(np.uint32),
    )
    usable = (pairs & 0x7F) < 0x7F
    np.testing.assert_array_equal(back[usable], pairs[usable].astype(np.uint32))


def test_approximations_stay_inside_their_bounds():
    x = np.linspace(-20, 20, 32, dtype=np.float32) + np.float32(0.01)
    got = run_op("ex2.approx.ftz.f32 {0}, {1};", "f4", x.view(np.uint32))
    np.testing.assert_allclose(got, np.exp2(x.astype(np.float64)), rtol=2.0**-22)
    got = run_op("rcp.approx.ftz.f32 {0}, {1};", "f4", x.view(np.uint32))
    np.testing.assert_allclose(got, 1 / x.astype(np.float64), rtol=2.0**-23)
    got = run_op("tanh.approx.f32 {0}, {1};", "f4", x.view(np.uint32))
    np.testing.assert_allclose(got, np.tanh(x.astype(np.float64)), rtol=2.0**-10)
    got = run_op("rsqrt.approx.f32 {0}, {1};", "f4", np.abs(x).view(np.uint32))
    np.testing.assert_allclose(got, 1 / np.sqrt(np.abs(x).astype(np.float64)), rtol=2.0**-22)


def test_warp_exchanges():
    a = words(20)
    lanes = np.arange(32)
    assert (run_op("shfl.sync.bfly.b32 {0}, {1}, 5, 31, -1;", "u4", a) == a[lanes ^ 5]).all()
    assert (
        run_op("shfl.sync.down.b32 {0}, {1}, 3, 31, -1;", "u4", a) == a[np.where(lanes + 3 < 32, lanes + 3, lanes)]
    ).all()
    assert (run_op("shfl.sync.up.b32 {0}, {1}, 3, 0, -1;", "u4", a) == a[np.where(lanes >= 3, lanes - 3, lanes)]).all()
    assert (run_op("shfl.sync.idx.b32 {0}, {1}, 2, 0x1807, -1;", "u4", a) == a[lanes // 8 * 8 + 2]).all()
    ballot = int(sum((int(v) & 1) << i for i, v in enumerate(a)))
    text = "{{ .reg .pred q; and.b32 %r20, {1}, 1; setp.ne.u32 q, %r20, 0; vote.sync.ballot.b32 {0}, q, -1; }}"
    assert (run_op(text, "u4", a) == ballot).all()
    assert (run_op("redux.sync.add.s32 {0}, {1}, -1;", "u4", a) == int(a.astype(np.uint64).sum()) % 2**32).all()
    text = "{{ .reg .pred q; elect.sync {0}|q, -1; selp.u32 {0}, 100, {0}, q; }}"
    assert (run_op(text, "u4", a) == np.where(lanes == 0, 100, 0)).all()


def test_atomics_of_a_warp():
    text = "{{ ld.param.u64 %rd20, [in0]; atom.global.add.u32 {0}, [%rd20], 2; }}"
    got = run_op(text, "u4", np.zeros(32, np.uint32))
    assert sorted(got) == list(range(0, 64, 2))
