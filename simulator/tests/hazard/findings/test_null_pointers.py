"""Every instruction with an address of global memory, through a null pointer: the finding says read or write, and how
many bytes."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.tests.sim_kit import Sim, body

ROOM = ".shared .align 128 .b8 tile[256]; .shared .align 8 .b8 bar[8]; .local .align 8 .b8 depot[16]; .reg .b128 %q<3>;"
BEGIN = (
    "mov.u32 %r2, tile; mov.u32 %r3, bar; mov.u32 %r4, 0; mov.u64 %rd2, 0; mov.b128 %q1, {%rd2, %rd2};"
    " mov.u64 %rd7, text; cvta.global.u64 %rd7, %rd7; mov.u64 %rd4, depot; cvta.local.u64 %rd4, %rd4;"
    " st.local.u64 [depot], %rd2; st.shared.v4.u32 [%r2], {%r4, %r4, %r4, %r4};"
    " mbarrier.init.shared.b64 [%r3], 1; fence.mbarrier_init.release.cluster; fence.proxy.async;"
    " mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 16; setp.ne.u32 %p1, 0, 0;"
)
BEFORE = (
    ".extern .func (.param .b32 r) vprintf(.param .b64 f, .param .b64 v);\n"
    ".global .align 1 .b8 text[4] = {37, 115, 10, 0}; .global .align 1 .b8 number[4] = {37, 100, 10, 0};\n"
    ".global .align 1 .b8 long[4] = {37, 102, 10, 0};\n"
)
PRINT = (
    "{{ .param .b64 a; .param .b64 b; .param .b32 c; st.param.b64 [a], {0}; st.param.b64 [b], {1};"
    " call.uni (c), vprintf, (a, b); }}"
)
ADDRESS = "mov.u64 %rd8, {0}; cvta.global.u64 %rd8, %rd8;"
MMA_OPERANDS = "[%r2], [%rd2, {%r4}]"
CASES = {  # by line: read or write, and how many bytes
    "ld.global.u8 %rs1, [%rd2];": ("read", 1),
    "ld.u16 %rs1, [%rd2];": ("read", 2),
    "ld.global.nc.v4.u32 {%r5, %r6, %r7, %r8}, [%rd2];": ("read", 16),
    "ld.relaxed.gpu.global.u32 %r5, [%rd2];": ("read", 4),
    "ld.global.b128 %q2, [%rd2];": ("read", 16),
    "ldu.global.u32 %r5, [%rd2];": ("read", 4),
    "st.global.u8 [%rd2], %rs1;": ("write", 1),
    "st.u64 [%rd2], %rd2;": ("write", 8),
    "st.release.gpu.global.u32 [%rd2], %r4;": ("write", 4),
    "st.global.b128 [%rd2], %q1;": ("write", 16),
    "atom.global.add.u32 %r5, [%rd2], %r4;": ("write", 4),
    "atom.cas.b64 %rd5, [%rd2], %rd2, %rd2;": ("write", 8),
    "atom.global.exch.b128 %q2, [%rd2], %q1;": ("write", 16),
    "red.global.add.noftz.f16 [%rd2], %rs1;": ("write", 2),
    "red.global.v2.f32.add [%rd2], {%f1, %f2};": ("write", 8),
    "cp.async.ca.shared.global [%r2], [%rd2], 8;": ("read", 8),
    "cp.async.cg.shared.global [%r2], [%rd2], 16;": ("read", 16),
    "cp.async.ca.shared.global [%r2], [%rd2], 8, 4;": ("read", 4),
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd2], 16, [%r3];": ("read", 16),
    "cp.async.bulk.global.shared::cta.bulk_group [%rd2], [%r2], 16;": ("write", 16),
    "cp.reduce.async.bulk.global.shared::cta.bulk_group.add.u32 [%rd2], [%r2], 16;": ("write", 16),
    f"cp.async.bulk.tensor.1d.shared::cluster.global.tile.mbarrier::complete_tx::bytes {MMA_OPERANDS}, [%r3];": (
        "read",
        128,
    ),
    "cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%rd2, {%r4}], [%r2];": ("read", 128),
    "cp.reduce.async.bulk.tensor.1d.global.shared::cta.add.tile.bulk_group [%rd2, {%r4}], [%r2];": ("read", 128),
    "tensormap.replace.tile.rank.global.b1024.b32 [%rd2], 2;": ("write", 128),
    "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd2], [%r2], 128;": (
        "write",
        128,
    ),
    PRINT.format("%rd2", "%rd2"): ("read", 1),
    PRINT.format("%rd7", "%rd4"): ("read", 1),
    PRINT.format("%rd7", "%rd2"): ("read", 8),
    ADDRESS.format("number") + PRINT.format("%rd8", "%rd2"): ("read", 4),
    ADDRESS.format("long") + PRINT.format("%rd8", "%rd2"): ("read", 8),
}


@pytest.mark.parametrize("line", CASES)
def test_a_null_pointer_is_reported_with_direction_and_size(line):
    way, size = CASES[line]
    threads = 32 if "aligned" in line else 1
    text = body(BEGIN[: BEGIN.index("mbarrier")] if threads > 1 else BEGIN, line, registers=ROOM, before=BEFORE)
    sim = Sim(text)
    assert sim.launch("k", 0, block=threads, cluster=1) != 0
    errors = [f for f in sim.findings if f["verdict"] == "error"]
    assert [f["kind"] for f in errors] == ["out-of-bounds"], sim.findings
    assert {way, str(size), "null"} <= set(errors[0]["message"].split()), errors
    assert text.splitlines()[errors[0]["ptx_line"] - 1] == line


@pytest.mark.parametrize(
    ("line", "kind"),
    [
        ("cp.async.ca.shared.global [%r2], [%rd1+4], 8;", "misaligned"),
        ("cp.async.ca.shared.global [%r2+4], [%rd1], 8;", "misaligned"),
        ("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd1+8], 16, [%r3];", "misaligned"),
        ("cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r2+8], 16;", "misaligned"),
        ("tensormap.replace.tile.rank.global.b1024.b32 [%rd1], 2;", "tensor-map"),
        ("tensormap.replace.tile.rank.shared::cta.b1024.b32 [%r2], 2;", "tensor-map"),
        ("cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%rd1, {%r4}], [%r2];", "tensor-map"),
        ("cp.async.bulk.tensor.1d.global.shared::cta.tile.bulk_group [%rd1+32, {%r4}], [%r2];", "tensor-map"),
    ],
)
def test_misaligned_addresses_and_invalid_maps_are_reported(line, kind):
    text = body("ld.param.u64 %rd1, [p];" + BEGIN, line, registers=ROOM, before=BEFORE)
    sim = Sim(text)
    sim.launch("k", sim.buffer(np.arange(64, dtype=np.uint32)), block=1, cluster=1)
    errors = [f for f in sim.findings if f["verdict"] == "error"]
    assert [(f["kind"], text.splitlines()[f["ptx_line"] - 1]) for f in errors] == [(kind, line)], sim.findings
