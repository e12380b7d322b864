"""The simulator's tensor-core arithmetic, through a library of batch calls (simulator/tests/tensorcore/batch.c); and
matrix and instruction descriptors.
"""

from __future__ import annotations

import ctypes
from functools import cache

import numpy as np

from simulator.python.toolchain import built

FORMATS = {
    name: i
    for i, name in enumerate(
        ["e2m1", "e2m3", "e3m2", "e4m3", "e5m2", "ue8m0", "ue4m3", "f16", "bf16", "tf32", "f32", "s8", "u8", "s32"]
    )
}
ROUNDS = {name: i for i, name in enumerate(["rn", "rna", "rz", "rp", "rm", "rs"])}
SATFINITE, RELU = 1, 2
FAMILIES = {name: i for i, name in enumerate(["wgmma", "mma_sync", "tcgen05", "mxf8f6f4", "mxf4"])}
ISAS = ("portable", "avx2", "avx512")


RULE_FIELDS = "family a b d k scale scale_block negate_a negate_b saturate d_scale_log2"


class Rule(ctypes.Structure):
    """struct batch_rule of batch.c."""

    _fields_ = [(name, ctypes.c_int32) for name in RULE_FIELDS.split()]


def rule(
    family: str,
    a: str = "e2m1",
    b: str = "e2m1",
    d: str = "f32",
    k: int = 0,
    scale: str = "ue4m3",
    scale_block: int = 0,
    **flags: int,
) -> Rule:
    """The C rule for a family of MMAs, with formats by name."""
    return Rule(FAMILIES[family], FORMATS[a], FORMATS[b], FORMATS[d], k, FORMATS[scale], scale_block, **flags)


@cache
def library() -> ctypes.CDLL:
    """The library of batch calls."""
    loaded = ctypes.CDLL(str(built("libtensor_test.so")))
    loaded.batch_row_bytes.restype = ctypes.c_int64
    return loaded


def pointer(array: np.ndarray | None) -> ctypes.c_void_p:
    """The address of an array for C, or NULL."""
    if array is None:
        return ctypes.c_void_p(None)
    assert array.flags.c_contiguous
    return ctypes.c_void_p(array.ctypes.data)


def to_f32(fmt: str, codes: np.ndarray) -> np.ndarray:
    """Codes of a format -> fp32."""
    codes = np.ascontiguousarray(codes, np.uint32)
    out = np.empty(codes.shape, np.float32)
    library().batch_to_f32(FORMATS[fmt], pointer(codes), pointer(out), ctypes.c_int64(codes.size))
    return out


def from_f32(fmt: str, x: np.ndarray, mode: str = "rn", flags: int = 0, random: np.ndarray | None = None) -> np.ndarray:
    """fp32 -> codes of a format, with rounding `mode`; `random`: the bits for stochastic rounding."""
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    out = np.empty(bits.shape, np.uint32)
    if random is not None:
        random = np.ascontiguousarray(random, np.uint32)
    library().batch_from_f32(
        FORMATS[fmt], pointer(bits), pointer(out), ctypes.c_int64(bits.size), ROUNDS[mode], flags, pointer(random)
    )
    return out


def force_isa(name: str) -> bool:
    """Selects an instruction set for the arithmetic; False if this machine lacks it."""
    return bool(library().batch_isa(name.encode()))


def mma(
    r: Rule,
    a: np.ndarray,
    b: np.ndarray,
    d: np.ndarray,
    sfa: np.ndarray | None = None,
    sfb: np.ndarray | None = None,
    accumulate: bool = True,
    generic: bool = False,
) -> np.ndarray:
    """D = A B^T + D on a copy of d; a and b are rows of bytes as described in mma_arith.h."""
    d = np.array(d, np.uint32)
    m, n = d.shape
    library().batch_mma(
        ctypes.byref(r), pointer(a), pointer(b), pointer(sfa), pointer(sfb), pointer(d), m, n, accumulate, generic
    )
    return d


SWIZZLES = ("none", "32B", "64B", "128B", "128B_ATOM32")


def matrix_descriptor(
    start: int, leading: int = 0, stride: int = 0, swizzle: str = "none", base_offset: int = 0, wgmma: bool = False
) -> int:
    """A shared-memory matrix descriptor; offsets in bytes, swizzle by name."""
    modes = {"none": 0, "128B": 1, "64B": 2, "32B": 3} if wgmma else dict(zip(SWIZZLES, (0, 6, 4, 2, 1), strict=True))
    bits = (start >> 4) | (leading >> 4) << 16 | (stride >> 4) << 32 | base_offset << 49
    return bits | modes[swizzle] << 62 if wgmma else bits | 1 << 46 | modes[swizzle] << 61


def unscaled(m: int = 128, n: int = 128, d: int = 1, a: int = 0, b: int = 0, **bits: int) -> int:
    """Instruction descriptor of the kinds without scale factors (fields: PTX ISA)."""
    word = d << 4 | a << 7 | b << 10 | n >> 3 << 17 | m >> 4 << 24
    places = {"selector": 0, "sparse": 2, "saturate": 3, "neg_a": 13, "neg_b": 14, "mn_a": 15, "mn_b": 16, "shift": 30}
    return word | sum(value << places[name] for name, value in bits.items())


def scaled(
    m: int = 128,
    n: int = 128,
    a: int = 1,
    b: int = 1,
    ue8m0: int = 0,
    sfa: np.ndarray | None = 0,
    sfb: np.ndarray | None = 0,
    **bits: int,
) -> int:
    """Instruction descriptor of the block-scaled kinds (fields: PTX ISA)."""
    word = sfb << 4 | a << 7 | b << 10 | n >> 3 << 17 | ue8m0 << 23 | m >> 7 << 27 | sfa << 29
    places = {"sparse": 2, "neg_a": 13, "neg_b": 14, "mn_a": 15, "mn_b": 16, "k96": 31}
    return word | sum(value << places[name] for name, value in bits.items())
