"""Limits of PTX text: accepted at the limit, refused one step beyond it."""

from __future__ import annotations

import pytest

from simulator.tests.sim_kit import HEADER, PtxError, Sim, body

ENTRY = HEADER + ".visible .entry k({parameters}) {{ {lines} ret; }}\n"


def kernel(*lines: str, parameters: str = ".param .u64 p") -> str:
    return ENTRY.format(parameters=parameters, lines="\n".join(lines))


def parameters(count: int) -> str:
    return ", ".join(f".param .u32 p{i}" for i in range(count))


def nested(depth: int, opened: str = "{", closed: str = "}", inside: str = "") -> str:
    return opened * depth + inside + closed * depth


def jump(targets: int) -> str:
    names = ", ".join(["END"] * targets)
    return kernel(".reg .b32 %r<3>;", "mov.u32 %r1, 0;", f"LIST: .branchtargets {names};", "brx.idx %r1, LIST;", "END:")


# name: text at the limit, text beyond it, part of the message
BOUNDS = {
    "parameters": (kernel(parameters=parameters(256)), kernel(parameters=parameters(257)), "256 parameters"),
    "bytes of parameters": (
        kernel(parameters=".param .b8 p[32764]"),
        kernel(parameters=".param .b8 p[32765]"),
        "32764 bytes",
    ),
    "a frame": (
        kernel(".local .b8 f[1048576];"),
        kernel(".local .b8 f[1048577];"),
        "1048576 bytes",
    ),
    "a frame of words": (
        kernel(".local .b32 f[262144];"),
        kernel(".local .b32 f[262145];"),
        "1048576 bytes",
    ),
    "a frame of rows": (
        kernel(".local .b8 f[1024][1024];"),
        kernel(".local .b8 f[1024][1025];"),
        "1048576 bytes",
    ),
    "what is left of a frame": (
        kernel(".local .b8 f[1048576], g[4];"),
        kernel(".local .b8 f[1048576], g[4], h[4];"),
        "1048576 bytes",
    ),
    "targets of a jump": (jump(512), jump(513), "512 branch targets"),
    "scopes": (kernel(nested(62)), kernel(nested(63)), "scopes nested too deep"),
    "braces of an initialiser": (
        HEADER + f".global .u32 x[1]{'[1]' * 7} = {nested(8, inside='1')};\n",
        HEADER + f".global .u32 x[1]{'[1]' * 7} = {nested(10, inside='1')};\n",
        "an initialiser nested too deep",
    ),
    "variables": (
        HEADER + ".const .b8 x[1048576];\n",
        HEADER + ".global .b8 x[1073741824], y[1];\n",
        "too many bytes",
    ),
    "a message's word": (
        kernel(f"{'x' * 59}:"),
        kernel("," + "x" * 60 + ";"),
        "',' where an instruction was expected",
    ),
}


@pytest.mark.parametrize("bound", BOUNDS)
def test_texts_are_accepted_up_to_each_limit(bound):
    read, refused, said = BOUNDS[bound]
    Sim(read)
    with pytest.raises(PtxError) as caught:
        Sim(refused)
    assert said in str(caught.value)


MODULES = {
    ".version\n.target sm_90a\n": ".version without a number",
    ".version nine\n": ".version without a number",
    ".version 8.7\n.target sm_90a\n.address_size 32\n": ".address_size 64",
    HEADER + ".file 1\n": ".file without a name",
    HEADER + ".global .u64 x = y;\n": "'y', which has no address",
    HEADER + ".shared .b8 y[4];\n.global .u64 x = y;\n": "'y', which has no address",
    HEADER + ".global .loud .u32 x;\n": "unknown directive '.loud'",
    HEADER + ".global .u32 5;\n": "'5'",
    HEADER + f"{'x' * 59}\n": f"'{'x' * 59}'",
    HEADER + f"{'x' * 60}\n": f"'{'x' * 60}'",
    HEADER + f"{'x' * 61}\n": f"'{'x' * 60}'",
    HEADER + f".global .u32 .{'x' * 70};\n": f"unknown directive '.{'x' * 70}'",
    HEADER + f".global .u32 +{'x' * 70};\n": "'+'",
    kernel(".file 1 \"a.cu\""): ".file inside a function",
    kernel(".loc 1 2 3, somewhere f;"): "a malformed .loc",
    kernel("LIST: .calltargets f, g;"): ".calltargets is not supported",
    kernel(".reg .b64 %rd1; P: .callprototype (.param .b32 _) _ ();  call %rd1, (), P;"): "the function has 1",
    kernel(f".{'x' * 70} 5;"): f"unknown directive '.{'x' * 59}'",
}  # fmt: skip


@pytest.mark.parametrize("text", MODULES)
def test_a_refused_module_names_the_fault(text):
    with pytest.raises(PtxError) as caught:
        Sim(text)
    assert MODULES[text] in str(caught.value)


OPERANDS = ", ".join(f"%r{i}" for i in range(1, 18))
STATEMENTS = {
    f"add.u32 {OPERANDS};": "too many operands of 'add.u32'",
    f"add{'.u32' * 25} %r1, %r2, %r3;": "too many modifiers",
    "add.u32 %r1, %r2, 1.5;": "a floating-point number for a .u32 operand",
    "ld.global.u32 %r1, [{%r2, %r3}];": "address",
    "ld.global.u32 %r1, [nothing];": "'nothing' is not declared",
    f"mov.b64 %rd1, {nested(62, '(', ')', '1')};": "brackets nested too deep",
    "mov.b64 %rd1, {{%r1, %r2}, %r3};": "a vector inside a vector",
    "createpolicy.fractional.L2::evict_last.b64;": "expected a destination",
    "brx %r1, LIST;": "expected brx.idx",
    "barrier.cta.red.and.u32 %r1, 0, %p2;": "this reduction and type",
    "barrier.cta.red.popc.pred %p1, 0, %p2;": "this reduction and type",
    "set.eq.u64.u32 %rd1, %r1, %r2;": "these types",
    "set.eq.u32.pred %r1, %p1, %p2;": "these types",
    "cvt.pred.u32 %p1, %r1;": "these types",
    "cvt.u32.pred %r1, %p1;": "these types",
    "vabsdiff4.u64.u32.u32 %r1, %r2, %r3, %r4;": "type .u64",
    "vset4.u32.u32.eq.sat %r1, %r2, %r3, %r4;": "unknown modifier '.sat'",
    "vabsdiff4.u32.u64.u32 %r1, %r2, %r3, %r4;": "type .u64",
    "dp4a.u64.u32 %r1, %r2, %r3, %r4;": "type .u64",
    "dp4a.u32.f32 %r1, %r2, %r3, %r4;": "type .f32",
    "red.async.relaxed.cluster.global.mbarrier::complete_tx::bytes.u32 [%r1], %r2, [%r3];": "expected a reduction",
    "clusterlaunchcontrol.some.b128 %rd1, %rd2;": ".try_cancel or .query_cancel",
    "tensormap.cp_fenceproxy.shared::cta.global.tensormap::generic.release.gpu.sync.aligned [%rd1], [%r1], 128;": (
        ".global.shared::cta"
    ),
    "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd1], [%r1], 64;": (
        "128 bytes"
    ),
}


@pytest.mark.parametrize("statement", STATEMENTS)
def test_a_refused_statement_names_the_fault(statement):
    with pytest.raises(PtxError) as caught:
        Sim(body(statement).replace("sm_90a", "sm_100a"))
    assert STATEMENTS[statement] in str(caught.value)
