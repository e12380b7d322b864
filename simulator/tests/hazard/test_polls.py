"""A poll that gives up in the end is no deadlock, however long nothing else runs; an endless one is."""

from __future__ import annotations

import numpy as np
import pytest

from simulator.tests.sim_kit import MODES, Sim, body

BEGIN = "mov.u32 %r1, %ctaid.x; ld.param.u64 %rd1, [data]; ld.param.u64 %rd2, [flag]; mov.u32 %r7, 0; mov.u32 %r9, 1;"
# A poll for a flag that nobody sets, with TIMEOUT, which sets %p4 while it goes on.
POLL = (
    "LOOP: ld.relaxed.gpu.global.u32 %r6, [%rd2]; setp.ne.u32 %p3, %r6, 0; @%p3 bra SEEN; {timeout}"
    "@%p4 bra LOOP; SEEN: mov.u32 %r8, 7; st.global.u32 [%rd1], %r8;"
)
ROUNDS = 23_000
COUNTS = f"add.u32 %r7, %r7, 1; setp.lt.u32 %p4, %r7, {ROUNDS};"
CLOCK = f"mov.u32 %r7, %clock; setp.lt.u32 %p4, %r7, {32 * ROUNDS};"
SLEEPS = f"nanosleep.u32 %r7; add.u32 %r7, %r7, 1; setp.lt.u32 %p4, %r7, {ROUNDS // 2};"
# Its sleeps stop growing, so that it comes back to the same state.
ENDLESS = "nanosleep.u32 %r7; add.u32 %r7, %r7, 20; min.u32 %r7, %r7, 1000; setp.le.u32 %p4, %r7, 1000;"
# The second CTA polls without end for what the first one writes after its own poll has given up.
SECOND = (
    "setp.eq.u32 %p1, %r1, 0; @%p1 bra FIRST; WAIT: ld.acquire.gpu.global.u32 %r5, [%rd2+4]; setp.eq.u32 %p2, %r5, 0;"
    "@%p2 bra WAIT; bra END; FIRST:"
)
TELL = "st.release.gpu.global.u32 [%rd2+4], %r9; END:"


def run(mode: str, *lines: str, grid: int = 1, limit: int = 10_000_000) -> tuple[set[str], int]:
    sim = Sim(body(BEGIN, *lines, params=".param .u64 data, .param .u64 flag"), mode, limit=limit)
    data = sim.buffer(np.zeros(1, np.uint32))
    sim.launch("k", data, sim.buffer(np.zeros(2, np.uint32)), grid=grid, block=1)
    return set(sim.kinds), int(data[0])


@pytest.mark.parametrize("mode", MODES)
def test_only_a_poll_without_another_exit_is_a_deadlock(mode):
    assert run(mode, POLL.format(timeout=COUNTS)) == (set(), 7)
    assert run(mode, POLL.format(timeout=ENDLESS)) == ({"deadlock"}, 0)
    assert run(mode, SECOND, POLL.format(timeout=COUNTS), TELL, grid=2) == (set(), 7)
    assert run(mode, SECOND, POLL.format(timeout=ENDLESS), TELL, grid=2) == ({"deadlock"}, 0)


def test_a_poll_that_reads_a_clock_or_sleeps_longer_each_time_gives_up():
    for timeout in (CLOCK, SLEEPS):
        assert run("random", POLL.format(timeout=timeout)) == (set(), 7), timeout


def test_an_endless_poll_that_counts_its_rounds_ends_as_a_deadlock():
    endless = "add.u32 %r7, %r7, 1; setp.ne.u32 %p4, %r7, 0;"
    for lines, grid in ((POLL,), 1), ((SECOND, POLL, TELL), 2):
        kinds, _ = run("eager", *(line.format(timeout=endless) for line in lines), grid=grid, limit=100_000_000)
        assert kinds == {"deadlock"}
