"""A pipeline of TMA copies through a ring of stages, and its mutants."""

from __future__ import annotations

import numpy as np

from simulator.python.frame import Sim
from simulator.python.toolchain import ROOT

TEXT = (ROOT / "simulator/tests/ptx/pipeline.ptx").read_text()
TILES = 7


def run(text: str, mode: str, seed: int = 1) -> tuple[Sim, int, bool]:
    sim = Sim(text, mode, seed)
    values = np.arange(TILES * 128, dtype=np.uint32) * 3
    source, target = sim.buffer(values), sim.buffer(np.zeros_like(values))
    status = sim.launch("pipeline", source, target, TILES, block=64)
    return sim, status, bool((target == values + 1).all())


# Text, its replacement, and kinds of findings of which one must be reported.
MUTANTS = {
    "no init fence": ("fence.mbarrier_init.release.cluster;", "", {"mbarrier-init-fence"}),
    "no barrier after init": ("bar.sync 0;", "", {"mbarrier-init-race"}),
    "no wait for empty": ("@!%p4 bra WAIT_EMPTY;", "", {"overwrite-while-read", "double-write", "mbarrier-arrivals"}),
    "empty waited without trying": (
        "    mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r15], %r13;",
        "    setp.eq.u32 %p4, 0, 0;",
        {"overwrite-while-read", "double-write", "mbarrier-arrivals"},
    ),
    "full waited without trying": (
        "    mbarrier.try_wait.parity.shared::cta.b64 %p4, [%r16], %r12;",
        "    setp.eq.u32 %p4, 0, 0;",
        {"read-before-completion", "uninitialised-read"},
    ),
    "wrong parity of full": ("[%r16], %r12;", "[%r16], %r13;", {"missed-phase"}),
    "wrong parity of empty": ("[%r15], %r13;", "[%r15], %r12;", {"deadlock"}),
    "no arrival at empty": ("    mbarrier.arrive.shared::cta.b64 _, [%r15];", "", {"deadlock"}),
    "arrival at empty before the load": (
        "    ld.shared.v4.u32 {%r21, %r22, %r23, %r24}, [%r20];\n    mbarrier.arrive.shared::cta.b64 _, [%r15];",
        "    mbarrier.arrive.shared::cta.b64 _, [%r15];\n    ld.shared.v4.u32 {%r21, %r22, %r23, %r24}, [%r20];",
        {"overwrite-while-read"},
    ),
    "arrival at empty before the wait": (
        TEXT[TEXT.index("WAIT_FULL:") : TEXT.index("    add.u32 %r21, %r21, 1;")],
        "    mbarrier.arrive.shared::cta.b64 _, [%r15];\n"
        + TEXT[TEXT.index("WAIT_FULL:") : TEXT.index("    mbarrier.arrive.shared::cta.b64 _, [%r15];")],
        {"missed-phase"},
    ),
    "parity of the tile, not of the lap": (
        "    shr.u32 %r12, %r10, 1;\n    and.b32 %r12, %r12, 1;\n    shl.b32 %r14",
        "    and.b32 %r12, %r10, 1;\n    shl.b32 %r14",
        {"missed-phase"},
    ),
    "too few arrivals expected": (
        "mbarrier.init.shared::cta.b64 [%r5], 32;",
        "mbarrier.init.shared::cta.b64 [%r5], 1;",
        {"missed-phase"},
    ),
    "too many arrivals expected": (
        "mbarrier.init.shared::cta.b64 [%r5], 32;",
        "mbarrier.init.shared::cta.b64 [%r5], 33;",
        {"deadlock"},
    ),
    "one lane arrives for all": (
        "    mbarrier.arrive.shared::cta.b64 _, [%r15];",
        "    setp.eq.u32 %p8, %r18, 0;\n    @%p8 mbarrier.arrive.shared::cta.b64 _, [%r15], 32;",
        {"elected-signal"},
    ),
    "expect_tx too small": ("_, [%r16], 512;", "_, [%r16], 256;", {"deadlock"}),
    "expect_tx too large": ("_, [%r16], 512;", "_, [%r16], 768;", {"deadlock"}),
    "arrive without expect_tx": (
        "mbarrier.arrive.expect_tx.shared::cta.b64 _, [%r16], 512;",
        "mbarrier.arrive.shared::cta.b64 _, [%r16];",
        {"read-before-completion"},
    ),
    "no proxy fence": ("    fence.proxy.async.shared::cta;", "", {"missing-proxy-fence"}),
    "no warp sync before the store": (
        "    fence.proxy.async.shared::cta;\n    bar.warp.sync -1;",
        "    fence.proxy.async.shared::cta;",
        {"lane-race"},
    ),
    "no wait for the store's reads": (
        "cp.async.bulk.wait_group.read 0;",
        "",
        {"overwrite-while-read"},
    ),
    "no commit": ("    cp.async.bulk.commit_group;", "", {"overwrite-while-read"}),
    "no wait at the end": ("    cp.async.bulk.wait_group 0;", "", {"unfinished-store"}),
    "copy of the wrong size": ("[%rd1], 512, [%r16]", "[%rd1], 500, [%r16]", {"copy-size"}),
    "copy past the stages": (
        "shl.b32 %r17, %r11, 9;\n    add.u32 %r17, %r3, %r17;\n    mbarrier.arrive.expect_tx",
        "shl.b32 %r17, %r11, 19;\n    add.u32 %r17, %r3, %r17;\n    mbarrier.arrive.expect_tx",
        {"out-of-bounds"},
    ),
}
