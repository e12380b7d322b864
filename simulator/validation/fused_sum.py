"""The published rule of the tensor cores' sums (MMA-Sim, arXiv 2511.10909), restated with exact integers.

It is written from the rule's text and shares nothing with simulator/tensorcore. `exact` computes one element with
Fractions, a statement of the rule in each line; `vectors` computes matrices in int64 and is tested against `exact`.

Two details follow an H200 (test_recorded_sums.py) and not MMA-Sim, which gives a zero the exponent -126: in sums of
products a zero does not count for the largest exponent, and the largest exponent is at least -133.  The rule of groups
is as published.
"""

from __future__ import annotations

from dataclasses import dataclass
from fractions import Fraction
from functools import cache
from math import trunc

import numpy as np

ZERO = -126  # exponent of a zero scale or accumulator in the rule of groups
NOTHING, LEAST = -5000, -133  # exponent of a zero elsewhere; least exponent that terms are aligned to
NAN32, NAN16 = 0x7FFFFFFF, 0x7FFF

# name: (exponent bits, fraction bits, bias, what the top exponent means)
LAYOUTS = {
    "e2m1": (2, 1, 1, "finite"),
    "e2m3": (2, 3, 1, "finite"),
    "e3m2": (3, 2, 3, "finite"),
    "e4m3": (4, 3, 7, "last is nan"),
    "e5m2": (5, 2, 15, "ieee"),
    "f16": (5, 10, 15, "ieee"),
    "bf16": (8, 7, 127, "ieee"),
    "tf32": (8, 10, 127, "ieee"),
    "f32": (8, 23, 127, "ieee"),
}


@dataclass
class Numbers:
    """value = sig * 2^(exp - frac); kind 0 finite, 1 infinite (sig is the sign), 2 NaN."""

    sig: np.ndarray
    exp: np.ndarray
    kind: np.ndarray
    frac: int


def decode(fmt: str, codes: np.ndarray) -> Numbers:
    codes = np.asarray(codes, np.int64)
    if fmt == "ue8m0":
        return Numbers(np.ones_like(codes), codes - 127, np.where(codes == 255, 2, 0), 0)
    if fmt == "ue4m3":
        return decode("e4m3", codes & 0x7F)
    if fmt == "tf32":
        codes = codes >> 13
    ebits, fbits, bias, top = LAYOUTS[fmt]
    sign = 1 - 2 * ((codes >> (ebits + fbits)) & 1)
    e = (codes >> fbits) & ((1 << ebits) - 1)
    f = codes & ((1 << fbits) - 1)
    sig = sign * (f + np.where(e > 0, 1 << fbits, 0))
    exp = np.where(sig == 0, ZERO, np.maximum(e, 1) - bias)
    kind = np.zeros_like(codes)
    if top == "ieee":
        last = e == (1 << ebits) - 1
        kind = np.where(last, np.where(f == 0, 1, 2), 0)
        sig = np.where(kind == 1, sign, np.where(kind == 2, 0, sig))
    elif top == "last is nan":
        kind = np.where((e == (1 << ebits) - 1) & (f == (1 << fbits) - 1), 2, 0)
    return Numbers(sig, exp, kind, fbits)


@dataclass
class Rule:
    a: str
    b: str
    d: str = "f32"
    bits: int = 25
    keep: int = 23
    scale: str = ""  # "" or the scales' format
    block: int = 0
    grouped: bool = False


def pack_f32(value: Fraction, keep: int) -> int:
    """Truncated to `keep` fraction bits; beyond f32 is infinity."""
    if value == 0:
        return 0
    sign, mag = (0x80000000, -value) if value < 0 else (0, value)
    exp = -126
    while mag >= Fraction(2) ** (exp + 1):
        exp += 1
    units = trunc(mag / Fraction(2) ** (exp - keep))
    if units == 0:
        return 0
    code = ((exp + 126) << 23) + (units << (23 - keep))
    return sign | min(code, 0x7F800000)


def pack_f16(value: Fraction) -> int:
    """Rounded to nearest even."""
    sign, mag = (0x8000, -value) if value < 0 else (0, value)
    exp = -14
    while mag >= Fraction(2) ** (exp + 1):
        exp += 1
    units = round(mag / Fraction(2) ** (exp - 10))  # Fraction.__round__ goes to even
    if units == 0:
        return 0
    return sign | min(((exp + 14) << 10) + units, 0x7C00)


def exact(
    rule: Rule, a: np.ndarray, b: np.ndarray, c: int, sfa: np.ndarray | None = (), sfb: np.ndarray | None = ()
) -> int:
    """One element of the result; a and b are lists of codes."""
    nan = NAN16 if rule.d == "f16" else NAN32
    x, y, acc = decode(rule.a, np.array(a)), decode(rule.b, np.array(b)), decode(rule.d, np.array([c]))
    k = len(a)
    scales = []
    for i in range(k // rule.block if rule.scale else 0):
        s, t = decode(rule.scale, np.array([sfa[i]])), decode(rule.scale, np.array([sfb[i]]))
        if s.kind[0] == 2 or t.kind[0] == 2:
            return nan
        scales.append((Fraction(int(s.sig[0] * t.sig[0]), 1 << (s.frac + t.frac)), int(s.exp[0] + t.exp[0])))
    infinities = set()
    if acc.kind[0] == 2:
        return nan
    if acc.kind[0] == 1:
        infinities.add(int(acc.sig[0]))
    for i in range(k):
        if x.kind[i] == 2 or y.kind[i] == 2:
            return nan
        if x.kind[i] == 1 or y.kind[i] == 1:
            if x.sig[i] == 0 or y.sig[i] == 0:
                return nan
            infinities.add(int(np.sign(x.sig[i]) * np.sign(y.sig[i])))
    if len(infinities) == 2:
        return nan
    if infinities:
        top = 0x7C00 if rule.d == "f16" else 0x7F800000
        return top | ((0x8000 if rule.d == "f16" else 0x80000000) if -1 in infinities else 0)

    terms = [(Fraction(int(acc.sig[0]), 1 << acc.frac), int(acc.exp[0]))]
    if rule.grouped:
        for g in range(k // 16):
            total = sum(
                Fraction(int(x.sig[i]), 2)
                * 2 ** max(int(x.exp[i]), 0)
                * Fraction(int(y.sig[i]), 2)
                * 2 ** max(int(y.exp[i]), 0)
                for i in range(16 * g, 16 * g + 16)
            )
            sig, exp = scales[16 * g // rule.block]
            terms.append((total * sig, exp))
    else:
        for i in range(k):
            sig = Fraction(int(x.sig[i] * y.sig[i]), 1 << (x.frac + y.frac))
            exp = int(x.exp[i] + y.exp[i])
            if rule.scale:
                exp += scales[i // rule.block][1]
            terms.append((sig, exp))
    largest = max(exp for _, exp in terms) if rule.grouped else max([LEAST, *(exp for sig, exp in terms if sig)])
    unit = Fraction(2) ** (largest - rule.bits)
    total = unit * sum(trunc(sig * Fraction(2) ** exp / unit) for sig, exp in terms)
    return pack_f16(total) if rule.d == "f16" else pack_f32(total, rule.keep)


def _aligned(sig: np.ndarray, left: np.ndarray) -> np.ndarray:
    """sig * 2^left, truncated toward zero."""
    mag = np.abs(sig) << np.maximum(left, 0)
    mag >>= np.minimum(np.maximum(-left, 0), 63)
    return np.sign(sig) * mag


def _pack(total: np.ndarray, unit: np.ndarray, rule: Rule) -> np.ndarray:
    """total * 2^unit in the result's format."""
    half = rule.d == "f16"
    fbits, emin, keep = (10, -14, 10) if half else (23, -126, rule.keep)
    mag = np.abs(total)
    length = np.zeros_like(mag)  # bit length, exactly
    rest = mag.copy()
    for step in (32, 16, 8, 4, 2, 1):
        more = rest >= 1 << step
        length += more * step
        rest = np.where(more, rest >> step, rest)
    exp = np.maximum(length + unit, emin)
    drop = exp - keep - unit
    down = np.minimum(np.maximum(drop, 0), 63)
    kept = mag >> down
    if half:
        lost, tie = mag - (kept << down), np.where(down > 0, 1 << np.maximum(down - 1, 0), 1 << 62)
        kept += (lost > tie) | ((lost == tie) & (kept & 1 == 1))
    kept = np.where(drop < 0, mag << np.minimum(np.maximum(-drop, 0), 40), kept)
    code = ((exp - emin) << fbits) + (kept << (fbits - keep))
    code = np.minimum(code, 0x7C00 if half else 0x7F800000)
    code = np.where(total < 0, code | (0x8000 if half else 0x80000000), code)
    return np.where(kept == 0, 0, code).astype(np.uint32)


def vectors(
    rule: Rule,
    a: np.ndarray,
    b: np.ndarray,
    c: np.ndarray,
    sfa: np.ndarray | None = None,
    sfb: np.ndarray | None = None,
) -> np.ndarray:
    """A . B^T + C: a is [M, K] codes, b [N, K], c [M, N] words, sfa [M, S], sfb [N, S]."""
    x, y, acc = decode(rule.a, a), decode(rule.b, b), decode(rule.d, c)
    m, n, k = a.shape[0], b.shape[0], a.shape[1]
    sig, exp, frac = [acc.sig], [acc.exp], [acc.frac]
    nan = acc.kind == 2
    scale_sig = scale_exp = None
    if rule.scale:
        s, t = decode(rule.scale, sfa), decode(rule.scale, sfb)
        nan = nan | (s.kind == 2).any(1)[:, None] | (t.kind == 2).any(1)[None, :]
        scale_sig = [np.outer(s.sig[:, i], t.sig[:, i]) for i in range(k // rule.block)]
        scale_exp = [s.exp[:, i][:, None] + t.exp[:, i][None, :] for i in range(k // rule.block)]
    if rule.grouped:
        ax, bx = (np.where(q.sig == 0, 0, q.sig << np.maximum(q.exp, 0)).astype(np.float64) for q in (x, y))
        for g in range(k // 16):
            cut = slice(16 * g, 16 * g + 16)
            quarters = (ax[:, cut] @ bx[:, cut].T).astype(np.int64)  # small integers: exact
            at = 16 * g // rule.block
            sig.append(quarters * scale_sig[at])
            exp.append(scale_exp[at])
            frac.append(2 + s.frac + t.frac)
        plus = minus = np.zeros((m, n), bool)
    else:
        sign_x, sign_y = np.sign(x.sig), np.sign(y.sig)
        plus, minus = np.zeros((m, n), bool), np.zeros((m, n), bool)
        odd = x.kind.any() or y.kind.any()
        for i in range(k):
            sig.append(np.outer(x.sig[:, i], y.sig[:, i]))
            e = x.exp[:, i][:, None] + y.exp[:, i][None, :]
            exp.append(e + scale_exp[i // rule.block] if rule.scale else e)
            frac.append(x.frac + y.frac)
            if odd:
                nan = nan | (x.kind[:, i] == 2)[:, None] | (y.kind[:, i] == 2)[None, :]
                infinite = (x.kind[:, i] == 1)[:, None] | (y.kind[:, i] == 1)[None, :]
                sign = np.outer(sign_x[:, i], sign_y[:, i])
                nan = nan | (infinite & (sign == 0))
                plus, minus = plus | (infinite & (sign > 0)), minus | (infinite & (sign < 0))
    plus, minus = plus | ((acc.kind == 1) & (acc.sig > 0)), minus | ((acc.kind == 1) & (acc.sig < 0))
    largest = exp[0] if rule.grouped else np.full((m, n), LEAST)
    for s1, e in zip(sig, exp, strict=True):
        largest = np.maximum(largest, e if rule.grouped else np.where(s1 == 0, NOTHING, e))
    total = np.zeros((m, n), np.int64)
    for s1, e1, f1 in zip(sig, exp, frac, strict=True):
        total += _aligned(s1, rule.bits - f1 + e1 - largest)
    out = _pack(total, largest - rule.bits, rule)
    half = rule.d == "f16"
    out = np.where(plus, 0x7C00 if half else 0x7F800000, out)
    out = np.where(minus, 0xFC00 if half else 0xFF800000, out)
    return np.where(nan | (plus & minus), NAN16 if half else NAN32, out).astype(np.uint32)


@cache
def codes_of(fmt: str) -> int:
    """Number of codes of a format of at most 16 bits."""
    return 256 if fmt in ("ue8m0", "ue4m3") else 1 << (1 + LAYOUTS[fmt][0] + LAYOUTS[fmt][1])
