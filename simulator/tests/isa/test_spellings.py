"""Every tcgen05 spelling that ptxas assembles for sm_100a parses, and what it refuses does not."""

from __future__ import annotations

import shutil
import subprocess

import pytest

from simulator.python.toolchain import built

HEADER = """.version 8.8
.target sm_100a
.address_size 64
.visible .entry k() {
  .reg .pred %p<4>;
  .reg .b16 %h<4>;
  .reg .b32 %r<140>;
  .reg .b64 %d<8>;
  .shared .align 8 .b64 bar[2];
"""


def registers(count):
    return "{" + ", ".join(f"%r{i + 8}" for i in range(count)) + "}" if count > 1 else "{%r8}"


def legal():
    for group in ("cta_group::1", "cta_group::2"):
        g = int(group[-1])
        yield f"tcgen05.alloc.{group}.sync.aligned.shared::cta.b32 [%r0], %r1;"
        yield f"tcgen05.alloc.{group}.sync.aligned.b32 [%d0], 64;"
        yield f"tcgen05.dealloc.{group}.sync.aligned.b32 %r0, 128;"
        yield f"tcgen05.relinquish_alloc_permit.{group}.sync.aligned;"
        yield f"tcgen05.commit.{group}.mbarrier::arrive::one.b64 [%d0];"
        yield f"tcgen05.commit.{group}.mbarrier::arrive::one.shared::cluster.b64 [bar+8];"
        yield f"tcgen05.commit.{group}.mbarrier::arrive::one.multicast::cluster.b64 [%d0], %h0;"
        yield f"tcgen05.commit.{group}.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r0], %h1;"
        yield f"tcgen05.shift.{group}.down [%r0];"
        for shape in (
            "128x256b",
            "4x256b",
            "128x128b",
            "64x128b.warpx2::02_13",
            "64x128b.warpx2::01_23",
            "32x128b.warpx4",
        ):
            for form in ("", ".b8x16.b6x16_p32", ".b8x16.b4x16_p64"):
                yield f"tcgen05.cp.{group}.{shape}{form} [%r0], %d0;"
        for a in ("%d0", "[%r1]"):
            for kind in ("f16", "tf32", "f8f6f4", "i8"):
                mma = f"tcgen05.mma.{group}.kind::{kind}"
                yield f"{mma} [%r0], {a}, %d1, %r2, %p0;"
                yield f"{mma}.collector::a::fill [%r0], {a}, %d1, %r2, %p0;"
                yield f"{mma}.collector::a::lastuse [%r0], {a}, %d1, %r2, {registers(4 * g)}, %p0;"
                if kind in ("f16", "tf32"):
                    yield f"{mma} [%r0], {a}, %d1, %r2, %p0, 3;"
                    yield f"{mma} [%r0], {a}, %d1, %r2, {registers(4 * g)}, %p0, 15;"
            for form in (
                "mxf8f6f4.block_scale", "mxf8f6f4.block_scale.scale_vec::1X", "mxf8f6f4.block_scale.block32",
                "mxf4.block_scale", "mxf4.block_scale.scale_vec::2X", "mxf4.block_scale.block32",
                "mxf4nvf4.block_scale.scale_vec::2X", "mxf4nvf4.block_scale.scale_vec::4X",
                "mxf4nvf4.block_scale.block16", "mxf4nvf4.block_scale.block32",
                "mxf4nvf4.block_scale.block16.collector::a::use", "mxf4nvf4.block_scale.block16.collector::a::discard",
            ):  # fmt: skip
                yield f"tcgen05.mma.{group}.kind::{form} [%r0], {a}, %d1, %r2, [%r3], [%r4], %p0;"
    for kind in ("f16", "tf32", "f8f6f4", "i8"):
        for collector in ("", ".collector::b0::fill", ".collector::b3::lastuse"):
            yield f"tcgen05.mma.ws.cta_group::1.kind::{kind}{collector} [%r0], %d0, %d1, %r2, %p0;"
    for shape, per, top in (("32x32b", 1, 128), ("16x64b", 1, 128), ("16x128b", 2, 64), ("16x256b", 4, 32)):
        number = 1
        while number <= top:
            r = registers(number * per)
            yield f"tcgen05.ld.sync.aligned.{shape}.x{number}.b32 {r}, [%r0];"
            yield f"tcgen05.ld.sync.aligned.{shape}.x{number}.pack::16b.b32 {r}, [%r0];"
            yield f"tcgen05.st.sync.aligned.{shape}.x{number}.b32 [%r0], {r};"
            yield f"tcgen05.st.sync.aligned.{shape}.x{number}.unpack::16b.b32 [%r0], {r};"
            number *= 2
    yield "tcgen05.ld.sync.aligned.16x32bx2.x4.b32 {%r8, %r9, %r10, %r11}, [%r0], 4;"
    yield "tcgen05.ld.sync.aligned.16x32bx2.x2.pack::16b.b32 {%r8, %r9}, [%r0], 16;"
    yield "tcgen05.st.sync.aligned.16x32bx2.x2.b32 [%r0], 2, {%r8, %r9};"
    yield "tcgen05.st.sync.aligned.16x32bx2.x1.unpack::16b.b32 [%r0], 2, {%r8};"
    yield "tcgen05.wait::ld.sync.aligned;"
    yield "tcgen05.wait::st.sync.aligned;"
    yield "tcgen05.fence::before_thread_sync;"
    yield "tcgen05.fence::after_thread_sync;"


ILLEGAL = [
    "tcgen05.alloc.sync.aligned.shared::cta.b32 [%r0], %r1;",
    "tcgen05.alloc.cta_group::3.sync.aligned.b32 [%d0], 64;",
    "tcgen05.ld.sync.aligned.16x256b.x64.b32 {%r8}, [%r0];",
    "tcgen05.ld.sync.aligned.32x32b.x2.b32 {%r8}, [%r0];",
    "tcgen05.ld.32x32b.x1.b32 {%r8}, [%r0];",
    "tcgen05.ld.sync.aligned.32x32b.x3.b32 {%r8, %r9, %r10}, [%r0];",
    "tcgen05.cp.cta_group::1.32x128b [%r0], %d0;",
    "tcgen05.cp.cta_group::1.64x128b [%r0], %d0;",
    "tcgen05.cp.cta_group::1.128x128b.warpx4 [%r0], %d0;",
    "tcgen05.mma.cta_group::1.kind::mxf4nvf4.block_scale [%r0], %d0, %d1, %r2, [%r3], [%r4], %p0;",
    "tcgen05.mma.cta_group::1.kind::mxf4nvf4 [%r0], %d0, %d1, %r2, %p0;",
    "tcgen05.mma.cta_group::1.kind::f16.block_scale [%r0], %d0, %d1, %r2, [%r3], [%r4], %p0;",
    "tcgen05.mma.cta_group::1.kind::f8f6f4 [%r0], %d0, %d1, %r2, %p0, 3;",
    "tcgen05.mma.cta_group::1.kind::f16 [%r0], %d0, %d1, %r2, %p0, 16;",
    "tcgen05.mma.cta_group::2.kind::f16 [%r0], %d0, %d1, %r2, {%r8, %r9, %r10, %r11}, %p0;",
    "tcgen05.mma.cta_group::1.kind::f32 [%r0], %d0, %d1, %r2, %p0;",
    "tcgen05.mma.cta_group::1.kind::f16 [%r0], %r1, %d1, %r2, %p0;",
    "tcgen05.commit.cta_group::1.mbarrier::arrive::one.multicast::cluster.b64 [%d0];",
    "tcgen05.commit.cta_group::1.b64 [%d0];",
    "tcgen05.shift.cta_group::1 [%r0];",
    "tcgen05.wait.sync.aligned;",
    "tcgen05.frobnicate;",
]


def parses(tmp_path, lines):
    (tmp_path / "k.ptx").write_text(HEADER + "".join(f"  {line}\n" for line in lines) + "  ret;\n}\n")
    done = subprocess.run([built("ptxsim"), tmp_path / "k.ptx", "--parse"], capture_output=True, text=True, check=False)
    return done.returncode == 0, done.stdout + done.stderr


def assembles(tmp_path, lines):
    (tmp_path / "k.ptx").write_text(HEADER + "".join(f"  {line}\n" for line in lines) + "  ret;\n}\n")
    done = subprocess.run(
        ["ptxas", "-arch", "sm_100a", "-o", "/dev/null", tmp_path / "k.ptx"],
        capture_output=True,
        text=True,
        check=False,
    )
    return done.returncode == 0, done.stderr


def test_every_legal_spelling_parses(tmp_path):
    lines = list(legal())
    assert len(lines) > 250
    ok, message = parses(tmp_path, lines)
    assert ok, message


@pytest.mark.parametrize("line", ILLEGAL)
def test_illegal_spellings_are_refused_with_their_line(tmp_path, line):
    ok, message = parses(tmp_path, [line])
    assert not ok
    assert f"line {HEADER.count(chr(10)) + 1}:" in message and "tcgen05" in message


@pytest.mark.parametrize(
    ("line", "said"),
    [
        ("createpolicy.fractional.L2::evict_last.b64;", "expected a destination"),
        ("div.rn.f16 %h0, %h1, %h2;", "for type .f16"),
        ("sqrt.rn.bf16 %h0, %h1;", "for type .bf16"),
        ("cvt.rn.f16x2.u16 %r0, %h1;", "no conversion from .u16"),
        (
            "tcgen05.mma.cta_group::1.kind::f16.block_scale [%r0], %d0, %d1, %r2, [%r3], [%r4], %p0;",
            ".block_scale does not go with this kind",
        ),
        ("tcgen05.mma.cta_group::1.kind::mxf4nvf4 [%r0], %d0, %d1, %r2, %p0;", "expected .block_scale"),
    ],
)
def test_instructions_that_do_not_exist_are_refused(tmp_path, line, said):
    ok, message = parses(tmp_path, [".reg .b16 %h<4>;", line])
    assert not ok and said in message, message


def test_every_cache_hint_is_accepted(tmp_path):
    hints = [f"L1::{hint}" for hint in ("evict_normal", "evict_unchanged", "evict_first", "evict_last", "no_allocate")]
    hints += ["L2::64B", "L2::128B", "L2::256B", "L1::evict_last.L2::128B"]
    # PTX ISA, Cache Operators: those of loads, and of stores.
    operators = [f"ld.global.{operator}.b32 %r0, [%d0];" for operator in ("ca", "cg", "cs", "lu", "cv")]
    operators += [f"st.global.{operator}.b32 [%d0], %r0;" for operator in ("wb", "cg", "cs", "wt")]
    lines = [f"ld.global.{hint}.b32 %r0, [%d0];" for hint in [*hints, *(f"nc.{hint}" for hint in hints)]]
    lines += operators
    lines += [f"ld{how}.global.L1::evict_first.L2::cache_hint.b32 %r0, [%d0], %d1;" for how in ("", ".weak")]
    ok, message = parses(tmp_path, lines)
    assert ok, message
    assert not parses(tmp_path, ["ld.global.L1::evict_never.b32 %r0, [%d0];"])[0]


@pytest.mark.skipif(shutil.which("ptxas") is None, reason="no ptxas here")
def test_ptxas_agrees(tmp_path):
    for other in ("cta_group::1", "cta_group::2"):  # a kernel may use only one of them
        ok, message = assembles(tmp_path, [line for line in legal() if other not in line])
        assert ok, message
    _, message = assembles(tmp_path, ILLEGAL)
    for i, line in enumerate(ILLEGAL):  # ptxas continues after an error
        assert f"line {HEADER.count(chr(10)) + 1 + i};" in message.replace(",", ";"), line
