"""Floating point bit for bit: every rounding, .ftz, .sat, .relu, NaN, infinities, subnormals and signed zeros."""

from __future__ import annotations

import math
from fractions import Fraction

import numpy as np
import pytest

from simulator.tests.isa.values import float_oracle as ieee
from simulator.tests.isa.values.float_oracle import BF16, F16, F32, F64, FORMATS, Format
from simulator.tests.isa.values.value_table import WORD, check, evaluate, every_pair, random_words

SEED = 20262
ROUNDINGS = ("rn", "rz", "rm", "rp")
TWO = {"add": ieee.add, "sub": ieee.sub, "mul": ieee.mul, "div": ieee.div}


def near(rng: np.random.Generator, form: Format, count: int) -> np.ndarray:
    """Numbers around one, so that sums cancel and products stay in range; half of them with few bits set."""
    one = (1 - form.least) << (form.precision - 1)
    low = rng.integers(0, 1 << (form.precision + 1), count, np.uint64)
    low[::2] &= np.uint64(7 << (form.precision - 4) | 1)
    sign = rng.integers(0, 2, count, np.uint64) << np.uint64(form.bits - 1)
    return ((np.uint64(one) + low) | sign).astype(WORD[form.bits])


def rows(form: Format) -> dict[str, np.ndarray]:
    rng = np.random.default_rng(SEED + form.bits + form.precision)
    pairs = every_pair(ieee.edges(form), form.bits)
    out = {}
    for name, edge in zip("ab", pairs, strict=True):
        out[name] = np.concatenate([edge, near(rng, form, 96), random_words(rng, 64, form.bits)])
    out["c"] = np.resize(np.array(ieee.edges(form), WORD[form.bits]), len(out["a"]))
    rng.shuffle(out["c"])
    out["c"][-160:-64] = near(rng, form, 96)
    return out


def flush(form: Format, wanted: bool):
    return (lambda x: ieee.flushed(form, x)) if wanted else (lambda x: x)


@pytest.mark.parametrize("rounding", ROUNDINGS)
@pytest.mark.parametrize("name", ["f32", "f64"])
def test_arithmetic_in_every_rounding(name, rounding):
    form = FORMATS[name]
    nan = lambda f: lambda *x: f(*x)  # noqa: E731
    table = {}
    for op, exact in TWO.items():
        table[f"{op}.{rounding}.{name} {{d}}, {{a}}, {{b}};"] = (
            form.bits,
            nan(lambda a, b, c, f=exact: f(form, a, b, rounding)),
        )
    table[f"fma.{rounding}.{name} {{d}}, {{a}}, {{b}}, {{c}};"] = (
        form.bits,
        lambda a, b, c: ieee.fma(form, a, b, c, rounding),
    )
    table[f"mad.{rounding}.{name} {{d}}, {{a}}, {{b}}, {{c}};"] = table[
        f"fma.{rounding}.{name} {{d}}, {{a}}, {{b}}, {{c}};"
    ]
    table[f"rcp.{rounding}.{name} {{d}}, {{a}};"] = (
        form.bits,
        lambda a, *_: ieee.div(form, (1 - form.least) << (form.precision - 1), a, rounding),
    )
    table[f"sqrt.{rounding}.{name} {{d}}, {{a}};"] = (form.bits, lambda a, *_: ieee.sqrt(form, a, rounding))
    check_floats(table, rows(form), form)


def check_floats(table, inputs, form: Format) -> None:
    """Compares bit for bit; in f64 any NaN will do, as PTX leaves its payload open."""
    if form is not F64:
        check(table, inputs)
        return
    got = evaluate([(text, width) for text, (width, _) in table.items()], inputs)
    columns = [[int(v) for v in values] for values in inputs.values()]
    for (text, (_, oracle)), results in zip(table.items(), got, strict=True):
        for row, result in zip(zip(*columns, strict=True), results, strict=True):
            want = oracle(*row)
            same = ieee.is_nan(F64, int(result)) if ieee.is_nan(F64, want) else want == int(result)
            assert same, f"{text} of {[hex(v) for v in row]}: {int(result):#x}, expected {want:#x}"


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_sums_in_f32_of_narrower_numbers(name):
    """PTX ISA 8.6, mixed precision: a (and b of fma) are converted, c is an f32; every rounding, with .sat too."""
    form, inputs = FORMATS[name], rows(FORMATS[name])
    wide = rows(F32)["a"]
    inputs["c"] = np.resize(np.random.default_rng(SEED).permutation(wide), len(inputs["a"]))
    inputs["c"][::5] = [
        ieee.negated(F32, ieee.convert(form, F32, int(a))) for a in inputs["a"][::5]
    ]  # sums that cancel
    up = lambda a: ieee.convert(form, F32, a)  # noqa: E731
    table = {}
    for rounding in ("", ".rn", ".rz", ".rm", ".rp"):
        r = rounding[1:] or "rn"
        for sat in ("", ".sat"):
            end = (lambda x: ieee.saturated(F32, x)) if sat else lambda x: x
            tail = f"{rounding}{sat}.f32.{name} {{d}}, {{a}}"
            table[f"add{tail}, {{c}};"] = (32, lambda a, b, c, r=r, e=end: e(ieee.add(F32, up(a), c, r)))
            table[f"sub{tail}, {{c}};"] = (32, lambda a, b, c, r=r, e=end: e(ieee.sub(F32, up(a), c, r)))
            if rounding:
                table[f"fma{tail}, {{b}}, {{c}};"] = (
                    32,
                    lambda a, b, c, r=r, e=end: e(ieee.fma(F32, up(a), up(b), c, r)),
                )
    check(table, inputs, "sm_100a")


@pytest.mark.parametrize("suffix", ["ftz", "sat", "ftz.sat"])
def test_flushed_and_saturated_arithmetic(suffix):
    """.ftz flushes sources and result; .sat is applied last."""
    ftz, sat = "ftz" in suffix, "sat" in suffix
    into = flush(F32, ftz)

    def done(f, *x):
        r = into(f(F32, *(into(v) for v in x)))
        return ieee.saturated(F32, r) if sat else r

    table = {}
    for op, exact in TWO.items():
        if op != "div":
            table[f"{op}.{suffix}.f32 {{d}}, {{a}}, {{b}};"] = (32, lambda a, b, c, f=exact: done(f, a, b))
            table[f"{op}.rm.{suffix}.f32 {{d}}, {{a}}, {{b}};"] = (
                32,
                lambda a, b, c, f=exact: done(lambda form, *x: f(form, *x, "rm"), a, b),
            )
    table[f"fma.rn.{suffix}.f32 {{d}}, {{a}}, {{b}}, {{c}};"] = (32, lambda a, b, c: done(ieee.fma, a, b, c))
    if not sat:
        table["div.rn.ftz.f32 {d}, {a}, {b};"] = (32, lambda a, b, c: done(ieee.div, a, b))
        table["sqrt.rn.ftz.f32 {d}, {a};"] = (32, lambda a, *_: done(ieee.sqrt, a))
        table["rcp.rz.ftz.f32 {d}, {a};"] = (32, lambda a, *_: done(lambda f, x: ieee.div(f, 0x3F800000, x, "rz"), a))
    check(table, rows(F32))


def test_pairs_of_f32():
    data = rows(F32)
    pairs = {
        name: np.stack([data[name], np.roll(data[name], 37)], 1).copy().view(np.uint64)[:, 0] for name in data
    }  # both halves are edges
    each = lambda f: lambda *x: f(*(v & 0xFFFFFFFF for v in x)) | f(*(v >> 32 for v in x)) << 32  # noqa: E731
    table = {
        "add.rn.f32x2 {d}, {a}, {b};": (64, each(lambda a, b, c: ieee.add(F32, a, b))),
        "mul.rz.f32x2 {d}, {a}, {b};": (64, each(lambda a, b, c: ieee.mul(F32, a, b, "rz"))),
        "fma.rn.f32x2 {d}, {a}, {b}, {c};": (64, each(lambda a, b, c: ieee.fma(F32, a, b, c))),
        "add.rn.ftz.f32x2 {d}, {a}, {b};": (
            64,
            each(
                lambda a, b, c: ieee.flushed(F32, ieee.add(F32, ieee.flushed(F32, a), ieee.flushed(F32, b)))
            ),
        ),
    }  # fmt: skip
    check(table, pairs)


@pytest.mark.parametrize("name", ["f32", "f64"])
def test_minimum_and_maximum(name):
    form = FORMATS[name]
    fl = flush(F32, True)
    table = {}
    for op in ("min", "max"):
        largest = op == "max"
        table[f"{op}.{name} {{d}}, {{a}}, {{b}};"] = (
            form.bits,
            lambda a, b, c, m=largest: ieee.extreme(form, a, b, m),
        )
        if form is F64:
            continue

        def three(a, b, c, nan, m=largest):
            return ieee.extreme(F32, ieee.extreme(F32, a, b, m, nan), c, m, nan)

        def signs(a, b, nan, m=largest):
            r = ieee.extreme(F32, a & 0x7FFFFFFF, b & 0x7FFFFFFF, m, nan)
            return r if ieee.is_nan(F32, r) else r | (a ^ b) & 0x80000000

        table |= {
            f"{op}.NaN.f32 {{d}}, {{a}}, {{b}};": (32, lambda a, b, c, m=largest: ieee.extreme(F32, a, b, m, True)),
            f"{op}.ftz.f32 {{d}}, {{a}}, {{b}};": (32, lambda a, b, c, m=largest: ieee.extreme(F32, fl(a), fl(b), m)),
            f"{op}.f32 {{d}}, {{a}}, {{b}}, {{c}};": (32, lambda a, b, c, f=three: f(a, b, c, False)),
            f"{op}.NaN.f32 {{d}}, {{a}}, {{b}}, {{c}};": (32, lambda a, b, c, f=three: f(a, b, c, True)),
            f"{op}.NaN.abs.f32 {{d}}, {{a}}, {{b}}, {{c}};": (
                32,
                lambda *v, f=three: f(*(x & 0x7FFFFFFF for x in v), True),
            ),
            f"{op}.ftz.f32 {{d}}, {{a}}, {{b}}, {{c}};": (32, lambda a, b, c, f=three: f(fl(a), fl(b), fl(c), False)),
            f"{op}.xorsign.abs.f32 {{d}}, {{a}}, {{b}};": (32, lambda a, b, c, f=signs: f(a, b, False)),
            f"{op}.NaN.xorsign.abs.f32 {{d}}, {{a}}, {{b}};": (32, lambda a, b, c, f=signs: f(a, b, True)),
        }
    check_floats(table, rows(form), form)


@pytest.mark.parametrize("name", ["f32", "f64"])
def test_signs_and_tests(name):
    form = FORMATS[name]
    t, top = name, FORMATS[name].top
    small = lambda x: 0 < x & (top - 1) < 1 << (form.precision - 1)  # noqa: E731
    special = lambda x: ieee.is_nan(form, x) or ieee.is_infinite(form, x)  # noqa: E731
    table = {
        f"neg.{t} {{d}}, {{a}};": (form.bits, lambda a, *_: a ^ top),
        f"abs.{t} {{d}}, {{a}};": (form.bits, lambda a, *_: a & (top - 1)),
        f"copysign.{t} {{d}}, {{a}}, {{b}};": (form.bits, lambda a, b, *_: a & top | b & (top - 1)),
        f"testp.finite.{t} {{d}}, {{a}};": ("p", lambda a, *_: not special(a)),
        f"testp.infinite.{t} {{d}}, {{a}};": ("p", lambda a, *_: ieee.is_infinite(form, a)),
        f"testp.number.{t} {{d}}, {{a}};": ("p", lambda a, *_: not ieee.is_nan(form, a)),
        f"testp.notanumber.{t} {{d}}, {{a}};": ("p", lambda a, *_: ieee.is_nan(form, a)),
        f"testp.normal.{t} {{d}}, {{a}};": (
            "p",
            lambda a, *_: not special(a) and not small(a) and a & (top - 1) != 0,
        ),
        f"testp.subnormal.{t} {{d}}, {{a}};": ("p", lambda a, *_: small(a)),
    }
    if form is F32:
        nan_apart = lambda f: lambda a, *_: f(a)  # noqa: E731
        table["neg.ftz.f32 {d}, {a};"] = (32, nan_apart(lambda a: ieee.flushed(F32, a) ^ top))
        table["abs.ftz.f32 {d}, {a};"] = (32, nan_apart(lambda a: ieee.flushed(F32, a) & (top - 1)))
    check(table, rows(form))


HALVES = {"f16": F16, "bf16": BF16}


def half_table(name: str, form: Format) -> dict[str, object]:
    """Instruction -> function of three bit patterns, for one half."""
    fl = lambda x: ieee.flushed(F16, x)  # noqa: E731
    relu = lambda x: ieee.relu(form, x)  # noqa: E731
    table = {
        f"add.rn.{name}|2": lambda a, b, c: ieee.add(form, a, b),
        f"sub.rn.{name}|2": lambda a, b, c: ieee.sub(form, a, b),
        f"mul.rn.{name}|2": lambda a, b, c: ieee.mul(form, a, b),
        f"fma.rn.{name}|3": lambda a, b, c: ieee.fma(form, a, b, c),
        f"fma.rn.relu.{name}|3": lambda a, b, c: relu(ieee.fma(form, a, b, c)),
        f"neg.{name}|1": lambda a, b, c: a ^ 0x8000,
        f"abs.{name}|1": lambda a, b, c: a & 0x7FFF,
    }
    for op in ("min", "max"):
        largest = op == "max"
        table[f"{op}.{name}|2"] = lambda a, b, c, m=largest: ieee.extreme(form, a, b, m)
        table[f"{op}.NaN.{name}|2"] = lambda a, b, c, m=largest: ieee.extreme(form, a, b, m, True)
    if form is F16:
        for op, f in {"add": ieee.add, "sub": ieee.sub, "mul": ieee.mul}.items():
            table[f"{op}.rn.ftz.f16|2"] = lambda a, b, c, f=f: fl(f(F16, fl(a), fl(b)))
            table[f"{op}.rn.sat.f16|2"] = lambda a, b, c, f=f: ieee.saturated(F16, f(F16, a, b))
            table[f"{op}.rn.ftz.sat.f16|2"] = lambda a, b, c, f=f: ieee.saturated(F16, fl(f(F16, fl(a), fl(b))))
        table["fma.rn.ftz.f16|3"] = lambda a, b, c: fl(ieee.fma(F16, fl(a), fl(b), fl(c)))
        table["fma.rn.sat.f16|3"] = lambda a, b, c: ieee.saturated(F16, ieee.fma(F16, a, b, c))
        table["max.ftz.f16|2"] = lambda a, b, c: ieee.extreme(F16, fl(a), fl(b), True)
        table["min.ftz.f16|2"] = lambda a, b, c: ieee.extreme(F16, fl(a), fl(b), False)
    return table


@pytest.mark.parametrize("name", HALVES)
def test_halves(name):
    form = HALVES[name]
    table, pairs = {}, {}
    for key, f in half_table(name, form).items():
        text, sources = key.split("|")
        operands = "{d}, " + ", ".join(("{a}", "{b}", "{c}")[: int(sources)])
        table[f"{text} {operands};"] = (16, f)
        text = text.replace(f".{name}", f".{name}x2")
        pairs[f"{text} {operands};"] = (
            32,
            lambda *x, f=f: f(*(v & 0xFFFF for v in x)) | f(*(v >> 16 for v in x)) << 16,
        )
    data = rows(form)
    check(table, data)
    wide = {n: np.stack([v, np.roll(v, 41)], 1).copy().view(np.uint32)[:, 0] for n, v in data.items()}
    check(pairs, wide)


def approximate(f, form: Format):
    """The nearest value of a function of doubles, with IEEE's limits."""

    def nearest(a: int) -> int:
        if ieee.is_nan(form, a):
            return form.nan
        x = math.inf if ieee.is_infinite(form, a) else float(ieee.value(form, a))
        y = f(-math.inf if x == math.inf and a & form.top else -0.0 if a == form.top else x)
        if math.isnan(y):
            return form.nan
        if math.isinf(y):
            return form.infinity | (form.top if y < 0 else 0)
        return ieee.rounded(form, Fraction(y), "rn", int(math.copysign(1, y) < 0))

    return nearest


def exp2(x: float) -> float:
    return math.inf if x >= 2000 else 0.0 if x < -2000 else math.exp2(x)


def reciprocal(x: float) -> float:
    return math.copysign(math.inf, x) if x == 0 else 1 / x


def log2(x: float) -> float:
    return -math.inf if x == 0 else math.nan if x < 0 else math.inf if x == math.inf else math.log2(x)


def root(x: float) -> float:
    return math.nan if x < 0 else math.sqrt(x)


def inverse_root(x: float) -> float:
    return math.nan if x < 0 else reciprocal(root(x)) if x == 0 else 1 / math.sqrt(x)


def turned(f):
    return lambda x: math.nan if math.isinf(x) else f(x)


APPROXIMATIONS = {
    "ex2": exp2,
    "rcp": reciprocal,
    "rsqrt": inverse_root,
    "sqrt": root,
    "lg2": log2,
    "tanh": math.tanh,
    "sin": turned(math.sin),
    "cos": turned(math.cos),
}


@pytest.mark.parametrize("ftz", [False, True])
def test_approximations_are_the_nearest_value(ftz):
    """The simulator returns the nearest value; one unit in the last place is allowed for the host's own function."""
    rng = np.random.default_rng(SEED)
    values = np.concatenate(
        [
            np.array(ieee.edges(F32), np.uint32),
            near(rng, F32, 64),
            (rng.standard_normal(64) * 40).astype(np.float32).view(np.uint32),
            np.array([-127, -126.5, -149, -150, 127.5, 128, 1e-39, 3e38, -3e38], np.float32).view(np.uint32),
        ]
    )
    into = flush(F32, ftz)
    names = [name for name in APPROXIMATIONS if name != "tanh" or not ftz]
    suffix = ".ftz" if ftz else ""
    got = evaluate([(f"{n}.approx{suffix}.f32 {{d}}, {{a}};", 32) for n in names], {"a": values})
    for name, results in zip(names, got, strict=True):
        nearest = approximate(APPROXIMATIONS[name], F32)
        for a, result in zip(values.tolist(), results.tolist(), strict=True):
            want = into(nearest(into(a)))
            exact = ieee.is_nan(F32, want) or ieee.is_infinite(F32, want) or want & 0x7FFFFFFF == 0
            if exact and ieee.is_nan(F32, want):
                assert ieee.is_nan(F32, result), (name, hex(a), hex(result))
            else:
                assert abs(result - want) <= (0 if exact else 1), (name, hex(a), hex(result), hex(want))


def test_approximations_of_halves_and_doubles():
    for name, form in HALVES.items():
        values = rows(form)["a"][::7].copy()
        ftz = "ftz." if name == "bf16" else ""
        nearest = {f: approximate(APPROXIMATIONS[f], form) for f in ("ex2", "tanh")}
        table = {
            f"ex2.approx.{ftz}{name} {{d}}, {{a}};": (16, nearest["ex2"]),
            f"tanh.approx.{name} {{d}}, {{a}};": (16, nearest["tanh"]),
        }
        check(table, {"a": values})
        both = np.stack([values, np.roll(values, 3)], 1).copy().view(np.uint32)[:, 0]
        paired = lambda f: lambda a: f(a & 0xFFFF) | f(a >> 16) << 16  # noqa: E731
        check({text.replace(f"{name} ", f"{name}x2 "): (32, paired(f)) for text, (_, f) in table.items()}, {"a": both})
    values = np.array([1.0, -2.0, 0.3, 7e5, -1e-9, 3.0], np.float64)
    got = evaluate(
        [("rcp.approx.ftz.f64 {d}, {a};", 64), ("rsqrt.approx.ftz.f64 {d}, {a};", 64)], {"a": values.view(np.uint64)}
    )
    np.testing.assert_allclose(got[0].view(np.float64), 1 / values, rtol=2.0**-20)
    with np.errstate(invalid="ignore"):
        np.testing.assert_allclose(got[1].view(np.float64), 1 / np.sqrt(values), rtol=2.0**-20)
