"""A kernel that changes its own tensor map, and its mutants."""

from __future__ import annotations

import numpy as np

from simulator.python.frame import Sim, body

ROWS, COLUMNS = 8, 16
COPY = "tensormap.cp_fenceproxy.global.shared::cta.tensormap::generic.release.gpu.sync.aligned [%rd2], [%r4], 128;"
# Ordinary stores instead of the instruction that copies and fences.
STORES = (
    "shl.b32 %r20, %r1, 2; add.u32 %r20, %r20, %r4; ld.shared.u32 %r21, [%r20]; shl.b32 %r20, %r1, 2;"
    "cvt.u64.u32 %rd20, %r20; add.u64 %rd20, %rd20, %rd2; st.global.u32 [%rd20], %r21;"
    "fence.proxy.tensormap::generic.release.gpu; bar.warp.sync -1;"
)
FENCE = "fence.proxy.tensormap::generic.acquire.gpu [%rd2], 128;"
WAIT = "TRY: mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], %r11; @!%p2 bra TRY;"
REPLACE = "tensormap.replace.tile.{}.shared::cta.b1024.{} [%r4], {};"


def kernel(replacements: str = "", copy: str = COPY) -> str:
    """Loads the same box of two tensors in turn through one map in global memory, which the kernel changes."""
    return body(
        "mov.u32 %r1, %tid.x; mov.u32 %r2, tile; mov.u32 %r3, bar; mov.u32 %r4, room;",
        "ld.param.u64 %rd1, [out]; ld.param.u64 %rd2, [maps]; ld.param.u64 %rd4, [source]; mov.b64 %rd3, map;",
        "shl.b32 %r5, %r1, 2; cvt.u64.u32 %rd5, %r5; cvta.param.u64 %rd3, %rd3; add.u64 %rd6, %rd3, %rd5;",
        "ld.u32 %r6, [%rd6]; add.u32 %r7, %r4, %r5; st.shared.u32 [%r7], %r6;",
        "setp.ne.u32 %p1, %r1, 0; @%p1 bra READY;",
        "mbarrier.init.shared::cta.b64 [%r3], 1; fence.mbarrier_init.release.cluster;",
        "READY: bar.warp.sync -1; mov.u32 %r10, 0;",
        f"ROUND: and.b32 %r11, %r10, 1; mul.lo.u32 %r12, %r10, {4 * ROWS * COLUMNS}; cvt.u64.u32 %rd7, %r12;",
        "add.u64 %rd7, %rd7, %rd4; @%p1 bra CHANGED;",
        REPLACE.format("global_address", "b64", "%rd7"),
        replacements,
        "CHANGED: bar.warp.sync -1;",
        copy,
        "@%p1 bra ISSUED;",
        FENCE,
        f"mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r3], {4 * ROWS * COLUMNS};",
        "mov.u32 %r13, 0; cp.async.bulk.tensor.2d.shared::cluster.global.tile.mbarrier::complete_tx::bytes"
        " [%r2], [%rd2, {%r13, %r13}], [%r3];",
        "ISSUED: bar.warp.sync -1;",
        WAIT,
        "mov.u32 %r14, %r1;",
        "OUT: shl.b32 %r15, %r14, 2; add.u32 %r16, %r15, %r2; ld.shared.u32 %r17, [%r16]; add.u32 %r15, %r15, %r12;",
        "cvt.u64.u32 %rd8, %r15; add.u64 %rd8, %rd8, %rd1; st.global.u32 [%rd8], %r17; add.u32 %r14, %r14, 32;",
        f"setp.lt.u32 %p3, %r14, {ROWS * COLUMNS}; @%p3 bra OUT;",
        "fence.proxy.async; bar.warp.sync -1; add.u32 %r10, %r10, 1; setp.lt.u32 %p3, %r10, 2; @%p3 bra ROUND;",
        params=".param .u64 out, .param .align 64 .b8 map[128], .param .u64 maps, .param .u64 source",
        registers=f".shared .align 128 .b8 tile[{4 * ROWS * COLUMNS}]; .shared .align 8 .b8 bar[8];"
        " .shared .align 128 .b8 room[128];",
    )


def run(text: str, mode: str = "eager") -> tuple[Sim, np.ndarray, np.ndarray]:
    """The simulator, the two tensors, and the loaded copies."""
    sim = Sim(text, mode, 3)
    source = sim.buffer(np.arange(2 * ROWS * COLUMNS, dtype=np.uint32).reshape(2, ROWS, COLUMNS) + 7)
    encoded = sim.tensor_map(source[0], 2, (COLUMNS, ROWS))
    out, maps = sim.buffer(np.zeros_like(source)), sim.buffer(np.zeros(32, np.uint32))
    sim.launch("k", out, encoded, maps, source)
    return sim, source, out


MUTANTS = {
    "no fence of the map": (FENCE, "", "missing-tensormap-fence"),
    "fence of another map": ("[%rd2], 128;\nmbarrier", "[%rd4], 128;\nmbarrier", "missing-tensormap-fence"),
    "changed while a copy reads it": (
        WAIT,
        "add.u32 %r18, %r10, 1; setp.lt.u32 %p4, %r18, 2; @%p4 bra LATER;" + WAIT + "LATER:",
        "tensor-map-in-use",
    ),
}
