"""Times the library and one GEMM on dequantized operands over M, counts inexact outputs.

On a CUDA device M goes from 1 to 8192 and the baseline is cuBLAS in fp16; on a CPU to 256, and the baselines are
torch's matmuls in bf16 and fp32.  Method and checks are compare.py's.  Floors: the NVFP4 operands once through memory,
and the multiply-adds at the tensor cores' peak (eval/hardware/chip.py); a CPU has none.

Exactness: outputs outside the leaderboard's tolerance of float64, on three kinds of random data: the leaderboard's;
every code with the leaderboard's scale factors; every code and every scale magnitude.
"""

from __future__ import annotations

import argparse
import json
import sys
from collections import Counter
from pathlib import Path
from typing import Any

import torch
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from eval.hardware import chip
from eval.output.report import print_table
from reference import nvfp4
from reference.problems.dual_gemm import DualGemm
from reference.reference import ATOL, RTOL, generate_input, oracle
from scripts.bench import compare, sweep_report
from scripts.common.options import output_file, positive, sizes
from submission.submission import custom_kernel

WEIGHTS = ((4096, 7168), (3072, 4096), (14336, 4096), (2048, 7168))  # N, K
ROWS = {
    "cuda": (1, 8, 16, 32, 64, 128, 192, 256, 384, 512, 768, 1024, 2048, 4096, 8192),
    "cpu": (1, 16, 64, 256),
}
BASELINES = {"cuda": "cublas_one_gemm", "cpu": "torch_bf16,torch_fp32"}
INPUTS = {"cuda": 24, "cpu": 2}  # calls of a round, over which the start of the first is spread
REPEATS = {"cuda": 7, "cpu": 5}
EXACT_SHAPES = {
    "cuda": ((256, 4096, 7168), (512, 4096, 7168), (256, 3072, 4096), (512, 3072, 7168)),
    "cpu": ((16, 4096, 7168), (16, 3072, 4096)),
}
DATA = ("leaderboard", "every code", "full")
SEEDS = {"cuda": (1111, 7, 99, 5, 31, 32), "cpu": (1111,)}  # draws whose counts are added


def outside(got: torch.Tensor, want: torch.Tensor) -> int:
    """The number of elements of an fp16 result outside the tolerance of float64; an overflow must give infinity."""
    fits = ~want.half().isinf()
    near = torch.isclose(got.double(), want, rtol=RTOL, atol=ATOL, equal_nan=True)
    return int((~torch.where(fits, near, got == want.half())).sum())


def gated(both: torch.Tensor, n: int) -> torch.Tensor:
    """silu * mul of the halves of an fp32 product, rounded once to fp16."""
    return (torch.nn.functional.silu(both[:, :n]) * both[:, n:]).half()


def random_data(kind: str, shape: sweep_report.Shape, seed: int, device: str) -> tuple[torch.Tensor, ...]:
    """Inputs of a kind of DATA; "every code" has the codes of "full" and the leaderboard's scale factors."""
    data = generate_input(*shape, seed=seed, device=device, full=kind != "leaderboard")
    if kind == "every code":
        data = (*data[:3], *generate_input(*shape, seed=seed, device=device)[3:])
    return data


def exactness(shape: sweep_report.Shape, kind: str, device: str) -> dict[str, int]:
    """Outputs outside the tolerance over all draws, with the names of outside_of_draw."""
    found: Counter[str] = Counter()
    for seed in SEEDS[device]:
        for name, count in outside_of_draw(random_data(kind, shape, seed, device), device).items():
            found[name] += count
    return dict(found)


def outside_of_draw(data: tuple[torch.Tensor, ...], device: str) -> dict[str, int]:
    """Outputs outside the tolerance: ours, torch in fp32, and on CUDA cuBLAS in fp16 on the same tensor cores."""
    n = data[1].shape[0]
    want = oracle(data)[..., 0]
    a, *b = (nvfp4.decode(code[..., 0], scale[..., 0]) for code, scale in zip(data[:3], data[3:6], strict=True))
    weights = torch.cat(b)
    found = {"elements": want.numel(), "ours": outside(custom_kernel(data)[..., 0], want)}
    found["torch fp32"] = outside(gated(a @ weights.t(), n), want)
    if device == "cuda":
        half = torch.mm(a.half(), weights.half().t(), out_dtype=torch.float32)  # every product is exact in fp16
        found["cuBLAS fp16, fp32 sums"] = outside(gated(half, n), want)
    return found


def floors_us(shape: sweep_report.Shape, chip_name: str) -> tuple[float, float] | None:
    """The least time of memory and of arithmetic; None for a chip with unknown peaks."""
    peak = chip.peak(chip_name)
    if peak is None:
        return None
    flops, traffic = chip.work(DualGemm(*shape, 1))
    return traffic / peak.bytes_per_second * 1e6, flops / peak.flops * 1e6


def measured(options: argparse.Namespace) -> sweep_report.Sweep:
    """Runs the sweep."""
    device = options.device
    weights = options.weights or WEIGHTS
    rows = [m for (m,) in options.rows] or ROWS[device]
    shapes = [(m, n, k) for n, k in weights for m in rows]
    words = [
        "--device",
        device,
        "--variants",
        f"{sweep_report.OURS},{sweep_report.AGAIN}",
        "--baselines",
        BASELINES[device],
    ]
    words += ["--shapes", ",".join(map(sweep_report.key, shapes)), "--commit", options.commit]
    words += ["--inputs", str(INPUTS[device]), "--repeats", str(options.repeats or REPEATS[device])]
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    with Progress(*columns, disable=not sys.stdout.isatty()) as progress:
        task = progress.add_task("shapes", total=len(shapes))
        found = compare.measure(compare.parser().parse_args(words), lambda shape: progress.advance(task))
    record: sweep_report.Sweep = found.record()
    floors = {sweep_report.key(shape): floors_us(shape, record["chip"]) for shape in shapes}
    record["floor_us"] = {name: floor for name, floor in floors.items() if floor}
    exact = EXACT_SHAPES[device] if not options.rows and not options.weights else shapes[-1:]
    record["exactness"] = {
        f"{sweep_report.key(shape)} {kind}": exactness(shape, kind, device) for shape in exact for kind in DATA
    }
    return record


def main(arguments: list[str] | None = None) -> int:
    """Measures or reads a sweep; prints its tables and writes its record."""
    parser = argparse.ArgumentParser(
        prog="./nvfp4 bench sweep", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--device", choices=("cuda", "cpu"), help="default: cuda where there is a device")
    parser.add_argument(
        "--rows", type=sizes("M"), default=[], metavar="M,...", help="default: 1 to 8192, on a CPU to 256"
    )
    parser.add_argument("--weights", type=sizes("NxK"), default=[], metavar="NxK,...", help="default: four sizes")
    parser.add_argument("--repeats", type=positive)
    parser.add_argument("--commit", default="", help="of the checkout, where git cannot tell")
    parser.add_argument("--json", type=output_file, metavar="FILE", help="where the record goes")
    parser.add_argument("--record", type=Path, metavar="FILE", help="measure nothing, show this record")
    options = parser.parse_args(arguments)
    options.device = options.device or ("cuda" if torch.cuda.is_available() else "cpu")
    if options.record:
        record: dict[str, Any] = json.loads(options.record.read_text())
    elif options.device == "cuda" and not torch.cuda.is_available():
        print("sweep: no CUDA device", file=sys.stderr)
        return 1
    else:
        record = measured(options)
    if options.json:
        options.json.write_text(json.dumps(record, indent=2) + "\n")
    print_table(f"{record['chip']}, medians of interleaved rounds", *sweep_report.rows(record))
    if record.get("exactness"):
        print_table(f"outputs outside rtol = atol = {RTOL:g} of float64", *sweep_report.exactness(record))
    for name, reason in record["left_out"].items():
        print(f"left out: {name}: {reason}")
    return 1 if sweep_report.OURS in record["left_out"] else 0


if __name__ == "__main__":
    sys.exit(main())
