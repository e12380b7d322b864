"""Runs a backend whose chips are not at hand on the simulator: sets of problems x configurations x modes.

Compares each output with the reference in float64. Rows go to simulator/results/data/backends.csv; a run of a part
replaces that part.

usage: make blackwell-table, make geforce-table, or ./nvfp4 validate backend_table NAME [--sets NAME ...]
[--configs NAME ...] [--modes NAME ...] (needs torch and an nvcc; everything takes hours of one core)
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import time
from collections import defaultdict
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import NamedTuple

from simulator.python import forked
from simulator.python.markdown import table
from simulator.python.toolchain import BUILD
from simulator.validation import datasets

ROOT = Path(__file__).resolve().parents[2]
MODES = ("eager", "late", "reverse", "random:1", "random:2", "random:3", "poison")
INTRODUCTION = """The backends' own host code and PTX on the simulator, with all checks on: `make blackwell-table` and
`make geforce-table` run them (hours), `./nvfp4 validate report` prints a row for each mode. A cell says how many of
the outputs agree with the float64 reference, and in how many modes they ran. `chosen` takes the configuration that
tile selection chooses for 148 SMs (Blackwell) or 170 (GeForce); a configuration that splits K skips problems with too
few stages.
Inputs: the leaderboard's; `full inputs`: every e2m1 code and every finite scale factor, zero and subnormal ones too,
a third with NaN scale factors; `edge sizes`: M and N of 1, 40, 72, 129, 200, 1000, K that ends within a stage, L of 1
and 3, both layouts of scale factors."""
CHOSEN = "chosen"  # for each problem, the configuration that tile selection chooses
KEY = ("backend", "set", "config", "mode")  # identifies a row

DRIVER = """
import json, sys, time
import torch
from reference import nvfp4
from reference.reference import check_against_oracle, generate_input
from submission.submission import custom_kernel
for m, n, k, l, seed, full, nan, blocked in json.loads(sys.stdin.read()):
    data = list(generate_input(m=m, n=n, k=k, l=l, seed=seed, full=full, device="cpu"))
    if nan:
        for i, byte in ((3, 0x7F), (4, 0xFF), (5, 0x7F)):
            data[i].view(torch.uint8)[m // 2 if i == 3 else n // 3, -1, 0] = byte
            data[i + 3] = nvfp4.to_blocked(data[i])
    begin = time.monotonic()
    output = custom_kernel(tuple(data) if blocked else (*data[:6], data[-1]))
    seconds = time.monotonic() - begin
    right, why = check_against_oracle(data, output)
    right = right and bool(output.isnan().any()) == nan
    print(json.dumps({"right": right, "why": "" if right else why, "seconds": seconds}), flush=True)
"""


class Problem(NamedTuple):
    """Sizes and kind of inputs; `blocked`: scale factors in the blocked layout, whose padding is NaN."""

    m: int
    n: int
    k: int
    l: int = 1  # noqa: E741
    seed: int = 1111
    full: bool = False
    nan: bool = False
    blocked: bool = True


class Backend(NamedTuple):
    """A backend, and how its sources list its configurations."""

    name: str
    stage_k: int
    splits_k: bool  # the fifth number of a configuration is its shares of K

    def shares(self) -> dict[str, int]:
        """Number of shares of K of each configuration."""
        text = (ROOT / f"submission/{self.name}/{self.name}_config.h").read_text()
        rows = re.findall(r"^ +X\((\w+), ([\d, ]+)\)", text, re.M)
        return {name: int(row.split(",")[4]) if self.splits_k else 1 for name, row in rows}

    def possible(self, problems: list[Problem], config: str) -> list[Problem]:
        """Problems without an empty share of K."""
        shares = 1 if config == CHOSEN else self.shares()[config]
        return [problem for problem in problems if -(-problem.k // self.stage_k) >= shares]


BLACKWELL = Backend("blackwell", 256, splits_k=True)
GEFORCE = Backend("geforce", 128, splits_k=False)
BACKENDS = {backend.name: backend for backend in (BLACKWELL, GEFORCE)}


class Run(NamedTuple):
    """A set of problems for a configuration and a mode."""

    name: str
    config: str
    mode: str
    problems: list[Problem]


def leaderboard(name: str) -> list[Problem]:
    text = (ROOT / f"reference/problems/dual_gemm/{name}.txt").read_text()
    return [Problem(*map(int, re.findall(r"\d+", line))) for line in text.splitlines() if line.strip()]


def edges() -> list[Problem]:
    """Every pair of odd sizes, with K that ends within a stage, and one or three batches."""
    sizes, lengths = (1, 40, 72, 129, 200, 1000), (64, 192, 832, 1088, 1344, 1600, 1856)
    return [
        Problem(m, n, lengths[i % len(lengths)], 3 if i % 4 == 0 else 1, seed=i, full=i % 5 == 0, blocked=i % 3 == 0)
        for i, (m, n) in enumerate(product(sizes, sizes))
    ]


def full() -> list[Problem]:
    """Every code and every finite scale factor, subnormal and zero ones too; then with NaN scale factors."""
    shapes = ((256, 256, 1024, 1), (256, 384, 2304, 1), (512, 192, 1344, 1), (130, 200, 832, 3))
    plain = [Problem(*shape, seed=seed, full=True) for shape in shapes for seed in (1, 2)]
    return plain + [Problem(*shape, seed=3, full=True, nan=True) for shape in shapes]


def small() -> list[Problem]:
    """The problems of `make test`: an even and an odd number of stages, edges, batches, NaN."""
    return [
        Problem(40, 72, 1280, nan=True, blocked=False),
        Problem(129, 200, 1088, 3, full=True, blocked=False),
        Problem(250, 380, 1344, full=True),
        Problem(1, 1, 832, blocked=False),
        Problem(40, 40, 64, 2, blocked=False),
    ]


SETS = {
    "ten tests": lambda: leaderboard("test"),
    "four benchmarks": lambda: leaderboard("benchmark"),
    "full inputs": full,
    "edge sizes": edges,
    "in make test": small,
}


def runs(backend: Backend, sets: list[str], configs: list[str], modes: list[str]) -> Iterator[Run]:
    """Every combination of these, without problems that a configuration cannot run."""
    for name, config, mode in product(sets, configs, modes):
        yield Run(name, config, mode, backend.possible(SETS[name](), config))


def execute(backend: Backend, run: Run, library: Path) -> dict:
    """The row of a run, which has a process of its own."""
    with tempfile.TemporaryDirectory() as folder:
        report = Path(folder) / "report.json"
        environment = dict(os.environ, NVFP4_LIBRARY=str(library), NVFP4_BACKEND=backend.name, NVFP4_SIMULATE="1")
        environment |= {"NVFP4_SIMULATE_MODE": run.mode, "NVFP4_SIMULATE_JSON": str(report)}
        environment |= {f"NVFP4_{backend.name.upper()}_CONFIG": "" if run.config == CHOSEN else run.config}
        done = forked.run(DRIVER, environment=environment, stdin=json.dumps(run.problems))
        rows = [json.loads(line) for line in done.stdout.splitlines() if line.startswith("{")]
        found = json.loads(report.read_text()) if report.is_file() else {"verdict": "no report", "findings": []}
    wrong = [f"{tuple(p)}: {row['why']}" for p, row in zip(run.problems, rows, strict=False) if not row["right"]]
    if len(rows) < len(run.problems):
        wrong.append(f"{tuple(run.problems[len(rows)])}: {done.stderr.strip()[-300:]}")
    return {
        "backend": backend.name,
        "set": run.name,
        "config": run.config,
        "mode": run.mode,
        "problems": len(run.problems),
        "right": sum(row["right"] for row in rows),
        "verdict": found["verdict"],
        "kinds": sorted({finding["kind"] for finding in found["findings"]}),
        "seconds": round(sum(row["seconds"] for row in rows), 1),
        "wrong": wrong,
    }


def summary(rows: list[dict]) -> str:
    """The page of simulator/results: a line for each configuration."""
    right, problems = (sum(row[key] for row in rows) for key in ("right", "problems"))
    clean = sum(row["verdict"] == "clean" for row in rows)
    lines = ["# Backends for other chips on the simulator", "", INTRODUCTION, ""]
    lines += [f"{right} of {problems} outputs are right, {clean} of {len(rows)} runs clean.", ""]
    sets = [name for name in SETS if any(row["set"] == name for row in rows)]
    found, body = defaultdict(list), []
    for row in rows:
        found[row["backend"], row["config"], row["set"]].append(row)
    for backend, config in dict.fromkeys((row["backend"], row["config"]) for row in rows):
        cell = [""] * len(sets)
        for i, name in enumerate(sets):
            if some := found[backend, config, name]:
                right, problems = (sum(row[key] for row in some) for key in ("right", "problems"))
                unclean = sum(row["verdict"] != "clean" for row in some)
                cell[i] = f"{right} of {problems}, {len(some)} mode{'s' * (len(some) > 1)}"
                cell[i] += f", {unclean} not clean" if unclean else ""
        body.append([backend, config, *cell])
    lines.append(table(["backend", "configuration", *sets], body))
    lines += [f"- wrong: {row['config']}, {row['mode']}, {text}" for row in rows for text in row["wrong"]]
    return "\n".join(lines).rstrip() + "\n"


def page(rows: list[dict]) -> str:
    """Every row: sets and configurations by modes."""
    modes = [mode for mode in MODES if any(row["mode"] == mode for row in rows)]
    found = {(row["backend"], row["set"], row["config"], row["mode"]): row for row in rows}
    body = []
    for key in dict.fromkeys(key[:3] for key in found):
        texts = []
        for row in (found.get((*key, mode)) for mode in modes):
            kinds = f" ({', '.join(row['kinds'])})" if row and row["kinds"] else ""
            shown = f"{row['right']}/{row['problems']} {row['verdict']}{kinds} {row['seconds']:.0f} s" if row else ""
            texts.append(shown)
        body.append([*key, *texts])
    return table(["backend", "problems", "configuration", *modes], body) + "\n"


def order(row: dict) -> tuple[int, int, int, int]:
    """The key by which rows are sorted."""
    configs = [CHOSEN, *BACKENDS[row["backend"]].shares()]
    place = configs.index(row["config"]) if row["config"] in configs else len(configs)
    return list(BACKENDS).index(row["backend"]), list(SETS).index(row["set"]), place, MODES.index(row["mode"])


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(
        prog="./nvfp4 validate backend_table", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("backend", choices=BACKENDS)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=[name for name in SETS if name != "in make test"])
    parser.add_argument("--configs", nargs="+", help="default: all, and the one that tile selection chooses")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES))
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args(arguments)
    backend = BACKENDS[options.backend]
    configs = options.configs or [CHOSEN, *backend.shares()]
    if unknown := set(configs) - {CHOSEN, *backend.shares()}:
        parser.error(f"--configs is {', '.join(sorted(unknown))}; expected of {CHOSEN}, {', '.join(backend.shares())}")
    library = Path(os.environ.get("NVFP4_LIBRARY", BUILD / "libcustom_kernel_sim.so"))
    rows = datasets.each_mode(datasets.read("backends"))
    begin = time.monotonic()
    with ThreadPoolExecutor(options.workers) as pool:
        wanted = list(runs(backend, options.sets, configs, options.modes))
        for row in pool.map(lambda run: execute(backend, run, library), wanted):
            key = [row[name] for name in KEY]
            rows = [old for old in rows if [old[name] for name in KEY] != key]
            rows = sorted([*rows, row], key=order)
            datasets.write("backends", datasets.modes_together(rows))
            print(*key, f"{row['right']}/{row['problems']}", row["verdict"], *row["wrong"], row["seconds"], flush=True)
    (datasets.RESULTS / "BACKENDS.md").write_text(summary(rows))
    print(f"{len(wanted)} runs in {time.monotonic() - begin:.0f} s")
    mine = [row for row in rows if row["backend"] == backend.name]
    return int(any(row["right"] < row["problems"] or row["verdict"] != "clean" for row in mine))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
