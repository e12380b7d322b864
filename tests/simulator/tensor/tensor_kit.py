"""The tensor part's test library through ctypes, and its enumerations by name."""

from __future__ import annotations

import ctypes
import os
import subprocess
from functools import cache
from pathlib import Path

import numpy as np

ROOT = Path(__file__).resolve().parents[3]

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

    _fields_ = [
        (name, ctypes.c_int32)
        for name in [
            "family",
            "a",
            "b",
            "d",
            "k",
            "scale",
            "scale_block",
            "negate_a",
            "negate_b",
            "saturate",
            "d_scale_log2",
        ]
    ]


def rule(family, a="e2m1", b="e2m1", d="f32", k=0, scale="ue4m3", scale_block=0, **flags):
    return Rule(FAMILIES[family], FORMATS[a], FORMATS[b], FORMATS[d], k, FORMATS[scale], scale_block, **flags)


@cache
def library() -> ctypes.CDLL:
    """Builds (in BUILD, default build) and loads the test library."""
    build = os.environ.get("BUILD", "build")
    target = f"{build}/libtensor_test.so"
    done = subprocess.run(["make", "-s", target], cwd=ROOT, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stdout + done.stderr
    loaded = ctypes.CDLL(str(ROOT / target))
    loaded.batch_row_bytes.restype = ctypes.c_int64
    return loaded


def pointer(array: np.ndarray | None) -> ctypes.c_void_p:
    if array is None:
        return ctypes.c_void_p(None)
    assert array.flags.c_contiguous
    return ctypes.c_void_p(array.ctypes.data)


def to_f32(fmt: str, codes: np.ndarray) -> np.ndarray:
    codes = np.ascontiguousarray(codes, np.uint32)
    out = np.empty(codes.shape, np.float32)
    library().batch_to_f32(FORMATS[fmt], pointer(codes), pointer(out), ctypes.c_int64(codes.size))
    return out


def from_f32(fmt: str, x: np.ndarray, mode: str = "rn", flags: int = 0, random=None) -> np.ndarray:
    bits = np.ascontiguousarray(x, np.float32).view(np.uint32)
    out = np.empty(bits.shape, np.uint32)
    if random is not None:
        random = np.ascontiguousarray(random, np.uint32)
    library().batch_from_f32(
        FORMATS[fmt], pointer(bits), pointer(out), ctypes.c_int64(bits.size), ROUNDS[mode], flags, pointer(random)
    )
    return out


def force_isa(name: str) -> bool:
    return bool(library().batch_isa(name.encode()))


def mma(r: Rule, a, b, d, sfa=None, sfb=None, accumulate=True, generic=False) -> np.ndarray:
    """D = A . B^T + D on a copy of d; a and b hold rows of bytes as mma_arith.h describes them."""
    d = np.array(d, np.uint32)
    m, n = d.shape
    library().batch_mma(
        ctypes.byref(r), pointer(a), pointer(b), pointer(sfa), pointer(sfb), pointer(d), m, n, accumulate, generic
    )
    return d
