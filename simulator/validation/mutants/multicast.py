"""A multicast copy to the CTAs of a cluster."""

from __future__ import annotations

from simulator.python.frame import body

MULTICAST = body(
    "mov.u32 %r1, %cluster_ctarank; mov.u32 %r2, tile; mov.u32 %r3, bar; mov.u32 %r4, %tid.x;",
    "ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [in]; setp.ne.u32 %p1, %r4, 0; @%p1 bra INIT;",
    "mbarrier.init.shared::cta.b64 [%r3], 1; fence.mbarrier_init.release.cluster;",
    "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], 128;",
    "INIT: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
    "or.b32 %r5, %r1, %r4; setp.ne.u32 %p1, %r5, 0; @%p1 bra TRY; mov.u16 %rs1, 5;",
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
    " [%r2], [%rd2], 128, [%r3], %rs1;",
    "mov.u16 %rs1, 10;",
    "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes.multicast::cluster"
    " [%r2], [%rd2+128], 128, [%r3], %rs1;",
    "TRY: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0; @!%p2 bra TRY;",
    "shl.b32 %r6, %r4, 2; add.u32 %r7, %r2, %r6; ld.shared.u32 %r8, [%r7];",
    "shl.b32 %r9, %r1, 7; add.u32 %r9, %r9, %r6; cvt.u64.u32 %rd3, %r9; add.u64 %rd3, %rd3, %rd1;",
    "st.global.u32 [%rd3], %r8; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
    params=".param .u64 out, .param .u64 in",
    registers=".shared .align 128 .b8 tile[128]; .shared .align 8 .b8 bar[8];",
)
