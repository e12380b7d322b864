"""Times the GPU backend against baselines, side by side in one run on a CUDA device.

Variants: `auto` (the library's own choice), names of the backend's config.h, and any of them with `+again` (the
same thing twice: the noise floor) or `+plain` (launched without dependent launch).  `NAME/auto` takes another built
checkout with its own shim (--checkout NAME=DIR) or another library (--library NAME=FILE; no round accepts it, since its
sources are unknown).  Baselines: baselines/.

A sample is the time of a call in a round of back-to-back calls over distinct inputs, after the L2 cache was flushed;
rounds of all variants are interleaved in random order.  Every variant is checked first, and again at the end.
--problem group_gemm times the grouped GEMM in the same way (groups/), 15 inputs a round; a shape is then
"80,176x4096x7168", and semicolons stand between shapes.  --problem gemm and gemv: products/; sizes as in a case line.
--device cpu times the CPU backend in the same way; its variants are instruction sets, such as `avx2`.  With
NVFP4_SIMULATE=1 everything runs on the simulator: the times mean nothing then, and the samples name the simulator.
"""

from __future__ import annotations

import argparse
import json
import os
import random
import subprocess
import sys
import time
from collections.abc import Callable, Iterable, Sequence
from pathlib import Path
from statistics import geometric_mean, median
from typing import Any, NamedTuple

import torch

from eval.cases import read_cases
from eval.hardware import chip
from eval.output.report import print_table
from eval.stats import relative_spread
from reference.problems import DEFAULT, PROBLEMS, short_name
from scripts.bench import provenance
from scripts.bench.baselines.dual_baselines import BASELINES, CUDA_BASELINES, baseline
from scripts.bench.baselines.variant import REFUSAL, Call
from scripts.bench.dual.dual_problem import Problem
from scripts.bench.dual.dual_variants import check, load_shim, ours, wanted
from scripts.bench.groups import group_variants as grouped
from scripts.bench.products import product_variants as products
from scripts.common.bootstrap import ratio_interval
from scripts.common.options import named, output_file, positive
from submission import group_submission
from submission.submission import custom_kernel

ROOT = Path(__file__).resolve().parents[2]
FLUSH_BYTES = 1 << 30
FLUSH_FILLS = 8


Shape = tuple[int | str, ...]  # M, N, K; of the GEMM and the GEMV, the sizes that a case line has


def load_kernels(options: argparse.Namespace) -> tuple[dict[str, Callable[..., torch.Tensor]], dict[str, str]]:
    """custom_kernel by the part before a variant's slash ("" is this checkout), and the digest of its sources."""
    own = os.environ.get("NVFP4_LIBRARY")
    kind = KINDS[options.problem]
    kernels = {"": kind.kernel()}
    digests = {"": provenance.file_digest(Path(own)) if own else provenance.checkout_digest(ROOT)}
    for name, place in options.library:
        kernels[name], digests[name] = kind.load_shim(place, ROOT), provenance.file_digest(Path(place))
    for name, place in options.checkout:
        folder = Path(place).resolve()
        kernels[name] = kind.load_shim(str(folder / "build" / "libcustom_kernel.so"), folder)
        digests[name] = provenance.checkout_digest(folder)
    return kernels, digests


def variant_digest(name: str, digests: dict[str, str]) -> str:
    """Digest of what was timed: the sources of the variant's library, or the file of the baselines."""
    for kind in KINDS.values():
        if name in kind.baselines:
            return provenance.file_digest(Path(__file__).parent / kind.file)
    return digests[name.rpartition("/")[0]]


class Timer:
    """Rounds of back-to-back calls from a cold cache."""

    def __init__(self, device: str) -> None:
        self._cuda = device == "cuda"
        self.last_mhz: int | None = None  # during the last round, where it can be read
        if self._cuda:
            self._flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")
            self._events = [torch.cuda.Event(enable_timing=True) for _ in range(2)]
            self._clock = chip.Clock(torch.device("cuda", torch.cuda.current_device()))

    def round_us(self, call: Call, count: int) -> float:
        """Mean time of count calls; all of them are queued while the flush runs."""
        getattr(call, "prepare", lambda: None)()
        if not self._cuda:
            begin = time.perf_counter()
            for i in range(count):
                call(i)
            return (time.perf_counter() - begin) * 1e6 / count
        for i in range(FLUSH_FILLS):
            self._flush.fill_(i)
        self._events[0].record()
        for i in range(count):
            call(i)
        self._events[1].record()
        self._events[0].synchronize()
        self.last_mhz = self._clock.read_mhz()  # while the calls run
        torch.cuda.synchronize()
        return self._events[0].elapsed_time(self._events[1]) * 1e3 / count


class Kind(NamedTuple):
    """The parts of timing that depend on the problem."""

    kernel: Callable[[], Callable[..., Any]]  # returns the package's kernel
    load_shim: Callable[[str, Path], Callable[..., Any]]
    make: Callable[..., Any]  # takes M, N, K, the number of inputs and the device
    wanted: Callable[[Any], list[Any]]
    ours: Callable[..., Call]
    baseline: Callable[[Any, str], Call]
    check: Callable[..., str]
    baselines: Iterable[str]
    file: str  # the source file of the baselines
    defaults: Sequence[str]  # the baselines timed by default on a CUDA device
    inputs: int
    separator: str  # between shapes on the command line
    sizes: Callable[[Any], Sequence[int | str]] = lambda shape: shape.text().split()[:3]  # of a case's shape


KINDS = {
    "dual_gemm": Kind(
        lambda: custom_kernel, lambda *args: load_shim(*args), lambda *args: Problem(*args),
        lambda problem: wanted(problem), lambda *args: ours(*args), baseline, lambda *args: check(*args),
        BASELINES, "baselines/dual_baselines.py", CUDA_BASELINES, 24, ",",
    ),
    "group_gemm": Kind(
        lambda: group_submission.custom_kernel, grouped.load_shim, grouped.Problem, grouped.wanted, grouped.ours,
        grouped.baseline, grouped.check, grouped.BASELINES, "groups/group_variants.py", grouped.DEFAULTS,
        grouped.INPUTS, ";",
    ),
    **{
        name: Kind(
            products.kernel, products.load_shim, products.make(name), products.wanted, products.ours,
            products.baseline, products.check, products.BASELINES, "products/product_variants.py",
            products.DEFAULTS[name], products.INPUTS, ",", tuple,
        )
        for name in ("gemm", "gemv")
    },
}  # fmt: skip


def run_shape(
    shape: Shape, variants: list[str], options: argparse.Namespace, timer: Timer
) -> tuple[list[dict[str, object]], dict[str, str]]:
    """The samples of one shape, and the variants that were left out with the reason."""
    kind = KINDS[options.problem]
    problem = kind.make(*shape, options.inputs, options.device)
    wants = kind.wanted(problem)
    calls: dict[str, Call] = {}
    left_out: dict[str, str] = {}
    for name in variants:
        try:
            call = (
                kind.baseline(problem, name)
                if name in kind.baselines
                else kind.ours(problem, name, options.kernels, options.scales)
            )
            getattr(call, "prepare", lambda: None)()
            wrong = kind.check(problem, name, call, wants)
        except Exception as error:  # a baseline that cannot run is reported, and the others go on
            wrong = f"{name}: {type(error).__name__}: {str(error)[:300]}"
        if wrong:
            left_out[name] = wrong
            print(f"left out at {shape}: {wrong}", flush=True)
        else:
            calls[name] = call
    samples: list[dict[str, object]] = []
    for call in calls.values():
        timer.round_us(call, options.inputs)
    begin = time.monotonic()
    repeat = 0
    while repeat < options.repeats and time.monotonic() - begin < options.seconds:
        for name in random.sample(list(calls), len(calls)):
            us = timer.round_us(calls[name], options.inputs)
            sample = {"shape": list(shape), "variant": name, "repeat": repeat, "us": us, "sm_mhz": timer.last_mhz}
            samples.append(sample | options.origin | {"digest": options.digests[name]})
        repeat += 1
    for name, call in calls.items():
        getattr(call, "prepare", lambda: None)()
        wrong = kind.check(problem, name, call, wants)
        if wrong:
            left_out[name] = f"wrong after timing: {wrong}"
            print(f"left out at {shape}: {left_out[name]}", flush=True)
    return [sample for sample in samples if sample["variant"] not in left_out], left_out


def report(samples: list[dict[str, object]], variants: list[str], shapes: list[Shape], chip_name: str) -> None:
    """One table: medians, and each variant against the first baseline and the first variant."""
    header = ["variant", *("x".join(map(str, shape)) for shape in shapes), "geomean", "spread"]
    peer = next(
        (name for name in ("cublas_one_gemm", "cublas_groups", "cublas_product") if name in variants), "cublas_one_gemm"
    )
    header += [f"/ {variants[0]}", f"/ {peer}"]
    by: dict[str, list[list[float]]] = {
        name: [[s["us"] for s in samples if s["variant"] == name and s["shape"] == list(shape)] for shape in shapes]
        for name in variants
    }
    rows = []
    for name in variants:
        row = [name, *(f"{median(us):.2f}" if us else "-" for us in by[name])]
        if all(by[name]):
            row.append(f"{geometric_mean(median(us) for us in by[name]):.2f}")
            row.append(f"{100 * max(relative_spread(us) for us in by[name]):.1f} %")
            for base in (variants[0], peer):
                if base in by and all(by[base]):
                    pairs = zip(by[name], by[base], strict=True)
                    row.append(f"{geometric_mean(ratio_interval(a, b).ratio for a, b in pairs):.3f}")
                else:
                    row.append("-")
        else:
            row += ["-"] * 4
        rows.append(row)
    print_table(f"{chip_name}: us a call, medians of interleaved rounds", header, rows)


class Measured(NamedTuple):
    """Result of a comparison."""

    env: dict[str, object]  # chip, versions, clocks, digests (provenance.py)
    samples: list[dict[str, object]]
    left_out: dict[str, str]  # variants whose results were wrong or that cannot run, with the reason
    variants: list[str]
    shapes: list[Shape]

    def record(self) -> dict[str, object]:
        """The environment and the medians in us, by variant and shape."""
        medians = {
            name: {
                "x".join(map(str, shape)): median(us)
                for shape in self.shapes
                if (us := [s["us"] for s in self.samples if s["variant"] == name and s["shape"] == list(shape)])
            }
            for name in self.variants
        }
        return {**self.env, "median_us": medians, "left_out": self.left_out}


def read_shape(parts: Sequence[str]) -> Shape:
    """M, N, K; a part with a value for each group stays text."""
    return tuple(int(part) if part.isdecimal() else part for part in parts)


def parser() -> argparse.ArgumentParser:
    """The command line."""
    made = argparse.ArgumentParser(
        prog="./nvfp4 bench compare", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    made.add_argument("--variants", default="auto", help="comma-separated; default: auto")
    made.add_argument("--problem", type=short_name, choices=KINDS, default=DEFAULT.name)
    made.add_argument("--baselines", help="comma-separated; empty for none; default: the problem's on a CUDA device")
    made.add_argument("--library", type=named, action="append", default=[], metavar="NAME=FILE", help="for NAME/auto")
    made.add_argument(
        "--checkout", type=named, action="append", default=[], metavar="NAME=DIR", help="built; for NAME/auto"
    )
    made.add_argument("--scales", choices=("blocked", "rows"), default="blocked", help="layout of our scale factors")
    made.add_argument("--inputs", type=positive, help="distinct inputs, calls of a round; default: 24, of groups 15")
    made.add_argument("--repeats", type=positive, default=20)
    made.add_argument("--seconds", type=float, default=60.0, help="at most, for each shape")
    made.add_argument("--shapes", default="", help="e.g. 256x4096x7168,...; default: the benchmarks")
    made.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    made.add_argument("--commit", default="", help="the checkout's commit, for a checkout without git")
    made.add_argument("--samples", type=Path, metavar="FILE.jsonl")
    made.add_argument("--env", type=Path, metavar="FILE.json")
    made.add_argument("--json", type=output_file, metavar="FILE.json")
    return made


def measure(options: argparse.Namespace, each: Callable[[Shape], None] = lambda shape: None) -> Measured:
    """Times every variant at every shape; calls `each` after a shape."""
    torch.backends.cuda.matmul.allow_tf32 = False
    kind = KINDS[options.problem]
    options.kernels, built_from = load_kernels(options)
    options.inputs = options.inputs or kind.inputs
    baselines = kind.defaults if options.baselines is None else options.baselines.split(",")
    variants = [name for name in (*options.variants.split(","), *baselines) if name]
    shapes = [read_shape(shape.split("x")) for shape in options.shapes.split(kind.separator) if shape]
    cases = read_cases(ROOT / PROBLEMS[options.problem].cases / "benchmark.txt")
    board = [read_shape([str(size) for size in kind.sizes(case.shape)]) for case in cases]
    example = "x".join(map(str, board[0]))
    if wrong := next((shape for shape in shapes if len(shape) != len(board[0]) or "" in shape), None):
        raise SystemExit(f"compare: --shapes: '{'x'.join(map(str, wrong))}'; expected sizes as in {example}")
    if wrong := next((name for name in baselines if name and name not in kind.baselines), None):
        raise SystemExit(f"compare: --baselines: '{wrong}'; expected some of {', '.join(kind.baselines)}")
    shapes = shapes or board
    commit = options.commit
    if not commit:
        git = subprocess.run(["git", "-C", str(ROOT), "rev-parse", "HEAD"], capture_output=True, text=True, check=False)
        commit = git.stdout.strip()
    options.digests = {name: variant_digest(name, built_from) for name in variants}
    options.origin = provenance.of_samples(Path(__file__), options.device)
    timer, samples, left_out = Timer(options.device), [], {}
    for shape in shapes:
        of_shape, left = run_shape(shape, variants, options, timer)
        samples += of_shape
        left_out |= left
        torch.cuda.empty_cache()
        each(shape)
    clocks = [sample["sm_mhz"] for sample in samples if sample.get("sm_mhz") is not None]
    timed = {name: options.digests[name] for name in dict.fromkeys(sample["variant"] for sample in samples)}
    env = provenance.environment(Path(__file__), options.device, commit, clocks, timed)
    return Measured(env, samples, left_out, variants, shapes)


def main(arguments: list[str] | None = None) -> int:
    """Runs the comparison; prints the table and writes samples, environment and a summary."""
    options = parser().parse_args(arguments)
    if options.device == "cuda" and not torch.cuda.is_available():
        print("compare.py: no CUDA device", file=sys.stderr)
        return 1
    found = measure(options)
    if options.samples:
        options.samples.write_text("".join(json.dumps(sample) + "\n" for sample in found.samples))
    if options.env:
        options.env.write_text(json.dumps(found.env, indent=2) + "\n")
    if options.json:
        options.json.write_text(json.dumps(found.record(), indent=2) + "\n")
    report(found.samples, found.variants, found.shapes, str(found.env["chip"]))
    env = found.env
    print(f"SM clock while timing: {env['clocks']['sm_mhz_while_timing']} MHz; {env['chip']}, driver {env['driver']}")
    for reason in found.left_out.values():
        print(f"left out: {reason}")
    ours = [reason for name, reason in found.left_out.items() if name not in KINDS[options.problem].baselines]
    return 1 if any(REFUSAL not in reason for reason in ours) else 0


if __name__ == "__main__":
    sys.exit(main())
