"""mma.sync with block scales and .kind::f8f6f4 on sm_120a, and ldmatrix and stmatrix of 8-bit elements: fragments,
scales and selectors against the PTX ISA's formulas, restated here; sums that are exact."""

from __future__ import annotations

import itertools

import numpy as np
import pytest

from simulator.tests.sim_kit import PtxError, Sim, body
from simulator.validation.fused_sum import Rule, vectors

SM120 = ("sm_90a", "sm_120a")
# name: exponent bits, fraction bits, exponent bias, position in the byte
FORMATS = {
    "e4m3": (4, 3, 7, 0),
    "e5m2": (5, 2, 15, 0),
    "e3m2": (3, 2, 3, 0),
    "e2m3": (2, 3, 1, 0),
    "e2m1": (2, 1, 1, 2),
}


def number(name: str, code: int) -> float:
    exponent_bits, fraction_bits, bias, _ = FORMATS[name]
    fraction, exponent = code & (1 << fraction_bits) - 1, code >> fraction_bits & (1 << exponent_bits) - 1
    size = (fraction / 2**fraction_bits + (exponent > 0)) * 2.0 ** (max(exponent, 1) - bias)
    return -size if code >> exponent_bits + fraction_bits else size


def scale(kind: str, code: int) -> float:
    return 2.0 ** (code - 127) if kind == "ue8m0" else number("e4m3", code)


def kernel(form: str, halves: bool = False) -> str:
    """A kernel whose lanes load their fragments from an array of words; the selectors are parameters."""
    d = "{%r30, %r31}" if halves else "{%f5, %f6, %f7, %f8}"
    c = "{%r28, %r29}" if halves else "{%f1, %f2, %f3, %f4}"
    scales = ", %r7, {%rs1, %rs2}, {%r8}, {%rs3, %rs4}" if "block_scale" in form else ""
    return body(
        "mov.u32 %r1, %tid.x; mul.wide.u32 %rd9, %r1, 48; ld.param.u64 %rd1, [in]; add.u64 %rd1, %rd1, %rd9;",
        "ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd1]; ld.global.v2.u32 {%r14, %r15}, [%rd1+16];",
        "ld.global.v2.u32 {%r7, %r8}, [%rd1+24]; ld.global.v4.f32 {%f1, %f2, %f3, %f4}, [%rd1+32];",
        "ld.global.v2.u32 {%r28, %r29}, [%rd1+32];",
        "ld.param.u16 %rs1, [ba]; ld.param.u16 %rs2, [ta]; ld.param.u16 %rs3, [bb]; ld.param.u16 %rs4, [tb];",
        f"mma.sync.aligned.{form} {d}, {{%r10, %r11, %r12, %r13}}, {{%r14, %r15}}, {c}{scales};",
        "mul.wide.u32 %rd9, %r1, 16; ld.param.u64 %rd2, [out]; add.u64 %rd2, %rd2, %rd9;",
        "st.global.v2.u32 [%rd2], {%r30, %r31};" if halves else "st.global.v4.f32 [%rd2], {%f5, %f6, %f7, %f8};",
        params=".param .u64 out, .param .u64 in, .param .u16 ba, .param .u16 ta, .param .u16 bb, .param .u16 tb",
    ).replace(*SM120)


def fragments(a: np.ndarray, b: np.ndarray, packed: bool) -> np.ndarray:
    """Each lane's words for A (16 x K) and B (K x 8), by PTX ISA, Matrix Fragments for mma.m16n8k64 / m16n8k32."""
    each = 8 if packed else 4  # elements of a register
    words = np.zeros((32, 12), np.uint64)
    for lane, i in itertools.product(range(32), range(4 * each)):
        group, thread = lane >> 2, lane & 3
        row = group if i // each in (0, 2) else group + 8
        column = thread * each + i % each + (4 * each if i >= 2 * each else 0)
        words[lane, i // each] |= int(a[row, column]) << (32 // each * (i % each))
        if i < 2 * each:
            k = thread * each + i % each + (4 * each if i >= each else 0)
            words[lane, 4 + i // each] |= int(b[k, group]) << (32 // each * (i % each))
    return words


def result(out: np.ndarray) -> np.ndarray:
    d = np.zeros((16, 8), out.dtype)
    for lane, i in itertools.product(range(32), range(4)):
        d[lane // 4 + i // 2 * 8, lane % 4 * 2 + i % 2] = out[lane, i]
    return d


def exact_codes(name: str) -> list[int]:
    """Values of both signs, close enough to each other that no sum is rounded."""
    bits = 1 + sum(FORMATS[name][:2])
    return [code for code in range(1 << bits) if number(name, code) == 0 or 0.25 <= abs(number(name, code)) <= 8]


SCALED = [  # kind, scales per row, scale type, element types of A and B
    ("mxf4nvf4", 4, "ue4m3", "e2m1", "e2m1"),
    ("mxf4nvf4", 4, "ue8m0", "e2m1", "e2m1"),
    ("mxf4nvf4", 2, "ue8m0", "e2m1", "e2m1"),
    ("mxf4", 2, "ue8m0", "e2m1", "e2m1"),
    ("mxf8f6f4", 1, "ue8m0", "e4m3", "e2m1"),
    ("mxf8f6f4", 1, "ue8m0", "e2m3", "e5m2"),
    ("mxf8f6f4", 1, "ue8m0", "e2m1", "e3m2"),
]


@pytest.mark.parametrize(("kind", "count", "stype", "first", "second"), SCALED)
def test_selectors_choose_the_scales(kind, count, stype, first, second):
    packed, rng = kind != "mxf8f6f4", np.random.default_rng(7)
    depth = 64 if packed else 32
    vector = f".scale_vec::{count}X" if kind == "mxf4nvf4" or count == 1 else ""
    sim = Sim(kernel(f"m16n8k{depth}.row.col.kind::{kind}.block_scale{vector}.f32.{first}.{second}.f32.{stype}"))
    codes = np.array({"ue8m0": [126, 127, 128, 129], "ue4m3": [0x38, 0x3C, 0x40, 0x34]}[stype])
    out = sim.buffer(np.zeros((32, 4), np.float32))
    for byte_a, thread_a, byte_b, thread_b in itertools.product(
        range(0, 4, count), range(2), range(0, 4, count), range(4)
    ):
        a, b = rng.choice(exact_codes(first), (16, depth)), rng.choice(exact_codes(second), (depth, 8))
        shift = (0, 0) if packed else (FORMATS[first][3], FORMATS[second][3])
        words = fragments(a << shift[0], b << shift[1], packed)
        c = rng.integers(-8, 8, (16, 8)).astype(np.float32)
        sfa, sfb = rng.choice(codes, (16, count)), rng.choice(codes, (8, count))
        words[:, 6:8] = 0xFFFFFFFF  # NaN in the bytes that no selector chooses
        for row, at in itertools.product(range(16), range(count)):
            lane, byte = row % 8 * 4 + 2 * thread_a + row // 8, byte_a + at
            words[lane, 6] = int(words[lane, 6]) & ~(0xFF << 8 * byte) | int(sfa[row, at]) << 8 * byte
        for column, at in itertools.product(range(8), range(count)):
            lane, byte = column * 4 + thread_b, byte_b + at
            words[lane, 7] = int(words[lane, 7]) & ~(0xFF << 8 * byte) | int(sfb[column, at]) << 8 * byte
        full = words.astype(np.uint32)
        for lane, i in itertools.product(range(32), range(4)):
            full[lane, 8 + i] = c[lane // 4 + i // 2 * 8, lane % 4 * 2 + i % 2].view(np.uint32)
        assert sim.launch("k", out, sim.buffer(full), byte_a, thread_a, byte_b, thread_b) == 0, sim.findings
        x = np.vectorize(lambda v: number(first, v))(a) * np.repeat(
            np.vectorize(lambda v: scale(stype, v))(sfa), depth // count, axis=1
        )
        y = (
            np.vectorize(lambda v: number(second, v))(b)
            * np.repeat(np.vectorize(lambda v: scale(stype, v))(sfb), depth // count, axis=1).T
        )
        assert (result(out) == (x @ y + c).astype(np.float32)).all(), (byte_a, thread_a, byte_b, thread_b)
    assert sim.verdict == "clean"


def test_rounded_sums_match_the_restated_rule():
    """Any codes, scale factors (with NaN and signs) and accumulators: bit for bit as restated in integers."""
    sim = Sim(kernel("m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue4m3"))
    restated = Rule("e2m1", "e2m1", bits=35, scale="ue4m3", block=16, grouped=True)
    rng, out = np.random.default_rng(11), sim.buffer(np.zeros((32, 4), np.float32))
    for high in (8, 0x60, 0x7F, 0x100):
        a, b = rng.integers(0, 16, (16, 64)), rng.integers(0, 16, (8, 64))
        sfa, sfb = (rng.integers(0, high, (rows, 4)).astype(np.uint8) for rows in (16, 8))
        c = (rng.standard_normal((16, 8)) * 2.0 ** rng.integers(-20, 30, (16, 8))).astype(np.float32).view(np.uint32)
        words = fragments(a, b.T, True)
        for lane in range(32):
            words[lane, 6] = int.from_bytes(sfa[lane // 4 + lane % 2 * 8].tobytes(), "little")
            words[lane, 7] = int.from_bytes(sfb[lane // 4].tobytes(), "little")
        full = words.astype(np.uint32)
        for lane, i in itertools.product(range(32), range(4)):
            full[lane, 8 + i] = c[lane // 4 + i // 2 * 8, lane % 4 * 2 + i % 2]
        assert sim.launch("k", out, sim.buffer(full), 0, 0, 0, 0) == 0, sim.findings
        got, want = result(out.view(np.uint32)), vectors(restated, a, b, c, sfa, sfb)
        nan = np.isnan(want.view(np.float32))
        assert (np.isnan(got.view(np.float32)) == nan).all() and (got[~nan] == want[~nan]).all(), high
        assert nan.any() == (high == 0x100), "some vectors of every byte have a NaN, and no others"


def test_kind_f8f6f4_ignores_the_padding_of_elements():
    rng = np.random.default_rng(8)
    for first, second, halves in itertools.product(FORMATS, FORMATS, (False, True)):
        to = "f16" if halves else "f32"
        sim = Sim(kernel(f"m16n8k32.row.col.kind::f8f6f4.{to}.{first}.{second}.{to}", halves))
        width = [1 + sum(FORMATS[name][:2]) for name in (first, second)]
        a, b = rng.integers(0, 1 << min(width[0], 4), (16, 32)), rng.integers(0, 1 << min(width[1], 4), (32, 8))
        # The other bits of the byte of a 4- or 6-bit element are ignored.
        noise = [0xC3 if name == "e2m1" else 0xC0 if name in ("e3m2", "e2m3") else 0 for name in (first, second)]
        words = fragments(a << FORMATS[first][3] | noise[0], b << FORMATS[second][3] | noise[1], False)
        out = sim.buffer(np.zeros((32, 4), np.float32))
        assert sim.launch("k", out, sim.buffer(words.astype(np.uint32)), 0, 0, 0, 0) == 0, sim.findings
        exact = np.vectorize(lambda v, n=first: number(n, v))(a) @ np.vectorize(lambda v, n=second: number(n, v))(b)
        got = result(out.view(np.float16)[:, :4].copy()) if halves else result(out)
        want = exact.astype(np.float16 if halves else np.float32)
        assert (got == want).all() or np.abs(got.astype(float) - exact).max() <= np.abs(exact).max() * 2**-10, first


@pytest.mark.parametrize(
    ("count", "places"),
    [(4, (1, 0, 0, 0)), (4, (2, 0, 0, 0)), (4, (0, 0, 2, 0)), (4, (0, 2, 0, 0)), (4, (0, 0, 0, 4)), (2, (1, 0, 0, 0))],
)
def test_illegal_selectors_are_an_error(count, places):
    stype = "ue4m3" if count == 4 else "ue8m0"
    sim = Sim(kernel(f"m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::{count}X.f32.e2m1.e2m1.f32.{stype}"))
    out = sim.buffer(np.zeros((32, 4), np.float32))
    sim.launch("k", out, sim.buffer(np.zeros((32, 12), np.uint32)), *places)
    assert sim.kinds == {"mma-scales"}


@pytest.mark.parametrize("register", ["%rs1", "%rs2", "%rs3", "%rs4"])
def test_selectors_must_be_the_same_in_all_lanes(register):
    form = "m16n8k64.row.col.kind::mxf4nvf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue8m0"
    doubled = "shl.b32 %r2, %r2, 1;" if register in ("%rs1", "%rs3") else ""  # selects bytes 0 and 2, threads 0 and 1
    own = f"shr.u32 %r2, %r1, 4; {doubled} cvt.u16.u32 {register}, %r2;"
    sim = Sim(kernel(form).replace("mma.sync", f"{own} mma.sync"))
    sim.launch("k", sim.buffer(np.zeros((32, 4), np.float32)), sim.buffer(np.zeros((32, 12), np.uint32)), 0, 0, 0, 0)
    assert sim.kinds == {"mma-scales"}


OPERANDS = "{%f5, %f6, %f7, %f8}, {%r1, %r2, %r3, %r4}, {%r5, %r6}, {%f1, %f2, %f3, %f4}"
PLACES = ", %r7, {%rs1, %rs2}, %r8, {%rs3, %rs4};"
K64 = "mma.sync.aligned.m16n8k64.row.col.kind"
REFUSED = [
    f"{K64}::mxf4nvf4.block_scale.f32.e2m1.e2m1.f32.ue4m3 {OPERANDS}{PLACES}",
    f"{K64}::mxf4nvf4.block_scale.scale_vec::2X.f32.e2m1.e2m1.f32.ue4m3 {OPERANDS}{PLACES}",
    f"{K64}::mxf4.block_scale.scale_vec::4X.f32.e2m1.e2m1.f32.ue8m0 {OPERANDS}{PLACES}",
    f"{K64}::mxf4.block_scale.f32.e2m1.e4m3.f32.ue8m0 {OPERANDS}{PLACES}",
    f"{K64}::mxf8f6f4.block_scale.f32.e4m3.e4m3.f32.ue8m0 {OPERANDS}{PLACES}",
    f"mma.sync.aligned.m16n8k32.row.col.kind::mxf8f6f4.f32.e4m3.e4m3.f32.ue8m0 {OPERANDS}{PLACES}",
    f"{K64}::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0 {OPERANDS};",
    f"{K64}::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0 {OPERANDS}, %r7, {{%rs1}}, %r8, {{%rs3, %rs4}};",
    "ldmatrix.sync.aligned.m16n16.x4.trans.shared.b8 {%r1, %r2, %r3, %r4, %r5, %r6, %r7, %r8}, [%r9];",
    "ldmatrix.sync.aligned.m16n16.x1.shared.b8 {%r1, %r2}, [%r9];",
    "ldmatrix.sync.aligned.m8n16.x1.shared.b8 {%r1}, [%r9];",
    "stmatrix.sync.aligned.m16n16.x1.trans.shared.b8 [%r9], {%r1, %r2};",
    "tcgen05.wait::ld.sync.aligned;",
    "wgmma.fence.sync.aligned;",
]


@pytest.mark.parametrize("statement", REFUSED)
def test_forms_that_do_not_exist_are_refused(statement):
    with pytest.raises(PtxError):
        Sim(body(statement).replace(*SM120))


def test_other_chips_have_no_kinds():
    text = kernel("m16n8k64.row.col.kind::mxf4.block_scale.f32.e2m1.e2m1.f32.ue8m0")
    for chip in ("sm_100a", "sm_120", "sm_90a"):
        with pytest.raises(PtxError, match="needs target sm_120a"):
            Sim(text.replace("sm_120a", chip))
    for chip in ("sm_121a", "sm_120f"):
        Sim(text.replace("sm_120a", chip))


def test_shared_memory_of_a_cta_ends_at_99_kb():
    sim = Sim(body("mov.u32 %r1, 0;", params=".param .u64 p").replace(*SM120))
    assert sim.launch("k", sim.buffer(np.zeros(4, np.uint32)), shared=99 * 1024) == 0
    assert sim.launch("k", sim.buffer(np.zeros(4, np.uint32)), shared=99 * 1024 + 16) != 0
    assert "99 KB" in sim.findings[0]["message"]


def moved(instruction: str, registers: int, tile: np.ndarray) -> tuple[np.ndarray, np.ndarray, Sim]:
    """The lanes' registers and the tile (32 rows of 16 bytes) after an instruction in which lane i addresses row i."""
    names = ", ".join(f"%r{10 + i}" for i in range(registers))
    store = instruction.startswith("st")
    sim = Sim(
        body(
            "mov.u32 %r1, %tid.x; mov.u32 %r2, tile; shl.b32 %r3, %r1, 4; add.u32 %r2, %r2, %r3;",
            "cvt.u64.u32 %rd9, %r3; ld.param.u64 %rd1, [in]; add.u64 %rd1, %rd1, %rd9; ld.param.u64 %rd2, [out];",
            "add.u64 %rd2, %rd2, %rd9; ld.global.v4.u32 {%r4, %r5, %r6, %r7}, [%rd1];",
            "st.shared.v4.u32 [%r2], {%r4, %r5, %r6, %r7}; bar.warp.sync -1;",
            "mov.u32 %r10, %r4; mov.u32 %r11, %r5; mov.u32 %r12, %r6; mov.u32 %r13, %r7;",
            f"{instruction} [%r2], {{{names}}};" if store else f"{instruction} {{{names}}}, [%r2];",
            "bar.warp.sync -1; ld.shared.v4.u32 {%r4, %r5, %r6, %r7}, [%r2];" if store else "",
            f"st.global.v4.u32 [%rd2], {{{'%r4, %r5, %r6, %r7' if store else '%r10, %r11, %r12, %r13'}}};",
            params=".param .u64 out, .param .u64 in",
            registers=".shared .align 16 .b8 tile[512];",
        ).replace(*SM120)
    )
    out = sim.buffer(np.zeros((32, 4), np.uint32))
    assert sim.launch("k", out, sim.buffer(tile)) == 0, sim.findings
    assert sim.verdict == "clean", sim.findings
    return out.view(np.uint8).reshape(32, 4, 4), tile, sim


TILE = np.random.default_rng(9).permutation(512).astype(np.uint8).reshape(32, 16)


@pytest.mark.parametrize("count", [1, 2])
def test_ldmatrix_transposes_16_rows_of_bytes(count):
    """Lane t gets rows 4 (t % 4) to 4 (t % 4) + 3 of columns t / 4 and t / 4 + 8, two of each per register."""
    got, tile, _ = moved(f"ldmatrix.sync.aligned.m16n16.x{count}.trans.shared.b8", 2 * count, TILE)
    for t, register, byte in itertools.product(range(32), range(2 * count), range(4)):
        row = 16 * (register // 2) + t % 4 * 4 + register % 2 * 2 + byte % 2
        assert got[t, register, byte] == tile[row, t // 4 + byte // 2 * 8], (t, register, byte)


@pytest.mark.parametrize(("source", "bits"), [("b4x16_p64", 4), ("b6x16_p32", 6)])
@pytest.mark.parametrize("count", [1, 2, 4])
def test_packed_elements_get_a_byte_each(source, bits, count):
    got, tile, _ = moved(f"ldmatrix.sync.aligned.m8n16.x{count}.shared.b8x16.{source}", count, TILE)
    for t, register, byte in itertools.product(range(32), range(count), range(4)):
        row = int.from_bytes(tile[8 * register + t // 4].tobytes(), "little")
        assert got[t, register, byte] == row >> bits * (t % 4 * 4 + byte) & ((1 << bits) - 1), (t, register, byte)


@pytest.mark.parametrize("count", [1, 2, 4])
def test_stmatrix_stores_fragments_of_bytes_by_columns(count):
    """Register m holds rows 2 (t % 4) and the next of columns t / 4 and t / 4 + 8; columns are stored as rows."""
    after, before, _ = moved(f"stmatrix.sync.aligned.m16n8.x{count}.trans.shared.b8", count, TILE)
    want, given = before.copy(), before.reshape(32, 4, 4)
    for t, register, byte in itertools.product(range(32), range(count), range(4)):
        want[8 * register + t % 4 * 2 + byte % 2, t // 4 + byte // 2 * 8] = given[t, register, byte]
    assert (after.reshape(32, 16) == want).all()


@pytest.mark.parametrize("store", [False, True])
@pytest.mark.parametrize("barrier", ["", "bar.sync 0;"])
def test_matrices_of_bytes_are_checked_for_races(store, barrier):
    """Warp 0 writes and warp 1 reads; one of the two accesses is a matrix instruction."""
    words = "{%r10, %r11, %r12, %r13}"
    writes = f"stmatrix.sync.aligned.m16n8.x4.trans.shared.b8 [%r2], {words};" if store else (
        f"st.shared.v4.u32 [%r2], {words};"
    )  # fmt: skip
    reads = f"ld.shared.v4.u32 {words}, [%r2];" if store else (
        f"ldmatrix.sync.aligned.m16n16.x2.trans.shared.b8 {words}, [%r2];"
    )  # fmt: skip
    sim = Sim(
        body(
            "mov.u32 %r1, %tid.x; and.b32 %r3, %r1, 31; shl.b32 %r3, %r3, 4; mov.u32 %r2, tile; add.u32 %r2, %r2, %r3;",
            f"setp.ge.u32 %p1, %r1, 32; @%p1 bra READ; {writes}",
            f"READ: {barrier} @!%p1 bra END; {reads} END:",
            params=".param .u64 p",
            registers=".shared .align 16 .b8 tile[512];",
        ).replace(*SM120)
    )
    sim.launch("k", sim.buffer(np.zeros(4, np.uint32)), block=64)
    assert sim.verdict == "clean" if barrier else "read-after-write-race" in sim.kinds, sim.findings
