"""Simulated times of variants of the Blackwell kernels, for rounds that the clock judges (shark_tank/RULES.md).

    python -m scripts.cost_model.model_times --json times.json --variant NAME=COMMIT:LIBRARY[:SHAPE=CONFIG,...] ...

LIBRARY is a build of COMMIT's libcustom_kernel_sim.so, linked with this checkout's simulator; where it lies in the
build folder of a checkout, that checkout's Python calls it.  A shape without a CONFIG takes the tile that it selects.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
from functools import cache
from pathlib import Path
from statistics import stdev
from typing import Any

from scripts.common.simulated_call import simulated_calls
from scripts.cost_model.clock import CALLS, whole_kernel_errors
from scripts.cost_model.counters import ROOT
from scripts.evidence.clock import b200_page
from scripts.rounds.model import benchmark_shapes


def model_error(errors: list[float]) -> dict[str, Any]:
    """What a difference may be off by: how far whole kernels' errors lie apart, percent.

    A base and its candidate have much of the error in common, how much is not measured: so none is counted as such.
    """
    apart = stdev(math.log1p(error / 100) for error in errors)
    return {
        "percent": round(100 * apart, 1),
        "source": f"standard deviation of the errors of {len(errors)} whole kernels on the other chip's clock",
    }


@cache
def us_of(library: str, shape: str, config: str | None) -> float:
    """Behind other calls, from end to end of calls."""
    settings = {"NVFP4_LIBRARY": library} | ({"NVFP4_BLACKWELL_CONFIG": config} if config else {})
    m, n, k = (int(part) for part in shape.split("x"))
    checkout = Path(library).parents[1]
    root = checkout if (checkout / "submission/submission.py").is_file() else ROOT
    launches = simulated_calls((m, n, k), "blackwell", CALLS, root=root, **settings)["launches"]
    return round(launches[-1]["end_us"] - launches[-2]["end_us"], 3)


def main(arguments: list[str]) -> int:
    """Simulates every variant at the benchmark's shapes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variant", action="append", required=True)
    parser.add_argument("--json", type=Path, required=True)
    options = parser.parse_args(arguments)
    times, commits, tiles = {}, {}, {}
    for variant in options.variant:
        name, _, rest = variant.partition("=")
        commits[name], library, *configs = rest.split(":")
        tiles[name] = dict(pair.split("=") for pair in ",".join(configs).split(",") if pair)
        library = str(Path(library).resolve())
        times[name] = {shape: us_of(library, shape, tiles[name].get(shape)) for shape in benchmark_shapes(ROOT)}
        print(name, times[name], flush=True)
    document = {
        "format": "model-times-1", "chip": "b200", "chip_sha256": b200_page.digest(),
        "command": "python -m scripts.cost_model.model_times", "error": model_error(whole_kernel_errors()),
        "commits": commits, "tiles": tiles, "times": times,
    }  # fmt: skip
    options.json.write_text(json.dumps(document, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
