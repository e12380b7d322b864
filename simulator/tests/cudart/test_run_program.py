"""`ptxsim run` with an unmodified, dynamically linked CUDA program: exit status, summary, report, suppressions."""

from __future__ import annotations

import json
import re
import subprocess
from pathlib import Path

import pytest

from simulator.tests.sim_kit import built, nvcc

PROGRAM = r"""
#include <cstdio>
#include <cstdlib>
#include <sys/wait.h>
#include <unistd.h>
template <int N> __global__ void reverse(int *out, bool wait) {
    __shared__ int room[N];
    room[threadIdx.x] = out[threadIdx.x];
    if (wait) __syncthreads();
    out[threadIdx.x] = room[N - 1 - threadIdx.x];
}
__global__ void unwritten(int *out) {
    __shared__ int room[32];
    out[threadIdx.x] = room[threadIdx.x];
}
__global__ void gather(const int *index, const int *table, int *out) { /* uses an index before it has come */
    __shared__ alignas(128) int room[32];
    __shared__ alignas(8) unsigned long long cell;
    unsigned bar = (unsigned)__cvta_generic_to_shared(&cell), to = (unsigned)__cvta_generic_to_shared(room);
    room[0] = 0;
    asm volatile("mbarrier.init.shared.b64 [%0], 1; fence.mbarrier_init.release.cluster; fence.proxy.async;\n\t"
                 "mbarrier.arrive.expect_tx.shared.b64 _, [%0], 128;" :: "r"(bar) : "memory");
    asm volatile("cp.async.bulk.shared::cluster.global.mbarrier::complete_tx::bytes [%0], [%1], 128, [%2];"
                 :: "r"(to), "l"(index), "r"(bar) : "memory");
    out[0] = table[((volatile int *)room)[0]];
    asm volatile("{ .reg .pred p; W: mbarrier.try_wait.parity.shared.b64 p, [%0], 0; @!p bra W; }" :: "r"(bar));
    std::printf("gathered ");
}
__global__ void workspace(int *out) {
    unsigned low, high;
    asm volatile("mov.u32 %0, %%envreg2; mov.u32 %1, %%envreg1;" : "=r"(low), "=r"(high));
    if (blockIdx.x + threadIdx.x == 0) *out = (low | high) != 0;
}
__global__ void spin(int *out, int first = 1000000, int others = 1000000) {
    for (volatile int i = 0, rounds = blockIdx.x == 0 ? first : others; i < rounds; i++) {}
}
int main(int count, char **words) {
    int *p, host[64], way = count > 1 ? words[1][0] : 'c';
    for (int i = 0; i < 64; i++) host[i] = i;
    if (way == 'n') return 0;
    cudaMalloc(&p, sizeof host);
    cudaMemcpy(p, host, sizeof host, cudaMemcpyHostToDevice);
    if (way == 'z') return spin<<<16, 1>>>(p), 0;
    if (way == 'y') return spin<<<1, 256>>>(p), spin<<<1, 256>>>(p), 0;
    if (way == 'x') return spin<<<4, 1>>>(p, 1, 1), spin<<<4, 1>>>(p, 9, 2000000), 0;
    if (way == 'f') fork();
    if (way == 'r') unwritten<<<1, 32>>>(p); else reverse<64><<<1, 64>>>(p, way != 'w');
    if (way == 'g') {
        void *arguments[] = {&p};
        cudaLaunchConfig_t config = {};
        cudaLaunchAttribute attribute = {};
        config.gridDim = config.blockDim = dim3(1);
        config.attrs = &attribute, config.numAttrs = 1;
        attribute.id = cudaLaunchAttributeCooperative, attribute.val.cooperative = 1;
        for (int i = 0; i < 3; i++, p++) {
            if (i == 0) cudaLaunchCooperativeKernel((void *)workspace, dim3(1), dim3(1), arguments, 0, 0);
            if (i == 1) cudaLaunchKernelExC(&config, (void *)workspace, arguments);
            if (i == 2) workspace<<<1, 1>>>(p);
        }
        cudaMemcpy(host, p - 3, 12, cudaMemcpyDeviceToHost);
        std::printf("%d%d%d", host[0], host[1], host[2]);
        for (int ctas = 132 * 2; ctas < 132 * 2 + 2; ctas++)
            std::printf(" %s", cudaGetErrorName(cudaLaunchCooperativeKernel((void *)workspace, dim3(ctas), dim3(1024),
                                                                            arguments, 0, 0)));
        return 0;
    }
    if (way == 's') gather<<<1, 1>>>(p, p, p + 1);
    cudaMemcpy(host, p, sizeof host, cudaMemcpyDeviceToHost);
    std::printf("%s %d %s\n", count > 2 ? words[2] : "", host[0], cudaGetErrorName(cudaGetLastError()));
    std::fflush(stdout);
    if (way == 'f') wait(nullptr);
    if (way == 'k') abort();
    return way == 'b' ? 7 : 0;
}
"""
RACE_LINE = next(i for i, line in enumerate(PROGRAM.splitlines(), 1) if "room[N - 1" in line)


@pytest.fixture(scope="module")
def folder(tmp_path_factory) -> Path:
    """A folder with `program`, linked with -cudart shared, and `static`, linked as nvcc does by default."""
    folder = tmp_path_factory.mktemp("run")
    (folder / "program.cu").write_text(PROGRAM)
    command = [nvcc(), "-arch=sm_90a", "-lineinfo"]
    subprocess.run([*command, "-c", "-o", "program.o", "program.cu"], cwd=folder, check=True, capture_output=True)
    for flag, name in (("shared", "program"), ("static", "static")):
        link = [nvcc(), "-arch=sm_90a", "-cudart", flag, "-o", name, "program.o"]
        subprocess.run(link, cwd=folder, check=True, capture_output=True)
    built("cuda/libcudart.so.13")
    return folder


def run(folder: Path, *words: str, program: str = "./program") -> subprocess.CompletedProcess[str]:
    at = words.index("--") if "--" in words else len(words)
    command = [built("ptxsim"), "run", *words[:at], "--", program, *words[at + 1 :]]
    return subprocess.run(command, cwd=folder, capture_output=True, text=True, check=False, timeout=500)


def test_an_unmodified_program_runs_and_keeps_its_output(folder):
    done = run(folder, "--", "clean", "word")
    assert (done.returncode, done.stdout) == (0, "word 63 cudaSuccess\n"), done.stderr
    assert re.fullmatch("not checked: .*\nverdict: clean, 1 launch\n", done.stderr)


def test_a_long_launch_says_how_far_it_has_come(folder):
    done = run(folder, "--progress", "0.2", "--", "z")
    assert re.search(
        r"^ptxsim: [\d.]+ s, launch 1, spin: \d+ of 16 CTAs, [\d.]+ M warp .*(, about [\d.]+ s left .*)?\n",
        done.stderr,
        re.MULTILINE,
    )


def test_a_launch_of_one_cta_tells_its_progress_by_instructions(folder):
    """Two launches of the same kernel."""
    done = run(folder, "--progress", "0.1", "--json", str(folder / "told.json"), "--", "y")
    told = re.findall(
        r"launch (\d), spin: 0 of 1 CTAs, ([\d.]+) M warp instructions \(([\d.]+) M a second\)(.*)", done.stderr
    )
    told = [line for line in told if float(line[1]) > 1]  # a launch that has only begun has no rate yet
    first, second = ([line for line in told if line[0] == launch] for launch in "12")
    amounts = [float(line[1]) for line in first]
    assert amounts == sorted(set(amounts)) and len(amounts) > 1 and all(float(line[2]) > 0 for line in told), (
        done.stderr
    )
    assert not [line for line in first if line[3] != ""]
    left = r", about [\d.]+ s left in this launch if it does as much as the one before"
    assert second and all(re.fullmatch(left, line[3]) for line in second), done.stderr
    whole = json.loads((folder / "told.json").read_text())["counters"]["instructions"] / 2e6
    for line in second:
        amount, rate, seconds = (float(number) for number in (*line[1:3], line[3].split()[2]))
        assert amount + seconds * rate == pytest.approx(whole, rel=0.1, abs=0.06 * rate)


def test_a_launch_that_does_more_than_the_one_before_expects_no_time_until_half_of_it_has_ended(folder):
    """The second launch: four CTAs, three of which do far more than the first launch did, so that one has ended."""
    done = run(folder, "--progress", "0.1", "--", "x")
    told = re.findall(r"launch 2, spin: (\d) of 4 CTAs, .* a second\)(.*)", done.stderr)
    assert "1" in dict(told), done.stderr
    for ended, rest in told:
        left = ", about .* left in this launch" if int(ended) >= 2 else ""
        assert re.fullmatch(", more than in the one before" + left, rest), done.stderr


@pytest.mark.parametrize(("ctas", "status"), [(1, 3), (15, 3), (16, 0)])
def test_a_program_whose_later_ctas_are_not_checked_is_not_called_clean(folder, ctas, status):
    """A grid of sixteen CTAs."""
    done = run(folder, "--ctas", str(ctas), "--json", "ctas.json", "--", "z")
    assert done.returncode == status, done.stderr
    assert done.stderr.splitlines()[-1] == f"verdict: {'incomplete' if status else 'clean'}, 1 launch"
    assert json.loads((folder / "ctas.json").read_text())["verdict"] == ("incomplete" if status else "clean")


WAYS = {  # by first argument of the program: exit status, last line
    "wrong": (2, r"verdict: error, 1 launch, 16 x error, 8 x review"),
    "review": (1, "verdict: review, 1 launch, 8 x review"),
    "bad status": (5, "verdict: clean, 1 launch"),
    "killed": (5, "verdict: clean, 1 launch"),
    "forked": (0, "verdict: clean, 2 launches"),
}


@pytest.mark.parametrize("way", WAYS)
def test_the_exit_status_is_the_verdict_and_the_summary_comes_last(folder, way):
    status, last = WAYS[way]
    done = run(folder, "--json", f"{way[0]}.json", "--", way)
    assert done.returncode == status, done.stderr
    assert done.stderr.splitlines()[-1] == last
    assert json.loads((folder / f"{way[0]}.json").read_text())["verdict"] == last.split()[1].rstrip(",")
    assert ("program: signal 6" in done.stderr) == (way == "killed")
    assert ("program: exit status 7" in done.stderr) == (way == "bad status")


def test_a_report_shows_lane_byte_instruction_and_source(folder):
    done = run(folder, "--json", "report.json", "--counters", "--", "wrong")
    report = json.loads((folder / "report.json").read_text())
    (found,) = [f for f in report["findings"] if f["kind"] == "read-after-write-race"]
    assert found["name"] == "reverse<64>"
    assert (found["lane"], found["offset"], found["variable"]) == (
        3,
        1024 + 4 * 28,
        "room + 0x70",
    )  # the first granule of warp 1 holds lanes 0 to 3
    assert found["ptx"].startswith("ld.shared.u32 %r")
    assert f"    {RACE_LINE:5} | out[threadIdx.x] = room[N - 1 - threadIdx.x];\n" in done.stderr
    assert "warp 1, lane 3, byte 0x470 of shared memory (room + 0x70)\n" in done.stderr
    assert f"    ptx | {found['ptx']}\n" in done.stderr
    assert "\n  shared_load_bytes                    256\n" in done.stderr


def test_shrinking_names_the_delay_of_the_launch_that_needs_one(folder):
    """The second launch needs the delay; trials print nothing on the program's standard output."""
    words = ("--mode", "poison", "--go-on", "--json", "shrunk.json")
    done = run(folder, *words, "--shrink=out-of-bounds", "--", "shrink")
    shrunk = json.loads((folder / "shrunk.json").read_text())["shrunk"]
    assert (shrunk["kind"], shrunk["found"], shrunk["always"], shrunk["least"]) == ("out-of-bounds", True, False, True)
    assert [delay["operation"] for delay in shrunk["delays"]] == ["bulk load"]
    assert re.search(
        r"\nshrunk: out-of-bounds at .*program.cu:\d+ needs 1 delay, of 1 operation \(3 runs\)\n", done.stderr
    )
    assert (done.stdout.count("gathered"), done.returncode) == (0, 2)
    done = run(folder, *words, "--shrink", "--", "clean")
    assert re.search(r"^shrunk: .* in 1 launch$", done.stderr, re.M)


def test_cooperative_launches_have_a_workspace_and_a_limit(folder):
    """264 CTAs of 1024 threads fill an H200."""
    assert run(folder, "--", "grid").stdout == "110 cudaSuccess cudaErrorCooperativeLaunchTooLarge"


def test_suppressions_hide_findings_and_stale_ones_are_reported(folder):
    rules = f"""# known
    read-after-write-race  *reverse*  program.cu:{RACE_LINE}
    write-after-read-race  *other*
    uninitialised-read # anywhere
    double-write
    """
    (folder / "rules").write_text(rules)
    done = run(folder, "--suppressions", "rules", "--json", "hidden.json", "--", "wrong")
    assert done.returncode == 2
    *_, first, second, _, last = done.stderr.splitlines()
    assert first.startswith("stale suppression: line 3: write-after-read-race *other* *:")
    assert second.startswith("stale suppression: line 5: double-write * *:")
    assert last == "verdict: error, 1 launch, 8 x error, 16 x suppressed"
    report = json.loads((folder / "hidden.json").read_text())
    assert {f["kind"] for f in report["findings"]} == {"write-after-read-race"}
    assert [rule["times"] for rule in report["suppressions"]] == [8, 0, 8, 0]
    assert report["found"]["suppressed"] == 16
    (folder / "rules").write_text(rules.replace("*other*", "*reverse*"))
    assert run(folder, "--suppressions", "rules", "--", "wrong").returncode == 0
    for wrong, why in (("deadlock", "line 1: deadlock ends the run"), ("\na b c d", "line 2: expected KIND")):
        (folder / "rules").write_text(wrong)
        done = run(folder, "--suppressions", "rules", "--", "wrong")
        assert (done.returncode, done.stdout) == (4, "")
        assert why in done.stderr


def test_programs_that_cannot_run_are_refused(folder):
    done = run(folder, program="./static")
    assert done.returncode == 4
    assert "-cudart shared" in done.stderr and "libcudart_sim.a" in done.stderr
    for program, why in (("./nowhere", "./nowhere"), ("true", "no kernel was launched")):
        done = run(folder, program=program)
        assert (done.returncode, why in done.stderr) == (4, True), done.stderr
    assert run(folder, "--mode", "never").returncode == 4


def test_a_run_with_a_chip_tells_times_and_writes_a_timeline(folder):
    done = run(folder, "--time", "h200", "--timeline", "spans.json", "--", "clean")
    assert done.returncode == 0, done.stderr
    assert re.search(r"^simulated time on h200 .*: the kernel [0-9.]+ cycles, [0-9.]+ us", done.stderr, re.MULTILINE)
    assert len(json.loads((folder / "spans.json").read_text())["traceEvents"]) > 10
    for words in (("--time", "h2000"), ("--timeline", "spans.json")):
        refused = run(folder, *words, "--", "clean")
        assert refused.returncode == 4 and "h200" in refused.stderr + "h200" * ("--timeline" in words)


@pytest.mark.parametrize("words", [("--json",), ("--time", "h200", "--timeline")])
def test_a_report_that_cannot_be_written_is_named(folder, words):
    assert "/nowhere/report: No such file" in run(folder, *words, "nowhere/report", "--", "clean").stderr
