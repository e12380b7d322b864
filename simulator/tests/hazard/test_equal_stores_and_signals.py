"""Races that hang on values: equal stores, and what a relaxed flag says of loads and stores before it.  The verdict is
the same in every mode."""

from __future__ import annotations

import pytest

from simulator.tests.hazard.test_global_races import FIRST, OTHERS, POLL, run
from simulator.tests.sim_kit import MODES

WARPS = "setp.lt.u32 %p4, %r1, 32; mov.u32 %r7, 0x00050005; and.b32 %r8, %r1, 31;"  # warp 0 has %p4
SINGLE = "@!%p1 bra SEEN; " + POLL.format("", "relaxed", 1) + " SEEN: bar.sync 0;"
ALL_OF_CTA = "mad.lo.u32 %r12, %r1, 4, %r10; st.shared.u32 [%r12], %r5; bar.sync 0; ld.shared.u32 %r6, [%r10+252];"
# Half a line, a fence and a relaxed count by CTA 0; the others wait for the count with no fence after it.
TELL = (
    "setp.lt.u32 %p4, %r1, 16;",
    FIRST,
    "@%p4 st.global.u32 [%rd4], %r1; fence.acq_rel.gpu; bar.sync 0; @%p1 red.relaxed.gpu.global.add.u32 [%rd2], 1;",
    OTHERS,
)
KERNELS = {
    "a fence before a relaxed flag and a barrier after it": (
        (*TELL, SINGLE, "ld.global.u32 %r5, [%rd1];"),
        2,
        "review",
    ),
    "a fence of scope .cta before it": (
        (*(line.replace("rel.gpu", "rel.cta") for line in TELL), SINGLE, "ld.global.u32 %r5, [%rd1];"),
        2,
        "error",
    ),
    "the line was loaded before": (
        (*TELL, "ld.global.u32 %r5, [%rd1+64];", SINGLE, "ld.global.u32 %r5, [%rd1];"),
        2,
        "error",
    ),
    "the line was loaded before, and is now read by a strong load": (
        (*TELL, "ld.global.u32 %r5, [%rd1+64];", SINGLE, "ld.relaxed.gpu.global.u32 %r5, [%rd1];"),
        2,
        "review",
    ),
    "another line was loaded before": (
        (*TELL, "ld.global.u32 %r5, [%rd1+128];", SINGLE, "ld.global.u32 %r5, [%rd1];"),
        2,
        "review",
    ),
    "the count lies in the line itself": (
        [line.replace("[%rd2]", "[%rd1+124]") for line in (*TELL, SINGLE, "ld.global.u32 %r5, [%rd1];")],
        2,
        "review",
    ),
    "a load after the poll, without a barrier": (
        (*TELL, "@!%p1 bra END;", POLL.format("", "relaxed", 1), "ld.global.u32 %r5, [%rd1];"),
        2,
        "error",
    ),
    "a strong load after the poll": (
        (*TELL, "@!%p1 bra END;", POLL.format("", "relaxed", 1), "ld.volatile.global.u32 %r5, [%rd1];"),
        2,
        "review",
    ),
    "nobody looks at the flag's value": (
        (*TELL, "ld.relaxed.gpu.global.u32 %r6, [%rd2]; bar.sync 0;", "ld.global.u32 %r5, [%rd1];"),
        2,
        "error",
    ),
    "equal bytes by stores of different widths": (
        (
            WARPS,
            "@%p4 mov.u64 %rd5, %rd1; @%p4 mul.wide.u32 %rd6, %r8, 16; @%p4 add.s64 %rd5, %rd5, %rd6;",
            "@%p4 st.global.v4.u32 [%rd5], {%r7, %r7, %r7, %r7};",
            "@!%p4 st.global.u32 [%rd4], %r7;",
        ),
        1,
        "review",
    ),
    "a warp stores another value first": (
        (
            WARPS,
            "mul.wide.u32 %rd6, %r8, 4; add.s64 %rd5, %rd1, %rd6; @%p4 st.global.u32 [%rd5], %r8;",
            "bar.warp.sync 0xffffffff; st.global.u32 [%rd5], %r7;",
        ),
        1,
        "error",
    ),
    "the other value comes before a barrier": (
        (
            WARPS,
            "mul.wide.u32 %rd6, %r8, 4; add.s64 %rd5, %rd1, %rd6; @%p4 st.global.u32 [%rd5], %r8;",
            "bar.sync 0; st.global.u32 [%rd5], %r7;",
        ),
        1,
        "review",
    ),
    "a relaxed flag after ordinary stores, read by strong loads": (
        (
            FIRST,
            "st.global.u32 [%rd4], %r1; bar.sync 0; @%p1 st.relaxed.gpu.global.u32 [%rd2], %r9;",
            OTHERS,
            SINGLE,
            "ld.relaxed.gpu.global.u32 %r5, [%rd4];",
        ),
        2,
        "error",
    ),
    "a relaxed flag whose value depends on the loads before it": (
        (
            FIRST,
            "ld.global.u32 %r5, [%rd4]; add.u32 %r5, %r5, 1;",
            ALL_OF_CTA,
            "@%p1 st.relaxed.gpu.global.u32 [%rd2], %r6;",
            OTHERS,
            SINGLE,
            "st.global.u32 [%rd4], %r1;",
        ),
        2,
        "review",
    ),
    "a relaxed flag whose value does not": (
        (
            FIRST,
            "ld.global.u32 %r5, [%rd4]; add.u32 %r5, %r5, 1;",
            ALL_OF_CTA,
            "@%p1 st.relaxed.gpu.global.u32 [%rd2], %r9;",
            OTHERS,
            SINGLE,
            "st.global.u32 [%rd4], %r1;",
        ),
        2,
        "error",
    ),
    "a value that depends on the loads, for which nobody waits": (
        (
            FIRST,
            "ld.global.u32 %r5, [%rd4]; add.u32 %r5, %r5, 1;",
            ALL_OF_CTA,
            "@%p1 st.relaxed.gpu.global.u32 [%rd2], %r6;",
            OTHERS,
            "st.global.u32 [%rd4], %r1;",
        ),
        2,
        "error",
    ),
}


@pytest.mark.parametrize("name", KERNELS)
def test_the_verdict_is_the_same_in_every_mode(name):
    lines, grid, verdict = KERNELS[name]
    for mode in MODES:
        assert run(lines, mode, grid=grid) == (verdict, {"global-race"}), mode
