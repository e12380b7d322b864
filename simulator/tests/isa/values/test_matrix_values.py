"""wmma and the seldom met forms of mma.sync against numpy. Fragments of mma.sync follow the formulas of the PTX ISA."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.tests.sim_kit import Sim, body

SEED = 20277
LANES = np.arange(32)
GROUP, MEMBER = LANES // 4, LANES % 4
# Types of A and B -> shapes, bytes of an element, and the types of C and D.
HALF = [("f32", "f32"), ("f16", "f16"), ("f16", "f32"), ("f32", "f16")]
WMMA = [
    *(("f16", shape, sums) for shape in ("m16n16k16", "m8n32k16", "m32n8k16") for sums in HALF),
    *((kind, shape, (sums, sums)) for kind, sums in (("bf16", "f32"), ("s8", "s32"), ("u8", "s32"))
      for shape in ("m16n16k16", "m8n32k16", "m32n8k16")),
    ("tf32", "m16n16k8", ("f32", "f32")), ("f64", "m8n8k4", ("f64", "f64")),
    ("s4", "m8n8k32", ("s32", "s32")), ("u4", "m8n8k32", ("s32", "s32")), ("b1", "m8n8k128", ("s32", "s32")),
]  # fmt: skip
NUMBERS = {"f16": np.float16, "f32": np.float32, "f64": np.float64, "s32": np.int32, "tf32": np.float32,
           "s8": np.int8, "u8": np.uint8}  # fmt: skip


def sizes(shape: str) -> tuple[int, int, int]:
    m, rest = shape[1:].split("n")
    n, k = rest.split("k")
    return int(m), int(n), int(k)


def stored(kind: str, values: np.ndarray) -> np.ndarray:
    """The bytes of a matrix in memory, row after row."""
    if kind == "bf16":
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16)
    if kind in ("s4", "u4"):
        nibbles = values.astype(np.int64) & 15
        return (nibbles[:, ::2] | nibbles[:, 1::2] << 4).astype(np.uint8)
    if kind == "b1":
        return np.packbits(values.astype(np.uint8), axis=1, bitorder="little")
    return values.astype(NUMBERS[kind])


def registers(kind: str, rows: int, k: int) -> int:
    if kind in ("f16", "f64"):
        return 8 if kind == "f16" else 1
    return rows * k * {"bf16": 16, "tf32": 32, "s8": 8, "u8": 8, "s4": 4, "u4": 4, "b1": 1}[kind] // 1024


def named(first: int, count: int, kind: str = "b32") -> str:
    letter = "%fd" if kind == "f64" else "%f" if kind == "f32" else "%r"
    return "{" + ", ".join(f"{letter}{first + i}" for i in range(count)) + "}"


def test_wmma_multiplies_matrices_of_each_layout():
    """Sums are exact. Strides are wider than the rows, so that they count. The layout decides where the matrices lie:
    in global memory, in shared memory, or there by generic addresses."""
    rng = np.random.default_rng(SEED)
    for kind, shape, (to, of) in WMMA:
        m, n, k = sizes(shape)
        low, high = {"u8": (0, 9), "u4": (0, 16), "b1": (0, 2), "s4": (-8, 8)}.get(kind, (-8, 9))
        a, b = rng.integers(low, high, (m, k)), rng.integers(low, high, (n, k))  # b by columns
        c = rng.integers(-9, 10, (m, n))
        count = {w: m * n // 32 // (2 if w == "f16" else 1) for w in (to, of)}
        letters = [("row", "col")] if kind in ("s4", "u4", "b1") else [(x, y) for x in ("row", "col")
                                                                       for y in ("row", "col")]  # fmt: skip
        for by_a, by_b in letters:
            by_c, by_d = by_b, by_a
            parts = []
            for values, by, natural, type_ in ((a, by_a, "row", kind), (b, by_b, "col", kind), (c, by_c, "row", of)):
                memory = values if by == natural else values.T
                wide = np.zeros((memory.shape[0], memory.shape[1] + {"b1": 128, "s4": 32, "u4": 32}.get(kind, 16)), int)
                wide[:, : memory.shape[1]] = memory
                parts.append((stored(type_, wide), wide.shape[1]))
            places = np.cumsum([0, *(-(-part.nbytes // 128) * 128 for part, _ in parts)])
            memory = np.zeros(16384, np.uint8)
            for (part, _), at in zip(parts, places, strict=False):
                memory[at : at + part.nbytes] = part.reshape(-1).view(np.uint8)
            out_rows, out_columns = (m, n) if by_d == "row" else (n, m)
            out_at, out_stride = int(places[3]), out_columns + 16
            ra, rb = registers(kind, m, k), registers(kind, n, k)
            fa, fb = (named(1, 1, "f64"), named(2, 1, "f64")) if kind == "f64" else (named(8, ra), named(20, rb))
            fc, fd = (
                named(first if kind_ in ("f32", "f64") else last, count[kind_], kind_)
                for first, last, kind_ in ((4, 30, of), (12, 40, to))
            )
            types = f"{to}.{of}" if kind == "f16" else f"{to}.{kind}.{kind}.{of}"
            op = "and.popc." if kind == "b1" else ""
            base, enter, leave = "%rd1", "", ""
            space = by_b == "col"
            where = ".shared" if space and by_a == "row" else ""
            if space:
                base = "%r1" if by_a == "row" else "%rd9"  # generic addresses of shared memory, too
                copy = "shl.b32 %r3, %r2, 3; cvt.u64.u32 %rd3, %r3; add.s64 %rd4, %rd1, %rd3; add.u32 %r4, %r1, %r3;"
                enter = ("mov.u32 %r1, room; cvt.u64.u32 %rd9, %r1; cvta.shared.u64 %rd9, %rd9; mov.u32 %r2, %tid.x; "
                    + copy + "mov.u32 %r5, 0; IN: "
                         "ld.global.u64 %rd5, [%rd4]; st.shared.u64 [%r4], %rd5; add.s64 %rd4, %rd4, 256; "
                         "add.u32 %r4, %r4, 256; add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 64; @%p1 bra IN; "
                         "bar.sync 0;")  # fmt: skip
                leave = ("bar.sync 0; " + copy + "mov.u32 %r5, 0; OUT: ld.shared.u64 %rd5, [%r4]; "
                         "st.global.u64 [%rd4], %rd5; add.s64 %rd4, %rd4, 256; add.u32 %r4, %r4, 256; "
                         "add.u32 %r5, %r5, 1; setp.lt.u32 %p1, %r5, 64; @%p1 bra OUT;")  # fmt: skip
            text = body(
                "ld.param.u64 %rd1, [p];", enter,
                f"wmma.load.a.sync.aligned.{by_a}.{shape}{where}.{kind} {fa}, [{base}], {parts[0][1]};",
                f"wmma.load.b.sync.aligned.{by_b}.{shape}{where}.{kind} {fb}, [{base}+{places[1]}], {parts[1][1]};",
                f"wmma.load.c.sync.aligned.{by_c}.{shape}{where}.{of} {fc}, [{base}+{places[2]}], {parts[2][1]};",
                f"wmma.mma.{op}sync.aligned.{by_a}.{by_b}.{shape}.{types} {fd}, {fa}, {fb}, {fc};",
                f"wmma.store.d.sync.aligned.{by_d}.{shape}{where}.{to} [{base}+{out_at}], {fd}, {out_stride};",
                leave, registers=".shared .align 128 .b8 room[16384];",
            )  # fmt: skip
            sim = Sim(text)
            out = sim.buffer(memory)
            assert sim.launch("k", out) == 0 and sim.verdict == "clean", (text, sim.findings)
            dtype = np.dtype(NUMBERS[to])
            end = out_at + (out_rows - 1) * out_stride * dtype.itemsize + out_columns * dtype.itemsize
            flat = np.zeros(out_rows * out_stride, dtype)
            flat.view(np.uint8)[: end - out_at] = out[out_at:end]
            got = flat.reshape(out_rows, out_stride)[:, :out_columns]
            got = got if by_d == "row" else got.T
            assert (got == a @ b.T + c).all(), (kind, shape, by_a, by_b, to, of, got, a @ b.T + c)


def run_mma(text: str, a: np.ndarray, b: np.ndarray, c: np.ndarray, count: int) -> np.ndarray:
    """Words of D by register and lane; a, b and c have the words of A's, B's and C's registers."""
    wide = a.dtype.itemsize == 8
    bits, letter, size = (64, "%fd", 8) if wide else (32, "%r", 4)
    lines = ["ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 8; add.s64 %rd2, %rd1, %rd2;"]
    data = np.zeros((40, 32), np.uint64)
    lists = []
    for part in (a, b, c):
        names = []
        for word in part:
            at = sum(len(names_) for names_ in lists) + len(names)
            data[at] = word.view(np.uint64) if wide else word
            register = f"{letter}{(0 if wide else 8) + at}"
            lines.append(f"ld.global.b{bits} {register}, [%rd2+{at * 256}];")
            names.append(register)
        lists.append(names)
    where = 0 if wide else 40
    lists.append([f"{letter}{where + i + (len(a) + len(b) + len(c) if wide else 0)}" for i in range(count)])
    lines.append(text.format(*("{" + ", ".join(names) + "}" for names in lists)))
    lines += [f"st.global.b{bits} [%rd2+{i * 256}], {register};" for i, register in enumerate(lists[3])]
    sim = Sim(body(*lines, registers=".reg .f64 %fd<40>;").replace(".reg .f64 %fd<16>;", ""))
    out = sim.buffer(data)
    assert sim.launch("k", out) == 0 and sim.verdict == "clean", sim.findings
    assert size in (4, 8)
    got = out.reshape(40, 32)[:count]
    return got.view(np.float64) if wide else got.astype(np.uint32)


@pytest.mark.parametrize("shape", ["m8n8k4", "m16n8k4", "m16n8k8", "m16n8k16"])
def test_products_of_doubles_and_their_rounding(shape):
    m, _, k = sizes(shape)
    rng = np.random.default_rng(SEED)
    a, b, c = (rng.integers(-9, 10, size).astype(np.float64) for size in ((m, k), (8, k), (m, 8)))
    groups = m // 8
    fa = np.array([a[GROUP + i % groups * 8, i // groups * 4 + MEMBER] for i in range(m * k // 32)])
    fb = np.array([b[GROUP, i * 4 + MEMBER] for i in range(k // 4)])
    places = [(GROUP + i // 2 * 8, MEMBER * 2 + i % 2) for i in range(m // 4)]
    fc = np.array([c[place] for place in places])
    name = f"mma.sync.aligned.{shape}.row.col.f64.f64.f64.f64"
    got = run_mma(name + " {3}, {0}, {1}, {2};", fa, fb, fc, m // 4)
    want = a @ b.T + c
    assert (got == np.array([want[place] for place in places])).all()
    # C = 1 and one product of 2^-60: only rounding up shows it.
    fa[:], fb[:], fc[:] = 0, 0, 1
    fa[0], fb[0] = 2.0**-30, np.where(MEMBER == 0, 2.0**-30, 0)
    for rounding, more in ((".rn", 0), (".rz", 0), (".rm", 0), (".rp", 2.0**-52)):
        got = run_mma(f"{name}{rounding} {{3}}, {{0}}, {{1}}, {{2}};", fa, fb, fc, m // 4)
        assert (got[0] == 1 + more).all(), rounding


@pytest.mark.parametrize("shape", ["m8n8k128", "m16n8k128", "m16n8k256"])
def test_counts_of_bits(shape):
    m, _, k = sizes(shape)
    rng = np.random.default_rng(SEED)
    a, b = rng.integers(0, 2, (m, k)), rng.integers(0, 2, (8, k))
    c = rng.integers(-99, 100, (m, 8))
    words = [np.packbits(x.astype(np.uint8), axis=1, bitorder="little").view(np.uint32) for x in (a, b)]
    groups = m // 8
    fa = np.array([words[0][GROUP + i % groups * 8, MEMBER + i // groups * 4] for i in range(m * k // 1024)])
    fb = np.array([words[1][GROUP, MEMBER + i * 4] for i in range(k // 128)])
    places = [(GROUP + i // 2 * 8, MEMBER * 2 + i % 2) for i in range(m // 4)]
    fc = np.array([c[place].astype(np.uint32) for place in places])
    for op, want in (("and", a @ b.T + c), ("xor", (a[:, None] != b[None]).sum(2) + c)):
        text = f"mma.sync.aligned.{shape}.row.col.s32.b1.b1.s32.{op}.popc {{3}}, {{0}}, {{1}}, {{2}};"
        got = run_mma(text, fa, fb, fc, m // 4).astype(np.int32)
        assert (got == np.array([want[place] for place in places])).all(), op


@pytest.mark.parametrize(("shape", "a_type", "b_type"), [("m8n8k16", "s8", "u8"), ("m8n8k32", "u4", "s4")])
def test_small_products_of_integers(shape, a_type, b_type):
    _, _, k = sizes(shape)
    rng = np.random.default_rng(SEED)
    bits = int(a_type[1])
    ranges = {t: (0, 1 << bits) if t[0] == "u" else (-1 << (bits - 1), 1 << (bits - 1)) for t in (a_type, b_type)}
    a, b = rng.integers(*ranges[a_type], (8, k)), rng.integers(*ranges[b_type], (8, k))
    words = [(stored("s4", x) if bits == 4 else x.astype(np.uint8)).view(np.uint32) for x in (a, b)]
    c = np.full((8, 8), 2**31 - 1)
    c[:, ::2] = rng.integers(-99, 100, (8, 4))
    fa, fb = (np.array([x[GROUP, MEMBER]]) for x in words)
    places = [(GROUP, MEMBER * 2 + i) for i in range(2)]
    fc = np.array([c[place].astype(np.uint32) for place in places])
    for mode, limit in (("", lambda x: x.astype(np.int32)), (".satfinite", lambda x: np.clip(x, -(2**31), 2**31 - 1))):
        text = f"mma.sync.aligned.{shape}.row.col{mode}.s32.{a_type}.{b_type}.s32 {{3}}, {{0}}, {{1}}, {{2}};"
        got = run_mma(text, fa, fb, fc, 2).astype(np.int32)
        want = limit(a @ b.T + c)
        assert (got == np.array([want[place] for place in places])).all(), mode


@pytest.mark.parametrize("to", ["f16", "f32"])
def test_four_products_of_quads(to):
    """m8n8k4 of f16: lanes 4 q to 4 q + 3 and 16 further hold product q (PTX ISA, Matrix Fragments for mma.m8n8k4)."""
    rng = np.random.default_rng(SEED)
    a, b, c = (rng.integers(-9, 10, size) for size in ((4, 8, 4), (4, 4, 8), (4, 8, 8)))
    quad, upper, own = LANES % 16 // 4, LANES // 16 * 4, LANES % 4
    pair = lambda halves: np.array([halves[i].astype(np.float16).view(np.uint16).astype(np.uint32)  # noqa: E731
                                    | halves[i + 1].astype(np.float16).view(np.uint16).astype(np.uint32) << 16
                                    for i in range(0, len(halves), 2)])  # fmt: skip
    if to == "f16":
        places = [(quad, own + upper, np.full(32, i)) for i in range(8)]
    else:
        places = [(quad, (LANES & 1) + (i & 2) + upper, (i & 4) + (LANES & 2) + (i & 1)) for i in range(8)]
    numbers = [c[place] for place in places]
    fc = pair(numbers) if to == "f16" else np.array([x.astype(np.float32).view(np.uint32) for x in numbers])
    want = a @ b + c
    for by_a in ("row", "col"):
        for by_b in ("row", "col"):
            fa = [a[quad, own + upper, i] if by_a == "row" else a[quad, i + upper, own] for i in range(4)]
            fb = [b[quad, own, i + upper] if by_b == "row" else b[quad, i, own + upper] for i in range(4)]
            text = f"mma.sync.aligned.m8n8k4.{by_a}.{by_b}.{to}.f16.f16.{to} {{3}}, {{0}}, {{1}}, {{2}};"
            got = run_mma(text, pair(fa), pair(fb), fc, len(fc))
            if to == "f16":
                got = [(got[i // 2] >> i % 2 * 16).astype(np.uint16).view(np.float16) for i in range(8)]
            else:
                got = [x.view(np.float32) for x in got]
            assert all((x == want[place]).all() for x, place in zip(got, places, strict=True)), (by_a, by_b)
