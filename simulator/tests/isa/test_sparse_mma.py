"""mma.sp: numpy expands A by its metadata and multiplies densely; each lane's fragment follows the PTX ISA's formulas
and cute's layouts."""

from __future__ import annotations

import itertools
import shutil
import subprocess
from dataclasses import dataclass

import numpy as np
import pytest

from simulator.tests.isa.test_block_scaled_mma import FORMATS, exact_codes, number, scale
from simulator.tests.sim_kit import HEADER, PtxError, Sim, body

WORDS = 16  # per lane: A 4, B 4, metadata, scales of A and B, unused, C 4
INTEGERS = {"s8": (-9, 10), "u8": (0, 12), "s4": (-8, 8), "u4": (0, 16)}


@dataclass(frozen=True)
class Form:
    k: int
    d: str
    a: str
    b: str
    kind: str = ""
    scales: int = 0
    stype: str = ""

    @property
    def packed(self) -> bool:
        return self.a in ("s4", "u4") or "mxf4" in self.kind

    @property
    def bits(self) -> int:
        return 4 if self.packed else {"f16": 16, "bf16": 16, "tf32": 32}.get(self.a, 8)

    @property
    def chunk(self) -> int:
        """Elements of which half are stored."""
        return 2 if self.a == "tf32" else 8 if self.packed else 4

    @property
    def chip(self) -> str:
        return "sm_120a" if self.kind else "sm_90a"

    @property
    def selectors(self) -> range:
        chunks = self.k // self.chunk
        return range({4: 4, 8: 2, 16: 1}[chunks])

    def text(self, variant: str, selector: int) -> str:
        registers = self.k * self.bits // 128
        a, b = (", ".join(f"%r{first + i}" for i in range(registers)) for first in (10, 14))
        size = f".scale_vec::{self.scales}X" if "mxf4nvf4" in self.kind else ""
        kind = f".kind::{self.kind}" if self.kind else ""
        block = f".block_scale{size}" if self.scales else ""
        count = 2 if self.d == "f16" else 4
        d, c = (", ".join(f"%r{first + i}" for i in range(count)) for first in (30, 22))
        scales = ", %r19, {2, 1}, %r20, {2, 3}" if self.scales == 2 else ", %r19, {0, 1}, %r20, {0, 3}"
        # d and c are words of 32 bits, whatever they hold.
        words = {"f32": "f32", "f16": "f16", "s32": "s32"}[self.d]
        stype = f".{self.stype}" if self.stype else ""
        return (
            f"mma.{variant}.sync.aligned.m16n8k{self.k}.row.col{kind}{block}.{words}.{self.a}.{self.b}.{words}{stype} "
            f"{{{d}}}, {{{a}}}, {{{b}}}, {{{c}}}, %r18, {selector}{scales if self.scales else ''};"
        )


FORMS = [
    *(Form(k, d, "f16", "f16") for k in (16, 32) for d in ("f16", "f32")),
    Form(16, "f32", "bf16", "bf16"), Form(32, "f32", "bf16", "bf16"),
    Form(8, "f32", "tf32", "tf32"), Form(16, "f32", "tf32", "tf32"),
    Form(64, "f32", "e4m3", "e5m2"),
    Form(32, "s32", "s8", "u8"), Form(64, "s32", "u8", "s8"),
    Form(64, "s32", "s4", "u4"), Form(128, "s32", "u4", "s4"),
    Form(64, "f32", "e2m1", "e3m2", "f8f6f4"), Form(64, "f16", "e2m3", "e2m1", "f8f6f4"),
    Form(64, "f32", "e3m2", "e2m1", "mxf8f6f4", 1, "ue8m0"),
    Form(128, "f32", "e2m1", "e2m1", "mxf4", 2, "ue8m0"),
    Form(128, "f32", "e2m1", "e2m1", "mxf4nvf4", 2, "ue8m0"),
    Form(128, "f32", "e2m1", "e2m1", "mxf4nvf4", 4, "ue4m3"),
]  # fmt: skip


def kernel(instruction: str, chip: str) -> str:
    return body(
        f"mov.u32 %r1, %tid.x; mul.wide.u32 %rd9, %r1, {4 * WORDS}; ld.param.u64 %rd1, [in]; add.u64 %rd1, %rd1, %rd9;",
        "ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd1]; ld.global.v4.u32 {%r14, %r15, %r16, %r17}, [%rd1+16];",
        "ld.global.v4.u32 {%r18, %r19, %r20, %r21}, [%rd1+32]; ld.global.v4.u32 {%r22, %r23, %r24, %r25}, [%rd1+48];",
        instruction,
        "mul.wide.u32 %rd9, %r1, 16; ld.param.u64 %rd2, [out]; add.u64 %rd2, %rd2, %rd9;",
        "st.global.v4.u32 [%rd2], {%r30, %r31, %r32, %r33};",
        params=".param .u64 out, .param .u64 in",
    ).replace("sm_90a", chip)


def bytes_of(values: np.ndarray, kind: str, form: Form) -> np.ndarray:
    """Rows of elements (codes of narrow floats, otherwise numbers) as bytes of registers."""
    if kind == "f16":
        return values.astype(np.float16).view(np.uint8)
    if kind == "bf16":
        return (values.astype(np.float32).view(np.uint32) >> 16).astype(np.uint16).view(np.uint8)
    if kind == "tf32":
        return values.astype(np.float32).view(np.uint8)
    codes = values.astype(np.int64).astype(np.uint8)
    if form.packed:
        return (codes[:, ::2] & 15) | (codes[:, 1::2] & 15) << 4
    return codes << (2 if kind == "e2m1" else 0)


def place(words: np.ndarray, first: int, rows: np.ndarray, halves: int) -> None:
    """Distributes rows to lanes: 4 bytes per thread of a group; registers are 16 bytes of K apart, alternating with
    those of row + 8."""
    for row, column in itertools.product(range(rows.shape[0]), range(0, rows.shape[1], 4)):
        lane, register = row % 8 * 4 + column % 16 // 4, column // 16 * halves + row // 8
        words[lane, first + register] = rows[row, column : column + 4].copy().view(np.uint32)[0]


def chunks_of(lane: int, form: Form, selector: int) -> list[tuple[int, int]]:
    """Row and chunk that each four bits of a lane's metadata belong to."""
    row, thread, chunks = lane // 4, lane % 4, form.k // form.chunk
    if form.bits >= 16:
        if thread != selector if chunks == 4 else thread // 2 != selector:
            return []
        first = 0 if chunks == 4 else 4 * (thread % 2)
        return [(row + half * 8, first + i) for half in range(2) for i in range(4)]
    if chunks == 8 and thread // 2 != selector:
        return []
    return [(row + thread % 2 * 8, thread // 2 * (chunks - 8) + i) for i in range(8)]


def metadata(form: Form, ordered: bool, rng: np.random.Generator) -> np.ndarray:
    pairs = [(i, j) for i in range(4) for j in range(4) if (i < j if ordered else i != j)]
    codes = [0x4, 0xE] if form.a == "tf32" else [i | j << 2 for i, j in pairs]
    return rng.choice(codes, (16, form.k // form.chunk))


def spread(stored: np.ndarray, chunks: np.ndarray, form: Form, empty: int = 0) -> np.ndarray:
    """A as a dense matrix. 4-bit elements are selected in pairs; a tf32 element is two positions of two bytes."""
    dense = np.full((16, form.k), empty, stored.dtype)
    each = form.chunk // 4
    for row, chunk in itertools.product(range(16), range(chunks.shape[1])):
        code, at = int(chunks[row, chunk]), chunk * form.chunk
        if form.a == "tf32":
            dense[row, at + (code == 0xE)] = stored[row, chunk]
            continue
        for which, to in enumerate((code & 3, code >> 2)):
            source = chunk * form.chunk // 2 + which * each
            dense[row, at + to * each : at + (to + 1) * each] = stored[row, source : source + each]
    return dense


def elements(kind: str, shape: tuple[int, int], rng: np.random.Generator) -> np.ndarray:
    if kind in FORMATS:
        return rng.choice(exact_codes(kind), shape)
    return rng.integers(*INTEGERS.get(kind, (-4, 5)), shape)


def numbers(values: np.ndarray, kind: str) -> np.ndarray:
    return np.vectorize(lambda v: number(kind, int(v)))(values) if kind in FORMATS else values.astype(np.float64)


def assemble(form: Form, selector: int, a, b, chunks, c, sfa, sfb) -> np.ndarray:
    """Each lane's words; metadata and scales that should not be read are illegal and NaN."""
    words = np.zeros((32, WORDS), np.uint32)
    words[:, 9:11] = 0xFFFFFFFF
    place(words, 0, bytes_of(a, form.a, form), 2)
    place(words, 4, bytes_of(b.T.copy(), form.b, form), 1)
    for lane in range(32):
        words[lane, 8] = sum(
            int(chunks[row, chunk]) << 4 * i for i, (row, chunk) in enumerate(chunks_of(lane, form, selector))
        )
    step = 8 * (2 if form.scales == 2 else 0)
    for row, at in itertools.product(range(16), range(form.scales)):
        lane, shift = row % 8 * 4 + 2 + row // 8, step + 8 * at
        words[lane, 9] = int(words[lane, 9]) & ~(255 << shift) | int(sfa[row, at]) << shift
    for column, at in itertools.product(range(8), range(form.scales)):
        lane, shift = column * 4 + 3, step + 8 * at
        words[lane, 10] = int(words[lane, 10]) & ~(255 << shift) | int(sfb[column, at]) << shift
    for lane, i in itertools.product(range(32), range(4)):
        row, column = lane // 4 + i // 2 * 8, lane % 4 * 2 + i % 2
        if form.d == "f16":
            words.view(np.float16)[lane, 24 + i] = c[row, column]
        else:
            words.view(np.int32 if form.d == "s32" else np.float32)[lane, 12 + i] = c[row, column]
    return words


def result(out: np.ndarray, form: Form) -> np.ndarray:
    d = np.zeros((16, 8))
    lanes = out.view({"f16": np.float16, "s32": np.int32, "f32": np.float32}[form.d]).reshape(32, -1)
    for lane, i in itertools.product(range(32), range(4)):
        d[lane // 4 + i // 2 * 8, lane % 4 * 2 + i % 2] = lanes[lane, i]
    return d


@pytest.mark.parametrize("form", FORMS, ids=lambda f: f"{f.kind}k{f.k}.{f.d}.{f.a}.{f.b}.{f.scales}{f.stype}")
def test_sparse_mma_equals_the_dense_product(form):
    rng = np.random.default_rng(11)
    for variant in ("sp::ordered_metadata",) if form.kind else ("sp", "sp::ordered_metadata"):
        for selector in form.selectors:
            sim = Sim(kernel(form.text(variant, selector), form.chip))
            chunks = metadata(form, variant != "sp", rng)
            a, b = elements(form.a, (16, form.k // 2), rng), elements(form.b, (form.k, 8), rng)
            c = rng.integers(-8, 8, (16, 8)).astype(np.float64)
            codes = {"ue8m0": [126, 127, 128, 129], "ue4m3": [0x38, 0x3C, 0x40, 0x34], "": [0]}[form.stype]
            sfa, sfb = rng.choice(codes, (16, form.scales)), rng.choice(codes, (8, form.scales))
            out = sim.buffer(np.zeros((32, 4), np.uint32))
            words = assemble(form, selector, a, b, chunks, c, sfa, sfb)
            assert sim.launch("k", out, sim.buffer(words)) == 0, sim.findings
            assert sim.verdict == "clean", sim.findings
            zero = 0  # the code of zero in every format
            x, y = numbers(spread(a, chunks, form, zero), form.a), numbers(b, form.b)
            if form.scales:
                value = np.vectorize(lambda v: scale(form.stype, int(v)))
                x = x * np.repeat(value(sfa), form.k // form.scales, axis=1)
                y = y * np.repeat(value(sfb), form.k // form.scales, axis=1).T
            want = x @ y + c
            assert (result(out, form) == (want.astype(np.float16) if form.d == "f16" else want)).all(), selector


@pytest.mark.parametrize("form", [FORMS[3], FORMS[8]], ids=["f16", "e4m3"])
def test_elements_that_are_not_selected_do_not_count(form):
    """An infinity in B affects only rows that select it."""
    rng = np.random.default_rng(12)
    sim = Sim(kernel(form.text("sp", 0), form.chip))
    chunks = metadata(form, True, rng)
    a, b = np.ones((16, form.k // 2)), np.ones((form.k, 8))
    if form.a == "e4m3":
        a, b = a * 0x38, b * 0x3C
    b[7, 2] = np.inf if form.a == "f16" else 0x7C
    out = sim.buffer(np.zeros((32, 4), np.uint32))
    words = assemble(form, 0, a, b, chunks, np.zeros((16, 8)), None, None)
    assert sim.launch("k", out, sim.buffer(words)) == 0, sim.findings
    chosen = np.array([3 in (int(code) & 3, int(code) >> 2) for code in chunks[:, 1]])
    want = np.full((16, 8), form.k / 2)
    want[chosen, 2] = np.inf
    assert chosen.any() and not chosen.all() and (result(out, form) == want).all()


def test_an_infinity_in_a_uses_only_its_own_scale():
    """The other bytes of the register with a row's scale are NaN."""
    form, rng = Form(64, "f32", "e5m2", "e4m3", "mxf8f6f4", 1, "ue8m0"), np.random.default_rng(14)
    a, b, scales = np.full((16, 32), 0x3C), np.full((64, 8), 0x38), np.full((16, 1), 127)
    a[3, 5] = 0x7C
    sim = Sim(kernel(form.text("sp::ordered_metadata", 0), form.chip))
    words = assemble(form, 0, a, b, metadata(form, True, rng), np.zeros((16, 8)), scales, scales[:8])
    out = sim.buffer(np.zeros((32, 4), np.uint32))
    assert sim.launch("k", out, sim.buffer(words)) == 0, sim.findings
    want = np.full((16, 8), 32.0)
    want[3] = np.inf
    assert (result(out, form) == want).all()


def test_fp8_on_sm_90_is_summed_in_two_passes_over_stored_elements():
    """ptxas makes two HMMA.SP: the first two of four stored elements, then the others. 2^16 - 2^16 leave 2^-10
    whole in the second pass; summed with one of them, it would be lost."""
    form = Form(64, "f32", "e4m3", "e5m2")
    a, b, chunks = np.zeros((16, 32)), np.zeros((64, 8)), np.full((16, 16), 0x4)
    a[0, :3], b[[0, 3, 4]] = (0x78, 0xF8, 0x08), np.array([[0x5C], [0x5C], [0x2C]])
    chunks[0, 0] = 0xC  # places 0 and 3
    sim = Sim(kernel(form.text("sp", 0), form.chip))
    out = sim.buffer(np.zeros((32, 4), np.uint32))
    words = assemble(form, 0, a, b, chunks, np.zeros((16, 8)), None, None)
    assert sim.launch("k", out, sim.buffer(words)) == 0, sim.findings
    assert (result(out, form)[0] == 2.0**-10).all()


@pytest.mark.parametrize(
    ("form", "variant", "code", "value", "verdict"),
    [
        (FORMS[3], "sp", 0x5, 1, "error"),
        (FORMS[3], "sp", 0x5, 0, "review"),  # two zeros at any position
        (FORMS[3], "sp", 0x1, 0, "clean"),
        (FORMS[3], "sp::ordered_metadata", 0x1, 0, "error"),
        (FORMS[6], "sp", 0x8, 0, "error"),
        (FORMS[10], "sp::ordered_metadata", 0xA, 1, "error"),
        (FORMS[10], "sp::ordered_metadata", 0xA, 0, "review"),
    ],
)
def test_illegal_metadata_is_reported_with_its_lane(form, variant, code, value, verdict):
    rng = np.random.default_rng(13)
    sim = Sim(kernel(form.text(variant, 0), form.chip))
    chunks = metadata(form, True, rng)
    chunks[11, 1] = code
    a, b = np.full((16, form.k // 2), value), np.zeros((form.k, 8))
    words = assemble(form, 0, a, b, chunks, np.zeros((16, 8)), None, None)
    status = sim.launch("k", sim.buffer(np.zeros((32, 4), np.uint32)), sim.buffer(words))
    assert sim.verdict == verdict and (status != 0) == (verdict == "error")
    if verdict != "clean":
        lane = next(lane for lane in range(32) if (11, 1) in chunks_of(lane, form, 0))
        assert sim.kinds == {"sparse-metadata"} and sim.findings[0]["lane"] == lane


REFUSED = [
    FORMS[0].text("sp", 4), FORMS[2].text("sp", 2), FORMS[10].text("sp", 1), FORMS[9].text("sp", 2),
    FORMS[0].text("sp", 0).replace("%r18, 0", "%r18"),
    FORMS[8].text("sp", 0).replace("k64", "k32").replace(", %r12, %r13", "").replace(", %r16, %r17", ""),
    FORMS[13].text("sp", 0), FORMS[16].text("sp", 0), FORMS[16].text("sp::ordered_metadata", 1),
    FORMS[3].text("sp", 0).replace("row.col.f32", "row.col.satfinite.f32"),
    FORMS[3].text("sp", 0).replace("f16.f16", "f16.bf16"),
]  # fmt: skip


@pytest.mark.parametrize("statement", REFUSED)
def test_forms_that_do_not_exist_are_refused(statement):
    with pytest.raises(PtxError):
        Sim(kernel(statement, "sm_120a"))


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="no ptxas here")
@pytest.mark.parametrize("chip", ["sm_90a", "sm_120a"])
def test_ptxas_agrees(chip, tmp_path):
    lines = [form.text(variant, form.selectors[-1]) for form in FORMS if form.chip == chip
             for variant in (("sp::ordered_metadata",) if form.kind else ("sp", "sp::ordered_metadata"))]  # fmt: skip
    text = kernel("\n".join(lines), chip)
    assert HEADER.splitlines()[0] in text
    (tmp_path / "k.ptx").write_text(text)
    command = ["ptxas", "-arch", chip, "-o", "/dev/null", tmp_path / "k.ptx"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
