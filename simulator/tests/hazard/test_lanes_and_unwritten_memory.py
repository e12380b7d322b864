"""What the lanes of a warp do to each other through memory, lanes that pass by the instruction at which others
wait for them, and device memory that nobody has written: each fault beside its correct twin, in every mode."""

from __future__ import annotations

import ctypes

import pytest

from simulator.tests.hazard.test_global_races import run
from simulator.tests.sim_kit import MODES, Sim, body

PAIRS = "shr.u32 %r7, %r1, 1; mul.wide.u32 %rd5, %r7, 4; add.s64 %rd5, %rd1, %rd5;"
NEIGHBOUR = "xor.b32 %r7, %r1, 1; mul.wide.u32 %rd5, %r7, 4; add.s64 %rd5, %rd1, %rd5;"
SHARED = "shr.u32 %r7, %r1, 1; mad.lo.u32 %r12, %r7, 4, %r10; shl.b32 %r8, %r1, 8;"
SHIFTED = "add.u32 %r7, %r1, 1; mul.wide.u32 %rd5, %r7, 4; add.s64 %rd5, %rd1, %rd5;"
UPPER = "and.b32 %r7, %r1, 16; setp.ne.u32 %p4, %r7, 0;"  # lanes 16 to 31
KERNELS = {
    "two lanes store different values to a word": ((PAIRS, "st.global.u32 [%rd5], %r1;"), "error", "lane-race"),
    "two lanes store equal values to a word": ((PAIRS, "st.global.u32 [%rd5], %r7;"), "clean", ""),
    "to a word of shared memory": ((SHARED, "st.shared.u32 [%r12], %r1;"), "error", "lane-race"),
    "equal bytes of different registers": ((SHARED, "st.shared.u8 [%r12], %r8;"), "clean", ""),
    "each lane stores to its own word": ((NEIGHBOUR, "st.global.u32 [%rd5], %r1;"), "clean", ""),
    "a lane loads what its neighbour stored": (
        ("st.global.u32 [%rd4], %r1;", SHIFTED, "setp.lt.u32 %p4, %r1, 31; @%p4 ld.global.u32 %r8, [%rd5];"),
        "review",
        "lane-race",
    ),
    "a lane loads it after __syncwarp": (
        (
            "st.global.u32 [%rd4], %r1; bar.warp.sync 0xffffffff;",
            SHIFTED,
            "setp.lt.u32 %p4, %r1, 31; @%p4 ld.global.u32 %r8, [%rd5];",
        ),
        "clean",
        "",
    ),
    "half a warp passes by a shuffle": (
        (
            UPPER,
            "@%p4 bra PAST; shfl.sync.bfly.b32 %r8|%p5, %r1, 1, 31, 0xffffffff;",
            "PAST: st.global.u32 [%rd4], %r1;",
        ),
        "review",
        "member-mask",
    ),
    "half a warp ends before a shuffle": (
        (UPPER, "@%p4 bra END; shfl.sync.bfly.b32 %r8|%p5, %r1, 1, 31, 0xffffffff; st.global.u32 [%rd4], %r1;"),
        "clean",
        "",
    ),
    "half a warp passes by a barrier": (
        (UPPER, "@%p4 bra PAST; bar.sync 0; PAST: st.global.u32 [%rd4], %r1;"),
        "review",
        "divergent-aligned",
    ),
    "half a warp ends before a barrier": ((UPPER, "@%p4 bra END; bar.sync 0;"), "clean", ""),
}


@pytest.mark.parametrize("name", KERNELS)
def test_each_fault_has_its_kind_and_its_twin_is_clean(name):
    lines, verdict, kind = KERNELS[name]
    for mode in MODES:
        assert run(lines, mode, grid=1, block=32) == (verdict, {kind} - {""}), mode


@pytest.mark.parametrize(
    ("first", "second", "verdict"), [("gpu", "gpu", "clean"), ("cta", "gpu", "review"), ("cta", "cta", "error")]
)
def test_atomics_of_two_ctas_need_a_scope_with_both(first, second, verdict):
    atomic = "@{}%p2 red.relaxed.{}.global.add.u32 [%rd1], 1;"
    lines = (atomic.format("", first), atomic.format("!", second))
    for mode in MODES:
        assert run(lines, mode, grid=2)[0] == verdict, mode


@pytest.mark.parametrize(("written", "kinds"), [(128, set()), (64, {"uninitialised-read"})])
def test_device_memory_that_nothing_has_written(written, kinds):
    lines = "mov.u32 %r1, %tid.x; ld.param.u64 %rd1, [p]; mul.wide.u32 %rd2, %r1, 4; add.s64 %rd1, %rd1, %rd2;"
    for mode in MODES:
        sim = Sim(body(lines, "ld.global.u32 %r2, [%rd1];"), mode)
        sim.lib.sim_alloc.restype = ctypes.c_void_p
        memory = ctypes.c_void_p(sim.lib.sim_alloc(sim.sim, ctypes.c_size_t(128), b"room"))
        sim.lib.sim_device_only(sim.sim, memory)
        sim.lib.sim_fill(sim.sim, memory, 0, ctypes.c_size_t(written))
        sim.launch("k", memory.value, block=32)
        assert sim.kinds == kinds, (mode, sim.findings)
