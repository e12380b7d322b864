"""Compares the simulator's clock with an H200 and writes simulator/results/clock.json and clock.md.

    make build/micro_timed && python -m scripts.evidence.clock micro             # every group of the microbenchmarks
    python -m scripts.evidence.clock micro alu tensor                            # some; the others' rows stay
    python -m scripts.evidence.clock kernels 256x3072x4096 512x768x7168          # our Hopper kernels at these shapes
    python -m scripts.evidence.clock sweep 16x3072x4096 256x2048x7168            # the same, of the recorded sweep of M
    python -m scripts.evidence.clock tiles 256x3072x4096/m128n64                 # a tile by its name
    python -m scripts.evidence.clock ladder FOLDER 2 4                           # kernels of a checkout of fast.cu
    python -m scripts.evidence.clock render                                      # clock.md from clock.json

What is measured lies in scripts/bench/micro/h200.json and shark_tank/recorded/; nothing here needs a card. The
microbenchmarks calibrate the chip's file, the kernels validate it. Rows of kernels are kept as each comes in.
"""

from __future__ import annotations

import argparse
import json
import os
import subprocess
import sys
from collections.abc import Iterator

from scripts.bench.micro.__main__ import rows_of
from scripts.common.simulated_call import simulated_calls
from scripts.common.toolchain import BUILD
from scripts.evidence.clock import plot
from scripts.evidence.clock.ladder import ladder_rows
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
# Tiles of today that the recorded run chose, by their names then (h200_configurations.json has each tile's time).
CHOSEN_THEN = {
    "1536x512x7168": "m128n64",
    "256x512x256": "m128n64",
    "3072x1024x1536": "m128n96",
    "7168x1024x256": "m128n96",
    "7168x2304x2048": "m256n64",
    "4608x384x7168": "m256n64",
    "7168x384x2304": "m128n96",
    "512x768x7168": "m128n96k2",
    "4096x768x512": "m128n96",
    "256x4096x7168": "m128n64",
    "512x4096x7168": "m256n64",
    "256x3072x4096": "m128n96k2",
    "512x3072x7168": "m128n96",
}


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


def call_us(shape: str, tile: str | None = None) -> float:
    """Simulated us of a call behind others, each with inputs of its own: from end to end of their last kernels."""
    m, n, k = (int(part) for part in shape.split("x"))
    chosen = {"NVFP4_HOPPER_CONFIG": tile} if tile else {}
    launches = simulated_calls((m, n, k), "hopper", CALLS, **chosen)["launches"]
    last = [launch["end_us"] for launch in launches if "dual_gemm" in launch["kernel"]]
    return last[-1] - last[-2]


def kernel_rows(group: str, shapes: list[str]) -> Iterator[Row]:
    """Our kernels as the library chooses them, beside the card's."""
    recorded = json.loads((ROOT / RECORDED[group]).read_text())["median_us"]
    for shape, _, tile in (name.partition("/") for name in shapes):
        if shape not in recorded[tile or "auto"]:
            raise SystemExit(f"clock: {shape}: the card was timed at {', '.join(recorded[tile or 'auto'])}")
        chosen = CHOSEN_THEN.get(shape) if group == "kernels" else tile or None
        measured = recorded[tile or "auto"][shape]
        yield Row(group, "hopper", f"{shape} {tile}".strip(), "us", call_us(shape, chosen), measured, "validated")


def main() -> int:
    """Runs what is asked for, merges it into the JSON, renders."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("what", choices=["micro", "kernels", "tiles", "sweep", "ladder", "render"])
    parser.add_argument("names", nargs="*", help="groups, or shapes as MxNxK")
    options = parser.parse_args()
    digest = chip_digest()
    if options.what == "micro":
        save(load() | {row.key: row for row in micro_rows(options.names)}, digest)
    elif options.what != "render":
        ladder = options.what == "ladder"
        rows = ladder_rows(options.names[0], options.names[1:]) if ladder else kernel_rows(options.what, options.names)
        for row in rows:
            save(load() | {row.key: row}, digest)
    plot.write(load())
    (ROOT / DOCUMENT).write_text(render(load()))
    (ROOT / ERROR).write_text(error_line(load()) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
