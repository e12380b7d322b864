"""Descriptors field by field, and operands fetched through them against the layouts' definition."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.python.tensorcore import matrix_descriptor, scaled, unscaled
from simulator.tests.tensorcore.canonical import store
from simulator.tests.tensorcore.tensor_kit import Refused, decode_instruction, decode_matrix, fetch_operand

BITS = {"f16": 16, "bf16": 16, "tf32": 32, "e4m3": 8, "e2m1": 4, "e3m2": 6, "u8": 8}


# --- matrix descriptors -------------------------------------------------------------------------------


@pytest.mark.parametrize("wgmma", [False, True])
def test_each_field_of_a_matrix_descriptor(wgmma):
    for swizzle in ("none", "32B", "64B", "128B") + (() if wgmma else ("128B_ATOM32",)):
        bits = matrix_descriptor(0x3FFF0, 0x2A550, 0x15AA0, swizzle, 5, wgmma)
        assert decode_matrix(bits, wgmma) == (0x3FFF0, 0x2A550, 0x15AA0, 5, swizzle)


@pytest.mark.parametrize("wgmma", [False, True])
def test_reserved_bits_are_refused_by_number(wgmma):
    legal = matrix_descriptor(1024, 16, 1024, "128B", 0, wgmma)
    known = {*range(14), *range(16, 30), *range(32, 46), 49, 50, 51, 62, 63} | ({61} if not wgmma else set())
    for bit in set(range(64)) - known:
        with pytest.raises(Refused, match=r"bits? |sm_103a"):
            decode_matrix(legal ^ 1 << bit, wgmma)


def test_swizzle_modes_that_do_not_exist():
    for mode in (3, 5, 7):
        with pytest.raises(Refused, match=f"swizzle mode {mode}"):
            decode_matrix(1 << 46 | mode << 61)


CASES = [
    # format, rows, K, MN-major, swizzle
    *[("f16", 24, 16, False, s) for s in ("none", "32B", "64B", "128B")],
    *[("e4m3", 16, 32, False, s) for s in ("none", "32B", "64B", "128B")],
    *[("tf32", 16, 8, False, s) for s in ("none", "128B", "128B_ATOM32")],
    *[("e2m1", 16, 64, False, s) for s in ("none", "32B", "64B", "128B")],
    *[("f16", 128, 16, True, s) for s in ("none", "32B", "64B", "128B")],
    *[("e4m3", 256, 32, True, s) for s in ("none", "32B", "64B", "128B")],
    ("tf32", 64, 8, True, "128B_ATOM32"),
]


def strides(fmt, mn_major, swizzle, rows, padded=False):
    """Offsets without gaps or overlaps; where the layout leaves a choice, not in the usual order."""
    width = {"none": 16, "32B": 32, "64B": 64, "128B": 128, "128B_ATOM32": 128}[swizzle]
    lines = 4 if swizzle == "128B_ATOM32" and mn_major else 8
    atom = width * lines
    if not mn_major:
        return (rows // 8 + 1) * 128 if swizzle == "none" else 16, atom
    atoms_mn = -(-rows * (8 if padded else BITS[fmt]) // 8 // width)
    near, far = atom, atom * (atoms_mn + 1)
    # leading, stride: along MN and K; reversed without swizzle
    return (far, near) if swizzle == "none" else (near, far)


IN_WGMMA = [(case, True) for case in CASES if case[0] != "e2m1" and case[4] != "128B_ATOM32"]


@pytest.mark.parametrize(("case", "wgmma"), [*((case, False) for case in CASES), *IN_WGMMA], ids=str)
def test_operands_are_fetched_from_the_canonical_layouts(case, wgmma):
    fmt, rows, k, mn_major, swizzle = case
    rng = np.random.default_rng(1)
    codes = rng.integers(0, 1 << BITS[fmt], (rows, k))
    smem = rng.integers(0, 256, 65536).astype(np.uint8)
    leading, stride = strides(fmt, mn_major, swizzle, rows)
    store(smem, codes, BITS[fmt], swizzle, 2048, leading, stride, mn_major)
    bits = matrix_descriptor(2048, leading, stride, swizzle, 0, wgmma)
    got, chunks = fetch_operand(bits, fmt, rows, k, smem, mn_major, wgmma=wgmma)
    assert len(chunks) == len(set(chunks.tolist())) == rows * k * BITS[fmt] // 128
    if BITS[fmt] == 4:
        unpacked = np.stack([got & 15, got >> 4], 2).reshape(rows, k)
    else:
        unpacked = got.view({8: np.uint8, 16: np.uint16, 32: np.uint32}[BITS[fmt]])
    assert (unpacked == codes).all()


@pytest.mark.parametrize("fmt", ["e2m1", "e3m2"])
@pytest.mark.parametrize("mn_major", [False, True])
@pytest.mark.parametrize("swizzle", ["none", "128B"])
def test_padded_operands(fmt, mn_major, swizzle):
    """kind::f8f6f4: 16 codes of 4 or 6 bits in 16 bytes are unpacked to a byte each."""
    rng = np.random.default_rng(2)
    rows, k = 128, 32
    codes = rng.integers(0, 1 << BITS[fmt], (rows, k))
    smem = rng.integers(0, 256, 65536).astype(np.uint8)
    leading, stride = strides(fmt, mn_major, swizzle, rows, padded=True)
    store(smem, codes, BITS[fmt], swizzle, 1024, leading, stride, mn_major, padded=True)
    bits = matrix_descriptor(1024, leading, stride, swizzle)
    got, _ = fetch_operand(bits, fmt, rows, k, smem, mn_major, padded=True)
    assert (got == codes).all()


def test_steps_of_k_inside_a_swizzle_atom():
    """A tile of 64 f16 along K is one atom wide: the next instruction's operand starts 32 bytes further."""
    rng = np.random.default_rng(3)
    codes, smem = rng.integers(0, 1 << 16, (32, 64)), np.zeros(8192, np.uint8)
    store(smem, codes, 16, "128B", 1024, 16, 1024)
    for step in range(4):
        got, _ = fetch_operand(matrix_descriptor(1024 + 32 * step, 16, 1024, "128B"), "f16", 32, 16, smem)
        assert (got.view(np.uint16) == codes[:, 16 * step : 16 * step + 16]).all()


@pytest.mark.parametrize("swizzle", ["32B", "64B", "128B"])
def test_base_offset_moves_the_pattern(swizzle):
    """The base offset gives the start of a pattern whose address is not a multiple of its length."""
    rng = np.random.default_rng(4)
    width = int(swizzle[:-1])
    codes, tile = rng.integers(0, 1 << 16, (16, 16)), np.zeros(4096, np.uint8)
    store(tile, codes, 16, swizzle, 0, 16, 8 * width)
    for line in range(1, 8):
        smem = np.zeros(8192, np.uint8)
        start = 2048 + 128 * line
        smem[start : start + 4096] = tile
        base = start >> 7 & 7
        got, _ = fetch_operand(matrix_descriptor(start, 16, 8 * width, swizzle, base), "f16", 16, 16, smem)
        assert (got.view(np.uint16) == codes).all()


def test_an_operand_beyond_shared_memory():
    smem = np.zeros(4096, np.uint8)
    fetch_operand(matrix_descriptor(0, 128, 256), "f16", 128, 16, smem)
    with pytest.raises(Refused, match=r"0x1000 bytes"):
        fetch_operand(matrix_descriptor(16, 128, 256), "f16", 128, 16, smem)


def test_fields_of_the_plain_kinds():
    f = decode_instruction(unscaled(64, 72, a=1, b=0, neg_a=1, mn_b=1), "f16")
    assert (f["m"], f["n"], f["k"], f["a"], f["b"], f["d"]) == (64, 72, 16, "bf16", "f16", "f32")
    assert (f["negate_a"], f["negate_b"], f["a_mn_major"], f["b_mn_major"]) == (1, 0, 0, 1)
    assert (f["fraction_bits"], f["result_fraction"], f["scales"]) == (25, 23, 0)
    f = decode_instruction(unscaled(256, 256, d=0, neg_b=1, mn_a=1), "f16", cta_group=2)
    assert (f["m"], f["n"], f["d"], f["negate_b"], f["a_mn_major"]) == (256, 256, "f16", 1, 1)
    f = decode_instruction(unscaled(a=2, b=2), "tf32")
    assert (f["a"], f["b"], f["k"]) == ("tf32", "tf32", 8)
    names = {0: "e4m3", 1: "e5m2", 3: "e2m3", 4: "e3m2", 5: "e2m1"}
    for i, a in names.items():
        for j, b in names.items():
            f = decode_instruction(unscaled(a=i, b=j), "f8f6f4")
            assert (f["a"], f["b"], f["k"]) == (a, b, 32)
            f = decode_instruction(scaled(a=i, b=j, ue8m0=1, sfa=3, sfb=1), "mxf8f6f4")
            assert (f["a"], f["b"], f["k"], f["scales"], f["scale_block"]) == (a, b, 32, 1, 32)
            assert (f["sfa_id"], f["sfb_id"], f["scale"], f["grouped"]) == (3, 1, "ue8m0", 0)
    f = decode_instruction(unscaled(d=2, a=1, b=0, saturate=1), "i8")
    assert (f["a"], f["b"], f["d"], f["saturate"], f["k"]) == ("s8", "u8", "s32", 1, 32)
    f = decode_instruction(unscaled(32, 64, shift=2), "f16", ws=True)
    assert (f["m"], f["n"], f["max_shift"]) == (32, 64, 2)


def test_fields_of_the_fp4_kinds():
    f = decode_instruction(scaled(n=192, neg_a=1), "mxf4nvf4", scales=4)
    assert (f["m"], f["n"], f["k"], f["scales"], f["scale"], f["scale_block"]) == (128, 192, 64, 4, "ue4m3", 16)
    assert (f["grouped"], f["fraction_bits"], f["negate_a"], f["a"], f["d"]) == (1, 35, 1, "e2m1", "f32")
    f = decode_instruction(scaled(256, 48, ue8m0=1, sfa=2, sfb=0), "mxf4nvf4", 2, scales=2)
    assert (f["m"], f["n"], f["sfa_id"], f["sfb_id"], f["scale"], f["scale_block"]) == (256, 48, 2, 0, "ue8m0", 32)
    assert decode_instruction(scaled(ue8m0=1), "mxf4")["scales"] == 2


ILLEGAL = [
    (unscaled(), "f16", {"scales": 4}, "no scale factors"),
    (unscaled(d=3), "f16", {}, "dtype is 3"),
    (unscaled(d=0, a=1, b=1), "f16", {}, "dtype is 0"),
    (unscaled(d=0, a=2, b=2), "tf32", {}, "dtype is 0"),
    (unscaled(a=2), "f16", {}, "atype is 2"),
    (unscaled(b=7), "f16", {}, "btype is 7"),
    (unscaled(a=2), "f8f6f4", {}, "atype is 2"),
    (unscaled(saturate=1), "f16", {}, "saturate"),
    (unscaled() | 1, "f16", {}, "bits 0-1"),
    (unscaled() | 1 << 6, "f16", {}, "bits 6-6"),
    (unscaled() | 1 << 23, "f16", {}, "bits 23-23"),
    (unscaled() | 1 << 29, "f16", {}, "bits 29-29"),
    (unscaled(shift=1), "f16", {}, "maximum shift"),
    (unscaled(d=2, neg_a=1), "i8", {}, "negate"),
    (unscaled(m=192), "f16", {}, "M = 192"),
    (unscaled(m=256), "f16", {}, "M = 256"),
    (unscaled(m=64), "f16", {"cta_group": 2}, "M = 64"),
    (unscaled(n=24), "f16", {}, "N = 24"),
    (unscaled(n=264 & 0x1FF), "f16", {}, "N = 264"),
    (unscaled(n=0), "f16", {}, "N = 0"),
    (unscaled(m=64, n=40, d=2), "i8", {}, "N = 40"),
    (unscaled(n=16, mn_b=1, m=256), "f8f6f4", {"cta_group": 2}, "N = 16"),
    (unscaled(m=256, n=128), "f16", {"ws": True}, "M = 256"),
    (unscaled(m=32, n=96), "f16", {"ws": True}, "N = 96"),
    (scaled(), "mxf4nvf4", {}, "scale_vec"),
    (scaled(), "mxf4nvf4", {"scales": 1}, "scale_vec::1X"),
    (scaled(), "mxf4nvf4", {"scales": 2}, "scale type"),
    (scaled(), "mxf4", {}, "scale type"),
    (scaled(ue8m0=1), "mxf4", {"scales": 4}, "scale_vec::4X"),
    (scaled(ue8m0=0, a=0, b=0), "mxf8f6f4", {}, "scale type"),
    (scaled(sfa=1), "mxf4nvf4", {"scales": 4}, "scale factor A ID is 1"),
    (scaled(ue8m0=1, sfb=1), "mxf4", {}, "scale factor B ID is 1"),
    (scaled(a=0), "mxf4nvf4", {"scales": 4}, "atype is 0"),
    (scaled(mn_a=1), "mxf4nvf4", {"scales": 4}, "transpose"),
    (scaled() | 1 << 3, "mxf4nvf4", {"scales": 4}, "bits 3-3"),
    (scaled() | 1 << 12, "mxf4nvf4", {"scales": 4}, "bits 12-12"),
    (scaled() | 1 << 24, "mxf4nvf4", {"scales": 4}, "bits 24-26"),
    (scaled(m=256), "mxf4nvf4", {"scales": 4}, "M = 256"),
    (scaled(n=8, m=256), "mxf4nvf4", {"scales": 4, "cta_group": 2}, "N = 8"),
    (scaled(a=0, b=0, ue8m0=1) | 1 << 31, "mxf8f6f4", {}, "bits 31-31"),
]


@pytest.mark.parametrize("case", ILLEGAL, ids=lambda case: f"{case[1]} {case[3]}")
def test_illegal_fields_are_named(case):
    bits, kind, options, reason = case
    with pytest.raises(Refused, match=reason) as refusal:
        decode_instruction(bits, kind, **options)
    assert not refusal.value.unmodelled


def test_fields_that_are_not_modelled_are_marked_as_such():
    for bits, kind, scales in (
        (unscaled(m=64, sparse=1), "f16", 0),
        (scaled(k96=1), "mxf4nvf4", 4),
    ):
        with pytest.raises(Refused) as refusal:
            decode_instruction(bits, kind, scales=scales)
        assert refusal.value.unmodelled


def test_n_is_a_multiple_of_the_step_up_to_256():
    for kind, group, m, options in (
        ("mxf4nvf4", 1, 128, {"scales": 4}),
        ("mxf4nvf4", 2, 256, {"scales": 4}),
        ("f16", 1, 64, {}),
        ("f16", 1, 128, {}),
        ("f16", 2, 256, {}),
    ):
        step = 16 * (group == 2) or (16 if kind == "f16" and m == 128 else 8)
        for n in range(0, 512, 8):
            bits = scaled(m, n) if options else unscaled(m, n)
            try:
                legal = decode_instruction(bits, kind, group, **options)["n"] == n
            except Refused:
                legal = False
            assert legal == (0 < n <= 256 and n % step == 0), (kind, group, m, n)
