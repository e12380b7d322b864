"""Public kernels whose times the clock predicts: sources at pinned commits, compiled on the CUDA runtime's shim."""

from __future__ import annotations

import ast
import hashlib
import os
import subprocess
from dataclasses import dataclass, field
from pathlib import Path

from simulator.python.toolchain import built, nvcc

COMMITS = {
    "NaregAmirianMegan/NVFP4_Kernels": "0a072dcf5db5ab4697b11b7498168bf087b9a899",
    "jIab-b/nvfp4_gemm": "92166a3d0b0e069fbcf07c8b017e4e47479202ea",
    "gau-nernst/gpu-mode-kernels": "aee9cda6b6444f774ce5eaee1ec1a5c84acaa521",
}
LIMIT = 1800  # seconds of a fetch or a compilation

# The projects' host code needs only a pointer with sizes from torch.
TORCH_STUB = """#pragma once
#include <cuda_bf16.h>
#include <cuda_runtime.h>
#include <cstdint>
#include <cstdio>
#include <cstdlib>
#include <cassert>
#include <cmath>
#include <stdexcept>
#include <string>
#include <tuple>
#include <vector>
#define TORCH_CHECK(condition, ...) do { if (!(condition)) std::abort(); } while (0)
#define TORCH_LIBRARY(...) static void unused_library(stub_library &m)
struct stub_library { template <class... T> void def(T...) {} template <class... T> void impl(T...) {} };
namespace at {
struct Half;
struct Tensor {
    void *address = nullptr; int64_t sizes[6] = {}, strides[6] = {};
    void *data_ptr() const { return address; }
    template <class T> T *data_ptr() const { return static_cast<T *>(address); }
    int64_t size(int i) const { return sizes[i]; }
    int64_t stride(int i) const { return strides[i]; }
};
}
namespace torch { using at::Tensor; }
"""
# Copies the host's buffers to the device as `d`, runs CALL, and copies the last buffer back.
WRAPPER = """
#include <cuda.h>
#include <vector>
extern "C" __attribute__((weak)) CUresult cuGetErrorString(CUresult, const char **text) {
    *text = "an error";
    return CUDA_SUCCESS;
}
extern "C" int trial(void **host, const size_t *bytes, int count, int m, int n, int k) {
    std::vector<void *> d(count);
    for (int i = 0; i < count; i++) {
        if (cudaMalloc(&d[i], bytes[i]) != cudaSuccess) return -1;
        cudaMemcpy(d[i], host[i], bytes[i], cudaMemcpyHostToDevice);
    }
    (void)m; (void)n; (void)k;
    CALL;
    int status = (int)cudaGetLastError();
    cudaMemcpy(host[count - 1], d[count - 1], bytes[count - 1], cudaMemcpyDeviceToHost);
    return status;
}
"""


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


def string_of(path: Path, variable: str) -> str:
    """The string that a Python file assigns to a name; the file is read, not run."""
    for node in ast.walk(ast.parse(path.read_text())):
        if isinstance(node, ast.Assign) and any(isinstance(t, ast.Name) and t.id == variable for t in node.targets):
            return ast.literal_eval(node.value)
    raise ValueError(f"{path.name} assigns no {variable}")


@dataclass
class Sources:
    """A cache folder, and checkouts that the caller already has."""

    cache: Path
    given: dict[str, Path] = field(default_factory=dict)

    def checkout(self, repository: str) -> Path:
        """The repository's tree at its pinned commit, fetched once; or the folder that the caller named."""
        if repository in self.given:
            return self.given[repository]
        folder = self.cache / "checkouts" / f"{repository.replace('/', '+')}-{COMMITS[repository][:12]}"
        if not (folder / ".git/complete").exists():
            git, url = ["git", "-C", str(folder)], f"https://github.com/{repository}"
            folder.mkdir(parents=True, exist_ok=True)
            run_quietly([*git, "init", "-q"])
            run_quietly([*git, "fetch", "-q", "--depth", "1", url, COMMITS[repository]])
            run_quietly([*git, "checkout", "-q", "--force", "FETCH_HEAD"])
            (folder / ".git/complete").touch()
        return folder

    def commit(self, repository: str) -> str:
        """The checkout's commit, from git or from the file COMMIT in an exported tree."""
        folder = self.checkout(repository)
        if (folder / "COMMIT").exists():
            return (folder / "COMMIT").read_text().strip()
        show = ["git", "-C", str(folder), "rev-parse", "HEAD"]
        done = subprocess.run(show, capture_output=True, text=True, check=False)
        return done.stdout.strip() or "unknown"


def run_quietly(command: list[str]) -> None:
    """Runs git, a compiler or a linker; raises RuntimeError with its first error where it fails."""
    done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=LIMIT)
    if done.returncode != 0:
        lines = (done.stderr + done.stdout).splitlines()
        said = next((line for line in lines if "error" in line or "undefined" in line), lines[-1] if lines else "")
        raise RuntimeError(f"{command[0]}: {said[-300:]}")


def compile_object(
    source: Path, arch: str, flags: list[str], cache: Path, depends: str, standard: str = "c++17"
) -> Path:
    """An object of a CUDA file.  `depends`: the other inputs, for instance the commit of the headers."""
    command = [nvcc(), f"-std={standard}", "-O3", "-w", "-lineinfo", "--no-compress", "--expt-relaxed-constexpr"]
    command += [f"-gencode=arch=compute_{arch},code=compute_{arch}", "-Xcompiler", "-fPIC", *flags]
    key = hashlib.sha256("\0".join([*command, depends, str(source), source.read_text()]).encode()).hexdigest()[:24]
    target = cache / "objects" / f"{source.stem}-{key}.o"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_suffix(f".{os.getpid()}.o")
        run_quietly([*command, "-c", "-o", str(partial), str(source)])
        partial.rename(target)
    return target


def link(objects: list[Path], target: Path, shared: bool) -> Path:
    """A shared library or a program on build/libcudart_sim.a."""
    target.parent.mkdir(parents=True, exist_ok=True)
    mode = ["-shared"] if shared else []
    archive = str(built("libcudart_sim.a"))
    run_quietly(["g++", *mode, "-o", str(target), *map(str, objects), archive, "-lpthread", "-lm", "-ldl"])
    return target
