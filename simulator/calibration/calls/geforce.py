"""Simulates the GeForce kernels' times and sets them beside their floors (data/geforce_calls.json).

    python -m simulator.calibration.calls.geforce              # the page, from the committed times
    python -m simulator.calibration.calls.geforce --simulate   # simulate the shapes first (minutes)

Floors of an RTX 5090, from NVIDIA's data sheet: every byte once at 1.792 TB/s, every multiply-add at 4,096 FLOP a cycle
and SM and the boost clock of 2.407 GHz on 170 SMs.
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from statistics import fmean
from typing import Any

from simulator.calibration import packed
from simulator.calibration.packed import DATA, dense
from simulator.calibration.rows import RESULTS
from simulator.package.simulated_call import simulated_calls, tile_table

RECORD, PAGE = DATA / "geforce_calls.json", RESULTS / "GEFORCE_TIMES.md"
SMS, CLOCK_GHZ, FLOP_A_CYCLE, BYTES_PER_US = 170, 2.407, 4096, 1.792e6
CALLS = 3  # in a row
SHAPES = ((256, 4096, 7168), (512, 4096, 7168), (256, 3072, 4096), (512, 3072, 7168))
HEAD = """# The GeForce kernel's simulated times

Written by `./nvfp4 python -m simulator.calibration.calls.geforce` from
[geforce_calls.json](../calibration/data/geforce_calls.json): the package's compiled kernels on
[the simulator's clock](../ARCHITECTURE.md#simulated-time) with
[parameters for an RTX 5090](../clock/chips/rtx5090.json).

**Simulated, not measured**: no RTX 5090 has run the kernels. The MMA's rates, the clock, the memory's rate and the
latencies of loads are published; the latencies of copies and L2's rates are assumed.
[Below](#public-kernels) are kernels of others that a card has run.

"""
TAIL = """
Floors: every byte once at 1.792 TB/s, every multiply-add at 4,096 FLOP a cycle and SM, 2.407 GHz and {sms} SMs.
Alone: from the first CTA's start to the last CTA's end. Behind other calls: {calls} calls, each with inputs of its own,
divided by {calls}. At M = 256 there are 128 tiles for {sms} SMs. At M = 512 the number of tiles is no multiple of
{sms}, so some SMs' tensor cores wait.
"""
PUBLIC = """
## Public kernels

gau-nernst/learn-cuda, folders 02b, 02c and 08, compiled for sm_120a (fetched, not kept) and run on the same clock;
measured by its author on a card with a limit of 400 W. TFLOPS. mxf8: fp8 by the MMA with block scales. The two kernels
of 08 are one but for their operands; its author supposes that fp8 takes more power and so reaches the limit sooner.
learn-cuda's tables for this card have no fp4 kernel.

"""


def public_kernels() -> str:
    """The table of kernels that a card has run."""
    rows = [list(row.values()) for row in packed.read("rtx5090_rows")[1]]
    errors = [float(row[-1]) / float(row[-2]) - 1 for row in rows]
    lines = ["| kernel | operands | M N K | measured | simulated | error |", "| --- " * 6 + "|"]
    for row, error in zip(rows, errors, strict=True):
        lines.append("| " + " | ".join(row) + f" | {100 * error:+.0f} % |")
    mean, largest = (100 * f([abs(error) for error in errors]) for f in (fmean, max))
    return PUBLIC + "\n".join(lines) + f"\n\nMean error {mean:.0f} %, largest {largest:.0f} %.\n"


def floors(m: int, n: int, k: int) -> tuple[float, float]:
    """us that both products take at least, in memory and in the tensor cores."""
    scale_bytes = (m + 2 * n) * k // 16
    traffic = (m + 2 * n) * k // 2 + scale_bytes + 2 * m * n
    return traffic / BYTES_PER_US, 4 * m * n * k / (SMS * FLOP_A_CYCLE * CLOCK_GHZ * 1e3)


def simulate() -> list[dict[str, Any]]:
    """Our times, a row for each shape."""
    rows = []
    for shape in SHAPES:
        name = "x".join(map(str, shape))
        alone = simulated_calls(shape, "geforce")
        several = simulated_calls(shape, "geforce", CALLS)
        rows.append(
            {
                "shape": list(shape),
                "tile": str(tile_table("geforce", str(SMS), name)[name]["tile"]),
                "alone_us": round(alone["kernel_us"], 2),
                "behind_us": round(several["us"] / CALLS, 2),
            }
        )
    return rows


def render(record: dict[str, Any]) -> str:
    """The page."""
    rows = record["ours"]
    lines = [f"| us a call | {' | '.join(' '.join(map(str, row['shape'])) for row in rows)} |"]
    lines.append("| --- " * (len(rows) + 1) + "|")
    lines.append(f"| tile chosen for {SMS} SMs | {' | '.join('`' + row['tile'] + '`' for row in rows)} |")

    def numbers(title: str, values: list[float | None], digits: int = 1) -> None:
        lines.append(f"| {title} | {' | '.join('' if x is None else f'{x:.{digits}f}' for x in values)} |")

    least = [floors(*row["shape"]) for row in rows]
    numbers("**behind other calls (simulated)**", [row.get("behind_us") for row in rows])
    numbers("the kernel alone (simulated)", [row["alone_us"] for row in rows])
    numbers("memory floor", [memory for memory, _ in least])
    numbers("tensor floor", [tensor for _, tensor in least])
    numbers(
        "alone / larger floor",
        [row["alone_us"] / max(floor) for row, floor in zip(rows, least, strict=True)],
        2,
    )
    text = HEAD + "\n".join(lines) + "\n"
    return text + TAIL.format(calls=CALLS, sms=SMS) + public_kernels()


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("--simulate", action="store_true")
    parser.add_argument("--record", type=Path, default=RECORD)
    options = parser.parse_args(arguments)
    record = json.loads(options.record.read_text()) if options.record.is_file() else {}
    if options.simulate:
        record["ours"] = simulate()
        options.record.write_text(dense(record) + "\n")
    PAGE.write_text(render(record))
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
