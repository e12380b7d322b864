"""Copies and fills by the host, in queues next to kernels: which ones have to be ordered, and by what."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from simulator.tests.hazard.test_many_queues import kernel
from simulator.tests.sim_kit import Sim, aligned, body

WRITE = "ld.param.u64 %rd1, [p]; mov.u32 %r1, 7; st.global.u32 [%rd1], %r1;"
READ = "ld.param.u64 %rd1, [p]; ld.global.u32 %r1, [%rd1]; st.global.u32 [%rd1+64], %r1;"
BYTES = 256


class Queues:
    """Two queues, and memory of the device and of the host."""

    def __init__(self, blocking: int = 0, **options) -> None:
        self.sim = Sim("\n".join([body(""), kernel("writer", WRITE), kernel("reader", READ)]), **options)
        self.lib = self.sim.lib
        self.memory = self.sim.buffer(np.arange(64, dtype=np.uint32))
        self.other = self.sim.buffer(np.zeros(64, np.uint32))
        self.host = aligned(64, np.uint32)
        self.queues = [self.lib.sim_queue_create(self.sim.sim, blocking) for _ in range(2)]

    def call(self, name: str, *arguments) -> int:
        kinds = {np.ndarray: lambda a: ctypes.c_void_p(a.ctypes.data), int: ctypes.c_size_t}
        return getattr(self.lib, name)(self.sim.sim, *(kinds.get(type(a), lambda a: a)(a) for a in arguments))

    def launch(self, name: str, queue: int) -> None:
        self.select(queue)
        assert self.sim.launch(name, self.memory, block=1) == 0, self.sim.findings

    def select(self, queue: int) -> None:
        self.lib.sim_queue_select(self.sim.sim, self.queues[queue])


COPIES = {  # the call, the kernel before it, and whether the two conflict
    "copy from": (lambda q: q.call("sim_copy", q.other, q.memory, BYTES), "writer", True),
    "copy to": (lambda q: q.call("sim_copy", q.memory, q.other, 64), "reader", True),
    "copy of what is read": (lambda q: q.call("sim_copy", q.other, q.memory, 64), "reader", False),
    "read": (lambda q: q.call("sim_read", q.host, q.memory, BYTES), "writer", True),
    "write": (lambda q: q.call("sim_write", q.memory, q.host, 64), "reader", True),
    "fill": (lambda q: q.call("sim_fill", q.memory, ctypes.c_int(3), BYTES), "writer", True),
    "fill of other bytes": (lambda q: q.call("sim_fill", q.other, ctypes.c_int(3), BYTES), "writer", False),
}
NAMES = {"copy": "copy", "read": "copy to the host", "write": "copy to the device", "fill": "fill"}
WAITS = ("nothing", "the queue", "all queues", "an event", "an event of the host's", "the same queue", "default queue")


@pytest.mark.parametrize("copy", COPIES)
@pytest.mark.parametrize("waits", WAITS)
def test_a_copy_waits_for_the_kernel_of_another_queue(copy, waits):
    made, before, conflicts = COPIES[copy]
    q = Queues(blocking=int(waits == "default queue"))
    q.launch(before, 0)
    event = q.sim.event(q.queues[0])
    if waits == "the queue":
        assert q.lib.sim_queue_synchronize(q.sim.sim, q.queues[0]) == 0
    elif waits == "all queues":
        assert q.lib.sim_queues_synchronize(q.sim.sim) == 0
    elif waits == "an event":
        assert q.lib.sim_queue_wait(q.sim.sim, q.queues[1], event) == 0
    elif waits == "an event of the host's":
        assert q.lib.sim_event_synchronize(q.sim.sim, event) == 0
    q.lib.sim_event_free(event)
    q.select(0 if waits == "the same queue" else 1)
    if waits == "default queue":
        q.lib.sim_queue_select(q.sim.sim, 0)
    assert made(q) == 0
    if waits != "nothing" or not conflicts:
        assert q.sim.verdict == "clean", q.sim.findings
        return
    (found,) = q.sim.findings
    assert (found["kind"], found["verdict"], found["warp"], found["lane"]) == ("queue-race", "error", -1, -1)
    assert (found["kernel"], found["other_kernel"]) == (NAMES[copy.split()[0]], before)
    assert found["ptx_line"] == 0 and found["other_ptx_line"] > 0
    assert (found["allocation"], found["offset"]) == ("buffer", 0)


def test_a_kernel_waits_for_a_copy_of_another_queue():
    for fixed in (False, True):
        q = Queues()
        q.select(0)
        assert q.call("sim_fill", q.memory, ctypes.c_int(3), BYTES) == 0
        if fixed:
            assert q.lib.sim_queue_synchronize(q.sim.sim, q.queues[0]) == 0
        q.launch("reader", 1)
        assert q.sim.kinds == (set() if fixed else {"queue-race"}), q.sim.findings
        assert fixed or (q.sim.findings[0]["other_kernel"], q.sim.findings[0]["other_ptx_line"]) == ("fill", 0)


def test_copies_move_the_bytes_and_check_the_ranges():
    q = Queues()
    q.host[:] = np.arange(100, 164)
    assert q.call("sim_write", q.other, q.host, 16) == 0 and q.other[:5].tolist() == [100, 101, 102, 103, 0]
    assert q.call("sim_copy", q.memory, q.other, 8) == 0 and q.memory[:3].tolist() == [100, 101, 2]
    assert q.call("sim_copy", q.memory[1:], q.memory, 12) == 0 and q.memory[:5].tolist() == [100, 100, 101, 2, 4]
    assert q.call("sim_fill", q.other, ctypes.c_int(0x101), 6) == 0 and q.other[0] == 0x01010101
    assert q.other[1] == 0x00000101 and q.other[2] == 102
    assert q.call("sim_read", q.host, q.other, BYTES) == 0 and q.host[3] == 103
    for name, arguments in (
        ("sim_write", (q.host, q.other, 4)),
        ("sim_read", (q.other, q.host, 4)),
        ("sim_fill", (q.host, ctypes.c_int(1), 4)),
        ("sim_fill", (q.other, ctypes.c_int(1), BYTES + 1)),
        ("sim_read", (q.host, q.memory[1:], BYTES)),
    ):
        assert q.call(name, *arguments) == 1 and q.sim.message() == "the range lies outside of every allocation"
    assert q.sim.verdict == "clean", q.sim.findings


def test_memory_freed_in_a_queue_is_reused_only_there():
    q = Queues()
    q.lib.sim_alloc_in_queue.restype = ctypes.c_void_p
    take = lambda size: q.lib.sim_alloc_in_queue(q.sim.sim, ctypes.c_size_t(size), b"room")  # noqa: E731
    give = lambda address: q.lib.sim_free_in_queue(q.sim.sim, ctypes.c_void_p(address))  # noqa: E731
    q.select(0)
    first = take(512)
    ctypes.memset(first, 1, 512)
    assert give(first) == 0
    assert give(first) == 1 and q.sim.message() == "no allocation starts at this address"
    q.select(1)
    assert take(512) != first
    q.select(0)
    assert take(256) != first
    assert take(512) == first and ctypes.string_at(first, 512) == b"\xb5" * 512
    assert take(512) != first and give(None) in (0, 1)


def test_a_new_queue_reuses_the_number_of_a_destroyed_one():
    q = Queues()
    for waits in (True, False):
        q.launch("writer", 0)
        if waits:
            assert q.lib.sim_queues_synchronize(q.sim.sim) == 0
        q.lib.sim_queue_destroy(q.sim.sim, q.queues[0])
        new = q.lib.sim_queue_create(q.sim.sim, 0)
        assert (new == q.queues[0]) == waits
        q.queues[0] = new
