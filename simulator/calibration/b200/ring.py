"""A CUTLASS main loop in one CTA (TMA to tcgen05.mma) on the B200's clock, by tile, stages and format.

    python -m simulator.calibration.b200 FOLDER ring --cutlass FOLDER

The program is cutlass_gemm_mainloop of SemiAnalysisAI/microbench-blackwell on a checkout of NVIDIA/cutlass; neither is
committed.  Compiling takes about 20 s a row, so a sample stands for the published table: every STEP-th row that names
its stages.  The middle row of each three calibrates, as do the rows in FITTED; the others validate.  This rule was
fixed before any validating row had been simulated.  The authors' plots take the SM clock as 1300 MHz, and rows whose
MMAs set the pace agree.  One launch behind a warm-up is timed; the authors took the mean of twenty.
"""

from __future__ import annotations

import csv
import os
import re
import subprocess
from collections.abc import Iterator
from pathlib import Path

from simulator.calibration.b200.ladder import chip_at
from simulator.calibration.rows import Row
from simulator.python.toolchain import BUILD, built, nvcc

PART = "cutlass_gemm_mainloop"
GROUP = "ring"
STEP = 20
THIRD = 3  # one row in three of the sample calibrates
# Tiles and stages, all BF16, that chips/b200.json fits its copies on; 128 x 128 x 64 with two stages validates.
FITTED = tuple(
    (*tile, stages)
    for tile, counts in (
        (("64", "16", "16"), "26"), (("64", "16", "64"), "2"), (("128", "64", "64"), "26"), (("128", "128", "64"), "6"),
    )
    for stages in counts
)  # fmt: skip
COLUMNS = ("TILE_M", "TILE_N", "TILE_K", "STAGES")
FORMATS = {"BF16": "0", "FP8_E4M3": "1"}
GHZ = 1.3  # plot_results.py, CLOCK_MHZ
TOGETHER = 5  # configurations in a program, so that CUTLASS's headers are read once for all
CALLS = "BENCH_ITERS = 20;", "BENCH_ITERS = 1;"


def fitted(row: dict[str, str]) -> bool:
    """Whether a parameter in chips/b200.json was fitted on the row."""
    return row["dtype"] == "BF16" and tuple(row[name] for name in COLUMNS) in FITTED


def sampled(table: Path) -> tuple[list[dict[str, str]], list[dict[str, str]]]:
    """The rows that are run: calibrating, validating."""
    lines = [line for line in table.read_text().splitlines() if not line.startswith("#")]
    named = [row for row in csv.DictReader(lines) if row["STAGES"] != "0"]
    spread = named[STEP // 2 :: STEP]
    third = spread[THIRD // 2 :: THIRD]
    calibrating = third + [row for row in named if fitted(row) and row not in third]
    return calibrating, [row for row in spread if row not in calibrating]


def text_of(rows: list[dict[str, str]], source: Path) -> str:
    """The program once for each row, each in a namespace of its own."""
    lines = re.findall(r"#include .*", source.read_text())
    for i, row in enumerate(rows):
        macros = {name: row[name] for name in COLUMNS} | {"DTYPE_ID": FORMATS[row["dtype"]]}
        lines += [f"#undef {name}\n#define {name} {value}" for name, value in macros.items()]
        lines += [f"namespace c{i} {{", "#define main run", f'#include "{source}"', "#undef main", "}"]
    calls = " ".join(f"failed |= c{i}::run();" for i in range(len(rows)))
    return "\n".join([*lines, f"int main() {{ int failed = 0; {calls} return failed; }}", ""])


def program(rows: list[dict[str, str]], folder: Path, cutlass: Path, at: Path) -> Path:
    """Compiles the rows' program, or links the object of an earlier run."""
    at.mkdir(parents=True, exist_ok=True)
    source, code, text = at / "cutlass_gemm_bench.cu", at / "ring.o", at / "ring.cu"
    wanted = (folder / PART / "cutlass_gemm_bench.cu").read_text().replace(*CALLS)
    if not code.is_file():
        source.write_text(wanted)
        text.write_text(text_of(rows, source))
        where = ["-I", str(cutlass / "include"), "-I", str(cutlass / "tools/util/include")]
        options = ["-std=c++17", "-w", "--expt-relaxed-constexpr", "--no-compress", *where]
        gencode = ["-gencode", "arch=compute_100a,code=compute_100a"]
        subprocess.run([nvcc(), *options, *gencode, "-c", "-o", f"{code}.part", text], check=True)
        Path(f"{code}.part").rename(code)
    libraries = [str(built("libcudart_sim.a")), "-lpthread", "-lm", "-ldl"]
    subprocess.run(["g++", "-o", str(at / "ring"), str(code), *libraries], check=True)
    return at / "ring"


def ring_rows(folder: Path, cutlass: Path, cache: Path = BUILD / "third_party/ring") -> Iterator[Row]:
    """The rows' simulated us beside the published ones."""
    cache.mkdir(parents=True, exist_ok=True)
    chip = chip_at(GHZ, f"published: {PART}/plot_results.py", cache / "chip.json")
    environment = {
        **os.environ, "NVFP4_SIMULATE_TIME": str(chip), "NVFP4_SIMULATE_CHIP": "b200",
        "NVFP4_SIMULATE_CHECKS": "0", "NVFP4_SIMULATE_VALUES": "0", "NVFP4_SIMULATE_GO_ON": "1",
    }  # fmt: skip
    for use, rows in zip(("calibrated", "validated"), sampled(folder / PART / "results.csv"), strict=True):
        for start in range(0, len(rows), TOGETHER):
            yield from run_some(rows[start : start + TOGETHER], use, folder, cutlass, cache, environment)


def run_some(
    rows: list[dict[str, str]], use: str, folder: Path, cutlass: Path, cache: Path, environment: dict[str, str]
) -> Iterator[Row]:
    """Runs rows that share a program."""
    name = "-".join("x".join(row[column] for column in (*COLUMNS, "dtype")) for row in rows[:1]) + f"-{len(rows)}"
    target = program(rows, folder, cutlass, cache / name)
    done = subprocess.run([str(target)], env=environment, capture_output=True, text=True, check=True)
    for row, line in zip(rows, done.stdout.split(), strict=True):
        cells = line.split(",")
        if cells[3:8] != [*(row[column] for column in COLUMNS), row["dtype"]]:
            raise ValueError(f"{line} where the row of {row} was expected")
        text = f"{row['dtype']} {'x'.join(cells[3:6])} stages {row['STAGES']}"
        yield Row(GROUP, "CUTLASS, one CTA", text, "us", 1e3 * float(cells[8]), 1e3 * float(row["time_ms"]), use)
