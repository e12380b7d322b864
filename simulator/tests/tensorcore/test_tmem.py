"""Tensor memory: allocation rules, fragments of ld and st, cp and shift, against loops over the ISA's layouts."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.python.tensorcore import matrix_descriptor
from simulator.tests.tensorcore.canonical import store
from simulator.tests.tensorcore.tensor_kit import CLEAN, Refused, Tmem

# --- allocation ---------------------------------------------------------------------------------------


def test_allocation_is_by_powers_of_two():
    t = Tmem()
    for columns in (0, 1, 16, 31, 33, 48, 96, 384, 513, 1024):
        with pytest.raises(Refused, match="power of two"):
            t.alloc(columns)
    assert [t.alloc(c) for c in (32, 64, 256, 128, 32)] == [0, 32, 96, 352, 480]
    assert t.alloc(32) is None  # would block
    t.dealloc(32, 64)
    assert t.alloc(128) is None
    assert t.alloc(32) == 32
    assert t.alloc(32) == 64


def test_misuse_of_allocation():
    t = Tmem()
    a = t.alloc(64)
    with pytest.raises(Refused, match="64 columns of tensor memory allocated at column 0"):
        t.check_exit()
    with pytest.raises(Refused, match="32 columns at column 0, where 64"):
        t.dealloc(a, 32)
    for wrong in (a + 32, a + 1, 600, a | 16 << 16):
        with pytest.raises(Refused, match="which no tcgen05"):
            t.dealloc(wrong, 32)
    t.relinquish()
    with pytest.raises(Refused, match="relinquish"):
        t.alloc(32)
    t.dealloc(a, 64)
    with pytest.raises(Refused, match="which no tcgen05"):
        t.dealloc(a, 64)
    t.check_exit()
    t.check_cta_group(2)
    with pytest.raises(Refused, match="cta_group::1 after"):
        t.check_cta_group(1)


def test_unallocated_columns_are_named():
    t = Tmem(64)
    t.access("32x32b", 64, 0)
    with pytest.raises(Refused, match="column 64 of tensor memory, which is not allocated"):
        t.access("32x32b", 1, 64)
    with pytest.raises(Refused, match="column 64 "):
        t.access("32x32b", 64, 1)
    with pytest.raises(Refused, match="which has 512"):
        t.access("32x32b", 128, 500)
    with pytest.raises(Refused, match="column 512 of tensor memory, which has 512"):
        Tmem(512).access("32x32b", 2, 511)


# --- ld and st ----------------------------------------------------------------------------------------


def fragment(shape, num, thread, r, half_split):
    """Lane and column of register r: the figures of "Matrix fragments for shape", as bits of a row-major block.
    Each entry: bits from one thread to the next in the thread's digits, and from one register to the next."""
    if shape == "32x32b":
        return thread, r
    if shape == "16x32bx2":
        return thread % 16, r + (half_split if thread >= 16 else 0)
    row = {"16x64b": 64, "16x128b": 128, "16x256b": 256}[shape] * num
    if shape == "16x64b":
        bit = thread % 2 * 8 * row + thread // 2 % 2 * 32 + thread // 4 * row + r * 64
    elif shape == "16x128b":
        bit = thread % 4 * 32 + thread // 4 * row + r % 2 * 8 * row + r // 2 * 128
    else:
        bit = thread % 4 * 64 + thread // 4 * row + r % 2 * 32 + r // 2 % 2 * 8 * row + r // 4 * 256
    return bit // row, bit % row // 32


REGISTERS = {"32x32b": 1, "16x64b": 1, "16x128b": 2, "16x256b": 4, "16x32bx2": 1}
COLUMNS = {"32x32b": 1, "16x64b": 2, "16x128b": 4, "16x256b": 8, "16x32bx2": 1}
LARGEST = {"32x32b": 128, "16x64b": 128, "16x128b": 64, "16x256b": 32, "16x32bx2": 128}
ACCESSES = [(s, n, p) for s, top in LARGEST.items() for n in (1, 2, 4, 32, top) for p in (False, True)]


@pytest.mark.parametrize("case", ACCESSES, ids=str)
def test_fragments(case):
    shape, num, pack = case
    t = Tmem(512)
    rng = np.random.default_rng(num)
    words = rng.integers(0, 1 << 32, (128, 512), dtype=np.uint32)
    t.words[:] = words
    columns = COLUMNS[shape] * num * (2 if pack else 1)
    count = REGISTERS[shape] * num
    warp, base = 2, 512 - columns if shape != "16x32bx2" else 0
    half_split = 512 - columns if shape == "16x32bx2" else 0
    lane0 = 32 * warp + (16 if shape != "32x32b" else 0)
    address = lane0 << 16 | base
    got, regions = t.access(shape, num, address, pack=pack, half_split=half_split, count=count)
    want = np.zeros((count, 32), np.uint32)
    for thread in range(32):
        for r in range(count):
            lane, column = fragment(shape, num, thread, r, 0)
            column = column * (2 if pack else 1) + base
            if shape == "16x32bx2" and thread >= 16:
                column += half_split
            word = words[lane0 + lane, column : column + 2]
            want[r, thread] = (word[0] & 0xFFFF) | word[1] << 16 if pack else word[0]
    assert (got == want).all()
    # A store writes every bit back, and only to the given regions.
    t.words[:] = CLEAN
    t.access(shape, num, address, registers=got, pack=pack, half_split=half_split)
    expected = np.full((128, 512), CLEAN, np.uint32)
    touched = np.zeros((128, 512), bool)
    for quarters, first, lanes, column, width in regions:
        assert quarters == 1 << warp
        touched[32 * warp + first : 32 * warp + first + lanes, column : column + width] = True
    expected[touched] = words[touched] & (0xFFFF if pack else 0xFFFFFFFF)
    assert (t.words == expected).all()


def test_quarters_and_alignment_of_lanes():
    t = Tmem(512)
    for warp in range(4):
        for lane in range(0, 128, 16):
            if lane // 32 == warp:
                t.access("16x64b", 1, lane << 16, warp=warp)
            else:
                with pytest.raises(Refused, match=f"warp {warp} of a warpgroup reaches lanes {32 * warp} to"):
                    t.access("16x64b", 1, lane << 16, warp=warp)
    with pytest.raises(Refused, match="multiple of 32"):
        t.access("32x32b", 1, 16 << 16, warp=0)
    with pytest.raises(Refused, match="multiple of 16"):
        t.access("16x256b", 1, 8 << 16, warp=0)
    for shape, top in LARGEST.items():
        with pytest.raises(Refused, match="does not exist"):
            t.access(shape, top * 2, 0)
    with pytest.raises(Refused, match="does not exist"):
        t.access("32x32b", 3, 0)


# --- cp -----------------------------------------------------------------------------------------------

# shape: rows, 16-byte units per row, the lanes that receive a row
COPIES = {
    "128x256b": (128, 2, lambda row: [row]),
    "128x128b": (128, 1, lambda row: [row]),
    "4x256b": (4, 2, lambda row: [32 * row + 31]),
    "64x128b.02_13": (64, 1, lambda row: [row, row + 64]),
    "64x128b.01_23": (64, 1, lambda row: [row % 32 + row // 32 * 64, row % 32 + row // 32 * 64 + 32]),
    "32x128b.warpx4": (32, 1, lambda row: [row, row + 32, row + 64, row + 96]),
}


@pytest.mark.parametrize("shape", COPIES)
@pytest.mark.parametrize("swizzle", ["none", "128B"])
def test_copies_from_shared_memory(shape, swizzle):
    rows, units, lanes = COPIES[shape]
    rng = np.random.default_rng(rows)
    data = rng.integers(0, 256, (rows, 16 * units))
    smem = rng.integers(0, 256, 65536).astype(np.uint8)
    leading, stride = (4096, 128) if swizzle == "none" else (16, 1024)
    store(smem, data, 8, swizzle, 1024, leading, stride)
    t = Tmem(64)
    address = 20 | (31 << 16 if shape == "4x256b" else 0)
    t.cp(shape, address, matrix_descriptor(1024, leading, stride, swizzle), smem)
    want = np.full((128, 512), CLEAN, np.uint32)
    for row in range(rows):
        for lane in lanes(row):
            want[lane, 20 : 20 + 4 * units] = np.ascontiguousarray(data[row].astype(np.uint8)).view(np.uint32)
    assert (t.words == want).all()


def test_legal_destinations_of_a_copy():
    t, smem, desc = Tmem(32), np.zeros(8192, np.uint8), matrix_descriptor(0, 16, 128)
    Tmem(512).cp("32x128b.warpx4", 508, desc, smem)
    with pytest.raises(Refused, match="cp reaches column 512 of tensor memory, which has 512"):
        Tmem(512).cp("32x128b.warpx4", 509, desc, smem)
    with pytest.raises(Refused, match="lane must be 0"):
        t.cp("32x128b.warpx4", 32 << 16, desc, smem)
    with pytest.raises(Refused, match="column 32 of tensor memory, which is not allocated"):
        t.cp("32x128b.warpx4", 29, desc, smem)
    with pytest.raises(Refused, match="beyond the CTA's"):
        t.cp("128x128b", 0, matrix_descriptor(8192 - 1024, 16, 128), smem)


def test_shift_moves_lanes_down_within_a_quarter():
    t = Tmem(64)
    words = np.random.default_rng(1).integers(0, 1 << 32, (128, 512), dtype=np.uint32)
    t.words[:] = words
    t.shift(32 << 16 | 8)
    words[32:63, 8:16] = words[33:64, 8:16].copy()
    assert (t.words == words).all()
    with pytest.raises(Refused, match="multiple of 32"):
        t.shift(16 << 16)
