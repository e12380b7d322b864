"""SemiAnalysis's microbenchmarks of a B200: whole programs with less data and fewer rounds; most check no values."""

from __future__ import annotations

import os
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

import numpy as np

from simulator.validation.third_party.cuda.libraries import Trial
from simulator.validation.third_party.cuda.libraries import run as run_library
from simulator.validation.third_party.cuda.wrappers import WRAPPER
from simulator.validation.third_party.nvcc_objects import compile_object, link
from simulator.validation.third_party.outcome import RUN_LIMIT, Case, in_a_child, of_report
from simulator.validation.third_party.third_party_sources import Sources

REPOSITORY, ARCH = "SemiAnalysisAI/microbench-blackwell", "100a"
# Two gigabytes of data and 148 SMs would show no more. The flush of L2 matters only for times.
LESS = (("2LL * 1024 * 1024 * 1024", "4LL * 1024 * 1024"), ("NUM_SMS = 148", "NUM_SMS = 4"), ("132644864", "4096"))
ELEMENTS, OPERATIONS = 5000, ("exp", "tanh", "rsqrt", "add", "multiply", "relu")


@dataclass(frozen=True)
class Program:
    """A program: name in the table, file, macros, and what it shows."""

    name: str
    file: str
    macros: str
    shows: str
    edits: tuple[tuple[str, str], ...] = LESS


UMMA = "umma_latency/umma_lat.cu"
FEWER = (("N_ITERS 10000", "N_ITERS 2"),)
SHORTER = (("(size_t)l2_size / LINE_SIZE", "(size_t)65536 / LINE_SIZE"), (": 5;", ": 1;"),
           ("results/sm_info.csv", "/dev/null"), ("results/latency_profile.csv", "/dev/null"))  # fmt: skip
PROGRAMS = (
    Program("umma_lat bf16", UMMA, "MMA_FORMAT=0 MMA_M=128 MMA_N=128 MMA_K=16 CTA_GROUP=1 AB_LAYOUT=0", "tcgen05.mma"),
    Program("umma_lat bf16 TS", UMMA, "MMA_FORMAT=0 MMA_M=128 MMA_N=128 MMA_K=16 CTA_GROUP=1 AB_LAYOUT=1",
            "the same, A in tensor memory"),
    Program("umma_lat mxf4", UMMA, "MMA_FORMAT=5 MMA_M=256 MMA_N=128 MMA_K=64 CTA_GROUP=2 AB_LAYOUT=0",
            "block scales, cta_group::2"),
    Program("tma2d_lat", "tma2d_latency/tma2d_lat.cu", "CTAS_PER_SM=1 SMEM_WIDTH=128 SMEM_HEIGHT=2", "one TMA load"),
    Program("tma2d_tput", "tma2d_throughput/tma2d_tput.cu", "CTAS_PER_SM=1 NUM_STAGES=4 SMEM_WIDTH=128 SMEM_HEIGHT=32",
            "a ring of TMA loads"),
    Program("tma2dmcast_tput", "tma2dmcast_throughput/tma2dmcast_tput.cu",
            "CLUSTER_SIZE=2 SMEM_WIDTH=128 SMEM_HEIGHT=32 USE_MULTICAST=1 NUM_WARPS=4", "multicast over a cluster"),
    Program("tma_tput", "tma_throughput/tma_tput.cu", "CTAS_PER_SM=1 NUM_STAGES=2 LOAD_SIZE=32768", "bulk copies"),
    Program("ldgsts_lat", "ldgsts_latency/ldgsts_lat.cu", "CTAS_PER_SM=1 THREADS_PER_BLOCK=64 LOAD_T=float4",
            "one cp.async"),
    Program("ldgsts_tput", "ldgsts_throughput/ldgsts_tput.cu",
            "CTAS_PER_SM=1 NUM_STAGES=4 THREADS_PER_BLOCK=128 LOAD_T=float4", "a ring of cp.async"),
    Program("dsmem_tput", "dsmem_throughput/dsmem_tput.cu",
            "CLUSTER_SIZE=4 THREADS_PER_CTA=1024 LOAD_T=float4 ACCESS_MODE=1", "shared memory of another CTA", FEWER),
    Program("l2_pointer_chase", "sm_l2_distance/l2_pointer_chase.cu", "NUM_SMS=4", "dependent loads", SHORTER),
)  # fmt: skip


def elementwise(tree: Path) -> str:
    """All operations of elementwise_tput in one file, each in its namespace, and a call that runs them in turn."""
    file = tree / "elementwise_throughput/elementwise_tput.cu"
    parts = ["#include <cmath>\n#include <cstdint>\n#include <cstdio>\n#include <cstdlib>\n#include <cstring>\n"]
    parts.append("#include <cuda_runtime.h>\n#define main unused\n")
    calls = "init_kernel<<<4, 256>>>((float *)d[0], n);"
    for i, name in enumerate(OPERATIONS):
        parts.append(f'#define OP_KIND {i}\nnamespace op_{name} {{\n#include "{file}"\n}}\n#undef OP_KIND\n')
        parts.append("#undef CUDA_CHECK\n")
        calls += f" op_{name}::elementwise_kernel<<<4, 256>>>((float *)d[0], (float *)d[1] + {i} * n, n);"
    return "".join(parts) + "#undef main\n" + WRAPPER.replace("CALL", "op_add::" + calls)


def inputs() -> tuple[list[np.ndarray], np.ndarray, np.ndarray, str]:
    """Buffers for the operands and the results, the expected results, and the bound of approximate ones."""
    x = ((np.arange(ELEMENTS) & 1023) - 512) / 1024
    want = np.stack([np.exp(x), np.tanh(x), 1 / np.sqrt(x + 1), x + 1.0009765625, x * 1.0009765625, np.maximum(x, 0)])
    return [np.zeros(ELEMENTS, np.float32), np.zeros(want.size, np.float32)], want, np.abs(want) * 2.0**-20, "float32"


def build(program: Program, sources: Sources) -> Path:
    """The program on the simulator, from its file with less to do."""
    text = (sources.checkout(REPOSITORY) / program.file).read_text()
    for old, new in program.edits:
        text = text.replace(old, new)
    folder = sources.cache / "wrapped/microbench"
    folder.mkdir(parents=True, exist_ok=True)
    source = folder / f"{program.name.replace(' ', '-')}.cu"
    source.write_text(text)
    flags = [f"-D{macro}" for macro in program.macros.split()]
    flags += ["-I", str((sources.checkout(REPOSITORY) / program.file).parent)]
    made = compile_object(source, ARCH, flags, sources.cache, sources.commit(REPOSITORY))
    return link([made], sources.cache / "programs" / f"microbench-{source.stem}", shared=False)


def run(program: Path, mode: str) -> dict:
    """One run; the program checks no values, and its times are of no interest here."""
    report = program.with_suffix(".json")
    report.unlink(missing_ok=True)
    simulate = {"MODE": mode, "JSON": str(report), "CHIP": "b200", "GO_ON": "1"}
    environment = dict(os.environ, **{f"NVFP4_SIMULATE_{name}": value for name, value in simulate.items()})
    begin, limit = time.monotonic(), {"capture_output": True, "text": True, "check": False, "timeout": RUN_LIMIT}
    try:
        done = subprocess.run([str(program)], env=environment, **limit)
    except subprocess.TimeoutExpired:
        return {"failed": f"no end in {RUN_LIMIT} s", "seconds": RUN_LIMIT}
    row = {"status": done.returncode, "seconds": round(time.monotonic() - begin, 1)}
    return of_report(report, done.stderr or f"ended with status {done.returncode}") | row


def cases() -> Iterator[Case]:
    """Every program, in the table's order."""

    def prepare(program: Program, sources: Sources) -> Callable[[str], dict]:
        return partial(run, build(program, sources))

    def prepare_elementwise(sources: Sources) -> Callable[[str], dict]:
        source = sources.cache / "wrapped/elementwise.cu"
        source.parent.mkdir(parents=True, exist_ok=True)
        source.write_text(elementwise(sources.checkout(REPOSITORY)))
        made = compile_object(source, ARCH, [], sources.cache, sources.commit(REPOSITORY))
        library = link([made], sources.cache / "libraries/microbench-elementwise.so", shared=True)
        trial, data = Trial(REPOSITORY, "", ARCH, "", "", (1, ELEMENTS, 1), ""), inputs()
        return lambda mode: in_a_child(lambda: run_library(library, trial, data, mode))

    yield Case(REPOSITORY, "elementwise_tput", ", ".join(OPERATIONS), f"{ELEMENTS}", ARCH, prepare_elementwise)
    for program in PROGRAMS:
        shows = f"{program.shows}; a benchmark, which compares nothing"
        yield Case(
            REPOSITORY, program.name, shows, program.macros.replace("_", " ").lower(), ARCH, partial(prepare, program)
        )
