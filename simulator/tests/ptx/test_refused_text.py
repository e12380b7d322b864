"""PTX text that cannot be parsed: messages and line numbers."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.tests.sim_kit import HEADER, PtxError, Sim, body

ERRORS = {  # a whole module: line, part of the message
    HEADER + ".global .align 3 .u32 x;\n": (4, "alignment 3"),
    HEADER + ".global .align 8192 .u32 x;\n": (4, "alignment 8192"),
    HEADER + ".global .u32 x[2] = {1, 2, 3};\n": (4, "more initialisers than elements"),
    HEADER + ".global x;\n": (4, "a declaration without a type"),
    HEADER + ".extern .global .u32 x;\n": (4, "'x' is external"),
    HEADER + ".global .pred x;\n": (4, "a declaration without a type"),
    HEADER + ".global .u32 x[99999999999];\n": (4, "an array of more than"),
    HEADER + ".shared .b8 x[2000000];\n": (4, "too many"),
    HEADER + ".nonsense 5;\n": (4, ".nonsense"),
    HEADER + '.file 1 "unfinished\n': (4, "a string without an end"),
    HEADER + "\n\n/* a\n b */ /* c": (7, "a comment without an end"),
    HEADER + ".global .u32 x = 18446744073709551616;\n": (4, "a malformed number"),
    HEADER + ".global .u32 x = 12z;\n": (4, "a malformed number"),
    HEADER + ".global .f32 x = 0f123;\n": (4, "a malformed number"),
    HEADER + ".global .u32 x = 0b2;\n": (4, "a malformed number"),
    HEADER + ".global .u32 \x7f;\n": (4, "a character that PTX does not have"),
    HEADER + "5": (4, "'5'"),
    HEADER + f"{'x' * 100} 5": (4, f"'{'x' * 60}'"),  # a long word is cut to 60 characters
    HEADER + ".entry k(x) { ret; }": (4, "without .param"),
    body("mov.u32 %r1, 0x;"): (9, "a malformed number"),
    body("bra NOWHERE;"): (9, "no label 'NOWHERE'"),
    body("@%r1 bra NOWHERE;"): (9, "the guard is not a predicate"),
    body("mov.u32 %r1, 5"): (10, "'ret'"),  # the semicolon is missing: the next line is the error
    body('"text"'): (9, "where an instruction was expected"),
    body("/* no end"): (12, "a comment without an end"),
    body("call.uni absent, ();"): (9, "expected a declared function"),
    body(".reg .b32 %x<99999999>;"): (9, "more than"),
    body(".local .b8 x[];"): (9, "an array in a frame without a size"),
    body(".local .global .b8 x[4];"): (9, "'.global'"),
    body(".local .b64 .ptr x;"): (9, "'.ptr'"),
    HEADER + ".global .shared .u32 x;\n": (4, "'.shared'"),
}


@pytest.mark.parametrize("text", ERRORS)
def test_modules_that_cannot_be_read(text):
    line, said = ERRORS[text]
    with pytest.raises(PtxError) as caught:
        Sim(text)
    assert str(caught.value).startswith(f"line {line}: "), caught.value
    assert said in str(caught.value)


STATEMENTS = {  # a kernel's statement: part of the message
    "tld4.r.2d.v4.f32.f32 {%f1, %f2, %f3, %f4}, [%rd1, {%f5, %f6}], {%r1, %r2};": "3 operands",
    "tld4.r.2d.v4.f32.f32 {%f1, %f2, %f3, %f4};": "1 operand",
    "frobnicate.u32 %r1, %r2;": "unknown instruction",
    "tcgen05.nonsense.b32 %r1;": "tcgen05",
    "add.s32.whatever %r1, %r2, %r3;": "unknown modifier '.whatever'",
    "add.s32 %r1, %r2;": "2 operands",
    "add.s32 %r1, %r2, %zz;": "'%zz' is not declared",
    "add.e4m3 %r1, %r2, %r3;": "for type .e4m3",
    "ld.shared.v4.u32 {%r1, %r2}, [%r3];": "2 elements of .u32; expected 4",
    "setp.xx.u32 %p1, %r1, %r2;": "expected a comparison",
    "wgmma.mma_async.sync.aligned.m64n7k16.f32.f16.f16 {%f1}, %rd1, %rd2, %p1, 1, 1, 0, 0;": "wgmma",
    "setmaxnreg.dec.sync.aligned.u32 41;": "41 registers",
    "add.u32 %r1, %r2, %r3, %r4;": "4 operands; expected 3",
    "add.u32 %rd1, %r2, %r3;": "'%rd1' is a .b64 register",
    "add.u64 %rd1, %rd2, %f1;": "'%f1'",
    "mul.u32 %r1, %r2, %r3;": ".lo, .hi or .wide",
    "mad.u32 %r1, %r2, %r3, %r4;": ".lo, .hi or .wide",
    "mul.wide.u64 %rd1, %rd2, %rd3;": "no .wide form of .u64",
    "shf.wrap.b32 %r1, %r2, %r3, %r4;": ".l or .r",
    "shf.l.b32 %r1, %r2, %r3, %r4;": ".clamp or .wrap",
    "mul24.s32 %r1, %r2, %r3;": ".lo or .hi",
    "dp2a.u32.u32 %r1, %r2, %r3, %r4;": ".lo or .hi",
    "cvt.pack.u8.s32.b32 %r1, %r2, %r3, %r4;": "cvt.pack.sat from .s32",
    "cvt.pack.sat.u8.s32 %r1, %r2, %r3, %r4;": "type .b32 for the bits above",
    "cvt.u64.u32 %r1, %r2;": "a register is narrower than its type",
    "setp.eq.pred %p1, %p2, %p3;": "for type .pred",
    "lop3.b64 %rd1, %rd2, %rd3, %rd4, 1;": "expected type .b32",
    "lop3.or.b32 %r1, %r2, %r3, %r4, 1, %p1;": "expected a predicate destination",
    "shfl.idx.b32 %r1, %r2, 0, 31;": "operands",
    "vote.any.pred %p1, %p2, -1;": "expected vote.sync",
    "elect.sync %r1, -1;": "expected a predicate destination",
    "ld.global.v4.u64 {%rd1, %rd2, %rd3}, [%rd4];": "3 elements",
    "ld.global.v8.u64 {%rd1, %rd2, %rd3, %rd4, %rd5, %rd6, %rd7, %rd8}, [%rd9];": "8 elements of .u64",
    "atom.global.frob.u32 %r1, [%rd1], 1;": "this operation and type",
    "atom.const.add.u32 %r1, [%rd1], 1;": "this state space",
    "bar.sync;": "operands",
    "bar.wait 0;": ".sync, .arrive or .red",
    "bar.arrive 1;": "operands",
    "barrier.arrive.aligned 1;": "operands",
    "barrier.cluster.aligned;": ".arrive or .wait",
    "griddepcontrol;": ".wait or .launch_dependents",
    "mbarrier.init.shared.b32 [%r1], 1;": "expected type .b64",
    "cp.async.ca.shared.global [%r1], [%rd1], 12;": "a copy of 12 bytes; expected 4, 8 or 16",
    "cp.async.bulk.tensor.2d.shared::cluster.global.mbarrier::complete_tx::bytes [%r1], [%rd1, {%r2}],"
    " [%r3];": "2 coordinates",
    "setmaxnreg.inc.sync.aligned.u32 20;": "20 registers; expected 24 to 256",
    "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r1, %r2}, [%r3];": "2 registers; expected 4",
    "mma.sync.aligned.m16n8k16.row.col.f32.f16.bf16.f16 {%f1}, {%r1}, {%r2}, {%f1};": "mma",
    "mov.b64 {%r1, %r2, %r3}, %rd1;": "3 pieces of .b64",
    "brx.idx %r1, NOWHERE;": "expected a list of targets",
    "testp.odd.f32 %p1, %f1;": "this test and type",
    "fma.rn.u32 %r1, %r2, %r3, %r4;": "for type .u32",
    "ex2.rn.f32 %f1, %f2;": "this rounding",
    "add.f32.f16 %f1, %rs2, %f3;": "on sm_100 or later",
    "add.rna.f32 %f1, %f2, %f3;": "this rounding",
    "fma.rzi.f32 %f1, %f2, %f3, %f4;": "this rounding",
    # What one mnemonic of a family has and another does not.
    "popc.shiftamt.b32 %r1, %r2;": "unknown modifier '.shiftamt'",
    "selp.ftz.f32 %f1, %f2, %f3, %p1;": "unknown modifier '.ftz'",
    "mul24.hi.sat.s32 %r1, %r2, %r3;": "unknown modifier '.sat'",
    "min.relu.f16 %rs1, %rs2, %rs3;": "unknown modifier '.relu'",
    "dp4a.hi.u32.u32 %r1, %r2, %r3, %r4;": "unknown modifier '.hi'",
    "dp4a.u32.b32 %r1, %r2, %r3, %r4;": "for type .b32",
    "shl.u32 %r1, %r2, %r3;": "for type .u32",
    "bfe.b32 %r1, %r2, %r3, %r4;": "for type .b32",
    "redux.sync.inc.u32 %r1, %r2, -1;": "this operation and type",
    "redux.sync.dec.u32 %r1, %r2, -1;": "this operation and type",
    "redux.sync.min.abs.u32 %r1, %r2, -1;": "this operation and type",
    "red.global.exch.b32 [%rd1], %r1;": "this operation and type",
    "red.global.cas.b32 [%rd1], %r1, %r2;": "this operation and type",
    "atom.global.and.f16x2 %r1, [%rd1], %r2;": ".f16x2 has only",
    "atom.global.max.f32 %f1, [%rd1], %f2;": ".f32 has only",
    "cp.async.commit_group.wait_group 0;": "unknown modifier '.commit_group'",
    "cp.async.wait_all.commit_group;": "unknown modifier '.commit_group'",
    "cp.async.wait_group.read 0;": "unknown modifier '.read'",
    "cp.async.bulk.wait_all;": "expected either .bulk_group",
}


@pytest.mark.parametrize("statement", STATEMENTS)
def test_statements_that_cannot_be_read(statement):
    with pytest.raises(PtxError) as caught:
        Sim(body("mov.u32 %r1, 1;", statement))
    said = str(caught.value)
    assert said.startswith("line 10: "), said
    assert f"instruction '{statement.split(' ')[0].rstrip(';')}'" in said
    assert STATEMENTS[statement] in said


@pytest.mark.parametrize(
    "statement",
    [
        "mul.f32.f16 %f1, %rs2, %f3;",
        "add.ftz.f32.bf16 %f1, %rs2, %f3;",
        "fma.f32.f16 %f1, %rs2, %rs3, %f3;",
        "fma.rn.f32.f16 %f1, %f2, %rs3, %f3;",
        "sub.f32.bf16 %f1, %rs2, %rs3;",
    ],
)
def test_mixed_precision_forms_that_do_not_exist_are_refused(statement):
    with pytest.raises(PtxError):
        Sim(body(statement).replace("sm_90a", "sm_100a"))


KERNEL = ".visible .entry {name}(.param .u64 p) {{ .reg .b32 %r<9>; .reg .b64 %rd<9>; .reg .pred %p<9>; {body} }}\n"
UNREADABLE = {
    "frobnicate.u32 %r1;": "frobnicate.u32': unknown instruction",
    "mov.u32 %r1, 0x; {": "a malformed number",  # and a brace without an end
    "@%p1 bra NOWHERE; { bra INSIDE; }": "no label",
    "{ { mov.u32 %r1, %zz; } }": "'%zz' is not declared",
    "/* } */ mov.u32 %r1, \x01; // }\n": "a character that PTX does not have",
    ".shared .b8 x[4]; .reg .b33 %x;": "is not supported",
    "call.uni broken, ();": "absent.u32': unknown instruction",
}
STORE = "ld.param.u64 %rd1, [p]; mov.u32 %r1, %r2; add.u32 %r1, %r1, {value}; st.global.u32 [%rd1], %r1; ret;"


@pytest.mark.parametrize("statement", UNREADABLE)
def test_a_kernel_that_cannot_be_parsed_leaves_the_others(statement):
    """Kernels before and after it run; launching it, or a kernel that calls it, gives the reason."""
    text = HEADER + ".global .u32 seven = 7;\n" + KERNEL.format(name="first", body=STORE.format(value=5))
    text += ".func broken() { .reg .b32 %r<2>; absent.u32 %r1; }\n" + KERNEL.format(
        name="bad", body=statement + (" ret; }" if statement.endswith("{") else " ret;")
    )
    text += KERNEL.format(name="last", body="L: bra M; M: " + STORE.format(value=6))
    sim = Sim(text)
    out = sim.buffer(np.zeros(4, np.uint32))
    assert [sim.launch("first", out, block=1), int(out[0])] == [0, 5]
    assert [sim.launch("last", out, block=1), int(out[0])] == [0, 6]
    assert sim.verdict == "clean", sim.findings
    assert sim.launch("bad", out, block=1) != 0
    assert sim.kinds == {"launch-refused"}
    finding = sim.findings[0]
    line = 6 if "call" in statement else 7
    assert (finding["kernel"], sim.verdict) == ("bad", "error")
    assert f"line {line}: " in finding["message"], finding
    assert UNREADABLE[statement] in finding["message"]
