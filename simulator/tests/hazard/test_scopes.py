"""Reviews by the letter of PTX: scope .cta between CTAs, and copies over bytes that the same warp has just read."""

from __future__ import annotations

import pytest

from simulator.tests.hazard.test_global_races import FIRST, OTHERS, run
from simulator.tests.sim_kit import MODES

JOIN = "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
PEER = (
    f"mov.u32 %r12, %cluster_ctarank; xor.b32 %r12, %r12, 1; mapa.shared::cluster.u32 %r13, %r11, %r12; {JOIN}"
    "@%p1 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r13];"
    "PEER: mbarrier.try_wait.parity.FIXshared::cta.b64 %p3, [%r11], 0; @!%p3 bra PEER;"
)
SET, WAIT = "@%p1 st.release.{0}.global.u32 [%rd2], %r9;", "FLAG: {0}.global.u32 %r6, [%rd2]; {1} @%p3 bra FLAG;"
SEEN = "setp.eq.u32 %p3, %r6, 0;"
# Lines with FIX, the text for FIX in the correct and in the faulty kernel, and the launch.
SCOPES = {
    "an mbarrier's wait": ((PEER, JOIN), "acquire.cluster.", "acquire.cta.", {"cluster": 2}),
    "an mbarrier's test": ((PEER.replace("try_wait", "test_wait"), JOIN), "", "acquire.cta.", {"cluster": 2}),
    "a load's": ((FIRST, SET.format("gpu"), OTHERS, WAIT.format("ld.acquire.FIX", SEEN)), "gpu", "cta", {}),
    "a store's": ((FIRST, SET.format("FIX"), OTHERS, WAIT.format("ld.acquire.gpu", SEEN)), "gpu", "cta", {}),
    "an atomic's": (
        (
            *(FIRST, "@%p1 red.release.gpu.global.add.u32 [%rd2], 1;", OTHERS),
            "FLAG: atom.acquire.FIX.global.add.u32 %r6, [%rd2], 0; setp.eq.u32 %p3, %r6, 0; @%p3 bra FLAG;",
        ),
        "sys",
        "cta",
        {},
    ),
    "a flag inside a cluster": (
        (FIRST, SET.format("cluster"), OTHERS, WAIT.format("ld.acquire.FIX", SEEN)), "cluster", "cta", {"cluster": 2},
    ),
    "a flag that is set with it inside a cluster": (
        (FIRST, SET.format("FIX"), OTHERS, WAIT.format("ld.acquire.cluster", SEEN)), "cluster", "cta", {"cluster": 2},
    ),
}  # fmt: skip


@pytest.mark.parametrize("name", SCOPES)
def test_a_scope_without_the_other_thread_is_a_review(name):
    lines, fixed, faulty, launch = SCOPES[name]
    for mode in MODES:
        assert run(tuple(line.replace("FIX", fixed) for line in lines), mode, **launch) == ("clean", set()), mode
        verdict = run(tuple(line.replace("FIX", faulty) for line in lines), mode, **launch)
        assert verdict == ("review", {"narrow-scope"}), mode


def test_scope_cta_is_enough_inside_a_cta():
    own = "mbarrier.arrive.release.cta.shared::cta.b64 _, [%r11];"
    wait = "OWN: mbarrier.try_wait.parity.acquire.cta.shared::cta.b64 %p3, [%r11], 0; @!%p3 bra OWN;"
    assert run((f"@%p1 {own} {wait}",), grid=1) == ("clean", set())
    flag = (SET.format("cta"), WAIT.format("ld.acquire.cta", SEEN))
    assert run(flag, grid=1) == ("clean", set())
    assert run((FIRST, SET.format("cta"), OTHERS)) == ("clean", set())


COPY = (
    "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r11], 256;"
    "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r10], [%rd1], 256, [%r11];"
    "BULK{0}: mbarrier.try_wait.parity.shared.b64 %p3, [%r11], {0}; @!%p3 bra BULK{0};"
)
READ = "mad.lo.u32 %r12, %r1, 4, %r10; ld.shared.u32 %r5, [%r12];"


@pytest.mark.parametrize(("fixed", "block"), [("fence.proxy.async;", 32), ("bar.sync 0;", 32), ("bar.sync 0;", 64)])
def test_a_copy_over_what_its_warp_has_just_read_needs_a_proxy_fence(fixed, block):
    """DeepEP's combine lacked it.  After a barrier of the CTA, omitting it is common practice and not reported."""
    for mode in MODES:
        assert run((COPY.format(0), READ, fixed, "bar.warp.sync -1;", COPY.format(1)), mode, grid=1, block=block) == (
            "clean",
            set(),
        ), mode
    for order in ("bar.warp.sync -1;", "bar.warp.sync -1; fence.acq_rel.cta;"):
        for mode in MODES if block == 32 else ():
            lines = (COPY.format(0), READ, order, COPY.format(1))
            assert run(lines, mode, grid=1, block=32) == ("review", {"missing-proxy-fence"}), mode
