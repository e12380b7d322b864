"""Launches: refusals, grid shapes, dependent and cooperative launches, clusterlaunchcontrol."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.tests.isa.test_control import STORE, run
from simulator.tests.sim_kit import HEADER, MODES, PTX, RUN_ERROR, Counters, Sim, body


def test_dependent_launches_have_to_wait():
    text = body(STORE, "{wait}", "ld.global.u32 %r2, [%rd1]; add.u32 %r2, %r2, 1; st.global.u32 [%rd1], %r2;")
    for wait, kinds in (("griddepcontrol.wait;", set()), ("", {"missing-griddepcontrol-wait"})):
        sim = Sim(text.replace("{wait}", wait))
        out = sim.buffer(np.zeros(32, np.uint32))
        for dependent in (0, 1, 1):
            sim.launch("k", out, dependent=dependent)
        assert (out == 3).all()
        assert sim.kinds == kinds, sim.findings


def test_grids_in_three_dimensions_and_ragged_warps():
    text = body(
        "ld.param.u64 %rd1, [p]; mov.u32 %r1, %ctaid.x; mov.u32 %r2, %ctaid.y; mov.u32 %r3, %ctaid.z;",
        "mov.u32 %r4, %nctaid.x; mov.u32 %r5, %nctaid.y; mad.lo.u32 %r6, %r3, %r5, %r2; mad.lo.u32 %r6, %r6, %r4, %r1;",
        "mov.u32 %r7, %tid.x; mov.u32 %r8, %tid.y; mov.u32 %r9, %ntid.x; mad.lo.u32 %r7, %r8, %r9, %r7;",
        "mad.lo.u32 %r6, %r6, 33, %r7; mul.wide.u32 %rd2, %r6, 4; add.s64 %rd1, %rd1, %rd2; st.global.u32 [%rd1], %r6;",
    )
    sim = Sim(text, threads=2)
    out = sim.buffer(np.zeros(24 * 33, np.uint32))
    assert sim.launch("k", out, grid=(2, 3, 4), block=(11, 3, 1)) == 0, sim.findings
    assert (out == np.arange(24 * 33)).all()


def test_refused_launches():
    sim = Sim(HEADER + ".visible .entry k(.param .u64 p)\n.maxntid 64, 1, 1\n{ ret; }\n")
    for wrong in ({"block": 128}, {"grid": 3, "cluster": 2}, {"shared": 300000}, {"block": 0}):
        assert sim.launch("k", 0, **wrong) not in (0, RUN_ERROR), wrong
        assert sim.message()
    assert sim.launch("absent", 0) not in (0, RUN_ERROR)


def test_ctas_may_wait_for_ctas_that_start_later():
    """Every CTA adds to a counter and spins until all have: all must be resident together."""
    text = body(
        "ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mov.u32 %r2, %nctaid.x; setp.ne.u32 %p1, %r1, 0; @%p1 bra END;",
        "atom.add.release.gpu.global.u32 %r3, [%rd1], 1;",
        "SPIN: ld.acquire.gpu.global.u32 %r4, [%rd1]; setp.lt.u32 %p2, %r4, %r2; @%p2 bra SPIN;",
        "mov.u32 %r5, %ctaid.x; mul.wide.u32 %rd2, %r5, 4; add.s64 %rd2, %rd1, %rd2; st.global.u32 [%rd2+4], %r4;",
        "END:",
    )
    for threads, sms in ((1, 0), (2, 0), (1, 40)):
        sim = Sim(text, threads=threads, sms=sms)
        out = sim.buffer(np.zeros(41, np.uint32))
        assert sim.launch("k", out, grid=40) == 0, sim.findings
        assert (out == 40).all()
    sim = Sim(text, sms=4)
    out = sim.buffer(np.zeros(6, np.uint32))
    assert sim.launch("k", out, grid=5) == RUN_ERROR  # more CTAs than the chip holds
    assert "deadlock" in sim.kinds


@pytest.mark.parametrize("mode", MODES)
def test_requests_to_cancel_a_launch_fail(mode):
    """A request may always fail; its answer is a 128-bit register."""
    sim = Sim((PTX / "launch_control.ptx").read_text(), mode)
    out = sim.buffer(np.zeros((32, 2), np.uint64))
    assert sim.launch("k", out) == 0, sim.findings
    assert sim.verdict == "clean", sim.findings
    assert (out == [0, 5]).all()


PERSISTENT = body(
    "mov.u32 %r1, answer; mov.u32 %r2, bar; mov.u32 %r3, %ctaid.x; mov.u32 %r4, %ctaid.y; mov.u32 %r5, 0;",
    "mov.u32 %r15, %cluster_ctarank; mov.u32 %r16, %r3; mov.u32 %r17, %nctaid.x; ld.param.u64 %rd1, [p];",
    "mov.u32 %r18, %cluster_nctarank; mbarrier.init.shared::cta.b64 [%r2], 1; fence.mbarrier_init.release.cluster;",
    "NEXT: mad.lo.u32 %r6, %r4, %r17, %r3; mul.wide.u32 %rd2, %r6, 4; add.u64 %rd2, %rd1, %rd2;",
    "atom.global.add.u32 %r7, [%rd2], 1; mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r2], 16;",
    "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",  # all threads have read the last answer
    "setp.eq.u32 %p4, %r15, 0; @%p4 clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes"
    "MULTICAST.b128 [%r1], [%r2];",
    "T: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r2], %r5; @!%p2 bra T; xor.b32 %r5, %r5, 1;",
    "ld.shared.b128 %q1, [%r1]; clusterlaunchcontrol.query_cancel.is_canceled.pred.b128 %p3, %q1;",
    "@!%p3 bra END; clusterlaunchcontrol.query_cancel.get_first_ctaid.v4.b32.b128 {%r8, %r9, %r10, _}, %q1;",
    "clusterlaunchcontrol.query_cancel.get_first_ctaid::x.b32.b128 %r11, %q1; add.u32 %r3, %r11, %r15;",
    "clusterlaunchcontrol.query_cancel.get_first_ctaid::y.b32.b128 %r4, %q1; sub.u32 %r12, %r8, %r11;",
    "sub.u32 %r13, %r9, %r4; or.b32 %r12, %r12, %r13; or.b32 %r12, %r12, %r10; setp.ne.u32 %p1, %r12, 0; @%p1 trap;",
    "bra NEXT; END: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
    registers=".reg .b128 %q<3>; .shared .align 16 .b8 answer[16]; .shared .align 8 .b8 bar[8];",
).replace("sm_90a", "sm_100a")


@pytest.mark.parametrize("cluster", [1, 2])
def test_requests_take_clusters_that_the_chip_has_no_room_for(cluster):
    """On 132 SMs, each of 140 clusters is run once, by itself or by a cluster that has taken its work."""
    text = PERSISTENT.replace("MULTICAST", ".multicast::cluster::all" if cluster == 2 else "")
    for mode in MODES:
        sim = Sim(text, mode, threads=2)
        out = sim.buffer(np.zeros(140 * cluster, np.uint32))
        assert sim.launch("k", out, grid=(70 * cluster, 2, 1), block=1, cluster=cluster) == 0, sim.findings
        assert sim.verdict == "clean", sim.findings
        assert (out == 1).all()
        counters = sim.lib.sim_counters(sim.sim)
        started = Counters.from_address(counters).ctas
        assert started == 132, started  # the rest were taken


def test_an_answer_has_the_clusters_z_coordinate():
    text = PERSISTENT.replace("MULTICAST", "").replace("%ctaid.y", "%ctaid.z").replace("::y", "::z")
    sim = Sim(text.replace("{%r8, %r9, %r10, _}", "{%r8, %r10, %r9, _}"))
    out = sim.buffer(np.zeros(140, np.uint32))
    assert sim.launch("k", out, grid=(70, 1, 2), block=1) == 0, sim.findings
    assert (out == 1).all()


def test_requests_fail_if_the_whole_grid_fits_the_chip():
    sim = Sim(PERSISTENT.replace("MULTICAST", ""))
    out = sim.buffer(np.zeros(132, np.uint32))
    assert sim.launch("k", out, grid=132, block=1) == 0, sim.findings
    assert (out == 1).all() and Counters.from_address(sim.lib.sim_counters(sim.sim)).ctas == 132


def test_a_failed_requests_answer_has_no_cta():
    text = (PTX / "launch_control.ptx").read_text().replace("@%p3 clusterlaunch", "clusterlaunch")
    sim = Sim(text)
    sim.launch("k", sim.buffer(np.zeros((32, 2), np.uint64)))
    assert sim.kinds == {"launch-control"}


def test_a_refused_launch_is_an_error_of_its_own_kernel():
    sim = Sim(body("ret;") + body("ret;").replace(HEADER, "").replace(" k(", " other("))
    out = sim.buffer(np.zeros(1, np.uint32))
    assert sim.verdict == "clean"
    assert sim.launch("k", out, block=2048) == 1
    assert sim.launch("other", out, grid=3, cluster=2) == 1
    assert sim.launch("nowhere") != 0
    assert sim.verdict == "error"
    assert {f["kind"] for f in sim.findings} == {"launch-refused"}
    assert {f["kernel"] for f in sim.findings} == {"k", "other", "nowhere"}


def test_a_cooperative_launch_has_a_workspace_of_its_own():
    """%envreg1 and %envreg2 are its address (cooperative_groups, driver_abi.h); its second word is the barrier."""
    text = body(
        *(
            STORE,
            "mov.u32 %r4, %ctaid.x; mul.wide.u32 %rd2, %r4, 4; add.s64 %rd1, %rd1, %rd2; st.global.u32 [%rd1], %r4;",
        ),
        "mov.u32 %r2, %envreg1; mov.u32 %r3, %envreg2; mov.b64 %rd3, {%r3, %r2}; mov.u32 %r5, %nctaid.x;",
        "atom.add.release.gpu.u32 %r6, [%rd3+4], 1; W: ld.acquire.gpu.u32 %r6, [%rd3+4]; setp.lt.u32 %p1, %r6, %r5;",
        "@%p1 bra W; sub.u32 %r7, %r5, 1; sub.u32 %r7, %r7, %r4; ld.param.u64 %rd1, [p]; mul.wide.u32 %rd2, %r7, 4;",
        "add.s64 %rd1, %rd1, %rd2; ld.global.u32 %r8, [%rd1]; setp.ne.u32 %p2, %r8, %r7; @%p2 trap;",
    )
    sim, out = run(text, threads=1, words=300, grid=300, cooperative=1)  # more CTAs than a chip has SMs
    assert sim.findings == [] and (out == np.arange(300)).all()
    assert sim.launch("k", out, grid=300, block=1, cooperative=1) == 0 and sim.findings == [], "it begins at zero again"
    assert "out-of-bounds" in run(text, threads=1, words=2, grid=2)[0].kinds
