"""Compares the simulator's clock with an H200 and writes simulator/results/clock.json and clock.md.

    make build/micro_timed && python -m scripts.evidence.clock micro             # every group of the microbenchmarks
    python -m scripts.evidence.clock micro alu tensor                            # some; the others' rows stay
    python -m scripts.evidence.clock kernels 256x3072x4096 512x768x7168          # our Hopper kernels at these shapes
    python -m scripts.evidence.clock sweep 16x3072x4096 256x2048x7168            # the same, of the recorded sweep of M
    python -m scripts.evidence.clock tiles 256x3072x4096/m128n64                 # a tile by its name
    python -m scripts.evidence.clock ladder FOLDER 2 4                           # kernels of a checkout of fast.cu
    python -m scripts.evidence.clock rounds 56 61/64x3072x4096                   # both commits of measured rounds
    python -m scripts.evidence.clock --rows FILE sweep 16x3072x4096              # rows to a file of their own
    python -m scripts.evidence.clock merge FILE...                               # such files, from any machine
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
from collections.abc import Iterable, Iterator
from dataclasses import asdict, replace
from pathlib import Path

from scripts.bench.micro.__main__ import rows_of
from scripts.common.machine_code.assemble import VARIABLE, by_machine_code
from scripts.common.measured import read
from scripts.common.simulated_call import MACHINE_CODE, simulated_calls
from scripts.common.toolchain import BUILD
from scripts.evidence.clock import plot
from scripts.evidence.clock.ladder import ladder_rows
from scripts.evidence.clock.measured.rounds import round_rows
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

GEMMS = ("kernels", "tiles", "sweep")
CALLS = 2  # the last of them counts: the chip is in its stride


def environment(**more: str) -> dict[str, str]:
    """Of a program on simulated time: no checks, which cost and change nothing."""
    return {**os.environ, "NVFP4_SIMULATE_TIME": "h200", "NVFP4_SIMULATE_CHECKS": "0", **more}


def micro_rows(groups: list[str]) -> list[Row]:
    """The microbenchmarks' program on simulated time beside what the card gave."""
    command = [str(BUILD / "micro_timed"), *groups]

    def run(folder: Path) -> subprocess.CompletedProcess[str]:
        env = environment(**{VARIABLE: str(folder)})
        return subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True)

    done = by_machine_code(run, MACHINE_CODE)
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
        if key(row) in measured  # an H200 has not run all of them yet
    ]


def key(row: dict) -> str:
    """Name and parameters of a microbenchmark's row."""
    return " ".join([row["name"], *(f"{name} {value}" for name, value in row["parameters"].items())])


def call_us(shape: str, tile: str | None = None) -> float:
    """Simulated us of a call behind others, each with inputs of its own: from end to end of their last kernels."""
    m, n, k = (int(part) for part in shape.split("x"))
    chosen = {"NVFP4_HOPPER_CONFIG": tile} if tile else {}
    launches = simulated_calls((m, n, k), "hopper", CALLS, machine_code=True, **chosen)["launches"]
    last = [launch["end_us"] for launch in launches if "dual_gemm" in launch["kernel"]]
    return last[-1] - last[-2]


def kernel_rows(group: str, shapes: list[str]) -> Iterator[Row]:
    """Our kernels as the library chooses them, beside the card's."""
    recorded = read(ROOT / RECORDED[group])["median_us"]
    for shape, _, tile in (name.partition("/") for name in shapes):
        if shape not in recorded[tile or "auto"]:
            raise SystemExit(f"clock: {shape}: the card was timed at {', '.join(recorded[tile or 'auto'])}")
        measured = recorded[tile or "auto"][shape]
        yield Row(group, "hopper", f"{shape} {tile}".strip(), "us", call_us(shape, tile or None), measured, "validated")


def measured_now() -> dict[str, float]:
    """What the card gave, by the key of the row that predicts it."""
    micro = json.loads((ROOT / RECORDED["micro"]).read_text())["rows"]
    found = {f"micro {key(row)}".strip(): row["value"] for row in micro}
    for group in GEMMS:
        for tile, shapes in read(ROOT / RECORDED[group])["median_us"].items():
            named = "" if tile == "auto" else f" {tile}"
            found |= {f"{group} hopper {shape}{named}": us for shape, us in shapes.items()}
    return found


def merged(files: Iterable[Path]) -> dict[str, Row]:
    """The committed rows with those of files over them, beside what is recorded now."""
    rows, measured = load(), measured_now()
    for line in (line for file in files for line in file.read_text().splitlines()):
        row = Row(**json.loads(line))
        rows[row.key] = replace(row, measured=measured.get(row.key, row.measured))
    return rows


def predicted(what: str, names: list[str]) -> Iterator[Row]:
    """Rows as they come in."""
    if what == "micro":
        yield from micro_rows(names)
    elif what == "ladder":
        yield from ladder_rows(names[0], names[1:])
    elif what == "rounds":
        yield from round_rows(names)
    else:
        yield from kernel_rows(what, names)


def main() -> int:
    """Runs what is asked for, merges it into the JSON, renders."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=Path, metavar="FILE", help="write rows there and nothing else")
    parser.add_argument("what", choices=["micro", *GEMMS, "ladder", "rounds", "merge", "render"])
    parser.add_argument("names", nargs="*", help="groups, shapes as MxNxK, or files")
    options = parser.parse_args()
    digest = chip_digest()
    if options.rows is not None:
        with options.rows.open("a") as out:
            for row in predicted(options.what, options.names):
                print(json.dumps(asdict(row)), file=out, flush=True)
        return 0
    if options.what == "merge":
        save(merged(map(Path, options.names)), digest)
    elif options.what != "render":
        for row in predicted(options.what, options.names):
            save(load() | {row.key: row}, digest)
    plot.write(load())
    (ROOT / DOCUMENT).write_text(render(load()))
    (ROOT / ERROR).write_text(error_line(load()) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
