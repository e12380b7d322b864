"""Runs a backend for chips that are not at hand on the simulator: sets of problems x configurations x modes.

Each output is compared with the reference in float64; writes simulator/results/BLACKWELL.md or GEFORCE.md.

usage: make blackwell-table, make geforce-table, or python -m simulator.validation.backend_table NAME [--sets NAME ...]
[--configs NAME ...] [--modes NAME ...] (with torch and an nvcc; hours of one core for everything).  Results are kept
in the JSON file beside the page: a run of a part replaces that part.
"""

from __future__ import annotations

import argparse
import json
import os
import re
import sys
import tempfile
import textwrap
import time
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from itertools import product
from pathlib import Path
from typing import NamedTuple

from scripts.common import forked
from scripts.common.toolchain import BUILD

ROOT = Path(__file__).resolve().parents[2]
MODES = ("eager", "late", "reverse", "random:1", "random:2", "random:3", "poison")
INTRODUCTION = """Written by `make {name}-table` (`backend_table.py`); `{name}.json` has the
figures. The backend's own host code and PTX, with all checks on. A cell: outputs that agree with the float64
reference, of how many problems; the verdict on all of them; host seconds of the calls (on a shared machine: no
benchmark). Empty: not run. `chosen` takes the configuration that the plan chooses for {sms} SMs; one that splits K is
not given problems with too few stages. Inputs: the leaderboard's; `full`: every e2m1 code and every finite scale
factor, zero and subnormal among them, a third with NaN scale factors too; edges: M and N of 1, 40, 72, 129, 200,
1000, K that ends within a stage, L of 1 and 3, both layouts of scale factors."""
CHOSEN = "chosen"  # the configuration that the plan chooses, for each problem

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
    """Sizes, and what the inputs are; `blocked`: scale factors in the blocked layout, whose padding is NaN."""

    m: int
    n: int
    k: int
    l: int = 1  # noqa: E741
    seed: int = 1111
    full: bool = False
    nan: bool = False
    blocked: bool = True


class Backend(NamedTuple):
    """A backend, the chip that the simulator takes for it, and how it writes its configurations down."""

    name: str
    title: str
    sms: int
    stage_k: int
    splits_k: bool  # the last number of a configuration is its shares of K

    @property
    def results(self) -> Path:
        return ROOT / f"simulator/results/{self.name}.json"

    @property
    def table(self) -> Path:
        return ROOT / f"simulator/results/{self.name.upper()}.md"

    def shares(self) -> dict[str, int]:
        """How many shares of K each configuration has."""
        text = (ROOT / f"submission/{self.name}/{self.name}_config.h").read_text()
        rows = re.findall(r"^ +X\((\w+), ([\d, ]+)\)", text, re.M)
        return {name: int(row.split(",")[-1]) if self.splits_k else 1 for name, row in rows}

    def possible(self, problems: list[Problem], config: str) -> list[Problem]:
        """Those of which no share of K is empty."""
        shares = 1 if config == CHOSEN else self.shares()[config]
        return [problem for problem in problems if -(-problem.k // self.stage_k) >= shares]


BLACKWELL = Backend("blackwell", "Blackwell", 148, 256, splits_k=True)
GEFORCE = Backend("geforce", "GeForce", 170, 128, splits_k=False)
BACKENDS = {backend.name: backend for backend in (BLACKWELL, GEFORCE)}


class Run(NamedTuple):
    """A set of problems on a configuration in a mode."""

    name: str
    config: str
    mode: str
    problems: list[Problem]


def leaderboard(name: str) -> list[Problem]:
    text = (ROOT / f"eval/cases/{name}.txt").read_text()
    return [Problem(*map(int, re.findall(r"\d+", line))) for line in text.splitlines() if line.strip()]


def edges() -> list[Problem]:
    """Every pair of odd sizes, with lengths of K that end within a stage and one or three batches."""
    sizes, lengths = (1, 40, 72, 129, 200, 1000), (64, 192, 832, 1088, 1344, 1600, 1856)
    return [
        Problem(m, n, lengths[i % len(lengths)], 3 if i % 4 == 0 else 1, seed=i, full=i % 5 == 0, blocked=i % 3 == 0)
        for i, (m, n) in enumerate(product(sizes, sizes))
    ]


def full() -> list[Problem]:
    """Every code and every finite scale factor, subnormal and zero among them; then NaN scale factors too."""
    shapes = ((256, 256, 1024, 1), (256, 384, 2304, 1), (512, 192, 1344, 1), (130, 200, 832, 3))
    plain = [Problem(*shape, seed=seed, full=True) for shape in shapes for seed in (1, 2)]
    return plain + [Problem(*shape, seed=3, full=True, nan=True) for shape in shapes]


def small() -> list[Problem]:
    """What `make test` runs: an even and an odd number of stages, edges, batches, NaN."""
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
    """What can run of the product of these."""
    for name, config, mode in product(sets, configs, modes):
        yield Run(name, config, mode, backend.possible(SETS[name](), config))


def execute(backend: Backend, run: Run, library: Path) -> dict:
    """One run in a process of its own."""
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


def render(backend: Backend, rows: list[dict]) -> str:
    """The whole file."""
    good = sum(row["right"] for row in rows), sum(row["problems"] for row in rows)
    clean = sum(row["verdict"] == "clean" for row in rows)
    lines = [
        f"# The {backend.title} backend on the simulator",
        "",
        f"    make {backend.name}-table".ljust(83) + "# everything",
        f"    make {backend.name}-table TABLE_ARGS='--configs {next(iter(backend.shares()))} --modes late'".ljust(83)
        + "# a part",
        "",
        textwrap.fill(INTRODUCTION.format(name=backend.name, sms=backend.sms), 120, break_on_hyphens=False),
        "",
        f"{good[0]} of {good[1]} outputs are right, {clean} of {len(rows)} runs clean.",
        "",
    ]
    modes = [mode for mode in MODES if any(row["mode"] == mode for row in rows)]
    lines += [f"| problems | configuration | {' | '.join(modes)} |", "| --- " * (2 + len(modes)) + "|"]
    cells = {(row["set"], row["config"], row["mode"]): row for row in rows}
    for name, config in dict.fromkeys((row["set"], row["config"]) for row in rows):
        texts = []
        for mode in modes:
            row = cells.get((name, config, mode))
            kinds = f" ({', '.join(row['kinds'])})" if row and row["kinds"] else ""
            texts.append(
                f"{row['right']}/{row['problems']} {row['verdict']}{kinds} {row['seconds']:.0f} s" if row else ""
            )
        lines.append(f"| {name} | {config} | {' | '.join(texts)} |")
    lines += ["", *(f"- wrong: {row['config']}, {row['mode']}, {text}" for row in rows for text in row["wrong"])]
    return "\n".join(lines).rstrip() + "\n"


def order(backend: Backend, row: dict) -> tuple[int, int, int]:
    configs = [CHOSEN, *backend.shares()]
    place = configs.index(row["config"]) if row["config"] in configs else len(configs)
    return list(SETS).index(row["set"]), place, MODES.index(row["mode"])


def main(arguments: list[str]) -> int:
    parser = argparse.ArgumentParser(description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("backend", choices=BACKENDS)
    parser.add_argument("--sets", nargs="+", choices=SETS, default=[name for name in SETS if name != "in make test"])
    parser.add_argument("--configs", nargs="+", help="default: all, and what the plan chooses")
    parser.add_argument("--modes", nargs="+", choices=MODES, default=list(MODES))
    parser.add_argument("--workers", type=int, default=1)
    options = parser.parse_args(arguments)
    backend = BACKENDS[options.backend]
    configs = options.configs or [CHOSEN, *backend.shares()]
    if unknown := set(configs) - {CHOSEN, *backend.shares()}:
        parser.error(f"--configs is {', '.join(sorted(unknown))}; expected of {CHOSEN}, {', '.join(backend.shares())}")
    library = Path(os.environ.get("NVFP4_LIBRARY", BUILD / "libcustom_kernel_sim.so"))
    rows = json.loads(backend.results.read_text()) if backend.results.is_file() else []
    begin = time.monotonic()
    with ThreadPoolExecutor(options.workers) as pool:
        wanted = list(runs(backend, options.sets, configs, options.modes))
        for row in pool.map(lambda run: execute(backend, run, library), wanted):
            key = [row[name] for name in ("set", "config", "mode")]
            rows = [old for old in rows if [old[name] for name in ("set", "config", "mode")] != key]
            rows = sorted([*rows, row], key=lambda each: order(backend, each))
            backend.results.write_text(json.dumps(rows, indent=1) + "\n")
            print(*key, f"{row['right']}/{row['problems']}", row["verdict"], *row["wrong"], row["seconds"], flush=True)
    backend.table.write_text(render(backend, rows))
    print(f"{len(wanted)} runs in {time.monotonic() - begin:.0f} s")
    return int(any(row["right"] < row["problems"] or row["verdict"] != "clean" for row in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
