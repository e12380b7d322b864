"""ld and st of every type, width and space, and atomics of every operation and type, compared with Python."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.tests.isa.values import float_oracle as ieee
from simulator.tests.isa.values.float_oracle import BF16, F16, F32, F64
from simulator.tests.isa.values.value_table import edges, every_pair, signed
from simulator.tests.sim_kit import PtxError, Sim, body

SEED = 20267
SPACES = {
    "global": ("ld.param.u64 %rd3, [p];", "global", "%rd3"),
    "shared": ("mov.u32 %r3, cell;", "shared", "%r3"),
    "shared::cluster": ("mov.u32 %r3, cell;", "shared::cluster", "%r3"),
    "generic global": ("ld.param.u64 %rd3, [p];", "", "%rd3"),
    "generic shared": ("mov.u64 %rd3, cell; cvta.shared.u64 %rd3, %rd3;", "", "%rd3"),
    "local": ("mov.u64 %rd3, depot;", "local", "%rd3"),
    "generic local": ("mov.u64 %rd3, depot; cvta.local.u64 %rd3, %rd3;", "", "%rd3"),
}
ROOM = ".shared .align 128 .b8 cell[256]; .local .align 32 .b8 depot[256];"
FILL = 0x0123456789ABCDEF, 0xFEDCBA9876543210, 0x8040201008040201, 0x7F3F1F0F07030180


def run_one(lines: str, space: str) -> np.ndarray:
    """One thread fills 32 bytes of a space, executes the lines, then stores the 32 bytes and %rd20 to %rd23."""
    setup, name, base = SPACES[space]
    dot = f".{name}" if name else ""
    text = body(
        setup,
        *(f"mov.u64 %rd10, {value}; st{dot}.u64 [{base}+{8 * i}], %rd10;" for i, value in enumerate(FILL)),
        *(f"mov.u64 %rd{20 + i}, 0;" for i in range(4)),
        lines.replace("SPACE", dot).replace("BASE", base),
        "ld.param.u64 %rd1, [out];",
        *(f"ld{dot}.u64 %rd10, [{base}+{8 * i}]; st.global.u64 [%rd1+{8 * i}], %rd10;" for i in range(4)),
        *(f"st.global.u64 [%rd1+{32 + 8 * i}], %rd{20 + i};" for i in range(4)),
        params=".param .u64 out, .param .u64 p",
        registers=ROOM + " .reg .b8 %b<9>;",
    )
    sim = Sim(text)
    out = sim.buffer(np.zeros(8, np.uint64))
    assert sim.launch("k", out, sim.buffer(np.zeros(32, np.uint64)), block=1) == 0, sim.findings
    assert sim.verdict == "clean", sim.findings
    return out


IMAGE = np.array(FILL, np.uint64).view(np.uint8)
TYPES = [f"{kind}{bits}" for bits in (8, 16, 32, 64) for kind in "usb"]


@pytest.mark.parametrize("space", SPACES)
def test_loads_of_every_type_extend_into_wider_registers(space):
    lines, wants = [], []
    for kind in TYPES:
        size = int(kind[1:])
        for offset in (0, 24):
            raw = int.from_bytes(IMAGE[offset : offset + size // 8].tobytes(), "little")
            value = signed(raw, size) if kind[0] == "s" else raw
            register = "%r30" if size <= 32 and offset else "%rd30"
            lines.append(f"ldSPACE.{kind} {register}, [BASE+{offset}];")
            width = 32 if register == "%r30" else 64
            lines.append(f"cvt.u64.u{width} %rd31, {register};")
            lines.append("mul.lo.u64 %rd20, %rd20, 31; add.u64 %rd20, %rd20, %rd31;")
            wants.append(value % (1 << width))
            if size <= 16:
                lines.append(f"ldSPACE.{kind} %rs30, [BASE+{offset}]; cvt.u64.u16 %rd31, %rs30;")
                lines.append("mul.lo.u64 %rd20, %rd20, 31; add.u64 %rd20, %rd20, %rd31;")
                wants.append(value % (1 << 16))
    got = run_one("\n".join(lines), space)
    total = 0
    for want in wants:  # a polynomial of all values
        total = (total * 31 + want) % (1 << 64)
    assert int(got[4]) == total


VECTORS = [(f"u{bits}", n) for bits in (8, 16, 32) for n in (1, 2, 4)] + [
    ("u64", 1),
    ("u64", 2),
    ("f32", 4),
    ("f64", 2),
]


@pytest.mark.parametrize("space", SPACES)
@pytest.mark.parametrize(("kind", "elements"), VECTORS)
def test_stores_and_loads_of_vectors(space, kind, elements):
    size = int(kind[1:]) // 8
    register = {1: "%rs", 2: "%rs", 4: "%r", 8: "%rd"}[size]
    register = {"f32": "%f", "f64": "%fd"}.get(kind, register)
    bits = {1: 16, 2: 16, 4: 32, 8: 64}[size]
    values = [(0x1122334455667788 * (i + 3)) % (1 << 8 * size) for i in range(elements)]
    low = 4 if register == "%fd" else 40 if register == "%r" else 4
    names = [f"{register}{low + i}" for i in range(elements)]
    group = lambda items: f"{{{', '.join(items)}}}" if elements > 1 else items[0]  # noqa: E731
    vector = f".v{elements}" if elements > 1 else ""
    lines = [f"mov.b{bits} {n}, {v};" for n, v in zip(names, values, strict=True)]
    lines.append(f"stSPACE{vector}.{kind} [BASE+16], {group(names)};")
    moved = [f"{register}{low + elements + i}" for i in range(elements)]
    lines.append(f"ldSPACE{vector}.{kind} {group(moved)}, [BASE+16];")
    lines += [f"mov.b64 %rd{20 + i}, {n};" if bits == 64 else f"cvt.u64.u{bits} %rd{20 + i}, {n};" if register[1] != "f"
              else f"mov.b32 %r50, {n}; cvt.u64.u32 %rd{20 + i}, %r50;" for i, n in enumerate(moved)]  # fmt: skip
    got = run_one("\n".join(lines), space)
    want = IMAGE.copy()
    want[16 : 16 + size * elements] = np.frombuffer(b"".join(v.to_bytes(size, "little") for v in values), np.uint8)
    assert got[:4].tobytes() == want.tobytes()
    assert got[4 : 4 + elements].tolist() == values


def test_uniform_loads_give_the_words_in_memory():
    """PTX ISA, ldu: a load of read-only data at an address that the warp shares."""
    lines = "ldu.global.u32 %r10, [%rd3]; ldu.global.v2.u64 {%rd20, %rd21}, [%rd3+16]; cvt.u64.u32 %rd22, %r10;"
    assert run_one(lines, "global")[4:7].tolist() == [FILL[2], FILL[3], FILL[0] & 0xFFFFFFFF]


@pytest.mark.parametrize("space", ["global", "shared"])
def test_a_sink_in_a_vector_leaves_the_others(space):
    got = run_one("ldSPACE.v2.u64 {_, %rd20}, [BASE+16]; ldSPACE.v4.u32 {%r40, _, _, %r41}, [BASE];"
                  " mov.b64 %rd21, {%r40, %r41};", space)  # fmt: skip
    assert int(got[4]) == FILL[3]
    assert int(got[5]) == (FILL[1] >> 32) << 32 | FILL[0] & 0xFFFFFFFF


# ---- atomics ----

INTEGER = {
    "add": lambda a, b: a + b,
    "min": min,
    "max": max,
    "and": lambda a, b: a & b,
    "or": lambda a, b: a | b,
    "xor": lambda a, b: a ^ b,
    "exch": lambda a, b: b,
    "inc": lambda a, b: 0 if a >= b else a + 1,
    "dec": lambda a, b: b if a == 0 or a > b else a - 1,
}
ATOMICS = {
    "u32": ("add", "min", "max", "inc", "dec"),
    "s32": ("add", "min", "max"),
    "b32": ("and", "or", "xor", "exch"),
    "u64": ("add", "min", "max"),
    "s64": ("min", "max"),
    "b64": ("and", "or", "xor", "exch"),
}


def atomics(kind: str, bits: int, ops: list[str], a: np.ndarray, b: np.ndarray, space: str) -> tuple[list, list]:
    """Each operation's old and new values, with one thread per pair; ops are texts with OLD, AT and B."""
    name = {16: "%rs", 32: "%r", 64: "%rd"}[bits]
    count, size = len(a), bits // 8
    lines = [
        "mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; mad.lo.u32 %r1, %r2, 32, %r1; ld.param.u64 %rd1, [out];",
        f"mul.wide.u32 %rd2, %r1, 16; add.u64 %rd1, %rd1, %rd2; mul.wide.u32 %rd3, %r1, {size}; ld.param.u64 %rd4, [a];"
        f"ld.param.u64 %rd5, [b]; add.u64 %rd4, %rd4, %rd3; add.u64 %rd5, %rd5, %rd3;"
        f" ld.global.b{bits} {name}20, [%rd4];"
        f"ld.global.b{bits} {name}21, [%rd5]; mov.u32 %r3, cell; mov.u32 %r4, %tid.x; mad.lo.u32 %r3, %r4, 8, %r3;",
    ]
    for i, op in enumerate(ops):
        place = f"%rd1+{8 + 16 * i * count}" if space == "global" else "%r3"
        lines.append(f"st.{space}.b{bits} [{place}], {name}20;")
        lines.append(op.replace("OLD", f"{name}22").replace("AT", f"[{place}]").replace("B", f"{name}21"))
        lines.append(f"ld.{space}.b{bits} {name}23, [{place}]; st.global.b{bits} [%rd1+{16 * i * count}], {name}22;")
        if space != "global":
            lines.append(f"st.global.b{bits} [%rd1+{8 + 16 * i * count}], {name}23;")
    text = body(*lines, params=".param .u64 out, .param .u64 a, .param .u64 b", registers=ROOM)
    sim = Sim(text)
    out = sim.buffer(np.zeros((len(ops), count, 2), np.uint64))
    assert sim.launch("k", out, sim.buffer(a), sim.buffer(b), grid=count // 32) == 0, sim.findings
    mask = np.uint64((1 << bits) - 1)
    return (out[:, :, 0] & mask).tolist(), (out[:, :, 1] & mask).tolist()


def padded(values: np.ndarray) -> np.ndarray:
    return np.resize(values, -(-len(values) // 32) * 32)


@pytest.mark.parametrize("space", ["global", "shared"])
@pytest.mark.parametrize("kind", ATOMICS)
def test_atomics_of_integers(kind, space):
    bits = int(kind[1:])
    a, b = (padded(v) for v in every_pair(edges(bits)[::2], bits))
    read = (lambda v: signed(v, bits)) if kind[0] == "s" else int
    texts = [f"atom.{space}.{op}.{kind} OLD, AT, B;" for op in ATOMICS[kind]]
    texts += [f"mov.b{bits} OLD, 0; red.{space}.{op}.{kind} AT, B;" for op in ATOMICS[kind] if op != "exch"]
    texts += [f"atom.{space}.acq_rel.gpu.cas.b{bits} OLD, AT, 1, B;"] if kind[0] == "b" else []
    old, new = atomics(kind, bits, texts, a, b, space)
    for text, olds, news in zip(texts, old, new, strict=True):
        for x, y, before, after in zip(a.tolist(), b.tolist(), olds, news, strict=True):
            if ".cas." in text:
                want = y if x == 1 else x
            else:
                op = text.split(f"{space}.")[1].split(".")[0]
                want = INTEGER[op](read(x), read(y)) & ((1 << bits) - 1)
            assert after == want, (text, hex(x), hex(y), hex(after), hex(want))
            assert before == (0 if " red." in text else x), (text, hex(x), hex(before))


@pytest.mark.parametrize("space", ["global", "shared"])
def test_atomics_of_floats(space):
    for kind, form in (("f32", F32), ("f64", F64)):
        values = [
            v for v in ieee.edges(form) if ieee.flushed(form, v) == v
        ]  # PTX does not guarantee subnormals in global memory
        a, b = (padded(v) for v in every_pair(values[::2], form.bits))
        (olds,), (news,) = atomics(kind, form.bits, [f"atom.{space}.add.{kind} OLD, AT, B;"], a, b, space)
        for x, y, before, after in zip(a.tolist(), b.tolist(), olds, news, strict=True):
            want = ieee.add(form, x, y)
            same = ieee.is_nan(form, after) if ieee.is_nan(form, want) else after == want
            assert before == x
            assert same or ieee.flushed(form, want) != want, (kind, hex(x), hex(y), hex(after), hex(want))
    rng = np.random.default_rng(SEED)
    for kind, form in (("f16", F16), ("bf16", BF16)):
        a, b = (padded(v) for v in every_pair(ieee.edges(form)[::2], 16))
        functions = {
            "add.noftz": lambda x, y, f=form: ieee.add(f, x, y),
            "min": lambda x, y, f=form: ieee.extreme(f, x, y, False),
            "max": lambda x, y, f=form: ieee.extreme(f, x, y, True),
        }
        texts = [f"atom.{space}.{op}.{kind} OLD, AT, B;" for op in functions]
        _, new = atomics(kind, 16, texts, a, b, space)
        for f, news in zip(functions.values(), new, strict=True):
            for x, y, after in zip(a.tolist(), b.tolist(), news, strict=True):
                same_zero = {x, y} == {0, 0x8000} and after & 0x7FFF == 0
                assert after == f(x, y) or same_zero, (kind, hex(x), hex(y), hex(after))
        wide = [v.astype(np.uint32) | rng.permutation(v).astype(np.uint32) << 16 for v in (a, b)]
        texts = [f"atom.{space}.{op}.{kind}x2 OLD, AT, B;" for op in functions]
        _, new = atomics(f"{kind}x2", 32, texts, *wide, space)
        for f, news in zip(functions.values(), new, strict=True):
            for x, y, after in zip(wide[0].tolist(), wide[1].tolist(), news, strict=True):
                for shift in (0, 16):
                    p, q, r = (v >> shift & 0xFFFF for v in (x, y, after))
                    assert r == f(p, q) or ({p, q} == {0, 0x8000} and r & 0x7FFF == 0), (
                        kind,
                        hex(x),
                        hex(y),
                        hex(after),
                    )


@pytest.mark.parametrize("kind", ["f32", "f64"])
@pytest.mark.parametrize("op", ["min", "max", "and", "inc"])
def test_f32_and_f64_atomics_have_add_only(kind, op):
    register = "%f1" if kind == "f32" else "%fd1"
    Sim(body(f"red.global.add.{kind} [%rd1], {register};"))
    with pytest.raises(PtxError, match=rf"\.{kind} has only \.add"):
        Sim(body(f"red.global.{op}.{kind} [%rd1], {register};"))


def test_vectors_of_atomics():
    text = body(
        "ld.param.u64 %rd1, [p]; mov.f32 %f1, 0f3F800000; mov.f32 %f2, 0f40000000;"
        " mov.f32 %f3, 0f40400000; mov.f32 %f4, 0f40800000;",
        "atom.global.v4.f32.add {%f5, %f6, %f7, %f8}, [%rd1], {%f1, %f2, %f3, %f4};",
        "st.global.v4.f32 [%rd1+32], {%f5, %f6, %f7, %f8}; red.global.v2.f32.add [%rd1+16], {%f3, %f4};",
    )
    for order in (text, text.replace("v4.f32.add", "add.v4.f32").replace("v2.f32.add", "add.v2.f32")):
        sim = Sim(order)
        out = sim.buffer(np.arange(10, 22, dtype=np.float32))
        assert sim.launch("k", out, block=1) == 0, sim.findings
        assert out.tolist() == [11, 13, 15, 17, 17, 19, 16, 17, 10, 11, 12, 13]


@pytest.mark.parametrize("space", ["global", "shared"])
def test_a_warps_atomics_come_one_after_another(space):
    """All lanes update one word: every old value is another lane's new one."""
    base = (
        "ld.param.u64 %rd3, [p];"
        if space == "global"
        else "mov.u32 %r3, cell; @%p1 st.shared.u32 [%r3], 0; bar.warp.sync -1;"
    )
    register = "%rd3" if space == "global" else "%r3"
    text = body(
        "mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; mov.u32 %r9, 0;",
        base.replace("], 0", "], %r9"),
        f"atom.{space}.add.u32 %r4, [{register}], %r1; ld.param.u64 %rd1, [p];"
        f" mul.wide.u32 %rd2, %r1, 4; add.u64 %rd1, %rd1, %rd2;",
        "st.global.u32 [%rd1+128], %r4;",
        registers=ROOM,
    )
    sim = Sim(text)
    out = sim.buffer(np.zeros(64, np.uint32))
    assert sim.launch("k", out) == 0, sim.findings
    assert sorted(out[32:].tolist()) == sorted(np.cumsum([0, *range(31)]).tolist())


def test_accesses_of_mapped_registers_are_strong_accesses():
    """PTX ISA, ld.mmio and st.mmio: .relaxed.sys accesses of global memory."""
    sim = Sim(
        body(
            "ld.param.u64 %rd1, [p]; ld.mmio.relaxed.sys.global.u32 %r5, [%rd1]; add.u32 %r5, %r5, 1;",
            "st.mmio.relaxed.sys.global.u32 [%rd1+4], %r5;",
        )
    )
    words = sim.buffer(np.array([41, 0], np.uint32))
    sim.launch("k", words, block=1)
    assert (sim.verdict, words.tolist()) == ("clean", [41, 42])
