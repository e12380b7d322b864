"""cvt bit for bit: every pair of types, every rounding, saturation, NaN, and the packed forms of narrow formats."""

from __future__ import annotations

from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from simulator.tests.isa.values import float_oracle as ieee
from simulator.tests.isa.values.float_oracle import BF16, F16, F32, F64, FORMATS, TF32, Format
from simulator.tests.isa.values.value_table import WORD, check, edges, every_pair, random_words, signed

SEED = 20263
INTEGERS = [f"{kind}{bits}" for bits in (8, 16, 32, 64) for kind in "us"]


def size(integer: str) -> int:
    return int(integer[1:])


def number(integer: str, bits: int) -> int:
    """A register's bits read as an integer type."""
    low = bits & ((1 << size(integer)) - 1)
    return signed(low, size(integer)) if integer[0] == "s" else low


def clamped(integer: str, value: int) -> int:
    low = -(1 << (size(integer) - 1)) if integer[0] == "s" else 0
    return min(max(value, low), low + (1 << size(integer)) - 1)


def extended(integer: str, value: int, width: int) -> int:
    """The contents of a register of `width` bits: a narrower type is sign- or zero-extended."""
    return number(integer, value) & ((1 << width) - 1)


@pytest.mark.parametrize("width", [16, 32, 64])
def test_integers_to_integers(width):
    rng = np.random.default_rng(SEED)
    values = [*edges(width), 0x7F, 0x80, 0x81, 0xFF, 0x100, 0x7FFF, 0x8000, 0xFFFF]
    values += random_words(rng, 20, width).tolist()
    if width == 64:
        values += [0x7FFFFFFF, 0x80000000, 0xFFFFFFFF80000000, 0xFFFFFFFF7FFFFFFF, 0xFFFFFFFFFFFFFF80]
    table = {}
    for source in INTEGERS:
        for target in INTEGERS:
            for sat in (False, True):
                if size(source) > width:
                    continue
                result = max(size(target), 16)
                text = f"cvt{'.sat' * sat}.{target}.{source} {{d}}, {{a}};"

                def oracle(a, source=source, target=target, sat=sat, result=result):
                    value = number(source, a)
                    return extended(target, clamped(target, value) if sat else value, result)

                table[text] = (result, oracle)
    check(table, {"a": np.array(values, WORD[width])})


def reals(form: Format) -> np.ndarray:
    """Edges of the format, halves and quarters, and the ends of the integer types with their neighbours."""
    values = ieee.edges(form)
    numbers = [Fraction(n, 4) for n in range(-22, 23)]
    for width in (8, 16, 32, 64):
        for end in (1 << (width - 1), 1 << width):
            numbers += [end + Fraction(d, 2) for d in (-3, -2, -1, 0, 1, 2)]
    numbers += [-n for n in numbers if n > 0]
    for n in numbers:
        for rounding in ("rm", "rp"):
            bits_of_n = ieee.rounded(form, n, rounding)
            if not ieee.is_infinite(form, bits_of_n):
                values.append(bits_of_n)
    return np.array(sorted(set(values)), WORD[form.bits])


@pytest.mark.parametrize("source", ["f16", "bf16", "f32", "f64"])
def test_reals_to_integers(source):
    form = FORMATS[source]
    table = {}
    for target in INTEGERS:
        for rounding in ("rni", "rzi", "rmi", "rpi"):
            for ftz in (False, True) if form is F32 else (False,):
                result = max(size(target), 16)

                def oracle(a, target=target, rounding=rounding, ftz=ftz, result=result):
                    a = ieee.flushed(form, a) if ftz else a
                    if ieee.is_nan(form, a):  # PTX ISA, cvt: NaN
                        both_narrow = source != "f64" and size(target) != 64
                        return extended(target, 0 if both_narrow else 1 << (size(target) - 1), result)
                    if ieee.is_infinite(form, a):
                        value = -(1 << 70) if a & form.top else 1 << 70
                    else:
                        value = ieee.to_integer(ieee.value(form, a), rounding)
                    return extended(target, clamped(target, value), result)

                table[f"cvt.{rounding}{'.ftz' * ftz}.{target}.{source} {{d}}, {{a}};"] = (result, oracle)
    check(table, {"a": reals(form)})


@pytest.mark.parametrize("source", INTEGERS)
def test_integers_to_reals(source):
    rng = np.random.default_rng(SEED)
    width = max(size(source), 16)
    values = edges(width) + random_words(rng, 24, width).tolist()
    values += [(1 << k) + d for k in (11, 12, 24, 25, 53, 54) for d in (-1, 1, 2, 3) if k < width - 1]
    table = {}
    for target in ("f16", "bf16", "f32", "f64"):
        form = FORMATS[target]
        for rounding in ("rn", "rz", "rm", "rp"):
            table[f"cvt.{rounding}.{target}.{source} {{d}}, {{a}};"] = (
                form.bits,
                lambda a, form=form, rounding=rounding: ieee.rounded(form, Fraction(number(source, a)), rounding),
            )
    check(table, {"a": np.array(values, WORD[width])})


def narrowing(source: Format, target: Format) -> list[int]:
    """Edges of the source, and edges of the target with neighbours at half a step and less."""
    values = ieee.edges(source)
    for bits in ieee.edges(target):
        if ieee.is_nan(target, bits) or ieee.is_infinite(target, bits):
            continue
        x = ieee.value(target, bits)
        step = Fraction(2) ** (
            max((bits & (target.top - 1)) >> (target.precision - 1), 1) - 1 + target.least - target.precision + 1
        )
        for part in (
            0,
            Fraction(1, 2),
            Fraction(1, 2) + Fraction(1, 2**60),
            Fraction(1, 2) - Fraction(1, 2**60),
            Fraction(1, 2**20),
        ):
            for rounding in ("rm", "rp"):
                values.append(ieee.rounded(source, x + part * step, rounding))
                values.append(ieee.rounded(source, x - part * step, rounding))
    return sorted(set(values))


@pytest.mark.parametrize("names", ["f64 f32", "f64 f16", "f64 bf16", "f32 f16", "f32 bf16"])
def test_narrower_reals(names):
    source, target = names.split()
    wide, form = FORMATS[source], FORMATS[target]
    table = {}
    for rounding in ("rn", "rz", "rm", "rp"):
        table[f"cvt.{rounding}.{target}.{source} {{d}}, {{a}};"] = (
            form.bits,
            lambda a, r=rounding: ieee.convert(wide, form, a, r),
        )
        if target != "bf16":
            table[f"cvt.{rounding}.sat.{target}.{source} {{d}}, {{a}};"] = (
                form.bits,
                lambda a, r=rounding: ieee.saturated(form, ieee.convert(wide, form, a, r)),
            )
    if source == "f32":
        for rounding in ("rn", "rz"):
            table[f"cvt.{rounding}.relu.{target}.f32 {{d}}, {{a}};"] = (
                16,
                lambda a, r=rounding: ieee.relu(form, ieee.convert(F32, form, a, r)),
            )

        def finite(a, r="rn"):
            result = ieee.convert(F32, form, a, r)
            return result - 1 if ieee.is_infinite(form, result) else result

        table[f"cvt.rn.satfinite.{target}.f32 {{d}}, {{a}};"] = (16, finite)
    if target == "f32":
        table["cvt.rn.ftz.f32.f64 {d}, {a};"] = (32, lambda a: ieee.flushed(F32, ieee.convert(F64, F32, a)))
    if (source, target) == ("f32", "f16"):
        table["cvt.rn.ftz.f16.f32 {d}, {a};"] = (16, lambda a: ieee.convert(F32, F16, ieee.flushed(F32, a)))
    check(table, {"a": np.array(narrowing(wide, form), WORD[wide.bits])})


@pytest.mark.parametrize("names", ["f16 f32", "bf16 f32", "f16 f64", "f32 f64"])
def test_wider_reals(names):
    source, target = names.split()
    narrow, form = FORMATS[source], FORMATS[target]
    values = np.array(
        [b for b in ieee.edges(narrow) if target == "f32" or not ieee.is_nan(narrow, b)], WORD[narrow.bits]
    )
    table = {f"cvt.{target}.{source} {{d}}, {{a}};": (form.bits, lambda a: ieee.convert(narrow, form, a))}
    if source == "f32":
        table["cvt.ftz.f64.f32 {d}, {a};"] = (64, lambda a: ieee.convert(F32, F64, ieee.flushed(F32, a)))
    if target == "f64":
        table[f"cvt.sat.f64.{source} {{d}}, {{a}};"] = (
            64,
            lambda a: ieee.saturated(F64, ieee.convert(narrow, F64, a)),
        )
    check(table, {"a": values})


@pytest.mark.parametrize("name", ["f16", "f32", "f64"])
def test_rounding_to_a_whole_number(name):
    form = FORMATS[name]

    def oracle(a, rounding, ftz=False):
        a = ieee.flushed(form, a) if ftz else a
        if ieee.is_nan(form, a) or ieee.is_infinite(form, a):
            return form.nan if ieee.is_nan(form, a) else a
        whole = ieee.to_integer(ieee.value(form, a), rounding)
        return ieee.rounded(form, Fraction(whole), "rn", ieee.sign(form, a))

    values = np.array([v for v in reals(form).tolist() if form is not F64 or not ieee.is_nan(F64, v)], WORD[form.bits])
    table = {}
    for rounding in ("rni", "rzi", "rmi", "rpi"):
        table[f"cvt.{rounding}.{name}.{name} {{d}}, {{a}};"] = (form.bits, lambda a, r=rounding: oracle(a, r))
        table[f"cvt.{rounding}.sat.{name}.{name} {{d}}, {{a}};"] = (
            form.bits,
            lambda a, r=rounding: ieee.saturated(form, oracle(a, r)),
        )
        if form is F32:
            table[f"cvt.{rounding}.ftz.f32.f32 {{d}}, {{a}};"] = (32, lambda a, r=rounding: oracle(a, r, True))
    check(table, {"a": values})


def test_tf32():
    """The high 19 bits of the rounded value; .rna keeps a NaN's upper bits, as an H200 does."""
    values = np.array(narrowing(F32, TF32), np.uint32)

    def oracle(a, rounding, relu=False, finite=False):
        if ieee.is_nan(F32, a) and rounding == "rna":
            return a & ~0x1FFF
        result = ieee.convert(F32, TF32, a, rounding)
        result = TF32.infinity - 1 | result & TF32.top if finite and ieee.is_infinite(TF32, result) else result
        return (ieee.relu(TF32, result) if relu else result) << 13

    table = {
        "cvt.rna.tf32.f32 {d}, {a};": (32, lambda a: oracle(a, "rna")),
        "cvt.rn.tf32.f32 {d}, {a};": (32, lambda a: oracle(a, "rn")),
        "cvt.rz.tf32.f32 {d}, {a};": (32, lambda a: oracle(a, "rz")),
        "cvt.rn.relu.tf32.f32 {d}, {a};": (32, lambda a: oracle(a, "rn", True)),
        "cvt.rn.satfinite.tf32.f32 {d}, {a};": (32, lambda a: oracle(a, "rn", False, True)),
    }
    check(table, {"a": values})


# PTX ISA, Alternate Floating Point Data Formats: formats without infinity saturate; in formats without NaN, a NaN
# becomes the largest number.
E4M3 = Format(8, 4, -6, 0x7F)
E5M2 = Format(8, 3, -14, 0x7F)
E2M1 = Format(4, 2, 0, 0x7)
E2M3 = Format(6, 4, 0, 0x1F)
E3M2 = Format(6, 3, -2, 0x1F)
LARGEST = {"e4m3": 0x7E, "e5m2": 0x7B, "e2m1": 0x7, "e2m3": 0x1F, "e3m2": 0x1F}
NARROW = {"e4m3": E4M3, "e5m2": E5M2, "e2m1": E2M1, "e2m3": E2M3, "e3m2": E3M2}


def narrow_value(name: str, code: int) -> Fraction | None:
    """The value of a code; None for a NaN or an infinity."""
    form = NARROW[name]
    if code & (form.top - 1) > LARGEST[name]:
        return None
    return ieee.value(form, code)


def to_narrow(name: str, source: Format, a: int, relu: bool) -> int:
    form = NARROW[name]
    if ieee.is_nan(source, a):
        return form.nan
    negative = a & source.top
    if relu and negative:
        return 0
    top = narrow_value(name, LARGEST[name])
    exact = top if ieee.is_infinite(source, a) else min(abs(ieee.value(source, a)), top)
    code = ieee.rounded(replace(form, bits=16), exact)  # an exponent field that has room
    return min(code, LARGEST[name]) | (form.top if negative else 0)


def narrow_inputs(name: str, source: Format) -> np.ndarray:
    values = ieee.edges(source)
    for code in range(LARGEST[name] + 1):
        x = narrow_value(name, code)
        after = narrow_value(name, code + 1) if code < LARGEST[name] else x * 2
        for y in (x, (x + after) / 2, (x + after) / 2 * (1 + Fraction(1, 1 << (source.precision - 2)))):
            bits = ieee.rounded(source, y)
            values += [bits, bits | source.top]
    return np.array(values, WORD[source.bits])


@pytest.mark.parametrize("name", NARROW)
def test_pairs_of_narrow_floats(name):
    """The first source becomes the high half; .relu replaces negative numbers by zero."""
    bits = NARROW[name].bits
    bits = 8 if bits == 6 else bits
    a = narrow_inputs(name, F32)
    b = np.roll(a, 11)
    pack = lambda x, y: x << bits | y  # noqa: E731
    table = {}
    for relu in (False, True):
        form = f"cvt.rn.satfinite{'.relu' * relu}.{name}x2"
        if bits == 4:
            text = f"{{{{ .reg .b8 t; {form}.f32 t, {{a}}, {{b}}; cvt.u16.u8 {{d}}, t; }}}}"
        else:
            text = f"{form}.f32 {{d}}, {{a}}, {{b}};"
        table[text] = (16, lambda a, b, r=relu: pack(to_narrow(name, F32, a, r), to_narrow(name, F32, b, r)))
    check(table, {"a": a, "b": b})
    if name in ("e4m3", "e5m2"):
        halves = narrow_inputs(name, F16)
        both = halves.astype(np.uint32) << 16 | np.roll(halves, 13)
        check(
            {
                f"cvt.rn.satfinite{'.relu' * relu}.{name}x2.f16x2 {{d}}, {{a}};": (
                    16,
                    lambda a, r=relu: pack(to_narrow(name, F16, a >> 16, r), to_narrow(name, F16, a & 0xFFFF, r)),
                )
                for relu in (False, True)
            },
            {"a": both},
        )


@pytest.mark.parametrize("name", NARROW)
def test_narrow_floats_to_pairs_of_f16(name):
    bits = NARROW[name].bits
    step = 8 if bits == 6 else bits
    codes = np.arange(1 << bits, dtype=np.uint16)
    pairs = codes << step | np.roll(codes, 5)

    def one(code, relu):
        x = narrow_value(name, code)
        if x is None:
            infinite = name == "e5m2" and code & 0x7F == 0x7C
            result = F16.infinity | (code & 0x80) << 8 if infinite else F16.nan
        else:
            result = ieee.rounded(F16, x, "rn", ieee.sign(NARROW[name], code))
        return ieee.relu(F16, result) if relu else result

    table = {}
    for relu in (False, True):
        form = f"cvt.rn{'.relu' * relu}.f16x2.{name}x2"
        text = f"{{{{ .reg .b8 t; cvt.u8.u16 t, {{a}}; {form} {{d}}, t; }}}}" if bits == 4 else f"{form} {{d}}, {{a}};"
        mask = (1 << bits) - 1
        table[text] = (32, lambda a, r=relu, m=mask: one(a >> step & m, r) << 16 | one(a & m, r))
    check(table, {"a": pairs.astype(np.uint16)})


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_pairs_of_halves(name):
    form = FORMATS[name]
    a = np.array(narrowing(F32, form), np.uint32)
    b = np.roll(a, 7)
    table = {}
    for rounding in ("rn", "rz"):
        for relu in (False, True):
            table[f"cvt.{rounding}{'.relu' * relu}.{name}x2.f32 {{d}}, {{a}}, {{b}};"] = (
                32,
                lambda a, b, r=rounding, relu=relu: one_half(form, a, r, relu) << 16 | one_half(form, b, r, relu),
            )
            table[f"cvt.{rounding}{'.relu' * relu}.satfinite.{name}x2.f32 {{d}}, {{a}}, {{b}};"] = (
                32,
                lambda a, b, r=rounding, relu=relu: (
                    finite(form, one_half(form, a, r, relu)) << 16 | finite(form, one_half(form, b, r, relu))
                ),
            )
    check(table, {"a": a, "b": b})


def finite(form: Format, half: int) -> int:
    """With .satfinite, infinities become the largest number."""
    infinity = {"f16": 0x7C00, "bf16": 0x7F80}[next(name for name in ("f16", "bf16") if FORMATS[name] == form)]
    return half - 1 if half & 0x7FFF == infinity else half


def one_half(form: Format, a: int, rounding: str, relu: bool) -> int:
    result = ieee.convert(F32, form, a, rounding)
    return ieee.relu(form, result) if relu else result


def test_scales():
    """ue8m0: 2^(code - 127), and 255 is NaN; rounds toward zero or up and ignores the sign."""
    codes = np.arange(256, dtype=np.uint16)
    pairs = codes << 8 | np.roll(codes, 3)
    power = lambda c: BF16.nan if c == 255 else ieee.rounded(BF16, Fraction(2) ** (c - 127))  # noqa: E731
    check({"cvt.rn.bf16x2.ue8m0x2 {d}, {a};": (32, lambda a: power(a >> 8) << 16 | power(a & 255))}, {"a": pairs})
    powers = [Fraction(2) ** k for k in (-126, -3, 0, 5, 126, 127)]
    numbers = [ieee.rounded(F32, power * m) for power in powers for m in (1, Fraction(9, 8), Fraction(7, 4))]
    a = np.array([*numbers, F32.nan, F32.infinity - 1, F32.top | numbers[4]], np.uint32)
    b = np.roll(a, 1)

    def code(x, up):
        if ieee.is_nan(F32, x):
            return 255
        x &= 0x7FFFFFFF
        return min((x >> 23) + (1 if up and x & 0x7FFFFF else 0), 254)

    table = {
        f"cvt.{r}.satfinite.ue8m0x2.f32 {{d}}, {{a}}, {{b}};": (
            16,
            lambda a, b, up=r == "rp": code(a, up) << 8 | code(b, up),
        )
        for r in ("rz", "rp")
    }
    check(table, {"a": a, "b": b})


@pytest.mark.parametrize("kind", ["s16", "u16", "s8", "u8", "s4", "u4", "s2", "u2"])
def test_pack_saturates_two_integers(kind):
    """PTX ISA, cvt.pack: b is lowest, then a, then c; with 16 bits there is no room for c."""
    bits = int(kind[1:])
    words = [-(2**31), -32769, -129, -9, -3, -1, 0, 1, 2, 7, 8, 255, 256, 65536]
    a, b = every_pair([word & 0xFFFFFFFF for word in words], 32)
    c = random_words(np.random.default_rng(SEED), len(a), 32)
    narrow = lambda word: clamped(kind, signed(word, 32)) & ((1 << bits) - 1)  # noqa: E731
    third = bits < 16
    text = f"cvt.pack.sat.{kind}.s32{'.b32' if third else ''} {{d}}, {{a}}, {{b}}{', {c}' if third else ''};"
    check(
        {text: (32, lambda a, b, c: (c << 2 * bits if third else 0) | narrow(a) << bits | narrow(b))},
        {"a": a, "b": b, "c": c},
    )
