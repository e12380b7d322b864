"""ThunderKittens' GEMMs: the educational ladders run with their own host code, the fast kernels with a launch of ours.

The fast kernels' own programs fill and time hundreds of megabytes.  Ours uses the same types, grids and launch
attributes on smaller operands.
"""

from __future__ import annotations

from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch

from reference import nvfp4
from simulator.validation.third_party.cuda.libraries import BF16, Trial, bound_of
from simulator.validation.third_party.cuda.libraries import run as run_library
from simulator.validation.third_party.cuda.wrappers import ENTRY, ENTRY_HEAD
from simulator.validation.third_party.narrow_operands import e2m1, e4m3, powers_of_two, tiled, ue4m3
from simulator.validation.third_party.nvcc_objects import compile_object, link
from simulator.validation.third_party.outcome import Case, in_a_child
from simulator.validation.third_party.third_party_sources import Sources

REPOSITORY = "HazyResearch/ThunderKittens"
FOLDER = "kernels/gemm"
MACROS = {"90a": "KITTENS_HOPPER", "100a": "KITTENS_BLACKWELL"}
FLAGS = ("--use_fast_math", "--expt-extended-lambda", "-DNDEBUG", "-Xcompiler", "-fno-gnu-unique")  # the authors' own
# Headers of the system and of ThunderKittens, which must not be included inside a namespace.
HEADERS = "".join(
    f"#include <{name}>\n"
    for name in (
        "chrono", "cmath", "iomanip", "iostream", "random", "thread", "vector", "cuda.h", "cuda_runtime.h",
        "cuda_bf16.h", "cuda_fp16.h", "cuda_fp4.h", "cuda_fp8.h",
    )
)  # fmt: skip
COMMON = ("include/kittens.cuh", f"{FOLDER}/common.cuh")
SHARED = {"90a": ("prototype/prototype.cuh", *COMMON), "100a": COMMON}
E4M3 = 2.0**-4  # half a unit of the last place, at most
UNSIGNED = "(unsigned long)"


@dataclass(frozen=True)
class Kernel:
    """One kernel: its file, the statement that calls it, its operands and what it shows."""

    name: str
    file: str
    arch: str
    call: str
    data: str  # bf16: B transposed; bf16nn: B as it is; fp8, fp8-out, mxfp8, nvfp4: B transposed
    shape: tuple[int, int, int]
    shows: str


def level(number: int, chip: str, size: int, shows: str) -> Kernel:
    """A step of the ladder: matmul(A, B, C, N) of square matrices."""
    file = f"educational_{chip}/level_{number:02d}.cu"
    call = "matmul((bf16 *)d[0], (bf16 *)d[1], (bf16 *)d[2], n)"
    arch = "90a" if chip == "h100" else "100a"
    return Kernel(f"{chip} level {number}", file, arch, call, "bf16nn", (size, size, size), shows)


def prototype(name: str, template: str, types: str, data: str, shape: tuple[int, int, int], shows: str) -> Kernel:
    """A kernel of Hopper's load-compute-finish template, with its own launch."""
    call = f"""using mmt = {template};
    cudaFuncSetAttribute(prototype::lcf::kernel<mmt>, cudaFuncAttributeMaxDynamicSharedMemorySize,
                         MAX_SHARED_MEMORY - 1024);
    inner_run<mmt>(({types} *)d[0], ({types} *)d[1], ({types} *)d[2], m, n, k, dim3(mmt::grid(m, n, k)),
                   dim3(kittens::prototype::detail::NUM_THREADS_v<mmt>))"""
    return Kernel(name, f"{name}/{name}_gemm.cu", "90a", call, data, shape, shows)


def launched(
    name: str, config: str, suffix: str, arguments: list[str], kernel: str, data: str, shape: tuple, shows: str
) -> Kernel:
    """A Blackwell kernel: the members of its globals, and its launch with attributes."""
    space = kernel.rpartition("::")[0]
    scope = f"{space}::" if space else ""
    call = f"""using C = {scope}config<{config}>;
    using G = {scope}globals<C>;
    static float ones[1] = {{1}};
    float *one;
    cudaMalloc(&one, sizeof ones);
    cudaMemcpy(one, ones, sizeof ones, cudaMemcpyHostToDevice);
    G g{{{", ".join(arguments)}}};
    auto entry = {"kernel" if not space else "kernel_entrypoint"}<C>;
    cudaFuncSetAttribute(entry, cudaFuncAttributeMaxDynamicSharedMemorySize, g.dynamic_shared_memory());
    LaunchConfig<true, true> launch(g.grid(), g.block(), g.dynamic_shared_memory(), 0, C::CLUSTER_SIZE);
    cudaLaunchKernelEx(launch, entry, g)"""
    return Kernel(f"{name}{suffix}", f"{name}/{name}_gemm.cu", "100a", call, data, shape, shows)


def matrix(member: str, kind: str, buffer: int, rows: str, columns: str) -> str:
    """A global layout of rows and columns."""
    return f"typename G::{member}{{({kind} *)d[{buffer}], nullptr, nullptr, {UNSIGNED}({rows}), {UNSIGNED}({columns})}}"


def plain(kind: str) -> list[str]:
    sizes = (("a_gl", kind, "m", "k"), ("b_gl", kind, "n", "k"), ("d_gl", "bf16", "m", "n"))
    return [matrix(member, of, i, rows, columns) for i, (member, of, rows, columns) in enumerate(sizes)]


def mxfp8() -> list[str]:
    scale = "typename G::{}{{(fp8e8m0 *)d[{}], {}({} / 128), {}(k / 128), nullptr, nullptr}}"
    scales = [scale.format(f"{x}_sc_gl", i, UNSIGNED, size, UNSIGNED) for x, i, size in (("A", 2, "m"), ("B", 3, "n"))]
    tiles = [matrix(f"{x}_gl", "fp8e4m3", i, size, "k") for x, i, size in (("A", 0, "m"), ("B", 1, "n"))]
    return [tiles[0], scales[0], tiles[1], scales[1], matrix("D_gl", "bf16", 4, "m", "n")]


def nvfp4_arguments() -> list[str]:
    made = []
    for x, i, size in (("A", 0, "m"), ("B", 1, "n")):
        made.append(matrix(f"{x}_fp4x2_gl", "fp4e2m1_2", i, size, "k / 2"))
        made.append(
            f"typename G::{x}_sc_gl{{(half *)d[{i + 2}], nullptr, {UNSIGNED}({size} / 128), {UNSIGNED}(k / 64), "
            "nullptr}"
        )
        made.append(f"typename G::{x}_sc_global_gl{{one, nullptr, nullptr, nullptr, nullptr}}")
    return [*made, matrix("D_gl", "bf16", 4, "m", "n")]


KERNELS = (
    level(4, "h100", 128, "registers, mma.sync"),
    level(5, "h100", 256, "wgmma, loads by all warps"),
    level(6, "h100", 256, "wgmma, TMA, two stages"),
    level(7, "h100", 256, "producer and consumer warpgroups"),
    level(8, "h100", 256, "two consumers, 64 x 256 accumulators, TMA store"),
    prototype("bf16_h100", "matmul_template<2, 4, 8>", "bf16", "bf16nn", (256, 256, 256), "persistent, their template"),
    prototype("fp8_h100", "matmul_template<8>", "fp8e4m3", "fp8-out", (256, 256, 256), "fp8 to fp8, their template"),
    level(4, "b200", 128, "registers, mma.sync"),
    level(5, "b200", 256, "registers, TMA"),
    level(6, "b200", 256, "tcgen05, TMA"),
    level(7, "b200", 256, "tcgen05, stages"),
    level(8, "b200", 256, "tcgen05, warp-specialised, 128 x 256"),
    level(9, "b200", 512, "cta_group::2, two consumers"),
    launched(
        "bf16_b200", "256, 64, 128, 4, true, 5, 2", " overlapped", plain("bf16"), "kernel", "bf16", (512, 256, 256),
        "cta_group::2, clusterlaunchcontrol, epilogue beside the MMAs",
    ),
    launched(
        "bf16_b200", "256, 256, 64, 8, false, 4, 8", " wide", plain("bf16"), "kernel", "bf16", (512, 512, 256),
        "cta_group::2, clusterlaunchcontrol, two consumers",
    ),
    launched(
        "fp8_b200", "256, 64, 256, 4, true, 5, 2", "", plain("fp8e4m3"), "kernel", "fp8", (512, 256, 512),
        "the same in fp8",
    ),
    launched(
        "mxfp8_b200", "128, 5, 4, 12, 2, true", "", mxfp8(), "mxfp8_gemm::kernel", "mxfp8", (512, 256, 512),
        "mxfp8, cta_group::2, dependent launch",
    ),
    launched(
        "nvfp4_b200", "128, 5, 4, 12, 2, true", "", nvfp4_arguments(), "nvfp4_gemm::kernel", "nvfp4", (512, 256, 1024),
        "NVFP4, cta_group::2, dependent launch",
    ),
)  # fmt: skip


def _bytes(x: torch.Tensor) -> np.ndarray:
    return nvfp4.as_bytes(x).contiguous().numpy()


def inputs_of(kernel: Kernel) -> tuple[list[np.ndarray], np.ndarray, np.ndarray, str]:
    """Buffers (the result last), what the result should be, how far off it may be, and its type."""
    m, n, k = kernel.shape
    out = np.zeros(m * n, np.uint16)
    if kernel.data.startswith("bf16"):
        generator = torch.Generator().manual_seed(3)
        a, b = (torch.randn(rows, k, generator=generator).bfloat16() for rows in (m, n))
        want = (a.double() @ b.double().T).numpy()
        b = b.T.contiguous() if kernel.data == "bf16nn" else b
        buffers = [x.view(torch.int16).numpy() for x in (a, b)]
        return [*buffers, out], want, bound_of(want, BF16, k), "bfloat16"
    if kernel.data.startswith("fp8"):
        (a, x), (b, y) = e4m3(m, k, 1), e4m3(n, k, 2)
        want = x @ y.T
        if kernel.data == "fp8":
            return [a, b, out], want, bound_of(want, BF16, k), "bfloat16"
        # Hopper's sums keep 13 bits below the largest product; the result is e4m3.
        bound = np.maximum(np.abs(want) * E4M3, 2.0**-10) + np.abs(x) @ np.abs(y).T * 2.0**-11
        return [a, b, np.zeros(m * n, np.uint8)], want, bound, "e4m3"
    if kernel.data == "mxfp8":
        ((a, x), (b, y)), group, scales = (e4m3(m, k, 1), e4m3(n, k, 2)), 32, powers_of_two
    else:
        ((a, x), (b, y)), group, scales = (e2m1(m, k, 1), e2m1(n, k, 2)), 16, ue4m3
    (sa, fa), (sb, fb) = (scales(rows, k // group, seed) for rows, seed in ((m, 3), (n, 4)))
    want = (x * fa.repeat(group, 1)) @ (y * fb.repeat(group, 1)).T
    return [a, b, tiled(sa), tiled(sb), out], want, bound_of(want, BF16, k), "bfloat16"


def build(arch: str, sources: Sources) -> Path:
    """A chip's kernels as one library, each file in a namespace: most compile time goes into their headers."""
    tree, label = sources.checkout(REPOSITORY), f"ThunderKittens-{arch}"
    text = HEADERS + "".join(f'#include "{tree / name}"\n' for name in SHARED[arch]) + ENTRY_HEAD
    files = {}
    for i, kernel in enumerate(KERNELS):
        if kernel.arch == arch:
            if kernel.file not in files:
                files[kernel.file] = f"file_{i}"
                text += f'namespace file_{i} {{\n#include "{tree / FOLDER / kernel.file}"\n}}\n'
            call = f"using namespace {files[kernel.file]};\n    {kernel.call}"
            text += ENTRY.replace("NAME", f"trial_{i}").replace("CALL", call)
    source = sources.cache / "wrapped" / f"{label}.cu"
    source.parent.mkdir(parents=True, exist_ok=True)
    source.write_text(text)
    include = [flag for folder in ("include", "prototype") for flag in ("-I", str(tree / folder))]
    flags = [f"-D{MACROS[arch]}", *FLAGS, *include]
    made = compile_object(source, arch, flags, sources.cache, sources.commit(REPOSITORY), "c++20")
    return link([made], sources.cache / "libraries" / f"{label}.so", shared=True)


def cases() -> Iterator[Case]:
    """Every kernel, in the table's order."""

    def prepare(kernel: Kernel, sources: Sources) -> Callable[[str], dict]:
        library = build(kernel.arch, sources)
        entry = f"trial_{KERNELS.index(kernel)}"
        trial = Trial(REPOSITORY, kernel.name, kernel.arch, "", "", kernel.shape, kernel.shows, entry=entry)
        data = inputs_of(kernel)
        return lambda mode: in_a_child(lambda: run_library(library, trial, data, mode))

    for kernel in KERNELS:
        size = " x ".join(map(str, kernel.shape))
        yield Case(REPOSITORY, kernel.name, kernel.shows, size, kernel.arch, partial(prepare, kernel))
