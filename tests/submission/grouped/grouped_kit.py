"""Helpers of the grouped GEMM's tests: groups, exact sums in float64, and calls through the C ABI.

As cpu_kit's problems, groups are decoded from the format's definition, and every tensor ends where an
inaccessible page begins. The padding of blocked scale factors is NaN.
"""

from __future__ import annotations

import ctypes
from functools import lru_cache

import numpy as np

from tests.submission.cpu_kit import BLOCKED, E2M1, E4M3, GROUP, HOST, OK, fenced, to_blocked

MEMBERS = ("a", "b", "sfa", "sfb", "c")
UNTOUCHED = 0x7BAD
POWERS = [byte for byte in range(0x7F) if E4M3[byte] in (0.5, 1, 2)]  # scale factors of exact sums

# The leaderboard's ten tests: M, N and K of each group.
OFFICIAL = (
    ((96, 128), (128, 256), (256, 512)),
    ((256, 72), (512, 384), (256, 256)),
    ((128, 128), (128, 256), (512, 256)),
    ((80, 128, 256), (384, 256, 128), (256, 512, 256)),
    ((64, 72, 96), (128, 384, 512), (512, 512, 256)),
    ((64, 256, 128), (768, 128, 256), (512, 256, 512)),
    ((128, 128, 64), (256, 512, 512), (768, 256, 768)),
    ((128, 128, 128, 128), (128, 128, 128, 128), (512, 256, 512, 256)),
    ((40, 56, 384, 512), (512, 384, 256, 128), (256, 256, 256, 256)),
    ((512, 384, 256, 128), (256, 256, 256, 256), (512, 768, 512, 768)),
)


class GroupStruct(ctypes.Structure):
    """struct custom_kernel_group."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in "mnk"),
        *((name, ctypes.c_void_p) for name in MEMBERS),
    )


class GroupedArgs(ctypes.Structure):
    """struct custom_kernel_grouped_args."""

    _fields_ = (
        ("struct_bytes", ctypes.c_uint32),
        ("backend", ctypes.c_int32),
        ("device", ctypes.c_int32),
        ("scale_layout", ctypes.c_int32),
        ("groups", ctypes.c_int64),
        ("group_bytes", ctypes.c_uint32),
        ("reserved", ctypes.c_uint32),
        ("group", ctypes.c_void_p),
        ("queue", ctypes.c_void_p),
    )


class Group:
    """Codes (rows, K) of 0..15 and scale bytes (rows, K/16) of a and b."""

    def __init__(self, a, b, sfa, sfb):
        self.codes = [np.ascontiguousarray(x, dtype=np.uint8) for x in (a, b)]
        self.scales = [np.ascontiguousarray(x, dtype=np.uint8) for x in (sfa, sfb)]
        (self.m, self.k), self.n = self.codes[0].shape, len(self.codes[1])

    def tensors(self, layout):
        """The four inputs as the C ABI takes them."""
        packed = [x[:, 0::2] | x[:, 1::2] << 4 for x in self.codes]
        return packed + [to_blocked(x[None]) if layout == BLOCKED else x for x in self.scales]

    def sums(self):
        """a b^T in float64."""
        a, b = (
            E2M1[x] * np.repeat(E4M3[scale], GROUP, axis=-1) for x, scale in zip(self.codes, self.scales, strict=True)
        )
        return a @ b.T

    def want(self):
        """The result where the sums are exact in fp32: they are rounded once."""
        with np.errstate(over="ignore"):
            return self.sums().astype(np.float16)


def random_group(m, n, k, rng, scale_bytes=POWERS):
    """Every code; with the default scale bytes sums are exact in any order, up to K = 4096 or so."""
    codes = [rng.integers(0, 16, (rows, k), dtype=np.uint8) for rows in (m, n)]
    return Group(*codes, *(rng.choice(scale_bytes, (rows, k // GROUP)) for rows in (m, n)))


def random_groups(sizes, seed=0, **options):
    rng = np.random.default_rng(seed)
    return [random_group(*size, rng, **options) for size in sizes]


@lru_cache
def official(case):
    """The groups of an official test, and the results."""
    groups = random_groups(zip(*OFFICIAL[case], strict=True), seed=1111 + case)
    return groups, [group.want() for group in groups]


class Call:
    """A call's structs and tensors, which a test may spoil before it is made."""

    def __init__(self, library, groups, layout=BLOCKED):
        self.library, self.groups = library, groups
        self.inputs = [[fenced(x) for x in group.tensors(layout)] for group in groups]
        self.before = [[x.copy() for x in tensors] for tensors in self.inputs]
        self.outputs = [fenced(np.full((group.m, group.n), UNTOUCHED, dtype=np.uint16)) for group in groups]
        self.group = (GroupStruct * len(groups))()
        for struct, group, inputs, output in zip(self.group, groups, self.inputs, self.outputs, strict=True):
            struct.m, struct.n, struct.k = group.m, group.n, group.k
            for name, tensor in zip(MEMBERS, (*inputs, output), strict=True):
                setattr(struct, name, tensor.ctypes.data)
        self.args = GroupedArgs(ctypes.sizeof(GroupedArgs), 0, HOST, layout, len(groups))
        self.args.group_bytes = ctypes.sizeof(GroupStruct)
        self.args.group = ctypes.addressof(self.group)

    def __call__(self):
        """The status and the message, which is of the last call that failed: "" where this one did not."""
        status = self.library.custom_kernel_grouped(ctypes.byref(self.args))
        for inputs, before in zip(self.inputs, self.before, strict=True):
            assert all((x == y).all() for x, y in zip(inputs, before, strict=True)), "an input was written"
        return status, "" if status == OK else self.library.custom_kernel_message().decode()

    def untouched(self):
        return all((x == UNTOUCHED).all() for x in self.outputs)


def load(path):
    library = ctypes.CDLL(str(path))
    library.custom_kernel_message.restype = ctypes.c_char_p
    return library


def run(library, groups, layout=BLOCKED):
    """The outputs of a call that succeeds, as fp16."""
    call = Call(library, groups, layout)
    status, message = call()
    assert status == OK, message
    return [x.view(np.float16) for x in call.outputs]


def assert_results(got, want):
    """Equal, but for the sign of zero; NaN where NaN is wanted."""
    for index, (x, y) in enumerate(zip(got, want, strict=True)):
        wrong = ~((x == y) | (np.isnan(x) & np.isnan(y)))
        at = [tuple(map(int, place)) for place in np.argwhere(wrong)[:4]]
        assert not wrong.any(), f"group {index} {x.shape}: {[(p, float(x[p]), float(y[p])) for p in at]}"
