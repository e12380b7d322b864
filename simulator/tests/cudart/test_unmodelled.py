"""Programs that use CUDA features outside the model link, and are refused by the name of the feature at run time."""

from __future__ import annotations

import os
import re
import shutil
import subprocess
from collections.abc import Sequence
from pathlib import Path

import pytest

from simulator.tests.sim_kit import built, nvcc

TEXTURE = r"""
#include <cstdio>
#include <cuda_runtime.h>
__global__ void fetch(float *out, cudaTextureObject_t texture) {
    int i = threadIdx.x;
    out[i] = tex2D<float>(texture, i % 4 + 1.0f, i / 4 + 0.5f);
}
int main() {
    cudaArray_t array = nullptr;
    cudaMipmappedArray_t levels = nullptr;
    float host[16], back[16] = {};
    for (int i = 0; i < 16; i++) {
        host[i] = (float)i;
    }
    cudaChannelFormatDesc format = cudaCreateChannelDesc<float>();
    std::printf("%d %d ", format.x, format.f == cudaChannelFormatKindFloat);
    std::printf("%d ", (int)cudaMallocMipmappedArray(&levels, &format, make_cudaExtent(4, 4, 0), 2));
    cudaMallocArray(&array, &format, 4, 4);
    cudaMemcpy2DToArray(array, 0, 0, host, 16, 16, 4, cudaMemcpyHostToDevice);
    cudaResourceDesc resource = {};
    resource.resType = cudaResourceTypeArray;
    resource.res.array.array = array;
    cudaTextureDesc how = {};
    how.filterMode = cudaFilterModeLinear;
    cudaTextureObject_t texture = 0;
    std::printf("%d ", (int)cudaCreateTextureObject(&texture, &resource, &how, nullptr));
    cudaPitchedPtr box;
    unsigned char corner[2] = {};
    cudaMalloc3D(&box, make_cudaExtent(5, 3, 2));
    cudaMemset3D(box, 1, make_cudaExtent(5, 3, 2));
    cudaMemset3D(box, 7, make_cudaExtent(5, 3, 1));
    cudaMemcpy2D(corner, 1, (char *)box.ptr + 2 * box.pitch + 4, 3 * box.pitch, 1, 2, cudaMemcpyDeviceToHost);
    std::printf("%d %d ", corner[0], corner[1]);
    float *out = nullptr;
    cudaMalloc(&out, sizeof back);
    fetch<<<1, 16>>>(out, texture);
    cudaMemcpy(back, out, sizeof back, cudaMemcpyDeviceToHost);
    int right = 0;
    for (int i = 0; i < 16; i++) { /* halfway to the next texel, clamped */
        right += back[i] == (float)i + (i % 4 < 3 ? 0.5f : 0.0f);
    }
    std::printf("%d\n", right);
}
"""
NOT_SUPPORTED = 801  # driver_types.h, cudaErrorNotSupported


def run(source: str, folder: Path, *words: str, flags: Sequence[str] = ()) -> subprocess.CompletedProcess[str]:
    (folder / "program.cu").write_text(source)
    command = [nvcc(), "-arch=sm_90a", "-cudart=none", "-o", folder / "program", folder / "program.cu"]
    command += [*flags, built("libcudart_sim.a"), "-ldl", "-lpthread", "-lm"]
    linked = subprocess.run(command, capture_output=True, text=True, check=False)
    assert linked.returncode == 0, linked.stderr
    return subprocess.run([folder / "program", *words], capture_output=True, text=True, check=False, timeout=500)


def test_textures_are_fetched_and_mipmaps_refused_by_name(tmp_path):
    done = run(TEXTURE, tmp_path)
    assert (done.returncode, done.stdout) == (0, f"32 1 {NOT_SUPPORTED} 0 7 1 16\n"), done.stderr
    assert "cudaMallocMipmappedArray is not modelled" in done.stderr


def test_default_streams_per_thread_are_refused_by_name(tmp_path):
    source = TEXTURE.replace(
        "int main() {", "__global__ void nothing() {}\nint main() { nothing<<<1, 1>>>(); return 0;"
    )
    done = run(source, tmp_path, flags=["--default-stream", "per-thread"])
    assert done.returncode == 0 and "_ptsz is not modelled" in done.stderr


def test_every_function_of_the_cuda_runtime_links():
    compiler = Path(os.environ.get("CUDA_HOME", "/usr/local/cuda")) / "bin/nvcc"
    tops = [Path(nvcc()).resolve().parents[1], compiler.parents[1], *Path("/usr/local").glob("cuda*")]
    libraries = [path for top in tops for path in top.glob("lib*/libcudart.so") if "ptxsim" not in str(path)]
    if not libraries:
        pytest.skip("the toolkit has no libcudart.so")
    theirs, ours = (
        {line.split()[2].split("@")[0] for line in output.splitlines() if len(line.split()) == 3}
        for output in (
            subprocess.run(["nm", "-D", "--defined-only", path], capture_output=True, text=True, check=True).stdout
            for path in (libraries[0], built("cuda/libptxsim_cuda.so"))
        )
    )
    assert not {name for name in theirs - ours if name.startswith(("cuda", "__cuda"))}


def test_every_function_of_the_cuda_driver_links():
    """Those that the header declares, with the names that its macros give them."""
    tops = [Path(nvcc()).resolve().parents[1], *Path("/usr/local").glob("cuda*")]
    headers = [
        path for top in tops for place in ("include", "targets/*/include") for path in top.glob(f"{place}/cuda.h")
    ]
    if not headers or shutil.which("cpp") is None:
        pytest.skip("no cuda.h or no C preprocessor")
    text = subprocess.run(["cpp", "-P", headers[0]], capture_output=True, text=True, check=True).stdout
    theirs = set(re.findall(r"\b(cu[A-Z]\w*)\s*\(", text))
    nm = ["nm", "-D", "--defined-only", built("cuda/libptxsim_cuda.so")]
    names = subprocess.run(nm, capture_output=True, text=True, check=True).stdout.split()
    assert len(theirs) > 300 and not theirs - {name.split("@")[0] for name in names}
