"""Compares the simulator's clock with an H200 and writes simulator/results/clock.json and clock.md.

    make build/micro_timed && python -m scripts.evidence.clock micro             # every group of the microbenchmarks
    python -m scripts.evidence.clock micro alu tensor                            # some; the others' rows stay
    python -m scripts.evidence.clock kernels 256x3072x4096 512x768x7168          # our Hopper kernels at these shapes
    python -m scripts.evidence.clock render                                      # clock.md from clock.json

What is measured lies in scripts/bench/micro/h200.json and shark_tank/recorded/h200_configurations.json; nothing here
needs a card. The microbenchmarks calibrate the chip's file, the kernels validate it.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys

from scripts.bench.micro.__main__ import rows_of
from scripts.common.simulated_call import simulated_calls
from scripts.common.toolchain import BUILD
from scripts.evidence.clock.table import (
    DOCUMENT,
    ERROR,
    RECORDED,
    ROOT,
    Row,
    chip_digest,
    error_line,
    load,
    render,
    save,
)

CALLS = 2  # the last of them counts: the chip is in its stride
# Tiles that the recorded run chose and the library of today does not.
CHOSEN_THEN = {"512x768x7168": "m128n96k2"}


def environment(**more: str) -> dict[str, str]:
    """Of a program on simulated time: no checks, which cost and change nothing."""
    return {**os.environ, "NVFP4_SIMULATE_TIME": "h200", "NVFP4_SIMULATE_CHECKS": "0", **more}


def micro_rows(groups: list[str]) -> list[Row]:
    """The microbenchmarks' program on simulated time beside what the card gave."""
    command = [str(BUILD / "micro_timed"), *groups]
    done = subprocess.run(command, env=environment(), stdout=subprocess.PIPE, text=True, check=True)
    recorded = json.loads((ROOT / RECORDED["micro"]).read_text())["rows"]
    measured = {key(row): row["value"] for row in recorded}
    return [
        Row(
            "micro",
            row["name"],
            key(row).partition(" ")[2],
            row["unit"],
            row["value"],
            measured[key(row)],
            "calibrated",
        )
        for row in rows_of(done.stdout)
    ]


def key(row: dict) -> str:
    """Name and parameters of a microbenchmark's row."""
    return " ".join([row["name"], *(f"{name} {value}" for name, value in row["parameters"].items())])


def call_us(shape: str) -> float:
    """Simulated us of a call behind others, each with inputs of its own: from end to end of their last kernels."""
    m, n, k = (int(part) for part in shape.split("x"))
    tile = {"NVFP4_HOPPER_CONFIG": CHOSEN_THEN[shape]} if shape in CHOSEN_THEN else {}
    launches = simulated_calls((m, n, k), "hopper", CALLS, **tile)["launches"]
    last = [launch["end_us"] for launch in launches if "dual_gemm" in launch["kernel"]]
    return last[-1] - last[-2]


def kernel_rows(shapes: list[str]) -> list[Row]:
    """Our kernels as the library chooses them, beside the card's."""
    recorded = json.loads((ROOT / RECORDED["kernels"]).read_text())["median_us"]["auto"]
    unknown = [shape for shape in shapes if shape not in recorded]
    if unknown:
        raise SystemExit(f"clock: {unknown}: the card was timed at {', '.join(recorded)}")
    return [Row("kernels", "hopper", shape, "us", call_us(shape), recorded[shape], "validated") for shape in shapes]


def main() -> int:
    """Runs what is asked for, merges it into the JSON, renders."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["micro", "kernels", "render"])
    parser.add_argument("names", nargs="*", help="groups, or shapes as MxNxK")
    options = parser.parse_args()
    if options.what != "render":
        digest = chip_digest()
        made = micro_rows(options.names) if options.what == "micro" else kernel_rows(options.names)
        save(load() | {row.key: row for row in made}, digest)
    (ROOT / DOCUMENT).write_text(render(load()))
    (ROOT / ERROR).write_text(error_line(load()) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
