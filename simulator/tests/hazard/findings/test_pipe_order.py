"""Results of tcgen05 operations in tensor memory: their own columns only, and poison until they are complete."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.tests.sim_kit import HEADER, MODES, Sim

COLUMNS, BYTES = 128, 16384
TENSOR = (
    HEADER.replace("sm_90a", "sm_100a")
    + ".visible .entry k(.param .u64 p)\n{\n.reg .pred %p<8>; .reg .b32 %r<24>; .reg .b64 %rd<9>;\n"
    f".shared .align 1024 .b8 tile[{BYTES}]; .shared .align 8 .b8 bar[8]; .shared .align 4 .b32 slot;\n"
    "mov.u32 %r1, %tid.x; setp.eq.u32 %p1, %r1, 0; setp.ge.u32 %p2, %r1, 32; shr.u32 %r3, %r1, 5; mov.u32 %r4, tile;"
    " mov.u32 %r7, bar; ld.param.u64 %rd1, [p]; mov.u32 %r9, 0; mov.u32 %r10, %r1;\n"
    "Z: shl.b32 %r11, %r10, 2; add.u32 %r11, %r11, %r4; st.shared.u32 [%r11], %r9; add.u32 %r10, %r10, 128;"
    f" setp.lt.u32 %p3, %r10, {BYTES // 4}; @%p3 bra Z;\n"
    "@%p1 mbarrier.init.shared.b64 [%r7], 1; @%p1 fence.mbarrier_init.release.cluster; fence.proxy.async;\n"
    f"@%p2 bra A; tcgen05.alloc.cta_group::1.sync.aligned.shared::cta.b32 [slot], {COLUMNS}; A: bar.sync 0;\n"
    "ld.shared.u32 %r5, [slot]; shl.b32 %r6, %r3, 21; add.u32 %r6, %r6, %r5; mov.u32 %r12, 11; mov.u32 %r13, 0;\n"
    f"S: add.u32 %r14, %r6, %r13; tcgen05.st.sync.aligned.32x32b.x1.b32 [%r14], {{%r12}}; add.u32 %r13, %r13, 1;"
    f" setp.lt.u32 %p3, %r13, {COLUMNS}; @%p3 bra S; tcgen05.wait::st.sync.aligned;\n"
    "tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync; setp.ne.u32 %p6, ACCUMULATE, 0;\n"
    "mov.b64 %rd3, 0x0000400400010000; cvt.u64.u32 %rd4, %r4; shr.u64 %rd4, %rd4, 4; or.b64 %rd3, %rd3, %rd4;\n"
    "@%p1 OPERATION\n"
    "COMMIT\n"
    "mov.u32 %r13, 0; shl.b32 %r15, %r1, 9; cvt.u64.u32 %rd5, %r15; add.u64 %rd5, %rd5, %rd1;\n"
    "L: add.u32 %r14, %r6, %r13; tcgen05.ld.sync.aligned.32x32b.x1.b32 {%r16}, [%r14]; tcgen05.wait::ld.sync.aligned;"
    " st.global.u32 [%rd5], %r16; add.u64 %rd5, %rd5, 4; add.u32 %r13, %r13, 1;"
    f" setp.lt.u32 %p3, %r13, {COLUMNS}; @%p3 bra L;\n"
    "LAST tcgen05.fence::before_thread_sync; bar.sync 0; tcgen05.fence::after_thread_sync;\n"
    f"@%p2 bra E; tcgen05.dealloc.cta_group::1.sync.aligned.b32 %r5, {COLUMNS}; E: ret;\n}}\n"
)
COMMIT = (
    "@%p1 tcgen05.commit.cta_group::1.mbarrier::arrive::one.shared::cluster.b64 [%r7];"
    " T: mbarrier.try_wait.parity.shared.b64 %p4, [%r7], 0; @!%p4 bra T; tcgen05.fence::after_thread_sync;"
)
OLD, POISON = 11, 0xADADADAD
OPERATIONS = {  # the instruction, the columns that it writes, and their value afterwards
    "mma": ("tcgen05.mma.cta_group::1.kind::f16 [%r5+32], %rd3, %rd3, 0x08100010, %p6;", range(32, 96), 0),
    "cp": ("tcgen05.cp.cta_group::1.32x128b.warpx4 [%r5+32], %rd3;", range(32, 36), 0),
    "shift": ("tcgen05.shift.cta_group::1.down [%r5+32];", range(32, 40), OLD),
}


def tensor(operation: str, mode: str, waits: bool) -> tuple[Sim, np.ndarray]:
    text = TENSOR.replace("OPERATION", OPERATIONS[operation][0]).replace("ACCUMULATE", "0")
    text = text.replace("COMMIT", COMMIT if waits else "").replace("LAST", "" if waits else COMMIT)
    sim = Sim(text, mode)
    out = sim.buffer(np.full((128, COLUMNS), 7, np.uint32))
    sim.launch("k", out, block=128)
    return sim, out


@pytest.mark.parametrize("operation", OPERATIONS)
@pytest.mark.parametrize("mode", MODES)
def test_a_complete_operation_has_written_its_columns_only(operation, mode):
    _, columns, want = OPERATIONS[operation]
    sim, out = tensor(operation, mode, True)
    assert sim.kinds == ({"unverified-instruction"} if operation == "shift" else set()), sim.findings
    assert (out[:, columns] == want).all() and (np.delete(out, columns, 1) == OLD).all()


@pytest.mark.parametrize("operation", OPERATIONS)
def test_reading_before_completion_is_reported(operation):
    for mode in MODES:
        sim, out = tensor(operation, mode, False)
        assert sim.kinds & {"tensor-memory-race", "accumulator-early"}, (mode, sim.findings)
        assert (np.delete(out, OPERATIONS[operation][1], 1) == OLD).all()


@pytest.mark.parametrize(("operation", "accumulate", "left"), [("mma", 0, POISON), ("mma", 1, OLD), ("cp", 0, POISON)])
def test_mode_poison_fills_columns_that_are_overwritten(operation, accumulate, left):
    """Columns that are accumulated into keep their value until the sum is written."""
    what, columns, _ = OPERATIONS[operation]
    between = f"setp.eq.and.u32 %p5, %r13, {columns[2]}, %p1; @%p5 {what} tcgen05.wait::ld"
    text = TENSOR.replace("@%p1 OPERATION", "").replace("tcgen05.wait::ld", between).replace("COMMIT", "")
    sim = Sim(text.replace("ACCUMULATE", str(accumulate)).replace("LAST", COMMIT), "poison")
    out = sim.buffer(np.full((128, COLUMNS), 7, np.uint32))
    sim.launch("k", out, block=128)
    assert "tensor-memory-race" in sim.kinds, sim.findings
    assert (out[:32, : columns[2]] == OLD).all() and (out[:32, columns[2]] == left).all(), out[:32, columns]
    assert (np.delete(out, columns, 1) == OLD).all()


ANOTHER = "tcgen05.mma.cta_group::1.kind::f16 [%r5+32], %rd3, %rd3, 0x08080010, %p6;"  # writes half the columns
PAIRS = {  # PTX ISA, Pipelined tcgen05 Instructions: pairs of operations of one thread, and the verdict on them
    ("mma", "mma"): "clean",
    ("mma", "another"): "error",
    ("mma", "cp"): "error",
    ("mma", "shift"): "review",
    ("cp", "mma"): "clean",
    ("cp", "cp"): "review",
    ("cp", "shift"): "error",
    ("shift", "mma"): "review",
    ("shift", "cp"): "review",
    ("shift", "shift"): "error",
}


@pytest.mark.parametrize("pair", PAIRS)
def test_two_operations_of_a_thread_on_the_same_columns(pair):
    """A shift is always reported as unverified, too."""
    first, second = (ANOTHER if name == "another" else OPERATIONS[name][0] for name in pair)
    text = TENSOR.replace("OPERATION", f"{first}\n@%p1 {second}").replace("COMMIT", COMMIT).replace("LAST", "")
    sim = Sim(text.replace("ACCUMULATE", "1"))
    sim.launch("k", sim.buffer(np.zeros((128, COLUMNS), np.uint32)), block=128)
    assert sim.verdict == PAIRS[pair], sim.findings
    others = [f for f in sim.findings if f["kind"] != "unverified-instruction"]
    assert len(others) == (PAIRS[pair] != "clean" and (PAIRS[pair] == "error" or "shift" not in pair)), others
    for finding in others:
        assert finding["ptx_line"] == finding["other_ptx_line"] + 1
        assert finding["kind"] == ("unpipelined-copy" if pair == ("cp", "cp") else "unpipelined-pair")


@pytest.mark.parametrize(
    ("operation", "accumulate", "reads"), [("mma", 0, False), ("mma", 1, True), ("cp", 0, False), ("shift", 0, True)]
)
def test_an_operation_must_not_read_unwritten_columns(operation, accumulate, reads):
    what, columns, _ = OPERATIONS[operation]
    text = TENSOR.replace("mov.u32 %r13, 0;\nS:", f"mov.u32 %r13, {columns[-1] + 1};\nS:")
    text = text.replace("OPERATION", what).replace("ACCUMULATE", str(accumulate))
    sim = Sim(text.replace("COMMIT", COMMIT).replace("LAST", ""))
    sim.launch("k", sim.buffer(np.zeros((128, COLUMNS), np.uint32)), block=128)
    line = next(i for i, line in enumerate(text.splitlines(), 1) if what in line)
    found = {f["kind"] for f in sim.findings if f["ptx_line"] == line} - {"unverified-instruction"}
    assert found == ({"tensor-memory-uninitialised"} if reads else set()), sim.findings


@pytest.mark.parametrize(("stored", "verdict"), [("%r17", "review"), ("%r12", "error")])
def test_a_store_over_columns_that_the_warp_still_loads(stored, verdict):
    """A review where the stored value depends on the load, since a use of the register waits for it."""
    both = (
        f"add.u32 %r17, %r16, 1; tcgen05.st.sync.aligned.32x32b.x1.b32 [%r14], {{{stored}}};"
        " tcgen05.wait::ld.sync.aligned; tcgen05.wait::st.sync.aligned; st.global"
    )
    text = TENSOR.replace("tcgen05.wait::ld.sync.aligned; st.global", both).replace("@%p1 OPERATION", "")
    sim = Sim(text.replace("ACCUMULATE", "0").replace("COMMIT", "").replace("LAST", ""))
    sim.launch("k", sim.buffer(np.zeros((128, COLUMNS), np.uint32)), block=128)
    assert {f["verdict"] for f in sim.findings if f["kind"] == "tensor-memory-race"} == {verdict}
