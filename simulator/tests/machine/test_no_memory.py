"""A failed allocation ends the run as out of memory: no crash, no leak, no result that looks valid.

The simulator's objects are linked with an allocator whose n-th request fails, once or from then on.
"""

from __future__ import annotations

import os
import re
import subprocess
from pathlib import Path

import pytest

from simulator.tests.sim_kit import HEADER, PTX, ROOT, built, nvcc
from simulator.validation.mutants import gemm_ptx

NOT_RUN = 4  # exit status if nothing was run to its end
PIPELINE = [PTX / "pipeline.ptx", "--block", "64", "--", "buf:4096", "buf:4096", "u32:7"]

# Two warps write one word: findings are made while the kernel runs.
RACE = """
.visible .entry race() {
    .reg .b32 %r<4>;
    .shared .align 16 .b8 box[64];
    mov.u32 %r1, %tid.x;
    st.shared.u32 [box], %r1;
    ld.shared.u32 %r2, [box+16];
    ret;
}
"""

# Flags in memory, copies, a changed tensor map, a call: further causes for allocations.
EVERYTHING = """
.func (.param .b32 result) twice(.param .b32 given) {
    .reg .b32 %r<3>;
    ld.param.b32 %r1, [given];
    add.u32 %r2, %r1, %r1;
    st.param.b32 [result], %r2;
    ret;
}
.visible .entry everything(.param .u64 p) {
    .reg .pred %p<3>;
    .reg .b32 %r<12>;
    .reg .b64 %rd<4>;
    .shared .align 128 .b8 box[1024];
    .shared .align 8 .b8 bar[8];
    ld.param.u64 %rd1, [p];
    mov.u32 %r1, %tid.x;
    mov.u32 %r2, box;
    mov.u32 %r3, bar;
    setp.ne.u32 %p1, %r1, 0;
    @!%p1 mbarrier.init.shared::cta.b64 [%r3], 32;
    bar.sync 0;
    shl.b32 %r4, %r1, 4;
    add.u32 %r5, %r2, %r4;
    cp.async.ca.shared.global [%r5], [%rd1], 16;
    cp.async.mbarrier.arrive.noinc.shared::cta.b64 [%r3];
WAIT:
    mbarrier.try_wait.parity.shared::cta.b64 %p2, [%r3], 0;
    @!%p2 bra WAIT;
    st.release.gpu.global.u32 [%rd1+512], %r1;
    ld.acquire.gpu.global.u32 %r6, [%rd1+512];
    st.relaxed.gpu.global.u32 [%rd1+516], %r1;
    barrier.cluster.arrive.aligned;
    barrier.cluster.wait.aligned;
    {
        .param .b32 given;
        .param .b32 result;
        st.param.b32 [given], %r6;
        call (result), twice, (given);
        ld.param.b32 %r7, [result];
    }
    fence.proxy.tensormap::generic.acquire.gpu [%rd1], 128;
    ret;
}
"""

WGMMA = """
.visible .entry product() {
    .reg .pred %p<2>;
    .reg .b32 %r<3>;
    .reg .f32 %f<5>;
    .reg .b64 %rd<3>;
    .shared .align 1024 .b8 box[8192];
    mov.u32 %r1, box;
    mov.b64 %rd1, 0x0000004000080040;
    mov.b64 %rd2, 0x0000004000080040;
    setp.ne.u32 %p1, 0, 0;
    wgmma.fence.sync.aligned;
    wgmma.mma_async.sync.aligned.m64n8k16.f32.f16.f16 {%f1, %f2, %f3, %f4}, %rd1, %rd2, %p1, 1, 1, 0, 0;
    wgmma.commit_group.sync.aligned;
    wgmma.wait_group.sync.aligned 0;
    ret;
}
"""


# Each CTA releases a flag of its own and hears of the one before.
FLAGS = """
.visible .entry flags(.param .u64 p) {
    .reg .b32 %r<4>;
    .reg .b64 %rd<4>;
    ld.param.u64 %rd1, [p];
    mov.u32 %r1, %ctaid.x;
    mul.wide.u32 %rd2, %r1, 64;
    add.u64 %rd3, %rd1, %rd2;
    ld.acquire.gpu.global.u32 %r2, [%rd3];
    st.relaxed.gpu.global.u32 [%rd3+4], %r1;
    st.release.gpu.global.u32 [%rd3+64], %r1;
    ret;
}
"""


def command(name: str, folder: Path) -> list:
    """Options and arguments of the tool for one of the kernels."""
    texts = {"race": RACE, "everything": EVERYTHING, "flags": FLAGS, "wgmma": WGMMA}
    path = folder / "kernel.ptx"
    if name == "parse":
        return [PTX / "vocabulary.ptx", "--parse"]
    if name.startswith("pipeline"):
        extra = {"pipeline": [], "pipeline late": ["--mode", "late"], "pipeline poison": ["--mode", "poison"]}[name]
        return [*PIPELINE[:1], *extra, *PIPELINE[1:]]
    if name == "tcgen05":
        path.write_text(gemm_ptx.kernel(chunks=1))
        return [path, "--block", "256", "--", "buf:16384", "buf:16384", "buf:2048", "buf:2048", "buf:65536"]
    path.write_text(HEADER + texts[name])
    arguments = ["--", "buf:4096"] if name in ("everything", "flags") else []
    grid = ["--grid", "8"] if name == "flags" else []
    return [path, *grid, "--block", "128" if name == "wgmma" else "32" if name == "everything" else "64", *arguments]


def run(words: list, at: int, all_after: bool, threads: int = 1) -> tuple[int, int, int, str]:
    """Exit status, allocations, blocks not freed, and the output."""
    environment = dict(os.environ, NO_MEMORY_AT=str(at), **({"NO_MEMORY_ALL": "1"} if all_after else {}))
    full = [built("ptxsim_no_memory"), words[0], "--threads", str(threads), *words[1:]]
    done = subprocess.run(full, env=environment, capture_output=True, text=True, timeout=500, check=False)
    counts = re.search(r"no_memory: (\d+) requests, (-?\d+) live", done.stderr)
    assert counts, (at, all_after, done.returncode, done.stderr[-500:])
    return done.returncode, int(counts[1]), int(counts[2]), done.stdout + done.stderr


def says_so(text: str) -> bool:
    return "out of memory" in text or "Cannot allocate memory" in text


ENDS, STEP = 100, 24  # fail all of the first and last requests, and every 24th in between: most come from one loop


def chosen(requests: int) -> list[int]:
    """The requests that are made to fail."""
    return [at for at in range(requests) if at < ENDS or at >= requests - ENDS or at % STEP == 0]


KERNELS = ("parse", "pipeline", "pipeline late", "pipeline poison", "race", "everything", "flags", "wgmma", "tcgen05")


@pytest.mark.parametrize("name", KERNELS)
def test_each_allocation_that_fails_ends_the_run(name, tmp_path):
    words = command(name, tmp_path)
    status, requests, live, said = run(words, -1, False)
    assert live == 0 and status in (0, 1, 2), said
    for at in chosen(requests):
        for all_after in (False, True):
            failed, _, live, said = run(words, at, all_after)
            assert (failed, live) == (NOT_RUN, 0), (at, all_after, said)
            assert says_so(said), (at, all_after, said)


def test_a_worker_without_memory_stops_the_others(tmp_path):
    words = [PTX / "add.ptx", "--grid", "8", "--block", "32", "--", *["buf:4096"] * 3, "u32:256"]
    status, requests, live, said = run(words, -1, False, threads=3)
    assert (status, live) == (0, 0), said
    for at in range(requests):  # the number of requests, and the worker that fails, depend on the scheduling of threads
        failed, _, live, said = run(words, at, True, threads=3)
        assert live == 0 and failed == (NOT_RUN if says_so(said) else 0), (at, said)


HOST = r"""
#include <cstdio>
#include <cuda_runtime.h>
__constant__ int scale;
__global__ void add(int *out) { atomicAdd(out, scale); }
static cudaError_t worst = cudaSuccess;
static void note(cudaError_t error) {
    if (error != cudaSuccess && error != cudaErrorMemoryAllocation) {
        std::printf("%s\n", cudaGetErrorName(error));
    }
    worst = error == cudaSuccess ? worst : error;
}
int main() {
    int *out = nullptr, two = 2, zero = 0, host = -1;
    cudaEvent_t event;
    cudaStream_t queue;
    note(cudaMalloc(&out, sizeof *out));
    note(cudaStreamCreate(&queue));
    note(cudaEventCreate(&event));
    if (worst != cudaSuccess) { return 9; }
    note(cudaMemcpyToSymbol(scale, &two, sizeof two));
    note(cudaMemcpy(out, &zero, sizeof zero, cudaMemcpyHostToDevice));
    if (worst != cudaSuccess) { return 9; }
    add<<<1, 32>>>(out);
    note(cudaGetLastError());
    note(cudaEventRecord(event, queue));
    note(cudaMemcpy(&host, out, sizeof host, cudaMemcpyDeviceToHost));
    cudaEventDestroy(event);
    cudaStreamDestroy(queue);
    note(cudaFree(out));
    return worst != cudaSuccess ? 9 : host == 64 ? 0 : 1;
}
"""


def test_the_cuda_runtime_shim_says_that_memory_is_out(tmp_path):
    """Every failure gives cudaErrorMemoryAllocation, also at registration; without one the result is right."""
    (tmp_path / "host.cu").write_text(HOST)
    allocator, runtime = built("simulator/tests/machine/no_memory.o"), built("libcudart_sim.a")
    names = ("malloc", "calloc", "realloc", "aligned_alloc", "strdup", "free")
    program = tmp_path / "host"
    done = subprocess.run(
        [nvcc(), "-std=c++17", "-gencode=arch=compute_90a,code=compute_90a", "--no-compress", "-cudart", "none",
         *[f"-Xlinker=--wrap={name}" for name in names], "-o", program, tmp_path / "host.cu", allocator, runtime],
        cwd=ROOT, capture_output=True, text=True, check=False,
    )  # fmt: skip
    assert done.returncode == 0, done.stderr

    def call(at: int, all_after: bool) -> tuple[int, int, str]:
        environment = dict(os.environ, NO_MEMORY_AT=str(at), **({"NO_MEMORY_ALL": "1"} if all_after else {}))
        done = subprocess.run([program], env=environment, capture_output=True, text=True, timeout=500, check=False)
        counts = re.search(r"no_memory: (\d+) requests", done.stderr)
        return done.returncode, int(counts[1]) if counts else -1, done.stdout + done.stderr

    status, requests, said = call(-1, False)
    assert status == 0 and requests > 0, said
    for at in range(requests):
        for all_after in (False, True):
            status, _, said = call(at, all_after)
            assert status == 9 and "cudaError" not in said, (at, all_after, said)


def test_failed_allocations_of_the_clock_and_the_timeline_end_the_run(tmp_path):
    """Each of the first allocations, made by the clock, and some of the others."""
    words = [*PIPELINE[:1], "--time", "h200", "--timeline", tmp_path / "trace.json", *PIPELINE[1:]]
    status, requests, live, said = run(words, -1, False)
    assert (status, live) == (0, 0), said
    for at in sorted({*range(20), *range(20, requests, 23), *range(requests - 20, requests)}):
        failed, _, live, said = run(words, at, True)
        assert (failed, live) == (NOT_RUN, 0) and says_so(said), (at, said)


def test_failed_allocations_for_suppressions_end_the_run(tmp_path):
    judged = tmp_path / "judged"
    judged.write_text("race race\nlate-read * kernel.cu:7\nuninitialised everything ptx:30\n")
    words = command("race", tmp_path)
    words[1:1] = ["--suppressions", judged]
    status, requests, live, said = run(words, -1, False)
    assert live == 0 and status in (0, 1, 2), said
    for at in range(requests // 2):  # later requests belong to the report
        failed, _, live, said = run(words, at, True)
        assert (failed, live) == (NOT_RUN, 0) and says_so(said), (at, said)
