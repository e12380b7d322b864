"""A signal during `ptxsim run`: what was found until then is reported, incomplete, with its own exit status."""

from __future__ import annotations

import json
import os
import re
import resource
import signal
import subprocess
import time
from pathlib import Path

import pytest

from simulator.tests.sim_kit import built, compile_cuda, nvcc

PROGRAM = r"""
#include <csignal>
#include <cstdio>
#include <cstdlib>
#include <unistd.h>
__global__ void racy(int *out, long rounds) {
    __shared__ int room[64];
    room[threadIdx.x] = threadIdx.x;
    out[threadIdx.x] = room[63 - threadIdx.x];
    float x = out[threadIdx.x];
    for (long i = 0; i < rounds; i++) x = x * .99f + 1;
    out[threadIdx.x] = x;
}
__global__ void right(int *out) { out[threadIdx.x] = 1; }
static void mine(int) { std::puts("mine"); }
int main(int count, char **words) {
    const char way = words[1][0];
    int *p;
    if (way == 'e') std::puts("early"), std::fflush(stdout), pause();
    if (way == 'h') std::signal(SIGINT, mine);
    cudaMalloc(&p, 256);
    right<<<1, 64>>>(p);
    racy<<<1, 64>>>(p, way == 'a' ? 0 : 20000000000);
    if (way == 'a') abort();
    std::puts(cudaGetErrorName(cudaDeviceSynchronize()));
    return 3;
}
"""
RACES = {"uninitialised-read", "read-after-write-race", "write-after-read-race"}


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    folder = tmp_path_factory.mktemp("interrupted")
    (folder / "program.cu").write_text(PROGRAM)
    command = [nvcc(), "-arch=sm_90a", "-cudart", "shared", "-o", "program", "program.cu"]
    subprocess.run(command, cwd=folder, check=True, capture_output=True)
    built("cuda/libcudart.so.13")
    return folder


def with_signals() -> None:
    """In a child: signals that a shell lets its background commands ignore end it."""
    for number in (signal.SIGINT, signal.SIGHUP):
        signal.signal(number, signal.SIG_DFL)


def start(folder: Path, way: str, *options: str, **settings) -> subprocess.Popen[str]:
    command = [built("ptxsim"), "run", "--progress", "0.2", "--json", "report.json", *options, "--", "./program", way]
    pipe = subprocess.PIPE
    settings = {"preexec_fn": with_signals} | settings
    return subprocess.Popen(command, cwd=folder, stdout=pipe, stderr=pipe, text=True, **settings)


IN_LAUNCH = r"launch 2, racy: 0 of 1 CTAs, (?!0\.0 )"  # which has done more than to begin


def read_until(running: subprocess.Popen[str], wanted: str) -> str:
    """What it prints until a line has `wanted`, a pattern."""
    text = ""
    for line in running.stderr:
        text += line
        if re.search(wanted, line):
            break
    return text


def wait_for_work(running: subprocess.Popen[str], seconds: float) -> None:
    """Until it has used so many seconds of a CPU, or has ended."""
    used = 0.0
    while used < seconds and running.poll() is None:
        time.sleep(0.05)
        stat = Path(f"/proc/{running.pid}/stat").read_text().rpartition(")")[2].split()
        used = int(stat[11]) / os.sysconf("SC_CLK_TCK")


def finish(running: subprocess.Popen[str], text: str, folder: Path) -> tuple[int, str, dict]:
    output, rest = running.communicate(timeout=100)
    return running.returncode, output, text + rest, json.loads((folder / "report.json").read_text())


@pytest.mark.parametrize("number", [signal.SIGINT, signal.SIGTERM, signal.SIGHUP])
def test_a_signal_in_a_launch_keeps_what_was_found(folder, number):
    running = start(folder, "long")
    text = read_until(running, IN_LAUNCH)
    running.send_signal(number)
    status, output, text, report = finish(running, text, folder)
    assert (status, output) == (6, ""), text
    assert "error: read-after-write-race:" in text
    assert f"signal {number.value} ended the launch after 0 of 1 CTAs" in text
    assert text.splitlines()[-1] == "verdict: incomplete, 2 launches, 16 x error, 1 x incomplete, 8 x review"
    assert (report["verdict"], report["ended"]) == ("incomplete", f"signal {number.value}")
    assert {f["kind"] for f in report["findings"]} == {*RACES, "interrupted"}
    assert report["counters"]["ctas"] == 1


def test_findings_are_printed_while_the_launch_runs_and_outlive_a_kill(folder):
    running = start(folder, "long")
    text = read_until(running, "read-after-write-race")
    (pid,) = Path(f"/proc/{running.pid}/task/{running.pid}/children").read_text().split()
    time.sleep(0.5)
    os.kill(int(pid), signal.SIGKILL)
    status, _, text, report = finish(running, text, folder)
    assert status == 6
    assert "while the launch runs:" in text
    assert text.count("error: read-after-write-race:") == 1
    assert "ptxsim: interrupted, launch 2, racy: 0 of 1 CTAs" in text
    assert text.splitlines()[-1] == "verdict: incomplete, 1 launch, 16 x error, 8 x review"
    assert (report["verdict"], report["found"]["error"]) == ("incomplete", 16)


def test_the_limit_of_cpu_time_is_a_signal_that_comes_in_time(folder):
    limit = (2, 2)  # soft and hard are equal, which would kill at once
    running = start(folder, "long", preexec_fn=lambda: resource.setrlimit(resource.RLIMIT_CPU, limit))
    status, _, text, report = finish(running, "", folder)
    assert (status, report["ended"]) == (6, f"signal {signal.SIGXCPU.value}"), text


def test_the_timeline_says_that_it_is_incomplete(folder):
    running = start(folder, "long", "--time", "h200", "--timeline", "spans.json")
    text = read_until(running, IN_LAUNCH)
    running.send_signal(signal.SIGTERM)
    status, _, text, report = finish(running, text, folder)
    spans = json.loads((folder / "spans.json").read_text())
    assert status == 6
    assert (spans["otherData"]["verdict"], spans["otherData"]["ended"]) == ("incomplete", "signal 15")
    assert {span["args"].get("kernel") for span in spans["traceEvents"] if span["ph"] == "X"} >= {"right", "racy"}
    assert 0 < report["time"]["kernel_us"] < 1e6
    assert "interrupted" in {f["kind"] for f in report["findings"]}


def test_a_program_that_was_interrupted_before_its_first_launch_is_told_apart(folder):
    running = start(folder, "early")
    assert running.stdout.readline() == "early\n"
    running.send_signal(signal.SIGTERM)
    _, text = running.communicate(timeout=100)
    assert running.returncode == 4
    assert "was interrupted before it launched a kernel (signal 15)" in text
    assert "verdict" not in text


def test_a_signal_right_after_the_start_ends_the_program_too(folder):
    """Its output ends when both processes have ended."""
    for _ in range(30):
        running = subprocess.Popen([built("ptxsim"), "run", "--", "sleep", "1000"], stderr=subprocess.PIPE, text=True)
        children = Path(f"/proc/{running.pid}/task/{running.pid}/children")
        while running.poll() is None and not children.read_text():
            pass
        running.send_signal(signal.SIGTERM)
        _, text = running.communicate(timeout=100)
        assert running.returncode == 4, text


def test_a_programs_own_handler_runs_once_its_launch_has_ended(folder):
    running = start(folder, "handled")
    text = read_until(running, IN_LAUNCH)
    running.send_signal(signal.SIGINT)
    status, output, text, report = finish(running, text, folder)
    assert (status, output) == (6, "mine\ncudaErrorLaunchFailure\n"), text
    assert (report["verdict"], text.splitlines()[-1].split(",")[0]) == ("incomplete", "verdict: incomplete")


def test_a_program_that_aborts_leaves_its_whole_report(folder):
    """Its launches have ended: the verdict stands."""
    running = start(folder, "abort", "--go-on")
    status, _, text, report = finish(running, "", folder)
    assert (status, report["verdict"], "program: signal 6" in text) == (2, "error", True), text
    assert {f["kind"] for f in report["findings"]} == RACES


def test_one_kernel_of_a_file_is_interrupted_in_the_same_way(tmp_path):
    compile_cuda(PROGRAM, tmp_path)
    command = [built("ptxsim"), "kernel.ptx", "_Z4racyPil", "--block", "64", "--json", "--", "buf:256", f"i64:{10**10}"]
    running = subprocess.Popen(command, cwd=tmp_path, stdout=subprocess.PIPE, text=True, preexec_fn=with_signals)
    wait_for_work(running, 1)
    running.send_signal(signal.SIGINT)
    output, _ = running.communicate(timeout=100)
    report = json.loads(output)
    assert (running.returncode, report["verdict"], report["ended"]) == (6, "incomplete", "signal 2")
    assert {f["kind"] for f in report["findings"]} == {*RACES, "interrupted"}
