"""The fused sums, bit for bit against the published rule restated in fused_sum.py."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.python.tensorcore import ISAS, force_isa, mma
from simulator.python.tensorcore import rule as c_rule
from simulator.validation.fused_sum import Rule, exact, vectors

M, N = 256, 128  # 32768 elements per round

WIDE = [
    # label, C rule, restated rule, rounds
    ("wgmma f16", c_rule("wgmma", "f16", "f16"), Rule("f16", "f16"), 8),
    ("wgmma f16 to f16", c_rule("wgmma", "f16", "f16", "f16"), Rule("f16", "f16", "f16", keep=10), 8),
    ("wgmma bf16", c_rule("wgmma", "bf16", "bf16"), Rule("bf16", "bf16"), 4),
    ("wgmma tf32", c_rule("wgmma", "tf32", "tf32"), Rule("tf32", "tf32"), 3),
    ("wgmma e4m3 e5m2", c_rule("wgmma", "e4m3", "e5m2"), Rule("e4m3", "e5m2", bits=13, keep=13), 3),
    ("wgmma e5m2 to f16", c_rule("wgmma", "e5m2", "e4m3", "f16"), Rule("e5m2", "e4m3", "f16", 13, 10), 1),
    ("mma.sync f16 k8", c_rule("mma_sync", "f16", "f16", k=8), Rule("f16", "f16"), 1),
    ("mma.sync bf16", c_rule("mma_sync", "bf16", "bf16", k=16), Rule("bf16", "bf16"), 1),
    ("tcgen05 f16", c_rule("tcgen05", "f16", "f16"), Rule("f16", "f16"), 1),
    ("tcgen05 bf16", c_rule("tcgen05", "bf16", "bf16"), Rule("bf16", "bf16"), 1),
    ("tcgen05 tf32", c_rule("tcgen05", "tf32", "tf32"), Rule("tf32", "tf32"), 1),
    ("tcgen05 e4m3", c_rule("tcgen05", "e4m3", "e4m3"), Rule("e4m3", "e4m3"), 1),
    ("tcgen05 e2m1 e3m2", c_rule("tcgen05", "e2m1", "e3m2"), Rule("e2m1", "e3m2"), 1),
    ("tcgen05 e2m3 e5m2", c_rule("tcgen05", "e2m3", "e5m2"), Rule("e2m3", "e5m2"), 1),
    ("mxf8f6f4 e4m3", c_rule("mxf8f6f4", "e4m3", "e4m3"), Rule("e4m3", "e4m3", scale="ue8m0", block=32), 2),
    ("mxf8f6f4 e2m1 e5m2", c_rule("mxf8f6f4", "e2m1", "e5m2"), Rule("e2m1", "e5m2", scale="ue8m0", block=32), 1),
]
FP4 = [
    ("mxf4nvf4 4X ue4m3", c_rule("mxf4", scale="ue4m3", scale_block=16), "ue4m3", 16, 12),
    ("mxf4nvf4 4X ue8m0", c_rule("mxf4", scale="ue8m0", scale_block=16), "ue8m0", 16, 2),
    ("mxf4 2X", c_rule("mxf4", scale="ue8m0", scale_block=32), "ue8m0", 32, 2),
]

BYTES = {"f16": 2, "bf16": 2, "tf32": 4}
K = {"f16": 16, "bf16": 16, "tf32": 8}


def test_the_portable_path_always_exists_and_unknown_ones_never():
    try:
        assert force_isa("portable") is True
        assert force_isa("avx3") is False
    finally:
        fastest = next(name for name in reversed(ISAS) if force_isa(name))
        assert force_isa(fastest)


@pytest.fixture(params=ISAS)
def isa(request):
    if not force_isa(request.param):
        pytest.skip(f"no {request.param} here")
    yield request.param
    for name in reversed(ISAS):
        if force_isa(name):
            break


def operand(rng, fmt, rows, k, style):
    """Random codes of rows x k; all styles except `any` are finite."""
    if fmt == "tf32":
        x = rng.integers(0, 1 << 32, (rows, k))
        if style != "any":
            exponents = rng.integers(100, 150, (rows, k)) if style == "spread" else rng.integers(125, 130, (rows, k))
            x = (x & 0x807FFFFF) | exponents << 23
    else:
        bits = 8 * BYTES.get(fmt, 1) if fmt in BYTES else {"e2m1": 4, "e2m3": 6, "e3m2": 6}.get(fmt, 8)
        x = rng.integers(0, 1 << bits, (rows, k))
        if style != "any":
            low, high, shift, field = {
                "f16": (0, 31, 10, 0x83FF),
                "bf16": (90, 160, 7, 0x807F),
                "e4m3": (0, 15, 3, 0x87),
                "e5m2": (0, 31, 2, 0x83),
            }.get(fmt, (0, 1, 0, -1))
            if field != -1:
                near = (low + high) // 2
                e = rng.integers(low, high, (rows, k)) if style == "spread" else rng.integers(near, near + 3, (rows, k))
                x = (x & field) | e << shift
    if style == "sparse":
        x = np.where(rng.random((rows, k)) < 0.6, 0, x)
    if style == "subnormal" and fmt in ("f16", "bf16", "e5m2", "e4m3"):
        x &= {"f16": 0x83FF, "bf16": 0x807F, "e5m2": 0x83, "e4m3": 0x87}[fmt]
    return x


def accumulator(rng, style, shape, d):
    if style == "zero":
        return rng.choice(np.array([0, 0x8000 if d == "f16" else 0x80000000], np.uint32), shape)
    if d == "f16":
        return rng.integers(0, 1 << 16, shape, dtype=np.uint32) & (0xFFFF if style == "any" else 0xBFFF)
    x = rng.integers(0, 1 << 32, shape, dtype=np.uint32)
    if style == "any":
        return x
    low, high = {"near": (115, 135), "huge": (150, 255), "tiny": (0, 60), "mixed": (60, 200)}[style]
    return (x & np.uint32(0x807FFFFF)) | rng.integers(low, high, shape, dtype=np.uint32) << np.uint32(23)


def as_bytes(codes, fmt):
    kind = {1: np.uint8, 2: np.uint16, 4: np.uint32}[BYTES.get(fmt, 1)]
    return np.ascontiguousarray(codes.astype(kind)).view(np.uint8)


def pack_fp4(codes):
    return np.ascontiguousarray((codes[:, 0::2] | codes[:, 1::2] << 4).astype(np.uint8))


def explain(got, want, seed, label):
    bad = np.argwhere(got != want)
    if not len(bad):
        return
    i, j = bad[0]
    pytest.fail(
        f"{label}, seed {seed}: {len(bad)} of {got.size} elements differ; the first at [{i}, {j}]: "
        f"got {got[i, j]:#010x}, want {want[i, j]:#010x}"
    )


STYLES = [
    ("near", "near"),
    ("spread", "mixed"),
    ("any", "any"),
    ("sparse", "tiny"),
    ("near", "huge"),
    ("subnormal", "tiny"),
    ("spread", "zero"),
    ("any", "near"),
]


def wide_case(seed, restated, k):
    rng = np.random.default_rng(seed)
    style, c_style = STYLES[seed % len(STYLES)]
    a, b = operand(rng, restated.a, M, k, style), operand(rng, restated.b, N, k, style)
    c = accumulator(rng, c_style, (M, N), restated.d)
    if style == "any" and restated.a != "tf32":  # most rows finite, so that NaN does not hide the rest
        for codes, fmt in ((a, restated.a), (b, restated.b)):
            if fmt in ("f16", "bf16", "e4m3", "e5m2"):
                tame = rng.random(len(codes)) < 0.9
                codes[tame] = operand(rng, fmt, int(tame.sum()), k, "spread")
    sfa = sfb = None
    if restated.scale:
        sfa = rng.integers(0, 256 if style == "any" else 255, (M, k // restated.block)).astype(np.uint8)
        sfb = rng.integers(0, 256 if style == "any" else 255, (N, k // restated.block)).astype(np.uint8)
        if style in ("near", "spread"):
            sfa, sfb = (sfa % 24 + 115).astype(np.uint8), (sfb % 24 + 115).astype(np.uint8)
    return a, b, c, sfa, sfb


@pytest.fixture(scope="module")
def wide_references():
    return {}


@pytest.mark.parametrize("case", WIDE, ids=lambda case: case[0])
def test_products_add_as_published(case, isa, wide_references):
    label, in_c, restated, rounds = case
    k = 8 if "k8" in label else K.get(restated.a, 32)
    for seed in range(rounds if rounds > 1 else 2):
        a, b, c, sfa, sfb = wide_case(seed, restated, k)
        key = (label, seed)
        if key not in wide_references:
            wide_references[key] = vectors(restated, a, b, c, sfa, sfb)
        got = mma(in_c, as_bytes(a, restated.a), as_bytes(b, restated.b), c, sfa, sfb)
        explain(got, wide_references[key], seed, label)


def fp4_case(seed, scale, block):
    rng = np.random.default_rng(seed)
    a, b = rng.integers(0, 16, (M, 64)), rng.integers(0, 16, (N, 64))
    c = accumulator(rng, ("zero", "near", "huge", "tiny", "mixed", "any")[seed % 6], (M, N), "f32")
    shape = 64 // block
    if scale == "ue4m3":
        # Subnormal, small enough for the fast path, all finite, every byte.
        high = (8, 0x60, 0x7F, 0x100)[seed % 4]
        sfa, sfb = rng.integers(0, high, (M, shape)), rng.integers(0, high, (N, shape))
        if high == 0x100:  # some NaN, and signs, which must be ignored
            sfa, sfb = (np.where((s & 0x7F == 0x7F) & (rng.random(s.shape) < 0.9), 0x38, s) for s in (sfa, sfb))
    else:
        low, high = ((100, 150), (0, 255), (0, 256))[seed % 3]
        sfa, sfb = rng.integers(low, high, (M, shape)), rng.integers(low, high, (N, shape))
    return a, b, c, sfa.astype(np.uint8), sfb.astype(np.uint8)


@pytest.mark.parametrize("case", FP4, ids=lambda case: case[0])
def test_groups_add_as_published(case, isa, wide_references):
    label, in_c, scale, block, rounds = case
    restated = Rule("e2m1", "e2m1", bits=35, scale=scale, block=block, grouped=True)
    for seed in range(rounds):
        a, b, c, sfa, sfb = fp4_case(seed, scale, block)
        key = (label, seed)
        if key not in wide_references:
            wide_references[key] = vectors(restated, a, b, c, sfa, sfb)
        got = mma(in_c, pack_fp4(a), pack_fp4(b), c, sfa, sfb)
        explain(got, wide_references[key], seed, label)


def test_a_chain_of_instructions_that_cancels(isa):
    """Each step accumulates onto the last result; then the same products with A negated cancel it."""
    rng = np.random.default_rng(5)
    restated = Rule("e2m1", "e2m1", bits=35, scale="ue4m3", block=16, grouped=True)
    in_c, back = (c_rule("mxf4", scale="ue4m3", scale_block=16, negate_a=x) for x in (0, 1))
    want = got = np.zeros((M, N), np.uint32)
    steps = []
    for _ in range(4):
        a, b = rng.integers(0, 16, (M, 64)), rng.integers(0, 16, (N, 64))
        sfa, sfb = (rng.integers(0, 0x7F, (rows, 4)).astype(np.uint8) for rows in (M, N))
        steps.append((a, b, sfa, sfb))
        want = vectors(restated, a, b, want, sfa, sfb)
        got = mma(in_c, pack_fp4(a), pack_fp4(b), got, sfa, sfb)
        explain(got, want, 5, "forward")
    for a, b, sfa, sfb in reversed(steps):
        want = vectors(restated, a ^ 8, b, want, sfa, sfb)
        got = mma(back, pack_fp4(a), pack_fp4(b), got, sfa, sfb)
        explain(got, want, 5, "back")


@pytest.mark.parametrize("case", WIDE, ids=lambda case: case[0])
def test_the_rule_in_integers_equals_the_rule_in_fractions(case):
    _, in_c, restated, _ = case
    k = 8 if "k8" in case[0] else K.get(restated.a, 32)
    for seed in range(8):
        a, b, c, sfa, sfb = wide_case(seed, restated, k)
        a, b, c = a[:6], b[:5], c[:6, :5]
        sfa, sfb = (sfa[:6], sfb[:5]) if restated.scale else (None, None)
        want = vectors(restated, a, b, c, sfa, sfb)
        sf = lambda s, i: s[i] if restated.scale else ()  # noqa: E731
        for i in range(6):
            for j in range(5):
                one = exact(restated, a[i], b[j], int(c[i, j]), sf(sfa, i), sf(sfb, j))
                assert one == want[i, j], (seed, i, j)
        got = mma(in_c, as_bytes(a, restated.a), as_bytes(b, restated.b), c, sfa, sfb, generic=True)
        explain(got, want, seed, "element by element")


@pytest.mark.parametrize("case", FP4, ids=lambda case: case[0])
def test_the_grouped_rule_in_integers_equals_the_rule_in_fractions(case):
    _, in_c, scale, block, _ = case
    restated = Rule("e2m1", "e2m1", bits=35, scale=scale, block=block, grouped=True)
    for seed in range(12):
        a, b, c, sfa, sfb = fp4_case(seed, scale, block)
        a, b, c, sfa, sfb = a[:4], b[:5], c[:4, :5], sfa[:4], sfb[:5]
        want = vectors(restated, a, b, c, sfa, sfb)
        for i in range(4):
            for j in range(5):
                assert exact(restated, a[i], b[j], int(c[i, j]), sfa[i], sfb[j]) == want[i, j], (seed, i, j)
        got = mma(in_c, pack_fp4(a), pack_fp4(b), c, np.ascontiguousarray(sfa), np.ascontiguousarray(sfb), generic=True)
        explain(got, want, seed, "element by element")


@pytest.mark.parametrize("columns", [1, 7, 8, 15, 17, 40])
def test_tiles_of_any_width(columns, isa):
    rng = np.random.default_rng(columns)
    a, b = rng.integers(0, 16, (5, 64)), rng.integers(0, 16, (columns, 64))
    sfa, sfb = (rng.integers(0, 0x7F, (rows, 4)).astype(np.uint8) for rows in (5, columns))
    c = accumulator(rng, "near", (5, columns), "f32")
    restated = Rule("e2m1", "e2m1", bits=35, scale="ue4m3", block=16, grouped=True)
    got = mma(c_rule("mxf4", scale="ue4m3", scale_block=16), pack_fp4(a), pack_fp4(b), c, sfa, sfb)
    explain(got, vectors(restated, a, b, c, sfa, sfb), columns, "fp4")
    f, g = operand(rng, "f16", 5, 16, "spread"), operand(rng, "f16", columns, 16, "spread")
    got = mma(c_rule("wgmma", "f16", "f16"), as_bytes(f, "f16"), as_bytes(g, "f16"), c)
    explain(got, vectors(Rule("f16", "f16"), f, g, c), columns, "f16")


def test_without_accumulation_d_is_not_read(isa):
    rng = np.random.default_rng(3)
    a, b = operand(rng, "f16", 4, 16, "near"), operand(rng, "f16", 9, 16, "near")
    trap = np.full((4, 9), 0x7FC00001, np.uint32)
    got = mma(c_rule("wgmma", "f16", "f16"), as_bytes(a, "f16"), as_bytes(b, "f16"), trap, accumulate=False)
    explain(got, vectors(Rule("f16", "f16"), a, b, np.zeros((4, 9), np.uint32)), 3, "overwrite")


@pytest.mark.parametrize("fmt", ["f16", "bf16", "e4m3"])
def test_products_that_are_all_zero_leave_the_accumulator(isa, fmt):
    """Large numbers times zeros, where the shift of a product would exceed the vectors' range."""
    r = c_rule("wgmma", fmt, fmt)
    k = K.get(fmt, 32)
    large = {"f16": 0x7BFF, "bf16": 0x7F7F, "e4m3": 0x7E}[fmt]
    a, b = np.zeros((4, k), np.int64), np.zeros((8, k), np.int64)
    a[1:, ::2], b[1:, 1::2] = large, large  # A and B are never both nonzero at the same k
    c = np.array([0, 0x80000000, 1, 0x807FFFFF, 0x00800000, 0x3F800001, 0x7F7FFFFF, 0xFF800000], np.uint32)
    d = np.tile(c, (4, 1))
    got = mma(r, as_bytes(a, fmt), as_bytes(b, fmt), d)
    np.testing.assert_array_equal(got, mma(r, as_bytes(a, fmt), as_bytes(b, fmt), d, generic=True))
    assert (got[:, [0, 1]] == 0).all()
    if fmt != "e4m3":  # fp8 results keep 13 bits
        assert (got[:, 5] == c[5]).all()


def test_integers_wrap_or_saturate():
    rng = np.random.default_rng(9)
    a = rng.integers(0, 256, (8, 32)).astype(np.uint8)
    b = rng.integers(0, 256, (6, 32)).astype(np.uint8)
    c = rng.choice(np.array([0, 2**31 - 5, 2**31, 12345], np.uint32), (8, 6))
    total = c.astype(np.int32).astype(np.int64) + a.view(np.int8).astype(np.int64) @ b.astype(np.int64).T
    assert (mma(c_rule("tcgen05", "s8", "u8", "s32"), a, b, c) == total.astype(np.uint32)).all()
    clamped = np.clip(total, -(2**31), 2**31 - 1).astype(np.int32).view(np.uint32)
    assert (mma(c_rule("tcgen05", "s8", "u8", "s32", saturate=1), a, b, c) == clamped).all()


def test_sums_worked_out_by_hand():
    one = np.array([[0x3C00] * 16], np.uint16).view(np.uint8)
    f16 = c_rule("wgmma", "f16", "f16")
    assert mma(f16, one, one, [[0]])[0, 0] == 0x41800000  # 16
    # 2^30 + 1: the ones lie under the last of 25 bits, one by one, so they vanish.
    big = np.array([[0x4E800000]])
    assert mma(f16, one, one, big)[0, 0] == 0x4E800000
    # NaN, infinity, 0 * infinity.
    nan, inf, zero = (np.array([[x] + [0x3C00] * 15], np.uint16).view(np.uint8) for x in (0x7C01, 0xFC00, 0))
    assert mma(f16, nan, one, [[0]])[0, 0] == 0x7FFFFFFF
    assert mma(f16, inf, one, [[0]])[0, 0] == 0xFF800000
    assert mma(f16, inf, one, [[0x7F800000]])[0, 0] == 0x7FFFFFFF
    assert mma(f16, inf, zero, [[0]])[0, 0] == 0x7FFFFFFF
    # A NaN scale poisons the element; a negative scale is its magnitude.
    ones = pack_fp4(np.full((1, 64), 2))
    fp4 = c_rule("mxf4", scale="ue4m3", scale_block=16)
    scale = np.array([[0x38, 0xB8, 0x38, 0xB8]], np.uint8)
    assert mma(fp4, ones, ones, [[0]], scale, scale)[0, 0] == 0x42800000  # 64
    for code in (0x7F, 0xFF):
        assert mma(fp4, ones, ones, [[0]], np.full((1, 4), code, np.uint8), scale)[0, 0] == 0x7FFFFFFF
