"""lop3, bit counts and positions, bit fields, masks and extensions, compared with loops over bits."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.tests.isa.values.value_table import check, every_pair, random_words, rows, signed

SEED = 20265


def s32(value: int) -> int:
    return signed(value, 32)


def lop3(a: int, b: int, c: int, table: int) -> int:
    result = 0
    for i in range(8):
        if table >> i & 1:
            result |= (a if i & 4 else ~a) & (b if i & 2 else ~b) & (c if i & 1 else ~c)
    return result & 0xFFFFFFFF


def test_lop3_and_its_predicate():
    data = {name: values[::4].copy() for name, values in rows(32).items()}
    data["c"][:30] = 0
    data["q"] = np.arange(len(data["a"]), dtype=np.uint32) & 1
    table = {f"lop3.b32 {{d}}, {{a}}, {{b}}, {{c}}, {i};": (32, lambda a, b, c, _, i=i: lop3(a, b, c, i)) for i in
             (*range(0, 256, 17), 1, 2, 4, 8, 16, 32, 64, 128)}  # fmt: skip
    table["lop3.or.b32 %r10|{d}, {a}, {b}, {c}, 0x80, {q};"] = (
        "p",
        lambda a, b, c, q: int(lop3(a, b, c, 0x80) != 0) | q,
    )
    table["lop3.and.b32 %r10|{d}, {a}, {b}, {c}, 0x80, {q};"] = (
        "p",
        lambda a, b, c, q: int(lop3(a, b, c, 0x80) != 0) & q,
    )
    table["lop3.and.b32 {d}|%p3, {a}, {b}, {c}, 0x6a, {q};"] = (32, lambda a, b, c, _: lop3(a, b, c, 0x6A))
    check(table, data)


def find(value: int, bits: int, is_signed: bool, amount: bool) -> int:
    if is_signed and value >> (bits - 1):
        value = ~value & ((1 << bits) - 1)
    if value == 0:
        return -1
    at = value.bit_length() - 1
    return bits - 1 - at if amount else at


@pytest.mark.parametrize("bits", [32, 64])
def test_counts_and_places_of_bits(bits):
    table = {
        f"popc.b{bits} {{d}}, {{a}};": (32, lambda a, *_: a.bit_count()),
        f"clz.b{bits} {{d}}, {{a}};": (32, lambda a, *_: bits - a.bit_length()),
        f"brev.b{bits} {{d}}, {{a}};": (bits, lambda a, *_: int(f"{a:0{bits}b}"[::-1], 2)),
    }
    for kind in "us":
        for suffix in ("", ".shiftamt"):
            table[f"bfind{suffix}.{kind}{bits} {{d}}, {{a}};"] = (
                32,
                lambda a, *_, k=kind, s=suffix: find(a, bits, k == "s", s != ""),
            )
    data = rows(bits)
    data["a"] = np.concatenate([data["a"][::4], np.array([1 << i for i in range(bits)], data["a"].dtype)])
    check(table, {"a": data["a"]})


def extract(a: int, position: int, length: int, bits: int, is_signed: bool) -> int:
    """PTX ISA, bfe: position and length have 8 bits; bits beyond the field are copies of its sign."""
    position, length = position & 255, length & 255
    top = a >> min(position + length - 1, bits - 1) & 1 if is_signed and length else 0
    result = 0
    for i in range(bits):
        inside = i < length and position + i < bits
        result |= (a >> (position + i) & 1 if inside else top) << i
    return result


def insert(a: int, b: int, position: int, length: int, bits: int) -> int:
    position, length = position & 255, length & 255
    for i in range(length):
        if position + i < bits:
            b = b & ~(1 << (position + i)) | (a >> i & 1) << (position + i)
    return b


@pytest.mark.parametrize("bits", [32, 64])
def test_bit_fields(bits):
    rng = np.random.default_rng(SEED)
    places = [0, 1, 5, bits // 2, bits - 1, bits, 40, 63, 64, 255, 256, 0x101]
    position, length = every_pair(places, 32)
    a, b = (random_words(rng, len(position), bits) for _ in range(2))
    table = {
        f"bfe.u{bits} {{d}}, {{a}}, {{c}}, {{e}};": (bits, lambda a, b, c, e: extract(a, c, e, bits, False)),
        f"bfe.s{bits} {{d}}, {{a}}, {{c}}, {{e}};": (bits, lambda a, b, c, e: extract(a, c, e, bits, True)),
        f"bfi.b{bits} {{d}}, {{a}}, {{b}}, {{c}}, {{e}};": (bits, lambda a, b, c, e: insert(a, b, c, e, bits)),
    }
    check(table, {"a": a, "b": b, "c": position, "e": length})


def nth_set(mask: int, base: int, offset: int) -> int:
    """Position of the offset-th set bit from `base` on (PTX ISA, fns)."""
    step, left = (1, offset) if offset > 0 else (-1, -offset)
    if offset == 0:
        return base if mask >> base & 1 else -1
    at = base
    while 0 <= at < 32:
        left -= mask >> at & 1
        if left == 0:
            return at
        at += step
    return -1


def test_masks_and_extensions():
    rng = np.random.default_rng(SEED)
    a, b = every_pair([0, 1, 5, 8, 16, 31, 32, 33, 40, 64, 0xFFFFFFFF], 32)
    value = random_words(rng, len(a), 32)
    base, offset = (a & 31).astype(np.uint32), (b % 9 - 4).astype(np.int32).view(np.uint32)
    extend = lambda v, n, wrap, sign: extract(v, 0, n & 31 if wrap else min(n, 32), 32, sign)  # noqa: E731
    table = {
        "bmsk.clamp.b32 {d}, {a}, {b};": (
            32,
            lambda a, b, *_: ((1 << min(b, 32)) - 1) << a if a < 32 else 0,
        ),
        "bmsk.wrap.b32 {d}, {a}, {b};": (32, lambda a, b, *_: ((1 << (b & 31)) - 1) << (a & 31)),
        "fns.b32 {d}, {c}, {e}, {f};": (32, lambda a, b, c, e, f: nth_set(c, e, s32(f))),
    }
    for kind in "us":
        for mode in ("clamp", "wrap"):
            table[f"szext.{mode}.{kind}32 {{d}}, {{c}}, {{b}};"] = (
                32,
                lambda a, b, c, *_, k=kind, m=mode: extend(c, b, m == "wrap", k == "s"),
            )
    check(table, {"a": a, "b": b, "c": value, "e": base, "f": offset})
