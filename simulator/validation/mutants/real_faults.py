"""Faults that people met in kernels in 2026, each with a correct version of the kernel."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NamedTuple

import numpy as np

from simulator.python.frame import HEADER, Sim, body
from simulator.validation.mutants import changed_maps as tensor_maps
from simulator.validation.mutants import gemm_problem as gemm
from simulator.validation.mutants import gemm_ptx, multicast
from simulator.validation.mutants import tma_pipeline as pipeline

MODES = ("eager", "late", "random:1", "random:2")
Outcome = tuple[str, set[str]]


class Fault(NamedTuple):
    """Where it was met, the kind of finding it must give, and how to run the kernel without (False) and with it."""

    met: str
    kind: str
    run: Callable[[bool, str], Outcome]


def _sim(text: str, mode: str, **launch: Any) -> Outcome:
    kind, _, seed = mode.partition(":")
    sim = Sim(text, kind, int(seed or 1), limit=2_000_000)
    buffers = [sim.buffer(np.arange(512, dtype=np.uint32)) for _ in range(launch.pop("buffers", 1))]
    sim.launch("k", *buffers, **launch)
    return sim.verdict, set(sim.kinds)


def _pipeline(name: str) -> Callable[[bool, str], Outcome]:
    def run(faulty: bool, mode: str) -> Outcome:
        text = pipeline.TEXT.replace(*pipeline.MUTANTS[name][:2]) if faulty else pipeline.TEXT
        kind, _, seed = mode.partition(":")
        sim, _, _ = pipeline.run(text, kind, int(seed or 1))
        return sim.verdict, set(sim.kinds)

    return run


@cache
def _problem(pair: bool) -> gemm.Problem:
    return gemm.Problem(Path(mkdtemp()), 64 if pair else 128, pair=pair)


def _tensor(name: str, pair: bool = False, **changes: bool) -> Callable[[bool, str], Outcome]:
    def run(faulty: bool, mode: str) -> Outcome:
        text = gemm_ptx.kernel(64 if pair else 128, gemm.CHUNKS, pair=pair, **(changes if faulty else {}))
        verdict, kinds, _ = _problem(pair).run(gemm_ptx.mutate(text, name) if faulty and name else text, mode)
        return verdict, {kind for _, kind in kinds}

    return run


def _map(faulty: bool, mode: str) -> Outcome:
    before, after, _ = tensor_maps.MUTANTS["changed while a copy reads it"]
    kind, _, _ = mode.partition(":")
    sim, _, _ = tensor_maps.run(tensor_maps.kernel().replace(before, after) if faulty else tensor_maps.kernel(), kind)
    return sim.verdict, set(sim.kinds)


def _multicast(faulty: bool, mode: str) -> Outcome:
    armed = "INIT: barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;"
    text = multicast.MULTICAST.replace(armed, "INIT: bar.sync 0;") if faulty else multicast.MULTICAST
    return _sim(text, mode, buffers=2, grid=4, cluster=4)


WGMMA = body(
    "mov.u32 %r1, %tid.x; mov.u32 %r2, tile; shl.b32 %r3, %r1, 4; add.u32 %r3, %r3, %r2; mov.u32 %r4, 0;",
    "st.shared.v4.u32 [%r3], {%r4, %r4, %r4, %r4}; fence.proxy.async; bar.sync 0;",
    "shr.u32 %r5, %r2, 4; cvt.u64.u32 %rd5, %r5; or.b64 %rd5, %rd5, 0x0000000800080000; setp.ne.u32 %p1, %r4, 0;",
    "mov.u32 %r10, 1; mov.u32 %r11, 1; mov.u32 %r12, 1; mov.u32 %r13, 1;",
    "wgmma.fence.sync.aligned;",
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, {%r10, %r11, %r12, %r13}, %rd5,"
    " %p1, 1, 1, 0;",
    "wgmma.commit_group.sync.aligned;",
    "wgmma.wait_group.sync.aligned 0;",
    "add.u32 %r11, %r1, 5;",
    registers=".shared .align 128 .b8 tile[2048];",
)


def _operand(faulty: bool, mode: str) -> Outcome:
    wait, write = "wgmma.wait_group.sync.aligned 0;", "add.u32 %r11, %r1, 5;"
    text = WGMMA.replace(f"{wait}\n{write}", f"{write}\n{wait}") if faulty else WGMMA
    return _sim(text, mode, block=128)


SPACE = ".shared .align 128 .b8 tile[1024]; .shared .align 16 .b8 bar[32];"
BEGIN = (
    "mov.u32 %r1, %tid.x; mov.u32 %r2, tile; mov.u32 %r4, bar; ld.param.u64 %rd1, [p]; setp.eq.u32 %p1, %r1, 0;"
    "setp.eq.u32 %p2, %r1, 32; setp.ge.u32 %p3, %r1, 32; shl.b32 %r3, %r1, 2; add.u32 %r3, %r3, %r2;"
)
INIT = "@%p1 mbarrier.init.shared.b64 [%r4], 1; @%p1 fence.mbarrier_init.release.cluster; bar.sync 0;"
TRY = "T{0}: mbarrier.try_wait.parity.shared.b64 %p4, [%r4], {0}; @!%p4 bra T{0};"
COPY = "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd1], 128, [%r4];"
REQUEST = (
    "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r4], 16;",
    "@%p1 clusterlaunchcontrol.try_cancel.async.shared::cta.mbarrier::complete_tx::bytes.b128 [%r2], [%r4];",
)


def _small(
    lines: tuple[str, ...], mended: str, faulty: str, arch: str = "90a", **launch: Any
) -> Callable[..., Outcome]:
    """A kernel whose lines have MEND: its replacement in the correct kernel, and in the faulty one."""

    def run(is_faulty: bool, mode: str) -> Outcome:
        text = body(BEGIN, *lines, registers=SPACE).replace("MEND", faulty if is_faulty else mended)
        text = text.replace(HEADER, HEADER.replace("90a", arch))
        return _sim(text, mode, **launch)

    return run


def _scope(faulty: bool, mode: str) -> Outcome:
    text = gemm_ptx.kernel(64, gemm.CHUNKS, pair=True)
    text = text.replace("arrive.release.cluster", "arrive.release.cta") if faulty else text
    verdict, kinds, _ = _problem(True).run(text, mode)
    return verdict, {kind for _, kind in kinds}


def _late_wait(faulty: bool, mode: str) -> Outcome:
    text = pipeline.TEXT
    if faulty:
        start, end = text.index("WAIT_FULL:"), text.index("    add.u32 %r21, %r21, 1;")
        wait, read = text[start:end].split("WAIT_FULL;", 1)
        wait += "WAIT_FULL;\n"
        arrive = "    mbarrier.arrive.shared::cta.b64 _, [%r15];"
        assert arrive in read
        text = text[:start] + "    nanosleep.u32 1000;\n" + read.replace(arrive, "") + wait + arrive + "\n" + text[end:]
    kind, _, seed = mode.partition(":")
    sim, _, _ = pipeline.run(text, kind, int(seed or 1))
    return sim.verdict, set(sim.kinds)


TWO_WGMMA = WGMMA.replace(
    "wgmma.wait_group.sync.aligned 0;\nadd.u32 %r11, %r1, 5;",
    "mov.u32 %r20, 1; mov.u32 %r21, 1; mov.u32 %r22, 1; mov.u32 %r23, 1; wgmma.fence.sync.aligned;\n"
    "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, {%r20, %r21, %r22, %r23}, %rd5,"
    " %p1, 1, 1, 0;\nwgmma.commit_group.sync.aligned;\n"
    "wgmma.wait_group.sync.aligned 1;\nadd.u32 %r11, %r1, 5;\nwgmma.wait_group.sync.aligned 0;",
)


def _ring_operand(faulty: bool, mode: str) -> Outcome:
    return _sim(TWO_WGMMA.replace("aligned 1;", "aligned 2;") if faulty else TWO_WGMMA, mode, block=128)


FAULTS = {
    "ordinary stores, then TMA, without fence.proxy.async": Fault(
        "TransformerEngine PR 2695, FlashKDA PR 25", "missing-proxy-fence", _pipeline("no proxy fence")
    ),
    "mbarrier.init without a fence": Fault("FlashKDA PR 25", "mbarrier-init-fence", _pipeline("no init fence")),
    "wgmma's operand register overwritten before its wait": Fault("DeepGEMM #449", "wgmma-register", _operand),
    "tensor map changed while a TMA reads it": Fault("DeepGEMM #343", "tensor-map-in-use", _map),
    "the wrong CTA's TMA waited for in a pair": Fault(
        "DeepGEMM 96fbced", "read-before-completion", _tensor("peer_completed", pair=True)
    ),
    "multicast before the receiver armed its barrier": Fault("humming PR 54", "mbarrier-init-race", _multicast),
    "stage reused while a bulk store reads it": Fault(
        "mKernel PR 18", "overwrite-while-read", _pipeline("no wait for the store's reads")
    ),
    "parity of the loop's index, not of the barrier's history": Fault(
        "TileLang #2927", "missed-phase", _pipeline("parity of the tile, not of the lap")
    ),
    "scale columns overwritten before the MMA that reads them committed": Fault(
        "TIRx-kernels PR 7", "unpipelined-copy", _tensor("", shared_scales=True)
    ),
    "tcgen05.alloc's result read without order": Fault(
        "TIRx-kernels PR 7", "read-after-write-race", _tensor("first_sync")
    ),
    "tcgen05.alloc of a pair before the other CTA is known to run": Fault(
        "CUTLASS PR 3316, TileLang 2644", "pair-alloc", _tensor("peer_runs", pair=True)
    ),
    "tcgen05.dealloc of a pair before the other CTA's alloc": Fault(
        "CUTLASS 3435",
        "pair-dealloc",
        _small(
            (
                "barrier.cluster.arrive.relaxed.aligned; barrier.cluster.wait.aligned; @%p3 bra END;",
                "tcgen05.alloc.cta_group::2.sync.aligned.shared::cta.b32 [%r4], 32;",
                "tcgen05.relinquish_alloc_permit.cta_group::2.sync.aligned; bar.warp.sync -1;",
                "ld.shared.u32 %r5, [%r4]; MEND tcgen05.dealloc.cta_group::2.sync.aligned.b32 %r5, 32; END:",
            ),
            "barrier.cluster.arrive.relaxed; barrier.cluster.wait;",
            "",
            "100a",
            grid=2,
            cluster=2,
            block=32,
        ),
    ),
    "an mbarrier's arrive of CTA scope publishes the peer's data": Fault(
        "CUTLASS 3324 and 3643, QuACK 63", "read-before-completion", _scope
    ),
    "one lane arrives for its warp without __syncwarp": Fault(
        "cuDNN-frontend PR 426", "elected-signal", _pipeline("one lane arrives for all")
    ),
    "a persistent kernel's mailbox filled again before all have read it": Fault(
        "cuda-oxide PR 1066",
        "overwrite-while-read",
        _small(
            (
                INIT,
                *REQUEST,
                TRY.format(0),
                "bar.sync 0; @%p2 ld.shared.u32 %r5, [%r2];",
                "MEND",
                *REQUEST,
                TRY.format(1),
            ),
            "bar.sync 0;",
            "",
            "100a",
            block=64,
        ),
    ),
    "tensor memory overwritten while a load of another warp reads it": Fault(
        "facebookexperimental/triton 1993",
        "tensor-memory-race",
        _small(
            (
                "@%p3 bra GO; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [%r4], 32;",
                "tcgen05.relinquish_alloc_permit.cta_group::1.sync.aligned; GO: bar.sync 0; ld.shared.u32 %r5, [%r4];",
                "shr.u32 %r6, %r1, 5; and.b32 %r6, %r6, 3; shl.b32 %r6, %r6, 21; add.u32 %r5, %r5, %r6;",
                "setp.ge.u32 %p4, %r1, 128; @%p4 bra NEXT;",
                "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r5], {%r1}; tcgen05.wait::st.sync.aligned;",
                "tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r7}, [%r5]; MEND",
                "NEXT: bar.sync 0; tcgen05.fence::after_thread_sync; @!%p4 bra LAST;",
                "tcgen05.st.sync.aligned.32x32b.x1.b32 [%r5], {%r1}; tcgen05.wait::st.sync.aligned;",
                "tcgen05.fence::before_thread_sync; LAST: @%p4 bra OUT;",
                "tcgen05.wait::ld.sync.aligned; OUT: bar.sync 0;",
                "@%p3 bra END; tcgen05.fence::after_thread_sync; sub.u32 %r5, %r5, %r6;",
                "tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r5, 32; END:",
            ),
            "tcgen05.wait::ld.sync.aligned; tcgen05.fence::before_thread_sync;",
            "tcgen05.fence::before_thread_sync;",
            "100a",
            block=256,
        ),
    ),
    "an epilogue's shared memory stored by a TMA without fence and barrier": Fault(
        "TileOPs PR 1574",
        "async-read-race",
        _small(
            (
                "bar.sync 0; st.shared.u32 [%r3], %r1; MEND",
                "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r2], 512; @%p1 cp.async.bulk.commit_group;",
                "@%p1 cp.async.bulk.wait_group 0;",
            ),
            "fence.proxy.async; bar.sync 0;",
            "",
            block=128,
        ),
    ),
    "fence.mbarrier_init by another thread than the initialising one": Fault(
        "TIRx-kernels PR 9",
        "mbarrier-init-fence",
        _small(
            (
                "@%p1 mbarrier.init.shared.b64 [%r4], 1; MEND fence.mbarrier_init.release.cluster; bar.sync 0;",
                "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r4], 16;",
                "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd1], 16, [%r4];",
                TRY.format(0),
            ),
            "@%p1",
            "@%p2",
            block=64,
        ),
    ),
    "a relaxed cluster barrier before another CTA's memory is read": Fault(
        "SGLang 38829",
        "read-after-write-race",
        _small(
            (
                "st.shared.u32 [%r3], %r1; barrier.cluster.arrive.MEND.aligned; barrier.cluster.wait.aligned;",
                "mov.u32 %r5, %cluster_ctarank; xor.b32 %r5, %r5, 1; mapa.shared::cluster.u32 %r6, %r3, %r5;",
                "ld.shared::cluster.u32 %r7, [%r6]; barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
            ),
            "release",
            "relaxed",
            grid=2,
            cluster=2,
        ),
    ),
    "a copy over what its own warp has just read, without fence.proxy.async": Fault(
        "DeepEP 621, 632, 642",
        "missing-proxy-fence",
        _small(
            (
                INIT,
                "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r4], 128;",
                COPY,
                TRY.format(0),
                "ld.shared.u32 %r5, [%r3]; MEND bar.warp.sync -1;",
                "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r4], 128;",
                COPY,
                TRY.format(1),
            ),
            "fence.proxy.async;",
            "",
            block=32,
        ),
    ),
    "a wait of CTA scope for another CTA's arrival": Fault(
        "CUTLASS 3324",
        "narrow-scope",
        _small(
            (
                INIT,
                "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned; mov.u32 %r5, %cluster_ctarank;",
                "xor.b32 %r5, %r5, 1; mapa.shared::cluster.u32 %r6, %r4, %r5;",
                "@%p1 mbarrier.arrive.release.cluster.shared::cluster.b64 _, [%r6];",
                "T: mbarrier.try_wait.parity.acquire.MEND.shared::cta.b64 %p4, [%r4], 0; @!%p4 bra T;",
                "barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;",
            ),
            "cluster",
            "cta",
            grid=2,
            cluster=2,
            block=64,
        ),
    ),
    "a read after a spin, and its wait only then": Fault("CUTracer PR 106", "read-before-completion", _late_wait),
    "an A operand's registers of the last group but one used again": Fault(
        "DeepGEMM #343, #430, #431, #448", "wgmma-register", _ring_operand
    ),
}
