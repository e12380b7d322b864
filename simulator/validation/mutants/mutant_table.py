"""Runs every mutant of the suites here in several modes and writes simulator/results/MUTANTS.md: what found it, and
what a comparison of values alone would have found.

usage: python -m simulator.validation.mutants.mutant_table (with torch and an nvcc; some minutes)
"""

from __future__ import annotations

import re
import sys
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

from rich.progress import track

from simulator.validation.mutants import changed_maps as tensor_maps
from simulator.validation.mutants import gemm_problem as gemm
from simulator.validation.mutants import gemm_ptx, real_faults
from simulator.validation.mutants import mbarrier_phases as phases
from simulator.validation.mutants import overlapping_launches as launches
from simulator.validation.mutants import tma_pipeline as pipeline
from simulator.validation.mutants.backends import hopper_mutants as hopper

ROOT = Path(__file__).resolve().parents[3]
REAL = "faults that people met in 2026"
BETWEEN = "launches that overlap (sm_90a)"
MODES = ("eager", "late", "random:1", "random:2", "random:3")


class Result(NamedTuple):
    """One run: the verdict, the kinds of its findings, whether the values were right (None: it did not end)."""

    verdict: str
    kinds: set[str]
    right: bool | None


class Suite(NamedTuple):
    """A kernel and what is done to it; `run` takes a mutant's name (None: the kernel as it is) and a mode."""

    name: str
    mutants: list[str]
    modes: tuple[str, ...]
    run: Callable[[str | None, str], Result]


def _pipeline(name: str | None, mode: str) -> Result:
    text = pipeline.TEXT if name is None else pipeline.TEXT.replace(*pipeline.MUTANTS[name][:2])
    kind, _, seed = mode.partition(":")
    sim, status, right = pipeline.run(text, kind, int(seed or 1))
    return Result(sim.verdict, set(sim.kinds), right if status == 0 else None)


def _phases(name: str | None, mode: str) -> Result:
    kind, _, seed = mode.partition(":")
    text = phases.SAFE["an mbarrier back"] if name is None else phases.UNSAFE[name]
    sim = phases.run(text, kind, int(seed or 1), phases.THREADS.get(name, 64))
    return Result(sim.verdict, set(sim.kinds), "deadlock" not in sim.kinds or None)


def _maps(name: str | None, mode: str) -> Result:
    text = tensor_maps.kernel() if name is None else tensor_maps.kernel().replace(*tensor_maps.MUTANTS[name][:2])
    sim, source, out = tensor_maps.run(text, mode.partition(":")[0])
    return Result(sim.verdict, set(sim.kinds), bool((out == source).all()))


def _between(name: str | None, mode: str) -> Result:
    kind, _, seed = mode.partition(":")
    cases = launches.CASES.values() if name is None else (launches.CASES[name],)
    results = []
    for case in cases:
        sim, right = launches.run(case, name is not None, kind, int(seed or 1))
        results.append(Result(sim.verdict, set(sim.kinds), right or not case.shows))
    return Result(
        max(r.verdict for r in results), set().union(*(r.kinds for r in results)), all(r.right for r in results)
    )


def _real(name: str | None, mode: str) -> Result:
    if name is None:
        outcomes = [fault.run(False, mode) for fault in real_faults.FAULTS.values()]
        return Result(max(verdict for verdict, _ in outcomes), set().union(*(kinds for _, kinds in outcomes)), True)
    verdict, kinds = real_faults.FAULTS[name].run(True, mode)
    return Result(verdict, kinds, True)


def _tensor(folder: Path, pair: bool) -> Callable[[str | None, str], Result]:
    width = 64 if pair else 128
    problem = gemm.Problem(folder, width, pair=pair)
    text = gemm_ptx.kernel(width, gemm.CHUNKS, pair=pair)

    def run(name: str | None, mode: str) -> Result:
        verdict, kinds, wrong = problem.run(text if name is None else gemm_ptx.mutate(text, name), mode)
        found = {kind for _, kind in kinds}
        return Result(verdict, found, None if "deadlock" in found else wrong == 0)

    return run


def _hopper(folder: Path) -> Callable[[str | None, str], Result]:
    def run(name: str | None, mode: str) -> Result:
        text = hopper.kernel_text()
        if name is not None:
            text = re.sub(hopper.MUTANTS[name][0], hopper.MUTANTS[name][1], text)
        (folder / "mutant.ptx").write_text(text)
        shapes = [(256, 512, 1024, True), (256, 512, 1024, True)]
        right, report, _ = hopper.run(shapes, folder / "report.json", mode, folder / "mutant.ptx")
        return Result(report["verdict"], {f["kind"] for f in report["findings"]}, None if right is None else all(right))

    return run


def suites(folder: Path) -> Iterator[Suite]:
    """The kernels with mutants in the tests."""
    for name in ("one", "pair", "hopper"):
        (folder / name).mkdir()
    yield Suite("TMA pipeline (sm_90a)", list(pipeline.MUTANTS), MODES, _pipeline)
    yield Suite("warps that wait for one mbarrier (sm_90a)", list(phases.UNSAFE), MODES, _phases)
    yield Suite("tensor maps that a kernel changes (sm_90a)", list(tensor_maps.MUTANTS), MODES, _maps)
    yield Suite("block-scaled GEMM, one CTA (sm_100a)", list(gemm.MUTANTS), MODES, _tensor(folder / "one", False))
    yield Suite("block-scaled GEMM, CTA pair (sm_100a)", list(gemm.PAIR_MUTANTS), MODES, _tensor(folder / "pair", True))
    yield Suite(BETWEEN, list(launches.CASES), MODES, _between)
    yield Suite(REAL, list(real_faults.FAULTS), MODES[:4], _real)
    yield Suite("the Hopper backend", list(hopper.MUTANTS), MODES[:3], _hopper(folder / "hopper"))


def _found(results: dict[str, Result]) -> str:
    hits = [mode for mode, result in results.items() if result.verdict in ("error", "review")]
    return "every mode" if len(hits) == len(results) else ", ".join(hits) or "none"


def table(suite: Suite) -> tuple[list[str], int, int, int, int]:
    """The suite's lines; and how many mutants were found, found by values alone in some mode, missed; false alarms."""
    lines = ["| mutant | verdict | found in | findings | wrong values in |", "| --- | --- | --- | --- | --- |"]
    found = by_values = 0
    for name in track(suite.mutants, description=suite.name):
        results = {mode: suite.run(name, mode) for mode in suite.modes}
        worst = "error" if any(r.verdict == "error" for r in results.values()) else results[suite.modes[0]].verdict
        kinds = sorted(set().union(*(r.kinds for r in results.values())))
        wrong = [mode for mode, result in results.items() if result.right is not True]
        found += all(r.verdict in ("error", "review") for r in results.values())
        by_values += bool(wrong)
        met = {REAL: real_faults.FAULTS, BETWEEN: launches.CASES}.get(suite.name, {}).get(name)
        shown = f"{name} ({met.met})" if met is not None and met.met else name
        values = "not compared" if suite.name == REAL else ", ".join(wrong) or "none"
        lines.append(f"| {shown} | {worst} | {_found(results)} | {', '.join(kinds)} | {values} |")
    alarms = sum(suite.run(None, mode) != Result("clean", set(), True) for mode in suite.modes)
    return lines, found, by_values, len(suite.mutants) - found, alarms


def main() -> int:
    """Writes the table; 1 if a mutant was missed or a correct kernel reported."""
    summary = [
        "| kernel | mutants | found in every mode | wrong values in some mode | missed | false alarms |",
        "| --- | ---: | ---: | ---: | ---: | ---: |",
    ]
    body: list[str] = []
    failed = 0
    with tempfile.TemporaryDirectory() as folder:
        for suite in suites(Path(folder)):
            lines, found, by_values, missed, alarms = table(suite)
            shown = "not compared" if suite.name == REAL else by_values
            summary.append(f"| {suite.name} | {len(suite.mutants)} | {found} | {shown} | {missed} | {alarms} |")
            body += ["", f"## {suite.name}", "", *lines]
            failed += missed + alarms
    text = [
        "# Mutants",
        "",
        "Written by `simulator/validation/mutants/mutant_table.py`. Each mutant is a correct kernel with one",
        f"synchronisation removed or altered, run in the modes {', '.join(MODES)} (the Hopper backend in the",
        "first three, the faults that people met in the first four and without a comparison of values). A false",
        "alarm is a finding on the kernel as it is. `wrong values` includes runs without an end:",
        "a comparison of outputs would have shown these, and only these.",
        "",
        *summary,
        *body,
        "",
    ]
    (ROOT / "simulator/results/MUTANTS.md").write_text("\n".join(text))
    return 1 if failed else 0


if __name__ == "__main__":
    sys.exit(main())
