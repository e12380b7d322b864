"""Writes this operation for NVIDIA's SOL-ExecBench: definition.json, workload.jsonl, solution.json; and cases.txt.

    python -m scripts.release.execbench [--target b200|h200] [--output FOLDER]     (make bundle BOARD=sol-execbench)

The files follow that project's schemas (NVIDIA/SOL-ExecBench, docs/definition.md, workload.md, solution.md, 8d2237d).
The definition is the dual GEMM with the leaderboard's largest weights, N = 4096 and K = 7168, any M, and row-by-row
scale factors.  The solution holds the sources of the target's bundle unchanged, a binding, and one top-level file per
C source that includes it, because the board compiles only files in the top folder.  The same commit gives the same
bytes.  cases.txt has the workloads as cases of ./nvfp4 eval.
"""

from __future__ import annotations

import argparse
import json
import sys
import uuid
import zlib
from pathlib import Path

from scripts.release.bundle import describe_commit
from scripts.release.bundle_targets import BundleError, collect_sources, plan

ROOT = Path(__file__).resolve().parents[3]
OUTPUT = ROOT / "build" / "sol-execbench"
HARDWARE = {"b200": "B200", "h200": "LOCAL"}  # the board's names
N, K = 4096, 7168
ROWS = (1, 17, 128, 130, 256, 512, 1024)
NAME = f"nvfp4_dual_gemm_swiglu_n{N}_k{K}"
INPUTS = {"a": ("M", "K_packed"), "b1": ("N", "K_packed"), "b2": ("N", "K_packed"),
          "sfa": ("M", "K_groups"), "sfb1": ("N", "K_groups"), "sfb2": ("N", "K_groups")}  # fmt: skip
C_FLAGS = ("-x", "c", "-std=gnu11")  # the board compiles .c files with its C++ compiler


def definition() -> dict[str, object]:
    """definition.json: the operation's contract."""
    folder = Path(__file__).parent
    inputs = {
        name: {"shape": list(shape), "dtype": "float4_e2m1fn_x2" if shape[1] == "K_packed" else "float8_e4m3fn"}
        for name, shape in INPUTS.items()
    }
    return {
        "name": NAME,
        "op_type": "gemm",
        "description": "silu(a @ b1^T) * (a @ b2^T). NVFP4 operands: the even element of K is in a byte's low half; "
        "16 elements of K share an e4m3 scale factor, whose sign is ignored. Sums and SiLU are float32.",
        "axes": {
            "M": {"type": "var", "description": "rows of a and c"},
            "N": {"type": "const", "value": N, "description": "rows of b1 and of b2, columns of c"},
            "K": {"type": "const", "value": K, "description": "the summed dimension"},
            "K_packed": {"type": "expr", "expression": "K // 2", "description": "bytes of two e2m1 values"},
            "K_groups": {"type": "expr", "expression": "K // 16", "description": "scale factors of a row"},
        },
        "custom_inputs_entrypoint": "generate_inputs",
        "inputs": inputs,
        "outputs": {"c": {"shape": ["M", "N"], "dtype": "float16"}},
        "reference": (folder / "sol_reference.py").read_text(encoding="utf-8"),
    }


def workloads() -> list[dict[str, object]]:
    """workload.jsonl: one per number of rows; leaderboard's tolerance, except for sums that cancel to almost 0."""
    return [
        {
            "uuid": str(uuid.uuid5(uuid.NAMESPACE_URL, f"{NAME}/{m}")),
            "axes": {"M": m},
            "inputs": {name: {"type": "custom"} for name in INPUTS},
            "tolerance": {"max_atol": 1e-3, "max_rtol": 1e-3, "required_matched_ratio": 0.9999},
        }
        for m in ROWS
    ]


def cases() -> str:
    """cases.txt: the workloads as cases."""
    seeds = (zlib.crc32(str(one["uuid"]).encode()) for one in workloads())
    return "".join(f"m: {m}; n: {N}; k: {K}; l: 1; seed: {seed}\n" for m, seed in zip(ROWS, seeds, strict=True))


def solution(target: str = "b200", root: Path = ROOT) -> dict[str, object]:
    """solution.json: the target's sources and how to compile them.  Raises BundleError if one is missing."""
    sources = collect_sources(target, root)
    planned = plan(target)
    macros = [flag for flag in planned.c_flags if flag.startswith("-D")]
    codes = [flag for flag in planned.nvcc_flags if flag.startswith("-gencode")]
    top = {"binding.cu": (Path(__file__).parent / "binding.cu").read_text(encoding="utf-8")}
    for name in sources:
        if name.endswith((".c", ".cu")):
            top[name.removeprefix("submission/").replace("/", "_")] = f'#include "{name}"\n'
    files = {**top, **sources}
    return {
        "name": "nvfp4_dual_gemm_c",
        "definition": NAME,
        "author": "nvfp4-gemm",
        "description": f"One fused kernel; C11 and CUDA C, {describe_commit(root)}, MIT licence.",
        "spec": {
            "languages": ["cuda_cpp"],
            "target_hardware": [HARDWARE[target]],
            "entry_point": "binding.cu::run",
            "dependencies": [],
            "destination_passing_style": True,
            "binding": "torch",
            "compile_options": {
                "cflags": [*C_FLAGS, "-O3", "-ffp-contract=off", *macros],
                "cuda_cflags": ["-O3", *codes, *macros],
                "ld_flags": ["-lcuda"],
            },
        },
        "sources": [{"path": path, "content": content} for path, content in sorted(files.items())],
    }


def main() -> int:
    """Writes the files; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="make bundle BOARD=sol-execbench",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--target", choices=HARDWARE, default="b200")
    parser.add_argument("--output", type=Path, default=OUTPUT, metavar="FOLDER")
    options = parser.parse_args()
    try:
        answer = solution(options.target)
    except BundleError as error:
        print(error, file=sys.stderr)
        return 1
    options.output.mkdir(parents=True, exist_ok=True)
    for name, text in (
        ("definition.json", json.dumps(definition(), indent=2) + "\n"),
        ("workload.jsonl", "".join(json.dumps(one) + "\n" for one in workloads())),
        ("cases.txt", cases()),
        ("solution.json", json.dumps(answer, indent=2) + "\n"),
    ):
        (options.output / name).write_text(text, encoding="utf-8")
        print(f"{options.output / name}: {len(text.encode())} bytes")
    return 0


if __name__ == "__main__":
    sys.exit(main())
