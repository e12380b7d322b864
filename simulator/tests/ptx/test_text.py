"""Meaning of PTX text: numbers, directives, scopes, initialisers."""

from __future__ import annotations

import ctypes
import re
import struct

import numpy as np
import pytest

from simulator.tests.sim_kit import HEADER, PtxError, Sim, body

NUMBERS = {
    "0": 0,
    "7": 7,
    "4294967295": 2**32 - 1,
    "18446744073709551615": 2**64 - 1,
    "0x1F": 31,
    "0xabcdefABCDEF": 0xABCDEFABCDEF,
    "0X10": 16,
    "0b1011": 11,
    "0B1": 1,
    "017": 15,
    "00": 0,
    "12U": 12,
    "0x10U": 16,
    "-1": 2**64 - 1,
    "-0x10": 2**64 - 16,
    "0xFFFFFFFFFFFFFFFF": 2**64 - 1,
    # Expressions: C's operators and precedence, as in ptxas.
    "((128 >> 4) << 16)": 8 << 16,
    "1+2*3": 7,
    "(1+2)*3": 9,
    "10-4-3": 3,
    "7*-3": 2**64 - 21,
    "-7/2": 2**64 - 3,
    "-16>>2": 2**64 - 4,
    "1|6&~2^8": 1 | ((6 & ~2) ^ 8),
    "1<<2+1": 8,
    "-(2+3)": 2**64 - 5,
    "~0": 2**64 - 1,
    "0x8000000000000000/-1": 0,
    "(-9223372036854775807-1)/-1": 2**63,
    "-16U>>2": 2**62 - 4,
    "-7/2U": 2**63 - 4,
    "-7>>1U": 2**64 - 4,
    "~0>>1": 2**63 - 1,
    "(-16|0)>>2": 2**64 - 4,
    "100/10/5": 2,
    "WARP_SZ": 32,
    "-(WARP_SZ-1)*2": 2**64 - 62,
}


def test_integer_literals_and_constant_expressions():
    lines = [f"mov.u64 %rd2, {text}; st.global.u64 [%rd1+{8 * i}], %rd2;" for i, text in enumerate(NUMBERS)]
    sim = Sim(body("ld.param.u64 %rd1, [p];", *lines))
    out = sim.buffer(np.zeros(len(NUMBERS), np.uint64))
    assert sim.launch("k", out, block=1) == 0
    assert dict(zip(NUMBERS, out.tolist(), strict=True)) == NUMBERS


FLOATS = {
    "1.5": 1.5,
    "0.1": 0.1,
    "2e3": 2000.0,
    "1.25E-2": 0.0125,
    "3.e+2": 300.0,
    "0d3FF8000000000000": 1.5,
    "0D4000000000000000": 2.0,
    "-1.5": -1.5,
    "0d8000000000000000": -0.0,
}


def test_float_literals():
    lines = [f"mov.f64 %fd2, {text}; st.global.f64 [%rd1+{8 * i}], %fd2;" for i, text in enumerate(FLOATS)]
    lines += [
        "mov.f32 %f2, 0f3FC00000; st.global.f32 [%rd1+128], %f2; mov.f32 %f2, 0F80000000;"
        " st.global.f32 [%rd1+132], %f2;"
    ]
    lines += ["mov.f32 %f2, 0.1; st.global.f32 [%rd1+136], %f2; add.f32 %f2, %f2, 1.0; st.global.f32 [%rd1+140], %f2;"]
    sim = Sim(body("ld.param.u64 %rd1, [p];", *lines))
    out = sim.buffer(np.zeros(24, np.float64))
    assert sim.launch("k", out, block=1) == 0
    assert [struct.pack("d", v) for v in out[: len(FLOATS)].tolist()] == [struct.pack("d", v) for v in FLOATS.values()]
    tenth = np.float32(0.1)
    assert (
        out.view(np.uint32)[32:36].tolist()
        == np.array([1.5, -0.0, tenth, tenth + np.float32(1)], np.float32).view(np.uint32).tolist()
    )


GLOBALS = """
.global .align 4 .u32 plain = 7;
.global .u16 halves[3] = {1, 2, 0xffff};
.global .align 8 .b8 bytes[] = {1, 2, 3, 4, 5, 6, 7, 8};
.visible .global .align 16 .f32 reals[4] = {1.5, 0f40000000, 0fC0400000};
.global .f64 wide[2] = {0.1, 0d4010000000000000};
.const .align 4 .s32 table[2][2] = {{1, -2}, {3, 4}};
.global .u64 place = bytes+2;
.global .u64 places[2] = {generic(halves), generic(halves)+4};
.global .align 128 .b8 spaced[3];
.global .v4 .u32 vector = {9, 8, 7, 6};
.global .u32 one = 1, two = 2;
"""


def test_variables_and_their_initialisers():
    reads = {  # statement: the value that it reads
        "ld.global.u32 %r2, [plain];": 7,
        "ld.global.u16 %r2, [halves+4];": 0xFFFF,
        "ld.global.u16 %r2, [halves+2];": 2,
        "ld.global.u32 %r2, [bytes+4];": 0x08070605,
        "ld.global.b32 %r2, [reals];": 0x3FC00000,
        "ld.global.b32 %r2, [reals+4];": 0x40000000,
        "ld.global.b32 %r2, [reals+8];": 0xC0400000,
        "ld.global.b32 %r2, [reals+12];": 0,
        "ld.global.b32 %r2, [wide+4];": struct.unpack("II", struct.pack("d", 0.1))[1],
        "ld.global.b32 %r2, [wide+12];": 0x40100000,
        "ld.const.s32 %r2, [table+4];": 2**32 - 2,
        "ld.const.s32 %r2, [table+12];": 4,
        "ld.global.u64 %rd2, [place]; ld.global.u8 %r2, [%rd2];": 3,
        "ld.global.u64 %rd2, [places]; ld.u16 %r2, [%rd2];": 1,
        "ld.global.u64 %rd2, [places+8]; ld.u16 %r2, [%rd2];": 0xFFFF,
        "mov.u64 %rd2, spaced; and.b64 %rd2, %rd2, 127; cvt.u32.u64 %r2, %rd2;": 0,
        "mov.u64 %rd2, spaced+2; and.b64 %rd2, %rd2, 127; cvt.u32.u64 %r2, %rd2;": 2,
        "ld.global.u32 %r2, [vector+8];": 7,
        "ld.global.v4.u32 {%r3, %r2, %r4, %r5}, [vector];": 8,
        "ld.global.u32 %r2, [one]; ld.global.u32 %r3, [two]; mad.lo.u32 %r2, %r3, 10, %r2;": 21,
    }
    lines = [f"{text} st.global.u32 [%rd1+{4 * i}], %r2;" for i, text in enumerate(reads)]
    sim = Sim(body("ld.param.u64 %rd1, [p];", *lines, before=GLOBALS))
    out = sim.buffer(np.zeros(len(reads), np.uint32))
    assert sim.launch("k", out, block=1) == 0, sim.findings
    assert dict(zip(reads, out.tolist(), strict=True)) == reads
    assert sim.launch("k", out, block=1) == 0
    assert dict(zip(reads, out.tolist(), strict=True)) == reads


def test_an_open_array_is_as_long_as_its_initialiser():
    before = (
        ".global .u16 open[] = {1, 2, 3};\n.global .u32 one[] = {7};"
        "\n.global .u8 nested[][2] = {{1, 2}, {3, 4}, {5, 6}};\n"
    )
    sim = Sim(body("", before=before))
    size = ctypes.c_size_t()
    sim.lib.sim_global.restype = ctypes.c_void_p
    for name, bytes_of in ((b"open", 6), (b"one", 4), (b"nested", 6)):
        assert sim.lib.sim_global(sim.module, name, ctypes.byref(size))
        assert size.value == bytes_of, name


def test_local_variables_are_aligned():
    """Local variables are aligned by their type or .align and do not overlap."""
    sim = Sim(
        body(
            ".local .b8 odd[3]; .local .b64 wide; .local .b8 another; .local .align 16 .b8 block[16];"
            " .local .v4 .b32 quad;"
            " .local .b32 behind;",
            "mov.u64 %rd2, 0x1122334455667788; mov.u32 %r2, 9; mov.u32 %r4, 5;"
            " st.local.u32 [behind], %r4; st.local.u64 [wide], %rd2; st.local.u8 [odd+2], %r2;",
            "st.local.u8 [another], %r2; st.local.v2.u64 [block], {%rd2, %rd2};"
            " st.local.v4.u32 [quad], {%r2, %r2, %r2, %r2};",
            "ld.local.u64 %rd3, [wide]; ld.local.u8 %r3, [odd+2]; ld.local.u64 %rd4, [block+8];"
            " ld.param.u64 %rd1, [p];",
            "st.global.u64 [%rd1], %rd3; st.global.u64 [%rd1+8], %rd4; st.global.u32 [%rd1+16], %r3;"
            " ld.local.u32 %r5, [behind]; st.global.u32 [%rd1+24], %r5;",
        )
    )
    out = sim.buffer(np.zeros(4, np.uint64))
    assert sim.launch("k", out, block=1) == 0, sim.findings
    assert out.tolist() == [0x1122334455667788, 0x1122334455667788, 9, 5]


def test_parameters_of_every_kind():
    params = (
        ".param .u8 a, .param .s16 b, .param .f32 c, .param .align 16 .b8 d[24], .param .f64 e,"
        " .param .u64 .ptr .global .align 8 p"
    )
    text = body(
        "ld.param.u64 %rd1, [p]; ld.param.u8 %r2, [a]; st.global.u32 [%rd1], %r2;"
        " ld.param.s16 %r2, [b]; st.global.u32 [%rd1+4], %r2;",
        "ld.param.f32 %f1, [c]; st.global.f32 [%rd1+8], %f1; ld.param.u32 %r2, [d+20]; st.global.u32 [%rd1+12], %r2;",
        "ld.param.v2.u32 {%r2, %r3}, [d+8]; st.global.v2.u32 [%rd1+16], {%r2, %r3};"
        " ld.param.f64 %fd1, [e]; st.global.f64 [%rd1+24], %fd1;",
        params=params,
    )
    sim = Sim(text)
    lib = sim.lib
    assert [lib.sim_parameter_bytes(sim.module, b"k", i) for i in range(-1, 7)] == [0, 1, 2, 4, 24, 8, 8, 0]
    assert lib.sim_parameter_count(sim.module, b"k") == 6
    assert lib.sim_parameter_count(sim.module, b"nowhere") == -1
    out = sim.buffer(np.zeros(8, np.uint32))
    assert sim.launch("k", 200, -5, 1.5, bytes(range(24)), -2.5, out, block=1) == 0, sim.findings
    assert out[:2].tolist() == [200, 2**32 - 5]
    assert out[2:3].view(np.float32)[0] == 1.5
    assert out[3:6].tolist() == [0x17161514, 0x0B0A0908, 0x0F0E0D0C]
    assert out[6:8].view(np.float64)[0] == -2.5


SHAPES = {
    ".maxntid 64, 1, 1": [
        ({"block": 64}, True),
        ({"block": 65}, False),
        ({"block": (8, 8, 1)}, True),
        ({"block": (8, 9, 1)}, False),
    ],
    ".maxntid 8, 4": [({"block": 32}, True), ({"block": 33}, False)],
    ".reqnctapercluster 2, 1, 1": [({"grid": 4}, True), ({"grid": 3}, False)],
    ".reqnctapercluster 2, 2": [({"grid": (2, 2, 1)}, True), ({"grid": (4, 1, 1)}, False)],
    ".minnctapersm 2": [({"grid": 3}, True)],
    ".maxnreg 64": [({"grid": 3}, True)],
}


def test_addresses_may_be_expressions_and_parentheses_may_be_lists():
    lines = (
        "ld.param.u64 %rd1, [p];",
        "mov.u32 %r1, 5; st.global.u32 [%rd1+2*4+4], %r1; mov.u64 %rd3, small+(2-1)*4; ld.global.u32 %r2, [%rd3];",
        "st.global.u32 [%rd1+ -4+4], %r2;",
        "{ .param .b32 given; .param .b32 back; st.param.b32 [given], 9; call.uni (back), twice, (given);",
        "ld.param.b32 %r3, [back]; } st.global.u32 [%rd1+(1<<2)], %r3;",
    )
    before = """.global .align 4 .u32 small[2] = {3, 4};
.func (.param .b32 r) twice(.param .b32 x) { .reg .b32 %a; ld.param.b32 %a, [x]; add.s32 %a, %a, %a;
st.param.b32 [r], %a; ret; }"""
    sim = Sim(body(*lines, before=before))
    out = sim.buffer(np.zeros(4, np.uint32))
    assert sim.launch("k", out, block=1) == 0, sim.findings
    assert out.tolist() == [4, 18, 0, 5]


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("1/0", "a number divided by zero"),
        ("1<<64", "a number shifted by more than 63 bits"),
        ("(1+2", "';' where ')' was expected"),
        ("1<2", "'2' where '<' was expected"),
        ("4*", "';' where a number was expected"),
        ("1; call.uni f, (9)", ".param variable"),  # a parenthesised number is not a list
        ("0+" + "(" * 99 + "1" + ")" * 99, "an expression nested too deep"),
    ],
)
def test_expressions_that_cannot_be_evaluated_are_refused(text, message):
    with pytest.raises(PtxError, match=re.escape(message)):
        Sim(body(f"mov.u64 %rd1, {text};", before=".func f(.param .b32 x) { ret; }"))


VECTORS = ("tid", "ntid", "ctaid", "nctaid", "clusterid", "nclusterid", "cluster_ctaid", "cluster_nctaid")


@pytest.mark.parametrize("ctas", [1, 2])
def test_w_components_are_zero_and_is_explicit_cluster_is_a_predicate(ctas):
    lines = ["ld.param.u64 %rd1, [p];"]
    for i, name in enumerate(VECTORS):
        lines.append(f"mov.u32 %r2, %{name}.w; st.global.u32 [%rd1+{4 * i}], %r2;")
    lines += ["mov.pred %p1, %is_explicit_cluster; selp.u32 %r2, 7, 8, %p1; st.global.u32 [%rd1+32], %r2;"]
    lines += ["@%p1 st.global.u32 [%rd1+36], 1;"]
    sim = Sim(body(*lines))
    out = sim.buffer(np.full(10, 99, np.uint32))
    assert sim.launch("k", out, grid=ctas, block=1, cluster=ctas if ctas > 1 else 0) == 0, sim.findings
    assert out.tolist() == [0] * 8 + ([7, 1] if ctas > 1 else [8, 99])


@pytest.mark.parametrize("directive", SHAPES)
def test_directives_that_limit_a_launch(directive):
    for launch, taken in SHAPES[directive]:
        sim = Sim(f"{HEADER}.visible .entry k(.param .u64 p)\n{directive}\n{{ ret; }}\n")
        assert (sim.launch("k", 0, **launch) == 0) is taken, (launch, sim.message())


def test_a_kernel_without_an_instruction_ends():
    sim = Sim(HEADER + ".visible .entry k(.param .u64 p)\n{ }\n")
    assert sim.launch("k", 0, block=32) == 0 and sim.verdict == "clean", sim.findings


def test_cluster_size_from_the_kernel_and_from_the_launch():
    text = HEADER + (
        ".visible .entry k(.param .u64 p)\n.reqnctapercluster 2, 1, 1\n{ .reg .b32 %r<4>;"
        " .reg .b64 %rd<4>; ld.param.u64 %rd1, [p];"
        " mov.u32 %r1, %cluster_nctaid.x; mov.u32 %r2, %ctaid.x; mul.wide.u32 %rd2, %r2, 4; add.u64 %rd1, %rd1, %rd2;"
        " st.global.u32 [%rd1], %r1; ret; }\n"
    )
    sim = Sim(text)
    out = sim.buffer(np.zeros(4, np.uint32))
    assert sim.launch("k", out, grid=4, block=1) == 0
    assert out.tolist() == [2] * 4
    assert sim.launch("k", out, grid=4, block=1, cluster=4) == 0
    assert out.tolist() == [4] * 4


def test_an_inlined_line_names_its_call_site():
    """.loc FILE LINE COLUMN, function_name LABEL+OFFSET, inlined_at FILE LINE COLUMN."""
    place = ".loc 1 5 3, function_name $L__info_string0+7, inlined_at 2 9 4"
    reads = ("ld.shared.u32 %r1, [cell];", ".loc 1 6 3", "ld.shared.u32 %r1, [cell+4];")
    text = body(place, *reads, registers=".shared .align 8 .b8 cell[8];")
    text = text.replace(".visible", '.file 1 "a.cu"\n.file 2 "b.cu"\n.visible')
    sim = Sim(text)
    sim.launch("k", 0, block=1)
    assert [f["source"] for f in sim.findings] == ["a.cu:5 inlined at b.cu:9", "a.cu:6"], sim.findings
