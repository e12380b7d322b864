"""Simulates the times of variants of the Blackwell kernels, for rounds that the clock judges (shark_tank/RULES.md).

    python -m simulator.calibration.calls.model_times --json times.json
        --variant NAME=COMMIT:LIBRARY[:SHAPE=CONFIG,...] ... [--sm-ghz NAME=GHZ] [--shapes MxNxK,...] [--gemm]

LIBRARY is COMMIT's libcustom_kernel_sim.so, linked with this checkout's simulator.  If it lies in the build folder of a
checkout, that checkout's Python calls it.  A shape without a CONFIG takes the tile that the library selects.  --gemm
times nvfp4_gemm, not the dual GEMM.  --sm-ghz sets a variant's SM clock; L2 and HBM keep theirs.  The file is rewritten
after each variant.
"""

from __future__ import annotations

import argparse
import json
import math
import sys
import tempfile
from functools import cache
from pathlib import Path
from statistics import stdev
from typing import Any

from simulator.calibration.calls.blackwell import CALLS
from simulator.calibration.calls.public_kernels import PRODUCT_CALL, SETTINGS, run
from simulator.calibration.rows import CHIPS, ROOT, load, parameters_digest
from simulator.package.simulated_call import benchmark_shapes, simulated_calls


def whole_kernel_errors() -> list[float]:
    """Percent: the errors of our Hopper kernels on the H200's clock, the only kernels of ours compared with a card."""
    return [row.error for row in load("h200").values() if row.group == "kernels" and row.error is not None]


def model_error(errors: list[float]) -> dict[str, Any]:
    """The error of a predicted difference, percent: how far the errors of whole kernels lie apart.

    A base and its candidate share much of the error, but how much is not measured, so none of it cancels here.
    """
    apart = stdev(math.log1p(error / 100) for error in errors)
    return {
        "percent": round(100 * apart, 1),
        "source": f"standard deviation of the errors of {len(errors)} whole kernels on the other chip's clock",
    }


def write_slower_chip(path: Path, ghz: float) -> None:
    """Writes the B200's chip file with another SM clock under MMAs; L2 and HBM keep their bytes a second."""
    chip = json.loads((CHIPS / "b200.json").read_text())
    chip["parameters"]["sm_clock_tensor"] |= {"value": ghz, "source": "assumed: a round's question"}
    path.write_text(json.dumps(chip))


@cache
def us_of(library: str, shape: str, config: str | None, ghz: float | None = None, gemm: bool = False) -> float:
    """Simulated us of a call behind others, from the end of one call to the end of the next."""
    simulated = simulated_gemm_us if gemm else simulated_us
    if ghz is None:
        return simulated(library, shape, config, {})
    with tempfile.NamedTemporaryFile(suffix=".json") as chip:
        write_slower_chip(Path(chip.name), ghz)
        return simulated(library, shape, config, {"NVFP4_SIMULATE_TIME": chip.name})


def simulated_gemm_us(library: str, shape: str, config: str | None, settings: dict[str, str]) -> float:
    """The same of nvfp4_gemm with these settings of the simulator."""
    ours = {"NVFP4_LIBRARY": library, "NVFP4_GROUPED_CONFIG": config or "", "NVFP4_SIMULATE": "1"}
    environment = SETTINGS | ours | {"NVFP4_BACKEND": "blackwell"} | settings
    return run([PRODUCT_CALL, "gemm", f"{shape}x1", str(CALLS)], environment)["back_to_back_us"]


def simulated_us(library: str, shape: str, config: str | None, settings: dict[str, str]) -> float:
    """The same with these settings of the simulator."""
    # Set even where no tile is named, since the caller's environment may name one.
    settings = {"NVFP4_LIBRARY": library, "NVFP4_BLACKWELL_CONFIG": config or ""} | settings
    m, n, k = (int(part) for part in shape.split("x"))
    checkout = Path(library).parents[1]
    root = checkout if (checkout / "submission/submission.py").is_file() else ROOT
    launches = simulated_calls((m, n, k), "blackwell", CALLS, root=root, **settings)["launches"]
    return round(launches[-1]["end_us"] - launches[-2]["end_us"], 3)


def main(arguments: list[str]) -> int:
    """Simulates every variant at the benchmark's shapes."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--variant", action="append", required=True)
    parser.add_argument("--sm-ghz", action="append", default=[], metavar="NAME=GHZ")
    parser.add_argument("--shapes", metavar="MxNxK,...", help="default: the benchmark's")
    parser.add_argument("--gemm", action="store_true")
    parser.add_argument("--json", type=Path, required=True)
    options = parser.parse_args(arguments)
    shapes = options.shapes.split(",") if options.shapes else benchmark_shapes()
    clocks = {name: float(ghz) for name, _, ghz in (text.partition("=") for text in options.sm_ghz)}
    times, commits, tiles = {}, {}, {}
    for variant in options.variant:
        name, _, rest = variant.partition("=")
        commits[name], library, *configs = rest.split(":")
        tiles[name] = dict(pair.split("=") for pair in ",".join(configs).split(",") if pair)
        library = str(Path(library).resolve())
        times[name] = {
            shape: us_of(library, shape, tiles[name].get(shape), clocks.get(name), options.gemm) for shape in shapes
        }
        print(name, times[name], flush=True)
        document = {
            "format": "model-times-1", "chip": "b200", "chip_sha256": parameters_digest("b200"),
            "command": "python -m simulator.calibration.calls.model_times", "error": model_error(whole_kernel_errors()),
            "commits": commits, "tiles": tiles, "sm_ghz": clocks, "times": times,
        }  # fmt: skip
        options.json.write_text(json.dumps(document, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
