"""Members of cudaDeviceProp: each has its own value, as the CUDA C++ Programming Guide gives it."""

from __future__ import annotations

import os
import subprocess

import pytest

from simulator.tests.sim_kit import built, nvcc

FLAGS = (
    "streamPrioritiesSupported globalL1CacheSupported localL1CacheSupported computePreemptionSupported clusterLaunch"
    " cooperativeLaunch unifiedAddressing managedMemory concurrentManagedAccess canMapHostMemory hostRegisterSupported"
    " concurrentKernels memoryPoolsSupported"
)
MEMBERS = {flag: [1] for flag in FLAGS.split()} | {
    "totalConstMem": [65536],
    "memPitch": [2**31 - 1],
    "textureAlignment": [512],
    "texturePitchAlignment": [32],
    "surfaceAlignment": [512],
    "maxTexture1D": [131072],
    "maxTexture1DMipmap": [32768],
    "maxTexture1DLayered": [32768, 2048],
    "maxTexture2D": [131072, 65536],
    "maxTexture2DLinear": [131072, 65000, 2097120],
    "maxTexture2DMipmap": [32768, 32768],
    "maxTexture2DGather": [32768, 32768],
    "maxTexture2DLayered": [32768, 32768, 2048],
    "maxTexture3D": [16384, 16384, 16384],
    "maxTexture3DAlt": [8192, 8192, 32768],
    "maxTextureCubemap": [32768],
    "maxTextureCubemapLayered": [32768, 2046],
    "maxSurface1D": [32768],
    "maxSurface1DLayered": [32768, 2048],
    "maxSurface2D": [131072, 65536],
    "maxSurface2DLayered": [32768, 32768, 2048],
    "maxSurface3D": [16384, 16384, 16384],
    "maxSurfaceCubemap": [32768],
    "maxSurfaceCubemapLayered": [32768, 2046],
    "sharedMemPerBlock": [48 << 10],
    "reservedSharedMemPerBlock": [1024],
    "maxThreadsPerBlock": [1024],
    "maxThreadsDim": [1024, 1024, 64],
    "maxGridSize": [2**31 - 1, 65535, 65535],
    "regsPerBlock": [65536],
    "regsPerMultiprocessor": [65536],
    "warpSize": [32],
}
CHIPS = {
    "h200": {
        "major": [9],
        "minor": [0],
        "multiProcessorCount": [132],
        "sharedMemPerBlockOptin": [227 << 10],
        "sharedMemPerMultiprocessor": [228 << 10],
        "maxThreadsPerMultiProcessor": [2048],
        "maxBlocksPerMultiProcessor": [32],
        "l2CacheSize": [50 << 20],
        "asyncEngineCount": [3],
    },
    "gb10": {
        "major": [12],
        "minor": [1],
        "multiProcessorCount": [48],
        "sharedMemPerBlockOptin": [99 << 10],
        "sharedMemPerMultiprocessor": [100 << 10],
        "maxThreadsPerMultiProcessor": [1536],
        "maxBlocksPerMultiProcessor": [24],
        "l2CacheSize": [24 << 20],
        "asyncEngineCount": [2],
    },
}
PROGRAM = r"""
#include <cstdio>
#include <cuda_runtime.h>
template <typename T> void show(const char *name, const T &value) { std::printf("%s %lld\n", name, (long long)value); }
template <typename T, int count> void show(const char *name, const T (&values)[count]) {
    for (const T &value : values) {
        show(name, value);
    }
}
int main() {
    cudaDeviceProp p;
    if (cudaGetDeviceProperties(&p, 0) != cudaSuccess) {
        return 1;
    }
    SHOWN
}
"""


@pytest.fixture(scope="module")
def program(tmp_path_factory):
    folder = tmp_path_factory.mktemp("properties")
    shown = "\n    ".join(f'show("{name}", p.{name});' for name in MEMBERS | CHIPS["h200"])
    (folder / "properties.cu").write_text(PROGRAM.replace("SHOWN", shown))
    command = [nvcc(), "-std=c++17", "-cudart=none", "-o", folder / "properties", folder / "properties.cu"]
    done = subprocess.run(
        [*command, str(built("libcudart_sim.a")), "-lpthread", "-lm"], capture_output=True, text=True, check=False
    )
    assert done.returncode == 0, done.stderr
    return folder / "properties"


@pytest.mark.parametrize("chip", CHIPS)
def test_each_member_has_its_own_value(program, chip):
    environment = dict(os.environ, NVFP4_SIMULATE_CHIP=chip)
    printed = subprocess.run([program], env=environment, capture_output=True, text=True, check=True).stdout
    said: dict[str, list[int]] = {}
    for line in printed.splitlines():
        name, value = line.split()
        said.setdefault(name, []).append(int(value))
    assert said == MEMBERS | CHIPS[chip]
