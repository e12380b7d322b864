"""cvt.rs bit for bit: whether the dropped fraction and the random bits carry, restated in Fractions."""

from __future__ import annotations

import math
from dataclasses import replace
from fractions import Fraction

import numpy as np
import pytest

from simulator.tests.isa.values import float_oracle as ieee
from simulator.tests.isa.values.float_oracle import BF16, F16, F32, Format
from simulator.tests.isa.values.test_conversion_values import LARGEST, NARROW
from simulator.tests.isa.values.value_table import check
from simulator.tests.sim_kit import PtxError, Sim, body

SM100 = "sm_100a"
HALVES = {"f16": F16, "bf16": BF16}
FORMATS = {**HALVES, **NARROW}


def random_bits(name: str, rbits: int) -> list[str]:
    """Random bits of each source, in order. PTX ISA: 13 or 16 bits of a half each; pairs of narrow formats share a
    half, of which the first takes the mirror image (measured on a B200); e2m1's take a byte each."""
    text = f"{rbits:032b}"
    high, low = text[:16], text[16:]
    if name == "f16":
        return [high[3:], low[3:]]
    if name == "bf16":
        return [high, low]
    if name == "e2m1":
        return [high[:8], low[:8], high[8:], low[8:]]
    return [high[::-1], high, low[::-1], low]


def stochastic(name: str, x: int, random: str, relu: bool, finite: bool) -> int:
    form: Format = FORMATS[name]
    top, infinity = (LARGEST[name], LARGEST[name]) if name in NARROW else (form.infinity - 1, form.infinity)
    if ieee.is_nan(F32, x):
        return form.nan
    sign = form.top if x & F32.top else 0
    if relu and sign:
        return 0
    if ieee.is_infinite(F32, x):
        return sign | (top if finite else infinity)
    magnitude = abs(ieee.value(F32, x))
    wide = replace(form, bits=32)  # an exponent field that has room
    below = ieee.rounded(wide, magnitude, "rz")
    low, high = ieee.value(wide, below), ieee.value(wide, below + 1)
    share = (magnitude - low) / (high - low)
    up = math.floor(share * 2 ** len(random)) + int(random, 2) >= 2 ** len(random)
    code = below + up
    return sign | (code if code <= top else top if finite else infinity)


def numbers(name: str) -> list[int]:
    """Every code of a narrow format, or some of a wide one, and 1/4, 1/2 and almost all of the way to the next."""
    form = FORMATS[name]
    wide = replace(form, bits=32)
    top, step = (LARGEST[name], 7) if name in NARROW else (form.infinity - 1, 4099)
    codes = sorted({*range(12), *range(12, top, step), *range(top - 3, top + 2)} & set(range(top + 2)))
    out = [*ieee.edges(F32), 0x7F800001, 0xFFFFFFFF, *(ieee.rounded(F32, Fraction(1, 1 << e)) for e in range(8, 60, 3))]
    for code in codes:
        low, high = ieee.value(wide, code), ieee.value(wide, code + 1)
        for share in (Fraction(0), Fraction(1, 4), Fraction(1, 2), Fraction(255, 256), 1 - Fraction(1, 1 << 12)):
            out.append(ieee.rounded(F32, low + (high - low) * share) | (F32.top if code % 2 else 0))
    return out


def inputs(name: str) -> dict[str, np.ndarray]:
    """Each number in each source; random bits all zero, all one, one bit set, and random."""
    rng = np.random.default_rng(20271)
    x = np.array(numbers(name), np.uint32)
    rbits = rng.integers(0, 1 << 32, len(x), np.uint32)
    rbits[::5], rbits[1::5] = 0xFFFFFFFF, np.uint32(1) << rng.integers(0, 32, len(rbits[1::5])).astype(np.uint32)
    rbits[2::15] = 0
    return {"a": x, "b": np.roll(x, 7), "c": np.roll(x, 19), "e": np.roll(x, 31), "r": rbits}


@pytest.mark.parametrize("name", HALVES)
def test_pairs_round_up_with_the_carry(name):
    table = {}
    for relu, finite in ((False, False), (True, False), (False, True), (True, True)):
        text = f"cvt.rs{'.relu' * relu}{'.satfinite' * finite}.{name}x2.f32 {{d}}, {{a}}, {{b}}, {{r}};"

        def oracle(a, b, _c, _e, r, relu=relu, finite=finite):
            first, second = random_bits(name, r)
            return stochastic(name, a, first, relu, finite) << 16 | stochastic(name, b, second, relu, finite)

        table[text] = (32, oracle)
    check(table, inputs(name), SM100)


def four(name: str, values: list[int], rbits: int, relu: bool) -> int:
    result = 0
    for x, random in zip(values, random_bits(name, rbits), strict=True):
        result = result << (4 if name == "e2m1" else 8) | stochastic(name, x, random, relu, True)
    return result


@pytest.mark.parametrize("name", [name for name in NARROW if name != "e2m1"])
def test_fours_round_up_with_the_carry(name):
    table = {}
    for relu in (False, True):
        text = f"cvt.rs{'.relu' * relu}.satfinite.{name}x4.f32 {{d}}, {{{{{{a}}, {{b}}, {{c}}, {{e}}}}}}, {{r}};"
        table[text] = (32, lambda a, b, c, e, r, relu=relu: four(name, [a, b, c, e], r, relu))
    check(table, inputs(name), SM100)


def test_fours_of_e2m1_say_which_bytes_they_took():
    arrays = [np.resize(column, 128) for column in inputs("e2m1").values()]
    loads = [
        f"ld.param.u64 %rd1, [in{i}]; add.u64 %rd1, %rd1, %rd9; ld.global.u32 %r{10 + i}, [%rd1];" for i in range(5)
    ]
    sim = Sim(
        body(
            "mov.u32 %r1, %tid.x; mul.wide.u32 %rd9, %r1, 4;",
            *loads,
            "cvt.rs.satfinite.e2m1x4.f32 %rs1, {%r10, %r11, %r12, %r13}, %r14; cvt.u32.u16 %r2, %rs1;",
            "ld.param.u64 %rd1, [out]; add.u64 %rd1, %rd1, %rd9; st.global.u32 [%rd1], %r2;",
            params=".param .u64 out" + "".join(f", .param .u64 in{i}" for i in range(5)),
        ).replace("sm_90a", SM100)
    )
    out = sim.buffer(np.zeros(128, np.uint32))
    assert sim.launch("k", out, *(sim.buffer(array) for array in arrays), block=128) == 0, sim.findings
    assert sim.kinds == {"cvt-random-bits"} and sim.verdict == "review"
    for row, *values, rbits in zip(out, *arrays, strict=True):
        assert int(row) == four("e2m1", [int(v) for v in values], int(rbits), False)


@pytest.mark.parametrize(
    ("chip", "statement"),
    [
        ("sm_100f", "cvt.rs.f16x2.f32 %r1, %f1, %f2, %r2;"),
        ("sm_120a", "cvt.rs.f16x2.f32 %r1, %f1, %f2, %r2;"),
        (SM100, "cvt.rs.f16x2.f32 %r1, %f1, %f2;"),
        (SM100, "cvt.rs.f16.f32 %rs1, %f1, %r2;"),
        (SM100, "cvt.rs.e4m3x4.f32 %r1, {%f1, %f2, %f3, %f4}, %r2;"),
        (SM100, "cvt.rs.satfinite.e4m3x4.f32 %r1, {%f1, %f2, %f3}, %r2;"),
        (SM100, "cvt.rs.satfinite.e4m3x4.f32 %r1, {%f1, %f2, %f3, %f4}, 5;"),
        (SM100, "cvt.rs.satfinite.ue8m0x2.f32 %rs1, %f1, %f2, %r2;"),
    ],
)
def test_forms_that_ptxas_refuses_are_refused(chip, statement):
    with pytest.raises(PtxError):
        Sim(body(statement).replace("sm_90a", chip))
