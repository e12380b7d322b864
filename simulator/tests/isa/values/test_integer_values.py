"""Every integer, logic, shift and bit-field instruction, at its types' edges, against Python's integers."""

from __future__ import annotations

import itertools
import operator

import numpy as np
import pytest

from simulator.tests.isa.values.value_table import check, every_pair, permute, random_words, rows, signed

SEED = 20261


def quotient(x: int, y: int) -> int:
    return -1 if y == 0 else abs(x) // abs(y) * (1 if (x < 0) == (y < 0) else -1)


def remainder(x: int, y: int) -> int:
    return x if y == 0 else abs(x) % abs(y) * (-1 if x < 0 else 1)


def clamp(value: int, bits: int) -> int:
    return min(max(value, -(1 << (bits - 1))), (1 << (bits - 1)) - 1)


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_arithmetic_of_every_width(bits):
    table = {}
    for kind in "us":
        read = (lambda v: signed(v, bits)) if kind == "s" else int
        t = f"{kind}{bits}"
        for name, f in {
            "add": lambda x, y: x + y,
            "sub": lambda x, y: x - y,
            "mul.lo": lambda x, y: x * y,
            "mul.hi": lambda x, y: x * y >> bits,
            "div": quotient,
            "rem": remainder,
            "min": min,
            "max": max,
        }.items():
            table[f"{name}.{t} {{d}}, {{a}}, {{b}};"] = (bits, lambda a, b, _, f=f, r=read: f(r(a), r(b)))
        table[f"sad.{t} {{d}}, {{a}}, {{b}}, {{c}};"] = (bits, lambda a, b, c, r=read: abs(r(a) - r(b)) + c)
        table[f"mad.lo.{t} {{d}}, {{a}}, {{b}}, {{c}};"] = (bits, lambda a, b, c: a * b + c)
        table[f"mad.hi.{t} {{d}}, {{a}}, {{b}}, {{c}};"] = (bits, lambda a, b, c, r=read: (r(a) * r(b) >> bits) + c)
        if bits < 64:
            table[f"mul.wide.{t} {{d}}, {{a}}, {{b}};"] = (2 * bits, lambda a, b, _, r=read: r(a) * r(b))
    table[f"abs.s{bits} {{d}}, {{a}};"] = (bits, lambda a, *_: abs(signed(a, bits)))
    table[f"neg.s{bits} {{d}}, {{a}};"] = (bits, lambda a, *_: -a)
    check(table, rows(bits))


@pytest.mark.parametrize("bits", [16, 32])
def test_wide_products_are_added_at_twice_the_width(bits):
    table = {
        f"mad.wide.{kind}{bits} {{d}}, {{a}}, {{b}}, {{c}};": (2 * bits, lambda a, b, c, r=read: r(a) * r(b) + c)
        for kind, read in (("u", int), ("s", lambda v: signed(v, bits)))
    }
    check(table, rows(bits, 2 * bits))


def s24(value: int) -> int:
    return signed(value, 24)


def u24(value: int) -> int:
    return value & 0xFFFFFF


def s32(value: int) -> int:
    return signed(value, 32)


def halves(f, read):
    """Applies a function to each 16-bit half."""
    return lambda x, y, *_: (f(read(x >> 16), read(y >> 16)) & 0xFFFF) << 16 | f(read(x), read(y)) & 0xFFFF


def s16(value: int) -> int:
    return signed(value, 16)


def u16(value: int) -> int:
    return value & 0xFFFF


def test_forms_of_32_bits_only():
    table = {
        "add.sat.s32 {d}, {a}, {b};": (32, lambda a, b, _: clamp(s32(a) + s32(b), 32)),
        "sub.sat.s32 {d}, {a}, {b};": (32, lambda a, b, _: clamp(s32(a) - s32(b), 32)),
        "min.relu.s32 {d}, {a}, {b};": (32, lambda a, b, _: max(min(s32(a), s32(b)), 0)),
        "max.relu.s32 {d}, {a}, {b};": (32, lambda a, b, _: max(s32(a), s32(b), 0)),
        "add.u16x2 {d}, {a}, {b};": (32, halves(lambda x, y: x + y, u16)),
        "add.s16x2 {d}, {a}, {b};": (32, halves(lambda x, y: x + y, s16)),
        "min.u16x2 {d}, {a}, {b};": (32, halves(min, u16)),
        "max.u16x2 {d}, {a}, {b};": (32, halves(max, u16)),
        "min.s16x2 {d}, {a}, {b};": (32, halves(min, s16)),
        "max.s16x2 {d}, {a}, {b};": (32, halves(max, s16)),
        "min.relu.s16x2 {d}, {a}, {b};": (32, halves(lambda x, y: max(min(x, y), 0), s16)),
        "max.relu.s16x2 {d}, {a}, {b};": (32, halves(lambda x, y: max(x, y, 0), s16)),
        "mad24.hi.sat.s32 {d}, {a}, {b}, {c};": (
            32,
            lambda a, b, c: clamp((s24(a) * s24(b) >> 16) + s32(c), 32),
        ),
    }
    for kind, read in (("u", u24), ("s", s24)):
        for part, shift in (("lo", 0), ("hi", 16)):
            table[f"mul24.{part}.{kind}32 {{d}}, {{a}}, {{b}};"] = (
                32,
                lambda a, b, _, r=read, s=shift: r(a) * r(b) >> s,
            )
            table[f"mad24.{part}.{kind}32 {{d}}, {{a}}, {{b}}, {{c}};"] = (
                32,
                lambda a, b, c, r=read, s=shift: (r(a) * r(b) >> s) + c,
            )
    check(table, rows(32))


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_logic(bits):
    t = f"b{bits}"
    table = {
        f"and.{t} {{d}}, {{a}}, {{b}};": (bits, lambda a, b, _: a & b),
        f"or.{t} {{d}}, {{a}}, {{b}};": (bits, lambda a, b, _: a | b),
        f"xor.{t} {{d}}, {{a}}, {{b}};": (bits, lambda a, b, _: a ^ b),
        f"not.{t} {{d}}, {{a}};": (bits, lambda a, *_: ~a),
        f"cnot.{t} {{d}}, {{a}};": (bits, lambda a, *_: int(a == 0)),
    }
    check(table, rows(bits))


def test_logic_of_predicates():
    p, q = every_pair([0, 1], 32)
    table = {
        "and.pred {d}, {p}, {q};": ("p", lambda p, q: p & q),
        "or.pred {d}, {p}, {q};": ("p", lambda p, q: p | q),
        "xor.pred {d}, {p}, {q};": ("p", lambda p, q: p ^ q),
        "not.pred {d}, {p};": ("p", lambda p, _: 1 - p),
        "mov.pred {d}, {p};": ("p", lambda p, _: p),
        "and.pred {d}, {p}, !{q};": ("p", lambda p, q: p & (1 - q)),
        "or.pred {d}, !{p}, {q};": ("p", lambda p, q: (1 - p) | q),
        "selp.b64 %rd10, 0x123456789abcdef0, 5, {p}; setp.eq.u64 {d}, %rd10, 5;": ("p", lambda p, _: 1 - p),
        "setp.eq.u32 {d}, 0, 1; @{p} setp.eq.u32 {d}, 0, 0;": ("p", lambda p, _: p),
        "setp.eq.u32 {d}, 0, 1; @!{p} setp.eq.u32 {d}, 0, 0;": ("p", lambda p, _: 1 - p),
    }
    check(table, {"p": p, "q": q})


@pytest.mark.parametrize("bits", [16, 32, 64])
def test_shifts_clamp_their_amount(bits):
    a = np.repeat(rows(bits)["a"][::5], 12)
    amounts = [0, 1, 7, bits // 2, bits - 1, bits, bits + 1, 63, 64, 255, 256, 0xFFFFFFFF]
    b = np.resize(np.array(amounts, np.uint32), len(a))
    right = lambda x, n: x >> min(n, 64)  # noqa: E731
    table = {
        f"shl.b{bits} {{d}}, {{a}}, {{b}};": (bits, lambda a, b: a << min(b, 64)),
        f"shr.b{bits} {{d}}, {{a}}, {{b}};": (bits, right),
        f"shr.u{bits} {{d}}, {{a}}, {{b}};": (bits, right),
        f"shr.s{bits} {{d}}, {{a}}, {{b}};": (bits, lambda a, b: right(signed(a, bits), b)),
    }
    check(table, {"a": a, "b": b})


def test_funnel_shifts():
    data = rows(32)
    data["c"] = np.resize(np.array([0, 1, 5, 31, 32, 33, 63, 64, 0xFFFFFFFF, 0x80000007], np.uint32), len(data["a"]))
    pair = lambda a, b: b << 32 | a  # noqa: E731
    table = {
        "shf.l.wrap.b32 {d}, {a}, {b}, {c};": (32, lambda a, b, c: pair(a, b) << (c & 31) >> 32),
        "shf.l.clamp.b32 {d}, {a}, {b}, {c};": (32, lambda a, b, c: pair(a, b) << min(c, 32) >> 32),
        "shf.r.wrap.b32 {d}, {a}, {b}, {c};": (32, lambda a, b, c: pair(a, b) >> (c & 31)),
        "shf.r.clamp.b32 {d}, {a}, {b}, {c};": (32, lambda a, b, c: pair(a, b) >> min(c, 32)),
    }
    check(table, data)


PRMT = {  # PTX ISA, prmt: bytes of {b, a} from d's highest to its lowest, by the selector's two low bits
    "f4e": ("3210", "4321", "5432", "6543"),
    "b4e": ("5670", "6701", "7012", "0123"),
    "rc8": ("0000", "1111", "2222", "3333"),
    "ecl": ("3210", "3211", "3222", "3333"),
    "ecr": ("0000", "1110", "2210", "3210"),
    "rc16": ("1010", "3232", "1010", "3232"),
}


def test_byte_permutations():
    data = rows(32)
    rng = np.random.default_rng(SEED)
    data["a"], data["b"] = (random_words(rng, len(data["a"]), 32) for _ in range(2))
    table = {"prmt.b32 {d}, {a}, {b}, {c};": (32, permute)}
    for mode, picks in PRMT.items():
        table[f"prmt.b32.{mode} {{d}}, {{a}}, {{b}}, {{c}};"] = (
            32,
            lambda a, b, c, p=picks: permute(a, b, int(p[c & 3], 16)),
        )
    check(table, data)


def parts(word: int, bits: int, is_signed: bool) -> list[int]:
    pieces = [word >> i & ((1 << bits) - 1) for i in range(0, 32, bits)]
    return [signed(p, bits) for p in pieces] if is_signed else pieces


def test_dot_products():
    table = {}
    for ta in "us":
        for tb in "us":

            def four(a, b, c, ta=ta, tb=tb):
                return c + sum(x * y for x, y in zip(parts(a, 8, ta == "s"), parts(b, 8, tb == "s"), strict=True))

            table[f"dp4a.{ta}32.{tb}32 {{d}}, {{a}}, {{b}}, {{c}};"] = (32, four)
            for half, first in (("lo", 0), ("hi", 2)):

                def two(a, b, c, ta=ta, tb=tb, first=first):
                    x, y = parts(a, 16, ta == "s"), parts(b, 8, tb == "s")[first : first + 2]
                    return c + x[0] * y[0] + x[1] * y[1]

                table[f"dp2a.{half}.{ta}32.{tb}32 {{d}}, {{a}}, {{b}}, {{c}};"] = (32, two)
    check(table, rows(32))


VIDEO = {
    "vadd": operator.add, "vsub": operator.sub, "vabsdiff": lambda x, y: abs(x - y), "vmin": min, "vmax": max,
    "vavrg": lambda x, y: (x + y + (x + y >= 0)) // 2,
}  # fmt: skip
RELATIONS = {"eq": operator.eq, "ne": operator.ne, "lt": operator.lt, "le": operator.le, "gt": operator.gt,
             "ge": operator.ge}  # fmt: skip


@pytest.mark.parametrize("count", [2, 4])
def test_operations_on_bytes_and_halves(count):
    table = {}
    bits = 32 // count

    def each(function, ta, tb, low=None, high=None):
        """The results of the parts: as a word, clamped if limits are given, and their sum with c."""

        def apart(a, b):
            return [function(x, y) for x, y in zip(parts(a, bits, ta == "s"), parts(b, bits, tb == "s"), strict=True)]

        def word(a, b, c):
            kept = [x if low is None else min(max(x, low), high) for x in apart(a, b)]
            return sum(x % (1 << bits) << bits * i for i, x in enumerate(kept))

        return word, lambda a, b, c: c + sum(apart(a, b))

    for ta, tb in itertools.product("us", "us"):
        for name, function in VIDEO.items():
            for td in "us":
                limits = (0, (1 << bits) - 1) if td == "u" else (-1 << (bits - 1), (1 << (bits - 1)) - 1)
                text = f"{name}{count}.{td}32.{ta}32.{tb}32"
                table[f"{text}.sat {{d}}, {{a}}, {{b}}, {{c}};"] = (32, each(function, ta, tb, *limits)[0])
            word, total = each(function, ta, tb)
            table[f"{text} {{d}}, {{a}}, {{b}}, {{c}};"] = (32, word)
            table[f"{text}.add {{d}}, {{a}}, {{b}}, {{c}};"] = (32, total)
        for relation, function in RELATIONS.items():
            word, total = each(function, ta, tb)
            table[f"vset{count}.{ta}32.{tb}32.{relation} {{d}}, {{a}}, {{b}}, {{c}};"] = (32, word)
            table[f"vset{count}.{ta}32.{tb}32.{relation}.add {{d}}, {{a}}, {{b}}, {{c}};"] = (32, total)
    check(table, rows(32))


@pytest.mark.parametrize("bits", [32, 64])
def test_carries_and_borrows(bits):
    """Each .cc form sets the carry flag, and addc, subc and madc use it."""
    data = rows(bits)
    data["e"] = data["b"][::-1].copy()
    mask = (1 << bits) - 1
    t = f"u{bits}"
    flag = f"addc.{t} {{d}}, 0, 0;"  # the carry as a number
    borrow = f"subc.{t} {{d}}, 0, 0;"
    scratch = "%r50" if bits == 32 else "%rd50"
    carry = lambda x: x >> bits & 1  # noqa: E731
    table = {
        f"add.cc.{t} {{d}}, {{a}}, {{b}};": (bits, lambda a, b, c, e: a + b),
        f"add.cc.{t} {scratch}, {{a}}, {{b}}; {flag}": (bits, lambda a, b, c, e: carry(a + b)),
        f"add.cc.{t} {scratch}, {{a}}, {{b}}; addc.{t} {{d}}, {{c}}, {{e}};": (
            bits,
            lambda a, b, c, e: carry(a + b) + c + e,
        ),
        f"add.cc.{t} {scratch}, {{a}}, {{b}}; addc.cc.{t} {scratch}, {{c}}, {{e}}; {flag}": (
            bits,
            lambda a, b, c, e: carry(carry(a + b) + c + e),
        ),
        f"add.cc.{t} {scratch}, {{a}}, {{b}}; addc.{t} {scratch}, {{c}}, {{e}}; {flag}": (
            bits,
            lambda a, b, c, e: carry(a + b),  # addc without .cc leaves the flag
        ),
        f"sub.cc.{t} {{d}}, {{a}}, {{b}};": (bits, lambda a, b, c, e: a - b),
        f"sub.cc.{t} {scratch}, {{a}}, {{b}}; {borrow}": (bits, lambda a, b, c, e: -int(a < b)),
        f"sub.cc.{t} {scratch}, {{a}}, {{b}}; subc.{t} {{d}}, {{c}}, {{e}};": (
            bits,
            lambda a, b, c, e: c - e - int(a < b),
        ),
        f"sub.cc.{t} {scratch}, {{a}}, {{b}}; subc.cc.{t} {scratch}, {{c}}, {{e}}; {borrow}": (
            bits,
            lambda a, b, c, e: -int(c - e - int(a < b) < 0),
        ),
    }
    for kind, read in (("u", int), ("s", lambda v: signed(v, bits))):
        for part, shift in (("lo", 0), ("hi", bits)):
            product = lambda a, b, r=read, s=shift: (r(a) * r(b) >> s) & mask  # noqa: E731
            form = f"{part}.cc.{kind}{bits}"
            table[f"mad.{form} {{d}}, {{a}}, {{b}}, {{c}};"] = (bits, lambda a, b, c, e, p=product: p(a, b) + c)
            table[f"mad.{form} {scratch}, {{a}}, {{b}}, {{c}}; {flag}"] = (
                bits,
                lambda a, b, c, e, p=product: carry(p(a, b) + c),
            )
            table[f"add.cc.{t} {scratch}, {{a}}, {{b}}; madc.{part}.{kind}{bits} {{d}}, {{a}}, {{b}}, {{e}};"] = (
                bits,
                lambda a, b, c, e, p=product: p(a, b) + e + carry(a + b),
            )
            table[f"add.cc.{t} {scratch}, {{a}}, {{b}}; madc.{form} {scratch}, {{a}}, {{c}}, {{e}}; {flag}"] = (
                bits,
                lambda a, b, c, e, p=product: carry(p(a, c) + e + carry(a + b)),
            )
    check(table, data)


def test_a_carry_belongs_to_its_lane():
    """Lanes that do not execute an instruction keep their flag."""
    data = rows(32)
    data["p"] = np.random.default_rng(SEED).integers(0, 2, len(data["a"])).astype(np.uint32)
    both = "add.cc.u32 %r50, {a}, {b}; @{p} add.cc.u32 %r50, {b}, {c}; addc.u32 {d}, 0, 0;"
    product = "add.cc.u32 %r50, {a}, {b}; @{p} mad.lo.cc.u32 %r50, {a}, {b}, {c}; addc.u32 {d}, 0, 0;"
    table = {
        both: (32, lambda a, b, c, p: (b + c if p else a + b) >> 32),
        product: (32, lambda a, b, c, p: ((a * b & 0xFFFFFFFF) + c if p else a + b) >> 32),
    }
    check(table, data)


def test_moves_pack_and_unpack():
    rng = np.random.default_rng(SEED)
    data = {"a": random_words(rng, 64, 64), "b": random_words(rng, 64, 32), "c": random_words(rng, 64, 16)}
    table = {
        "mov.b64 {{%r50, %r51}}, {a}; mov.b32 {d}, %r50;": (32, lambda a, b, c: a),
        "mov.b64 {{_, {d}}}, {a};": (32, lambda a, b, c: a >> 32),
        "mov.b64 {{%rs1, %rs2, %rs3, {d}}}, {a};": (16, lambda a, b, c: a >> 48),
        "mov.b64 {{%rs1, {d}, _, _}}, {a};": (16, lambda a, b, c: a >> 16),
        "mov.b32 {{_, {d}}}, {b};": (16, lambda a, b, c: b >> 16),
        "mov.b32 {{{d}, _}}, {b};": (16, lambda a, b, c: b),
        "mov.b64 {d}, {{{b}, {b}}};": (64, lambda a, b, c: b << 32 | b),
        "mov.u16 %rs9, 7; mov.b32 {d}, {{%rs9, {c}}};": (32, lambda a, b, c: c << 16 | 7),
        "mov.u16 %rs9, 7; mov.b64 {d}, {{{c}, %rs9, %rs9, {c}}};": (
            64,
            lambda a, b, c: c << 48 | 7 << 32 | 7 << 16 | c,
        ),
        "{{ .reg .b8 x0, x1, x2, x3; mov.b32 {{x0, x1, x2, x3}}, {b}; cvt.u32.u8 {d}, x2; }}": (
            32,
            lambda a, b, c: b >> 16 & 255,
        ),
        "mov.u64 {d}, {a};": (64, lambda a, b, c: a),
        "mov.b16 {d}, {c};": (16, lambda a, b, c: c),
        "mov.s64 {d}, -3;": (64, lambda a, b, c: -3),
        "mov.u32 {d}, 0xfedcba98;": (32, lambda a, b, c: 0xFEDCBA98),
        "mov.u32 {d}, 0b101;": (32, lambda a, b, c: 5),
        "mov.u32 {d}, 0777;": (32, lambda a, b, c: 0o777),
        "add.u32 {d}, {b}, -1;": (32, lambda a, b, c: b - 1),
        "add.s64 {d}, {a}, -1;": (64, lambda a, b, c: a - 1),
        "add.u32 {d}, {b}, 3U;": (32, lambda a, b, c: b + 3),
    }
    check(table, data)
