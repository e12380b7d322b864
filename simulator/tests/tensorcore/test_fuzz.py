"""Any bits are decoded or refused with a reason; what is accepted stays inside its memories.

test_sanitized.py runs it under AddressSanitizer, which sees the second half.
"""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from simulator.python.tensorcore import scaled, unscaled
from simulator.tests.tensorcore.tensor_kit import (
    CP_SHAPES,
    KINDS,
    LD_SHAPES,
    Mma,
    Refused,
    Tmem,
    decode_instruction,
    decode_matrix,
    fetch_operand,
    tcgen05_mma,
)

SMEM = 65536


def attempt(function, *arguments, **named):
    """True if it was accepted; a refusal must have a reason."""
    try:
        function(*arguments, **named)
    except Refused as refusal:
        assert 10 < len(str(refusal)) < 239
        return True, False
    return True, True


def count(results):
    return sum(accepted for _, accepted in results)


def legalish(rng):
    """A tcgen05 descriptor whose fixed fields are mostly right."""
    top = 0x3FFF if rng.random() < 0.3 else 0x3F
    bits = int(rng.integers(0, 0x1000)) | int(rng.integers(0, top)) << 16 | int(rng.integers(0, top)) << 32
    bits |= int(rng.integers(8)) << 49 | 1 << 46
    bits |= int(rng.choice([0, 1, 2, 4, 6, 3])) << 61
    return bits ^ (1 << int(rng.integers(64)) if rng.random() < 0.1 else 0)


def test_random_descriptors():
    rng = np.random.default_rng(0)
    smem = np.zeros(SMEM, np.uint8)
    assert count(attempt(decode_matrix, int(rng.integers(0, 1 << 63)), bool(i & 1)) for i in range(3000)) < 3000
    shapes = [("f16", 128, 16), ("e2m1", 256, 64), ("tf32", 64, 8), ("e4m3", 8, 32)]
    fetched = 0
    for _ in range(3000):
        fmt, rows, k = shapes[int(rng.integers(len(shapes)))]
        mn_major = fmt != "e2m1" and bool(rng.integers(2))
        fetched += attempt(fetch_operand, legalish(rng), fmt, rows, k, smem, mn_major)[1]
    assert 100 < fetched < 2900


def test_random_instruction_descriptors():
    rng = np.random.default_rng(1)
    accepted = 0
    for _ in range(20000):
        kind = KINDS[int(rng.integers(len(KINDS)))]
        bits = int(rng.integers(0, 1 << 32))
        if rng.random() < 0.7:  # a legal one with a few bits changed
            bits = scaled(ue8m0=int(rng.integers(2))) if kind.startswith("mx") else unscaled()
            for bit in rng.integers(0, 32, rng.integers(0, 4)):
                bits ^= 1 << int(bit)
        scales = int(rng.choice([0, 1, 2, 4]))
        accepted += attempt(decode_instruction, bits, kind, int(rng.integers(1, 3)), bool(rng.integers(2)), scales)[1]
    assert 500 < accepted < 15000


def test_random_accesses_to_tensor_memory():
    rng = np.random.default_rng(2)
    whole, half_of_it, smem = Tmem(512), Tmem(512), np.zeros(SMEM, np.uint8)
    half_of_it.dealloc(0, 512)
    half_of_it.alloc(256)
    done = 0
    for i in range(4000):
        t = (whole, half_of_it)[i % 2]
        address = int(rng.choice([0, 16, 32, 64, 96, 130])) << 16 | int(rng.integers(512))
        if rng.random() < 0.2:
            address = int(rng.integers(0, 1 << 32))
        shape, num = LD_SHAPES[int(rng.integers(5))], int(2 ** rng.integers(0, 9))
        registers = np.zeros((128, 32), np.uint32) if rng.integers(2) else None
        half = int(rng.choice([0, 8, 300, 0xFFFFFFFF]))
        done += attempt(
            t.access, shape, num, address, registers, bool(rng.integers(2)), warp=int(rng.integers(4)), half_split=half
        )[1]
        done += attempt(t.cp, CP_SHAPES[int(rng.integers(6))], address, legalish(rng), smem)[1]
        done += attempt(t.shift, address)[1]
    assert done > 200


@pytest.mark.parametrize("seed", range(4))
def test_random_mmas(seed):
    rng = np.random.default_rng(seed)
    tmems = [Tmem(512), Tmem(512)]
    smems = [rng.integers(0, 256, SMEM).astype(np.uint8) for _ in range(2)]
    done = 0
    for _ in range(600):
        kind = KINDS[int(rng.integers(len(KINDS)))]
        group = int(rng.integers(1, 3))
        m, n = int(rng.choice([32, 64, 128, 256])), int(rng.integers(1, 33)) * 8
        fp4 = kind in ("mxf4", "mxf4nvf4")
        code = {"tf32": 2}.get(kind, 1)
        if rng.random() < 0.8:
            m, n = 128 * group, 16 * int(rng.integers(1, 17))
        turned = 0 if fp4 else int(rng.random() < 0.2)
        idesc = scaled(m, n, ue8m0=int(rng.integers(2)) | (not fp4), mn_a=turned)
        if not kind.startswith("mx"):
            idesc = unscaled(m, n, d=2 if kind == "i8" else 1, a=code, b=code, mn_b=turned)
        mma = Mma(
            a=legalish(rng),
            b=legalish(rng),
            idesc=idesc,
            d_tmem=int(rng.integers(0, 400)) | (16 << 16 if rng.random() < 0.1 else 0),
            a_tmem=int(rng.integers(0, 512)),
            sfa_tmem=int(rng.integers(0, 512)),
            sfb_tmem=int(rng.integers(0, 512)),
            kind=KINDS.index(kind),
            cta_group=group,
            ws=int(rng.random() < 0.1),
            scales=4 if kind == "mxf4nvf4" else 0,
            a_in_tmem=int(rng.random() < 0.2),
            accumulate=int(rng.integers(2)),
            disabled=(ctypes.c_uint32 * 8)(*rng.integers(0, 1 << 32, 8).tolist()),
        )
        done += attempt(tcgen05_mma, mma, tmems[:group], smems[:group])[1]
    assert done > 10
