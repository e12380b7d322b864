"""Faults that people met in kernels of 2026, and the kernels without them."""

from __future__ import annotations

from collections.abc import Callable
from functools import cache
from pathlib import Path
from tempfile import mkdtemp
from typing import Any, NamedTuple

import numpy as np

from scripts.common.ptxsim import Sim, body
from scripts.evidence.mutants import gemm, gemm_ptx, multicast, pipeline, tensor_maps

MODES = ("eager", "late", "random:1", "random:2")
Outcome = tuple[str, set[str]]


class Fault(NamedTuple):
    """Who met it, the kind of finding it has to give, and how to run the kernel without (False) and with it."""

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
}
