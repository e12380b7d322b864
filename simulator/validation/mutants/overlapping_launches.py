"""Launches that overlap (programmatic dependent launch, several queues): faults that people met, and the repairs."""

from __future__ import annotations

from typing import NamedTuple

import numpy as np

from simulator.python.frame import HEADER, Sim

THREADS = 32
OLD, NEW = 3, 7
WAIT, TRIGGER = "griddepcontrol.wait;", "griddepcontrol.launch_dependents;"
# Each thread has its elements of x, y and z at %rd11, %rd12 and %rd13; the buffers begin at %rd1, %rd2 and %rd3.
BEGIN = """
.reg .pred %p<4>; .reg .b32 %r<16>; .reg .b64 %rd<16>; .shared .align 128 .b8 tile[256]; .shared .align 8 .b8 bar[8];
ld.param.u64 %rd1, [x]; ld.param.u64 %rd2, [y]; ld.param.u64 %rd3, [z]; mov.u32 %r1, %tid.x; mov.u32 %r9, tile;
mul.wide.u32 %rd4, %r1, 4; add.s64 %rd11, %rd1, %rd4; add.s64 %rd12, %rd2, %rd4; add.s64 %rd13, %rd3, %rd4;
mov.u32 %r2, 7; setp.eq.u32 %p1, %r1, 0; mov.u32 %r10, bar;
"""
PUT_X = "st.global.u32 [%rd11], %r2;"
PUT_Y = "st.global.u32 [%rd12], %r2;"
PUT_Z = "st.global.u32 [%rd13], %r2;"
GET_X = "ld.global.u32 %r3, [%rd11];"
GET_Z = "ld.global.u32 %r4, [%rd13];"
KEEP = "st.global.u32 [%rd12], %r3;"
BULK_STORE = (
    "shl.b32 %r5, %r1, 2; add.u32 %r5, %r5, %r9; st.shared.u32 [%r5], %r2; fence.proxy.async; bar.sync 0;",
    "@%p1 cp.async.bulk.global.shared::cta.bulk_group [%rd1], [%r9], 128; //OTHER",
    "@%p1 cp.async.bulk.commit_group; @%p1 cp.async.bulk.wait_group 0;",
)
BULK_LOAD = (
    "@%p1 mbarrier.init.shared.b64 [%r10], 1; @%p1 fence.mbarrier_init.release.cluster; bar.sync 0;",
    "@%p1 mbarrier.arrive.expect_tx.shared.b64 _, [%r10], 128;",
    "@%p1 cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r9], [%rd1], 128, [%r10]; //HERE",
    "TRY: mbarrier.try_wait.parity.shared.b64 %p2, [%r10], 0; @!%p2 bra TRY;",
    "shl.b32 %r5, %r1, 2; add.u32 %r5, %r5, %r9; ld.shared.u32 %r3, [%r5];",
)
HERE, OTHER = " //HERE", " //OTHER"


class Case(NamedTuple):
    """Kernels a, b, c; MEND marks where the correct version has `mend`.  `calls` launches them in order: ! marks a
    dependent launch, a number chooses a queue.  HERE and OTHER end the lines that the finding names."""

    met: str
    kernels: tuple[tuple[str, ...], ...]
    calls: str = "a b!"
    kind: str = "missing-griddepcontrol-wait"
    mend: str = WAIT
    verdict: str = "error"
    shows: bool = True  # values are wrong where stores are delayed


CASES = {
    "griddepcontrol.wait compiled out": Case(
        "FlashInfer 2708", ((TRIGGER, PUT_X + OTHER), ("MEND", GET_X + HERE, KEEP))
    ),
    "no wait, and a predecessor that triggers at its end only": Case(
        "", ((PUT_X + OTHER,), ("MEND", GET_X + HERE, KEEP))
    ),
    "a finalising kernel against the GEMM's bulk stores": Case(
        "FlashInfer 3835", ((TRIGGER, *BULK_STORE), ("MEND", GET_X + HERE, KEEP))
    ),
    "the first read before the wait": Case(
        "flash-attention 2481, 2498", ((TRIGGER, PUT_X + OTHER), ("MEND", GET_X + HERE, WAIT, KEEP))
    ),
    "bulk loads without a wait": Case("CUTLASS 2760", ((TRIGGER, PUT_X + OTHER), ("MEND", *BULK_LOAD, KEEP))),
    "the bias loaded before the wait": Case(
        "SGLang 38290",
        ((TRIGGER, PUT_X, PUT_Z + OTHER), ("MEND", GET_Z + HERE, WAIT, GET_X, "mov.u32 %r3, %r4;", KEEP)),
    ),
    "launch_dependents before the stores that the next kernel reads": Case(
        "TensorRT-LLM 17842", ((), (WAIT, TRIGGER, PUT_X + OTHER), ("MEND", GET_X + HERE, KEEP)), "a b! c!"
    ),
    "launch_dependents after the stores instead of a wait": Case(
        "TensorRT-LLM 13294", ((PUT_X + OTHER, "membar.gl; bar.sync 0;", TRIGGER), ("MEND", GET_X + HERE, KEEP))
    ),
    "one lane waits for its warp": Case(
        "",
        ((TRIGGER, PUT_X + OTHER), ("@%p1 griddepcontrol.wait;", "MEND", GET_X + HERE, KEEP)),
        mend="bar.warp.sync -1;",
        verdict="review",
        shows=False,
    ),
    "what the previous kernel reads is overwritten": Case(
        "", ((TRIGGER, GET_X + OTHER, KEEP), ("MEND", PUT_X + HERE)), shows=False
    ),
    "what the previous kernel writes is overwritten": Case(
        "", ((TRIGGER, "mov.u32 %r2, 3;", PUT_Y + OTHER), ("MEND", PUT_Y + HERE))
    ),
    "a kernel in between that does not wait": Case(
        "",
        ((TRIGGER, PUT_X + OTHER), (TRIGGER, "MEND", PUT_Z), (WAIT, GET_X + HERE, KEEP)),
        "a b! c!",
        "unwaited-predecessor",
    ),
    "four kernels, of which two do not wait": Case(
        "",
        ((TRIGGER, PUT_X + OTHER), (TRIGGER, "MEND", GET_Z), (WAIT, GET_X + HERE, KEEP)),
        "a b! b! c!",
        "unwaited-predecessor",
    ),
    "reads before its wait, after a kernel that triggers before it waits": Case(
        "",
        ((TRIGGER, PUT_X + OTHER), ("MEND", TRIGGER, WAIT, PUT_Z), (GET_X + HERE, WAIT, KEEP)),
        "a b! c!",
    ),
    "reads a neighbour of what the kernel in between writes": Case(
        "",
        (
            (TRIGGER, PUT_X + OTHER),
            ("MEND", TRIGGER, WAIT, "@%p1 " + PUT_X),
            ("@%p1 bra END;", GET_X + HERE, WAIT, KEEP, "END:"),
        ),
        "a b! c!",
        shows=False,
    ),
    "a call's first kernel fills scratch memory that the call before still reads": Case(
        "",
        (("MEND", TRIGGER, PUT_Z + HERE), (WAIT, TRIGGER, GET_Z + OTHER, "mov.u32 %r3, %r4;", KEEP)),
        "a! b! a!",
        shows=False,
    ),
    "memory that the call before returned is used again": Case(
        "", ((WAIT, TRIGGER, "mov.u32 %r2, 3;", PUT_Y + OTHER), ("MEND", TRIGGER, PUT_Y + HERE)), "a! b!"
    ),
    "two queues without an event": Case(
        "", ((PUT_X + OTHER,), (GET_X + HERE, KEEP)), "a1 MEND b2", "queue-race", "1>2"
    ),
    "two queues, and the event recorded too early": Case(
        "", ((), (PUT_X + OTHER,), (GET_X + HERE, KEEP)), "a1 1>2 b1 MEND c2", "queue-race", "1>2"
    ),
}


def text(case: Case, faulty: bool) -> str:
    kernels = []
    for name, lines in zip("abc", case.kernels, strict=False):
        body = "\n".join(lines).replace("MEND", "" if faulty else case.mend)
        kernels.append(
            f".visible .entry {name}(.param .u64 x, .param .u64 y, .param .u64 z)\n{{{BEGIN}{body}\nret;\n}}\n"
        )
    return HEADER + "".join(kernels)


def run(case: Case, faulty: bool, mode: str, seed: int = 1) -> tuple[Sim, bool]:
    """The simulator after the calls, and whether y has the right values."""
    sim = Sim(text(case, faulty), mode, seed)
    buffers = [sim.buffer(np.full(THREADS, OLD, np.uint32)) for _ in range(3)]
    queues = {"": 0} | {number: sim.lib.sim_queue_create(sim.sim, 0) for number in "12"}
    for call in case.calls.replace("MEND", "" if faulty else case.mend).split():
        if ">" in call:
            first, then = call.split(">")
            event = sim.event(queues[first])
            sim.lib.sim_queue_wait(sim.sim, queues[then], event)
            sim.lib.sim_event_free(event)
            continue
        sim.lib.sim_queue_select(sim.sim, queues[call[1:].rstrip("!")])
        sim.launch(call[0], *buffers, block=THREADS, dependent=call.endswith("!"))
    wanted = NEW if any(KEEP in lines or PUT_Y + HERE in lines for lines in case.kernels) else OLD
    return sim, bool((buffers[1] == wanted).all())
