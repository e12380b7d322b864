"""The heap of simulated times gives events by time, and equal times in the order in which they came."""

from __future__ import annotations

import ctypes
import subprocess
from heapq import heappop, heappush
from itertools import permutations

import pytest

from simulator.tests.sim_kit import ROOT


class Event(ctypes.Structure):
    _fields_ = (
        ("at", ctypes.c_uint64),
        ("number", ctypes.c_uint64),
        ("warp", ctypes.c_void_p),
        ("op", ctypes.c_void_p),
        ("stage", ctypes.c_uint8),
    )


class Agenda(ctypes.Structure):
    _fields_ = (("events", ctypes.POINTER(Event)), ("count", ctypes.c_uint32), ("room", ctypes.c_uint32))


@pytest.fixture(scope="module")
def heap(tmp_path_factory):
    path = tmp_path_factory.mktemp("heap") / "events.so"
    flags = ["-std=c11", "-D_GNU_SOURCE", "-shared", "-fPIC", "-iquote", ROOT / "simulator"]
    subprocess.run(["gcc", *flags, "-o", path, ROOT / "simulator/clock/events.c"], check=True)
    library = ctypes.CDLL(str(path))
    library.event_take.restype = Event
    library.event_next.restype = ctypes.c_uint64
    library.event_put.argtypes = (ctypes.c_void_p, ctypes.POINTER(Agenda), Event)
    return library


def put(heap, agenda, times):
    for number, at in times:
        heap.event_put(None, ctypes.byref(agenda), Event(at, number))


@pytest.mark.parametrize("times", [(0, 1, 2, 3, 4, 5), (1, 1, 2, 2, 3, 3)])
def test_events_are_taken_in_order_however_they_came(heap, times):
    for arrived in permutations(enumerate(times)):
        agenda, taken = Agenda(), []
        put(heap, agenda, arrived)
        while agenda.count:
            assert heap.event_next(ctypes.byref(agenda)) == min(at for _, at in {*arrived} - {*taken})
            event = heap.event_take(ctypes.byref(agenda))
            taken.append((event.number, event.at))
        assert taken == sorted(arrived, key=lambda one: (one[1], one[0]))
        ctypes.CDLL(None).free(agenda.events)


def test_events_that_come_between_takes_find_their_place(heap):
    agenda, wanted, number = Agenda(), [], 0
    for turn in range(200):  # more come than are taken, and late ones may be earlier
        for at in (turn * 37 % 101, turn * 53 % 89, turn * 11 % 7):
            put(heap, agenda, [(number, at)])
            heappush(wanted, (at, number))
            number += 1
        for _ in range(2):
            event = heap.event_take(ctypes.byref(agenda))
            assert (event.at, event.number) == heappop(wanted)
    assert agenda.count == len(wanted) == 200
