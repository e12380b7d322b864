"""A CTA must not end before another CTA of its cluster has finished using its shared memory."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.python.frame import HEADER
from simulator.tests.sim_kit import MODES, Sim

SYNC = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
BEGIN = (
    ".reg .pred %p<8>; .reg .b32 %r<16>; .reg .b64 %rd<8>;\n"
    ".shared .align 128 .b8 cell[1024]; .shared .align 8 .b8 bar[8]; .shared .align 4 .b32 slot;\n"
    "mov.u32 %r1, %tid.x; mov.u32 %r2, cell; mov.u32 %r3, bar; mov.u32 %r4, %cluster_ctarank; mov.u32 %r7, 7;\n"
    "setp.eq.u32 %p1, %r1, 0; setp.eq.u32 %p2, %r4, 0; and.pred %p3, %p1, %p2; ld.param.u64 %rd1, [p];\n"
    "mapa.shared::cluster.u32 %r5, %r2, 1; mapa.shared::cluster.u32 %r6, %r3, 1;\n"
    "@%p1 mbarrier.init.shared.b64 [%r3], 1; @%p1 fence.mbarrier_init.release.cluster;\n"
    "@%p1 st.shared.v4.u32 [%r2], {%r7, %r7, %r7, %r7}; @%p1 fence.proxy.async;\n" + SYNC + "\n"
)
AT_RANK_1 = "setp.ne.u32 %p5, %r4, 0; and.pred %p5, %p5, %p1; mov.u32 %r8, 16;" + (
    "@%p5 mbarrier.arrive.expect_tx.shared.b64 _, [%r3], %r8;"
)
EXPECT = "mov.u32 %r8, 16; @%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r3], %r8;"
TRY = "TRY: mbarrier.try_wait.parity.shared.b64 %p4, [%r3], 0; @!%p4 bra TRY;"
NOT_RANK_0 = "@%p2 bra END; " + TRY + " END:"
RANK_0 = "@!%p2 bra END; " + TRY + " END:"
MULTICAST = (
    "mov.b16 %rs1, 3; @%p3 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
    " [%r2+512], [%rd1], 16, [%r3], %rs1; //HERE\n"
)
# The access by CTA rank 0, and what CTA 1 has to do before it ends.
ACCESSES = {
    "a load": ("@%p3 ld.shared::cluster.u32 %r9, [%r5]; //HERE", SYNC),
    "a store": ("@%p3 st.shared::cluster.u32 [%r5+64], %r7; //HERE", SYNC),
    "an atomic": ("@%p3 atom.shared::cluster.add.u32 %r9, [%r5], 1; //HERE", SYNC),
    "an arrival": ("@%p3 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r6]; //HERE", NOT_RANK_0),
    "an arrival, waited for by a cluster barrier": (
        "@%p3 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r6]; //HERE",
        SYNC,
    ),
    "a load, before a relaxed cluster barrier": (
        "@%p3 ld.shared::cluster.u32 %r9, [%r5]; //HERE",
        SYNC.replace("arrive", "arrive.relaxed"),
    ),
    "st.async": (
        AT_RANK_1 + "@%p3 st.async.shared::cluster.mbarrier::complete_tx::bytes.v4.u32 [%r5+512],"
        " {%r7, %r7, %r7, %r7}, [%r6]; //HERE",
        NOT_RANK_0,
    ),
    "a copy from shared memory": (
        AT_RANK_1 + "@%p3 cp.async.bulk.shared::cluster.shared::cta.mbarrier::complete_tx::bytes"
        " [%r5+512], [%r2], 16, [%r6]; //HERE",
        NOT_RANK_0,
    ),
    "a multicast copy": (EXPECT + MULTICAST + RANK_0, NOT_RANK_0.replace("TRY", "OVER").replace("END", "DONE")),
}
# If nobody waits for them, st.async and copies can also cause wrong counts in CTA 0 or in random orders.
ALSO = {"tx-count", "no-mbarrier", "deadlock"}


def run(name: str, fixed: bool, mode: str) -> tuple[Sim, str]:
    access, fix = ACCESSES[name]
    access += "\n@%p3 st.global.u32 [%rd1+64], %r7;"
    text = HEADER + ".visible .entry k(.param .u64 p)\n{\n.reg .b16 %rs<2>;\n" + BEGIN + access + "\n"
    text += (fix if fixed else "") + "\nret;\n}\n"
    sim = Sim(text, mode)
    memory = sim.buffer(np.zeros(64, np.uint32))
    sim.launch("k", memory, grid=2, cluster=2)
    if "deadlock" not in sim.kinds:
        assert memory[16] == 7  # the launch went on after the access
    return sim, text


@pytest.mark.parametrize("mode", MODES)
@pytest.mark.parametrize("name", ACCESSES)
def test_a_cta_has_to_wait_for_accesses_by_others_before_it_ends(name, mode):
    sim, _ = run(name, True, mode)
    assert sim.verdict == "clean", sim.findings
    sim, text = run(name, False, mode)
    assert sim.verdict == "error", sim.findings
    assert "cta-exited" in sim.kinds, sim.findings
    assert sim.kinds <= ALSO | {"cta-exited"}, sim.findings
    finding = next(f for f in sim.findings if f["kind"] == "cta-exited")
    assert text.splitlines()[finding["ptx_line"] - 1].endswith("//HERE"), finding
    assert finding["cta"][0] == 0


TENSOR = (
    "setp.ge.u32 %p4, %r1, 32; @%p4 bra A; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], 32;"
    " A: bar.sync 0; ld.shared.u32 %r9, [slot]; mov.b16 %rs1, 2;\n"
    "@%p3 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r3], %rs1; //HERE"
    "\n@%p4 bra B; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r9, 32; B:\n"
)


@pytest.mark.parametrize("mode", MODES)
def test_a_commit_to_a_cta_that_has_not_waited_for_it(mode):
    for fix, kinds in ((NOT_RANK_0, set()), ("", {"cta-exited"})):
        text = HEADER.replace("sm_90a", "sm_100a") + ".visible .entry k(.param .u64 p)\n{\n.reg .b16 %rs<2>;\n"
        sim = Sim(text + BEGIN + TENSOR + fix + "\nret;\n}\n", mode)
        sim.launch("k", sim.buffer(np.zeros(64, np.uint32)), grid=2, cluster=2, block=64)
        assert sim.kinds == kinds, sim.findings


PAIR = (
    ".reg .b64 %d<4>; setp.ge.u32 %p7, %r1, 32; @%p7 bra A;"
    " tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [slot], 32; A:\n" + SYNC + "ld.shared.u32 %r9, [slot];"
    " @!%p3 bra B; mov.b64 %d1, 0x0000400400010000; cvt.u64.u32 %d2, %r2; shr.u64 %d2, %d2, 4; or.b64 %d1, %d1, %d2;\n"
    "mov.b16 %rs1, SIGNAL; setp.ne.u32 %p6, 0, 0; OPERATION //HERE\n"
    "tcgen05.commit.cta_group::2.mbarrier::arrive::one.shared::cluster.multicast::cluster.b64 [%r3], %rs1; B:\n"
)
OPERATIONS = {
    "mma": "tcgen05.mma.cta_group::2.kind::f16 [%r9], %d1, %d1, 0x08100010, %p6;",
    "cp": "tcgen05.cp.cta_group::2.32x128b.warpx4 [%r9], %d1;",
    "shift": "tcgen05.shift.cta_group::2.down [%r9];",
}


@pytest.mark.parametrize("operation", OPERATIONS)
def test_an_operation_of_a_pair_whose_peer_ends(operation):
    """The peer either waits for the commit, or ends while the operation of the pair still uses its memory."""
    late = "@%p2 bra GO; mov.u32 %r10, 0; L: add.u32 %r10, %r10, 1; setp.lt.u32 %p5, %r10, 3000; @%p5 bra L;"
    freed = "@%p7 exit; bar.warp.sync -1; tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r9, 32; ret;"
    for mode in MODES:
        for waits in (True, False):
            text = HEADER.replace("sm_90a", "sm_100a") + ".visible .entry k(.param .u64 p)\n{\n.reg .b16 %rs<2>;\n"
            body = PAIR.replace("OPERATION", OPERATIONS[operation]).replace("SIGNAL", "3" if waits else "1")
            text += BEGIN.replace("cell[1024]", "cell[16384]") + body + ("" if waits else late + "bra FREE; GO:") + TRY
            sim = Sim(text + "tcgen05.fence::after_thread_sync; FREE: " + freed + "\n}\n", mode)
            sim.launch("k", sim.buffer(np.zeros(64, np.uint32)), grid=2, cluster=2, block=64)
            assert ("cta-exited" in sim.kinds) == (not waits), (mode, sim.findings)
            errors = {finding["kind"] for finding in sim.findings if finding["verdict"] == "error"}
            also = {"tensor-memory-uninitialised"}  # shift moves columns that were never written
            also |= set() if waits else {"cta-exited", "tensor-memory-freed", "tensor-memory-leak"}
            assert errors <= also, sim.findings
            for finding in sim.findings:
                named = text.splitlines()[finding["ptx_line"] - 1]
                assert finding["kind"] != "cta-exited" or named.endswith("//HERE"), finding


def test_a_cta_lives_while_one_of_its_warps_does():
    """The second warp of CTA 1 ends at once; the first one waits."""
    text = HEADER + ".visible .entry k(.param .u64 p)\n{\n.reg .b16 %rs<2>;\n" + BEGIN.replace(SYNC, "")
    text += "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; setp.ge.u32 %p5, %r1, 32; @%p5 exit;\n"
    text += "@%p3 ld.shared::cluster.u32 %r9, [%r5];\n" + SYNC + "\nret;\n}\n"
    for mode in MODES:
        sim = Sim(text, mode)
        sim.launch("k", sim.buffer(np.zeros(64, np.uint32)), grid=2, cluster=2, block=64)
        assert sim.verdict == "clean", sim.findings


def test_a_cluster_barrier_is_ordered_after_the_end_of_warps_that_skip_it():
    """The warps that allocated the columns of a pair end without arriving; other warps free them after the barrier."""
    text = HEADER.replace("sm_90a", "sm_100a") + ".visible .entry k(.param .u64 p)\n{\n" + BEGIN
    text += "setp.ge.u32 %p4, %r1, 32; @%p4 bra FREE;\n"
    text += "tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [slot], 32; SIGNAL ret; FREE: mov.u32 %r9, 0;\n"
    free = "tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r9, 32; ret;\n}\n"
    cluster = ("", SYNC.replace("arrive", "arrive.relaxed"), set())
    for signal, barrier, kinds in (cluster, ("bar.arrive 1, 64;", "bar.sync 1, 64;", {"pair-dealloc"})):
        for mode in MODES:
            sim = Sim(text.replace("SIGNAL", signal) + barrier + free, mode)
            sim.launch("k", sim.buffer(np.zeros(64, np.uint32)), grid=2, cluster=2, block=64)
            assert {each["kind"] for each in sim.findings if each["verdict"] == "error"} == kinds, sim.findings
