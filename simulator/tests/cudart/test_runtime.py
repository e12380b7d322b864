"""The CUDA runtime shim under an ordinary host program: errors, events, properties, symbols, settings."""

from __future__ import annotations

import json
import os
import subprocess
from functools import cache
from pathlib import Path

import pytest

from simulator.tests.sim_kit import HEADER, built, nvcc

PROGRAM = r"""
#include <cassert>
#include <cstdio>
#include <cuda.h>
#include <cuda_runtime.h>
__constant__ int scale[4];
__global__ void add(int *out, int rounds) {
    __shared__ int sum[256];
    sum[threadIdx.x] = 0;
    for (int i = 0; i < rounds; i++) { sum[threadIdx.x] += scale[1]; }
    out[threadIdx.x] = sum[threadIdx.x];
}
__global__ void other(int *out) { extern __shared__ int room[]; room[0] = 1; *out = room[0]; }
#define SAY(name, value) std::printf("%s=%s\n", name, cudaGetErrorName(value))
__global__ void wrong(int *out) { *(volatile int *)((char *)out + (1 << 20)) = 1; }
__global__ void asserts(int *out) { assert(out != nullptr); }
int main(int count, char **arguments_) {
    if (count > 1 && arguments_[1][0] == 'a') {
        asserts<<<1, 32>>>(nullptr);
        std::printf("wrong=%d\n", (int)cudaDeviceSynchronize());
        std::printf("again=%d %s\n", (int)cudaGetLastError(), cudaGetErrorName(cudaGetLastError()));
        std::printf("driver=%d\n", (int)cuCtxSynchronize());
        return 0;
    }
    if (count > 1 && arguments_[1][0] == 'w') {
        wrong<<<1, 32>>>(nullptr);
        SAY("wrong", cudaGetLastError());
        return 0;
    }
    cudaDeviceProp p;
    const char *text = nullptr;
    SAY("properties", cudaGetDeviceProperties(&p, 0));
    std::printf("device=%d.%d %d SMs, %zu\n", p.major, p.minor, p.multiProcessorCount, p.sharedMemPerBlockOptin);
    int *out, host[256] = {}, seven[4] = {0, 7, 0, 0};
    SAY("symbol", cudaMemcpyToSymbol(scale, seven, sizeof seven));
    cudaMalloc(&out, sizeof host);
    cudaEvent_t begin, middle, end;
    cudaEventCreate(&begin); cudaEventCreate(&middle); cudaEventCreate(&end);
    cudaStream_t queue;
    SAY("queue", cudaStreamCreate(&queue));
    cudaEventRecord(begin, queue);
    add<<<1, 256, 0, queue>>>(out, 5);
    cudaEventRecord(middle, queue);
    add<<<1, 256, 0, queue>>>(out, 500);
    cudaEventRecord(end, queue);
    cudaEventSynchronize(end);
    float less = -1, more = -1;
    SAY("elapsed", cudaEventElapsedTime(&less, begin, middle));
    cudaEventElapsedTime(&more, middle, end);
    std::printf("longer=%d\n", 0 < less && 10 * less < more);
    cudaMemcpy(host, out, sizeof host, cudaMemcpyDeviceToHost);
    std::printf("sum=%d\n", host[255]);
    CUresult found = cuGetErrorString(CUDA_ERROR_INVALID_VALUE, &text);
    std::printf("driver=%d %s\n", found, text);
    if (count > 1) {
        add<<<1, 2048>>>(out, 1);
        SAY("peek", cudaPeekAtLastError());
        SAY("last", cudaGetLastError());
        SAY("again", cudaGetLastError());
        other<<<1, 32, 100 << 10>>>(out);
        SAY("shared", cudaGetLastError());
        void *arguments[] = {&out};
        SAY("call", cudaLaunchKernel((const void *)other, dim3(0), dim3(32), arguments, 0, 0));
        SAY("forgotten", (cudaGetLastError(), cudaGetLastError()));
        add<<<1, 256>>>(out, 1);
        SAY("after", cudaGetLastError());
    }
    cudaEventDestroy(begin); cudaEventDestroy(middle); cudaEventDestroy(end);
    cudaStreamDestroy(queue);
    return cudaFree(out) != cudaSuccess;
}
"""


@cache
def program(folder: Path) -> Path:
    (folder / "program.cu").write_text(PROGRAM)
    command = [nvcc(), "-std=c++17", "-gencode=arch=compute_90a,code=compute_90a", "--no-compress", "-cudart=none"]
    done = subprocess.run(
        [*command, "-o", folder / "program", folder / "program.cu", str(built("libcudart_sim.a")), "-lpthread", "-lm"],
        capture_output=True,
        text=True,
        check=False,
    )
    assert done.returncode == 0, done.stderr
    return folder / "program"


@pytest.fixture(scope="module")
def folder(tmp_path_factory):
    return tmp_path_factory.mktemp("runtime")


def run(folder, *arguments, mode="eager", **changes):
    report = folder / "report.json"
    environment = dict(
        os.environ, NVFP4_SIMULATE_JSON=str(report), NVFP4_SIMULATE_MODE=mode, NVFP4_SIMULATE_CHIP="h200"
    )
    environment |= changes
    done = subprocess.run(
        [program(folder), *arguments], env=environment, capture_output=True, text=True, check=False, timeout=500
    )
    assert done.returncode == 0, done.stderr
    return dict(line.split("=", 1) for line in done.stdout.splitlines()), json.loads(report.read_text()), done


def test_an_ordinary_host_program_runs(folder):
    said, report, done = run(folder)
    assert {said[name] for name in ("properties", "symbol", "queue", "elapsed")} == {"cudaSuccess"}
    assert said["device"] == "9.0 132 SMs, 232448"
    assert said["longer"] == "1"
    assert said["sum"] == "3500"
    assert said["driver"] == "0 invalid argument"
    assert report["verdict"] == "clean", done.stderr


def test_a_chip_has_as_few_sms_as_asked_for(folder):
    assert run(folder, NVFP4_SIMULATE_SMS="4")[0]["device"] == "9.0 4 SMs, 232448"
    for asked in ("0", "133", "4x"):
        environment = dict(os.environ, NVFP4_SIMULATE_SMS=asked, NVFP4_SIMULATE_CHIP="h200")
        done = subprocess.run([program(folder)], env=environment, capture_output=True, text=True, check=False)
        assert done.returncode == 1 and f"NVFP4_SIMULATE_SMS is '{asked}'" in done.stderr


def test_the_report_has_no_key_twice(folder):
    def unique(pairs):
        assert len(dict(pairs)) == len(pairs), pairs
        return dict(pairs)

    run(folder)
    report = json.loads((folder / "report.json").read_text(), object_pairs_hook=unique)
    assert [warp["index"] for warp in report["counters"]["instructions_by_warp"]] == list(range(8))  # 256 threads


def test_events_give_the_same_time_in_every_run(folder):
    assert run(folder)[2].stdout == run(folder)[2].stdout


@pytest.mark.parametrize(("chip", "kind"), [("", "nominal"), ("h200", "simulated")])
def test_the_output_says_what_event_times_are(folder, chip, kind):
    (line,) = [line for line in run(folder, NVFP4_SIMULATE_TIME=chip)[2].stderr.splitlines() if "event times" in line]
    assert {word for word in ("nominal", "simulated") if f"are {word}" in line} == {kind}
    assert chip in line


def test_a_refused_launch_is_an_error_in_program_and_report(folder):
    said, report, done = run(folder, "refuse")
    assert said["peek"] == said["last"] == said["call"] == "cudaErrorInvalidConfiguration"
    assert said["shared"] == "cudaErrorInvalidValue"
    assert said["again"] == said["forgotten"] == said["after"] == "cudaSuccess"
    assert report["verdict"] == "error"
    assert {finding["kind"] for finding in report["findings"]} == {"launch-refused"}
    assert "launch-refused: more threads in a block" in done.stderr
    assert "102400 bytes of dynamic shared memory" in done.stderr


def test_a_failed_device_assertion_has_its_own_error(folder):
    """cudaErrorAssert and CUDA_ERROR_ASSERT are 710 (driver_types.h, cuda.h); the error is sticky."""
    said, report, _ = run(folder, "assert")
    assert said == {"wrong": "710", "again": "710 cudaErrorAssert", "driver": "710"}
    assert [finding["kind"] for finding in report["findings"]] == ["assert"]
    assert run(folder, "assert", NVFP4_SIMULATE_GO_ON="1")[0]["wrong"] == "0"


def test_an_error_fails_the_launch_unless_go_on_is_set(folder):
    said, report, _ = run(folder, "wrong")
    assert (said["wrong"], report["verdict"]) == ("cudaErrorLaunchFailure", "error")
    said, report, _ = run(folder, "wrong", NVFP4_SIMULATE_GO_ON="1")
    assert (said["wrong"], report["verdict"]) == ("cudaSuccess", "error")


@pytest.mark.parametrize(
    ("setting", "value", "said"),
    [
        ("SUPPRESSIONS", "{folder}/none", "simulator: {folder}/none: No such file or directory"),
        ("SUPPRESSIONS", "{folder}/rules", "simulator: {folder}/rules: line 2: deadlock ends the run"),
        ("STATUS", "{folder}/none", "simulator: {folder}/none: No such file or directory"),
        ("CHIP", "h300", "simulator: NVFP4_SIMULATE_CHIP is 'h300'; expected h200, b200, rtx5090 or gb10"),
        ("TIME", "h300", "simulator: NVFP4_SIMULATE_TIME is 'h300'; expected "),
        *(
            ("MODE", mode, f"simulator: NVFP4_SIMULATE_MODE is '{mode}'; expected eager, late, reverse, random:SEED or")
            for mode in ("hasty", "late:3", "random:x", "random:")
        ),
    ],
)
def test_an_invalid_setting_ends_the_program_at_its_first_call(folder, setting, value, said):
    (folder / "rules").write_text("out-of-bounds\ndeadlock\n")
    environment = dict(os.environ, NVFP4_SIMULATE_CHIP="h200") | {
        f"NVFP4_SIMULATE_{setting}": value.format(folder=folder)
    }
    done = subprocess.run([program(folder)], env=environment, capture_output=True, text=True, check=False, timeout=500)
    assert done.returncode == 1 and done.stderr.startswith(said.format(folder=folder)), done.stderr
    assert "sum=" not in done.stdout


def test_an_empty_setting_is_none(folder):
    names = ("SUPPRESSIONS", "STATUS", "TIME", "TIMELINE", "SMS", "PTX", "SHRINK", "COUNTERS", "VALUES", "CHECKS")
    said, report, done = run(folder, **{f"NVFP4_SIMULATE_{name}": "" for name in names})
    assert (said["sum"], said["device"], report["verdict"]) == ("3500", "9.0 132 SMs, 232448", "clean")
    assert not [line for line in done.stderr.splitlines() if "event times are nominal" not in line]
    assert report.get("time") is None


def test_settings_are_followed(folder):
    """Counters on standard error, a timeline, no values, no checks, and rules that hide what they name."""
    timeline = folder / "timeline.json"
    (folder / "judged").write_text("launch-refused\n# none\n")
    said, _, done = run(folder, NVFP4_SIMULATE_COUNTERS="1")
    assert said["sum"] == "3500" and "instructions" in done.stderr
    assert "instructions " not in run(folder, NVFP4_SIMULATE_COUNTERS="0")[2].stderr
    said, report, _ = run(folder, NVFP4_SIMULATE_TIME="h200", NVFP4_SIMULATE_TIMELINE=str(timeline))
    assert said["sum"] == "3500" and report["time"]["chip"] and json.loads(timeline.read_text())["traceEvents"]
    assert run(folder, "wrong", NVFP4_SIMULATE_CHECKS="0")[1]["findings"][0]["kind"] == "out-of-bounds"
    (folder / "judged").write_text("uninitialised-read\n")
    report = run(folder, NVFP4_SIMULATE_SUPPRESSIONS=str(folder / "judged"))[1]
    assert [(rule["kind"], rule["line"], rule["times"]) for rule in report["suppressions"]] == [
        ("uninitialised-read", 1, 0)
    ]


def test_a_ptx_file_can_replace_every_module(folder):
    (folder / "other.ptx").write_text(
        HEADER + ".const .align 4 .b32 scale[4]; .visible .entry _Z3addPii(.param .u64 p, .param .u32 n) {"
        " .reg .b64 %rd<3>; .reg .b32 %r<3>; ld.param.u64 %rd1, [p]; mov.u32 %r1, 11; st.global.u32 [%rd1+1020], %r1;"
        " ret; }\n"
        + "".join(f".visible .entry {name}(.param .u64 p) {{ ret; }}\n" for name in ("_Z5otherPi", "_Z5wrongPi"))
    )
    assert run(folder, NVFP4_SIMULATE_PTX=str(folder / "other.ptx"))[0]["sum"] == "11"
    assert run(folder, NVFP4_SIMULATE_PTX=str(folder / "none"))[0]["sum"] == "3500"
