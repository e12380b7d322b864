"""Kernels of others on the simulator: compiles a fetched checkout's own files, runs them in several modes, compares.

    python -m scripts.evidence.third_party.kernels learn-cuda=PATH fast.cu=PATH NVFP4_Kernels=PATH nvfp4_gemm=PATH
    python -m scripts.evidence.third_party.kernels --render                       # only THIRD_PARTY.md, from the JSON

Nothing of theirs is kept: host code and kernels are compiled in a scratch folder, with wrappers of ours around
them, and linked against build/libcudart_sim.a, so that their own host code encodes the tensor maps and launches.
Results go to simulator/results/third_party.json, the table to simulator/results/THIRD_PARTY.md.
"""

from __future__ import annotations

import argparse
import ast
import ctypes
import json
import os
import re
import subprocess
import sys
import tempfile
import time
from dataclasses import dataclass, replace
from pathlib import Path

import numpy as np
import torch

from reference import nvfp4
from reference.reference import generate_input, oracle
from scripts.common.toolchain import built, nvcc
from scripts.evidence.third_party.render import render

ROOT = Path(__file__).resolve().parents[3]
MODES = ("eager", "late", "random:1", "random:2")
REPOSITORIES = {
    "learn-cuda": "gau-nernst/learn-cuda",
    "fast.cu": "pranjalssh/fast.cu",
    "NVFP4_Kernels": "NaregAmirianMegan/NVFP4_Kernels",
    "nvfp4_gemm": "jIab-b/nvfp4_gemm",
}

# What their host code needs of torch: a pointer with sizes.
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
PREAMBLE_FAST = """#define NDEBUG // as its author builds it
#include <cassert>
#include <cstdio>
#include <cstdlib>
#include <cuda.h>
#include <cudaTypedefs.h>
#include <cuda/barrier>
#include <vector>
#include <cuda_runtime.h>
#include <cuda_bf16.h>
using bf16 = __nv_bfloat16;
#define CEIL_DIV(a, b) (((a) + (b) - 1) / (b))
#define cudaCheck(e) do { if ((e) != cudaSuccess) std::fprintf(stderr, "cuda error, line %d\\n", __LINE__); } while (0)
"""


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
    string: str = ""  # the Python variable that holds the CUDA source
    patch: tuple[str, str] = ("", "")  # a regular expression and what replaces it, to run past a finding


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


def dual(file: str, shape: tuple[int, int, int], shows: str) -> Trial:
    path = f"nvfp4_dual_gemm/{file}.py"
    return Trial("NVFP4_Kernels", path, "100a", DUAL_CALL, "dual", shape, shows, string="nvfp4_dual_gemm_cuda_source")


def single(file: str, shape: tuple[int, int, int], shows: str, name: str = "", patch: tuple = ("", "")) -> Trial:
    arguments = ("nvfp4_gemm", f"{file}.py", "100a", SINGLE_CALL, "single", shape, shows, name)
    return Trial(*arguments, string="cuda_src", patch=patch)


# A warp's lanes, where the author leaves the lane of the address zero.
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
    dual("sub_ptx_v2", (256, 512, 2048), "NVFP4 dual GEMM, cta_group::2, N = 64"),
    dual("sub_ptx_v2", (512, 512, 2048), "NVFP4 dual GEMM, cta_group::2, N = 128"),
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


def compile_trial(trial: Trial, checkout: Path, folder: Path, compiler: str) -> Path:
    """Their file and our wrapper as a shared library on the CUDA runtime shim."""
    for name in ("torch/library.h", "torch/extension.h", "ATen/core/Tensor.h", "ATen/ATen.h"):
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(TORCH_STUB if name == "torch/library.h" else "#include <torch/library.h>\n")
    wrapper = WRAPPER.replace("CALL", trial.call)
    if trial.string:
        body = string_of(checkout / trial.file, trial.string)
        body = re.sub(*trial.patch, body) if trial.patch[0] else body
    elif trial.repository == "fast.cu":
        body = f'{PREAMBLE_FAST}#include "{checkout / trial.file}"\n'
    else:
        body = f'#include "{checkout / trial.file}"\n'
    (folder / "trial.cu").write_text(body + wrapper)
    target, gencode = folder / "trial.so", f"-gencode=arch=compute_{trial.arch},code=compute_{trial.arch}"
    command = [compiler, "-std=c++17", "-O3", "-w", "-lineinfo", gencode, "--no-compress", "-I", str(folder)]
    command += ["--expt-relaxed-constexpr", "-Xcompiler", "-fPIC", "-c", "-o", str(folder / "trial.o")]
    subprocess.run([*command, str(folder / "trial.cu")], check=True, capture_output=True, text=True)
    library = built("libcudart_sim.a")
    link = ["g++", "-shared", "-o", str(target), str(folder / "trial.o"), str(library), "-lpthread", "-lm"]
    subprocess.run(link, check=True, capture_output=True, text=True)
    return target


def inputs_of(trial: Trial) -> tuple[list[np.ndarray], np.ndarray, float]:
    """Buffers (the result last), what the result should be, and the rounding that its type allows."""
    m, n, k = trial.shape
    generator = torch.Generator().manual_seed(3)
    if trial.data.startswith("bf16"):
        a, b = (torch.randn(rows, k, generator=generator).bfloat16() for rows in (m, n))
        want = a.double() @ b.double().T
        want = want.T if trial.data == "bf16t" else want
        buffers = [x.view(torch.int16).numpy() for x in (a, b)]
        return [*buffers, np.zeros(m * n, np.int16)], want.numpy(), 2.0**-8
    data = generate_input(m=m, n=n, k=k, l=1, seed=7, device="cpu")
    flat = [np.frombuffer(bytes(nvfp4.as_bytes(x).permute(2, 0, 1).contiguous().numpy()), np.uint8) for x in data[:3]]
    # As the permuted view lies in memory.
    plain = [nvfp4.as_bytes(x)[:, :, 0].contiguous().numpy().ravel() for x in data[3:5]]
    scales = [nvfp4.as_bytes(x).permute(5, 2, 4, 0, 1, 3).contiguous().numpy().ravel() for x in data[6:9]]
    if trial.data == "dual":
        return [*flat, *scales, np.zeros(m * n, np.int16)], oracle(data)[:, :, 0].double().numpy(), 2.0**-10
    left, right = (nvfp4.decode(data[i][:, :, 0], data[i + 3][:, :, 0]).double() for i in (0, 1))
    return [*flat[:2], *plain, *scales[:2], np.zeros(m * n, np.int16)], (left @ right.T).numpy(), 2.0**-10


def worker(library: str, index: int, shape: list[int]) -> None:
    """In a process of its own: the CUDA runtime shim reads the mode from the environment once."""
    trial = replace(TRIALS[index], shape=tuple(shape or TRIALS[index].shape))
    buffers, want, step = inputs_of(trial)
    buffers = [np.ascontiguousarray(buffer).copy() for buffer in buffers]
    pointers = (ctypes.c_void_p * len(buffers))(*(buffer.ctypes.data for buffer in buffers))
    sizes = (ctypes.c_size_t * len(buffers))(*(buffer.nbytes for buffer in buffers))
    status = ctypes.CDLL(library).trial(pointers, sizes, len(buffers), *trial.shape)
    kind = torch.bfloat16 if trial.data.startswith("bf16") else torch.float16
    got = torch.from_numpy(buffers[-1]).view(kind).double().numpy().reshape(want.shape)
    # Half a unit of the result's type, and what fp32 accumulation may lose.
    bound = np.abs(want) * step + 1e-4 * max(1.0, float(np.sqrt(trial.shape[2])))
    error = np.abs(got - want)
    wrong = int((~(error <= bound)).sum())
    print(json.dumps({"status": status, "wrong": wrong, "of": want.size, "max_error": float(np.nanmax(error))}))


def run_trial(index: int, library: Path, mode: str, folder: Path) -> dict:
    report = folder / "report.json"
    report.unlink(missing_ok=True)
    chip = "h200" if TRIALS[index].arch == "90a" else "b200"
    environment = dict(os.environ, NVFP4_SIMULATE_MODE=mode, NVFP4_SIMULATE_JSON=str(report), NVFP4_SIMULATE_CHIP=chip)
    environment["NVFP4_SIMULATE_GO_ON"] = "1"  # their host code stops at an error; the values are wanted
    begin = time.monotonic()
    command = [sys.executable, "-m", "scripts.evidence.third_party.kernels", "--worker", str(library), str(index)]
    done = subprocess.run(command, cwd=ROOT, env=environment, capture_output=True, text=True, check=False, timeout=600)
    row = {"mode": mode, "host_seconds": round(time.monotonic() - begin, 1)}
    if done.returncode == 0:
        row |= json.loads(done.stdout.splitlines()[-1])
    else:
        row["failed"] = (done.stderr.strip() or "no message").splitlines()[-1][:300]
    if report.exists():
        full = json.loads(report.read_text())
        row["verdict"] = full["verdict"]
        if full["counters"]["ctas"] == 0:
            row["failed"] = (done.stderr.strip() or "not launched").splitlines()[-1][:300]
        found = {(f["verdict"], f["kind"]): f for f in reversed(full["findings"])}
        row["findings"] = [
            {"verdict": v, "kind": kind, "source": Path(f["source"]).name, "message": f["message"][:300]}
            for (v, kind), f in sorted(found.items())
        ]
    return row


def commit_of(checkout: Path) -> str:
    """The commit of a checkout, or what a file COMMIT beside an exported tree says."""
    if (checkout / "COMMIT").exists():
        return (checkout / "COMMIT").read_text().strip()
    done = subprocess.run(["git", "-C", checkout, "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
    return done.stdout.strip() or "unknown"


def main() -> None:
    parser = argparse.ArgumentParser(description=(__doc__ or "").splitlines()[0])
    parser.add_argument("checkouts", nargs="*", help="NAME=PATH, with NAME one of " + ", ".join(REPOSITORIES))
    parser.add_argument("--only", default="", help="trials whose file or name contains this")
    parser.add_argument("--json", type=Path, default=ROOT / "simulator/results/third_party.json")
    parser.add_argument("--render", action="store_true", help="write simulator/results/THIRD_PARTY.md and stop")
    parser.add_argument("--worker", nargs=2, help=argparse.SUPPRESS)
    parser.add_argument("--shape", nargs=3, type=int, help=argparse.SUPPRESS)
    options = parser.parse_args()
    if options.worker:
        worker(options.worker[0], int(options.worker[1]), options.shape)
        return
    rows = json.loads(options.json.read_text()) if options.json.exists() else []
    if not options.render:
        compiler = nvcc()
        built("libcudart_sim.a")
        checkouts = {name: Path(path).resolve() for name, path in (item.split("=", 1) for item in options.checkouts)}
        for index, trial in enumerate(TRIALS):
            key = f"{trial.repository}:{trial.file}:{trial.name}:{'x'.join(map(str, trial.shape))}"
            if trial.repository not in checkouts or options.only not in key:
                continue
            rows = [row for row in rows if row["key"] != key]
            row = {"key": key, "repository": REPOSITORIES[trial.repository], "file": trial.file, "name": trial.name}
            row |= {"commit": commit_of(checkouts[trial.repository]), "shape": trial.shape, "shows": trial.shows}
            row |= {"arch": trial.arch, "order": index, "runs": []}
            with tempfile.TemporaryDirectory() as scratch:
                try:
                    library = compile_trial(trial, checkouts[trial.repository], Path(scratch), compiler)
                    row["runs"] = [run_trial(index, library, mode, Path(scratch)) for mode in MODES]
                except subprocess.CalledProcessError as error:
                    lines = [line for line in error.stderr.splitlines() if "error" in line or "undefined" in line]
                    row["not_built"] = (lines or ["no message"])[0].replace(scratch, "")[-300:]
            rows.append(row)
            shown = [(r.get("verdict"), r.get("wrong"), r.get("failed")) for r in row["runs"]]
            print(key, row.get("not_built", shown), flush=True)
            rows.sort(key=lambda r: r["order"])
            options.json.write_text(json.dumps(rows, indent=1) + "\n")
    (ROOT / "simulator/results/THIRD_PARTY.md").write_text(render(rows))


if __name__ == "__main__":
    main()
