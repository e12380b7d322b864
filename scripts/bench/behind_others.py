"""Times one more call of the library after others: the difference between long and short rounds of calls.

    python -m scripts.bench.behind_others --json FILE.json       # on a CUDA device

Each call of a round has its own inputs, and a round starts from a flushed cache; costs that a round pays once are in
both rounds and cancel.  The library's choice is timed at the leaderboard's shapes and over M at the sweep's sizes of
weights, every tile at three shapes.  compare.py's clock is used, and its checks before and after; a variant with wrong
results is left out.
"""

from __future__ import annotations

import argparse
import json
import random
import sys
from pathlib import Path
from statistics import median
from typing import Any

import torch
from rich.progress import track

from eval.cases import read_cases
from eval.output.report import print_table
from eval.stats import relative_spread
from reference.problems import DEFAULT, PROBLEMS
from scripts.bench import compare, provenance, sweep
from scripts.bench.baselines.variant import Call
from scripts.common.options import output_file, positive, sizes

Shape = tuple[int, int, int]
AUTO = "auto"
TILES = (
    "m128n64", "m256n64", "m128n96", "m128n96k2", "m64n64k2", "m128n64k2", "m64n128", "m96n64", "m96n64k2", "m96n96",
    "m192n96", "m192n128", "m32n128", "m64n32k8",
)  # fmt: skip
TILES_AT: tuple[Shape, ...] = ((256, 3072, 4096), (64, 3072, 4096), (256, 4096, 7168))
SHORT, LONG, LONG_OF_MANY = 8, 24, 12  # calls of a round
MANY = 1 << 24  # outputs of a call from which on a long round has fewer calls
REPEATS = 15


def shapes_of_auto() -> list[Shape]:
    """The leaderboard's shapes with one batch, then the sweep's."""
    cases = [
        case
        for kind in ("benchmark", "test")
        for case in read_cases(compare.ROOT / PROBLEMS[DEFAULT.name].cases / f"{kind}.txt")
    ]
    listed = [(case.shape.m, case.shape.n, case.shape.k) for case in cases if case.shape.l == 1]
    swept = [(m, n, k) for n, k in sweep.WEIGHTS for m in sweep.ROWS["cuda"]]
    return list(dict.fromkeys([*listed, *swept]))


def rounds_us(
    timer: compare.Timer, calls: dict[str, Call], long: int, repeats: int
) -> dict[str, tuple[list[float], list[float]]]:
    """Times of each variant's short and long rounds in us, interleaved in random order."""
    found: dict[str, tuple[list[float], list[float]]] = {name: ([], []) for name in calls}
    for call in calls.values():
        timer.round_us(call, SHORT)
    for _ in range(repeats):
        for name in random.sample(list(calls), len(calls)):
            for into, count in zip(found[name], (SHORT, long), strict=True):
                into.append(timer.round_us(calls[name], count) * count)
    return found


def summary(short: list[float], long: list[float], count: int) -> dict[str, Any]:
    """The cost of one more call, the mean of a call in either round, and the rounds' spread."""
    return {
        "median_us": (median(long) - median(short)) / (count - SHORT),
        "mean_us": [median(short) / SHORT, median(long) / count],
        "spread": [relative_spread(short), relative_spread(long)],
    }


def at_shape(
    shape: Shape, variants: list[str], timer: compare.Timer, kernels: dict[str, Any], options: argparse.Namespace
) -> tuple[dict[str, dict[str, Any]], dict[str, str]]:
    """Each variant's summary, and the reasons for those that were left out."""
    kind = compare.KINDS[DEFAULT.name]
    long = LONG_OF_MANY if shape[0] * shape[1] >= MANY else LONG
    problem = kind.make(*shape, long, options.device)
    wants, calls, left_out = kind.wanted(problem), {}, {}

    def judge(name: str, call: Call, when: str) -> None:
        getattr(call, "prepare", lambda: None)()
        wrong = kind.check(problem, name, call, wants)
        if wrong:
            left_out[name] = f"{when}: {wrong}"

    for name in variants:
        calls[name] = kind.ours(problem, name, kernels, "blocked")
        judge(name, calls[name], "before timing")
    calls = {name: call for name, call in calls.items() if name not in left_out}
    found = rounds_us(timer, calls, long, options.repeats)
    for name, call in calls.items():
        judge(name, call, "after timing")
    return {name: summary(*found[name], long) for name in calls if name not in left_out}, left_out


def measure(options: argparse.Namespace) -> dict[str, Any]:
    """Measures all shapes; returns the record."""
    kernels, digests = compare.load_kernels(options)
    timer = compare.Timer(options.device)
    shapes = options.shapes or [*shapes_of_auto(), *(shape for shape in TILES_AT if shape not in shapes_of_auto())]
    parts: dict[str, dict[str, dict[str, Any]]] = {"median_us": {}, "mean_us": {}, "spread": {}}
    left_out: dict[str, str] = {}
    clocks = []
    for shape in track(shapes, "shapes", disable=not sys.stdout.isatty()):
        named = "x".join(map(str, shape))
        variants = [AUTO, *(TILES if shape in TILES_AT and not options.shapes else ())]
        found, left = at_shape(shape, variants, timer, kernels, options)
        clocks.append(timer.last_mhz)
        left_out |= {f"{named} {name}": why for name, why in left.items()}
        for name, values in found.items():
            for part, value in values.items():
                parts[part].setdefault(name, {})[named] = value
        if options.device == "cuda":
            torch.cuda.empty_cache()
    env = provenance.environment(
        Path(__file__), options.device, options.commit, [mhz for mhz in clocks if mhz is not None], {AUTO: digests[""]}
    )
    return {**env, **parts, "left_out": left_out}


def main(arguments: list[str] | None = None) -> int:
    """Measures, prints a table and writes the record; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="./nvfp4 bench behind_others", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=output_file, required=True, metavar="FILE.json")
    parser.add_argument(
        "--shapes",
        type=sizes("MxNxK"),
        default=[],
        help="e.g. 256x4096x7168,...; default: the leaderboard's and the sweep's",
    )
    parser.add_argument("--repeats", type=positive, default=REPEATS)
    parser.add_argument("--device", choices=("cuda", "cpu"), default="cuda")
    parser.add_argument("--commit", default="", help="the checkout's commit, for a checkout without git")
    parser.set_defaults(problem=DEFAULT.name, library=[], checkout=[])
    options = parser.parse_args(arguments)
    if options.device == "cuda" and not torch.cuda.is_available():
        print("behind_others: no CUDA device", file=sys.stderr)
        return 1
    found = measure(options)
    options.json.write_text(json.dumps(found, indent=1) + "\n")
    rows = [
        [shape, name, f"{us:.2f}", "{:.2f} {:.2f}".format(*found["mean_us"][name][shape])]
        for name, times in found["median_us"].items()
        for shape, us in times.items()
    ]
    print_table("us of one more call", ["M N K", "variant", "one more", f"mean of {SHORT}, of the long"], rows)
    for where, why in found["left_out"].items():
        print(f"left out: {where}: {why}")
    return 1 if found["left_out"] else 0


if __name__ == "__main__":
    sys.exit(main())
