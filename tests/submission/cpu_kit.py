"""Tools for tests of the C ABI and the CPU backend: problems, a float64 oracle and calls.

The oracle decodes NVFP4 from its definition in numpy and shares no code with the package. Every tensor ends at an
inaccessible page, so that reading or writing past its end kills the process.
"""

from __future__ import annotations

import ctypes
import math
import mmap
import os
import re

import numpy as np
import pytest

OK, NULL_POINTER, ARGUMENT, UNAVAILABLE, UNSUPPORTED, OUT_OF_MEMORY, DEVICE = range(7)
CPU, HOST = 1, -1
BLOCKED, ROWS = 0, 1
LAYOUTS = pytest.mark.parametrize("layout", [BLOCKED, ROWS], ids=["blocked", "rows"])
INTEGER_ISAS = ("portable", "avx2", "avx512")  # these give the same bits
ISAS = (*INTEGER_ISAS, "amx")
GROUP = 16
NAN_SCALE = 0x7F
INPUTS = ("a", "b1", "b2", "sfa", "sfb1", "sfb2")
POINTERS = (*INPUTS, "c")
ALIGNMENT = 16
# M and N in different numbers of scale tiles, both ways round; L is 1 and more.
SHAPES = [(8, 264, 64, 2), (264, 8, 128, 1), (136, 24, 192, 3)]
UNWRITTEN = 0xA5

E2M1 = np.array([sign * value for sign in (1, -1) for value in (0, 0.5, 1, 1.5, 2, 3, 4, 6)])
CODE = {value: code for code, value in enumerate(E2M1[:8])}
# OCP OFP8 e4m3 with the sign bit ignored: exponent bias 7, subnormals, 0x7f is NaN.
E4M3 = np.array(
    [
        math.nan
        if byte & 0x7F == NAN_SCALE
        else math.ldexp(byte & 7, -9)
        if byte & 0x78 == 0
        else math.ldexp(8 + (byte & 7), (byte >> 3 & 15) - 10)
        for byte in range(256)
    ]
)
ONE = 0x38  # the e4m3 byte of 1


class Args(ctypes.Structure):
    _fields_ = (
        ("struct_bytes", ctypes.c_uint32),
        ("backend", ctypes.c_int32),
        ("device", ctypes.c_int32),
        ("scale_layout", ctypes.c_int32),
        *((name, ctypes.c_int64) for name in "mnkl"),
        *((name, ctypes.c_void_p) for name in (*INPUTS, "c", "queue")),
    )


class Info(ctypes.Structure):
    _fields_ = (
        ("struct_bytes", ctypes.c_uint32),
        ("backend", ctypes.c_int32),
        ("name", ctypes.c_char_p),
        ("built", ctypes.c_int32),
        ("available", ctypes.c_int32),
        ("detail", ctypes.c_char_p),
    )


def assert_says(message, argument, *facts):
    """Asserts that an error message is one line that begins with the argument and contains each fact."""
    assert re.match(rf"{re.escape(argument)}(?![\w])", message), message
    assert "\n" not in message
    missing = [fact for fact in map(str, facts) if fact not in message]
    assert not missing, f"{message!r} lacks {missing}"


# --- a call of the C ABI whose members a test changes ---------------------------------------------------


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


# --- memory that ends at an inaccessible page ---------------------------------------------------------

_libc = ctypes.CDLL(None, use_errno=True)
_libc.mprotect.argtypes = (ctypes.c_void_p, ctypes.c_size_t, ctypes.c_int)


def fenced(content: np.ndarray) -> np.ndarray:
    """A copy that starts 16-byte aligned and ends less than 16 bytes before an inaccessible page."""
    used = -(-content.nbytes // 16) * 16
    pages = -(-used // mmap.PAGESIZE) * mmap.PAGESIZE
    memory = mmap.mmap(-1, pages + mmap.PAGESIZE)
    whole = np.frombuffer(memory, dtype=np.uint8)
    assert _libc.mprotect(whole.ctypes.data + pages, mmap.PAGESIZE, 0) == 0, os.strerror(ctypes.get_errno())
    copy = whole[pages - used : pages - used + content.nbytes].view(content.dtype).reshape(content.shape)
    copy[...] = content
    return copy


# --- the oracle ---------------------------------------------------------------------------------------


def to_blocked(scales: np.ndarray) -> np.ndarray:
    """Scale bytes (L, rows, K/16) -> the blocked layout, byte by byte from its definition; padding is NaN."""
    batches, rows, groups = scales.shape
    blocked = np.full((batches, -(-rows // 128), groups // 4, 512), NAN_SCALE, dtype=np.uint8)
    row, group = np.meshgrid(np.arange(rows), np.arange(groups), indexing="ij")
    place = row % 32 * 16 + row % 128 // 32 * 4 + group % 4
    blocked[:, row // 128, group // 4, place] = scales
    return blocked


class Problem:
    """Codes (L, rows, K) of 0..15 and scale bytes (L, rows, K/16) of A, B1 and B2."""

    def __init__(self, codes, scales):
        self.codes = [np.ascontiguousarray(x, dtype=np.uint8) for x in codes]
        self.scales = [np.ascontiguousarray(x, dtype=np.uint8) for x in scales]
        self.batches, self.m, self.k = self.codes[0].shape
        self.n = self.codes[1].shape[1]

    def top(self, m, n):
        """The same problem with the first m rows of A and the first n of B1 and B2."""
        ends = (m, n, n)
        return Problem(
            [x[:, :end] for x, end in zip(self.codes, ends, strict=True)],
            [x[:, :end] for x, end in zip(self.scales, ends, strict=True)],
        )

    def tensors(self, layout):
        """The six inputs as the C ABI takes them."""
        packed = [x[..., 0::2] | x[..., 1::2] << 4 for x in self.codes]
        return packed + [to_blocked(x) if layout == BLOCKED else x for x in self.scales]

    def values(self):
        """A, B1 and B2 in float64, each element exact."""
        return [
            E2M1[code] * np.repeat(E4M3[scale], GROUP, axis=-1)
            for code, scale in zip(self.codes, self.scales, strict=True)
        ]

    def sums(self):
        """A B1^T and A B2^T in float64, (L, M, N)."""
        a, b1, b2 = self.values()
        return a @ b1.transpose(0, 2, 1), a @ b2.transpose(0, 2, 1)


def silu(x):
    with np.errstate(over="ignore"):
        return x / (1 + np.exp(-x))


def random_problem(m, n, k, batches=1, seed=0, scale_bytes=None):
    """Every code; scale bytes of any finite magnitude and either sign unless given."""
    rng = np.random.default_rng(seed)
    if scale_bytes is None:
        scale_bytes = np.setdiff1d(np.arange(256), (0x7F, 0xFF))
    shapes = [(batches, m, k), (batches, n, k), (batches, n, k)]
    return Problem(
        [rng.integers(0, 16, shape) for shape in shapes],
        [rng.choice(scale_bytes, (*shape[:2], k // GROUP)) for shape in shapes],
    )


def check(problem, got):
    """Asserts that fp16 results differ from the oracle by no more than fp32 sums and one rounding to fp16 explain."""
    gate, up = problem.sums()
    want = silu(gate) * up
    a, b1, b2 = (abs(x) for x in problem.values())
    # A chain of fp32 additions errs by at most its length times 2^-24 of the sum of magnitudes. Groups of 16
    # add up in runs of 32 groups, and the runs in one more chain.
    chain = (32 + math.ceil(problem.k / 512)) * 2.0**-24
    gate_error = chain * (a @ b1.transpose(0, 2, 1))
    up_error = chain * (a @ b2.transpose(0, 2, 1))
    error = 1.1 * gate_error * (abs(up) + up_error) + abs(silu(gate)) * up_error  # |silu'| < 1.1
    error += 2.0**-21 * abs(want)  # exp, division and product, at 1 to 2 ulp each
    highest = 65520 - 1e-3  # larger values round to infinity in fp16
    over = np.isinf(got)
    assert not np.isnan(got).any()
    assert (abs(want)[over] + error[over] >= highest).all(), "infinity where the result fits"
    assert (np.sign(got[over]) == np.sign(want[over])).all(), "infinity of the wrong sign"
    half_ulp = 2.0**-11 * np.maximum(abs(want), 2.0**-14)
    with np.errstate(invalid="ignore"):
        wrong = ~over & ~(abs(got.astype(np.float64) - want) <= error + half_ulp)
    assert not wrong.any(), f"(batch, row, col): got, want: {describe(wrong, got, want)}"


def describe(wrong, got, want):
    return [(tuple(map(int, at)), float(got[tuple(at)]), float(want[tuple(at)])) for at in np.argwhere(wrong)[:5]]


def assert_same(got, want):
    """Bit equality of finite values and infinities (zeros of either sign are equal); NaN where want is NaN."""
    wrong = ~((got == want) | (np.isnan(got) & np.isnan(want)))
    assert not wrong.any(), f"(batch, row, col): got, want: {describe(wrong, got, want)}"


# --- calling the library ------------------------------------------------------------------------------


class Backend:
    """The library, forced to one instruction set."""

    def __init__(self, path, isa, monkeypatch):
        self.library = ctypes.CDLL(str(path))
        self.library.custom_kernel_message.restype = ctypes.c_char_p
        monkeypatch.setenv("NVFP4_CPU_ISA", isa)
        self.isa = isa

    def status(self, problem, layout=ROWS):
        """The status, and C (L, M, N) as fp16."""
        args = Args(ctypes.sizeof(Args), CPU, HOST, layout, problem.m, problem.n, problem.k, problem.batches)
        kept = [fenced(x) for x in problem.tensors(layout)]
        before = [x.copy() for x in kept]
        c = fenced(np.full((problem.batches, problem.m, problem.n), 0x7BAD, dtype=np.uint16))
        for name, tensor in zip((*INPUTS, "c"), (*kept, c), strict=True):
            setattr(args, name, tensor.ctypes.data)
        status = self.library.custom_kernel(ctypes.byref(args))
        assert all((x == y).all() for x, y in zip(kept, before, strict=True)), "an input was written"
        return status, c.view(np.float16).copy()

    def __call__(self, problem, layout=ROWS):
        status, c = self.status(problem, layout)
        assert status == OK, self.library.custom_kernel_message().decode()
        return c


def runs_here(path, isa):
    """None if this machine can run an instruction set, else the reason."""
    with pytest.MonkeyPatch.context() as patch:
        backend = Backend(path, isa, patch)
        status, _ = backend.status(random_problem(1, 1, 64))
    return None if status == OK else backend.library.custom_kernel_message().decode()
