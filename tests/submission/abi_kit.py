"""A call of the C ABI whose members a test changes."""

from __future__ import annotations

import ctypes

import numpy as np

from tests.submission.cpu_kit import BLOCKED, HOST, INPUTS, Args

POINTERS = (*INPUTS, "c")
ALIGNMENT = 16
# M and N in different numbers of scale tiles, both ways round; L is 1 and more.
SHAPES = [(8, 264, 64, 2), (264, 8, 128, 1), (136, 24, 192, 3)]
UNWRITTEN = 0xA5


def round_up(value, unit):
    return -(-value // unit) * unit


def sizes(shape, layout):
    """Bytes of each tensor by custom_kernel.h's table."""
    m, n, k, batches = shape
    scale_rows = [round_up(rows, 128) if layout == BLOCKED else rows for rows in (m, n, n)]
    of_one = [m * k // 2, n * k // 2, n * k // 2, *(rows * k // 16 for rows in scale_rows), 2 * m * n]
    return dict(zip(POINTERS, (batches * size for size in of_one), strict=True))


class Call:
    """A valid problem in one allocation, inputs zero; a test changes a member of its struct."""

    def __init__(self, shape=SHAPES[0], layout=BLOCKED, spare=0):
        self.sizes = sizes(shape, layout)
        room = round_up(max(self.sizes.values()), ALIGNMENT) + 64
        self.memory = np.zeros(room * (len(POINTERS) + 2) + spare, dtype=np.uint8)
        base = round_up(self.memory.ctypes.data, 64)
        m, n, k, batches = shape
        self.args = Args(ctypes.sizeof(Args), device=HOST, scale_layout=layout, m=m, n=n, k=k, l=batches)
        for i, name in enumerate(POINTERS, 1):
            setattr(self.args, name, base + i * round_up(room, 64))
        start = self.args.c - self.memory.ctypes.data
        self.c = self.memory[start : start + self.sizes["c"]]
        self.c[:] = UNWRITTEN

    def __call__(self, library):
        status = library.custom_kernel(ctypes.byref(self.args))
        return status, library.custom_kernel_message().decode()
