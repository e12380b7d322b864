"""tcgen05.mma.sp: A spread out by its metadata in numpy and multiplied densely; where metadata lies is as in CUTLASS's
layouts, described from the lane's side; and what orders it before the multiplication."""

from __future__ import annotations

import shutil
import subprocess

import numpy as np
import pytest

from simulator.python.tensorcore import matrix_descriptor, scaled, unscaled
from simulator.tests.isa.test_block_scaled_mma import scale
from simulator.tests.isa.test_sparse_mma import Form, bytes_of, elements, metadata, numbers, spread
from simulator.tests.isa.test_sparse_wgmma import laid_out
from simulator.tests.sim_kit import Sim
from simulator.tests.tensorcore.tensor_kit import KINDS, Mma, Tmem, tcgen05_mma

M, N = 128, 16
A_BYTES, B_BYTES, E_BYTES = M * 32, N * 64, M * 16
D, E, SFA, SFB, A = 0, 32, 36, 40, 48  # columns
CODES = {"f16": 0, "bf16": 1, "tf32": 2, "u8": 0, "s8": 1, "e4m3": 0, "e5m2": 1, "e2m3": 3, "e3m2": 4, "e2m1": 5}
FORMS = [
    Form(32, "f32", "f16", "f16", "f16"), Form(32, "f16", "f16", "f16", "f16"), Form(32, "f32", "bf16", "bf16", "f16"),
    Form(16, "f32", "tf32", "tf32", "tf32"), Form(64, "f32", "e4m3", "e2m1", "f8f6f4"),
    Form(64, "s32", "u8", "s8", "i8"), Form(64, "f32", "e5m2", "e4m3", "mxf8f6f4", 1, "ue8m0"),
    Form(128, "f32", "e2m1", "e2m1", "mxf4", 2, "ue8m0"), Form(128, "f32", "e2m1", "e2m1", "mxf4nvf4", 2, "ue8m0"),
    Form(128, "f32", "e2m1", "e2m1", "mxf4nvf4", 4, "ue4m3"),
]  # fmt: skip


def selectors(form: Form) -> range:
    return range(2 if form.bits >= 16 else 1)


def descriptor(form: Form, selector: int, m: int = M, n: int = N, **bits: int) -> int:
    if form.scales:
        codes = {} if form.packed else {"a": CODES[form.a], "b": CODES[form.b]}
        return scaled(m, n, ue8m0=int(form.stype == "ue8m0"), sparse=1, **codes)
    d = {"f16": 0, "f32": 1, "s32": 2}[form.d]
    return unscaled(m, n, d, CODES[form.a], CODES[form.b], **{"sparse": 1, "selector": selector, **bits})


def instruction(form: Form, selector: int, in_tensor_memory: bool, group: int = 1, **bits: int) -> str:
    size = f".scale_vec::{form.scales}X" if form.kind == "mxf4nvf4" else ""
    repeated = 3 << 30  # the scale factor ID, which CUTLASS also puts into addresses; the MMA uses the descriptor's
    scales = f"[%s0+{SFA + repeated}], [%s0+{SFB}], " if form.scales else ""
    a = f"[%s0+{A}]" if in_tensor_memory else "%rd5"
    block = f".block_scale{size}" if form.scales else ""
    return (
        f"tcgen05.mma.sp.cta_group::{group}.kind::{form.kind}{block} [%s0], {a}, %rd6, "
        f"[%s0+{E}], {descriptor(form, selector, **bits)}, {scales}%p3;"
    )


STORE = f"add.u32 %r9, %s1, {E}; tcgen05.st.sync.aligned.32x32b.x2.b32 [%r9], {{%r20, %r21}};"
COPY = f"tcgen05.cp.cta_group::1.128x128b [%s0+{E}], %rd7;"


def kernel(text: str, store: str = STORE, before: str = "", after: str = "") -> str:
    """A thread's words are its lane's row of A, metadata and scales; the image is A, B and metadata to copy."""
    r = [", ".join(f"%r{first + i}" for i in range(count)) for first, count in ((10, 8), (30, 16))]
    return f""".version 9.0
.target sm_100a
.address_size 64
.shared .align 1024 .b8 image[{A_BYTES + B_BYTES + E_BYTES}];
.shared .align 8 .b64 done;
.shared .align 4 .b32 slot;
.visible .entry k(.param .u64 out, .param .u64 shared, .param .u64 in, .param .u64 da, .param .u64 db, .param .u64 de)
.reqntid 128
{{
.reg .pred %p<8>; .reg .b32 %r<64>, %s<4>; .reg .b64 %rd<16>;
mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; setp.ne.u32 %p1, %r2, 0; setp.ne.u32 %p2, %r1, 0;
@!%p1 tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 64;
@!%p2 mbarrier.init.shared::cta.b64 [done], 1;
@!%p2 fence.mbarrier_init.release.cluster;
mov.u32 %r3, image; ld.param.u64 %rd1, [shared]; mul.wide.u32 %rd9, %r1, 4; add.u64 %rd1, %rd1, %rd9;
shl.b32 %r4, %r1, 2; add.u32 %r4, %r3, %r4; mov.u32 %r5, 0;
again: ld.global.u32 %r6, [%rd1]; st.shared.u32 [%r4], %r6; add.u64 %rd1, %rd1, 512; add.u32 %r4, %r4, 512;
add.u32 %r5, %r5, 1; setp.lt.u32 %p4, %r5, {(A_BYTES + B_BYTES + E_BYTES) // 512}; @%p4 bra again;
fence.proxy.async; bar.sync 0;
ld.shared.u32 %s0, [slot]; shl.b32 %s1, %r2, 21; add.u32 %s1, %s1, %s0;
mul.wide.u32 %rd9, %r1, 64; ld.param.u64 %rd2, [in]; add.u64 %rd2, %rd2, %rd9;
ld.global.v4.u32 {{%r10, %r11, %r12, %r13}}, [%rd2]; ld.global.v4.u32 {{%r14, %r15, %r16, %r17}}, [%rd2+16];
ld.global.v4.u32 {{%r20, %r21, %r22, %r23}}, [%rd2+32]; ld.global.v4.u32 {{%r24, %r25, %r26, %r27}}, [%rd2+48];
add.u32 %r9, %s1, {A}; tcgen05.st.sync.aligned.32x32b.x8.b32 [%r9], {{{r[0]}}};
add.u32 %r9, %s1, {SFA}; tcgen05.st.sync.aligned.32x32b.x4.b32 [%r9], {{%r24, %r25, %r26, %r27}};
add.u32 %r9, %s1, {SFB}; tcgen05.st.sync.aligned.32x32b.x1.b32 [%r9], {{%r22}};
{store}
tcgen05.wait::st.sync.aligned;
tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;
@%p2 bra issued;
cvt.u64.u32 %rd4, %r3; shr.u64 %rd4, %rd4, 4; ld.param.u64 %rd5, [da]; add.u64 %rd5, %rd5, %rd4;
ld.param.u64 %rd6, [db]; add.u64 %rd6, %rd6, %rd4; add.u64 %rd6, %rd6, {A_BYTES >> 4};
ld.param.u64 %rd7, [de]; add.u64 %rd7, %rd7, %rd4; add.u64 %rd7, %rd7, {(A_BYTES + B_BYTES) >> 4};
setp.ne.u32 %p3, %r3, %r3;
{before}
{text}
{after}
tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [done];
issued: bar.warp.sync 0xffffffff;
wait: mbarrier.try_wait.parity.shared::cta.b64 %p5, [done], 0; @!%p5 bra wait;
tcgen05.fence::after_thread_sync;
tcgen05.ld.sync.aligned.32x32b.x16.b32 {{{r[1]}}}, [%s1];
tcgen05.wait::ld.sync.aligned;
mul.wide.u32 %rd9, %r1, 64; ld.param.u64 %rd3, [out]; add.u64 %rd3, %rd3, %rd9;
{" ".join(f"st.global.u32 [%rd3+{4 * i}], %r{30 + i};" for i in range(16))}
tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;
@!%p1 tcgen05.dealloc.cta_group::1.sync.aligned.b32 %s0, 64;
ret;
}}
"""


def contained(rows: np.ndarray, kind: str, form: Form) -> np.ndarray:
    """Elements as in shared memory: 16 4-bit elements, one per byte, are packed and padded to 16 bytes."""
    if kind != "e2m1" or form.packed:
        return bytes_of(rows, kind, form)
    packed = (rows[:, ::2] | rows[:, 1::2] << 4).astype(np.uint8).reshape(len(rows), -1, 8)
    return np.concatenate([packed, np.full_like(packed, 0xEE)], 2).reshape(len(rows), -1)


def lane_words(chunks: np.ndarray, form: Form, selector: int) -> np.ndarray:
    """Each lane's two columns of metadata; with 16- and 32-bit elements one column is for another instruction."""
    words = np.zeros((M, 2), np.uint64)
    for lane in range(M):
        if form.bits < 16:
            places = [(lane, chunk) for chunk in range(16)]
        else:
            row, half = lane // 16 * 16 + lane % 8, lane % 16 // 8
            places = [(row + 8 * upper, 4 * half + i) for upper in range(2) for i in range(4)]
        for i, (row, chunk) in enumerate(places):
            words[lane, selector + i // 8] |= np.uint64(int(chunks[row, chunk]) << 4 * (i % 8))
    return words.astype(np.uint32)


class Case:
    """Operands of a form, the kernel's inputs made from them, and the expected result."""

    def __init__(self, form: Form, selector: int) -> None:
        rng = np.random.default_rng(31)
        self.form = form
        self.chunks = np.concatenate([metadata(form, True, rng) for _ in range(M // 16)])
        self.a, self.b = elements(form.a, (M, form.k // 2), rng), elements(form.b, (form.k, N), rng)
        codes = {"ue8m0": [126, 127, 128, 129], "ue4m3": [0x38, 0x3C, 0x40, 0x34], "": [0]}[form.stype]
        self.sfa, self.sfb = rng.choice(codes, (M, form.scales)), rng.choice(codes, (N, form.scales))
        self.selector = selector

    def inputs(self) -> tuple[np.ndarray, np.ndarray, list[int]]:
        stored = contained(self.a, self.form.a, self.form)
        columns = contained(self.b.T.copy(), self.form.b, self.form)
        (a_image, a_bits), (b_image, b_bits) = laid_out(stored), laid_out(columns)
        words = np.full((M, 16), 0xFFFFFFFF, np.uint32)
        words[:, :8] = stored.view(np.uint32)
        words[:, 8:10] = lane_words(self.chunks, self.form, self.selector)
        shift = 8 * np.arange(self.form.scales)
        sfa, sfb = ((rows.astype(np.int64) << shift).sum(axis=1) for rows in (self.sfa, self.sfb))
        for lane in range(M):  # each quarter of the lanes has all scales
            words[lane, 10] = sfb[lane % 32] if lane % 32 < N else 0
            words[lane, 12:16] = sfa[lane % 32 :: 32]
        copied = np.zeros((M, 4), np.uint32)
        copied[:, :2] = words[:, 8:10]
        image = np.concatenate([a_image, b_image, copied.view(np.uint8).ravel()])
        fixed = matrix_descriptor(0, 0, 0) & ~0x3FFF
        return image, words, [a_bits | fixed, b_bits | fixed, matrix_descriptor(0, 128, 128) & ~0x3FFF]

    def product(self) -> np.ndarray:
        form = self.form
        dense = [spread(self.a[row : row + 16], self.chunks[row : row + 16], form) for row in range(0, M, 16)]
        x, y = numbers(np.concatenate(dense), form.a), numbers(self.b, form.b)
        if form.scales:
            value = np.vectorize(lambda v: scale(form.stype, int(v)))
            x = x * np.repeat(value(self.sfa), form.k // form.scales, axis=1)
            y = y * np.repeat(value(self.sfb), form.k // form.scales, axis=1).T
        want = x @ y
        return want.astype(np.float16) if form.d == "f16" else want

    def run(self, text: str, mode: str = "eager", inputs=None) -> tuple[Sim, np.ndarray]:
        image, words, descriptors = inputs or self.inputs()
        sim = Sim(text, mode)
        out = sim.buffer(np.zeros((M, N), np.uint32))
        sim.launch("k", out, sim.buffer(image), sim.buffer(words), *descriptors, block=128)
        if self.form.d == "f16":
            return sim, (out & 0xFFFF).astype(np.uint16).view(np.float16)
        return sim, out.view(np.int32 if self.form.d == "s32" else np.float32)


@pytest.mark.parametrize("form", FORMS, ids=lambda f: f"{f.kind}.{f.d}.{f.a}.{f.scales}{f.stype}")
def test_a_sparse_tcgen05_mma_equals_the_dense_product(form):
    """A from shared memory and, in mode late, from tensor memory."""
    for selector in selectors(form):
        case = Case(form, selector)
        for in_tensor_memory, mode in ((False, "eager"), (True, "late")):
            sim, got = case.run(kernel(instruction(form, selector, in_tensor_memory)), mode)
            assert sim.verdict == "clean", sim.findings
            assert (got == case.product()).all(), (selector, mode)


@pytest.mark.parametrize(
    ("before", "after", "verdict"),
    [
        ("128x128b", "128x128b.b8x16.b6x16_p32", "incomplete"),
        ("128x128b", "128x128b.b8x16.b4x16_p64", "incomplete"),
        (f"%s0+{E}", "%s0+512", "error"),  # the first column beyond tensor memory
    ],
)
def test_illegal_copies_are_refused(before, after, verdict):
    copy = COPY.replace(before, after)
    sim, _ = Case(FORMS[0], 0).run(kernel(instruction(FORMS[0], 0, False), store="", before=copy))
    assert (sim.verdict, sim.kinds) == (verdict, {"tensor-operand"}), sim.findings


def test_each_quarter_of_the_lanes_uses_its_own_copy_of_the_scales():
    case, other = Case(FORMS[9], 0), Case(FORMS[9], 0)
    other.sfb = case.sfb[::-1].copy()
    inputs = case.inputs()
    inputs[1][32:64, 10] = other.inputs()[1][32:64, 10]
    _, got = case.run(kernel(instruction(FORMS[9], 0, False)), inputs=inputs)
    want = case.product()
    want[32:64] = other.product()[32:64]
    assert (got == want).all()


@pytest.mark.parametrize("form", [FORMS[0], FORMS[9]], ids=["f16", "mxf4nvf4"])
def test_each_cta_of_a_pair_holds_its_rows_metadata(form):
    halves = [Case(form, 0), Case(form, 0)]
    halves[1].a, halves[1].chunks = halves[0].a[::-1].copy(), halves[0].chunks[::-1].copy()
    halves[1].sfa = halves[0].sfa[::-1].copy()
    tmems, smems = [Tmem(512) for _ in range(2)], []
    for rank, (case, tmem) in enumerate(zip(halves, tmems, strict=True)):
        stored = bytes_of(case.a, form.a, form)
        columns = bytes_of(case.b.T.copy(), form.b, form)[rank * N // 2 : (rank + 1) * N // 2]
        (a_image, a_bits), (b_image, b_bits) = laid_out(stored), laid_out(columns)
        smems.append(np.concatenate([a_image, b_image]))
        words = case.inputs()[1]
        tmem.words[:, E : E + 2], tmem.words[:, SFB], tmem.words[:, SFA : SFA + 4] = (
            words[:, 8:10],
            words[:, 10],
            words[:, 12:],
        )
    fixed = matrix_descriptor(0, 0, 0) & ~0x3FFF
    mma = Mma(
        a=a_bits | fixed, b=b_bits | fixed | A_BYTES >> 4, idesc=descriptor(form, 0, 256), d_tmem=D, sfa_tmem=SFA,
        sfb_tmem=SFB, e_tmem=E, kind=KINDS.index(form.kind), cta_group=2, scales=form.scales, accumulate=0,
    )  # fmt: skip
    tcgen05_mma(mma, tmems, smems)
    for case, tmem in zip(halves, tmems, strict=True):
        assert (tmem.words[:, :N].view(np.float32) == case.product()).all()


RIGHT = instruction(FORMS[4], 0, False)
ORDER = {
    "copied by the thread that multiplies": ({"store": "", "before": COPY}, set()),
    "copied over after the multiplication": ({"after": COPY}, {"unpipelined-copy"}),
    "never written": ({"store": ""}, {"tensor-memory-uninitialised"}),
    "written after the barrier": (
        {"store": "", "before": "", "late": True},
        {"tensor-memory-race"},
    ),
}


@pytest.mark.parametrize("name", ORDER)
def test_metadata_needs_order_before_an_mma_reads_it(name):
    options, kinds = ORDER[name]
    options = dict(options)
    late = options.pop("late", False)
    text = kernel(RIGHT, **options)
    if late:
        text = text.replace("@%p2 bra issued;", f"{STORE}\n@%p2 bra issued;")
    sim, got = Case(FORMS[4], 0).run(text)
    assert kinds <= sim.kinds if kinds else sim.verdict == "clean", sim.findings
    if name.startswith("cop"):
        assert (got == Case(FORMS[4], 0).product()).all()


def test_misuse_is_named():
    case = Case(FORMS[0], 0)
    for text, kind in (
        (instruction(FORMS[0], 0, False, sparse=0), "instruction-descriptor"),
        (instruction(FORMS[0], 2, False), "instruction-descriptor"),
        (instruction(FORMS[0], 0, False).replace(".sp.", ".").replace(f"[%s0+{E}], ", ""), "instruction-descriptor"),
        (instruction(FORMS[0], 0, False).replace(f"+{E}]", f"+{E + 1}]"), "tensor-operand"),
        (instruction(FORMS[0], 0, False).replace(f"+{E}]", "+64]"), "tensor-operand"),
    ):
        sim, _ = case.run(kernel(text))
        assert sim.kinds == {kind} and sim.verdict == "error", sim.findings


@pytest.mark.parametrize(("form", "lane"), [(FORMS[0], 53), (FORMS[4], 61)], ids=["f16", "e4m3"])
def test_illegal_metadata_is_reported_with_its_lane(form, lane):
    """Positions in the wrong order; one position for two numbers of which one is not zero."""
    case = Case(form, 0)
    for code, stored in ((0x1, (1, 1)), (0x0, (0, 1)), (0x0, (1, 0))):
        case.chunks[61, 2], case.a[61, 4:6] = code, stored  # f16, in the lane of row 53's chunks 0 to 3
        sim, _ = case.run(kernel(instruction(form, 0, False)))
        assert "sparse-metadata" in sim.kinds and f"lane {lane} " in sim.findings[0]["message"]
        assert sim.verdict == "error"


@pytest.mark.parametrize(("form", "lane"), [(FORMS[0], 53), (FORMS[4], 61)], ids=["f16", "e4m3"])
def test_metadata_of_zeros_that_repeats_a_position_is_a_review(form, lane):
    """CUTLASS's compressor writes such metadata for chunks of zeros; A from shared and from tensor memory."""
    case = Case(form, 0)
    case.chunks[61, 2], case.a[61, 4:6] = 0x0, 0
    for in_tensor_memory in (False, True):
        sim, got = case.run(kernel(instruction(form, 0, in_tensor_memory)))
        assert sim.kinds == {"sparse-metadata"} and sim.verdict == "review", sim.findings
        assert f"lane {lane} " in sim.findings[0]["message"] and (got == case.product()).all()


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="no ptxas here")
def test_ptxas_agrees(tmp_path):
    lines = [instruction(form, 0, in_tensor_memory) for form in FORMS for in_tensor_memory in (False, True)]
    (tmp_path / "k.ptx").write_text(kernel("\n".join(lines), before=COPY))
    command = ["ptxas", "-arch", "sm_100a", "-o", "/dev/null", tmp_path / "k.ptx"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
