"""IEEE arithmetic on bit patterns by exact fractions: any format, any rounding, as PTX defines the results."""

from __future__ import annotations

import math
from dataclasses import dataclass
from fractions import Fraction
from functools import cache


@dataclass(frozen=True)
class Format:
    bits: int  # width of the pattern
    precision: int  # with the hidden bit
    least: int  # exponent of the smallest normal number
    nan: int  # the NaN that arithmetic returns

    @property
    def top(self) -> int:
        return 1 << (self.bits - 1)

    @property
    def infinity(self) -> int:
        return ((1 << (self.bits - self.precision)) - 1) << (self.precision - 1)


F16 = Format(16, 11, -14, 0x7FFF)
BF16 = Format(16, 8, -126, 0x7FFF)
F32 = Format(32, 24, -126, 0x7FFFFFFF)
F64 = Format(64, 53, -1022, 0x7FF8000000000000)
TF32 = Format(19, 11, -126, 0x3FFFF)  # the high bits of an f32
FORMATS = {"f16": F16, "bf16": BF16, "f32": F32, "f64": F64}


def is_nan(form: Format, bits: int) -> bool:
    return bits & (form.top - 1) > form.infinity


def is_infinite(form: Format, bits: int) -> bool:
    return bits & (form.top - 1) == form.infinity


def sign(form: Format, bits: int) -> int:
    return 1 if bits & form.top else 0


@cache
def value(form: Format, bits: int) -> Fraction:
    """The value of a finite number."""
    field = form.precision - 1
    magnitude, exponent = bits & ((1 << field) - 1), (bits & (form.top - 1)) >> field
    magnitude |= (1 << field) if exponent else 0
    exact = Fraction(magnitude) * Fraction(2) ** (max(exponent, 1) - 1 + form.least - field)
    return -exact if bits & form.top else exact


def rounded(form: Format, exact: Fraction, rounding: str = "rn", zero_sign: int = 0) -> int:
    """The pattern of a fraction; rounding: rn, rz, rm, rp, or rna (ties away from zero)."""
    if exact == 0:
        return zero_sign * form.top
    negative = exact < 0
    magnitude = abs(exact)
    exponent = magnitude.numerator.bit_length() - magnitude.denominator.bit_length()
    if Fraction(2) ** exponent > magnitude:
        exponent -= 1
    exponent = max(exponent, form.least)
    scaled = magnitude / Fraction(2) ** (exponent - form.precision + 1)
    whole, rest = math.floor(scaled), scaled - math.floor(scaled)
    half = Fraction(1, 2)
    up = {
        "rn": rest > half or (rest == half and whole & 1),
        "rna": rest >= half,
        "rz": False,
        "rm": negative and rest > 0,
        "rp": not negative and rest > 0,
    }[rounding]
    whole += 1 if up else 0
    pattern = whole + ((exponent - form.least) << (form.precision - 1))  # a carry moves into the exponent
    if pattern >= form.infinity:
        stays = rounding == "rz" or rounding == ("rp" if negative else "rm")
        pattern = form.infinity - 1 if stays else form.infinity
    return pattern | (form.top if negative else 0)


def flushed(form: Format, bits: int) -> int:
    """Replaces a subnormal by zero of the same sign."""
    return bits & form.top if bits & (form.top - 1) < 1 << (form.precision - 1) else bits


def add(form: Format, a: int, b: int, rounding: str = "rn") -> int:
    if is_nan(form, a) or is_nan(form, b):
        return form.nan
    if is_infinite(form, a) or is_infinite(form, b):
        if is_infinite(form, a) and is_infinite(form, b) and a != b:
            return form.nan
        return a if is_infinite(form, a) else b
    total = value(form, a) + value(form, b)
    same = sign(form, a) == sign(form, b)
    return rounded(form, total, rounding, sign(form, a) if same and total == 0 else int(rounding == "rm"))


def negated(form: Format, a: int) -> int:
    return a ^ form.top


def sub(form: Format, a: int, b: int, rounding: str = "rn") -> int:
    return add(form, a, b if is_nan(form, b) else negated(form, b), rounding)


def mul(form: Format, a: int, b: int, rounding: str = "rn") -> int:
    if is_nan(form, a) or is_nan(form, b):
        return form.nan
    negative = sign(form, a) ^ sign(form, b)
    if is_infinite(form, a) or is_infinite(form, b):
        zero = not a & (form.top - 1) or not b & (form.top - 1)
        return form.nan if zero else form.infinity | negative * form.top
    return rounded(form, value(form, a) * value(form, b), rounding, negative)


def div(form: Format, a: int, b: int, rounding: str = "rn") -> int:
    if is_nan(form, a) or is_nan(form, b):
        return form.nan
    negative = (sign(form, a) ^ sign(form, b)) * form.top
    a_infinite, b_infinite = is_infinite(form, a), is_infinite(form, b)
    a_zero, b_zero = not a & (form.top - 1), not b & (form.top - 1)
    if (a_infinite and b_infinite) or (a_zero and b_zero):
        return form.nan
    if a_infinite or b_zero:
        return form.infinity | negative
    if b_infinite or a_zero:
        return negative
    return rounded(form, value(form, a) / value(form, b), rounding)


def fma(form: Format, a: int, b: int, c: int, rounding: str = "rn") -> int:
    if is_nan(form, a) or is_nan(form, b) or is_nan(form, c):
        return form.nan
    negative = sign(form, a) ^ sign(form, b)
    if is_infinite(form, a) or is_infinite(form, b):
        if not a & (form.top - 1) or not b & (form.top - 1):
            return form.nan
        product = form.infinity | negative * form.top
        return form.nan if is_infinite(form, c) and c != product else product
    if is_infinite(form, c):
        return c
    product = value(form, a) * value(form, b)
    total = product + value(form, c)
    if product == 0 and value(form, c) == 0:
        return (negative if negative == sign(form, c) else int(rounding == "rm")) * form.top
    return rounded(form, total, rounding, int(rounding == "rm"))


def sqrt(form: Format, a: int, rounding: str = "rn") -> int:
    if is_nan(form, a) or (a & form.top and a & (form.top - 1)):
        return form.nan
    if is_infinite(form, a) or not a & (form.top - 1):
        return a
    exact = value(form, a)
    scale = 2 * (form.precision + 8) + 2 * abs(form.least) + 200  # even
    root = math.isqrt(int(exact * Fraction(2) ** scale))
    sticky = 0 if root * root == exact * Fraction(2) ** scale else Fraction(1, 2)
    return rounded(form, (root + sticky) / Fraction(2) ** (scale // 2), rounding)


def saturated(form: Format, a: int) -> int:
    """.sat: clamps to [0, 1]; a NaN becomes +0."""
    if is_nan(form, a) or a & form.top:
        return 0
    one = (1 - form.least) << (form.precision - 1)
    return min(a, one)


def relu(form: Format, a: int) -> int:
    return a if is_nan(form, a) else 0 if a & form.top else a


def extreme(form: Format, a: int, b: int, largest: bool, nan: bool = False) -> int:
    """min and max: a NaN is ignored unless .NaN is given; -0 is below +0."""
    if is_nan(form, a) or is_nan(form, b):
        if nan or (is_nan(form, a) and is_nan(form, b)):
            return form.nan
        return b if is_nan(form, a) else a
    key = lambda x: -(x & (form.top - 1)) if x & form.top else x + 1  # noqa: E731
    return (max if largest else min)(a, b, key=key)


def convert(source: Format, target: Format, a: int, rounding: str = "rn") -> int:
    if is_nan(source, a):
        return target.nan
    if is_infinite(source, a):
        return target.infinity | sign(source, a) * target.top
    return rounded(target, value(source, a), rounding, sign(source, a))


def to_integer(exact: Fraction, rounding: str) -> int:
    return {"rni": round, "rzi": math.trunc, "rmi": math.floor, "rpi": math.ceil}[rounding](exact)


ORDERED = {
    "eq": lambda x, y: x == y,
    "ne": lambda x, y: x != y,
    "lt": lambda x, y: x < y,
    "le": lambda x, y: x <= y,
    "gt": lambda x, y: x > y,
    "ge": lambda x, y: x >= y,
}


def compare(form: Format, name: str, a: int, b: int) -> bool:
    """setp's comparisons: ordered (false with a NaN), unordered (...u, true with a NaN), num and nan."""
    unordered = is_nan(form, a) or is_nan(form, b)
    if name in ("num", "nan"):
        return unordered == (name == "nan")
    if unordered:
        return len(name) == 3
    key = [math.inf if is_infinite(form, x) else value(form, x) for x in (a, b)]
    key = [-k if is_infinite(form, x) and x & form.top else k for k, x in zip(key, (a, b), strict=True)]
    return ORDERED[name[:2]](*key)


def edges(form: Format) -> list[int]:
    """Zeros, subnormals, the ends of the normal range, halves, infinities and NaN, of both signs."""
    one = (1 - form.least) << (form.precision - 1)
    field = 1 << (form.precision - 1)
    some = [0, 1, field - 1, field, field + 1, one - 1, one, one + 1, one + field // 2, one + field, form.infinity - 1]
    some += [form.infinity, one - field, rounded(form, Fraction(7, 3)), form.infinity | field >> 1]
    return some + [x | form.top for x in some[:-1]]
