"""wgmma.mma_async.sp against a dense product in numpy: A from shared memory and from registers, with each selector; the
matrices are laid out by the formulas of the canonical layouts without swizzle."""

from __future__ import annotations

import itertools
import shutil
import subprocess

import numpy as np
import pytest

from simulator.tests.isa.test_block_scaled_mma import FORMATS as FLOATS
from simulator.tests.isa.test_block_scaled_mma import exact_codes, number
from simulator.tests.isa.test_sparse_mma import Form, bytes_of, chunks_of, elements, metadata, numbers, spread
from simulator.tests.sim_kit import PtxError, Sim, body

N = 8
A_BYTES, B_BYTES = 64 * 32, N * 64
FORMS = [
    Form(32, "f32", "f16", "f16"), Form(32, "f16", "f16", "f16"), Form(32, "f32", "bf16", "bf16"),
    Form(16, "f32", "tf32", "tf32"), Form(64, "f32", "e4m3", "e5m2"), Form(64, "f16", "e5m2", "e4m3"),
    Form(64, "s32", "u8", "s8"),
]  # fmt: skip


def instruction(form: Form, registers: bool, selector: int, turned: bool = False) -> str:
    d = ", ".join(f"%r{30 + i}" for i in range(2 if form.d == "f16" else 4))
    a = "{%r10, %r11, %r12, %r13}" if registers else "%rd5"
    flags = "" if form.d == "s32" else ", 1, 1"
    if form.bits == 16:
        flags += f", {int(turned)}" if registers else f", {int(turned)}, {int(turned)}"
    return (
        f"wgmma.mma_async.sp.sync.aligned.m64n{N}k{form.k}.{form.d}.{form.a}.{form.b} {{{d}}}, {a}, %rd6, %r18, "
        f"{selector}, %p1{flags};"
    )


def kernel(text: str) -> str:
    """A kernel that copies the image to shared memory; a thread's words are A's registers, metadata, accumulators."""
    return body(
        "mov.u32 %r1, %tid.x; mov.u32 %r2, image; ld.param.u64 %rd1, [shared]; mul.wide.u32 %rd9, %r1, 4;",
        "add.u64 %rd1, %rd1, %rd9; shl.b32 %r3, %r1, 2; add.u32 %r3, %r2, %r3; mov.u32 %r4, 0;",
        "again: ld.global.u32 %r5, [%rd1]; st.shared.u32 [%r3], %r5; add.u64 %rd1, %rd1, 512; add.u32 %r3, %r3, 512;",
        f"add.u32 %r4, %r4, 1; setp.lt.u32 %p2, %r4, {(A_BYTES + B_BYTES) // 512}; @%p2 bra again;",
        "fence.proxy.async; bar.sync 0;",
        "mul.wide.u32 %rd9, %r1, 48; ld.param.u64 %rd2, [in]; add.u64 %rd2, %rd2, %rd9;",
        "ld.global.v4.u32 {%r10, %r11, %r12, %r13}, [%rd2]; ld.global.u32 %r18, [%rd2+16];",
        "ld.global.v4.u32 {%r30, %r31, %r32, %r33}, [%rd2+32];",
        f"cvt.u64.u32 %rd4, %r2; shr.u64 %rd4, %rd4, 4; ld.param.u64 %rd5, [da]; add.u64 %rd5, %rd5, %rd4;"
        f" ld.param.u64 %rd6, [db]; add.u64 %rd6, %rd6, %rd4; add.u64 %rd6, %rd6, {A_BYTES >> 4};",
        "setp.eq.u32 %p1, %r1, %r1; wgmma.fence.sync.aligned;",
        text,
        "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;",
        "mul.wide.u32 %rd9, %r1, 16; ld.param.u64 %rd3, [out]; add.u64 %rd3, %rd3, %rd9;",
        "st.global.v4.u32 [%rd3], {%r30, %r31, %r32, %r33};",
        params=".param .u64 out, .param .u64 shared, .param .u64 in, .param .u64 da, .param .u64 db",
        registers=f".shared .align 1024 .b8 image[{A_BYTES + B_BYTES}];",
    )


def descriptor(leading: int, stride: int) -> int:
    return leading >> 4 << 16 | stride >> 4 << 32


def laid_out(rows: np.ndarray) -> tuple[np.ndarray, int]:
    """K-major: core matrices of 8 rows of 16 bytes, side by side along K."""
    image = np.zeros(rows.size, np.uint8)
    stride = rows.shape[1] * 8
    for row, at in itertools.product(range(rows.shape[0]), range(0, rows.shape[1], 16)):
        to = row // 8 * stride + at // 16 * 128 + row % 8 * 16
        image[to : to + 16] = rows[row, at : at + 16]
    return image, descriptor(128, stride)


def laid_out_turned(rows: np.ndarray) -> tuple[np.ndarray, int]:
    """MN-major, elements of 16 bits: core matrices of 8 elements along M for each of 8 along K."""
    values = rows.view(np.uint16)
    m, k = values.shape
    image = np.zeros(values.size, np.uint16)
    for row, at in itertools.product(range(m), range(k)):
        image[row // 8 * (k * 8) + at // 8 * 64 + at % 8 * 8 + row % 8] = values[row, at]
    return image.view(np.uint8), descriptor(128, k * 16)


def run(form: Form, registers: bool, selector: int, turned: bool, mode: str, code: int | None = None, zeros=False):
    rng = np.random.default_rng(21)
    chunks = np.concatenate([metadata(form, False, rng) for _ in range(4)])
    if code is not None:
        chunks[37, 2] = code
    a, b = (
        rng.choice([code for code in exact_codes(kind) if abs(number(kind, code)) <= 2], shape)  # sums keep 13 bits
        if kind in FLOATS
        else elements(kind, shape, rng)
        for kind, shape in ((form.a, (64, form.k // 2)), (form.b, (form.k, N)))
    )
    if code is not None:
        a[37, 4:6] = 0 if zeros else 1
    c = rng.integers(-8, 8, (64, N)).astype(np.float64)
    stored, columns = bytes_of(a, form.a, form), bytes_of(b.T.copy(), form.b, form)
    lay = laid_out_turned if turned else laid_out
    (a_image, a_bits), (b_image, b_bits) = (laid_out(stored) if registers else lay(stored)), lay(columns)
    words = np.zeros((128, 12), np.uint32)
    for thread, i in itertools.product(range(128), range(4)):
        warp, lane = thread // 32, thread % 32
        row, at = warp * 16 + lane // 4 + i % 2 * 8, i // 2 * 16 + lane % 4 * 4
        words[thread, i] = stored[row, at : at + 4].copy().view(np.uint32)[0] if registers else 0xFFFFFFFF
        places = chunks_of(lane, form, selector)
        words[thread, 4] = sum(int(chunks[warp * 16 + r, chunk]) << 4 * n for n, (r, chunk) in enumerate(places))
        if form.d == "f16":
            at = warp * 16 + lane // 4 + i // 2 * 8, lane % 4 * 2 + i % 2
            words[thread].view(np.float16)[16 + i] = c[at]
        else:
            at = warp * 16 + lane // 4 + i // 2 * 8, lane % 4 * 2 + i % 2
            words[thread].view(np.int32 if form.d == "s32" else np.float32)[8 + i] = c[at]
    sim = Sim(kernel(instruction(form, registers, selector, turned)), mode)
    out, image = sim.buffer(np.zeros((128, 4), np.uint32)), np.concatenate([a_image, b_image])
    status = sim.launch("k", out, sim.buffer(image), sim.buffer(words), a_bits, b_bits, block=128)
    if code is not None:
        return sim, status
    assert status == 0 and sim.verdict == "clean", sim.findings
    dense = np.concatenate([spread(a[w * 16 : w * 16 + 16], chunks[w * 16 : w * 16 + 16], form) for w in range(4)])
    want = numbers(dense, form.a) @ numbers(b, form.b) + c
    got = np.zeros((64, N))
    lanes = out.view({"f16": np.float16, "s32": np.int32, "f32": np.float32}[form.d]).reshape(128, -1)
    for thread, i in itertools.product(range(128), range(4)):
        got[thread // 32 * 16 + thread % 32 // 4 + i // 2 * 8, thread % 4 * 2 + i % 2] = lanes[thread, i]
    return got, want.astype(np.float16) if form.d == "f16" else want


@pytest.mark.parametrize("registers", [False, True], ids=["shared", "registers"])
@pytest.mark.parametrize("form", FORMS, ids=lambda f: f"{f.d}.{f.a}.{f.b}")
def test_sparse_wgmma_equals_the_dense_product(form, registers):
    for selector, mode in zip(form.selectors, ("late", "eager"), strict=False):
        got, want = run(form, registers, selector, False, mode)
        assert (got == want).all(), (selector, mode)


@pytest.mark.parametrize("registers", [False, True], ids=["shared", "registers"])
def test_matrices_of_16_bit_elements_may_be_transposed(registers):
    got, want = run(FORMS[0], registers, 0, True, "eager")
    assert (got == want).all()


@pytest.mark.parametrize(("form", "code"), [(FORMS[0], 0xA), (FORMS[3], 0x8), (FORMS[4], 0x0)])
def test_illegal_metadata_is_reported_with_its_lane(form, code):
    sim, _ = run(form, True, 0, False, "eager", code)
    lane = next(lane for lane in range(32) if (5, 2) in chunks_of(lane, form, 0))
    assert sim.verdict == "error" and sim.kinds == {"sparse-metadata"}
    assert (sim.findings[0]["warp"], sim.findings[0]["lane"]) == (2, lane)


def test_metadata_of_zeros_that_repeats_a_position_is_a_review():
    """CUTLASS's compressor writes such metadata for a chunk of zeros."""
    for registers in (True, False):
        sim, status = run(FORMS[0], registers, 0, False, "late", 0x0, zeros=True)
        assert status == 0 and sim.verdict == "review" and sim.kinds == {"sparse-metadata"}, sim.findings


REFUSED = [
    instruction(FORMS[0], False, 2), instruction(FORMS[4], False, 1), instruction(FORMS[3], True, -1),
    instruction(FORMS[0], False, 0).replace("k32", "k16"), instruction(FORMS[6], False, 0).replace("k64", "k32"),
    instruction(FORMS[0], False, 0).replace("%r18, 0", "%r18"),
    instruction(FORMS[0], False, 0).replace("%r18, 0", "%r18, %r19"),
]  # fmt: skip


@pytest.mark.parametrize("statement", REFUSED)
def test_forms_that_do_not_exist_are_refused(statement):
    with pytest.raises(PtxError):
        Sim(kernel(statement))


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="no ptxas here")
def test_ptxas_agrees(tmp_path):
    lines = [instruction(form, registers, form.selectors[-1]) for form in FORMS for registers in (False, True)]
    lines.append(instruction(FORMS[0], False, 0, True))
    (tmp_path / "k.ptx").write_text(kernel("\n".join(lines)))
    command = ["ptxas", "-arch", "sm_90a", "-o", "/dev/null", tmp_path / "k.ptx"]
    done = subprocess.run(command, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
