"""CUTLASS's examples: whole programs that make data, run, and compare the result with their own reference."""

from __future__ import annotations

import os
import re
import subprocess
import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from functools import partial
from pathlib import Path

from simulator.validation.third_party.nvcc_objects import compile_object, link
from simulator.validation.third_party.outcome import RUN_LIMIT, Case, of_report
from simulator.validation.third_party.third_party_sources import SOURCE_WHEELS, Sources

REPOSITORY, WHEEL = "NVIDIA/cutlass", "nvidia-cutlass"
CHIPS = {"90a": "h200", "100a": "b200", "120a": "rtx5090"}
SUPPORTED = {"90a": "SPARSE_SM90", "100a": "SM100", "120a": "SM120"}  # macros that CUTLASS's build files would define


@dataclass(frozen=True)
class Example:
    """One example: its file, chip, command line, and what it prints when its own comparison passes."""

    name: str
    file: str
    arch: str
    arguments: str
    shows: str
    passed: str = "Passed"
    failed: str = "Failed"
    sms: int = 0  # SMs that the chip reports: some programs fill operands with a thread for each place on the chip
    project: str = REPOSITORY


def gemm(m: int, n: int, k: int) -> str:
    return f"--m={m} --n={n} --k={k} --iterations=0"


FEW_SMS = 4
GEFORCE, NARROW_SPARSE = "79_blackwell_geforce_gemm/", "84_blackwell_narrow_precision_sparse_gemm/"
FMHA = ("88_hopper_fmha/88_hopper_fmha.cu", "90a", "--b=1 --h=1 --q=128 --k=128 --d=64 --iterations=1 --verify")
EXAMPLES = (
    Example(
        "48", "48_hopper_warp_specialized_gemm/48_hopper_warp_specialized_gemm.cu", "90a", gemm(128, 128, 128),
        "TF32, warp-specialised, cluster of eight", sms=2 * 8,
    ),
    Example(
        "54", "54_hopper_fp8_warp_specialized_gemm/54_hopper_fp8_warp_specialized_gemm.cu", "90a", gemm(128, 128, 128),
        "fp8, warp-specialised, cluster",
    ),
    Example(
        "70", "70_blackwell_gemm/70_blackwell_fp16_gemm.cu", "100a", gemm(256, 128, 128),
        "fp16, two-CTA MMA, clusterlaunchcontrol", sms=FEW_SMS,
    ),
    Example(
        "70b", "70_blackwell_gemm/70_blackwell_fp8_gemm.cu", "100a", gemm(256, 128, 128),
        "fp8, two-CTA MMA, clusterlaunchcontrol",
    ),
    Example(
        "72a", "72_blackwell_narrow_precision_gemm/72a_blackwell_nvfp4_bf16_gemm.cu", "100a", gemm(256, 256, 256),
        "NVFP4 to bf16",
    ),
    Example(
        "72b", "72_blackwell_narrow_precision_gemm/72b_blackwell_nvfp4_nvfp4_gemm.cu", "100a", gemm(256, 256, 256),
        "NVFP4 to NVFP4 with scales of the result",
    ),
    Example(
        "75", "75_blackwell_grouped_gemm/75_blackwell_grouped_gemm_block_scaled.cu", "100a",
        "--m=128 --n=128 --k=256 --groups=2 --iterations=0", "grouped, block-scaled, tensor maps changed on the device",
    ),
    Example(
        "62", "62_hopper_sparse_gemm/62_hopper_sparse_gemm.cu", "90a", gemm(128, 128, 256) + " --warmup=0",
        "fp16 with 2:4 sparsity, wgmma.sp", sms=FEW_SMS, project=WHEEL,
    ),
    Example(
        "79a", GEFORCE + "79a_blackwell_geforce_nvfp4_bf16_gemm.cu", "120a", gemm(128, 128, 256),
        "NVFP4 to bf16, mma.sync with block scales", sms=FEW_SMS, project=WHEEL,
    ),
    Example(
        "79b", GEFORCE + "79b_blackwell_geforce_nvfp4_nvfp4_gemm.cu", "120a", gemm(128, 128, 256),
        "NVFP4 to NVFP4 with scales of the result", sms=FEW_SMS, project=WHEEL,
    ),
    Example(
        "79c", GEFORCE + "79c_blackwell_geforce_mixed_mxfp8_mxfp6_bf16_gemm.cu", "120a", gemm(128, 128, 256),
        "mxfp8 by mxfp6 to bf16, mma.sync with block scales", sms=FEW_SMS, project=WHEEL,
    ),
    Example(
        "83", "83_blackwell_sparse_gemm/83_blackwell_sparse_gemm.cu", "100a", gemm(256, 128, 256),
        "fp16 with 2:4 sparsity, tcgen05.mma.sp", sms=FEW_SMS, project=WHEEL,
    ),
    Example(
        "84a", NARROW_SPARSE + "84a_blackwell_nvfp4_bf16_sparse_gemm.cu", "100a", gemm(256, 128, 512),
        "NVFP4 with 4:8 sparsity, block scales", sms=FEW_SMS, project=WHEEL,
    ),
    Example(
        "84b", NARROW_SPARSE + "84b_blackwell_mixed_mxfp8_bf16_sparse_gemm.cu", "100a", gemm(256, 128, 256),
        "mxfp8 by mxfp4 with sparsity, block scales", sms=FEW_SMS, project=WHEEL,
    ),
    Example("88", *FMHA, "attention, three schedules", "[OK]", "[FAIL]", FEW_SMS),
)  # fmt: skip


def build(example: Example, sources: Sources) -> Path:
    """The example as a program on the simulator."""
    wheel = example.project == WHEEL
    tree = sources.unpacked(WHEEL) / "cutlass_library/source" if wheel else sources.checkout(REPOSITORY)
    source = tree / "examples" / example.file
    folders = [tree / "include", tree / "tools/util/include", tree / "examples/common", source.parent]
    folders.append(sources.wheel("nvidia/cu13/include", "nvidia/curand/include"))
    includes = [flag for folder in folders for flag in ("-I", str(folder))]
    version = SOURCE_WHEELS[WHEEL] if wheel else sources.commit(REPOSITORY)
    supported = SUPPORTED[example.arch] if wheel else "SM100"
    flags = [*includes, f"-DCUTLASS_ARCH_MMA_{supported}_SUPPORTED=1"]
    object_file = compile_object(source, example.arch, flags, sources.cache, version)
    return link([object_file], sources.cache / "programs" / f"cutlass-{example.name}", shared=False)


def run(example: Example, program: Path, mode: str) -> dict:
    """One run of the program; its own comparison judges the values."""
    report = program.with_suffix(".json")
    report.unlink(missing_ok=True)
    # GO_ON: an error would end the program before its comparison.
    simulate = {"MODE": mode, "JSON": str(report), "CHIP": CHIPS[example.arch], "GO_ON": "1"}
    simulate |= {"SMS": str(example.sms)} if example.sms else {}
    environment = dict(os.environ, **{f"NVFP4_SIMULATE_{name}": value for name, value in simulate.items()})
    command, begin = [str(program), *example.arguments.split()], time.monotonic()
    limit = {"capture_output": True, "text": True, "check": False, "timeout": RUN_LIMIT, "errors": "replace"}
    try:
        done = subprocess.run(command, env=environment, **limit)
    except subprocess.TimeoutExpired:
        return {"failed": f"no end in {RUN_LIMIT} s", "seconds": RUN_LIMIT}
    row = {"status": done.returncode, "seconds": round(time.monotonic() - begin, 1)}
    passed, failed = done.stdout.count(example.passed), done.stdout.count(example.failed)
    if passed + failed:
        row |= {"wrong": failed, "of": passed + failed}
    else:
        row["failed"] = f"compared nothing: {(done.stdout + done.stderr).strip().splitlines()[-1][:200]}"
    return of_report(report, done.stderr) | row


def cases() -> Iterator[Case]:
    """Every example, in the table's order."""

    def prepare(example: Example, sources: Sources) -> Callable[[str], dict]:
        return partial(run, example, build(example, sources))

    for example in EXAMPLES:
        size = " ".join(part.removeprefix("--") for part in example.arguments.split() if part[-1].isdigit())
        size = re.sub(r"(iterations|warmup)=\d", "", size).strip()
        prepared = partial(prepare, example)
        name = f"example {example.name}"
        yield Case(example.project, name, example.shows, size, example.arch, prepared)
