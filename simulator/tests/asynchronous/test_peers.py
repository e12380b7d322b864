"""shared::cta accesses to another CTA's memory are refused, and the launch ends there."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.tests.sim_kit import Sim, body

PEER = (
    "mov.u32 %r1, cell; mapa.shared::cluster.u32 %r2, %r1, 1; mov.u32 %r3, %cluster_ctarank; setp.ne.u32 %p1, %r3, 0;"
)
MEET = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
ROOM = ".shared .align 128 .b8 cell[128];"
COPY = "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd1], [%r2], 128;"


ACCESSES = (
    "ld.shared.u32 %r4, [%r2];",
    "ld.shared::cta.u32 %r4, [%r2];",
    "st.shared.u32 [%r2], %r1;",
    "atom.shared.add.u32 %r4, [%r2], 1;",
    "atom.shared::cta.cas.b32 %r4, [%r2], 1, 2;",
    "red.shared::cta.max.u32 [%r2], %r1;",
)


@pytest.mark.parametrize("access", ACCESSES)
def test_an_access_without_cluster_stays_in_its_own_cta(access):
    sim = Sim(body(PEER, "@!%p1 " + access, MEET, registers=ROOM))
    assert sim.launch("k", 0, block=1, grid=2, cluster=2) != 0
    assert [(f["kind"], f["lane"], "CTA rank 1" in f["message"]) for f in sim.findings] == [("bad-address", 0, True)]


@pytest.mark.parametrize("access", ACCESSES)
def test_the_same_access_with_cluster_reaches_the_other_cta(access):
    access = access.replace("shared::cta", "shared").replace("shared", "shared::cluster")
    sim = Sim(body(PEER, "mov.u32 %r5, 0; st.shared.u32 [%r1], %r5;", MEET, "@!%p1 " + access, MEET, registers=ROOM))
    assert sim.launch("k", 0, block=1, grid=2, cluster=2) == 0 and sim.verdict == "clean", sim.findings


def test_cp_fenceproxy_copies_only_from_the_own_cta():
    """The peer's bytes are a valid map too; it is refused because of its owner, and nothing is written."""
    text = body("ld.param.u64 %rd1, [p];", PEER, "@%p1 bra END;", COPY, "END:", MEET, registers=ROOM)
    sim = Sim(text)
    maps = sim.buffer(np.full(32, 7, np.uint32))
    assert sim.launch("k", maps, block=32, grid=2, cluster=2) != 0
    assert [(f["kind"], "CTA rank 1" in f["message"]) for f in sim.findings] == [("bad-address", True)]
    assert (maps == 7).all()
