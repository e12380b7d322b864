"""Findings that few kernels meet: their kinds and the numbers in their messages."""

from __future__ import annotations

import re

import numpy as np
import pytest

from simulator.tests.isa.test_control import registers
from simulator.tests.sim_kit import HEADER, Sim, body

LOAD = "ld.param.u64 %rd1, [p]; "
WARPS = "mov.u32 %r1, %tid.x; shr.u32 %r2, %r1, 5; setp.eq.u32 %p1, %r2, 2; "
CASES = {
    # statements: threads, the finding's kind, a message with its numbers (None: not compared)
    "bar.sync 16;": (32, "barrier-count", "barrier 16 with 0 threads"),
    "bar.sync 1, 33;": (32, "barrier-count", "barrier 1 with 33 threads"),
    "bar.sync 15, 1056;": (32, "barrier-count", "barrier 15 with 1056 threads"),
    "mov.u32 %r9, 0; bar.sync 2, %r9;": (32, "barrier-count", "barrier 2 with 0 threads"),
    WARPS + "setp.lt.u32 %p2, %r1, 16; setp.ge.u32 %p3, %r1, 32; @%p2 barrier.cta.arrive 1, 32;"
    " @%p3 barrier.cta.arrive 1, 32;": (64, "barrier-count", "barrier 1 expects 32 threads and 48 arrived"),
    WARPS + "@!%p1 bar.arrive 1, 96; @%p1 bar.sync 1, 64;": (
        96,
        "barrier-count",
        "barrier 1 is used with 64 threads while others wait on it with 96",
    ),
    "mov.u64 %rd1, 0; ld.global.u32 %r1, [%rd1];": (1, "out-of-bounds", "read of 4 bytes through a null pointer"),
    "mov.u64 %rd1, 0; st.global.u16 [%rd1], %rs1;": (1, "out-of-bounds", "write of 2 bytes through a null pointer"),
    "mov.u64 %rd1, 64; ld.global.v2.u64 {%rd2, %rd3}, [%rd1];": (
        1,
        "out-of-bounds",
        "read of 16 bytes at global address 0x40, which belongs to no allocation",
    ),
    LOAD + "ld.global.u32 %r1, [%rd1+128];": (
        1,
        "out-of-bounds",
        "read of 4 bytes at offset 128 of 'buffer', which has 128 bytes",
    ),
    LOAD + "st.global.u64 [%rd1+124], %rd1;": (1, "misaligned", None),
    LOAD + "st.global.v2.u32 [%rd1+128], {%r1, %r1};": (
        1,
        "out-of-bounds",
        "write of 8 bytes at offset 128 of 'buffer', which has 128 bytes",
    ),
    ".local .b8 f[16]; ld.local.u32 %r1, [f+16];": (1, "out-of-bounds", "4 bytes at local offset 16 of 16"),
    ".shared .b8 s[16]; mov.u32 %r1, s; ld.shared.u32 %r2, [%r1+16];": (1, "out-of-bounds", None),
    ".shared .align 8 .b8 s[16]; mov.u32 %r1, s; ld.shared.u32 %r2, [%r1+2];": (1, "misaligned", None),
    "mov.u32 %r1, 16777216; ld.shared::cluster.u32 %r2, [%r1];": (
        1,
        "bad-address",
        "0x1000000 is no shared address of this cluster",
    ),
    "{ .param .b64 a; .param .b32 c; st.param.b64 [a], 0; call.uni (c), vprintf, (a); }": (
        1,
        "vprintf",
        "vprintf with 1 parameters",
    ),
    "call.uni __assertfail, ();": (1, "assert", "a device-side assertion failed"),
    "call.uni forever, ();": (1, "call-depth", "more than 1000 calls"),
    "mov.u64 %rd1, 77; P: .callprototype ()_ (); call %rd1, (), P;": (1, "bad-address", "0x4d"),
    "mov.u64 %rd1, f1; P: .callprototype (.param .b32 _)_ (); { .param .b32 r; call (r), %rd1, P; }": (
        1,
        "bad-address",
        None,
    ),
    "{ .param .b64 a; st.param.b64 [a], 64; call.uni free, (a); }": (1, "bad-address", "0x40"),
}
BEFORE = (
    ".func f1() { ret; }\n.func forever() { call.uni forever, (); ret; }\n.extern .func free(.param .b64 p);\n"
    ".extern .func (.param .b32 c) vprintf (.param .b64 a);\n.extern .func __assertfail ();\n"
)


def numbers(message: str) -> list[str]:
    """Numbers, and names in quotes."""
    return re.findall(r"0x[0-9a-f]+|\d+|'\w+'", message)


@pytest.mark.parametrize("lines", CASES)
def test_rare_findings_have_their_kind_and_numbers(lines):
    threads, kind, words = CASES[lines]
    sim = Sim(body(lines, before=BEFORE))
    sim.launch("k", sim.buffer(np.zeros(32, np.uint32)), block=threads)
    assert [finding["kind"] for finding in sim.findings] == [kind], sim.findings
    assert words is None or numbers(words) == numbers(sim.findings[0]["message"])
    if kind == "barrier-count":
        assert sim.findings[0]["lane"] == -1, "it is the whole warp's"


def test_calls_may_nest_24_deep():
    sim = Sim(body("call.uni f1, ();", before=BEFORE))
    assert sim.launch("k", 0, block=1) == 0 and sim.verdict == "clean", sim.findings


def test_a_pair_of_ctas_needs_the_other_one():
    commit = "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.b64 [%r1];"
    text = body(".shared .align 8 .b64 s; mov.u32 %r1, s; mbarrier.init.shared.b64 [%r1], 1;", commit)
    missing = "in CTA rank 0 of a cluster of 1: .cta_group::2 needs the CTA of the other parity"
    for cluster, said in ((1, missing), (2, "after the peer CTA has exited")):
        sim = Sim(text.replace("sm_90a", "sm_100a"))
        sim.launch("k", 0, grid=cluster, cluster=cluster, block=1)
        assert [f for f in sim.findings if f["kind"] == "cta-group" and f["message"].endswith(said)], sim.findings


def test_maxntid_and_reqntid_give_the_same_registers_at_launch():
    """.maxntid and .reqntid both bound a CTA's threads; for 384 threads ptxas chooses 168 registers."""
    for bound in (".maxntid", ".reqntid"):
        for more, kinds in ((0, set()), (8, {"setmaxnreg"})):
            lines = f"setmaxnreg.inc.sync.aligned.u32 {168 + more};"
            threads = 384 if bound == ".reqntid" else 32
            sim = registers("@%p1 bra END; " + lines + " END:", f"{bound} 384 .minnctapersm 1", threads)
            assert (sim.kinds & {"setmaxnreg"}) == kinds, (bound, more, sim.findings)


@pytest.mark.parametrize("kind", ["s32", "u32", "s64", "u64"])
@pytest.mark.parametrize("operation", ["add", "sub", "mad.lo"])
def test_carries_go_through_every_type(operation, kind):
    register, ones = ("%rd", "18446744073709551615") if "64" in kind else ("%r", "4294967295")
    wide = "mad" in operation
    factors = f"{register}5, 1," if wide else f"{register}5,"
    cc, with_c = (f"{operation}.cc.{kind}", f"{operation.split('.')[0]}c{'.lo' if wide else ''}.{kind}")
    text = body(
        LOAD,
        f"mov.b{kind[1:]} {register}5, {0 if operation == 'sub' else ones}; mov.b{kind[1:]} {register}6, 1;",
        f"{cc} {register}7, {factors} {register}6; {with_c} {register}8, {register}6, "
        + (f"{register}6, {register}6;" if wide else f"{register}6;"),
        f"st.global.b{kind[1:]} [%rd1], {register}7; st.global.b{kind[1:]} [%rd1+8], {register}8;",
    )
    sim = Sim(text)
    out = sim.buffer(np.zeros(2, np.uint64))
    assert sim.launch("k", out, block=1) == 0
    mask = 2 ** int(kind[1:]) - 1
    low, high = (mask, mask) if operation == "sub" else (0, 3)
    assert out.tolist() == [low, high]


def test_an_atomic_without_an_order_is_relaxed():
    """PTX ISA, atom: without .sem it is .relaxed, so it releases no earlier writes."""
    kinds = []
    for order in ("", ".relaxed.gpu", ".acq_rel.gpu"):
        text = HEADER + (
            ".visible .entry k(.param .u64 p) { .reg .pred %p<3>; .reg .b32 %r<9>; .reg .b64 %rd<3>;"
            " ld.param.u64 %rd1, [p]; mov.u32 %r1, %ctaid.x; setp.eq.u32 %p1, %r1, 0;"
            f" @%p1 st.global.u32 [%rd1+64], %r1; @%p1 atom.global{order}.add.u32 %r2, [%rd1], 1; @%p1 bra END;"
            f" L: atom.global{order}.add.u32 %r3, [%rd1], 0; setp.eq.u32 %p2, %r3, 0; @%p2 bra L;"
            " ld.global.u32 %r4, [%rd1+64]; END: ret; }\n"
        )
        sim = Sim(text, limit=100_000)
        sim.launch("k", sim.buffer(np.zeros(32, np.uint32)), grid=2, block=1)
        kinds.append(sim.kinds)
    assert kinds[0] == kinds[1] != set() and kinds[2] == set(), kinds
