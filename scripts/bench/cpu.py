"""Times the CPU backend against torch on a problem's benchmarks (--problem), side by side in one run.

Two ratios, each a median over interleaved repeats (above 1: the library is faster):
  same job       torch from the same NVFP4 inputs: dequantize, fp32 matmuls and, for the dual GEMM, silu * mul
  matmuls alone  torch's fp32 matmuls on operands dequantized beforehand
Every timed output is checked; inputs are fresh random data, several sets in rotation.

For a round of the CPU backend, --samples FILE --env FILE times variants of the library instead, as compare.py does with
--device cpu: `auto`, an instruction set, or either of another checkout (--checkout base=DIR --variants base/auto,auto).
"""

from __future__ import annotations

import argparse
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any

import torch

from eval.cases import read_cases
from eval.output.report import print_table
from reference import nvfp4
from reference.check import compare
from reference.problems import DEFAULT, PROBLEMS, short_name
from reference.problems.interface import BOARD, Shape, blank, parts
from scripts.bench import compare as variants
from scripts.common.options import output_file, positive
from submission import backends, custom_kernel, custom_kernel_grouped, custom_kernel_product

ROOT = Path(__file__).resolve().parents[2]
INPUT_SETS = 2
TARGETS = {"same job": 3.0, "matmuls alone": 1.0}


Matrices = tuple[torch.Tensor, ...]


def dual_operands(data: tuple[torch.Tensor, ...]) -> list[Matrices]:
    """A, B1 and B2 as fp32 matrices."""
    pairs = zip(data[:3], data[3:6], strict=True)
    return [tuple(nvfp4.decode(code[..., 0], scale[..., 0]) for code, scale in pairs)]


def group_operands(data: tuple[Any, ...]) -> list[Matrices]:
    """a and b of every group as fp32 matrices."""
    return [
        (nvfp4.decode(a[..., 0], sfa[..., 0]), nvfp4.decode(b[..., 0], sfb[..., 0]))
        for (a, b, _), (sfa, sfb) in zip(data[0], data[1], strict=True)
    ]


def product_operands(data: tuple[torch.Tensor, ...]) -> list[Matrices]:
    """a and the rows of b that count as fp32 matrices, for each batch."""
    a, b, sfa, sfb, _, _, c = data
    n, batches = c.shape[1:]
    return [(nvfp4.decode(a[..., i], sfa[..., i]), nvfp4.decode(b[:n, :, i], sfb[:n, :, i])) for i in range(batches)]


def matmuls(operands: list[Matrices]) -> None:
    """Multiplies the first matrix of each tuple by the transposes of the others."""
    for a, *others in operands:
        for b in others:
            a @ b.t()


# By problem: the package's kernel, and the function that makes torch's operands.
KERNELS: dict[str, tuple[Callable[[Any], Any], Callable[[Any], list[Matrices]]]] = {
    "dual_gemm": (custom_kernel, dual_operands),
    "group_gemm": (custom_kernel_grouped, group_operands),
    "gemm": (custom_kernel_product, product_operands),
    "gemv": (custom_kernel_product, product_operands),
}


def timed_ms(call: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter_ns()
    call()
    return (time.perf_counter_ns() - start) / 1e6


def made(shape: Shape, seed: int) -> tuple[Any, ...]:
    """The leaderboard's data for a kernel."""
    device = torch.device("cpu")
    return shape.data(shape.generate(seed, BOARD, device), blank(shape, device))


def measure(shape: Shape, seed: int, repeats: int) -> dict[str, float]:
    """Medians in ms of all three, and the medians of both ratios over the repeats."""
    kernel, operands_of = KERNELS[shape.problem.name]
    sets = [made(shape, seed + i) for i in range(INPUT_SETS)]
    dequantized = [operands_of(data) for data in sets]
    wants = [parts(shape.problem.reference(data)) for data in sets]
    samples: dict[str, list[float]] = {"ours": [], "same job": [], "matmuls alone": []}
    for repeat in range(-1, repeats):  # repeat -1 warms up
        i = repeat % INPUT_SETS
        data = sets[i]
        outputs = parts(shape.offered(data))
        for output in outputs:
            output.fill_(float("nan"))
        times = {
            "ours": timed_ms(lambda data=data: kernel(data)),
            "same job": timed_ms(lambda data=data: shape.problem.reference(data)),
            "matmuls alone": timed_ms(lambda i=i: matmuls(dequantized[i])),
        }
        for got, want in zip(outputs, wants[i], strict=True):
            ok, message = compare(got, want)
            if not ok:
                raise RuntimeError(f"wrong result at {shape.problem.columns} {shape.text()}: {message}")
        if repeat >= 0:
            for name, value in times.items():
                samples[name].append(value)
    result = {f"{name}, ms": median(values) for name, values in samples.items()}
    for name in TARGETS:
        pairs = zip(samples[name], samples["ours"], strict=True)
        result[f"ratio, {name}"] = median(other / ours for other, ours in pairs)
    return result


def main(arguments: list[str] | None = None) -> int:
    """Prints the table; --json FILE keeps it."""
    parser = argparse.ArgumentParser(
        prog="./nvfp4 bench cpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--repeats", type=positive, default=9)
    parser.add_argument("--json", type=output_file, metavar="FILE")
    parser.add_argument("--problem", type=short_name, choices=KERNELS, default=DEFAULT.name)
    options, words = parser.parse_known_args(arguments)
    problem = PROBLEMS[options.problem]
    if "--samples" in words:
        own = ["--device", "cpu", "--baselines", "", "--inputs", str(INPUT_SETS), "--repeats", str(options.repeats)]
        return variants.main([*own, *words])
    if words:
        parser.error(f"unknown: {' '.join(words)} (variants are timed for a round, with --samples and --env)")
    detail = next(backend.detail for backend in backends() if backend.name == "cpu")
    environment = f"library: {detail}; torch {torch.__version__}, {torch.get_num_threads()} threads"
    rows = []
    for case in read_cases(ROOT / problem.cases / "benchmark.txt"):
        sizes = {name: size for name, size in case.shape.record().items() if name in ("m", "n", "k")}
        rows.append(sizes | {"text": case.shape.text()} | measure(case.shape, case.seed, options.repeats))
    geomeans = {name: geometric_mean(row[f"ratio, {name}"] for row in rows) for name in TARGETS}
    table = [
        [
            row["text"],
            *(f"{row[f'{name}, ms']:.1f}" for name in ("ours", *TARGETS)),
            *(f"{row[f'ratio, {name}']:.2f}" for name in TARGETS),
        ]
        for row in rows
    ]
    table.append(["geometric mean", "", "", "", *(f"{geomeans[name]:.2f}" for name in TARGETS)])
    print(environment)
    print_table(
        f"CPU backend against torch, medians of {options.repeats} interleaved repeats",
        [problem.columns, "ours, ms", "torch same job, ms", "torch matmuls, ms", "same job / ours", "matmuls / ours"],
        table,
    )
    print("; ".join(f"{name}: {geomeans[name]:.2f} (target {target:g})" for name, target in TARGETS.items()))
    if options.json:
        record = {"environment": environment, "repeats": options.repeats, "shapes": rows, "geomean": geomeans}
        options.json.write_text(json.dumps(record, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
