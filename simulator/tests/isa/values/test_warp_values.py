"""Exchanges between the lanes of a warp: every mode, predicates and member masks against a model of the lanes."""

from __future__ import annotations

import struct
from functools import reduce

import numpy as np
import pytest

from simulator.tests.isa.values.value_table import evaluate, random_words
from simulator.tests.sim_kit import Sim, aligned, body

SEED = 20266
LANES = range(32)


def one(text: str, width: int | str, **inputs: np.ndarray) -> list[int]:
    return evaluate([(text, width)], inputs)[0].tolist()


def shuffled(mode: str, lane: int, b: int, c: int) -> tuple[int, bool]:
    """The source lane and the predicate (PTX ISA, shfl.sync: Semantics)."""
    b, segment, clamp = b & 31, c >> 8 & 31, c & 31
    highest, lowest = (lane & segment) | (clamp & ~segment & 31), lane & segment
    if mode == "up":
        source = lane - b
        inside = source >= highest
    elif mode == "down":
        source = lane + b
        inside = source <= highest
    elif mode == "bfly":
        source = lane ^ b
        inside = source <= highest
    else:
        source = lowest | (b & ~segment & 31)
        inside = source <= highest
    return (source if inside else lane), inside


@pytest.mark.parametrize("mode", ["up", "down", "bfly", "idx"])
def test_shuffles_and_their_predicates(mode):
    a = random_words(np.random.default_rng(SEED), 32, 32)
    own = np.random.default_rng(SEED).integers(0, 64, 32).astype(np.uint32)  # another b in each lane
    clamps = [0] if mode == "up" else [31]
    controls = [*clamps, 7, 0x1800 | (0 if mode == "up" else 7), 0x1000 | (0 if mode == "up" else 15), 0x1C1F, 0x1E00]
    rows, wants = [], []
    for c in controls:
        for b in (0, 1, 3, 8, 31, 33, None):
            text = f"shfl.sync.{mode}.b32 {{d}}|%p3, {{a}}, {'{b}' if b is None else b}, {c}, -1;"
            sources = [shuffled(mode, lane, int(own[lane]) if b is None else b, c) for lane in LANES]
            rows.append((text, 32))
            wants.append([int(a[source]) for source, _ in sources])
            rows.append((text.replace("{d}|%p3", "%r50|{d}"), "p"))
            wants.append([int(inside) for _, inside in sources])
    for (text, _), got, want in zip(rows, evaluate(rows, {"a": a, "b": own}), wants, strict=True):
        assert got.tolist() == want, text


def among(members: int) -> str:
    """Sets %p5 in the lanes of a mask."""
    return f"mov.u32 %r51, {members}; shr.u32 %r51, %r51, %r1; and.b32 %r51, %r51, 1; setp.ne.u32 %p5, %r51, 0;"


@pytest.mark.parametrize("members", [0xFFFFFFFF, 0x0000FF0F, 0x80000001, 0x00000010])
def test_votes_of_some_lanes(members):
    rng = np.random.default_rng(SEED)
    named = [lane for lane in LANES if members >> lane & 1]
    masks = {"some": rng.integers(0, 2, 32), "all": np.ones(32, int), "none": np.zeros(32, int)}
    inside = among(members)
    for name, bits in masks.items():
        p = bits.astype(np.uint32)
        votes = [int(p[lane]) for lane in named]
        ballot = sum(int(p[lane]) << lane for lane in named)
        for mode, want in {
            "all": all(votes),
            "any": any(votes),
            "uni": all(votes) or not any(votes),
        }.items():
            for negated in ("", "!"):
                if negated:
                    flipped = [1 - v for v in votes]
                    want = {"all": all(flipped), "any": any(flipped), "uni": all(flipped) or not any(flipped)}[mode]
                text = f"setp.eq.u32 {{d}}, 0, 1; {inside} @%p5 vote.sync.{mode}.pred {{d}}, {negated}{{p}}, {members};"
                got = one(text, "p", p=p)
                assert [got[lane] for lane in named] == [int(want)] * len(named), (name, mode, negated)
        got = one(f"{inside} @%p5 vote.sync.ballot.b32 {{d}}, {{p}}, {members};", 32, p=p)
        assert [got[lane] for lane in named] == [ballot] * len(named), name


@pytest.mark.parametrize("members", [0xFFFFFFFF, 0x0000FF0F, 0x80000001, 0x00000010])
def test_matches_of_some_lanes(members):
    named = [lane for lane in LANES if members >> lane & 1]
    words = np.random.default_rng(SEED).integers(0, 3, 32).astype(np.uint32)
    wide = words.astype(np.uint64) << np.uint64(32)
    inside = among(members)
    same = {lane: sum(1 << other for other in named if words[other] == words[lane]) for lane in named}
    for register, values in (("b32", words), ("b64", wide)):
        text = f"{inside} @%p5 match.any.sync.{register} {{d}}, {{a}}, {members};"
        got = one(text, 32, a=values)
        assert [got[lane] for lane in named] == [same[lane] for lane in named]
        for equal in (False, True):
            operand = np.full_like(values, values[3]) if equal else values
            alike = len({int(operand[lane]) for lane in named}) == 1
            text = f"{inside} @%p5 match.all.sync.{register} {{d}}|%p6, {{a}}, {members};"
            got = one(text, 32, a=operand)
            assert [got[lane] for lane in named] == [members if alike else 0] * len(named)
            got = one(text.replace("{d}|%p6", "%r52|{d}"), "p", a=operand)
            assert [got[lane] for lane in named] == [int(alike)] * len(named)


@pytest.mark.parametrize("members", [0xFFFFFFFF, 0x00FF0F00, 0x80000000])
def test_reductions_of_some_lanes(members):
    rng = np.random.default_rng(SEED)
    named = [lane for lane in LANES if members >> lane & 1]
    words = random_words(rng, 32, 32)
    ints = [int(words[lane]) for lane in named]
    signed = [v - (1 << 32) if v >> 31 else v for v in ints]
    fold = lambda f, values: reduce(f, values)  # noqa: E731
    wants = {
        "add.u32": sum(ints),
        "add.s32": sum(ints),
        "min.u32": min(ints),
        "max.u32": max(ints),
        "min.s32": min(signed),
        "max.s32": max(signed),
        "and.b32": fold(lambda x, y: x & y, ints),
        "or.b32": fold(lambda x, y: x | y, ints),
        "xor.b32": fold(lambda x, y: x ^ y, ints),
    }
    inside = among(members)
    for name, want in wants.items():
        got = one(f"{inside} @%p5 redux.sync.{name} {{d}}, {{a}}, {members};", 32, a=words)
        assert [got[lane] for lane in named] == [want & 0xFFFFFFFF] * len(named), name
    floats = rng.standard_normal(32).astype(np.float32)
    bits = floats.view(np.uint32)
    picked = [float(floats[lane]) for lane in named]
    for name, value in {
        "min": min(picked),
        "max": max(picked),
        "min.abs": min(map(abs, picked)),
        "max.abs": max(map(abs, picked)),
    }.items():
        got = one(f"{inside} @%p5 redux.sync.{name}.f32 {{d}}, {{a}}, {members};", 32, a=bits)
        assert [got[lane] for lane in named] == [struct.unpack("I", struct.pack("f", value))[0]] * len(named), name
    spoilt = bits.copy()
    spoilt[named[-1]] = 0x7FC00000
    if len(named) > 1:
        quiet = max(float(floats[lane]) for lane in named[:-1])
        got = one(f"{inside} @%p5 redux.sync.max.f32 {{d}}, {{a}}, {members};", 32, a=spoilt)
        assert np.array(got, np.uint32).view(np.float32)[named[0]] == np.float32(quiet)
        got = one(f"{inside} @%p5 redux.sync.max.NaN.f32 {{d}}, {{a}}, {members};", 32, a=spoilt)
        assert np.isnan(np.array(got, np.uint32).view(np.float32)[named[0]])


LANE_2_OF_4 = "and.b32 %r51, {a}, 3; setp.eq.u32 %p5, %r51, 2;"


def test_activemask_has_the_executing_lanes():
    lanes = np.arange(32, dtype=np.uint32)
    got = one(f"{LANE_2_OF_4} mov.u32 {{d}}, 7; @%p5 activemask.b32 {{d}};", 32, a=lanes)
    assert got == [0x44444444 if lane % 4 == 2 else 7 for lane in LANES]
    assert one("activemask.b32 {d};", 32, a=lanes) == [0xFFFFFFFF] * 32


def test_elect_chooses_the_lowest_lane_of_the_mask():
    lanes = np.arange(32, dtype=np.uint32)
    got = one(f"{LANE_2_OF_4} mov.u32 {{d}}, 77; @%p5 elect.sync {{d}}|%p6, 0x44444444;", 32, a=lanes)
    assert got == [2 if lane % 4 == 2 else 77 for lane in LANES]
    got = one(f"{LANE_2_OF_4} setp.eq.u32 {{d}}, 0, 1; @%p5 elect.sync _|{{d}}, 0x44444444;", "p", a=lanes)
    assert got == [int(lane == 2) for lane in LANES]


def test_movmatrix_transposes():
    tile = np.arange(64, dtype=np.uint16).reshape(8, 8) * 257
    fragment = lambda t: t.reshape(32, 2).copy().view(np.uint32)[:, 0]  # noqa: E731
    got = one("movmatrix.sync.aligned.m8n8.trans.b16 {d}, {a};", 32, a=fragment(tile))
    assert got == fragment(tile.T.copy()).tolist()


def test_special_registers():
    """Indices and extents that a thread reads, in a three-dimensional grid with clusters."""
    names = [
        *(f"{name}.{axis}" for name in ("%tid", "%ntid", "%ctaid", "%nctaid") for axis in "xyz"),
        *(f"{name}.{axis}" for name in ("%cluster_ctaid", "%cluster_nctaid") for axis in "xyz"),
        *(f"{name}.{axis}" for name in ("%clusterid", "%nclusterid") for axis in "xyz"),
        "%cluster_ctarank", "%cluster_nctarank", "%laneid", "%warpid", "%nwarpid",
        "%lanemask_eq", "%lanemask_lt", "%lanemask_le", "%lanemask_gt", "%lanemask_ge", "%dynamic_smem_size",
        "%total_smem_size", *(f"%reserved_smem_offset_{place}" for place in ("begin", "end", "cap", "0", "1")),
    ]  # fmt: skip
    block, grid, cluster = (4, 3, 5), (4, 6, 2), (2, 3, 1)
    threads, ctas = 60, 48
    place = (
        "mov.u32 %r1, %tid.z; mov.u32 %r2, %ntid.y; mov.u32 %r3, %tid.y; mad.lo.u32 %r1, %r1, %r2, %r3;"
        " mov.u32 %r2, %ntid.x;"
        "mov.u32 %r3, %tid.x; mad.lo.u32 %r1, %r1, %r2, %r3; mov.u32 %r4, %ctaid.z; mov.u32 %r5, %nctaid.y;"
        "mov.u32 %r6, %ctaid.y; mad.lo.u32 %r4, %r4, %r5, %r6; mov.u32 %r5, %nctaid.x; mov.u32 %r6, %ctaid.x;"
        f"mad.lo.u32 %r4, %r4, %r5, %r6; mad.lo.u32 %r1, %r4, {threads}, %r1; mul.wide.u32 %rd2, %r1, {4 * len(names)};"
        "ld.param.u64 %rd1, [p]; add.u64 %rd1, %rd1, %rd2;"
        "setp.eq.u32 %p1, %r1, 0; mov.u32 %r9, %reserved_smem_offset_1;"
        "@%p1 st.shared.u32 [%r9+284], 1;"  # the last word of what it names
    )
    text = body(place, *(f"mov.u32 %r9, {name}; st.global.u32 [%rd1+{4 * i}], %r9;" for i, name in enumerate(names)))
    sim = Sim(text)
    out = sim.register(aligned((ctas, threads, len(names)), np.uint32))
    assert sim.launch("k", out, grid=grid, block=block, cluster=cluster, shared=768) == 0, sim.findings
    for z in range(grid[2]):
        for y in range(grid[1]):
            for x in range(grid[0]):
                at = (x, y, z)
                inside = [v % c for v, c in zip(at, cluster, strict=True)]
                rank = inside[0] + cluster[0] * (inside[1] + cluster[1] * inside[2])
                for t in (0, 1, 31, 32, 59):
                    tid = [t % 4, t // 4 % 3, t // 12]
                    lane = t % 32
                    want = [
                        *tid, *block, *at, *grid, *inside, *cluster,
                        *(v // c for v, c in zip(at, cluster, strict=True)),
                        *(g // c for g, c in zip(grid, cluster, strict=True)),
                        rank, 6, lane, t // 32, 2,
                        1 << lane, (1 << lane) - 1, (2 << lane) - 1, (0xFFFFFFFF << lane + 1) & 0xFFFFFFFF,
                        (0xFFFFFFFF << lane) & 0xFFFFFFFF, 768,
                        768, 0, 1024, 1024, 0, 1024 - 288,
                    ]  # fmt: skip
                    got = out[x + grid[0] * (y + grid[1] * z), t].tolist()
                    differing = {
                        n: (g, w) for n, g, w in zip(names, got, want, strict=True) if g != w and n != "%nwarpid"
                    }
                    assert not differing, (at, t, differing)
