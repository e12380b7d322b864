"""K of 16 n on every call of the C interface: each gives the bits of the same operands padded by hand to a multiple of
64, whatever lies in the scale factors' padding.

    python -m tests.submission.k_tails

Prints the calls that differ as JSON; the simulator's tests run it too.  NVFP4_LIBRARY names the library.
"""

from __future__ import annotations

import ctypes
import itertools
import json
import struct
import sys

import numpy as np

from submission import shim

M, N, GROUP = 8, 128, 16
NAN = 0x7F
BLOCKED, ROWS = 0, 1
PLAIN, APART, STACKED = -1, 0, 1
DUAL, EXTENDED = struct.Struct("@Iiiiqqqq8Q"), struct.Struct("@Iiiiqqqq8QiiiI5QffffiI")
EXPERTS, GROUPED = struct.Struct("@Iiiiqqqq9QiiiiiI5Qffff"), struct.Struct("@IiiiqIIQQ")
GROUP_STRUCT = struct.Struct("@qqq5Q")


def aligned(values: np.ndarray) -> np.ndarray:
    """A copy at a 64-byte address."""
    memory = np.zeros(values.nbytes + 64, np.uint8)
    place = memory[-memory.ctypes.data % 64 :][: values.nbytes].view(values.dtype).reshape(values.shape)
    place[...] = values
    return place


def blocks(scales: np.ndarray) -> np.ndarray:
    """Scale factors (..., rows, K/16) in blocks of 128 x 4, padded with NaN."""
    *batches, rows, groups = scales.shape
    tall, wide = -(-rows // 128), -(-groups // 4)
    padded = np.full((*batches, tall * 128, wide * 4), NAN, np.uint8)
    padded[..., :rows, :groups] = scales
    return np.moveaxis(padded.reshape(*batches, tall, 4, 32, wide, 4), (-5, -4, -3, -2, -1), (-5, -2, -3, -4, -1))


class Operands:
    """a, b1 and b2 of random codes and scale factors, as they are and padded by hand."""

    def __init__(self, k: int, layout: int, batches: int = 1, b_rows: int = N, wide_a: bool = False, seed: int = 1):
        generator = np.random.default_rng(seed)
        self.k, self.padded_k = k, -(-k // 64) * 64
        self.tensors: dict[int, list[np.ndarray]] = {k: [], self.padded_k: []}
        for rows in (M, b_rows, b_rows):
            wide = wide_a and rows == M
            of_row = 2 * k if wide else k // 2
            codes = generator.integers(0, 256, (batches, rows, of_row), np.uint8)
            if wide:
                halves = generator.standard_normal((batches, rows, k)).astype(np.float16)
                codes = halves.view(np.uint8)
            scales = generator.integers(0x20, 0x40, (batches, rows, k // GROUP), np.uint8)
            for size, held in self.tensors.items():
                more = of_row * size // k - of_row
                padded = np.pad(codes, ((0, 0), (0, 0), (0, more)))
                factors = np.pad(scales, ((0, 0), (0, 0), (0, (size - k) // GROUP)))
                held += [aligned(padded), aligned(blocks(factors) if layout == BLOCKED else factors)]

    def pointers(self, k: int) -> list[int]:
        """Addresses of a, b1, b2, sfa, sfb1, sfb2."""
        of_k = [tensor.ctypes.data for tensor in self.tensors[k]]
        return [*of_k[0::2], *of_k[1::2]]


def output(*shape: int) -> np.ndarray:
    return aligned(np.zeros(shape, np.uint16))


def run(name: str, arguments: bytes) -> None:
    library = ctypes.CDLL(shim.library._name)  # of its own: the shims' functions keep their argument types
    function, library.custom_kernel_message.restype = getattr(library, name), ctypes.c_char_p
    function.argtypes, function.restype = (ctypes.c_char_p,), ctypes.c_int32
    if function(arguments):
        raise RuntimeError(library.custom_kernel_message().decode())


def dual(k: int, layout: int) -> tuple[np.ndarray, np.ndarray]:
    """Two batches."""
    operands = Operands(k, layout, 2)
    found = []
    for size in (k, operands.padded_k):
        c = output(2, M, N)
        args = DUAL.pack(DUAL.size, 0, -1, layout, M, N, size, 2, *operands.pointers(size), c.ctypes.data, 0)
        run("custom_kernel", args)
        found.append(c)
    return found[0], found[1]


def extended(k: int, layout: int, weights: int, a_type: int = 0) -> tuple[np.ndarray, np.ndarray]:
    """Stacked, interleaved or plain weights, or an A of 16 bits."""
    joint = weights > APART
    operands = Operands(k, layout, 1, 2 * N if joint else N, a_type != 0)
    found = []
    for size in (k, operands.padded_k):
        c, one = output(M, N), aligned(np.array([0.5], np.float32))
        a, b1, b2, sfa, sfb1, sfb2 = operands.pointers(size)
        if joint or weights == PLAIN:
            b2 = sfb2 = 0
        args = EXTENDED.pack(
            EXTENDED.size, 0, -1, layout, M, N, size, 1, a, b1, b2, 0 if a_type else sfa, sfb1, sfb2, c.ctypes.data, 0,
            int(weights == PLAIN), max(weights, 0), 0, 0, one.ctypes.data, 0, 0, 0, 0, 0.0, 0.0, 0.0, 0.0, a_type, 0,
        )  # fmt: skip
        run("custom_kernel_extended", args)
        found.append(c)
    return found[0], found[1]


def grouped(k: int, layout: int) -> tuple[np.ndarray, np.ndarray]:
    """A group of this K and one of 64."""
    parts = [Operands(k, layout), Operands(64, layout, seed=2)]
    found = []
    for padded in (False, True):
        c = output(2, M, N)
        groups = b""
        for i, operands in enumerate(parts):
            size = operands.padded_k if padded else operands.k
            a, b, _, sfa, sfb, _ = operands.pointers(size)
            groups += GROUP_STRUCT.pack(M, N, size, a, b, sfa, sfb, c[i].ctypes.data)
        memory = ctypes.create_string_buffer(groups)
        address = ctypes.addressof(memory)
        args = GROUPED.pack(GROUPED.size, 0, -1, layout, 2, GROUP_STRUCT.size, 0, address, 0)
        run("custom_kernel_grouped", args)
        found.append(c)
    return found[0], found[1]


def experts(k: int, layout: int, weights: int) -> tuple[np.ndarray, np.ndarray]:
    """Two experts, padded tokens."""
    operands = Operands(k, layout, 2, 2 * N if weights == STACKED else N)
    counts, found = aligned(np.array([3, M], np.int32)), []
    for size in (k, operands.padded_k):
        c = output(2, M, N)
        a, b1, b2, sfa, sfb1, sfb2 = operands.pointers(size)
        if weights == STACKED:
            b2 = sfb2 = 0
        args = EXPERTS.pack(
            EXPERTS.size, 0, -1, layout, 2, M, N, size, a, b1, b2, sfa, sfb1, sfb2, c.ctypes.data, 0,
            counts.ctypes.data, 2, layout, 0, weights, 0, 0, 0, 0, 0, 0, 0, 0.0, 0.0, 0.0, 0.0,
        )  # fmt: skip
        run("custom_kernel_experts", args)
        found.append(c)
    return found[0], found[1]


def differing(sizes: tuple[int, ...], halves: bool = False, with_experts: bool = False) -> list[str]:
    """The calls whose bits differ, or that fail.  halves: with an A of 16 bits."""
    wrong = []

    def check(name: str, call, *arguments: int) -> None:
        try:
            found, want = call(*arguments)
            text = "" if np.array_equal(found, want) and found.any() else "differs"
        except RuntimeError as error:
            text = str(error)
        if text:
            wrong.append(f"{name}{arguments}: {text}")

    for k, layout in itertools.product(sizes, (BLOCKED, ROWS)):
        check("dual", dual, k, layout)
        check("grouped", grouped, k, layout)
        for weights in (PLAIN, STACKED, 32):
            check("extended", extended, k, layout, weights)
        if halves:
            check("halves", extended, k, layout, APART, 1)
        for weights in (APART, STACKED) if with_experts else ():
            check("experts", experts, k, layout, weights)
    return wrong


if __name__ == "__main__":
    print(json.dumps(differing((16, 80, 96), "--halves" in sys.argv, "--experts" in sys.argv)))
