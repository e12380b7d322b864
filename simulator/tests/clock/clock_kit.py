"""PTX kernels whose simulated time follows from a chip's parameters, and the pieces that the clock's tests build them
from."""

from __future__ import annotations

import json
from pathlib import Path

import numpy as np

from simulator.python.machine_code.ptx import marked
from simulator.tests.sim_kit import ROOT, Sim, body

H200 = ROOT / "simulator" / "clock" / "chips" / "h200.json"
CHIP = {name: entry["value"] for name, entry in json.loads(H200.read_text())["parameters"].items()}
START = "ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mov.u64 %rd2, %clock64;"
# One thread leaves the cycles since START behind.
END = (
    "mov.u64 %rd3, %clock64; sub.u64 %rd4, %rd3, %rd2; { .reg .b32 %t, %c; .reg .pred %e; mov.u32 %t, %tid.x;"
    "mov.u32 %c, %ctaid.x; or.b32 %t, %t, %c; setp.eq.u32 %e, %t, 0; @%e st.global.u64 [%rd1], %rd4; }"
)
SMALL = {"sms": 4, "l2_load_rate": 4 * 35, "processing_cluster_sms": 4}
SHARED = ".shared .align 1024 .b8 tile[32768];"
OPERANDS = (
    "mov.u32 %r2, tile; fence.proxy.async; bar.sync 0; shr.u32 %r5, %r2, 4; cvt.u64.u32 %rd5, %r5;"
    "or.b64 %rd5, %rd5, 0x0000000800080000; mov.b64 %rd6, %rd5; setp.ne.u32 %p1, 0, 0;"
    "@%p1 st.global.u64 [%rd1+64], %rd6; bar.sync 0; mov.u64 %rd2, %clock64;"  # when all four warps have it
)
MMA = "wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %rd5, %rd6, %p1, 1, 1, 0, 0;"
FOUR = "{%f1, %f2, %f3, %f4}"
PRODUCT = f"mma.sync.aligned.m16n8k16.row.col.f32.f16.f16.f32 {FOUR}, {{%r6, %r7, %r8, %r9}}, {{%r6, %r7}}, {FOUR};"
BARRIER = SHARED + " .shared .align 8 .b64 full;"
INIT = "mov.u32 %r2, tile; mov.u32 %r3, full; mbarrier.init.shared.b64 [%r3], 1; fence.mbarrier_init.release.cluster;"
SPIN = (
    "mov.u64 %rd5, %clock64; {L: mov.u64 %rd6, %clock64; sub.u64 %rd6, %rd6, %rd5;"
    "setp.lt.u64 %p1, %rd6, 20000; @%p1 bra L;}"
)
STAMP = "ld.param.u64 %rd1, [p]; mov.u64 %rd2, %clock64; st.global.u64 [%rd1], %rd2;"
DONE = "mov.u64 %rd3, %clock64; st.global.u64 [%rd1+8], %rd3;"


def span(*lines: str, before: str = "", registers: str = "", chip: str = "h200", **launch) -> int:
    """Cycles that a kernel's thread counts from START to END, with `lines` in between."""
    sim = Sim(body(before, START, *lines, END, registers=registers), chip=chip)
    out = sim.buffer(np.zeros(1 << 14, np.uint64))
    assert sim.launch("k", out, **launch) == 0, sim.findings
    assert sim.verdict == "clean", sim.findings
    return int(out[0])


def more(one: str, counts: tuple[int, int], **options) -> float:
    """Cycles that one more `one` adds."""
    few, many = (span(one * count, **options) for count in counts)
    return (many - few) / (counts[1] - counts[0])


def copy(offset: int, size: int, parity: int, number: int) -> str:
    return (
        f"mbarrier.arrive.expect_tx.shared.b64 _, [%r3], {size};"
        f"cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2], [%rd5+{offset}], {size}, [%r3];"
        f"{{W{number}: mbarrier.try_wait.parity.shared.b64 %p2, [%r3], {parity}; @!%p2 bra W{number};}}"
    )


def copies(sizes: list[int], at: list[int]) -> int:
    """Cycles of a number of copies, each waited for before the next."""
    text = body(
        "ld.param.u64 %rd5, [q];", INIT, START,
        *(copy(offset, size, i % 2, i) for i, (size, offset) in enumerate(zip(sizes, at, strict=True))), END,
        registers=BARRIER, params=".param .u64 p, .param .u64 q",
    )  # fmt: skip
    sim = Sim(text, chip="h200")
    out = sim.buffer(np.zeros(4, np.uint64))
    assert sim.launch("k", out, sim.buffer(np.zeros(1 << 20, np.uint8)), block=1) == 0, sim.findings
    assert sim.verdict == "clean"
    return int(out[0])


COLUMNS = ("slots", "before", "after", "alu", "fma", "half", "imad", "imad_wide", "special")
HUNDRED = 100
ANSWERS = ("special_register_latency", "uniform_special_register_latency", "constant_latency")
NO_ANSWER = (999,) * len(ANSWERS)


def record(
    line: int, nth: int, order: int, opens: int = -1, waits: int = 0, asked=NO_ANSWER, parameters: int = 0, **charges
) -> str:
    """A line of a machine-code file, with charges in instructions and cycles."""
    numbers = " ".join(str(round(charges.get(name, 0) * HUNDRED)) for name in COLUMNS)
    return f"{line} {nth} {order} {numbers} {opens} {waits} {' '.join(map(str, asked))} {parameters}"


def machine_run(text: str, folder: Path, say, registers: int = 32, chip: str = "h200", **launch) -> np.ndarray:
    """Runs a kernel with the machine-code records that `say` returns for each statement (None: no record)."""
    module = marked(text)
    said = [say(i, statement) for i, statement in enumerate(module.statements)]
    lines = ["machine-code 4", f"function k {registers}", *filter(None, said)]
    launch = {"block": 32} | launch
    sim = Sim(text, chip=chip, machine_code=str(folder))
    out = sim.buffer(np.zeros(64, np.uint64))
    assert sim.launch("k", out, **launch) == 0, sim.findings
    (left,) = folder.glob("*.ptx")
    assert left.read_text() == text
    left.with_suffix(".machine").write_text("\n".join(lines) + "\n")
    sim = Sim(text, chip=chip, machine_code=str(folder))
    out = sim.buffer(np.zeros(64, np.uint64))
    assert sim.launch("k", out, **launch) == 0, sim.findings
    return out
