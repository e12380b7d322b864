"""Kernels with an illegal operand or a misused barrier, the expected finding, and the correction."""

from __future__ import annotations

from simulator.tests.hazard.findings.finding_cases import DRAIN, EXPECT, FILL, INIT, LOAD, STORE, TRY, Case

MISUSES = {
    "an mbarrier without its fence": Case(
        "mbarrier-init-fence",
        (
            "@%p2 mbarrier.init.shared.b64 [%r4], 1; //OTHER",
            "FIX bar.sync 0;",
            EXPECT.format(16),
            LOAD + " //HERE",
            TRY.format(0),
        ),
        "@%p2 fence.mbarrier_init.release.cluster;",
        verdict="review",  # Triton relies on the barrier
    ),
    "an mbarrier with neither its fence nor a barrier": Case(
        "mbarrier-init-fence",
        (
            "@%p2 mbarrier.init.shared.b64 [%r4], 1; //OTHER",
            "FIX",
            EXPECT.format(16),
            LOAD + " //HERE",
            "bar.sync 0;",
            TRY.format(0),
        ),
        "@%p2 fence.mbarrier_init.release.cluster;",
        verdict="review",  # one thread's initialisation and copy: chips keep their order
    ),
    "an mbarrier without its fence that another lane uses": Case(
        "mbarrier-init-fence",
        (
            "@%p2 mbarrier.init.shared.b64 [%r4], 1; //OTHER",
            "FIX @%p1 bar.warp.sync 0xffffffff; setp.eq.u32 %p2, %r1, 1;",
            EXPECT.format(16),
            LOAD + " //HERE",
            "bar.sync 0;",
            TRY.format(0),
        ),
        "@%p2 fence.mbarrier_init.release.cluster;",
    ),
    "an mbarrier whose fence is another warp's": Case(
        "mbarrier-init-fence",
        (
            "@%p2 mbarrier.init.shared.b64 [%r4], 1; //OTHER",
            "bar.sync 0; @%p3 fence.mbarrier_init.release.cluster; bar.sync 0; FIX",
            EXPECT.format(16),
            LOAD + " //HERE",
            TRY.format(0),
        ),
        "fence.proxy.async;",
        verdict="review",
    ),
    "an mbarrier that is fenced after its first copy": Case(
        "mbarrier-init-fence",
        (
            "@%p2 mbarrier.init.shared.b64 [%r4], 1; //OTHER",
            "FIX bar.sync 0;",
            EXPECT.format(16),
            LOAD + " //HERE",
            "@%p3 fence.proxy.async; @%p3 fence.mbarrier_init.release.cluster;",
            TRY.format(0),
        ),
        "@%p2 fence.mbarrier_init.release.cluster;",
        verdict="review",
    ),
    "data fenced by fence.mbarrier_init": Case(
        "missing-proxy-fence",
        (
            FILL + " //",
            "@%p2 fence.mbarrier_init.release.cluster; FIX",
            STORE + " //HERE",
            DRAIN,
        ),
        "@%p2 fence.proxy.async;",
    ),
    "an mbarrier that another warp initialises": Case(
        "mbarrier-init-race",
        ("@%p2 mbarrier.init.shared.b64 [%r4], 1; //OTHER", "FIX @%p3 mbarrier.arrive.shared.b64 _, [%r4]; //HERE"),
        "bar.sync 0;",
        also=frozenset({"no-mbarrier"}),
    ),
    "bytes that are never expected": Case(
        "tx-count",
        (
            INIT,
            "@%p2 mbarrier.expect_tx.relaxed.cta.shared.b64 [%r4], 32; FIX //HERE",
        ),
        "@%p2 mbarrier.complete_tx.relaxed.cta.shared.b64 [%r4], 32;",
    ),
    "bytes beyond what was expected": Case(
        "tx-count",
        (INIT, "FIX", "@%p2 mbarrier.complete_tx.relaxed.cta.shared.b64 [%r4], 32; //HERE"),
        "@%p2 mbarrier.expect_tx.relaxed.cta.shared.b64 [%r4], 32;",
    ),
    "more bytes than a tx-count holds": Case(
        "tx-count",
        (
            INIT,
            "@%p2 mbarrier.expect_tx.relaxed.cta.shared.b64 [%r4], 1048575;",
            "FIX",
            "@%p2 mbarrier.expect_tx.relaxed.cta.shared.b64 [%r4], 1; //HERE",
            "@%p2 mbarrier.complete_tx.relaxed.cta.shared.b64 [%r4], 1;",
        ),
        "@%p2 mbarrier.complete_tx.relaxed.cta.shared.b64 [%r4], 1048575;",
    ),
    "an arrival too many": Case(
        "mbarrier-arrivals",
        (
            "@%p2 mbarrier.init.shared.b64 [%r4], 3; bar.sync 0;",
            "@%p2 mbarrier.arrive.shared.b64 _, [%r4], 2;",
            "@%p2 mbarrier.arrive.shared.b64 _, [%r4], 2; //HERE",
        ),
        fixed=("[%r4], 2; //HERE", "[%r4], 1; //HERE"),
    ),
    "a live mbarrier initialised again": Case(
        "mbarrier-init",
        (INIT, "FIX", "@%p2 mbarrier.init.shared.b64 [%r4], 1; //HERE"),
        "@%p2 mbarrier.inval.shared.b64 [%r4];",
    ),
    "lanes of a warp initialise one mbarrier": Case(
        "mbarrier-init",
        ("@%p1 mbarrier.init.shared.b64 [%r4], 2; //HERE", "bar.sync 0; @%p2 mbarrier.arrive.shared.b64 _, [%r4];"),
        verdict="review",
        fixed=("@%p1 mbarrier.init", "@%p2 mbarrier.init"),
    ),
    "lanes of a warp initialise one mbarrier with counts of their own": Case(
        "mbarrier-init",
        ("add.u32 %r9, %r9, 1;", "@%p1 mbarrier.init.shared.b64 [%r4], %r9; //HERE"),
        fixed=("@%p1 mbarrier.init", "@%p2 mbarrier.init"),
    ),
    "an mbarrier of none": Case(
        "mbarrier-count", ("@%p2 mbarrier.init.shared.b64 [%r4], 0; //HERE",), fixed=(", 0;", ", 1;")
    ),
    "an mbarrier of too many": Case(
        "mbarrier-count", ("@%p2 mbarrier.init.shared.b64 [%r4], 1048576; //HERE",), fixed=("1048576", "1048575")
    ),
    "no mbarrier": Case(
        "no-mbarrier",
        ("FIX @%p2 mbarrier.arrive.shared.b64 _, [%r4]; //HERE",),
        "@%p2 mbarrier.init.shared.b64 [%r4], 1;",
    ),
    "an mbarrier after inval": Case(
        "no-mbarrier",
        (
            "@%p2 mbarrier.init.shared.b64 [%r4], 1; @%p2 mbarrier.inval.shared.b64 [%r4];",
            "@%p2 mbarrier.arrive.shared.b64 _, [%r4]; //HERE",
        ),
        fixed=("@%p2 mbarrier.inval.shared.b64 [%r4];", ""),
    ),
    "a misaligned mbarrier": Case(
        "misaligned", ("@%p2 mbarrier.init.shared.b64 [%r4+4], 1; //HERE",), fixed=("+4", "+8")
    ),
    "a copy of an odd size": Case(
        "copy-size",
        (INIT, EXPECT.format(16), LOAD.replace("16", "20") + " //HERE", TRY.format(0)),
        fixed=("20,", "16,"),
    ),
    "a copy of nothing": Case(
        "copy-size",
        (
            INIT,
            LOAD.replace("16", "0") + " //HERE",
        ),
        fixed=(LOAD.replace("16", "0"), ""),
    ),
    "a source beyond its copy": Case(
        "copy-size",
        ("@%p2 cp.async.cg.shared.global [%r6], [%rd1], 16, 20; //HERE", "cp.async.wait_all;"),
        fixed=("16, 20", "16, 12"),
    ),
    "a store of an odd size": Case(
        "copy-size",
        (FILL, "@%p2 fence.proxy.async;", STORE.replace("16", "24") + " //HERE", DRAIN),
        fixed=("24", "16"),
    ),
    "a misaligned source": Case(
        "misaligned",
        (INIT, EXPECT.format(16), LOAD.replace("[%rd1]", "[%rd1+8]") + " //HERE", TRY.format(0)),
        fixed=("+8", "+16"),
    ),
    "a misaligned destination": Case(
        "misaligned",
        (INIT, EXPECT.format(16), LOAD.replace("[%r6]", "[%r6+8]") + " //HERE", TRY.format(0)),
        fixed=("+8", "+16"),
    ),
    "a misaligned store": Case(
        "misaligned",
        (FILL, "@%p2 fence.proxy.async;", STORE.replace("[%rd1]", "[%rd1+8]") + " //HERE", DRAIN),
        fixed=("[%rd1+8], [%r6]", "[%rd1+16], [%r6]"),
    ),
    "a copy from past the buffer": Case(
        "out-of-bounds",
        (INIT, EXPECT.format(16), LOAD.replace("[%rd1]", "[%rd1+4096]") + " //HERE", TRY.format(0)),
        fixed=("+4096", "+4080"),
    ),
    "a load past the buffer": Case(
        "out-of-bounds", ("@%p2 ld.global.u32 %r3, [%rd1+4096]; //HERE",), fixed=("4096", "4092")
    ),
    "a load before the buffer": Case(
        "out-of-bounds", ("@%p2 ld.global.u32 %r3, [%rd1+-4]; //HERE",), fixed=("+-4", "+4")
    ),
    "a vector across the buffer's end": Case(
        "out-of-bounds",
        ("add.u64 %rd1, %rd1, 4; @%p2 st.global.u32 [%rd1+4092], %r1; //HERE",),
        fixed=("+4092", "+4088"),
    ),
    "shared memory past the end": Case(
        "out-of-bounds",
        ("mov.u32 %r3, %total_smem_size; add.u32 %r3, %r3, 1024; @%p2 st.shared.u32 [%r3], %r1; //HERE",),
        fixed=("[%r3], %r1", "[%r3+-4], %r1"),
    ),
    "shared memory of the system": Case(
        "out-of-bounds", ("mov.u32 %r3, 1020; @%p2 st.shared.u32 [%r3], %r1; //HERE",), fixed=("1020", "1024")
    ),
    "a misaligned load": Case("misaligned", ("@%p2 ld.global.u64 %rd3, [%rd1+4]; //HERE",), fixed=("+4", "+8")),
    "a misaligned vector": Case(
        "misaligned", ("@%p2 st.shared.v2.u32 [%r2+4], {%r1, %r1}; //HERE",), fixed=("+4", "+8")
    ),
    "a misaligned vector in global memory": Case(
        "misaligned", ("@%p2 st.global.v4.u32 [%rd1+8], {%r1, %r1, %r1, %r1}; //HERE",), fixed=("+8", "+16")
    ),
    "a misaligned vector of atomics": Case(
        "misaligned", ("@%p2 red.global.v2.f32.add [%rd1+4], {%f1, %f1}; //HERE",), fixed=("+4", "+8")
    ),
    "a misaligned atomic": Case("misaligned", ("@%p2 red.global.add.u32 [%rd1+2], 1; //HERE",), fixed=("+2", "+4")),
    "a write to a parameter": Case(
        "bad-address",
        ("mov.b64 %rd3, p; cvta.param.u64 %rd3, %rd3; @%p2 st.u32 [%rd3], %r1; //HERE",),
        fixed=("st.u32 [%rd3], %r1", "ld.u32 %r3, [%rd3]"),
    ),
    "local memory past the frame": Case(
        "out-of-bounds", ("@%p2 st.local.u32 [depot+16], %r1; //HERE",), fixed=("+16", "+12")
    ),
    "a named barrier of no whole warps": Case("barrier-count", ("bar.sync 1, 48; //HERE",), fixed=("48", "64")),
    "a barrier that there is not": Case("barrier-count", ("bar.sync 16; //HERE",), fixed=("16", "15")),
    "a barrier of two counts": Case(
        "barrier-count",
        ("@%p1 bar.arrive 1, 64;", "@!%p1 bar.sync 1, 96; //HERE"),
        fixed=("96", "64"),
        also=frozenset({"deadlock"}),
    ),
    "a cluster wait without arrival": Case(
        "cluster-barrier", ("FIX barrier.cluster.wait.aligned; //HERE",), "barrier.cluster.arrive.aligned;"
    ),
    "a mask without the executing lane": Case(
        "member-mask", ("setp.eq.u32 %p4, %r1, 3; @%p4 bar.warp.sync 7; //HERE",), fixed=("sync 7", "sync 8")
    ),
    "a shuffle mask without the executing lane": Case(
        "member-mask",
        ("setp.eq.u32 %p4, %r1, 3; @%p4 shfl.sync.idx.b32 %r3, %r1, 3, 31, 7; //HERE",),
        fixed=("31, 7", "31, 8"),
    ),
    "a shuffle from a lane that is not there": Case(
        "shuffle-source",
        ("setp.eq.u32 %p4, %r1, 3; @%p4 shfl.sync.idx.b32 %r3, %r1, 5, 31, 8; //HERE",),
        fixed=("%r1, 5", "%r1, 3"),
    ),
    "an index past the table": Case(
        "branch-index",
        ("mov.u32 %r3, 2; T: .branchtargets A, A;", "brx.idx %r3, T; //HERE", "A:"),
        fixed=("%r3, 2", "%r3, 1"),
    ),
    "a rank past the cluster": Case(
        "bad-address",
        ("mapa.shared::cluster.u32 %r3, %r2, 2;", "st.shared::cluster.u32 [%r3], %r1; //HERE"),
        fixed=("st.shared::cluster.u32 [%r3], %r1;", ""),  # CUTLASS maps such ranks without using the address
        launch={"grid": 2, "cluster": 2},
    ),
    "mapa of a global address": Case(
        "bad-address",
        ("cvta.shared.u64 %rd4, %rd4; mapa.u64 %rd3, %rd1, 0; //HERE",),
        fixed=("mapa.u64 %rd3, %rd1", "mapa.u64 %rd3, %rd4"),
    ),
    "part of a warp at an aligned instruction": Case(
        "divergent-aligned",
        ("@%p2 barrier.cluster.arrive.aligned; //HERE",),
        fixed=("@%p2 barrier.cluster.arrive.aligned;", ""),
    ),
    "a trap": Case("trap", ("trap; //HERE",), fixed=("trap;", "")),
    "a mask of CTAs past the cluster": Case(
        "multicast-mask",
        (
            INIT,
            EXPECT.format(16),
            "mov.u16 %rs1, 2;",
            LOAD.replace("::bytes", "::bytes.multicast::cluster").replace("[%r4];", "[%r4], %rs1; //HERE"),
            TRY.format(0),
        ),
        fixed=("%rs1, 2", "%rs1, 1"),
    ),
    "an mbarrier of another CTA than the copy's": Case(
        "barrier-rank",
        (
            INIT,
            "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
            " mov.u32 %r3, %cluster_ctarank; setp.eq.u32 %p5, %r3, 0;",
            "mapa.shared::cluster.u32 %r5, %r4, 1; and.pred %p5, %p5, %p2; @!%p5 bra OVER;"
            " mbarrier.arrive.expect_tx.shared.b64 _, [%r4], 16;",
            "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r6], [%rd1], 16, [%r5]; //HERE",
            TRY.format(0),
            "OVER: barrier.cluster.arrive; barrier.cluster.wait;",
        ),
        fixed=("16, [%r5]", "16, [%r4]"),
        launch={"grid": 2, "cluster": 2},
    ),
    "a copy over what its own warp has read": Case(
        "missing-proxy-fence",
        (
            INIT + EXPECT.format(16) + LOAD + TRY.format(0),
            "@%p2 ld.shared.u32 %r3, [%r6]; //OTHER",
            "FIX " + EXPECT.format(16),
            LOAD + " //HERE",
            TRY.format(1),
        ),
        "bar.sync 0;",
        verdict="review",
        launch={"block": 32},
    ),
    "a copy over what its own warp has read again behind a barrier": Case(
        "missing-proxy-fence",
        (
            INIT + EXPECT.format(16) + LOAD + TRY.format(0) + "@%p2 ld.shared.u32 %r3, [%r6]; bar.sync 0;",
            "@%p2 ld.shared.u32 %r3, [%r6]; //OTHER",
            "FIX " + EXPECT.format(16),
            LOAD + " //HERE",
            TRY.format(1),
        ),
        "@%p2 fence.proxy.async;",
        verdict="review",
        launch={"block": 32},
    ),
}
