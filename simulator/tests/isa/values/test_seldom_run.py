"""Rare code: fma.oob and st.bulk, instructions that only advise, many immediates, warps whose lanes diverge oddly."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.tests.isa.values.value_table import check
from simulator.tests.sim_kit import MODES, Sim, body

STORE = "ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 8; add.s64 %rd2, %rd1, %rd2;"
ADVICE = (
    "prefetch.global.L2 [%rd1]; prefetchu.L1 [%rd1]; applypriority.global.L2::evict_normal [%rd1], 128;"
    " discard.global.L2 [%rd1+128], 128; pmevent 3; nanosleep.u32 20;"
    " cp.async.bulk.prefetch.L2.global [%rd1], 16;"
)


def test_advice_changes_nothing():
    text = body(STORE, "mov.u64 %rd5, 7;", ADVICE, "st.global.u64 [%rd2], %rd5;")
    sim = Sim(text)
    out = sim.buffer(np.arange(64, dtype=np.uint64))
    assert sim.launch("k", out) == 0 and sim.verdict == "clean", sim.findings
    assert out.tolist() == [7] * 32 + list(range(32, 64))


def test_fences_and_breakpoints_change_no_value():
    fences = "membar.cta; membar.gl; membar.sys; fence.sc.gpu; fence.acq_rel.cta; fence.proxy.async; brkpt;"
    sim = Sim(body(STORE, "mul.lo.u32 %r2, %r1, 3;", fences, "cvt.u64.u32 %rd5, %r2; st.global.u64 [%rd2], %rd5;"))
    out = sim.buffer(np.zeros(32, np.uint64))
    assert sim.launch("k", out) == 0 and sim.verdict == "clean", sim.findings
    assert out.tolist() == [3 * lane for lane in range(32)]


def test_createpolicy_writes_only_the_executing_threads_registers():
    text = body(
        STORE,
        "mov.u64 %rd5, 7; mov.u64 %rd6, 9; setp.lt.u32 %p1, %r1, 5;",
        "@%p1 createpolicy.fractional.L2::evict_last.b64 %rd5, 1.0; st.global.u64 [%rd2], %rd5;",
        "st.global.u64 [%rd2+256], %rd6;",
    )
    sim = Sim(text)
    out = sim.buffer(np.ones(64, np.uint64))
    assert sim.launch("k", out) == 0 and sim.verdict == "clean", sim.findings
    assert out.tolist() == [0] * 5 + [7] * 27 + [9] * 32


def test_many_immediates_of_both_widths_keep_their_values():
    """The parser keeps each immediate once, in a hash table that grows."""
    many = 1800
    values = [(i * 2654435761) % (1 << 32) for i in range(many)]
    wide = [value | (i % 3) << 40 for i, value in enumerate(values)]  # a third equals the narrow number
    lines = [
        f"st.global.u32 [%rd1+{16 * i}], {value}; st.global.u64 [%rd1+{16 * i + 8}], {wide[i]};"
        for i, value in enumerate(values)
    ]
    sim = Sim(body("ld.param.u64 %rd1, [p];", *lines))
    out = sim.buffer(np.zeros((many, 2), np.uint64))
    assert sim.launch("k", out, block=1) == 0 and sim.verdict == "clean", sim.findings
    assert out[:, 0].tolist() == values and out[:, 1].tolist() == wide


def test_smid_and_nsmid_follow_the_clusters_number():
    text = body(
        "ld.param.u64 %rd1, [p]; mov.u32 %r1, %ctaid.x; mul.wide.u32 %rd2, %r1, 8; add.s64 %rd1, %rd1, %rd2;",
        "mov.u32 %r2, %smid; mov.u32 %r3, %nsmid; st.global.v2.u32 [%rd1], {%r2, %r3};",
    )
    for cluster in (0, 2):
        sim = Sim(text, sms=6)
        out = sim.buffer(np.zeros((16, 2), np.uint32))
        assert sim.launch("k", out, grid=16, block=1, cluster=cluster) == 0 and sim.verdict == "clean", sim.findings
        assert out.tolist() == [[i % 6, 6] for i in range(16)]


def run(*lines: str, mode: str = "eager", threads: int = 32, **options) -> tuple[Sim, list[int]]:
    sim = Sim(body("ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; mul.wide.u32 %rd2, %r1, 4;"
                   " add.s64 %rd2, %rd1, %rd2; mov.u32 %r9, 0;", *lines, "st.global.u32 [%rd2], %r9;",
                   **options), mode)  # fmt: skip
    out = sim.buffer(np.zeros(threads, np.uint32))
    sim.launch("k", out, block=threads)
    assert sim.verdict == "clean", (mode, sim.findings)
    return sim, out.tolist()


@pytest.mark.parametrize("mode", MODES)
def test_a_predicated_indexed_branch_leaves_other_lanes(mode):
    _, got = run(
        "T: .branchtargets A, B, C; and.b32 %r2, %r1, 3; setp.lt.u32 %p1, %r2, 3; @%p1 brx.idx %r2, T;",
        "add.u32 %r9, %r9, 1000; bra END; A: add.u32 %r9, %r9, 1; B: add.u32 %r9, %r9, 10;",
        "C: add.u32 %r9, %r9, 100; END:",
        mode=mode,
    )
    assert got == [[111, 110, 100, 1000][i % 4] for i in range(32)]


@pytest.mark.parametrize("mode", MODES)
def test_some_lanes_leave_a_function_before_the_others(mode):
    function = (
        ".func (.param .b32 r) f(.param .b32 a) { .reg .b32 %r<4>; .reg .pred %p<3>; ld.param.b32 %r1, [a];"
        " setp.lt.u32 %p1, %r1, 7; setp.eq.u32 %p2, %r1, 20; st.param.b32 [r], %r1; @%p1 ret;"
        " add.u32 %r1, %r1, 100; st.param.b32 [r], %r1; @%p2 ret; add.u32 %r1, %r1, 1000;"
        " st.param.b32 [r], %r1; ret; }\n"
    )
    call = "{ .param .b32 a; .param .b32 c; st.param.b32 [a], %r1; call.uni (c), f, (a); ld.param.b32 %r9, [c]; }"
    _, got = run(call, "bar.warp.sync -1; add.u32 %r9, %r9, 1;", before=function, mode=mode)
    assert got == [i + 1 + (i >= 7) * (100 + (i != 20) * 1000) for i in range(32)]


@pytest.mark.parametrize("mode", MODES)
def test_parts_of_a_warp_reduce_separately(mode):
    """Three groups of lanes execute one instruction, each with its own mask; some lanes skip it."""
    _, got = run(
        "mov.u32 %r4, 0x000000ff; setp.ge.u32 %p1, %r1, 8; @%p1 mov.u32 %r4, 0x0000ff00;"
        " setp.ge.u32 %p2, %r1, 16; @%p2 mov.u32 %r4, 0x00ff0000; setp.lt.u32 %p3, %r1, 24;",
        "@%p3 redux.sync.add.u32 %r9, %r1, %r4;",
        mode=mode,
    )
    assert got == [sum(range(i // 8 * 8, i // 8 * 8 + 8)) if i < 24 else 0 for i in range(32)]


@pytest.mark.parametrize("kind", ["f16", "bf16"])
def test_fma_oob_gives_zero_for_the_fill_of_tensor_copies(kind):
    """0x7ff7 is what copies fill in (measured on an H200); another NaN stays one, and relu keeps the zero."""
    one, two, fill, nan = 0x3C00 if kind == "f16" else 0x3F80, 0x4000, 0x7FF7, 0x7FFF
    a = np.array([one, fill, two, nan, one], np.uint16)
    b = np.array([two, one, fill, one, two], np.uint16)
    c = np.array([0, two, nan, two, fill], np.uint16)
    want = dict(zip(zip(a.tolist(), b.tolist(), c.tolist(), strict=True), [two, 0, 0, nan, nan], strict=True))
    table = {f"fma.rn.oob{relu}.{kind} {{d}}, {{a}}, {{b}}, {{c}};": (16, lambda x, y, z: want[x, y, z])
             for relu in ("", ".relu")}  # fmt: skip
    check(table, {"a": a, "b": b, "c": c})
    pair = lambda x: x.astype(np.uint32) | np.roll(x, 1).astype(np.uint32) << 16  # noqa: E731
    low_high = lambda x, y, z: want[x & 0xFFFF, y & 0xFFFF, z & 0xFFFF] | want[x >> 16, y >> 16, z >> 16] << 16  # noqa: E731
    text = f"fma.rn.oob.{kind}x2 {{d}}, {{a}}, {{b}}, {{c}};"
    check({text: (32, low_high)}, {"a": pair(a), "b": pair(b), "c": pair(c)})


def test_st_bulk_writes_zeros_into_shared_memory_and_is_checked():
    lines = (
        "ld.param.u64 %rd1, [p]; mov.u32 %r1, %tid.x; shl.b32 %r2, %r1, 3; mov.u32 %r3, room; add.u32 %r4, %r3, %r2;"
        " mov.u64 %rd2, -1; st.shared.u64 [%r4], %rd2; bar.warp.sync -1; cvt.u64.u32 %rd3, %r3;",
        "setp.eq.u32 %p1, %r1, 0;",
        "@%p1 st.bulk.weak.shared::cta [%rd3+16], {size}, 0; {sync} ld.shared.u64 %rd4, [%r4];",
        "cvt.u64.u32 %rd5, %r2; add.s64 %rd5, %rd1, %rd5; st.global.u64 [%rd5], %rd4;",
    )
    for size, sync, kinds in ((24, "bar.warp.sync -1;", set()), (24, "", {"lane-race"}), (12, "", {"copy-size"})):
        text = body(*(line.format(size=size, sync=sync) for line in lines), registers=".shared .b64 room[32];")
        sim = Sim(text.replace("sm_90a", "sm_100a"))
        out = sim.buffer(np.zeros(32, np.uint64))
        sim.launch("k", out)
        assert sim.kinds == kinds
        if not kinds:
            assert out.tolist() == [0 if 2 <= i < 5 else 2**64 - 1 for i in range(32)]
