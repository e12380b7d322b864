"""More flags than a cluster keeps its place in, and one word that many lanes and CTAs add to."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.tests.sim_kit import MODES, Sim, body

WRITERS = 40
BEGIN = (
    "mov.u32 %r1, %tid.x; mov.u32 %r2, %ctaid.x; ld.param.u64 %rd1, [data]; ld.param.u64 %rd2, [flag]; mov.u32 %r9, 1;"
    "mul.wide.u32 %rd3, %r2, 4; add.s64 %rd4, %rd1, %rd3; add.s64 %rd5, %rd2, %rd3; mov.u32 %r4, 0;"
)
SET = "st.release.gpu.global.u32 [%rd5], %r9;"


def run(*lines: str, grid: int, block: int, mode: str = "eager") -> Sim:
    sim = Sim(body(BEGIN, *lines, params=".param .u64 data, .param .u64 flag"), mode, limit=2_000_000)
    words = [sim.buffer(np.zeros(WRITERS + 2, np.uint32)) for _ in range(2)]
    sim.launch("k", *words, grid=grid, block=block)
    return sim


@pytest.mark.parametrize("missed", [None, 0, WRITERS // 2, WRITERS - 1])
@pytest.mark.parametrize("mode", MODES)
def test_a_cta_that_hears_of_all_flags_tells_of_all_writers(mode, missed):
    """One CTA waits for the flag of each writer, some of them twice, and sets another; the last CTA reads."""
    skip = "" if missed is None else f"setp.eq.u32 %p2, %r4, {missed}; @%p2 bra NEXT;"
    sim = run(
        f"setp.ge.u32 %p1, %r2, {WRITERS}; @%p1 bra HEAR; st.global.u32 [%rd4], %r9; {SET}",
        f"bra END; HEAR: setp.gt.u32 %p1, %r2, {WRITERS}; @%p1 bra LAST;",
        f"EACH: mul.wide.u32 %rd6, %r4, 4; add.s64 %rd6, %rd2, %rd6; {skip}",
        "ld.acquire.gpu.global.u32 %r6, [%rd6]; setp.eq.u32 %p3, %r6, 0; @%p3 bra EACH;",
        f"NEXT: add.u32 %r4, %r4, 1; setp.lt.u32 %p4, %r4, {WRITERS}; @%p4 bra EACH; {SET}",
        f"bra END; LAST: ld.acquire.gpu.global.u32 %r6, [%rd2+{4 * WRITERS}]; setp.eq.u32 %p3, %r6, 0; @%p3 bra LAST;",
        *(f"ld.global.u32 %r5, [%rd1+{4 * writer}];" for writer in range(WRITERS)),
        "END:",
        grid=WRITERS + 2,
        block=1,
        mode=mode,
    )
    assert sim.kinds == (set() if missed is None else {"global-race"}), sim.findings
    assert [finding["offset"] for finding in sim.findings] == ([] if missed is None else [4 * missed])


@pytest.mark.parametrize("stored", [False, True])
def test_each_lane_that_adds_to_a_word_is_judged(stored):
    """The first CTA stores to the word without an order; 32 lanes of each of the others add to it."""
    store = "st.global.u32 [%rd1], %r9;" if stored else "red.global.add.u32 [%rd1], 1;"
    sim = run(
        f"setp.eq.u32 %p1, %r2, 0; @%p1 {store} @%p1 bra END; red.global.add.u32 [%rd1], 1; END:", grid=4, block=32
    )
    assert sim.kinds == ({"global-race"} if stored else set()), sim.findings
    assert sum(finding["times"] for finding in sim.findings) == (3 * 32 if stored else 0)


@pytest.mark.parametrize("word", ["rd4", "rd1"])
def test_a_cta_does_not_know_what_the_cta_in_its_place_before_had_heard(word: str):
    """CTA 2 hears of CTA 0's word, CTA 3 of CTA 1's; one worker runs all.  CTA 3 may read CTA 1's word only."""
    text = body(
        "mov.u32 %r2, %ctaid.x; ld.param.u64 %rd1, [data]; and.b32 %r3, %r2, 1; mul.wide.u32 %rd3, %r3, 4;",
        "add.s64 %rd4, %rd1, %rd3; setp.ge.u32 %p1, %r2, 2; @%p1 bra HEAR;",
        "st.global.u32 [%rd4], %r2; st.release.gpu.global.u32 [%rd4+64], 1; bra END;",
        f"HEAR: ld.acquire.gpu.global.u32 %r6, [%rd4+64]; ld.global.u32 %r5, [%{word}]; END:",
        params=".param .u64 data",
    )
    sim = Sim(text, threads=1)
    sim.launch("k", sim.buffer(np.zeros(64, np.uint32)), grid=4, block=1)
    assert sim.kinds == (set() if word == "rd4" else {"global-race"}), sim.findings
