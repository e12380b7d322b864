"""Checks the GPU backend on a CUDA device: shapes, edges, all inputs the format allows, repeatability, capture.

Prints a line a check and exits 1 if any failed.  --only NAME[,NAME] runs some; --configs NAMES repeats them with each
of these tiles of the backend, or with all.  --problem group_gemm takes the grouped GEMM's checks
(groups/group_checks.py) and tiles.  --device cpu takes the CPU backend, or with
NVFP4_SIMULATE=1 a GPU's on the simulator: slow, so with --only rings,nan_scales.
"""

from __future__ import annotations

import argparse
import json
import os
import sys
from collections.abc import Callable, Iterator
from pathlib import Path

import torch

from eval.cases import read_cases
from reference.problems import DEFAULT, short_name
from reference.reference import check_against_oracle, check_implementation, generate_input
from scripts.bench.baselines.variant import REFUSAL
from scripts.bench.dual import dual_variants
from scripts.bench.groups import group_checks as check_groups
from scripts.bench.groups import group_variants
from scripts.bench.products import product_checks
from scripts.common import tile_table
from scripts.common.options import output_file
from submission.submission import backends, custom_kernel

ROOT = Path(__file__).resolve().parents[2]
EDGES = (1, 40, 72, 129, 200, 1000)
EDGE_K = 17 * 64  # an odd number of scale tiles, and enough for every configuration that splits K
REPEATS = 1000
# Each backend reads its own variable.
CONFIG_VARIABLES = (*dual_variants.CONFIG_VARIABLES, group_variants.CONFIG_VARIABLE)
Verdict = Iterator[tuple[str, bool, str]]
device = "cuda"


def poisoned(*shape: int, seed: int = 1111, full: bool = False) -> tuple[torch.Tensor, ...]:
    """Inputs with NaN in the output, so that an element that is not written shows."""
    data = generate_input(*shape, seed, full=full, device=device)
    data[-1].fill_(float("nan"))
    return data


def judged(
    what: str,
    data: tuple[torch.Tensor, ...],
    check: Callable[[tuple[torch.Tensor, ...], torch.Tensor], tuple[bool, str]],
) -> Verdict:
    """A call and its check; nothing if the requested configuration refuses the shape."""
    try:
        output = custom_kernel(data)
    except RuntimeError as error:
        if REFUSAL in str(error):
            return
        raise
    yield what, *check(data, output)


def same_bits(x: torch.Tensor, y: torch.Tensor) -> bool:
    """Equal to the bit, NaNs included."""
    return torch.equal(x.view(torch.int16), y.view(torch.int16))


def few_rows() -> Verdict:
    """Up to 64 rows of A at the sizes of a model's weights, every code and every scale."""
    for m in (1, 7, 8, 9, 16, 31, 32, 33, 64):
        for n, k in ((4096, 7168), (3072, 4096), (14336, 4096), (2048, 7168), (4000, 4160)):
            data = poisoned(m, n, k, 1, seed=m, full=True)
            yield from judged(f"few rows {m}x{n}x{k}", data, check_against_oracle)


def leaderboard() -> Verdict:
    """The ten tests and the four benchmarks, with the leaderboard's own check."""
    for name in ("test", "benchmark"):
        for case in read_cases(ROOT / DEFAULT.cases / f"{name}.txt"):
            data = poisoned(*case.shape, seed=case.seed)
            yield from judged(f"{name} {case.shape.text()}", data, check_implementation)


def edges() -> Verdict:
    """Sizes that are a multiple of no tile, K with an odd number of scale tiles, L = 3, both scale layouts."""
    shapes = [(m, n, EDGE_K, 1) for m in EDGES for n in EDGES]
    shapes += [(129, 200, k, 3) for k in (64, 128, 192, 448, 1024, 7168)] + [(1, 1, 64, 1), (300, 7, 320, 2)]
    for i, shape in enumerate(shapes):
        for full in (False, True):
            data = poisoned(*shape, seed=i, full=full)
            for verdict in judged(f"blocked {shape} full={full}", data, check_against_oracle):
                yield verdict
                blocked = data[-1].clone()
                data[-1].fill_(float("nan"))
                rows = custom_kernel((*data[:6], data[-1]))
                yield f"rows {shape} full={full}", same_bits(rows, blocked), "differs from the blocked layout"


def full_benchmarks() -> Verdict:
    """Every code and every scale on the benchmark shapes."""
    for case in read_cases(ROOT / DEFAULT.cases / "benchmark.txt"):
        data = poisoned(*case.shape, seed=7, full=True)
        yield from judged(f"full {case.shape.text()}", data, check_against_oracle)


def nan_scales() -> Verdict:
    """A NaN scale factor makes its outputs NaN and no others."""
    for tensor, (row, group) in ((6, (5, 3)), (7, (70, 11)), (8, (129, 0))):
        for byte in (0x7F, 0xFF):
            data = poisoned(200, 200, EDGE_K, 1)
            index = (row % 32, row % 128 // 32, row // 128, group % 4, group // 4, 0)
            data[tensor].view(torch.uint8)[index] = byte
            for fp4 in data[:3]:
                fp4.view(torch.uint8)[:, :8] = 0  # NaN times zero is NaN, too
            output = custom_kernel(data)[..., 0]
            want = torch.zeros_like(output, dtype=torch.bool)
            if tensor == 6:
                want[row] = True
            else:
                want[:, row] = True
            yield f"NaN {byte:#x} in tensor {tensor}", bool(torch.equal(output.isnan(), want)), "NaNs are elsewhere"


def repeats() -> Verdict:
    """The same inputs give the same bits every time, calls back to back."""
    for m in (256, 8, 16, 32):
        data = poisoned(m, 4096, 7168, 1)
        want = custom_kernel(data).clone()
        wrong = torch.zeros((), dtype=torch.int64, device="cuda")
        for _ in range(REPEATS):
            data[-1].fill_(float("nan"))
            wrong += (custom_kernel(data).view(torch.int16) != want.view(torch.int16)).sum()
        yield f"{REPEATS} repeats of {m} rows", int(wrong) == 0, f"{int(wrong)} elements differ"


def back_to_back() -> Verdict:
    """Calls of different shapes without a pause between them: dependent launches must not run ahead."""
    shapes = ((256, 4096, 7168, 1), (40, 72, 64, 3), (512, 3072, 7168, 1), (256, 3072, 4096, 1), (129, 200, 448, 1))
    shapes += ((8, 4096, 7168, 1), (1, 72, 64, 3), (16, 3072, 4096, 1), (32, 200, 448, 2), (20, 2048, 7168, 1))
    sets = [poisoned(*shape, seed=i) for i, shape in enumerate(shapes * 3)]
    wants = [custom_kernel(data).clone() for data in sets]
    torch.cuda.synchronize()
    for data in sets:
        data[-1].fill_(float("nan"))
    for data in sets * 5:
        custom_kernel(data)
    torch.cuda.synchronize()
    for i, (data, want) in enumerate(zip(sets, wants, strict=True)):
        yield f"back to back {i}", same_bits(data[-1], want), "differs from the same call alone"


def produced_inputs() -> Verdict:
    """Inputs written by the kernel just before, on the same queue."""
    for m in (256, 8):
        source, data = poisoned(m, 4096, 7168, 1, seed=3), poisoned(m, 4096, 7168, 1, seed=4)
        want = custom_kernel(source).clone()
        for _ in range(20):
            for to, value in zip(data[:9], source[:9], strict=True):
                to.view(torch.uint8).zero_()
                to.view(torch.uint8).copy_(value.view(torch.uint8))
            custom_kernel(data)
        torch.cuda.synchronize()
        yield f"inputs of {m} rows made just before", same_bits(data[-1], want), "stale inputs were read"


def rings() -> Verdict:
    """Small shapes whose K goes around every ring of stages several times: for compute-sanitizer (make sanitize)."""
    few = ((8, 72, 2112, 2), (16, 200, 3072, 1), (32, 136, 3136, 1))
    for shape in ((129, 200, 3072, 1), (40, 72, 2112, 2), *few):
        data = poisoned(*shape, full=True)
        yield f"{shape}", *check_against_oracle(data, custom_kernel(data))
        yield f"rows {shape}", *check_against_oracle((*data[:6], data[-1]), custom_kernel((*data[:6], data[-1])))


def capture() -> Verdict:
    """Under CUDA graph capture, on one of torch's queues."""
    data = poisoned(256, 3072, 4096, 1)
    want = custom_kernel(data).clone()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        custom_kernel(data, queue=torch.cuda.current_stream().cuda_stream)
    for i in range(3):
        data[-1].fill_(float("nan"))
        graph.replay()
        torch.cuda.synchronize()
        yield f"graph replay {i}", same_bits(data[-1], want), "differs from the call outside"


def errors() -> Verdict:
    """Bad input is refused, and the device works afterwards."""
    data = poisoned(128, 128, 256, 1)
    for name, bad, expected in (
        ("mixed devices", (*data[:9], data[9].cpu()), ValueError),
        ("host inputs", (data[0].cpu(), *data[1:]), ValueError),
        ("wrong dtype", (data[0].view(torch.uint8), *data[1:]), TypeError),
    ):
        try:
            custom_kernel(bad)
            yield name, False, "was accepted"
        except expected as error:
            yield name, True, str(error)
    os.environ["NVFP4_BACKEND"] = "cpu"
    try:
        custom_kernel(data)
        yield "cpu backend on CUDA tensors", False, "was accepted"
    except ValueError as error:
        yield "cpu backend on CUDA tensors", "CUDA" in str(error), str(error)
    finally:
        del os.environ["NVFP4_BACKEND"]
    yield "works afterwards", *check_implementation(data, custom_kernel(data))


CHECKS: dict[str, Callable[[], Verdict]] = {
    check.__name__: check
    for check in (
        leaderboard, few_rows, edges, full_benchmarks, nan_scales, repeats, back_to_back, produced_inputs, rings,
        capture, errors
    )
}  # fmt: skip


def run_check(config: str, name: str, verbose: bool, checks: dict[str, Callable[[], Verdict]]) -> dict[str, object]:
    """One check with one configuration; an exception is its last failure."""
    os.environ |= dict.fromkeys(CONFIG_VARIABLES, config)
    passed, failures = 0, []
    label = config or "auto"
    try:
        for what, ok, message in checks[name]():
            passed += ok
            if not ok:
                failures.append(f"{what} {message}")
            if not ok or verbose:
                print(f"  {'pass' if ok else 'FAIL'} {label} {name}: {what} {message}", flush=True)
    except Exception as error:  # from the kernel or the device: also a failure
        failures.append(f"{type(error).__name__}: {error}")
        print(f"  FAIL {label} {name}: {failures[-1]}", flush=True)
    print(f"{label} {name}: {passed} passed", flush=True)
    return {"config": label, "check": name, "passed": passed, "failures": failures}


# The checks of each problem, by name, and the names of a backend's tiles for it.
PROBLEM_CHECKS = {
    "dual_gemm": (CHECKS, tile_table.names),
    "group_gemm": (check_groups.CHECKS, tile_table.grouped_names),
    **{name: (product_checks.checks(name), tile_table.grouped_names) for name in ("gemm", "gemv")},
}


def every_config(problem: str) -> list[str]:
    """The names of the tiles of the GPU backend that runs here."""
    usable = [backend.name for backend in backends() if backend.available and backend.name != "cpu"]
    names = PROBLEM_CHECKS[problem][1]
    return names(os.environ.get("NVFP4_BACKEND") or usable[0])


def main() -> int:
    """Runs the checks."""
    parser = argparse.ArgumentParser(
        prog="./nvfp4 bench check_gpu", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--problem", type=short_name, choices=PROBLEM_CHECKS, default=DEFAULT.name)
    parser.add_argument(
        "--only", help="comma-separated; default: all of " + ", ".join({**CHECKS, **check_groups.CHECKS})
    )
    parser.add_argument("--configs", default="", help="comma-separated, or all; default: the library's choice")
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--json", type=output_file, metavar="FILE", help="also write the results there")
    parser.add_argument("--verbose", action="store_true")
    options = parser.parse_args()
    global device
    device = check_groups.device = product_checks.device = options.device
    checks = PROBLEM_CHECKS[options.problem][0]
    if device == "cuda" and not torch.cuda.is_available():
        print("check_gpu.py: no CUDA device", file=sys.stderr)
        return 1
    for backend in backends():
        print(f"{backend.name}: {backend.detail}")
    results = [
        run_check(config, name, options.verbose, checks)
        for config in (every_config(options.problem) if options.configs == "all" else options.configs.split(","))
        for name in (options.only.split(",") if options.only else checks)
    ]
    if options.json:
        options.json.write_text(json.dumps({"checks": results}, indent=2) + "\n")
    failed = sum(len(result["failures"]) for result in results)
    print(f"{failed} failed")
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
