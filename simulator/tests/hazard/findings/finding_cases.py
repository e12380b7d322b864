"""Kernels in which two accesses lack an order, the expected finding, and the correction."""

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
    """A faulty kernel.  `fix` replaces FIX in its correction; HERE and OTHER mark the lines of the finding."""

    kind: str
    lines: tuple[str, ...]
    fix: str = ""
    verdict: str = "error"
    launch: dict = {}  # noqa: RUF012
    also: frozenset = frozenset()  # further kinds that mode random may find
    fixed: tuple[str, str] | None = None  # for corrections that replace a text instead: old, new


SWAPPED = frozenset({"read-after-write-race", "write-after-read-race", "write-race"})
RACES = {
    "two warps write": Case(
        "write-race",
        ("@%p2 st.shared.u32 [%r2], %r1; //OTHER", "FIX @%p3 st.shared.u32 [%r2], %r1; //HERE"),
        "bar.sync 0;",
    ),
    "two warps write the same": Case(
        "write-race",
        (
            "mov.u32 %r3, 5; @%p2 st.shared.u32 [%r2], %r3; //OTHER",
            "FIX @%p3 st.shared.u32 [%r2], %r3; //HERE",
        ),
        "bar.sync 0;",
        verdict="review",
    ),
    "two warps write vectors of which a part is the same": Case(
        "write-race",
        (
            "mov.u32 %r3, 5; @%p2 st.shared.v2.u32 [%r2], {%r1, %r3}; //OTHER",
            "FIX @%p3 st.shared.u32 [%r2+4], %r3; //HERE",
        ),
        "bar.sync 0;",
        verdict="review",
    ),
    "two warps write the same after another value": Case(
        "write-race",
        (
            "mov.u32 %r3, 5; @%p2 st.shared.u32 [%r2], %r1; @%p2 st.shared.u32 [%r2], %r3; //OTHER",
            "FIX @%p3 st.shared.u32 [%r2], %r3; //HERE",
        ),
        "bar.sync 0;",
        also=SWAPPED,
    ),
    "a warp reads what another wrote": Case(
        "read-after-write-race",
        ("@%p2 st.shared.u32 [%r2], %r1; //OTHER", "FIX @%p3 ld.shared.u32 %r3, [%r2]; //HERE"),
        "bar.sync 0;",
        also=SWAPPED | {"uninitialised-read"},
    ),
    "a warp writes what another read": Case(
        "write-after-read-race",
        (
            "@%p2 st.shared.u32 [%r2], %r1; bar.sync 0;",
            "@%p3 ld.shared.u32 %r3, [%r2]; //OTHER",
            "FIX @%p2 st.shared.u32 [%r2], %r1; //HERE",
        ),
        "bar.sync 0;",
        also=SWAPPED,
    ),
    "an atomic and an ordinary write": Case(
        "write-race",
        (
            "@%p2 st.shared.u32 [%r2], %r1; bar.sync 0; @%p3 st.shared.u32 [%r2], %r1; //OTHER",
            "FIX @%p2 atom.shared.add.u32 %r3, [%r2], 1; //HERE",
        ),
        "bar.sync 0;",
        "review",
    ),
    "a barrier that only one side reaches": Case(
        "read-after-write-race",
        ("@%p2 st.shared.u32 [%r2], %r1; //OTHER", "bar.arrive 1, 64; FIX @%p3 ld.shared.u32 %r3, [%r2]; //HERE"),
        fixed=("bar.arrive 1, 64;", "bar.sync 1, 64;"),
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
        fixed=("relaxed", "ORDERED"),
    ),
    "an atomic without an order": Case(  # relaxed by default (PTX ISA), unless combined with fences
        "read-after-write-race",
        (
            "@%p2 st.shared.u32 [%r2+64], 0; bar.sync 0; @%p2 st.shared.u32 [%r2], %r1; //OTHER",
            "FIX @%p2 red.shared.add.u32 [%r2+64], 1; @!%p3 bra END;",
            "SPIN: atom.shared.or.b32 %r3, [%r2+64], 0; setp.eq.u32 %p4, %r3, 0; @%p4 bra SPIN;",
            "FIX ld.shared.u32 %r3, [%r2]; //HERE",
            "END:",
        ),
        "membar.cta;",
    ),
    "a fence on one side of a relaxed flag": Case(
        "read-after-write-race",
        (
            "@%p2 st.shared.u32 [%r2+64], 0; bar.sync 0; @%p2 st.shared.u32 [%r2], %r1; //OTHER",
            "fence.acq_rel.cta; @%p2 st.relaxed.cta.shared.u32 [%r2+64], 1; @!%p3 bra END;",
            "SPIN: ld.relaxed.cta.shared.u32 %r3, [%r2+64]; setp.eq.u32 %p4, %r3, 0; @%p4 bra SPIN;",
            "FIX ld.shared.u32 %r3, [%r2]; //HERE",
            "END:",
        ),
        "fence.acq_rel.cta;",
    ),
    "a fence of the wrong sort before a relaxed flag": Case(
        "read-after-write-race",
        (
            "@%p2 st.shared.u32 [%r2+64], 0; bar.sync 0; @%p2 st.shared.u32 [%r2], %r1; //OTHER",
            "fence.acquire.cta; @%p2 st.volatile.shared.u32 [%r2+64], 1; @!%p3 bra END;",
            "SPIN: ld.volatile.shared.u32 %r3, [%r2+64]; setp.eq.u32 %p4, %r3, 0; @%p4 bra SPIN;",
            "fence.sc.cta; ld.shared.u32 %r3, [%r2]; //HERE",
            "END:",
        ),
        fixed=("fence.acquire", "fence.release"),
    ),
    "a relaxed arrival without a fence": Case(
        "read-after-write-race",
        (
            "@%p2 mbarrier.init.shared.b64 [%r4], 1; bar.sync 0; @%p2 st.shared.u32 [%r2], %r1; //OTHER",
            "FIX @%p2 mbarrier.arrive.relaxed.cta.shared.b64 _, [%r4]; @!%p3 bra END;",
            "SPIN: mbarrier.try_wait.parity.relaxed.cta.shared.b64 %p4, [%r4], 0; @!%p4 bra SPIN;",
            "FIX ld.shared.u32 %r3, [%r2]; //HERE",
            "END:",
        ),
        "fence.acq_rel.cta;",
    ),
    "two lanes write": Case(
        "lane-race",
        (
            "setp.eq.u32 %p4, %r1, 1; @%p2 st.shared.u32 [%r2], %r1; //OTHER",
            "FIX @%p4 st.shared.u32 [%r2], %r1; //HERE",
        ),
        "bar.warp.sync -1;",
        "review",
        {"block": 32},
    ),
    "a lane reads what another wrote": Case(
        "lane-race",
        (
            "shl.b32 %r3, %r1, 2; add.u32 %r3, %r3, %r2; st.shared.u32 [%r3], %r1; //OTHER",
            "xor.b32 %r5, %r1, 1; shl.b32 %r5, %r5, 2; add.u32 %r5, %r5, %r2; FIX ld.shared.u32 %r7, [%r5]; //HERE",
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
            "FIX @%p2 st.shared.u32 [%r2], %r1; //HERE",
        ),
        "bar.warp.sync -1;",
        "review",
        {"block": 32},
    ),
    "memory that no thread has written": Case(
        "uninitialised-read",
        ("FIX ld.shared.u32 %r3, [%r2]; //HERE",),
        "@%p2 st.shared.u32 [%r2], %r1; bar.sync 0;",
        "review",
    ),
    "half of it written": Case(
        "uninitialised-read",
        ("@%p2 st.shared.u32 [%r2], %r1; FIX bar.sync 0;", "ld.shared.u64 %rd3, [%r2]; //HERE"),
        "@%p2 st.shared.u32 [%r2+4], %r1;",
        "review",
    ),
    "one lane signals for all": Case(
        "elected-signal",
        (
            INIT,
            "shl.b32 %r3, %r9, 2; add.u32 %r3, %r3, %r2; @%p1 st.shared.u32 [%r3], %r1; //OTHER",
            "FIX @%p2 mbarrier.arrive.shared.b64 _, [%r4]; @%p1 bra END;",
            TRY.format(0),
            "ld.shared.u32 %r5, [%r3]; //HERE",
            "END:",
        ),
        "bar.warp.sync -1;",
        "review",
    ),
    "a copy not waited for": Case(
        "read-before-completion",
        (
            INIT,
            EXPECT.format(16),
            LOAD + " //OTHER",
            "FIX",
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
            "FIX",
            EXPECT.format(16),
            LOAD + " //HERE",
            TRY.format(0),
        ),
        "bar.sync 0;",
        also=frozenset({"read-before-completion"}),
    ),
    "a write over what a store reads": Case(
        "overwrite-while-read",
        (
            FILL,
            "@%p2 fence.proxy.async; //",
            STORE + " //OTHER",
            "FIX",
            "@%p2 st.shared.u32 [%r6], %r1; //HERE",
            DRAIN,
        ),
        "@%p2 cp.async.bulk.wait_group.read 0;",
    ),
    "a store that the wait leaves out": Case(
        "overwrite-while-read",
        (
            FILL + FILL.replace("[%r6+8]", "[%r6+24]").replace("[%r6+4]", "[%r6+20]").replace("[%r6]", "[%r6+16]"),
            "@%p2 fence.proxy.async; " + STORE,
            STORE.replace("[%rd1], [%r6]", "[%rd1+16], [%r6+16]") + " //OTHER",
            "@%p2 cp.async.bulk.wait_group.read 1;",
            "@%p2 st.shared.u32 [%r6+16], %r1; //HERE",
            DRAIN,
        ),
        fixed=("st.shared.u32 [%r6+16], %r1; //HERE", "st.shared.u32 [%r6], %r1; //HERE"),
    ),
    "a copy of a thread that the wait leaves out": Case(
        "read-before-completion",
        (
            "@%p2 cp.async.ca.shared.global [%r6], [%rd1], 4; cp.async.commit_group;",
            "@%p2 cp.async.ca.shared.global [%r6+16], [%rd1+16], 4; //OTHER",
            "cp.async.commit_group; cp.async.wait_group 1;",
            "@%p2 ld.shared.u32 %r5, [%r6+16]; //HERE",
            "cp.async.wait_all;",
        ),
        fixed=("%r5, [%r6+16]", "%r5, [%r6]"),
    ),
    "two copies to one place": Case(
        "double-write",
        (INIT, EXPECT.format("32"), LOAD + " //OTHER", LOAD + " //HERE", TRY.format(0)),
        fixed=("[%r6], [%rd1], 16, [%r4]; //HERE", "[%r6+16], [%rd1], 16, [%r4]; //HERE"),
    ),
    "stores without a proxy fence": Case(
        "missing-proxy-fence", (FILL + " //OTHER", "FIX", STORE + " //HERE", DRAIN), "@%p2 fence.proxy.async;"
    ),
    "a fence of another thread before the barrier": Case(
        "missing-proxy-fence",
        (
            "@%p3 st.shared.v4.u32 [%r6], {%r1, %r1, %r1, %r1}; //OTHER",
            "@%p2 fence.proxy.async; FIX bar.sync 0;",
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
            "@%p3 fence.proxy.async; FIX",
            "@%p3 bra END; @!%p1 bra END;",
            STORE + " //HERE",
            DRAIN,
            "END:",
        ),
        "bar.sync 0;",
        also=frozenset({"overwrite-while-read", "missing-proxy-fence"}),
    ),
    "stores whose reading no thread awaits": Case(
        "unfinished-store", (FILL, "@%p2 fence.proxy.async;", STORE, "FIX"), DRAIN, "review"
    ),
}
