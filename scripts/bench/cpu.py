"""Times the CPU backend against torch on the four benchmark shapes, side by side in one run.

Two ratios, each a median over interleaved repeats (above 1: the library is faster):
  same job       torch from the same NVFP4 inputs: dequantize, two fp32 matmuls, silu * mul
  matmuls alone  torch's two fp32 matmuls on operands dequantized beforehand
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

import torch

from eval.cases import read_cases
from eval.output.report import print_table
from reference import nvfp4
from reference.reference import compare, generate_input, ref_kernel
from scripts.bench import compare as variants
from submission.submission import backends, custom_kernel

ROOT = Path(__file__).resolve().parents[2]
INPUT_SETS = 2
TARGETS = {"same job": 3.0, "matmuls alone": 1.0}


def dequantize(data: tuple[torch.Tensor, ...]) -> list[torch.Tensor]:
    """A, B1 and B2 of a problem as fp32 matrices."""
    return [nvfp4.decode(code[..., 0], scale[..., 0]) for code, scale in zip(data[:3], data[3:6], strict=True)]


def timed_ms(call: Callable[[], object]) -> float:
    """Wall time of one call."""
    start = time.perf_counter_ns()
    call()
    return (time.perf_counter_ns() - start) / 1e6


def measure(m: int, n: int, k: int, seed: int, repeats: int) -> dict[str, float]:
    """Medians in ms of the three, and the median of the two ratios repeat by repeat."""
    sets = [generate_input(m, n, k, 1, seed + i, device="cpu") for i in range(INPUT_SETS)]
    dequantized = [dequantize(data) for data in sets]
    wants = [ref_kernel(data) for data in sets]
    samples: dict[str, list[float]] = {"ours": [], "same job": [], "matmuls alone": []}
    for repeat in range(-1, repeats):  # the first one warms up
        i = repeat % INPUT_SETS
        data, (a, b1, b2) = sets[i], dequantized[i]
        data[-1].fill_(float("nan"))
        times = {
            "ours": timed_ms(lambda data=data: custom_kernel(data)),
            "same job": timed_ms(lambda data=data: ref_kernel(data)),
            "matmuls alone": timed_ms(lambda a=a, b1=b1, b2=b2: (a @ b1.t(), a @ b2.t())),
        }
        ok, message = compare(data[-1], wants[i])
        if not ok:
            raise RuntimeError(f"wrong result at m {m}, n {n}, k {k}: {message}")
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
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--repeats", type=int, default=9)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options, words = parser.parse_known_args(arguments)
    if "--samples" in words:
        own = ["--device", "cpu", "--baselines", "", "--inputs", str(INPUT_SETS), "--repeats", str(options.repeats)]
        return variants.main([*own, *words])
    if words:
        parser.error(f"unknown: {' '.join(words)} (variants are timed for a round, with --samples and --env)")
    detail = next(backend.detail for backend in backends() if backend.name == "cpu")
    environment = f"library: {detail}; torch {torch.__version__}, {torch.get_num_threads()} threads"
    rows = []
    for case in read_cases(ROOT / "eval" / "cases" / "benchmark.txt"):
        m, n, k, _ = case.shape
        rows.append({"m": m, "n": n, "k": k} | measure(m, n, k, case.seed, options.repeats))
    geomeans = {name: geometric_mean(row[f"ratio, {name}"] for row in rows) for name in TARGETS}
    table = [
        [
            f"{row['m']} {row['n']} {row['k']}",
            *(f"{row[f'{name}, ms']:.1f}" for name in ("ours", *TARGETS)),
            *(f"{row[f'ratio, {name}']:.2f}" for name in TARGETS),
        ]
        for row in rows
    ]
    table.append(["geometric mean", "", "", "", *(f"{geomeans[name]:.2f}" for name in TARGETS)])
    print(environment)
    print_table(
        f"CPU backend against torch, medians of {options.repeats} interleaved repeats",
        ["M N K", "ours, ms", "torch same job, ms", "torch matmuls, ms", "same job / ours", "matmuls / ours"],
        table,
    )
    print("; ".join(f"{name}: {geomeans[name]:.2f} (target {target:g})" for name, target in TARGETS.items()))
    if options.json:
        record = {"environment": environment, "repeats": options.repeats, "shapes": rows, "geomean": geomeans}
        options.json.write_text(json.dumps(record, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
