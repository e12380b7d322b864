"""Kernels with one fault each, what has to be found in them, and how they are mended."""

from __future__ import annotations

from typing import NamedTuple

# Thread 0 has %p2, thread 32 %p3, warp 0 %p1; cell, tile and bar are shared memory.
BEGIN = (
    "mov.u32 %r1, %tid.x; mov.u32 %r2, cell; mov.u32 %r4, bar; mov.u32 %r6, tile; ld.param.u64 %rd1, [p];"
    "setp.lt.u32 %p1, %r1, 32; setp.eq.u32 %p2, %r1, 0; setp.eq.u32 %p3, %r1, 32; and.b32 %r9, %r1, 31;"
)
ROOM = ".shared .align 128 .b8 tile[4096]; .shared .align 128 .b8 cell[256]; .shared .align 8 .b8 bar[16];"
INIT = "@%p2 mbarrier.init.shared.b64 [%r4], 1; @%p2 fence.mbarrier_init.release.cluster; bar.sync 0;"
EXPECT = "@%p2 mbarrier.arrive.expect_tx.shared.b64 _, [%r4], {};"
LOAD = "@%p2 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r6], [%rd1], 16, [%r4];"
TRY = "TRY{0}: mbarrier.try_wait.parity.shared.b64 %p4, [%r4], {0}; @!%p4 bra TRY{0};"
STORE = "@%p2 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r6], 16; @%p2 cp.async.bulk.commit_group;"
DRAIN = "@%p2 cp.async.bulk.wait_group 0;"
FILL = "@%p2 st.shared.u32 [%r6], %r1; @%p2 st.shared.u32 [%r6+4], %r1; @%p2 st.shared.u64 [%r6+8], %rd1;"


class Case(NamedTuple):
    """`lines` with MEND where the mended kernel has `mend`; HERE and OTHER end the lines that the finding names."""

    kind: str
    lines: tuple[str, ...]
    mend: str = ""
    verdict: str = "error"
    launch: dict = {}  # noqa: RUF012
    also: frozenset = frozenset()  # kinds that random order may give besides
    mended: tuple[str, str] | None = None  # a replacement, where leaving something in is not enough


SWAPPED = frozenset({"read-after-write-race", "write-after-read-race", "write-race"})
CASES = {
    "two warps write": Case(
        "write-race",
        ("@%p2 st.shared.u32 [%r2], %r1; //OTHER", "MEND @%p3 st.shared.u32 [%r2], %r1; //HERE"),
        "bar.sync 0;",
    ),
    "a warp reads what another wrote": Case(
        "read-after-write-race",
        ("@%p2 st.shared.u32 [%r2], %r1; //OTHER", "MEND @%p3 ld.shared.u32 %r3, [%r2]; //HERE"),
        "bar.sync 0;",
        also=SWAPPED | {"uninitialised-read"},
    ),
    "a warp writes what another read": Case(
        "write-after-read-race",
        (
            "@%p2 st.shared.u32 [%r2], %r1; bar.sync 0;",
            "@%p3 ld.shared.u32 %r3, [%r2]; //OTHER",
            "MEND @%p2 st.shared.u32 [%r2], %r1; //HERE",
        ),
        "bar.sync 0;",
        also=SWAPPED,
    ),
    "an atomic and an ordinary write": Case(
        "write-race",
        (
            "@%p2 st.shared.u32 [%r2], %r1; bar.sync 0; @%p3 st.shared.u32 [%r2], %r1; //OTHER",
            "MEND @%p2 atom.shared.add.u32 %r3, [%r2], 1; //HERE",
        ),
        "bar.sync 0;",
    ),
    "a barrier that only one side reaches": Case(
        "read-after-write-race",
        ("@%p2 st.shared.u32 [%r2], %r1; //OTHER", "bar.arrive 1, 64; MEND @%p3 ld.shared.u32 %r3, [%r2]; //HERE"),
        mended=("bar.arrive 1, 64;", "bar.sync 1, 64;"),
        also=SWAPPED | {"uninitialised-read"},
    ),
    "a relaxed flag": Case(
        "read-after-write-race",
        (
            "@%p2 st.shared.u32 [%r2+64], 0; bar.sync 0; @%p2 st.shared.u32 [%r2], %r1; //OTHER",
            "@%p2 st.relaxed.cta.shared.u32 [%r2+64], 1; @!%p3 bra END;",
            "SPIN: ld.relaxed.cta.shared.u32 %r3, [%r2+64]; setp.eq.u32 %p4, %r3, 0; @%p4 bra SPIN;",
            "ld.shared.u32 %r3, [%r2]; //HERE",
            "END:",
        ),
        mended=("relaxed", "ORDERED"),
    ),
    "two lanes write": Case(
        "lane-race",
        (
            "setp.eq.u32 %p4, %r1, 1; @%p2 st.shared.u32 [%r2], %r1; //OTHER",
            "MEND @%p4 st.shared.u32 [%r2], %r1; //HERE",
        ),
        "bar.warp.sync -1;",
        "review",
        {"block": 32},
    ),
    "a lane reads what another wrote": Case(
        "lane-race",
        (
            "shl.b32 %r3, %r1, 2; add.u32 %r3, %r3, %r2; st.shared.u32 [%r3], %r1; //OTHER",
            "xor.b32 %r5, %r1, 1; shl.b32 %r5, %r5, 2; add.u32 %r5, %r5, %r2; MEND ld.shared.u32 %r7, [%r5]; //HERE",
        ),
        "bar.warp.sync -1;",
        "review",
        {"block": 32},
    ),
    "a lane writes what another read": Case(
        "lane-race",
        (
            "@%p2 st.shared.u32 [%r2], %r1; bar.warp.sync -1; setp.eq.u32 %p4, %r1, 5;"
            " @%p4 ld.shared.u32 %r3, [%r2]; //OTHER",
            "MEND @%p2 st.shared.u32 [%r2], %r1; //HERE",
        ),
        "bar.warp.sync -1;",
        "review",
        {"block": 32},
    ),
    "memory that nobody has written": Case(
        "uninitialised-read",
        ("MEND ld.shared.u32 %r3, [%r2]; //HERE",),
        "@%p2 st.shared.u32 [%r2], %r1; bar.sync 0;",
        "review",
    ),
    "half of it written": Case(
        "uninitialised-read",
        ("@%p2 st.shared.u32 [%r2], %r1; MEND bar.sync 0;", "ld.shared.u64 %rd3, [%r2]; //HERE"),
        "@%p2 st.shared.u32 [%r2+4], %r1;",
        "review",
    ),
    "one lane signals for all": Case(
        "elected-signal",
        (
            INIT,
            "shl.b32 %r3, %r9, 2; add.u32 %r3, %r3, %r2; @%p1 st.shared.u32 [%r3], %r1; //OTHER",
            "MEND @%p2 mbarrier.arrive.shared.b64 _, [%r4]; @%p1 bra END;",
            TRY.format(0),
            "ld.shared.u32 %r5, [%r3]; //HERE",
            "END:",
        ),
        "bar.warp.sync -1;",
        "review",
    ),
    "a copy not waited for": Case(
        "read-before-landing",
        (
            INIT,
            EXPECT.format(16),
            LOAD + " //OTHER",
            "MEND",
            "@%p2 ld.shared.u32 %r5, [%r6]; //HERE",
            TRY.format(0).replace("TRY", "LATE"),
        ),
        TRY.format(0),
        also=frozenset({"overwrite-while-read", "uninitialised-read"}),
    ),
    "a copy over what is read": Case(
        "overwrite-while-read",
        (
            INIT,
            "@%p3 st.shared.v4.u32 [%r6], {%r1, %r1, %r1, %r1}; fence.proxy.async; bar.sync 0; bar.sync 0;",
            "@%p3 ld.shared.u32 %r5, [%r6]; //OTHER",
            "MEND",
            EXPECT.format(16),
            LOAD + " //HERE",
            TRY.format(0),
        ),
        "bar.sync 0;",
        also=frozenset({"read-before-landing"}),
    ),
    "a write over what a store reads": Case(
        "overwrite-while-read",
        (
            FILL,
            "@%p2 fence.proxy.async; //",
            STORE + " //OTHER",
            "MEND",
            "@%p2 st.shared.u32 [%r6], %r1; //HERE",
            DRAIN,
        ),
        "@%p2 cp.async.bulk.wait_group.read 0;",
    ),
    "two copies to one place": Case(
        "double-write",
        (INIT, EXPECT.format("32"), LOAD + " //OTHER", LOAD + " //HERE", TRY.format(0)),
        mended=("[%r6], [%rd1], 16, [%r4]; //HERE", "[%r6+16], [%rd1], 16, [%r4]; //HERE"),
    ),
    "stores without a proxy fence": Case(
        "missing-proxy-fence", (FILL + " //OTHER", "MEND", STORE + " //HERE", DRAIN), "@%p2 fence.proxy.async;"
    ),
    "a fence of another thread before the barrier": Case(
        "missing-proxy-fence",
        (
            "@%p3 st.shared.v4.u32 [%r6], {%r1, %r1, %r1, %r1}; //OTHER",
            "@%p2 fence.proxy.async; MEND bar.sync 0;",
            STORE + " //HERE",
            DRAIN,
        ),
        "fence.proxy.async;",
    ),
    "another warp's stores copied out": Case(
        "async-read-race",
        (
            "bar.sync 0;",
            "@%p3 st.shared.v4.u32 [%r6], {%r1, %r1, %r1, %r1}; //OTHER",
            "@%p3 fence.proxy.async; MEND",
            "@%p3 bra END; @!%p1 bra END;",
            STORE + " //HERE",
            DRAIN,
            "END:",
        ),
        "bar.sync 0;",
        also=frozenset({"overwrite-while-read", "missing-proxy-fence"}),
    ),
    "stores whose reading nobody awaits": Case(
        "unfinished-store", (FILL, "@%p2 fence.proxy.async;", STORE, "MEND"), DRAIN, "review"
    ),
    "an mbarrier without its fence": Case(
        "mbarrier-init-fence",
        (
            "@%p2 mbarrier.init.shared.b64 [%r4], 1; //OTHER",
            "MEND bar.sync 0;",
            EXPECT.format(16),
            LOAD + " //HERE",
            TRY.format(0),
        ),
        "@%p2 fence.mbarrier_init.release.cluster;",
    ),
    "an mbarrier that another warp initialises": Case(
        "mbarrier-init-race",
        ("@%p2 mbarrier.init.shared.b64 [%r4], 1; //OTHER", "MEND @%p3 mbarrier.arrive.shared.b64 _, [%r4]; //HERE"),
        "bar.sync 0;",
        also=frozenset({"no-mbarrier"}),
    ),
    "bytes that are never expected": Case(
        "tx-count",
        (
            INIT,
            "@%p2 mbarrier.expect_tx.relaxed.cta.shared.b64 [%r4], 32; MEND //HERE",
        ),
        "@%p2 mbarrier.complete_tx.relaxed.cta.shared.b64 [%r4], 32;",
    ),
    "bytes beyond what was expected": Case(
        "tx-count",
        (INIT, "MEND", "@%p2 mbarrier.complete_tx.relaxed.cta.shared.b64 [%r4], 32; //HERE"),
        "@%p2 mbarrier.expect_tx.relaxed.cta.shared.b64 [%r4], 32;",
    ),
    "more bytes than a tx-count holds": Case(
        "tx-count",
        (
            INIT,
            "@%p2 mbarrier.expect_tx.relaxed.cta.shared.b64 [%r4], 1048575;",
            "MEND",
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
        mended=("[%r4], 2; //HERE", "[%r4], 1; //HERE"),
    ),
    "a live mbarrier initialised again": Case(
        "mbarrier-init",
        (INIT, "MEND", "@%p2 mbarrier.init.shared.b64 [%r4], 1; //HERE"),
        "@%p2 mbarrier.inval.shared.b64 [%r4];",
    ),
    "an mbarrier of none": Case(
        "mbarrier-count", ("@%p2 mbarrier.init.shared.b64 [%r4], 0; //HERE",), mended=(", 0;", ", 1;")
    ),
    "an mbarrier of too many": Case(
        "mbarrier-count", ("@%p2 mbarrier.init.shared.b64 [%r4], 1048576; //HERE",), mended=("1048576", "1048575")
    ),
    "no mbarrier": Case(
        "no-mbarrier",
        ("MEND @%p2 mbarrier.arrive.shared.b64 _, [%r4]; //HERE",),
        "@%p2 mbarrier.init.shared.b64 [%r4], 1;",
    ),
    "an mbarrier after inval": Case(
        "no-mbarrier",
        (
            "@%p2 mbarrier.init.shared.b64 [%r4], 1; @%p2 mbarrier.inval.shared.b64 [%r4];",
            "@%p2 mbarrier.arrive.shared.b64 _, [%r4]; //HERE",
        ),
        mended=("@%p2 mbarrier.inval.shared.b64 [%r4];", ""),
    ),
    "a misaligned mbarrier": Case(
        "misaligned", ("@%p2 mbarrier.init.shared.b64 [%r4+4], 1; //HERE",), mended=("+4", "+8")
    ),
    "a copy of an odd size": Case(
        "copy-size",
        (INIT, EXPECT.format(16), LOAD.replace("16", "20") + " //HERE", TRY.format(0)),
        mended=("20,", "16,"),
    ),
    "a copy of nothing": Case(
        "copy-size",
        (
            INIT,
            LOAD.replace("16", "0") + " //HERE",
        ),
        mended=(LOAD.replace("16", "0"), ""),
    ),
    "a store of an odd size": Case(
        "copy-size",
        (FILL, "@%p2 fence.proxy.async;", STORE.replace("16", "24") + " //HERE", DRAIN),
        mended=("24", "16"),
    ),
    "a misaligned source": Case(
        "misaligned",
        (INIT, EXPECT.format(16), LOAD.replace("[%rd1]", "[%rd1+8]") + " //HERE", TRY.format(0)),
        mended=("+8", "+16"),
    ),
    "a misaligned destination": Case(
        "misaligned",
        (INIT, EXPECT.format(16), LOAD.replace("[%r6]", "[%r6+8]") + " //HERE", TRY.format(0)),
        mended=("+8", "+16"),
    ),
    "a misaligned store": Case(
        "misaligned",
        (FILL, "@%p2 fence.proxy.async;", STORE.replace("[%rd1]", "[%rd1+8]") + " //HERE", DRAIN),
        mended=("[%rd1+8], [%r6]", "[%rd1+16], [%r6]"),
    ),
    "a copy from past the buffer": Case(
        "out-of-bounds",
        (INIT, EXPECT.format(16), LOAD.replace("[%rd1]", "[%rd1+4096]") + " //HERE", TRY.format(0)),
        mended=("+4096", "+4080"),
    ),
    "a load past the buffer": Case(
        "out-of-bounds", ("@%p2 ld.global.u32 %r3, [%rd1+4096]; //HERE",), mended=("4096", "4092")
    ),
    "a load in front of the buffer": Case(
        "out-of-bounds", ("@%p2 ld.global.u32 %r3, [%rd1+-4]; //HERE",), mended=("+-4", "+4")
    ),
    "a vector across the buffer's end": Case(
        "out-of-bounds",
        ("add.u64 %rd1, %rd1, 4; @%p2 st.global.u32 [%rd1+4092], %r1; //HERE",),
        mended=("+4092", "+4088"),
    ),
    "shared memory past the end": Case(
        "out-of-bounds",
        ("mov.u32 %r3, %total_smem_size; @%p2 st.shared.u32 [%r3], %r1; //HERE",),
        mended=("[%r3], %r1", "[%r3+-4], %r1"),
    ),
    "shared memory of the system": Case(
        "out-of-bounds", ("mov.u32 %r3, 1020; @%p2 st.shared.u32 [%r3], %r1; //HERE",), mended=("1020", "1024")
    ),
    "a misaligned load": Case("misaligned", ("@%p2 ld.global.u64 %rd3, [%rd1+4]; //HERE",), mended=("+4", "+8")),
    "a misaligned vector": Case(
        "misaligned", ("@%p2 st.shared.v2.u32 [%r2+4], {%r1, %r1}; //HERE",), mended=("+4", "+8")
    ),
    "a misaligned vector in global memory": Case(
        "misaligned", ("@%p2 st.global.v4.u32 [%rd1+8], {%r1, %r1, %r1, %r1}; //HERE",), mended=("+8", "+16")
    ),
    "a misaligned vector of atomics": Case(
        "misaligned", ("@%p2 red.global.v2.f32.add [%rd1+4], {%f1, %f1}; //HERE",), mended=("+4", "+8")
    ),
    "a misaligned atomic": Case("misaligned", ("@%p2 red.global.add.u32 [%rd1+2], 1; //HERE",), mended=("+2", "+4")),
    "a write to a parameter": Case(
        "bad-address",
        ("mov.b64 %rd3, p; cvta.param.u64 %rd3, %rd3; @%p2 st.u32 [%rd3], %r1; //HERE",),
        mended=("st.u32 [%rd3], %r1", "ld.u32 %r3, [%rd3]"),
    ),
    "local memory past the frame": Case(
        "out-of-bounds", ("@%p2 st.local.u32 [depot+16], %r1; //HERE",), mended=("+16", "+12")
    ),
    "a named barrier of no whole warps": Case("barrier-count", ("bar.sync 1, 48; //HERE",), mended=("48", "64")),
    "a barrier that there is not": Case("barrier-count", ("bar.sync 16; //HERE",), mended=("16", "15")),
    "a barrier of two counts": Case(
        "barrier-count",
        ("@%p1 bar.arrive 1, 64;", "@!%p1 bar.sync 1, 96; //HERE"),
        mended=("96", "64"),
        also=frozenset({"deadlock"}),
    ),
    "a cluster wait without arrival": Case(
        "cluster-barrier", ("MEND barrier.cluster.wait.aligned; //HERE",), "barrier.cluster.arrive.aligned;"
    ),
    "a mask without the executing lane": Case(
        "member-mask", ("setp.eq.u32 %p4, %r1, 3; @%p4 bar.warp.sync 7; //HERE",), mended=("sync 7", "sync 8")
    ),
    "a shuffle mask without the executing lane": Case(
        "member-mask",
        ("setp.eq.u32 %p4, %r1, 3; @%p4 shfl.sync.idx.b32 %r3, %r1, 3, 31, 7; //HERE",),
        mended=("31, 7", "31, 8"),
    ),
    "a shuffle from a lane that is not there": Case(
        "shuffle-source",
        ("setp.eq.u32 %p4, %r1, 3; @%p4 shfl.sync.idx.b32 %r3, %r1, 5, 31, 8; //HERE",),
        mended=("%r1, 5", "%r1, 3"),
    ),
    "an index past the table": Case(
        "branch-index",
        ("mov.u32 %r3, 2; T: .branchtargets A, A;", "brx.idx %r3, T; //HERE", "A:"),
        mended=("%r3, 2", "%r3, 1"),
    ),
    "a rank past the cluster": Case(
        "bad-rank",
        ("mapa.shared::cluster.u32 %r3, %r2, 2; //HERE",),
        mended=("%r2, 2", "%r2, 1"),
        launch={"grid": 2, "cluster": 2},
    ),
    "mapa of a global address": Case(
        "bad-address",
        ("cvta.shared.u64 %rd4, %rd4; mapa.u64 %rd3, %rd1, 0; //HERE",),
        mended=("mapa.u64 %rd3, %rd1", "mapa.u64 %rd3, %rd4"),
    ),
    "part of a warp at an aligned instruction": Case(
        "divergent-aligned",
        ("@%p2 barrier.cluster.arrive.aligned; //HERE",),
        mended=("@%p2 barrier.cluster.arrive.aligned;", ""),
    ),
    "a trap": Case("trap", ("trap; //HERE",), mended=("trap;", "")),
    "a mask of CTAs past the cluster": Case(
        "multicast-mask",
        (
            INIT,
            EXPECT.format(16),
            "mov.u16 %rs1, 2;",
            LOAD.replace("::bytes", "::bytes.multicast::cluster").replace("[%r4];", "[%r4], %rs1; //HERE"),
            TRY.format(0),
        ),
        mended=("%rs1, 2", "%rs1, 1"),
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
        mended=("16, [%r5]", "16, [%r4]"),
        launch={"grid": 2, "cluster": 2},
    ),
}
