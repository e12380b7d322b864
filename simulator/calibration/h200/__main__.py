"""Predicts times with the H200's clock and keeps them beside the measured ones (data/h200_predicted).

    make build/micro_timed && python -m simulator.calibration.h200 micro     # every group of the microbenchmarks
    python -m simulator.calibration.h200 micro alu tensor                    # some groups; the others' rows stay
    python -m simulator.calibration.h200 kernels 256x3072x4096 512x768x7168  # our Hopper kernels at these shapes
    python -m simulator.calibration.h200 sweep 16x3072x4096 256x2048x7168    # the same, at shapes of the sweep of M
    python -m simulator.calibration.h200 tiles 256x3072x4096/m128n64         # with a tile that is named
    python -m simulator.calibration.h200 ladder FOLDER 2 4                   # kernels of a checkout of fast.cu
    python -m simulator.calibration.h200 rounds 56 61/64x3072x4096           # both commits of measured rounds
    python -m simulator.calibration.h200 --rows FILE sweep 16x3072x4096      # rows to a file instead
    python -m simulator.calibration.h200 merge FILE...                       # take such files in

Nothing here needs a card.  Microbenchmarks calibrate the chip's file, kernels validate it.  Each row is kept as soon as
it is there.  `make clock-report` then writes the pages.
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

from simulator.calibration import packed
from simulator.calibration.benchmarks.__main__ import rows_of
from simulator.calibration.h200.ladder import ladder_rows
from simulator.calibration.h200.measured.rounds import round_rows
from simulator.calibration.h200.page import CHIP, RECORDED, measured_micro, micro_key
from simulator.calibration.rows import ROOT, Row, load, save
from simulator.package.simulated_call import MACHINE_CODE, simulated_calls
from simulator.python.machine_code.assemble import VARIABLE, by_machine_code
from simulator.python.toolchain import BUILD

GEMMS = ("kernels", "tiles", "sweep")
CALLS = 2  # the last one counts: caches and queues are then as behind other calls


def environment(**more: str) -> dict[str, str]:
    """The environment of a program on simulated time; checks are off, since they do not change times."""
    return {**os.environ, "NVFP4_SIMULATE_TIME": CHIP, "NVFP4_SIMULATE_CHECKS": "0", **more}


def micro_rows(groups: list[str]) -> Iterator[Row]:
    """The microbenchmarks' program on simulated time beside the card's values."""
    command = [str(BUILD / "micro_timed"), *groups]

    def run(folder: Path) -> subprocess.CompletedProcess[str]:
        env = environment(**{VARIABLE: str(folder)})
        return subprocess.run(command, env=env, stdout=subprocess.PIPE, text=True, check=True)

    done = by_machine_code(run, MACHINE_CODE)
    measured = measured_micro()
    for row in rows_of(done.stdout):
        key = micro_key(row["name"], row["parameters"])
        if key in measured:  # a row that was added since has no measured value yet
            parameters = key.partition(" ")[2]
            yield Row("micro", row["name"], parameters, row["unit"], row["value"], measured[key], "calibrated")


def call_us(shape: str, tile: str | None = None) -> float:
    """Simulated us of a call behind another: from the end of one GEMM to the end of the next."""
    m, n, k = (int(part) for part in shape.split("x"))
    chosen = {"NVFP4_HOPPER_CONFIG": tile} if tile else {}
    launches = simulated_calls((m, n, k), "hopper", CALLS, machine_code=True, **chosen)["launches"]
    last = [launch["end_us"] for launch in launches if "dual_gemm" in launch["kernel"]]
    return last[-1] - last[-2]


def kernel_rows(group: str, shapes: list[str]) -> Iterator[Row]:
    """Our kernels beside the card's times, with the tile that the library chooses or with a named one."""
    recorded = packed.read_dense(ROOT / RECORDED[group])["median_us"]
    for shape, _, tile in (name.partition("/") for name in shapes):
        if shape not in recorded[tile or "auto"]:
            raise SystemExit(f"clock: {shape}: the card was timed at {', '.join(recorded[tile or 'auto'])}")
        measured = recorded[tile or "auto"][shape]
        yield Row(group, "hopper", f"{shape} {tile}".strip(), "us", call_us(shape, tile or None), measured, "validated")


def measured_now() -> dict[str, float]:
    """The recorded values, by the key of the row that predicts them."""
    found = {f"micro {key}": value for key, value in measured_micro().items()}
    for group in GEMMS:
        for tile, shapes in packed.read_dense(ROOT / RECORDED[group])["median_us"].items():
            named = "" if tile == "auto" else f" {tile}"
            found |= {f"{group} hopper {shape}{named}": us for shape, us in shapes.items()}
    return found


def merged(files: Iterable[Path]) -> dict[str, Row]:
    """The committed rows, replaced by the files' rows where these have one, beside the values recorded now."""
    rows, measured = load(CHIP), measured_now()
    for line in (line for file in files for line in file.read_text().splitlines()):
        row = Row(**json.loads(line))
        rows[row.key] = replace(row, measured=measured.get(row.key, row.measured))
    return rows


def predicted(what: str, names: list[str]) -> Iterator[Row]:
    """The requested rows, one by one."""
    if what == "micro":
        yield from micro_rows(names)
    elif what == "ladder":
        yield from ladder_rows(names[0], names[1:])
    elif what == "rounds":
        yield from round_rows(names)
    else:
        yield from kernel_rows(what, names)


def main() -> int:
    """Predicts, and keeps the rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--rows", type=Path, metavar="FILE", help="append the rows to FILE and change nothing else")
    parser.add_argument("what", choices=["micro", *GEMMS, "ladder", "rounds", "merge"])
    parser.add_argument("names", nargs="*", help="groups, shapes as MxNxK, or files")
    options = parser.parse_args()
    if options.rows is not None:
        with options.rows.open("a") as out:
            for row in predicted(options.what, options.names):
                print(json.dumps(asdict(row)), file=out, flush=True)
    elif options.what == "merge":
        save(CHIP, merged(map(Path, options.names)))
    else:
        for row in predicted(options.what, options.names):
            save(CHIP, load(CHIP) | {row.key: row})
    return 0


if __name__ == "__main__":
    sys.exit(main())
