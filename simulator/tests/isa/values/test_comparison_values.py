"""setp, set, selp and slct: every comparison of every type, ordered and unordered, and how predicates join in."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.tests.isa.values import float_oracle as ieee
from simulator.tests.isa.values.float_oracle import F16, F32, FORMATS
from simulator.tests.isa.values.value_table import check, edges, every_pair, random_words, signed

SEED = 20264
ORDERED = ("eq", "ne", "lt", "le", "gt", "ge")
UNSIGNED = {"lo": "lt", "ls": "le", "hi": "gt", "hs": "ge"}
FLOAT = (*ORDERED, *(f"{name}u" for name in ORDERED), "num", "nan")
BOOLEANS = {"and": lambda x, y: x & y, "or": lambda x, y: x | y, "xor": lambda x, y: x ^ y}


def predicates(count: int) -> dict[str, np.ndarray]:
    return {"p": np.random.default_rng(SEED).integers(0, 2, count).astype(np.uint32)}


def integer_comparison(name: str, kind: str, bits: int):
    read = (lambda v: signed(v, bits)) if kind == "s" else int
    test = ieee.ORDERED[UNSIGNED.get(name, name)]
    return lambda a, b: int(test(read(a), read(b)))


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_integers(bits):
    a, b = every_pair(edges(bits), bits)
    data = {"a": a, "b": b} | predicates(len(a))
    table = {}
    for kind in "usb":
        names = ORDERED if kind != "b" else ("eq", "ne")
        for name in (*names, *(UNSIGNED if kind == "u" else ())):
            f = integer_comparison(name, kind, bits)
            t = f"{kind}{bits}"
            table[f"setp.{name}.{t} {{d}}, {{a}}, {{b}};"] = ("p", lambda a, b, p, f=f: f(a, b))
            table[f"setp.{name}.{t} %p3|{{d}}, {{a}}, {{b}};"] = ("p", lambda a, b, p, f=f: 1 - f(a, b))
            table[f"set.{name}.u32.{t} {{d}}, {{a}}, {{b}};"] = (32, lambda a, b, p, f=f: -f(a, b))
    for boolean, join in BOOLEANS.items():
        f = integer_comparison("lt", "s", bits)
        t = f"s{bits}"
        table[f"setp.lt.{boolean}.{t} {{d}}, {{a}}, {{b}}, {{p}};"] = ("p", lambda a, b, p, j=join, f=f: j(f(a, b), p))
        table[f"setp.lt.{boolean}.{t} {{d}}|%p3, {{a}}, {{b}}, !{{p}};"] = (
            "p",
            lambda a, b, p, j=join, f=f: j(f(a, b), 1 - p),
        )
        table[f"setp.lt.{boolean}.{t} %p3|{{d}}, {{a}}, {{b}}, {{p}};"] = (
            "p",
            lambda a, b, p, j=join, f=f: j(1 - f(a, b), p),
        )
        table[f"set.lt.{boolean}.s32.{t} {{d}}, {{a}}, {{b}}, {{p}};"] = (
            32,
            lambda a, b, p, j=join, f=f: -j(f(a, b), p),
        )
        table[f"set.lt.{boolean}.f32.{t} {{d}}, {{a}}, {{b}}, {{p}};"] = (
            32,
            lambda a, b, p, j=join, f=f: 0x3F800000 * j(f(a, b), p),
        )
    # A destination that is also the condition: c is read before either is written.
    f = integer_comparison("lt", "u", bits)
    table[f"mov.pred {{d}}, {{p}}; setp.lt.and.u{bits} {{d}}|%p3, {{a}}, {{b}}, {{d}};"] = (
        "p",
        lambda a, b, p: f(a, b) & p,
    )
    table[f"mov.pred %p3, {{p}}; setp.lt.and.u{bits} %p3|{{d}}, {{a}}, {{b}}, %p3;"] = (
        "p",
        lambda a, b, p: (1 - f(a, b)) & p,
    )
    check(table, data)


@pytest.mark.parametrize("name", ["f32", "f64", "f16", "bf16"])
def test_floats(name):
    form = FORMATS[name]
    a, b = every_pair(ieee.edges(form), form.bits)
    data = {"a": a, "b": b} | predicates(len(a))
    table = {}
    for comparison in FLOAT:

        def f(a, b, c=comparison):
            return int(ieee.compare(form, c, a, b))

        table[f"setp.{comparison}.{name} {{d}}, {{a}}, {{b}};"] = ("p", lambda a, b, p, f=f: f(a, b))
        if name in ("f32", "f64"):
            table[f"setp.{comparison}.{name} %p3|{{d}}, {{a}}, {{b}};"] = ("p", lambda a, b, p, f=f: 1 - f(a, b))
            table[f"set.{comparison}.u32.{name} {{d}}, {{a}}, {{b}};"] = (32, lambda a, b, p, f=f: -f(a, b))
            table[f"set.{comparison}.xor.f32.{name} {{d}}, {{a}}, {{b}}, {{p}};"] = (
                32,
                lambda a, b, p, f=f: 0x3F800000 * (f(a, b) ^ p),
            )
        else:
            one = 0x3C00 if form is F16 else 0x3F80
            table[f"set.{comparison}.{name}.{name} {{d}}, {{a}}, {{b}};"] = (
                16,
                lambda a, b, p, f=f, o=one: o * f(a, b),
            )
            table[f"set.{comparison}.u16.{name} {{d}}, {{a}}, {{b}};"] = (16, lambda a, b, p, f=f: -f(a, b))
        table[f"setp.{comparison}.or.{name} {{d}}, {{a}}, {{b}}, {{p}};"] = ("p", lambda a, b, p, f=f: f(a, b) | p)
    if form is F32:
        for comparison in ("eq", "lt", "geu"):
            table[f"setp.{comparison}.ftz.f32 {{d}}, {{a}}, {{b}};"] = (
                "p",
                lambda a, b, p, c=comparison: int(ieee.compare(F32, c, ieee.flushed(F32, a), ieee.flushed(F32, b))),
            )
    check(table, data)


@pytest.mark.parametrize("name", ["f16", "bf16"])
def test_pairs_of_halves_give_two_predicates(name):
    form = FORMATS[name]
    x, y = every_pair(ieee.edges(form), 16)
    a, b = (v.astype(np.uint32) | np.roll(v, 29).astype(np.uint32) << 16 for v in (x, y))
    data = {"a": a, "b": b} | predicates(len(a))
    table = {}
    for comparison in FLOAT:

        def low(a, b, c=comparison):
            return int(ieee.compare(form, c, a & 0xFFFF, b & 0xFFFF))

        def high(a, b, c=comparison):
            return int(ieee.compare(form, c, a >> 16, b >> 16))

        t = f"{comparison}.{name}x2"
        table[f"setp.{t} {{d}}|%p3, {{a}}, {{b}};"] = ("p", lambda a, b, p, f=low: f(a, b))
        table[f"setp.{t} %p3|{{d}}, {{a}}, {{b}};"] = ("p", lambda a, b, p, f=high: f(a, b))
        t = f"{comparison}.and.{name}x2"
        table[f"setp.{t} {{d}}|%p3, {{a}}, {{b}}, {{p}};"] = ("p", lambda a, b, p, f=low: f(a, b) & p)
        table[f"setp.{t} %p3|{{d}}, {{a}}, {{b}}, {{p}};"] = ("p", lambda a, b, p, f=high: f(a, b) & p)
        one = 0x3C00 if form is F16 else 0x3F80
        table[f"set.{comparison}.{name}x2.{name}x2 {{d}}, {{a}}, {{b}};"] = (
            32,
            lambda a, b, p, f=low, g=high, o=one: o * f(a, b) | o * g(a, b) << 16,
        )
    check(table, data)


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_selections(bits):
    rng = np.random.default_rng(SEED)
    c = np.array(ieee.edges(F32) + edges(32), np.uint32)
    a, b = (random_words(rng, len(c), bits) for _ in range(2))
    data = {"a": a, "b": b, "c": c} | predicates(len(c))

    def not_below(c, ftz=False):
        c = ieee.flushed(F32, c) if ftz else c
        return not ieee.is_nan(F32, c) and (not c & 0x80000000 or c == 0x80000000)

    table = {
        f"selp.b{bits} {{d}}, {{a}}, {{b}}, {{p}};": (bits, lambda a, b, c, p: a if p else b),
        f"selp.u{bits} {{d}}, {{a}}, {{b}}, !{{p}};": (bits, lambda a, b, c, p: b if p else a),
        f"slct.u{bits}.s32 {{d}}, {{a}}, {{b}}, {{c}};": (bits, lambda a, b, c, p: a if signed(c, 32) >= 0 else b),
        f"slct.b{bits}.f32 {{d}}, {{a}}, {{b}}, {{c}};": (bits, lambda a, b, c, p: a if not_below(c) else b),
        f"slct.ftz.b{bits}.f32 {{d}}, {{a}}, {{b}}, {{c}};": (bits, lambda a, b, c, p: a if not_below(c, True) else b),
    }
    check(table, data)
