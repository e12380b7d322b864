"""The heap of simulated times gives events by time, and equal times in the order in which they came."""

from __future__ import annotations

import ctypes
import subprocess
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
    agenda, taken = Agenda(), []
    for first in range(0, 60, 6):  # later ones come first, and each time two are taken
        put(heap, agenda, [(at, at) for at in (first + 5, first + 1, first + 3)])
        taken += [heap.event_take(ctypes.byref(agenda)).at for _ in range(2)]
    taken += [heap.event_take(ctypes.byref(agenda)).at for _ in range(agenda.count)]
    assert sorted(taken) == sorted(at for first in range(0, 60, 6) for at in (first + 1, first + 3, first + 5))
    assert taken[-10:] == sorted(taken[-10:])
