"""DeepGEMM's kernels, launched by our host code (deepgemm.cuh) instead of its JIT compiler."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch

from simulator.validation.third_party.cuda.libraries import BF16 as BF16_STEP
from simulator.validation.third_party.cuda.libraries import Trial, bound_of
from simulator.validation.third_party.cuda.libraries import run as run_library
from simulator.validation.third_party.cuda.wrappers import WRAPPER
from simulator.validation.third_party.narrow_operands import e2m1, e4m3, powers_of_two
from simulator.validation.third_party.nvcc_objects import compile_object, link
from simulator.validation.third_party.outcome import Case, in_a_child
from simulator.validation.third_party.third_party_sources import Sources

REPOSITORY, CUTLASS = "deepseek-ai/DeepGEMM", "NVIDIA/cutlass"
HERE = Path(__file__).resolve().parent
TILE, STAGES, GROUP = 128, 4, 32
THREADS_90, THREADS_100 = 384, 256  # warpgroups: producer and two of wgmma; producer and epilogue
BF16, FP8, FP4 = "BFLOAT16", "UINT8", "16U4_ALIGN16B"


def _map(kind: str, buffer: int, inner: str, outer: str, stride: str, box: str, swizzle: str = "128B") -> str:
    kinds = f"CU_TENSOR_MAP_DATA_TYPE_{kind}"
    return f"matrix_map({kinds}, d[{buffer}], {inner}, {outer}, {stride}, {box}, CU_TENSOR_MAP_SWIZZLE_{swizzle})"


OUT = _map(BF16, 4, "n", "m", "2 * n", f"64, {TILE}")
MAJOR = "cute::UMMA::Major::K"
NORMAL = "deep_gemm::GemmType::Normal"
IDENTITY = "deep_gemm::epilogue::transform::EpilogueIdentity"


def _source(header: str, kernel: str, launch: str) -> str:
    body = f"#include <deep_gemm/impls/{header}.cuh>\n#include <deep_gemm/epilogue/transform.cuh>\n"
    return (
        f'#include "{HERE / "deepgemm.cuh"}"\n{body}{WRAPPER.replace("CALL", f"launch(deep_gemm::{kernel}, {launch})")}'
    )


def _sm90_bf16(multicast: int) -> str:
    kernel = (
        f"sm90_bf16_gemm_impl<{MAJOR}, {MAJOR}, 0, 0, 0, 1, {TILE}, {TILE}, 64, 128, 128, 128, {STAGES}, 128, 256, "
    )
    kernel += f"{multicast}, false, {multicast}, {NORMAL}, false, cutlass::bfloat16_t>"
    maps = [_map(BF16, i, "k", size, "2 * k", f"64, {TILE}") for i, size in ((0, "m"), (1, "n"))]
    arguments = ["(int *)nullptr", "(uint32_t)m", "(uint32_t)n", "(uint32_t)k", *maps, OUT]
    return _source("sm90_bf16_gemm", kernel, f"{multicast}, {THREADS_90}, {multicast}, " + ", ".join(arguments))


def _sm90_fp8() -> str:
    kernel = f"sm90_fp8_gemm_1d2d_impl<{MAJOR}, 0, 0, 0, 1, {TILE}, {TILE}, 128, 128, 128, 128, {STAGES}, 128, 256, "
    kernel += f"1, false, 1, {NORMAL}, cutlass::bfloat16_t, {IDENTITY}>"
    maps = [_map(FP8, i, "k", size, "k", f"128, {TILE}") for i, size in ((0, "m"), (1, "n"))]
    scales = _map("FLOAT32", 2, "m", "k / 128", "4 * m", f"{TILE}, 1", "NONE")
    arguments = ["(float *)d[3]", "(int *)nullptr", "(uint32_t)m", "(uint32_t)n", "(uint32_t)k", *maps, OUT, scales]
    return _source("sm90_fp8_gemm_1d2d", kernel, f"1, {THREADS_90}, 1, " + ", ".join(arguments))


def _sm100(ctas: int, b_type: str) -> str:
    types = {FP8: "cutlass::float_e4m3_t", FP4: "cutlass::detail::float_e2m1_unpacksmem_t"}
    kernel = (
        f"sm100_fp8_fp4_gemm_1d1d_impl<{MAJOR}, {MAJOR}, {GROUP}, {GROUP}, {GROUP}, 0, 0, 0, {TILE}, {TILE}, 128, 1, "
    )
    kernel += f"128, 128, 128, {STAGES}, 128, 128, {ctas}, false, {ctas}, false, false, {NORMAL}, false, "
    kernel += f"{types[FP8]}, {types[b_type]}, cutlass::bfloat16_t, {IDENTITY}>"
    b_stride = "k" if b_type == FP8 else "k / 2"
    maps = [_map(FP8, 0, "k", "m", "k", f"128, {TILE}"), _map(b_type, 1, "k", "n", b_stride, f"128, {TILE // ctas}")]
    maps += [_map("INT32", i, size, "k / 128", f"4 * {size}", f"{TILE}, 1", "NONE") for i, size in ((2, "m"), (3, "n"))]
    arguments = ["(int *)nullptr", "(uint32_t)m", "(uint32_t)n", "(uint32_t)k", *maps, OUT]
    return _source("sm100_fp8_fp4_gemm_1d1d", kernel, f"{ctas}, {THREADS_100}, {ctas}, " + ", ".join(arguments))


@dataclass(frozen=True)
class Kernel:
    """An instance of a kernel template: source, data, size and what it shows."""

    name: str
    arch: str
    source: str
    data: str
    shape: tuple[int, int, int]
    shows: str


KERNELS = (
    Kernel("sm90_bf16_gemm", "90a", _sm90_bf16(1), "bf16", (256, 128, 256), "persistent, wgmma, TMA store"),
    Kernel("sm90_bf16_gemm multicast", "90a", _sm90_bf16(2), "bf16", (256, 128, 256), "the same, cluster of two"),
    Kernel(
        "sm90_fp8_gemm_1d2d", "90a", _sm90_fp8(), "fp8", (256, 128, 256), "fp8 with fp32 scales, summed in registers"
    ),
    Kernel(
        "sm100_fp8_fp4_gemm_1d1d fp8", "100a", _sm100(1, FP8), "mxfp8", (256, 128, 256), "mxfp8, scales by tcgen05.cp"
    ),
    Kernel("sm100_fp8_fp4_gemm_1d1d pair", "100a", _sm100(2, FP8), "mxfp8", (256, 128, 256), "the same, cta_group::2"),
    Kernel("sm100_fp8_fp4_gemm_1d1d fp4", "100a", _sm100(1, FP4), "mxfp4", (256, 128, 256), "fp8 x fp4, padded by TMA"),
)


def _packed(scales: np.ndarray) -> np.ndarray:
    """Scale bytes (rows, k / 32) as words of four bytes, column by column."""
    return np.ascontiguousarray(np.ascontiguousarray(scales).view(np.uint32).T)


def inputs_of(kernel: Kernel) -> tuple[list[np.ndarray], np.ndarray, np.ndarray, str]:
    """Buffers a, b, scales of a, scales of b, result; what the result should be; how far off it may be; its type."""
    m, n, k = kernel.shape
    out = np.zeros(m * n, np.uint16)
    none = np.zeros(4, np.uint8)
    if kernel.data == "bf16":
        a, b = (torch.randn(r, k, generator=torch.Generator().manual_seed(r)).bfloat16() for r in (m, n + 1))
        b = b[:n].contiguous()
        want = (a.double() @ b.double().T).numpy()
        return (
            [a.view(torch.int16).numpy(), b.view(torch.int16).numpy(), none, none, out],
            want,
            bound_of(want, BF16_STEP, k),
            "bfloat16",
        )
    a, x = e4m3(m, k, 1)
    b, y = (e2m1 if kernel.data == "mxfp4" else e4m3)(n, k, 2)
    if kernel.data == "fp8":
        generator = np.random.default_rng(3)
        rows, blocks = (generator.uniform(0.5, 2, s).astype(np.float32) for s in ((m, k // 128), (n // 128, k // 128)))
        x = x * rows.astype(np.float64).repeat(128, 1)
        y = y * blocks.astype(np.float64).repeat(128, 0).repeat(128, 1)
        # Hopper's sums keep 13 bits below the largest product.
        bound = bound_of(x @ y.T, BF16_STEP, k) + np.abs(x) @ np.abs(y).T * 2.0**-11
        return [a, b, np.ascontiguousarray(rows.T), blocks, out], x @ y.T, bound, "bfloat16"
    (sa, fa), (sb, fb) = (powers_of_two(r, k // GROUP, seed) for r, seed in ((m, 3), (n, 4)))
    want = (x * fa.repeat(GROUP, 1)) @ (y * fb.repeat(GROUP, 1)).T
    return [a, b, _packed(sa), _packed(sb), out], want, bound_of(want, BF16_STEP, k), "bfloat16"


def cases() -> Iterator[Case]:
    """Every kernel, in the table's order."""

    def prepare(kernel: Kernel, sources: Sources) -> Callable[[str], dict]:
        tree, cutlass = sources.checkout(REPOSITORY), sources.checkout(CUTLASS)
        label = f"DeepGEMM-{kernel.name.replace(' ', '-')}"
        source = sources.cache / "wrapped" / f"{label}.cu"
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(kernel.source)
        include = (tree / "deep_gemm/include", cutlass / "include")
        # The CUDA runtime shim writes its report when it is unloaded; a library with unique symbols never is.
        flags = ["-Xcompiler", "-fno-gnu-unique", *(flag for folder in include for flag in ("-I", str(folder)))]
        depends = sources.commit(REPOSITORY) + sources.commit(CUTLASS) + (HERE / "deepgemm.cuh").read_text()
        made = compile_object(source, kernel.arch, flags, sources.cache, depends, "c++20")
        library = link([made], sources.cache / "libraries" / f"{label}.so", shared=True)
        trial = Trial(REPOSITORY, kernel.name, kernel.arch, "", "", kernel.shape, kernel.shows)
        data = inputs_of(kernel)
        return lambda mode: in_a_child(lambda: run_library(library, trial, data, mode))

    for kernel in KERNELS:
        size = " x ".join(map(str, kernel.shape))
        yield Case(REPOSITORY, kernel.name, kernel.shows, size, kernel.arch, partial(prepare, kernel))
