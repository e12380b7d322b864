"""Kernels of many queues use one word: a later kernel is reported if it does not wait for one of them, whichever."""

from __future__ import annotations

import re

import numpy as np
import pytest

from simulator.tests.sim_kit import Sim, body

READ = "ld.param.u64 %rd1, [p]; ld.global.u32 %r1, [%rd1]; st.global.u32 [%rd1+{}], %r1;"
WRITE = "ld.param.u64 %rd1, [p]; mov.u32 %r1, 7; st.global.u32 [%rd1], %r1;"
QUEUES = 6


def kernel(name: str, line: str) -> str:
    """One entry, without the header of the module."""
    return re.sub(r".*?(?=\.visible)", "", body(line), count=1, flags=re.DOTALL).replace(" k(", f" {name}(")


def run(missed: int | None, rounds: int) -> Sim:
    """A kernel reads in each queue, for some rounds; the writer waits for the events of all queues except `missed`."""
    readers = [kernel(f"reader{number}", READ.format(64 + 4 * number)) for number in range(QUEUES)]
    sim = Sim("\n".join([body(""), *readers, kernel("writer", WRITE)]))
    memory = sim.buffer(np.zeros(64, np.uint32))
    queues = [sim.lib.sim_queue_create(sim.sim, 0) for _ in range(QUEUES + 1)]

    def launch(name: str, queue: int) -> None:
        sim.lib.sim_queue_select(sim.sim, queue)
        assert sim.launch(name, memory, block=1) == 0, sim.findings

    for _ in range(rounds):
        for number, queue in enumerate(queues[:-1]):
            launch(f"reader{number}", queue)
    for number, queue in enumerate(queues[:-1]):
        if number != missed:
            event = sim.event(queue)
            assert sim.lib.sim_queue_wait(sim.sim, queues[-1], event) == 0
            sim.lib.sim_event_free(event)
    launch("writer", queues[-1])
    return sim


@pytest.mark.parametrize("rounds", [1, 3])
@pytest.mark.parametrize("missed", [None, *range(QUEUES)])
def test_the_one_reader_that_a_write_does_not_wait_for_is_found(missed: int | None, rounds: int):
    sim = run(missed, rounds)
    assert sim.kinds == (set() if missed is None else {"queue-race"}), sim.findings
    assert {finding["other_kernel"] for finding in sim.findings} == (set() if missed is None else {f"reader{missed}"})
