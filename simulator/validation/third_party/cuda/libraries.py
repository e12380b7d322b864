"""Kernels whose own host code is a function: both are compiled into a shared library.

Host code and kernels stay in their files.  A wrapper of ours calls the host code, which encodes the tensor maps and
launches.
"""

from __future__ import annotations

import ast
import ctypes
import os
import re
from _ctypes import dlclose
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np
import torch

from reference import nvfp4
from reference.reference import generate_input, oracle
from simulator.validation.third_party.cuda.wrappers import PREAMBLE_FAST, TORCH_STUB, WRAPPER
from simulator.validation.third_party.nvcc_objects import compile_object, link
from simulator.validation.third_party.outcome import Case, compare, in_a_child, of_report, values
from simulator.validation.third_party.third_party_sources import Sources

# Short names of repositories, used in labels and commands.
REPOSITORIES = {
    "learn-cuda": "gau-nernst/learn-cuda",
    "fast.cu": "pranjalssh/fast.cu",
    "NVFP4_Kernels": "NaregAmirianMegan/NVFP4_Kernels",
    "nvfp4_gemm": "jIab-b/nvfp4_gemm",
}
# Half a unit of the last place, at most.
BF16, FP16 = 2.0**-8, 2.0**-10
CHIPS = {"90a": "h200", "100a": "b200"}


@dataclass(frozen=True)
class Trial:
    """One kernel of a repository: the source that compiles it, the call, its data and what it shows."""

    repository: str
    file: str
    arch: str
    call: str
    data: str  # bf16: C row-major; bf16t: C column-major; dual, single: NVFP4
    shape: tuple[int, int, int]
    shows: str
    name: str = ""
    string: str = ""  # Python variable that holds the CUDA source
    patch: tuple[str, str] = ("", "")  # a regular expression and its replacement, to run past a finding
    entry: str = "trial"  # the wrapper's function

    @property
    def label(self) -> str:
        """A name for files of its own."""
        return re.sub(r"\W", "_", f"{self.repository}-{self.file}-{self.name}-{'x'.join(map(str, self.shape))}")


def learn_cuda(version: str, letter: str, shape: tuple[int, int, int], shows: str) -> Trial:
    call = f"matmul_v{version}{letter}((nv_bfloat16 *)d[0], (nv_bfloat16 *)d[1], (nv_bfloat16 *)d[2], m, n, k)"
    file = f"02e_matmul_sm100/matmul_v{version}.cu"
    return Trial("learn-cuda", file, "100a", call, "bf16", shape, shows, f"v{version}{letter}")


def fast_cu(number: int, shows: str) -> Trial:
    arguments = "m, n, k, (bf16 *)d[0], (bf16 *)d[1], (bf16 *)d[2]" + (", nullptr" if number > 2 else "")
    call = f"runKernel{number}({arguments})"
    return Trial(
        "fast.cu", f"examples/matmul/matmul_{number}.cuh", "90a", call, "bf16t", (2048, 2048, 256), shows, f"{number}"
    )


def tensor(buffer: int, *sizes: str) -> str:
    """A contiguous tensor of the stub, innermost dimension last."""
    strides = [" * ".join(sizes[i + 1 :]) or "1" for i in range(len(sizes))]
    return f"at::Tensor{{d[{buffer}], {{{', '.join(sizes)}}}, {{{', '.join(strides)}}}}}"


def permuted(buffer: int, rows: str) -> str:
    """The scales' view (32, 4, rows / 128, 4, K / 64, 1)."""
    return f"at::Tensor{{d[{buffer}], {{32, 4, {rows} / 128, 4, k / 64, 1}}, {{16, 4, k / 64 * 512, 1, 512, 1}}}}"


DUAL_CALL = f"nvfp4_dual_gemm({', '.join(tensor(i) for i in range(7))}, m, n, k)"
SINGLE_ARGUMENTS = (
    tensor(0, "m", "k / 2"),
    tensor(1, "n", "k / 2"),
    tensor(2, "m", "k / 16"),
    tensor(3, "n", "k / 16"),
    permuted(4, "m"),
    permuted(5, "n"),
    tensor(6, "m", "n"),
)
SINGLE_CALL = f"cuda_nvfp4_gemm_tcgen05({', '.join(SINGLE_ARGUMENTS)})"


def dual(file: str, shape: tuple[int, int, int], shows: str, name: str = "") -> Trial:
    path = f"nvfp4_dual_gemm/{file}.py"
    arguments = ("NVFP4_Kernels", path, "100a", DUAL_CALL, "dual", shape, shows, name)
    return Trial(*arguments, string="nvfp4_dual_gemm_cuda_source")


def single(file: str, shape: tuple[int, int, int], shows: str, name: str = "", patch: tuple = ("", "")) -> Trial:
    arguments = ("nvfp4_gemm", f"{file}.py", "100a", SINGLE_CALL, "single", shape, shows, name)
    return Trial(*arguments, string="cuda_src", patch=patch)


# Adds the warp's lane to an address whose lane the author leaves zero.
LANES = (r"\btmem_d \+ n_chunk\b", "tmem_d + n_chunk + (threadIdx.x / 32 << 21)")
TRIALS = (
    fast_cu(2, "one wgmma m64n64k16 a warpgroup, TMA, cuda::barrier"),
    fast_cu(4, "producer warpgroup, ring of barriers, m64n256k16"),
    fast_cu(8, "cluster of two, multicast TMA"),
    fast_cu(11, "persistent, TMA store, stmatrix, Hilbert order"),
    fast_cu(12, "the fastest of the series"),
    learn_cuda("1", "a", (512, 512, 512), "2D TMA boxes of 16 bytes, no swizzle"),
    learn_cuda("1", "b", (512, 512, 512), "3D TMA boxes of 16 bytes, no swizzle"),
    learn_cuda("2", "a", (512, 512, 512), "128-byte swizzle, 2D boxes"),
    learn_cuda("2", "b", (512, 512, 512), "128-byte swizzle, 3D boxes"),
    learn_cuda("3", "", (512, 512, 512), "multi-stage pipeline"),
    learn_cuda("4", "", (512, 512, 512), "warp-specialised"),
    learn_cuda("5", "", (512, 512, 512), "cta_group::2"),
    learn_cuda("6", "", (2048, 2048, 256), "cta_group::2, persistent"),
    learn_cuda("7", "a", (2048, 2048, 256), "cta_group::2, persistent, 148 CTAs"),
    learn_cuda("7", "b", (2048, 2048, 256), "cta_group::2, persistent, 128 CTAs"),
    dual("submission_ptx", (256, 512, 1536), "NVFP4 dual GEMM, one CTA, 1D bulk copies of scales"),
    dual("sub_ptx_v2", (256, 512, 2048), "NVFP4 dual GEMM, cta_group::2, N = 64", "n64"),
    dual("sub_ptx_v2", (512, 512, 2048), "NVFP4 dual GEMM, cta_group::2, N = 128", "n128"),
    dual("sub_ptx_v2_cudalaunch", (256, 512, 2048), "the same, launched with attributes"),
    single("s_128t", (256, 256, 1024), "NVFP4 GEMM, N = 128, scales by 4D TMA"),
    single("s_128t", (256, 256, 1024), "the same with each warp's lanes in tcgen05.ld's address", "lanes", LANES),
    single("old_files/sub_tcgen2", (256, 256, 1024), "NVFP4 GEMM, an early version"),
)


def string_of(path: Path, variable: str) -> str:
    """The string that a Python file assigns to a name; the file is read, not run."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == variable for t in node.targets):
            return ast.literal_eval(node.value)
    raise ValueError(f"{path.name} assigns no {variable}")


def write_source(trial: Trial, checkout: Path, folder: Path) -> Path:
    """Writes the project's file and our wrapper as one CUDA file, and a stub of torch's headers beside it."""
    for name in ("torch/library.h", "torch/extension.h", "ATen/core/Tensor.h", "ATen/ATen.h"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(TORCH_STUB if name == "torch/library.h" else "#include <torch/library.h>\n")
    if trial.string:
        body = string_of(checkout / trial.file, trial.string)
        body = re.sub(*trial.patch, body) if trial.patch[0] else body
    elif trial.repository == "fast.cu":
        body = f'{PREAMBLE_FAST}#include "{checkout / trial.file}"\n'
    else:
        body = f'#include "{checkout / trial.file}"\n'
    source = folder / f"{trial.label}.cu"
    source.write_text(body + WRAPPER.replace("CALL", trial.call))
    return source


def build(trial: Trial, checkout: Path, cache: Path, commit: str) -> Path:
    """The trial as a shared library on the CUDA runtime shim."""
    source = write_source(trial, checkout, cache / "wrapped" / trial.label)
    made = compile_object(source, trial.arch, ["-I", str(source.parent)], cache, commit)
    return link([made], cache / "libraries" / f"{trial.label}.so", shared=True)


def bound_of(want: np.ndarray, step: float, k: int) -> np.ndarray:
    """Half a unit in the last place of the result's type, and what fp32 sums of k products may lose."""
    return np.abs(want) * step + 1e-4 * max(1.0, float(np.sqrt(k)))


def inputs_of(trial: Trial) -> tuple[list[np.ndarray], np.ndarray, np.ndarray, str]:
    """Buffers (the result last), what the result should be, how far off it may be, and its type."""
    m, n, k = trial.shape
    generator = torch.Generator().manual_seed(3)
    if trial.data.startswith("bf16"):
        a, b = (torch.randn(rows, k, generator=generator).bfloat16() for rows in (m, n))
        want = a.double() @ b.double().T
        want = want.T if trial.data == "bf16t" else want
        buffers = [x.view(torch.int16).numpy() for x in (a, b)]
        want = want.numpy()
        return [*buffers, np.zeros(m * n, np.int16)], want, bound_of(want, BF16, k), "bfloat16"
    data = generate_input(m=m, n=n, k=k, l=1, seed=7, device="cpu")
    flat = [np.frombuffer(bytes(nvfp4.as_bytes(x).permute(2, 0, 1).contiguous().numpy()), np.uint8) for x in data[:3]]
    # The permuted view's bytes in the order of memory.
    plain = [nvfp4.as_bytes(x)[:, :, 0].contiguous().numpy().ravel() for x in data[3:5]]
    scales = [nvfp4.as_bytes(x).permute(5, 2, 4, 0, 1, 3).contiguous().numpy().ravel() for x in data[6:9]]
    out = np.zeros(m * n, np.int16)
    if trial.data == "dual":
        want = oracle(data)[:, :, 0].double().numpy()
        return [*flat, *scales, out], want, bound_of(want, FP16, k), "float16"
    left, right = (nvfp4.decode(data[i][:, :, 0], data[i + 3][:, :, 0]).double() for i in (0, 1))
    want = (left @ right.T).numpy()
    return [*flat[:2], *plain, *scales[:2], out], want, bound_of(want, FP16, k), "float16"


def run(library: Path, trial: Trial, data: tuple, mode: str, **variables: str) -> dict:
    """One call in one mode, in this process: the CUDA runtime shim reads its environment variables once."""
    report = library.with_suffix(".json")
    report.unlink(missing_ok=True)
    os.environ |= {"NVFP4_SIMULATE_MODE": mode, "NVFP4_SIMULATE_JSON": str(report)}
    os.environ |= {"NVFP4_SIMULATE_CHIP": CHIPS[trial.arch]} | variables
    os.environ["NVFP4_SIMULATE_GO_ON"] = "1"  # their host code stops at an error; the values are wanted
    buffers, want, bound, kind = data
    buffers = [np.ascontiguousarray(buffer).copy() for buffer in buffers]
    pointers = (ctypes.c_void_p * len(buffers))(*(buffer.ctypes.data for buffer in buffers))
    sizes = (ctypes.c_size_t * len(buffers))(*(buffer.nbytes for buffer in buffers))
    opened = ctypes.CDLL(str(library))
    status = getattr(opened, trial.entry)(pointers, sizes, len(buffers), *trial.shape)
    row = {"status": status, **compare(values(buffers[-1], kind).reshape(want.shape), want, bound)}
    dlclose(opened._handle)  # the shim writes its report when it is unloaded
    return row | of_report(report, "no kernel ran")


def cases() -> Iterator[Case]:
    """All of them, in the table's order."""

    def prepare(trial: Trial, sources: Sources) -> Callable[[str], dict]:
        repository = REPOSITORIES[trial.repository]
        library = build(trial, sources.checkout(repository), sources.cache, sources.commit(repository))
        data = inputs_of(trial)
        return lambda mode: in_a_child(lambda: run(library, trial, data, mode))

    for trial in TRIALS:
        name = f"{trial.file.rsplit('/', 1)[-1]} {trial.name}".strip()
        size = " x ".join(map(str, trial.shape))
        yield Case(REPOSITORIES[trial.repository], name, trial.shows, size, trial.arch, partial(prepare, trial))
