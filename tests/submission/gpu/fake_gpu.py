"""The GPU backends on a CUDA runtime that only logs its calls (../c/fake_cudart.c).

It has as many devices as a test wants, and any of its calls can be made to fail.
"""

from __future__ import annotations

import ctypes
import re
import shutil

import pytest

from tests.submission.cpu_kit import BLOCKED, INPUTS, OK, ROWS, Args, Info

HOPPER, BLACKWELL, GEFORCE = "hopper", "blackwell", "geforce"
NUMBERS = {HOPPER: 2, BLACKWELL: 3, GEFORCE: 4}
CHIPS = {HOPPER: (90, 132), BLACKWELL: (100, 148), GEFORCE: (120, 170)}
MEMORY_ALLOCATION, BROKEN = 2, 999
POINTERS = (*INPUTS, "c")
ADDRESS = {name: (i + 1) << 52 for i, name in enumerate(POINTERS)}  # far apart: nothing reads there
SCRATCH = 1 << 61
QUEUE = 0xABC0
CLUSTERS = {1: 148, 2: 74, 4: 32, 8: 16}
LAYOUTS = pytest.mark.parametrize("layout", [BLOCKED, ROWS], ids=["blocked", "rows"])
BACKENDS = pytest.mark.parametrize("name", [*NUMBERS])
GROUPED_BACKENDS = pytest.mark.parametrize("name", [HOPPER, BLACKWELL, GEFORCE])


def up(x, y):
    return -(-x // y)


def round_up(x, y):
    return up(x, y) * y


class Fake:
    """A fresh copy of the library, in which nothing is cached yet."""

    def __init__(self, built, folder):
        path = folder / "library.so"
        shutil.copy(built, path)
        self.core = ctypes.CDLL(str(path))
        self.core.custom_kernel_message.restype = ctypes.c_char_p
        self.devices([*CHIPS.values()])
        clusters = (ctypes.c_int * 16).in_dll(self.core, "fake_clusters")
        for cluster, count in CLUSTERS.items():
            clusters[cluster] = count
        self.clusters = clusters

    def number(self, name):
        return ctypes.c_int.in_dll(self.core, f"fake_{name}")

    def devices(self, chips):
        self.number("devices").value = len(chips)
        for i, (capability, sms) in enumerate(chips):
            (ctypes.c_int * 80).in_dll(self.core, "fake_capability")[i] = capability
            (ctypes.c_int * 80).in_dll(self.core, "fake_sms")[i] = sms

    def fail(self, function="", error=BROKEN, successes=0):
        (ctypes.c_char * 64).in_dll(self.core, "fake_failing").value = function.encode()
        self.number("error").value = error
        self.number("successes").value = successes

    def call(self, name, device=None, m=300, n=500, k=320, batches=3, layout=BLOCKED, queue=QUEUE):
        """(status, message) of a call."""
        device = list(CHIPS).index(name) if device is None else device
        args = Args(ctypes.sizeof(Args), NUMBERS[name], device, layout, m, n, k, batches, **ADDRESS, queue=queue)
        self.core.fake_clear_log()
        status = self.core.custom_kernel(ctypes.byref(args))
        return status, self.core.custom_kernel_message().decode()

    def log(self, *kinds):
        """The last call's calls of the runtime, as words: all, or those of some kinds."""
        text = (ctypes.c_char * (1 << 16)).in_dll(self.core, "fake_log").value.decode()
        lines = [[int(x) if re.fullmatch(r"-?\d+", x) else x for x in line.split()] for line in text.splitlines()]
        return [line for line in lines if line[0] in kinds or (not kinds and line[0] != "get_last_error")]

    def kinds(self):
        return [line[0] for line in self.log()]

    def query(self, name):
        info = Info(ctypes.sizeof(Info))
        index = 0
        while self.core.custom_kernel_backend_query(index, ctypes.byref(info)) == OK:
            if info.name.decode() == name:
                return info.available, info.detail.decode()
            index += 1
        raise AssertionError(name)


def template_numbers(kernel, count):
    """The template arguments of a kernel's tile."""
    return tuple(map(int, re.findall(r"Li(\d+)E", kernel)))[:count]


def tiles_of(tiles, name):
    return {tile: tuple(row.values()) for tile, row in tiles.table[name]["tiles"].items()}


def with_tile(monkeypatch, name, tile):
    monkeypatch.setenv(f"NVFP4_{name.upper()}_CONFIG", tile)
