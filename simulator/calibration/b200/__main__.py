"""Runs published B200 benchmarks on the B200's clock and keeps their times (data/b200_predicted).

    python -m simulator.calibration.b200 FOLDER latency                  # SemiAnalysisAI/microbench-blackwell at COMMIT
    python -m simulator.calibration.b200 FOLDER throughput copies sharing
    python -m simulator.calibration.b200 FOLDER ring --cutlass FOLDER    # with a checkout of NVIDIA/cutlass
    python -m simulator.calibration.b200 FOLDER ladder own-clock         # gau-nernst/learn-cuda

The programs come from those checkouts, linked against build/libcudart_sim.a; nothing of theirs is committed.  All
configurations of a program are compiled into one.  tma2d_throughput reads less than its 2 GB, and umma_throughput runs
20 rounds instead of 1000.  `make clock-report` then writes the pages.
"""

from __future__ import annotations

import argparse
import csv
import json
import os
import re
import subprocess
import sys
import tempfile
from collections.abc import Callable
from dataclasses import dataclass
from pathlib import Path
from statistics import median

from simulator.calibration.b200 import sharing
from simulator.calibration.b200.ladder import ladder_rows, own_clock_rows
from simulator.calibration.b200.page import CHIP
from simulator.calibration.b200.ring import ring_rows
from simulator.calibration.rows import CHIPS, Row, errors, load, save
from simulator.python.toolchain import built, nvcc

COMMIT = "9a068d8"
FORMATS = {"BF16": 0, "E4M3": 1, "S8": 2, "F4": 3, "MXF8": 4, "MXF4": 5}
DEPTH = "256"  # MMAs in flight in the rows that give a rate
SMS = 148
FITTED_COLUMNS = {"64", "128", "256"}
MACROS = "MMA_KIND SS_MODE TS_MODE MX_SCALED"
HEADERS = (
    "cstdio cstdlib cstring cstdint cassert algorithm cuda.h cuda_runtime.h cuda_bf16.h cuda_fp8.h cooperative_groups.h"
)
# Rounds of each CTA through its stages; the published run reads 2 GB instead.
ROUNDS = (
    "constexpr size_t MAX_DATA_VOLUME = (size_t){sms} * SMEM_WIDTH * SMEM_HEIGHT * 4 * (SMEM_HEIGHT > 32 ? 24 : 64);"
)
PARTS = 8


@dataclass(frozen=True)
class Case:
    """A configuration of a program: its macros, and the published row."""

    macros: dict[str, str]
    row: dict[str, str]


def mma_cases(table: Path) -> list[Case]:
    """A case for each row; of the rates, those with DEPTH in flight."""
    rows = [row for row in csv.DictReader(table.open()) if row.get("PipelineDepth", DEPTH) == DEPTH]
    return [
        Case(
            {
                "MMA_FORMAT": str(FORMATS[row["Format"]]), "MMA_M": row["M"], "MMA_N": row["N"], "MMA_K": row["K"],
                "CTA_GROUP": row["CTAGroup"], "AB_LAYOUT": str(int(row["ABLayout"] == "TS")), "MMA_DEPTH": DEPTH,
            },
            row,
        )
        for row in rows
    ]  # fmt: skip


def copy_cases(table: Path) -> list[Case]:
    """A case for each row of TMA loads from HBM."""
    return [
        Case(
            {
                "CTAS_PER_SM": row["CTAsPerSM"], "NUM_STAGES": row.get("NumStages", "1"),
                "SMEM_WIDTH": row["SmemWidth"], "SMEM_HEIGHT": row["SmemHeight"],
            },
            row,
        )
        for row in csv.DictReader(table.open())
    ]  # fmt: skip


def program(source: Path, cases: list[Case], folder: Path) -> Path:
    """Compiles all cases into one program, each in a namespace of its own."""
    lines = [f"#include <{header}>" for header in HEADERS.split()]
    for i, case in enumerate(cases):
        lines += [f"namespace c{i} {{", *(f"#define {name} {value}" for name, value in case.macros.items())]
        lines += ["#define main run", f'#include "{source}"', "#undef main"]
        lines += [*(f"#undef {name}" for name in [*case.macros, *MACROS.split()]), "}"]
    calls = "".join(f'std::printf("ROW {i}\\n"); std::fflush(stdout); c{i}::run(); std::fflush(stdout);\n'
                    for i in range(len(cases)))  # fmt: skip
    lines.append(f"int main() {{ {calls} return 0; }}")
    text, target = folder / f"{source.stem}.all.cu", folder / source.stem
    text.write_text("\n".join(lines))
    gencode = ["-gencode", "arch=compute_100a,code=compute_100a", "--no-compress"]
    subprocess.run([nvcc(), "-std=c++17", "-O2", "-w", *gencode, "-c", "-o", f"{target}.o", text], check=True)
    libraries = [str(built("libcudart_sim.a")), "-lpthread", "-lm", "-ldl"]
    subprocess.run(["g++", "-o", str(target), f"{target}.o", *libraries], check=True)
    return target


def outputs(target: Path, values: bool, folder: Path) -> tuple[dict[int, str], list[dict]]:
    """The last result that each case printed, and the report's launches."""
    report = folder / "report.json"
    environment = {
        **os.environ, "NVFP4_SIMULATE_TIME": str(CHIPS / f"{CHIP}.json"), "NVFP4_SIMULATE_CHIP": "b200",
        "NVFP4_SIMULATE_CHECKS": "0", "NVFP4_SIMULATE_VALUES": str(int(values)), "NVFP4_SIMULATE_GO_ON": "1",
        "NVFP4_SIMULATE_JSON": str(report),
    }  # fmt: skip
    done = subprocess.run(
        [str(target)], env=environment, stdout=subprocess.PIPE, stderr=subprocess.DEVNULL, text=True, check=False
    )
    found, at = {}, -1
    for line in done.stdout.splitlines():
        if line.startswith("ROW "):
            at = int(line.split()[1])
        elif line.startswith(("RESULT,", "SUMMARY,")):
            found[at] = line
    return found, json.loads(report.read_text())["time"]["launches"]


def mma_rows(source: Path, table: Path, name: str, column: str) -> list[Row]:
    """Latencies or intervals of tcgen05.mma in cycles.  A case that the simulator refuses has no row."""
    rows = []
    for part in range(PARTS):
        cases = mma_cases(table)[part::PARTS]
        with tempfile.TemporaryDirectory() as folder:
            found, _ = outputs(program(source, cases, Path(folder)), False, Path(folder))
        rows += [mma_row(name, cases[i].row, column, float(line.split(",")[-1])) for i, line in found.items()]
    return rows


def mma_row(name: str, row: dict[str, str], column: str, predicted: float) -> Row:
    """A row of the table: N in FITTED_COLUMNS calibrates, other N validate."""
    text = f"{row['Format']} {row['ABLayout']} CTAs {row['CTAGroup']} M {row['M']} N {row['N']}"
    use = "calibrated" if row["N"] in FITTED_COLUMNS else "validated"
    return Row(name, "tcgen05.mma", text, "cycles", predicted, float(row[column]), use)


def latency(source: Path) -> list[Row]:
    """One MMA, from its issue to the end of the wait for its commit."""
    folder = source / "umma_latency"
    return mma_rows(folder / "umma_lat.cu", folder / "lat_results_full.csv", "latency", "MedianCycles")


def throughput(source: Path) -> list[Row]:
    """Cycles of an MMA with 256 in flight."""
    folder = source / "umma_throughput"
    with tempfile.TemporaryDirectory() as name:
        shorter = Path(name) / "umma_tput.cu"
        shorter.write_text((folder / "umma_tput.cu").read_text().replace("NUM_ITERS = 1000;", "NUM_ITERS = 20;"))
        return mma_rows(shorter, folder / "tput_results_full.csv", "throughput", "CyclesPerMMA")


def copies(source: Path) -> list[Row]:
    """TMA loads from HBM by all SMs: rates by stages and bytes, and the latency of one load."""
    with tempfile.TemporaryDirectory() as name:
        folder, theirs = Path(name), source / "tma2d_throughput"
        text = (theirs / "tma2d_tput.cu").read_text()
        shorter = folder / "tma2d_tput.cu"
        shorter.write_text(re.sub("constexpr size_t MAX_DATA_VOLUME.*", ROUNDS.format(sms=SMS), text))
        cases = copy_cases(theirs / "tma2d_tput_results.csv")
        _, launches = outputs(program(shorter, cases, folder), True, folder)
        loads = [launch for launch in launches if "Unicast" in launch["kernel"]]
        rows = [rate_row(case.row, launch) for case, launch in zip(cases, loads, strict=True)]
        theirs = source / "tma2d_latency"
        cases = copy_cases(theirs / "tma2d_lat_results.csv")
        found, _ = outputs(program(theirs / "tma2d_lat.cu", cases, folder), True, folder)
        for i, line in found.items():
            measured = float(cases[i].row["LatencyCyclesMedian"])
            size = cases[i].row["TileBytes"]
            predicted = float(line.split(",")[1])
            rows.append(Row("first loads", "tma load", f"bytes {size}", "cycles", predicted, measured, "validated"))
    return rows


def rate_row(row: dict[str, str], launch: dict) -> Row:
    """TB/s of a launch; one load in flight calibrates, several validate."""
    height, stages = int(row["SmemHeight"]), row["NumStages"]
    size = int(row["SmemWidth"]) * height * 4
    moved = SMS * size * (24 if height > 32 else 64)
    predicted = moved / (launch["end_us"] - launch["start_us"]) * 1e-6
    use = "calibrated" if stages == "1" else "validated"
    return Row("copies", "tma load", f"loads {stages} bytes {size}", "TB/s", predicted,
               float(row["DRAMBandwidthBps"]) * 1e-12, use)  # fmt: skip


def sharing_rows(source: Path) -> list[Row]:
    """TB/s of loads of tiles that several SMs load."""
    rows = []
    theirs = source / sharing.PART / "tma2dmcast_tput.cu"
    for found in sharing.published(source).values():
        with tempfile.TemporaryDirectory() as name:
            folder = Path(name)
            (folder / theirs.name).write_text(sharing.shortened(theirs.read_text()))
            cases = [Case(shared.macros, {}) for shared in found]
            _, launches = outputs(program(folder / theirs.name, cases, folder), False, folder)
            loads = [launch for launch in launches if "bulkAsyncCopy" in launch["kernel"]]
        rows += [shared.row(x["end_us"] - x["start_us"]) for shared, x in zip(found, loads, strict=True)]
    return rows


SETS: dict[str, Callable[[Path], list[Row]]] = {
    "latency": latency,
    "throughput": throughput,
    "copies": copies,
    "sharing": sharing_rows,
    "ladder": lambda source: list(ladder_rows(source, [])),
    "own-clock": lambda source: list(own_clock_rows(source, [])),
}


def main(arguments: list[str]) -> int:
    """Runs the sets and keeps their rows."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("folder", type=Path, help="the checkout of the programs")
    parser.add_argument("sets", nargs="+", choices=[*SETS, "ring"])
    parser.add_argument("--cutlass", type=Path, metavar="FOLDER", help="NVIDIA/cutlass, for the ring")
    options = parser.parse_args(arguments)
    sets = dict(SETS)
    if options.cutlass is not None:
        sets["ring"] = lambda source: list(ring_rows(source, options.cutlass.resolve()))
    elif "ring" in options.sets:
        parser.error("ring needs --cutlass")
    made = [row for name in options.sets for row in sets[name](options.folder.resolve())]
    save(CHIP, load(CHIP) | {row.key: row for row in made})
    print(f"{len(made)} rows, median error {median(errors(made)):.1f} %")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
