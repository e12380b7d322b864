"""tcgen05.mma end to end: operands in shared memory through descriptors, scales copied into tensor memory, D found
where the ISA's data path layouts put it; the sums by fused_sum.py."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from simulator.python.tensorcore import matrix_descriptor, scaled, unscaled
from simulator.tests.tensorcore.canonical import store
from simulator.tests.tensorcore.tensor_kit import CLEAN, KINDS, Mma, Refused, Tmem, tcgen05_mma
from simulator.validation.fused_sum import Rule, vectors

A_AT, B_AT, SFA_AT, SFB_AT, SMEM = 1024, 33792, 66560, 70656, 81920
SF, D_AT = 16, 64  # TMEM columns


def place(layout, m, n, rows, columns):
    """Rank, lane and column of D[m][n] (PTX ISA, figures of Data Path Layout Organization)."""
    half = columns // 2
    return {
        "A": lambda: (m // 128, m % 128, n),
        "B": lambda: (m // 64, m % 64 + (64 if n >= half else 0), n % half),
        "D": lambda: (0, m, n),
        "E": lambda: (0, m + (64 if n >= half else 0), n % half),
        "F": lambda: (0, m // 16 * 32 + m % 16, n),
        "G": lambda: (0, m + 32 * (n // (columns // 4)), n % (columns // 4)),
    }[layout]()


def put_operand(smems, codes, bits, at, padded=False):
    """K-major with 128-byte swizzle; in a pair each CTA holds its half of the rows."""
    share = len(codes) // len(smems)
    for rank, smem in enumerate(smems):
        store(smem, codes[rank * share : (rank + 1) * share], bits, "128B", at, 16, 1024, padded=padded)


def run(layout, kind, idesc, group, ws, a, b, bits, c, scales=None, scale_ids=(0, 0), padded=False, **options):
    """Returns D as an M x N array of words, having checked that nothing else of tensor memory changed."""
    m, n = c.shape
    smems = [np.random.default_rng(r).integers(0, 256, SMEM).astype(np.uint8) for r in range(group)]
    tmems = [Tmem(512) for _ in range(group)]
    put_operand(smems, a, bits, A_AT, padded)
    put_operand(smems, b, bits, B_AT, padded)
    mma = Mma(
        a=matrix_descriptor(A_AT, 16, 1024, "128B"),
        b=matrix_descriptor(B_AT, 16, 1024, "128B"),
        idesc=idesc,
        d_tmem=D_AT | options.get("lane", 0) << 16,
        sfa_tmem=SF,
        sfb_tmem=SF + 8,
        kind=KINDS.index(kind),
        cta_group=group,
        ws=ws,
        scales=0 if scales is None else scales[0].shape[1],
        accumulate=options.get("accumulate", 1),
        disabled=(ctypes.c_uint32 * 8)(*options.get("disabled", [0] * 8)),
    )
    if scales is not None:
        put_scales(layout, smems, tmems, scales, scale_ids)
    where = {}
    for i in range(m):
        for j in range(n):
            rank, lane, column = place(layout, i, j, m, n)
            spot = rank, lane + options.get("lane", 0), D_AT + column
            where[i, j] = spot
            tmems[rank].words[spot[1], spot[2]] = c[i, j]
    assert len(set(where.values())) == m * n
    before = [t.words.copy() for t in tmems]
    tcgen05_mma(mma, tmems, smems)
    d = np.zeros((m, n), np.uint32)
    for (i, j), (rank, lane, column) in where.items():
        d[i, j] = tmems[rank].words[lane, column]
        before[rank][lane, column] = d[i, j]
    for t, words in zip(tmems, before, strict=True):
        assert (t.words == words).all()
    return d


def put_scales(layout, smems, tmems, scales, ids):
    """Copies scales with tcgen05.cp 32x128b.warpx4 from 512-byte tiles in the blocked layout, as kernels do."""
    sfa, sfb = scales
    share = len(sfa) // len(smems)
    for rank, (smem, t) in enumerate(zip(smems, tmems, strict=True)):
        for at, column, rows, start in (
            (SFA_AT, SF, sfa[rank * share : (rank + 1) * share], ids[0]),
            (SFB_AT, SF + 8, sfb, ids[1]),
        ):
            for tile in range(-(-len(rows) // 128)):
                block = np.full((32, 4, 4), 0x55, np.uint8)
                for r, row in enumerate(rows[tile * 128 : tile * 128 + 128]):
                    block[r % 32, r // 32, start : start + len(row)] = row
                smem[at + 512 * tile : at + 512 * tile + 512] = block.reshape(-1)
                t.cp("32x128b.warpx4", column + 4 * tile, matrix_descriptor(at + 512 * tile, 16, 128), smem)
        if layout == "B":  # N is split over the upper and lower lanes, and so are its scales
            half = len(sfb) // 2
            for n, row in enumerate(sfb):
                word = int.from_bytes(bytes([0] * ids[1] + row.tolist()).ljust(4, b"\0"), "little")
                for copy in (0, 32):
                    t.words[n // half * 64 + copy + n % half % 32, SF + 8 + n % half // 32] = word


def matrices(seed, m, n, k, bits):
    rng = np.random.default_rng(seed)
    c = rng.integers(0, 1 << 32, (m, n), dtype=np.uint32) & np.uint32(0x807FFFFF)
    c |= rng.integers(110, 140, (m, n), dtype=np.uint32) << np.uint32(23)
    return rng, rng.integers(0, 1 << bits, (m, k)), rng.integers(0, 1 << bits, (n, k)), c


FP4 = [
    ("D", 1, 128, 8),
    ("D", 1, 128, 192),
    ("D", 1, 128, 256),
    ("A", 2, 256, 64),
    ("A", 2, 256, 256),
    ("B", 2, 128, 128),
]


@pytest.mark.parametrize("case", FP4, ids=str)
def test_mxf4nvf4(case):
    layout, group, m, n = case
    rng, a, b, c = matrices(n, m, n, 64, 4)
    scales = [rng.integers(0, 0x7F, (rows, 4)).astype(np.uint8) for rows in (m, n)]
    rule = Rule("e2m1", "e2m1", bits=35, scale="ue4m3", block=16, grouped=True)
    got = run(layout, "mxf4nvf4", scaled(m, n), group, 0, a, b, 4, c, scales)
    assert (got == vectors(rule, a, b, c, *scales)).all()
    if case == FP4[0]:
        got = run(layout, "mxf4nvf4", scaled(m, n), group, 0, a, b, 4, c, scales, accumulate=0)
        assert (got == vectors(rule, a, b, c * 0, *scales)).all()


@pytest.mark.parametrize("ids", [(0, 0), (2, 0), (0, 2), (2, 2)])
def test_mxf4_takes_two_scales_at_its_ids(ids):
    rng, a, b, c = matrices(1, 128, 64, 64, 4)
    scales = [rng.integers(120, 135, (rows, 2)).astype(np.uint8) for rows in (128, 64)]
    rule = Rule("e2m1", "e2m1", bits=35, scale="ue8m0", block=32, grouped=True)
    idesc = scaled(128, 64, ue8m0=1, sfa=ids[0], sfb=ids[1])
    got = run("D", "mxf4", idesc, 1, 0, a, b, 4, c, scales, ids)
    assert (got == vectors(rule, a, b, c, *scales)).all()


@pytest.mark.parametrize("ids", [(0, 3), (1, 2), (3, 0)])
def test_mxf8f6f4_takes_one_scale_at_its_id(ids):
    rng, a, b, c = matrices(2, 128, 72, 32, 4)
    scales = [rng.integers(120, 135, (rows, 1)).astype(np.uint8) for rows in (128, 72)]
    rule = Rule("e2m1", "e2m1", scale="ue8m0", block=32)
    idesc = scaled(128, 72, a=5, b=5, ue8m0=1, sfa=ids[0], sfb=ids[1])
    got = run("D", "mxf8f6f4", idesc, 1, 0, a, b, 4, c, scales, ids, padded=True)
    assert (got == vectors(rule, a, b, c, *scales)).all()


PLAIN = [
    ("D", 1, 0, 128, 48),
    ("F", 1, 0, 64, 40),
    ("A", 2, 0, 256, 96),
    ("B", 2, 0, 128, 64),
    ("E", 1, 1, 64, 64),
    ("G", 1, 1, 32, 128),
    ("D", 1, 1, 128, 64),
]


@pytest.mark.parametrize("case", PLAIN, ids=str)
def test_data_path_layouts(case):
    layout, group, ws, m, n = case
    _, a, b, c = matrices(m + n, m, n, 16, 16)
    a, b = (x & 0x83FF | 0x3800 for x in (a, b))  # finite f16 near 1/2
    want = vectors(Rule("f16", "f16"), a, b, c)
    got = run(layout, "f16", unscaled(m, n), group, ws, a, b, 16, c)
    assert (got == want).all()
    if layout == "F":
        assert (run(layout, "f16", unscaled(m, n), group, ws, a, b, 16, c, lane=16) == want).all()


def test_disabled_lanes_keep_their_words():
    _, a, b, c = matrices(7, 256, 32, 16, 16)
    a, b = (x & 0x83FF | 0x3800 for x in (a, b))
    rng = np.random.default_rng(8)
    masks = rng.integers(0, 1 << 32, 8)
    got = run("A", "f16", unscaled(256, 32), 2, 0, a, b, 16, c, disabled=masks.tolist())
    off = np.array([masks[row // 32] >> (row % 32) & 1 for row in range(256)], bool)
    want = vectors(Rule("f16", "f16"), a, b, c)
    want[off] = c[off]
    assert (got == want).all()


def test_a_in_tensor_memory():
    for layout, m, lane in (("D", 128, 0), ("F", 64, 16)):
        _, a, b, c = matrices(9, m, 16, 16, 16)
        a, b = (x & 0x83FF | 0x3800 for x in (a, b))
        t, smem = Tmem(512), np.zeros(SMEM, np.uint8)
        store(smem, b, 16, "128B", B_AT, 16, 1024)
        words = np.ascontiguousarray(a.astype(np.uint16)).view(np.uint32)
        for i in range(m):
            _, at, _ = place(layout, i, 0, m, 16)
            t.words[at + lane, 100:108] = words[i]
        mma = Mma(
            b=matrix_descriptor(B_AT, 16, 1024, "128B"), idesc=unscaled(m, 16), d_tmem=D_AT | lane << 16,
            a_tmem=100 | lane << 16, a_in_tmem=1, kind=0, cta_group=1,
        )  # fmt: skip
        tcgen05_mma(mma, [t], [smem])
        want = vectors(Rule("f16", "f16"), a, b, c * 0)
        for i in range(m):
            _, at, _ = place(layout, i, 0, m, 16)
            assert (t.words[at + lane, D_AT : D_AT + 16] == want[i]).all()


def test_scales_missing_in_a_quarter_change_its_rows():
    """Each quarter reads its own copy: zeros there make only that quarter's rows 0."""
    rng, a, b, c = matrices(3, 128, 64, 64, 4)
    scales = [rng.integers(1, 0x7F, (rows, 4)).astype(np.uint8) for rows in (128, 64)]
    smem, t = np.zeros(SMEM, np.uint8), Tmem(512)
    put_operand([smem], a, 4, A_AT)
    put_operand([smem], b, 4, B_AT)
    put_scales("D", [smem], [t], scales, (0, 0))
    t.words[64:96, SF + 8 : SF + 12] = 0
    mma = Mma(
        a=matrix_descriptor(A_AT, 16, 1024, "128B"), b=matrix_descriptor(B_AT, 16, 1024, "128B"), scales=4,
        idesc=scaled(128, 64), d_tmem=D_AT, sfa_tmem=SF, sfb_tmem=SF + 8, kind=KINDS.index("mxf4nvf4"), cta_group=1,
    )  # fmt: skip
    tcgen05_mma(mma, [t], [smem])
    rule = Rule("e2m1", "e2m1", bits=35, scale="ue4m3", block=16, grouped=True)
    want = vectors(rule, a, b, c * 0, *scales)
    want[64:96] = 0
    assert (t.words[:, D_AT : D_AT + 64] == want).all()


def test_illegal_operands_are_refused_at_issue():
    smem = np.zeros(SMEM, np.uint8)
    good = {
        "a": matrix_descriptor(A_AT, 16, 1024, "128B"),
        "b": matrix_descriptor(B_AT, 16, 1024, "128B"),
        "idesc": scaled(128, 64),
        "sfa_tmem": 64,
        "sfb_tmem": 68,
        "kind": KINDS.index("mxf4nvf4"),
        "cta_group": 1,
        "scales": 4,
    }
    tcgen05_mma(Mma(**good), [Tmem(128)], [smem])
    for change, columns, reason in (
        ({}, 32, "D of tcgen05.mma uses column 32 of tensor memory, which is not allocated"),
        ({"sfa_tmem": 126}, 128, "scale_A of tcgen05.mma uses column 128"),
        ({"sfb_tmem": 127}, 128, "scale_B of tcgen05.mma uses column 128"),
        ({"d_tmem": 480}, 512, "reaches column 543"),
        ({"d_tmem": 16 << 16}, 128, "lane of D is 16"),
        ({"sfa_tmem": 64 | 32 << 16}, 128, "lane of scale_A is 32"),
        ({"b": matrix_descriptor(SMEM - 1024, 16, 1024, "128B")}, 128, "beyond the CTA's"),
        ({"idesc": scaled(128, 64) | 1 << 24}, 128, "bits 24-26"),
        ({"a": 1 << 62}, 128, "bits 46-48"),
    ):
        with pytest.raises(Refused, match=reason):
            tcgen05_mma(Mma(**(good | change)), [Tmem(columns)], [smem])
    tf32 = Mma(
        a=matrix_descriptor(A_AT, 16, 1024, "128B"), b=matrix_descriptor(B_AT, 16, 1024, "128B"),
        idesc=unscaled(128, 64, a=2, b=2, mn_a=1), kind=KINDS.index("tf32"), cta_group=1,
    )  # fmt: skip
    with pytest.raises(Refused, match="32-byte atomicity"):
        tcgen05_mma(tf32, [Tmem(128)], [smem])


def test_the_trap_pattern_is_a_nan():
    assert np.isnan(np.array([CLEAN], np.uint32).view(np.float32)[0])
