"""How each kernel of triton_kernels.py is compiled: types, sizes, warps, chips.  Needs neither Triton nor torch."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass, field

BOTH = (90, 100)


@dataclass(frozen=True)
class Variant:
    """A kernel's compilation.  `types`: Triton's types of the parameters that are no constants, in order."""

    kernel: str
    label: str
    types: str
    constants: dict[str, int | str | bool] = field(default_factory=dict)
    warps: int = 4
    stages: int = 3
    ctas: int = 1
    chips: tuple[int, ...] = BOTH
    shows: str = ""

    def name(self, chip: int) -> str:
        return f"{self.kernel}{'-' if self.label else ''}{self.label}-sm{chip}"


def _dots() -> Iterator[Variant]:
    for label, kind, sums, precision in (
        ("fp16", "fp16", "fp32", "ieee"),
        ("bf16", "bf16", "fp32", "ieee"),
        ("tf32", "fp32", "fp32", "tf32"),
        ("tf32x3", "fp32", "fp32", "tf32x3"),
        ("ieee", "fp32", "fp32", "ieee"),
        ("i8", "i8", "i32", "ieee"),
        ("fp8", "fp8e4nv", "fp32", "ieee"),
    ):
        for size in (32, 128) if label in ("fp16", "fp8") else (128,) if label not in ("ieee", "tf32x3") else (32,):
            constants = {"M": size, "N": size, "K": 64, "PRECISION": precision}
            types = f"*{kind} *{kind} *{sums}"
            yield Variant(
                "dot", f"{label}-{size}", types, constants, shows=f"one {size} x {size} x 64 product, {label}"
            )


def _matmuls() -> Iterator[Variant]:
    pointers, tile = "*fp16 *fp16 *fp16 i32 i32 i32", {"BM": 128, "BN": 128, "BK": 64}
    yield Variant("matmul", "w4", pointers, tile, shows="pointer loads, cp.async pipeline")
    yield Variant("matmul", "w8", pointers, tile, warps=8, shows="the same with 8 warps")
    yield Variant("matmul_tma", "", pointers, tile | {"WS": False}, shows="tensor maps made on the device")
    yield Variant("matmul_tma", "ctas2", pointers, tile | {"WS": False}, ctas=2, shows="the same, two CTAs a program")
    yield Variant("matmul_tma", "ws", pointers, tile | {"WS": True}, shows="the same, warp-specialised")
    plain, flat = tile | {"WS": False, "FLAT": False}, tile | {"WS": False, "FLAT": True}
    yield Variant("matmul_persistent", "", pointers, plain, shows="persistent, TMA")
    yield Variant("matmul_persistent", "flat", pointers, flat, shows="persistent, one flattened loop")
    specialised = tile | {"WS": True, "FLAT": True}
    yield Variant("matmul_persistent", "ws", pointers, specialised, shows="persistent, warp-specialised")


def _attentions() -> Iterator[Variant]:
    base = {"LENGTH": 256, "D": 64, "BM": 128, "BN": 64}
    for label, causal, ws, shows in (
        ("", False, False, "attention, TMA"),
        ("causal", True, False, "causal attention, TMA"),
        ("ws", False, True, "attention, warp-specialised"),
    ):
        constants = base | {"CAUSAL": causal, "WS": ws}
        yield Variant("attention", label, "*fp16 *fp16 *fp16 *fp16 fp32", constants, shows=shows)


def _scaled() -> Iterator[Variant]:
    for label, a, b, kinds, scale, group in (
        ("nvfp4", "e2m1", "e2m1", "u8 u8", "fp8e4nv", 16),
        ("mxfp4", "e2m1", "e2m1", "u8 u8", "u8", 32),
        ("mxfp8", "e4m3", "e4m3", "fp8e4nv fp8e4nv", "u8", 32),
        ("mxfp8-mxfp4", "e4m3", "e2m1", "fp8e4nv u8", "u8", 32),
    ):
        left, right = kinds.split()
        types = f"*{left} *{scale} *{right} *{scale} *fp32 i32"
        constants = {"BM": 128, "BN": 128, "BK": 128, "GROUP": group, "A_TYPE": a, "B_TYPE": b}
        # On sm_90 Triton dequantizes to bf16, and cannot do so with scales of e4m3.
        chips = (100,) if label == "nvfp4" else BOTH
        yield Variant("dot_scaled", label, types, constants, chips=chips, shows=f"block-scaled product, {label}")
        chips = (100,)
        yield Variant(
            "dot_scaled_tma", label, types, constants, chips=chips, shows=f"block-scaled product by TMA, {label}"
        )


def variants() -> Iterator[Variant]:
    """Every variant, in the table's order."""
    yield Variant("add", "", "*fp32 *fp32 *fp32 i32", {"BLOCK": 256}, shows="masked vectors")
    yield Variant("softmax", "", "*fp32 *fp32 i32", {"WIDTH": 512}, shows="reductions over warps")
    yield Variant("layernorm", "", "*fp16 *fp16 *fp16 *fp16 fp32", {"WIDTH": 512}, shows="mixed precision")
    yield Variant("sort", "", "*fp32 *fp32", {"WIDTH": 256}, shows="bitonic, shuffles and shared memory")
    yield Variant("cumsum", "", "*fp32 *fp32", {"ROWS": 64, "WIDTH": 16}, shows="scan over warps")
    yield Variant("dropout", "", "*fp32 *fp32 i32 fp32 i32", {"BLOCK": 256}, shows="Philox random numbers")
    yield Variant("transpose", "", "*fp16 *fp16", {"ROWS": 64, "COLUMNS": 128}, shows="exchange by shared memory")
    yield Variant("histogram", "", "*i32 *i32", {"WIDTH": 512, "BINS": 64}, shows="atomics on shared memory")
    yield Variant("gather", "", "*fp32 *i32 *fp32", {"ROWS": 64, "COLUMNS": 32}, shows="gather along rows")
    yield Variant("atomic_sum", "", "*fp32 *fp32", {"WIDTH": 256}, shows="atomics on global memory")
    yield from _dots()
    yield from _matmuls()
    yield from _attentions()
    yield from _scaled()
