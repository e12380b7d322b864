"""Counters of kernels whose counts are worked out by hand."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.tests.sim_kit import PTX, Counters, Sim, body

CLASSES = [
    "integer",
    "float",
    "convert",
    "move",
    "global memory",
    "shared memory",
    "other memory",
    "atomic",
    "warp",
    "control",
    "barrier",
    "mbarrier",
    "async copy",
    "tensor",
    "fence",
]


def counted(*lines: str, block: int = 32, registers: str = "", before: str = "", **launch) -> Counters:
    sim = Sim(body(*lines, registers=registers, before=before))
    room = sim.buffer(np.zeros(1 << 14, np.uint32))
    assert sim.launch("k", room, block=block, **launch) == 0, sim.findings
    return sim.counters


# Code for the byte offset of a lane (lane in %r1, offset to %r2), element type, elements, and sectors of 32 bytes.
NEIGHBOURS = "mul.lo.u32 %r2, %r1, {};"
GLOBAL = {
    "neighbouring words": (NEIGHBOURS.format(4), "u32", 1, 4),
    "neighbouring bytes": (NEIGHBOURS.format(1), "u8", 1, 1),
    "neighbouring halves": (NEIGHBOURS.format(2), "u16", 1, 2),
    "neighbouring doubles": (NEIGHBOURS.format(8), "u64", 1, 8),
    "neighbouring vectors": (NEIGHBOURS.format(16), "u32", 4, 16),
    "neighbouring sectors": (NEIGHBOURS.format(32), "u64", 4, 32),
    "one address": ("mov.u32 %r2, 64;", "u32", 1, 1),
    "every other word": (NEIGHBOURS.format(8), "u32", 1, 8),
    "a sector each": (NEIGHBOURS.format(32), "u32", 1, 32),
    "a line each": (NEIGHBOURS.format(128), "u32", 1, 32),
    "words shifted by half a sector": ("mad.lo.u32 %r2, %r1, 4, 16;", "u32", 1, 5),
    "words from the last to the first": ("sub.u32 %r2, 31, %r1; mul.lo.u32 %r2, %r2, 4;", "u32", 1, 4),
    "two places in turn": ("and.b32 %r2, %r1, 1; mul.lo.u32 %r2, %r2, 512;", "u32", 1, 32),
}


@pytest.mark.parametrize("name", GLOBAL)
@pytest.mark.parametrize("lanes", [32, 8])
def test_sectors_of_global_memory(name, lanes):
    offset, kind, elements, sectors = GLOBAL[name]
    if lanes == 8:  # the first eight lanes alone: a quarter, rounded up to whole sectors
        sectors = {4: 1, 1: 1, 2: 1, 8: 2, 16: 4, 32: 8, 5: 2}[sectors]
    register = "%rd" if kind == "u64" else "%rs" if kind in ("u8", "u16") else "%r"
    values = ", ".join(f"{register}{10 + i}" for i in range(elements))
    values = f"{{{values}}}" if elements > 1 else values
    vector = f".v{elements}" if elements > 1 else ""
    place = f"mov.u32 %r1, %tid.x; {offset} cvt.u64.u32 %rd2, %r2; ld.param.u64 %rd1, [p]; add.u64 %rd1, %rd1, %rd2;"
    zero = "".join(
        f"mov.b{(register[2:] and {'d': 64, 's': 16}[register[2]]) or 32} {register}{10 + i}, 0;"
        for i in range(elements)
    )
    place += zero + f"setp.lt.u32 %p1, %r1, {lanes};"
    bytes_moved = lanes * elements * int(kind[1:]) // 8
    load = counted(place, f"@%p1 ld.global{vector}.{kind} {values}, [%rd1];")
    assert (load.global_load_sectors, load.global_load_bytes) == (sectors, bytes_moved)
    assert (load.global_store_sectors, load.global_store_bytes) == (0, 0)
    store = counted(place, f"@%p1 st.global{vector}.{kind} [%rd1], {values};")
    assert (store.global_store_sectors, store.global_store_bytes) == (sectors, bytes_moved)
    assert (store.global_load_sectors, store.global_load_bytes) == (0, 0)


# Code for the byte offset, elements of 32 bits (0: a byte), active lanes, wavefronts, and wavefronts without conflicts.
SHARED = {
    "a row of words": (NEIGHBOURS.format(4), 1, 32, 1, 1),
    "one word": ("mov.u32 %r2, 8;", 1, 32, 1, 1),
    "bytes of a row": (NEIGHBOURS.format(1), 0, 32, 1, 1),
    "every other word": (NEIGHBOURS.format(8), 1, 32, 2, 1),
    "every fourth word": (NEIGHBOURS.format(16), 1, 32, 4, 1),
    "one bank": (NEIGHBOURS.format(128), 1, 32, 32, 1),
    "padded rows": (NEIGHBOURS.format(132), 1, 32, 1, 1),
    "swapped neighbours": ("xor.b32 %r2, %r1, 1; mul.lo.u32 %r2, %r2, 4;", 1, 32, 1, 1),
    "one bank of eight lanes": (NEIGHBOURS.format(128), 1, 8, 8, 1),
    "a row of pairs": (NEIGHBOURS.format(8), 2, 32, 2, 2),
    "pairs with a gap": (NEIGHBOURS.format(16), 2, 32, 4, 2),
    "pairs of the lower half warp": (NEIGHBOURS.format(8), 2, 16, 1, 1),
    "pairs in one bank": (NEIGHBOURS.format(128), 2, 32, 32, 2),
    "a row of quads": (NEIGHBOURS.format(16), 4, 32, 4, 4),
    "quads with a gap": (NEIGHBOURS.format(32), 4, 32, 8, 4),
    "one quad": ("mov.u32 %r2, 16;", 4, 32, 4, 4),
    "quads of a quarter warp": (NEIGHBOURS.format(16), 4, 8, 1, 1),
    "quads in the same banks": (NEIGHBOURS.format(128), 4, 32, 32, 4),
}


@pytest.mark.parametrize("name", SHARED)
def test_wavefronts_and_bank_conflicts_of_shared_memory(name):
    offset, elements, lanes, wavefronts, ideal = SHARED[name]
    kind = "u32" if elements else "u8"
    vector = f".v{elements}" if elements > 1 else ""
    register = "%r" if elements else "%rs"
    values = ", ".join(f"{register}{10 + i}" for i in range(max(elements, 1)))
    values = f"{{{values}}}" if elements > 1 else values
    place = f"mov.u32 %r1, %tid.x; {offset} mov.u32 %r3, tile; add.u32 %r2, %r2, %r3; setp.lt.u32 %p1, %r1, {lanes};"
    zero = "".join(f"mov.b{32 if elements else 16} {register}{10 + i}, 0;" for i in range(max(elements, 1)))
    size = lanes * max(4 * elements, 1)
    tile = ".shared .align 128 .b8 tile[8192];"
    store = counted(place, zero, f"@%p1 st.shared{vector}.{kind} [%r2], {values};", registers=tile)
    assert (store.shared_wavefronts, store.shared_ideal_wavefronts) == (wavefronts, ideal)
    assert (store.shared_store_bytes, store.shared_load_bytes) == (size, 0)
    load = counted(place, f"@%p1 ld.shared{vector}.{kind} {values}, [%r2];", registers=tile)
    assert (load.shared_wavefronts, load.shared_ideal_wavefronts) == (wavefronts, ideal)
    assert (load.shared_load_bytes, load.shared_store_bytes) == (size, 0)


def test_generic_accesses_count_for_the_memory_that_they_reach():
    place = "mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; cvt.u64.u32 %rd2, %r2;"
    shared = counted(
        place,
        "mov.u64 %rd1, tile; cvta.shared.u64 %rd1, %rd1; add.u64 %rd1, %rd1, %rd2; st.u32 [%rd1], %r1;",
        registers=".shared .align 128 .b8 tile[128];",
    )
    assert (shared.shared_wavefronts, shared.shared_store_bytes, shared.global_store_bytes) == (1, 128, 0)
    other = counted(place, "ld.param.u64 %rd1, [p]; add.u64 %rd1, %rd1, %rd2; st.u32 [%rd1], %r1;")
    assert (other.shared_wavefronts, other.global_store_sectors, other.global_store_bytes) == (0, 4, 128)


def test_ldmatrix_counts_its_rows():
    tile = ".shared .align 128 .b8 tile[4096];"
    rows = "mov.u32 %r1, %tid.x; mov.u32 %r3, tile; mul.lo.u32 %r2, %r1, {}; add.u32 %r2, %r2, %r3;"
    four = "ldmatrix.sync.aligned.m8n8.x4.shared.b16 {%r10, %r11, %r12, %r13}, [%r2];"
    packed, spread = (counted(rows.format(pitch), four, registers=tile) for pitch in (16, 128))
    assert (packed.shared_wavefronts, packed.shared_ideal_wavefronts, packed.shared_load_bytes) == (4, 4, 512)
    assert (spread.shared_wavefronts, spread.shared_ideal_wavefronts) == (32, 4)


# Instructions by class, among them mnemonics that could be mistaken for another class.
CLASSIFIED = {
    "integer": "add.u32 %r2, %r1, 1; setp.eq.u32 %p2, %r1, 1;"
    " lop3.b32 %r2, %r1, %r1, %r1, 3; mad.lo.u32 %r2, %r1, %r1, 1;",
    "float": "add.f32 %f2, %f1, %f1; setp.eq.f32 %p2, %f1, %f1; neg.f32 %f2, %f1; min.f32 %f2, %f1, %f1;"
    " fma.rn.f32 %f2, %f1, %f1, %f1; add.rn.f16x2 %r2, %r1, %r1; ex2.approx.f32 %f2, %f1; abs.f64 %fd2, %fd1;",
    "convert": "cvt.u64.u32 %rd2, %r1; cvt.rn.f32.u32 %f2, %r1;",
    "move": "mov.u32 %r2, 5; selp.u32 %r2, 1, 2, %p1; cvta.to.global.u64 %rd2, %rd1;",
    "global memory": "ld.global.u32 %r2, [%rd1]; st.global.u32 [%rd1], %r2; ld.u32 %r2, [%rd1];",
    "shared memory": "st.shared.u32 [%r8], %r1; ld.shared.u32 %r2, [%r8];",
    "other memory": "ld.param.u64 %rd2, [p]; st.local.u32 [depot], %r1;",
    "atomic": "atom.global.add.u32 %r2, [%rd1], 1; red.global.add.u32 [%rd1], 1;",
    "warp": "shfl.sync.idx.b32 %r2, %r1, 0, 31, -1; vote.sync.any.pred %p2, %p1, -1; activemask.b32 %r2;",
    "control": "bra NEXT; NEXT: nanosleep.u32 1;",
    "barrier": "bar.sync 0; bar.warp.sync -1;",
    "mbarrier": "@%p3 mbarrier.init.shared.b64 [%r9], 1; @%p3 mbarrier.inval.shared.b64 [%r9];",
    "async copy": "cp.async.ca.shared.global [%r8], [%rd1], 4; cp.async.wait_all;",
    "tensor": "mma.sync.aligned.m16n8k8.row.col.f32.f16.f16.f32 {%f1, %f2, %f3, %f4}, {%r1, %r1}, {%r1},"
    " {%f1, %f2, %f3, %f4};",
    "fence": "membar.cta; fence.proxy.async;",
}
SET_UP = (
    "mov.u32 %r1, %tid.x; mov.u32 %r8, tile; mov.u32 %r9, bar; ld.param.u64 %rd1, [p]; setp.eq.u32 %p1, %r1, 0;"
    "setp.eq.u32 %p3, %r1, 0; mov.f32 %f1, 0f00000000; mov.f64 %fd1, 0d0000000000000000; shl.b32 %r3, %r1, 2;"
    "add.u32 %r8, %r8, %r3;"
)
ROOM = ".shared .align 128 .b8 tile[128]; .shared .align 8 .b8 bar[8]; .local .align 8 .b8 depot[8];"


@pytest.mark.parametrize("name", CLASSIFIED)
def test_classes_of_instructions(name):
    empty = counted(SET_UP, registers=ROOM)
    more = counted(SET_UP, CLASSIFIED[name], registers=ROOM)
    count = CLASSIFIED[name].count(";")
    grown = {
        CLASSES[i]: more.by_class[i] - empty.by_class[i] for i in range(16) if more.by_class[i] != empty.by_class[i]
    }
    assert grown == {name: count}
    assert more.instructions - empty.instructions == count
    assert more.instructions == sum(more.by_class)


def test_instructions_by_warp_and_of_guarded_ones():
    text = (
        "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32; @%p1 add.u32 %r2, %r1, 1; @%p1 add.u32 %r2, %r1, 2;",
        "setp.eq.u32 %p2, %r1, 40; @%p2 add.u32 %r2, %r1, 3;",
    )
    counters = counted(*text, block=96)
    assert [sum(counters.by_warp[i]) for i in range(4)] == [3 + 2 + 1, 3 + 1 + 1, 3 + 1, 0]
    assert counters.by_warp[0][CLASSES.index("integer")] == 4
    assert counters.by_warp[1][CLASSES.index("move")] == 1
    assert counters.instructions == 15


def test_each_side_of_a_branch_counts_once():
    counters = counted(
        "mov.u32 %r1, %tid.x; and.b32 %r2, %r1, 1; setp.eq.u32 %p1, %r2, 0;"
        " @%p1 bra EVEN; add.u32 %r3, %r1, 1; bra END;",
        "EVEN: add.u32 %r3, %r1, 2; END: mov.u32 %r4, 1;",
    )
    assert counters.by_class[CLASSES.index("integer")] == 4
    assert counters.by_class[CLASSES.index("move")] == 2  # reconverged


@pytest.mark.parametrize("first", ["callee", "kernel"])
def test_lanes_reconverge_after_a_call(first):
    """The code after a call is executed once for the warp, whether the function is before or after the kernel."""
    function = ".func touch() { .reg .b32 %r<2>; mov.u32 %r1, 1; ret; }\n"
    kernel = body(
        "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 8; @%p1 call touch, ();",
        "add.u32 %r2, %r1, 1; add.u32 %r2, %r2, 1; add.u32 %r2, %r2, 1;",
        before=function if first == "callee" else ".func touch();\n",
    )
    sim = Sim(kernel + (function if first == "kernel" else ""))
    assert sim.launch("k", 0) == 0, sim.findings
    assert sim.counters.by_class[CLASSES.index("integer")] == 4


def test_launches_and_ctas():
    sim = Sim(body("mov.u32 %r1, 1;"), threads=2)
    for grid in ((2, 3, 1), (4, 1, 1)):
        assert sim.launch("k", 0, grid=grid, block=64) == 0
    assert (sim.counters.launches, sim.counters.ctas) == (2, 10)
    assert sim.counters.instructions == 10 * 2 * 2
    assert sim.counters.seconds > 0
    assert sim.launch("k", 0, grid=4, cluster=2) == 0
    assert (sim.counters.launches, sim.counters.ctas) == (3, 14)


def test_waits_at_barriers():
    waits = lambda *lines, **launch: (  # noqa: E731
        (c := counted(*lines, registers=".shared .align 8 .b8 bar[8];", **launch)).barrier_waits,
        c.barrier_waits_blocked,
    )
    assert waits("bar.sync 0; bar.sync 0;", block=96) == (6, 4)  # the last to arrive does not wait
    assert waits(
        "mov.u32 %r1, %tid.x; setp.lt.u32 %p1, %r1, 32; @%p1 bar.arrive 1, 64; @!%p1 bar.sync 1, 64;", block=64
    ) == (1, 0)
    assert waits("barrier.cluster.arrive.aligned; barrier.cluster.wait.aligned;", grid=2, cluster=2) == (2, 1)
    phase = "mov.u32 %r2, bar; mbarrier.init.shared.b64 [%r2], 1; mbarrier.arrive.shared.b64 _, [%r2];"
    test = "mbarrier.test_wait.parity.shared.b64 %p1, [%r2], {};"
    assert waits(phase + test.format(0), block=1) == (1, 0)
    assert waits(phase + test.format(0) + test.format(0) + test.format(1), block=1) == (3, 1)


def test_bulk_copies():
    set_up = (
        "mov.u32 %r2, tile; mov.u32 %r3, bar; ld.param.u64 %rd1, [p]; mbarrier.init.shared.b64 [%r3], 1;"
        "fence.mbarrier_init.release.cluster; mbarrier.arrive.expect_tx.shared.b64 _, [%r3], 192;"
    )
    load = "cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%r2+{0}], [%rd1], {1}, [%r3];"
    wait = "TRY: mbarrier.try_wait.parity.shared.b64 %p1, [%r3], 0; @!%p1 bra TRY;"
    store = "cp.async.bulk.global.shared::cta.bulk_group [%rd1+512], [%r2], 48; cp.async.bulk.commit_group;"
    end = "cp.async.bulk.wait_group 0;"
    registers = ".shared .align 128 .b8 tile[256]; .shared .align 8 .b8 bar[8];"
    c = counted(set_up, load.format(0, 128), load.format(128, 64), wait, store, end, block=1, registers=registers)
    assert (c.tma_load_bytes, c.tma_store_bytes, c.async_operations) == (192, 48, 3)


def test_the_lanes_of_a_cp_async_are_one_operation():
    c = counted(
        "mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 2; mov.u32 %r3, tile; add.u32 %r3, %r3, %r2; ld.param.u64 %rd1, [p];",
        "cp.async.ca.shared.global [%r3], [%rd1], 4; cp.async.wait_all;",
        registers=".shared .align 128 .b8 tile[128];",
    )
    assert c.async_operations == 1


def test_mma_sync():
    form = "mma.sync.aligned.{}.row.col.f32.f16.f16.f32 {{%f1, %f2, %f3, %f4}}, {{{}}}, {{{}}}, {{%f1, %f2, %f3, %f4}};"
    small = form.format("m16n8k8", "%r1, %r1", "%r1")
    large = form.format("m16n8k16", "%r1, %r1, %r1, %r1", "%r1, %r1")
    c = counted("mov.u32 %r1, 0; mov.f32 %f1, 0f00000000;", small, large, large)
    assert (c.tensor_instructions, c.tensor_macs) == (3, 16 * 8 * (8 + 16 + 16))


@pytest.mark.parametrize(("shape", "kind", "registers", "macs", "cycles"), [
    ("m64n8k16", "f32.f16.f16", 4, 64 * 8 * 16, 4),
    ("m64n32k16", "f32.f16.f16", 16, 64 * 32 * 16, 16),
    ("m64n32k32", "f32.e4m3.e4m3", 16, 64 * 32 * 32, 16),
])  # fmt: skip
def test_wgmma(shape, kind, registers, macs, cycles):
    """An instruction of four warps counts once; M = 64, 32 bytes of K take N / 2 cycles."""
    d = ", ".join(f"%f{i}" for i in range(registers))
    transposed = ", 0, 0" if "f16" in kind else ""
    c = counted(
        "mov.u32 %r1, %tid.x; mov.u32 %r2, tile; shl.b32 %r3, %r1, 4; add.u32 %r3, %r3, %r2; mov.u32 %r4, 0;",
        "st.shared.v4.u32 [%r3], {%r4, %r4, %r4, %r4}; fence.proxy.async; bar.sync 0; shr.u32 %r5, %r2, 4;",
        "cvt.u64.u32 %rd5, %r5; or.b64 %rd5, %rd5, 0x0000000800080000; setp.ne.u32 %p1, %r4, 0;",
        "wgmma.fence.sync.aligned;",
        f"wgmma.mma_async.sync.aligned.{shape}.{kind} {{{d}}}, %rd5, %rd5, %p1, 1, 1{transposed};" * 2,
        "wgmma.commit_group.sync.aligned; wgmma.wait_group.sync.aligned 0;",
        registers=".shared .align 128 .b8 tile[4096];",
        block=128,
    )
    assert (c.tensor_instructions, c.tensor_macs, c.tensor_cycles) == (2, 2 * macs, 2 * cycles)


def test_a_pipeline_of_bulk_copies():
    sim = Sim((PTX / "pipeline.ptx").read_text())
    values = sim.buffer(np.arange(5 * 128, dtype=np.uint32))
    assert sim.launch("pipeline", values, sim.buffer(values), 5, block=64) == 0
    c = sim.counters
    assert (c.tma_load_bytes, c.tma_store_bytes, c.async_operations) == (5 * 512, 5 * 512, 10)
    assert (c.shared_load_bytes, c.shared_store_bytes, c.shared_wavefronts) == (5 * 512, 5 * 512, 5 * 8)
