"""Simulates public Blackwell kernels on the same clock as ours (data/public_kernels.json).

    python -m simulator.calibration.calls.public_kernels [--checkout OWNER/NAME=FOLDER ...] [--only TEXT ...]

Their sources are fetched at pinned commits and compiled with their own host code; nothing of theirs is committed.  Each
runs three calls with buffers of their own, without values.  A row has the problem, the simulated times behind other
calls and alone, ours at the same case, and the time that the author published for a real B200.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

from reference.problems import PROBLEMS
from simulator.calibration.b200 import board
from simulator.calibration.calls.public_sources import (
    DUAL_CALL,
    SINGLE_CALL,
    TORCH_STUB,
    WRAPPER,
    Sources,
    compile_object,
    link,
    string_of,
    tensor,
)
from simulator.calibration.rows import parameters_digest
from simulator.package.simulated_call import MACHINE_CODE, ROOT, benchmark_shapes, simulated_calls
from simulator.python.machine_code.assemble import VARIABLE, by_machine_code
from simulator.python.toolchain import BUILD
from simulator.validation.mutants.backends.blackwell_grouped import CONFIGS as GROUPED_TILES

RESULT = ROOT / "simulator/calibration/data/public_kernels.json"
GAU, NAREG, JIAB = "gau-nernst/gpu-mode-kernels", "NaregAmirianMegan/NVFP4_Kernels", "jIab-b/nvfp4_gemm"
DUAL_SHAPES = benchmark_shapes()
CALLS = 3
HEADERS = (
    "torch/library.h", "torch/extension.h", "ATen/core/Tensor.h", "ATen/ATen.h", "ATen/cuda/CUDAUtils.h",
    "ATen/cuda/CUDAContext.h",
)  # fmt: skip
# The first two let dlclose unload it.
FLAGS = ["-Xcompiler", "-fno-gnu-unique", "--use_fast_math", "--expt-relaxed-constexpr"]
GROUPS = tuple((ROOT / "reference/problems/group_gemm/benchmark.txt").read_text().splitlines())
GROUP_CALL = """
import json, sys
import torch
torch.set_num_threads(1)
from reference.group_reference import generate_input
from submission.group_submission import custom_kernel
m, n, k = json.loads(sys.argv[1])
for call in range(int(sys.argv[2])):
    custom_kernel(generate_input(m, [n] * len(m), [k] * len(m), len(m), 7 + call, device="cpu"))
"""
# Sizes of the problem in the order of its keys: the board's data is not needed where no values are computed.
PRODUCT_CALL = """
import sys
import torch
torch.set_num_threads(1)
from reference.problems import PROBLEMS
from reference.problems.interface import blank
from submission import custom_kernel_product
problem, cpu = PROBLEMS[sys.argv[1]], torch.device("cpu")
shape = problem.shape(dict(zip(problem.keys, map(int, sys.argv[2].split("x")))))
for call in range(int(sys.argv[3])):
    inputs = [torch.zeros(block.memory, dtype=torch.uint8) for block in shape.inputs()]
    inputs = [
        made.view(getattr(torch, block.dtype)).permute(block.view)
        for made, block in zip(inputs, shape.inputs(), strict=True)
    ]
    custom_kernel_product(shape.data(inputs, blank(shape, cpu)))
"""


@dataclass(frozen=True)
class Public:
    """A kernel: its source, the problem that it solves, and its author's times on a B200, us by case."""

    label: str
    repository: str
    file: str
    string: str  # the Python variable that holds the CUDA source
    problem: str  # dual, single (twice the columns, one product), grouped, gemm or gemv
    shapes: dict[str, float | None]


DUAL_TIMES = dict(zip(DUAL_SHAPES, (12.4, 16.4, 9.43, 16.3), strict=True))
NAREG_TIMES = dict(zip(DUAL_SHAPES, (14.4, 18.5, 10.3, 18.3), strict=True))
NAREG_FIRST = dict(zip(DUAL_SHAPES, (18.6, 18.6, 14.4, 18.5), strict=True))
GROUP_TIMES = dict(zip(GROUPS, (27.9, 19.4, 8.48, 6.43), strict=True))
# M, N, K and L; M, K and L.  The gemv's leaderboard times single calls.
GEMM_TIMES = {"128x7168x16384x1": 18.2, "128x4096x7168x1": 8.3, "128x7168x2048x1": 6.63}
GEMV_TIMES = {"7168x16384x1": 18.4, "4096x7168x8": 28.0, "7168x2048x4": 12.6}
NAREG_SOURCE = "nvfp4_dual_gemm_cuda_source"
KERNELS = (
    Public("gau-nernst v2b", GAU, "nvidia/nvfp4_dual_gemm/submission_v2b.py", "CUDA_SRC", "dual", DUAL_TIMES),
    Public("Nareg Megan v2", NAREG, "nvfp4_dual_gemm/sub_ptx_v2.py", NAREG_SOURCE, "dual", NAREG_TIMES),
    Public("Nareg Megan, first", NAREG, "nvfp4_dual_gemm/submission_ptx.py", NAREG_SOURCE, "dual", NAREG_FIRST),
    Public("jIab-b s_128t", JIAB, "s_128t.py", "cuda_src", "single", {"128x4096x7168": 211.0, "128x7168x2048": 82.7}),
    Public("gau-nernst v6b", GAU, "nvidia/nvfp4_group_gemm/submission_v6b.py", "CUDA_SRC", "grouped", GROUP_TIMES),
    Public("gau-nernst gemm v1", GAU, "nvidia/nvfp4_gemm/submission_v1.py", "CUDA_SRC", "gemm", GEMM_TIMES),
)
# Simulated only where --only names them: their rows take most of an hour and are not in the record.
ON_DEMAND = (Public("gau-nernst gemv v2h", GAU, "nvidia/nvfp4_gemv/submission_v2h.py", "CUDA_SRC", "gemv", GEMV_TIMES),)


def sizes_of(case: str) -> tuple[list[int], int, int]:
    """Rows of each group, and N and K of all."""
    m, n, k = (json.loads(re.search(rf"\b{name}: (\[[^\]]*\])", case).group(1)) for name in "mnk")
    return m, n[0], k[0]


def name_of(case: str) -> str:
    """A case as a row names it."""
    if "[" not in case:
        return case
    m, n, k = sizes_of(case)
    return f"{len(m)} groups x {n} x {k}"


def gau_dual_call() -> str:
    operands = [tensor(0, "m", "k / 2"), tensor(1, "n", "k / 2"), tensor(2, "n", "k / 2")]
    operands += [tensor(i, "1") for i in (3, 4, 5)]
    return f"at::Tensor c = {tensor(6, 'm', 'n')}; dual_gemm({', '.join(operands)}, c)"


def gau_group_call(rows: list[int]) -> str:
    """Each group's operands have buffers of their own; outputs share one, their columns padded to 16 rows."""
    lists: dict[str, list[str]] = {name: [] for name in "ABSTC"}
    start = 0
    for i, count in enumerate(rows):
        lists["A"].append(f"at::Tensor{{d[{4 * i}], {{{count}, k / 2}}, {{k / 2, 1}}}}")
        lists["B"].append(f"at::Tensor{{d[{4 * i + 1}], {{n, k / 2}}, {{k / 2, 1}}}}")
        lists["S"].append(f"at::Tensor{{d[{4 * i + 2}]}}")
        lists["T"].append(f"at::Tensor{{d[{4 * i + 3}]}}")
        lists["C"].append(f"at::Tensor{{(char *)d[{4 * len(rows)}] + 2 * (size_t)n * {start}}}")
        start += -(-count // 16) * 16
    return f"group_gemm({', '.join('{' + ', '.join(lists[name]) + '}' for name in 'ABSTC')})"


def product_call(problem: str, sizes: tuple[int, ...]) -> tuple[str, list[int], tuple[int, int, int]]:
    """gau-nernst's gemm, which leaves fp32 sums, and gemv; the wrapper's n is L for the gemv."""
    if problem == "gemm":
        m, n, k, _ = sizes
        operands = [tensor(0, "m", "k / 2"), tensor(1, "n", "k / 2"), tensor(2, "1"), tensor(3, "1")]
        buffers = [m * k // 2, n * k // 2, m * k // 16, n * k // 16, 4 * m * n]
        return f"at::Tensor c = {tensor(4, 'm', 'n')}; gemm({', '.join(operands)}, c)", buffers, (m, n, k)
    m, k, batches = sizes
    operands = [tensor(0, "m", "k / 2", "n"), *(tensor(i, "1") for i in (1, 2, 3))]
    buffers = [rows * batches * k // share for share in (2, 16) for rows in (m, 128)]
    call = f"at::Tensor c = {tensor(4, 'm', 'n')}; gemv({', '.join(operands)}, c)"
    return call, [*buffers, 2 * m * batches], (m, batches, k)


# The grouped kernel's host code edits encoded tensor maps, whose layout only a driver knows; here it encodes them anew.
ENCODED = (
    r"(?s)    // exploit the internal.*?SFB_list\[idx\]\.data_ptr\(\);\n",
    "    init_AB_tmap(args.A_tmap_list + i, A_list[idx].data_ptr(), M, K, 128 / CTA_GROUP, BLOCK_K);\n"
    "    init_AB_tmap(args.B_tmap_list + i, B_list[idx].data_ptr(), N, K, BLOCK_N, BLOCK_K);\n"
    "    init_SF_tmap(args.SFA_tmap_list + i, SFA_list[idx].data_ptr(), M, K, BLOCK_M * BLOCK_K / 16 / CTA_GROUP);\n"
    "    init_SF_tmap(args.SFB_tmap_list + i, SFB_list[idx].data_ptr(), N, K, BLOCK_N * BLOCK_K / 16);\n",
)


def call_of(kernel: Public, case: str) -> tuple[str, list[int], tuple[int, int, int]]:
    """The C++ call, its buffers' bytes, and m, n, k."""
    if kernel.problem == "grouped":
        rows, n, k = sizes_of(case)
        padded = [-(-count // 128) * 128 for count in rows]
        buffers = [size for p in padded for size in (p * k // 2, n * k // 2, p * k // 16, n * k // 16)]
        return gau_group_call(rows), [*buffers, 2 * n * sum(-(-count // 16) * 16 for count in rows)], (sum(rows), n, k)
    if kernel.problem in PROBLEMS:
        return product_call(kernel.problem, tuple(int(part) for part in case.split("x")))
    m, n, k = (int(part) for part in case.split("x"))
    a, b, sfa, sfb, c = m * k // 2, n * k // 2, m * k // 16, n * k // 16, 2 * m * n
    if kernel.problem == "single":
        return SINGLE_CALL, [a, b, sfa, sfb, sfa, sfb, c], (m, n, k)
    call = DUAL_CALL if kernel.repository == NAREG else gau_dual_call()
    return call, [a, b, b, sfa, sfb, sfb, c], (m, n, k)


def build(kernel: Public, case: str, sources: Sources) -> Path:
    """Compiles the source and calls of it into a library on the CUDA runtime's shim."""
    call, buffers, _ = call_of(kernel, case)
    label = re.sub(r"\W", "_", f"timed-{kernel.label}-{name_of(case)}")
    folder = sources.cache / "wrapped" / label
    stub = TORCH_STUB.replace(
        "namespace torch {",
        "namespace at { using TensorList = const std::vector<Tensor> &; }\nnamespace torch {",
    ).replace("#include <vector>", "#include <vector>\n#include <algorithm>")
    for name in HEADERS:
        (folder / name).parent.mkdir(parents=True, exist_ok=True)
        (folder / name).write_text(stub if name == "torch/library.h" else "#include <torch/library.h>\n")
    body = string_of(sources.checkout(kernel.repository) / kernel.file, kernel.string)
    if kernel.problem == "grouped":
        body = re.sub(*ENCODED, body)
    body = body.replace("C.view({N, M, 1}).transpose(0, 1)", "C")  # the gemm's other order of C, never chosen
    sizes = ", ".join(map(str, buffers))
    loop = (
        f"for (int call = 0; call < {CALLS}; call++) {{ void *d[{len(buffers)}]; size_t sizes[] = {{{sizes}}};\n"
        f"for (int i = 0; i < {len(buffers)}; i++) {{ cudaMalloc(&d[i], sizes[i]); }}\n{call}; }}"
    )
    source = folder / f"{label}.cu"
    source.write_text(body + WRAPPER.replace("CALL", loop))
    made = compile_object(source, "100a", ["-I", str(folder), *FLAGS], sources.cache, sources.commit(kernel.repository))
    return link([made], sources.cache / "libraries" / f"{label}.so", shared=True)


SETTINGS = {
    "NVFP4_SIMULATE_TIME": "b200", "NVFP4_SIMULATE_CHIP": "b200", "NVFP4_SIMULATE_VALUES": "0",
    "NVFP4_SIMULATE_CHECKS": "0", "NVFP4_SIMULATE_GO_ON": "1",
}  # fmt: skip
CHILD = """
import ctypes, sys
from _ctypes import dlclose
library = ctypes.CDLL(sys.argv[1])
one = (ctypes.c_char * 16)()
host, size = (ctypes.c_void_p * 1)(ctypes.addressof(one)), (ctypes.c_size_t * 1)(16)
status = library.trial(host, size, 1, *map(int, sys.argv[2:]))
dlclose(library._handle)
sys.exit(status != 0)
"""


def times_of(launches: list[dict[str, Any]]) -> dict[str, Any]:
    """Times of the last call, from end to end, and of the first alone; a call may launch several kernels."""
    each = len(launches) // CALLS
    ends = [launches[each * (i + 1) - 1]["end_us"] for i in range(CALLS)]
    return {
        "back_to_back_us": round(ends[-1] - ends[-2], 3),
        "isolated_us": round(ends[0] - launches[0]["start_us"], 3),
        "critical": launches[-1]["critical"],
    }


def run(arguments: list[str], environment: dict[str, str]) -> dict[str, Any]:
    """Times of a Python process on the clock."""
    with tempfile.NamedTemporaryFile() as report:
        settings = {**os.environ, **environment, "NVFP4_SIMULATE_JSON": report.name, "PYTHONPATH": str(ROOT)}
        command = [sys.executable, "-c", *arguments]
        subprocess.run(command, cwd=ROOT, env=settings, check=True, stderr=subprocess.DEVNULL)
        return times_of(json.loads(Path(report.name).read_text())["time"]["launches"])


def timed(arguments: list[str], environment: dict[str, str], machine_code: bool) -> dict[str, Any]:
    """run(), by PTX or by machine code."""
    if not machine_code:
        return run(arguments, environment)
    return by_machine_code(lambda folder: run(arguments, environment | {VARIABLE: str(folder)}), MACHINE_CODE)


def ours(problem: str, case: str, tile: str = "", chip: str = "b200", machine_code: bool = False) -> dict[str, Any]:
    """Our kernel at the same case; for a single GEMM our dual one with half the columns, which has as many products.

    tile: a tile of the grouped kernels instead of the chosen one.  chip: a chip's name or the path of its file.
    """
    clock = {"NVFP4_SIMULATE_TIME": chip}
    if problem == "grouped":
        settings = SETTINGS | {"NVFP4_LIBRARY": str(BUILD / "libcustom_kernel_sim.so"), "NVFP4_SIMULATE": "1"}
        settings |= {"NVFP4_BACKEND": "blackwell", "NVFP4_GROUPED_CONFIG": tile} | clock
        return timed([GROUP_CALL, json.dumps(sizes_of(case)), str(CALLS)], settings, machine_code)
    if problem in PROBLEMS:
        settings = SETTINGS | {"NVFP4_LIBRARY": str(BUILD / "libcustom_kernel_sim.so"), "NVFP4_SIMULATE": "1"}
        settings |= {"NVFP4_BACKEND": "blackwell"} | clock
        return timed([PRODUCT_CALL, problem, case, str(CALLS)], settings, machine_code)
    m, n, k = (int(part) for part in case.split("x"))
    shape = (m, n // 2 if problem == "single" else n, k)
    found = simulated_calls(shape, "blackwell", CALLS, machine_code=machine_code, **clock)
    return times_of(found["launches"])


def both(kernel: Public, case: str, words: list[str], chip: str, machine_code: bool = False) -> dict[str, Any]:
    """Times of the public kernel and of ours on a chip."""
    theirs = timed(words, SETTINGS | {"NVFP4_SIMULATE_TIME": chip}, machine_code)
    return {"theirs": theirs, "ours": ours(kernel.problem, case, chip=chip, machine_code=machine_code)}


def at_boards_clock(kernel: Public, case: str, words: list[str]) -> dict[str, Any]:
    """The same at the leaderboard's clock in both of its variants (b200/board.py); times only."""
    found = {}
    with tempfile.TemporaryDirectory() as folder:
        for variant in board.CLOCK_GHZ:
            chip = board.chip_file(variant, Path(folder) / f"{variant}.json")
            times = both(kernel, case, words, str(chip), variant in board.BY_MACHINE_CODE)
            found[variant] = {who: {key: of[key] for key in of if key != "critical"} for who, of in times.items()}
    return found


def written(document: dict[str, Any]) -> str:
    """The document's text, one row a line."""
    head = json.dumps({key: value for key, value in document.items() if key != "rows"})
    lines = ",\n".join(json.dumps(row) for row in document["rows"])
    return f'{head[:-1]}, "rows": [\n{lines}\n]}}\n'


def rows(sources: Sources, only: list[str]) -> Iterator[dict[str, Any]]:
    """Every kernel at every case."""
    for kernel in (*KERNELS, *(one for one in ON_DEMAND if one.label in only)):
        if only and not any(word in kernel.label for word in only):
            continue
        for case, published in kernel.shapes.items():
            library, (_, _, sizes) = build(kernel, case, sources), call_of(kernel, case)
            words = [CHILD, str(library), *map(str, sizes)]
            found = {
                "kernel": kernel.label, "repository": kernel.repository, "file": kernel.file,
                "commit": sources.commit(kernel.repository), "problem": kernel.problem, "case": name_of(case),
                "published_us": published, **both(kernel, case, words, "b200"),
                "board": at_boards_clock(kernel, case, words),
            }  # fmt: skip
            if kernel.problem == "grouped":
                found["tiles_us"] = {tile: ours("grouped", case, tile)["back_to_back_us"] for tile in GROUPED_TILES}
            yield found


def main(arguments: list[str]) -> int:
    """Simulates the kernels; rows that --only leaves out stay, marked older if the chip's parameters have changed."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--checkout", action="append", default=[], metavar="OWNER/NAME=FOLDER")
    parser.add_argument("--cache", type=Path, default=BUILD / "third_party")
    parser.add_argument("--only", nargs="+", default=[])
    options = parser.parse_args(arguments)
    given = {name: Path(folder) for name, _, folder in (entry.partition("=") for entry in options.checkout)}
    before = json.loads(RESULT.read_text()) if RESULT.is_file() else {"rows": []}
    same = before.get("parameters_sha256") == parameters_digest("b200")
    kept = [row if same else row | {"older": True} for row in before["rows"]]
    for row in rows(Sources(options.cache, given=given), options.only):
        kept = [old for old in kept if (old["kernel"], old["case"]) != (row["kernel"], row["case"])] + [row]
        print(row["kernel"], row["case"], row["theirs"]["back_to_back_us"], row["ours"]["back_to_back_us"], flush=True)
        names = [kernel.label for kernel in (*KERNELS, *ON_DEMAND)]
        kept.sort(key=lambda old: names.index(old["kernel"]))
        document = {"format": "blackwell-public-1", "parameters_sha256": parameters_digest("b200"), "rows": kept}
        RESULT.write_text(written(document))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
