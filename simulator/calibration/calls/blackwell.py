"""Simulates the Blackwell kernel's times at the benchmark shapes (data/blackwell_calls.json).

python -m simulator.calibration.calls            # simulate each shape with each tile (minutes), write data and page
python -m simulator.calibration.calls --render   # the page from the committed times
python -m simulator.calibration.calls --check    # exit 1 if the page or the chip's parameters have changed
"""

from __future__ import annotations

import argparse
import json
import sys
from pathlib import Path
from typing import Any

from reference.problems.dual_gemm import PROBLEM
from simulator.calibration.b200.board import BY_PTX, CLOCK_GHZ, simulated_chip
from simulator.calibration.calls import board_times
from simulator.calibration.calls.board_times import BOARD_HEAD, board_rows, board_text, public
from simulator.calibration.packed import DATA, dense
from simulator.calibration.rows import RESULTS, parameters_digest
from simulator.package.simulated_call import benchmark_shapes, simulated_calls, tile_table
from simulator.python.markdown import table

CHIP = "b200"
RESULT = DATA / "blackwell_calls.json"
TEXT = RESULTS / "BLACKWELL_TIMES.md"
CALLS = 3  # the last one counts: behind others, with inputs of its own
SMS = 148


def simulate(shape: str, config: str = "") -> dict[str, Any]:
    """A call's us alone and behind others, and its critical resource; config: a tile instead of the chosen one.

    By PTX, at the leaderboard's clock.
    """
    m, n, k = (int(part) for part in shape.split("x"))
    with simulated_chip("blackwell") as chip:
        launches = simulated_calls((m, n, k), "blackwell", CALLS, NVFP4_BLACKWELL_CONFIG=config, **chip)["launches"]
    first, before, last = launches[0], launches[-2], launches[-1]
    return {
        "back_to_back_us": round(last["end_us"] - before["end_us"], 3),
        "isolated_us": round(first["end_us"] - first["start_us"], 3),
        "critical": last["critical"],
        "busiest": {name: taken[1] for name, taken in first["busy"].items() if taken[1] >= 0.1},
    }


def compute(times: dict[str, dict[str, Any]], tiles: dict[str, dict[str, float]]) -> dict[str, Any]:
    """The document: times by shape, and predictions with an interval as wide as the clock's largest error.

    tiles: us behind other calls by shape and tile, which `make bring-up` compares with a chip's.
    """
    chosen = {shape: str(row["tile"]) for shape, row in tile_table("blackwell", str(SMS), *times).items()}
    largest = round(max(board_times.errors()[BY_PTX])) / 100
    predicted = {
        shape: {
            "us": found["back_to_back_us"], "low_us": round(found["back_to_back_us"] * (1 - largest), 3),
            "high_us": round(found["back_to_back_us"] * (1 + largest), 3), "config": chosen[shape],
            "tiles_us": tiles[shape],
        }
        for shape, found in times.items()
    }  # fmt: skip
    return {
        "format": "blackwell-clock-2",
        "evidence": "simulated",
        "parameters_sha256": parameters_digest(CHIP),
        "sm_clock_ghz": CLOCK_GHZ[BY_PTX],
        "times": times,
        "predictions": {"blackwell": predicted},
    }


def rows(data: dict[str, Any]) -> str:
    """The tile of each shape, our times alone, and the task's own bound."""
    predicted = data["predictions"]["blackwell"]
    body = [
        [
            shape.replace("x", " "), f"`{predicted[shape]['config']}`", f"{found['back_to_back_us']:.1f}",
            f"{found['isolated_us']:.1f}", f"{speed_of_light_us(shape):.1f}",
        ]
        for shape, found in data["times"].items()
    ]  # fmt: skip
    head = ["M N K", "tile for 148 SMs", "behind other calls, us", "alone, us", "speed of light at 1.5 GHz, us"]
    return table(head, body)


def speed_of_light_us(shape: str) -> float:
    """The time that the task publishes as the least."""
    return PROBLEM.published_us["B200"][(*(int(part) for part in shape.split("x")), 1)]


def grouped() -> list[dict[str, Any]]:
    """The public grouped GEMM's rows; each also has our kernels' times."""
    return [row for row in public()["rows"] if row["problem"] == "grouped"]


def grouped_tiles() -> str:
    """Every tile of the grouped kernels, behind other calls."""
    found = grouped()
    body = [[f"`{tile}`", *(f"{row['tiles_us'][tile]:.1f}" for row in found)] for tile in found[0]["tiles_us"]]
    return table(["us behind other calls, each tile (simulated)", *(row["case"] for row in found)], body)


def tile_rows(data: dict[str, Any]) -> str:
    """Every tile of the dual GEMM, behind other calls."""
    predicted = data["predictions"]["blackwell"]
    names = list(next(iter(predicted.values()))["tiles_us"])
    body = [[f"`{name}`", *(f"{found['tiles_us'][name]:.1f}" for found in predicted.values())] for name in names]
    return table(["us behind other calls (simulated)", *(shape.replace("x", " ") for shape in predicted)], body)


def older_text() -> str:
    """A sentence that names the public kernels whose times are of older parameters; empty if none."""
    older = {row["kernel"]: None for row in public()["rows"] if row.get("older")}
    if not older:
        return ""
    names = ", ".join(older)
    return f" The simulated times of {names}, and ours next to them, were made with earlier parameters of the chip."


def critical(data: dict[str, Any]) -> str:
    """A list: the critical resource of each shape, and the busiest resources."""
    return "\n".join(
        f"- {shape.replace('x', ' ')}: {found['critical']}. Busy in a call alone, on the busiest SM: "
        f"{', '.join(f'{name} {100 * share:.0f} %' for name, share in found['busiest'].items())}."
        for shape, found in data["times"].items()
    )


def render(data: dict[str, Any]) -> str:
    """The committed page."""
    parts = [
        "# The Blackwell kernels' simulated times",
        "Written by `./nvfp4 cost_model` from [blackwell_calls.json](../calibration/data/blackwell_calls.json) and "
        "[public_kernels.json](../calibration/data/public_kernels.json): compiled kernels on "
        "[the simulator's clock](../ARCHITECTURE.md#simulated-time) with a B200's parameters and the leaderboard's SM "
        "clock. [How far the clock can be trusted](CLOCK.md).",
        board_text() + older_text(),
        board_times.alone_text(),
        "## The dual GEMM's tiles",
        f"By PTX, at {data['sm_clock_ghz']} GHz. Behind other calls: from the end of one call to the end of the next, "
        "each with inputs of its own. Alone: from the first CTA's start to the last CTA's end.",
        rows(data),
        "## Every public row, simulated and published",
        "Compiled from their authors' sources with their host code, without dependent launch, as their authors launch "
        "them; the sources are fetched, not kept. Published: the authors' times of a real B200, from a timer that "
        "steps by some 2 us. `s_128t` is a single GEMM. The grouped kernel's host code is changed: it encodes its "
        "tensor maps anew, writes C by columns and pads its rows to 16. A grouped time depends on where the host puts "
        "the operands: another run of ours differed by 3 to 29 %.",
        board_times.public_errors(),
        "Error against clock, without the mechanisms: 1.39 and 1.965 GHz are simulated, the others are linear in the "
        "clock's period between them.",
        board_times.errors_by_clock(),
        "## What the time depends on",
        critical(data),
    ]
    return "\n\n".join(parts) + "\n"


def report(data: dict[str, Any]) -> str:
    """The page of `make clock-report`: the committed one, and every tile."""
    more = [
        "## Every tile",
        "`make bring-up` compares a B200's times of the same tiles with these.",
        tile_rows(data),
        "## The grouped GEMM's tiles, at 1.965 GHz",
        grouped_tiles(),
    ]
    return "\n\n".join([render(data), *more]) + "\n"


def problems() -> list[str]:
    """The committed files that are not current, and why."""
    found = []
    data = json.loads(RESULT.read_text())
    if data["parameters_sha256"] != parameters_digest(CHIP):
        found.append(f"{RESULT.name}: simulated with other parameters of the chip")
    tiles = {shape: found["tiles_us"] for shape, found in data["predictions"]["blackwell"].items()}
    if data != compute(data["times"], tiles):
        found.append(f"{RESULT.name}: not what its times give")
    if public()["parameters_sha256"] != data["parameters_sha256"]:
        found.append("public_kernels.json: simulated with other parameters of the chip")
    if TEXT.read_text() != render(data):
        found.append(f"{TEXT.name}: not what {RESULT.name} gives")
    return found


def write(path: Path, text: str) -> None:
    """Writes a file only if it differs, so that make sees no change."""
    if not path.is_file() or path.read_text() != text:
        path.write_text(text)


def main(arguments: list[str]) -> int:
    """Simulates and writes, or checks the committed files."""
    parser = argparse.ArgumentParser(
        prog="./nvfp4 cost_model",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--check", action="store_true")
    parser.add_argument("--render", action="store_true")
    options = parser.parse_args(arguments)
    if options.check:
        for problem in (found := problems()):
            print(f"{problem}; run `./nvfp4 cost_model`", file=sys.stderr)
        return int(bool(found))
    if options.render:
        kept = json.loads(RESULT.read_text())
        times = kept["times"]
        tiles = {shape: found["tiles_us"] for shape, found in kept["predictions"]["blackwell"].items()}
    else:
        times = {shape: simulate(shape) for shape in benchmark_shapes()}
        configs = tile_table()["blackwell"]["tiles"]
        tiles = {shape: {name: simulate(shape, name)["back_to_back_us"] for name in configs} for shape in times}
    data = compute(times, tiles)
    write(RESULT, dense(data) + "\n")
    write(TEXT, render(data))
    print(table(BOARD_HEAD, board_rows()))
    return 0
