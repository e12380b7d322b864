"""Relocatable device code is refused by its name: the device linker leaves machine code alone."""

from __future__ import annotations

import subprocess

from simulator.tests.sim_kit import built, nvcc

UNITS = {
    "main.cu": r"""
extern __device__ int twice(int x);
extern __constant__ int table[4];
__global__ void k(int *out) { out[threadIdx.x] = twice(threadIdx.x) + table[1]; }
int main() {
    int *out;
    cudaMalloc(&out, 128);
    k<<<1, 32>>>(out);
    return cudaDeviceSynchronize() != cudaSuccess;
}
""",
    "other.cu": "__device__ int twice(int x) { return 2 * x; } __constant__ int table[4] = {5, 7, 9, 11};",
}


def test_relocatable_device_code_is_refused_by_its_name(tmp_path):
    for name, text in UNITS.items():
        (tmp_path / name).write_text(text)
    command = [nvcc(), "-arch=sm_90a", "-rdc=true", "-cudart", "shared", "-o", "program", *UNITS]
    subprocess.run(command, cwd=tmp_path, check=True, capture_output=True)
    built("cuda/libcudart.so.13")
    done = subprocess.run(
        [built("ptxsim"), "run", "--", "./program"], cwd=tmp_path, capture_output=True, text=True, check=False
    )
    assert done.returncode == 2
    assert "error: launch-refused: relocatable device code (nvcc -rdc=true" in done.stderr
    assert "compile with code=" not in done.stderr
