"""Runs every mutant of the suites here in several modes and writes simulator/results/data/mutants.csv and MUTANTS.md.

usage: ./nvfp4 validate mutants.mutant_table [--only SUITE] (needs torch and an nvcc; minutes)
"""

from __future__ import annotations

import argparse
import re
import sys
import tempfile
from collections import defaultdict
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from types import ModuleType
from typing import NamedTuple

from rich.progress import track

from simulator.validation import datasets
from simulator.validation.mutants import (
    changed_maps,
    gemm_problem,
    gemm_ptx,
    mbarrier_phases,
    overlapping_launches,
    real_faults,
    tma_pipeline,
)
from simulator.validation.mutants.backends import blackwell_dual, geforce_dual, geforce_grouped, hopper_mutants
from simulator.validation.mutants.mutant_page import NOT_COMPARED, summary

MODES = ("eager", "late", "random:1", "random:2", "random:3")
EVERY_MODE = ("eager", "late", "reverse", "random:1", "poison")
ORDER = ("clean", "review", "error", "incomplete")


class Result(NamedTuple):
    """One run: the verdict, the kinds of its findings, whether the values were right (None: not compared)."""

    verdict: str
    kinds: set[str]
    right: bool | None = None


class Case(NamedTuple):
    """A kernel with one place altered, or as it is (no mutant).  Where `verdict` and `kinds` are given, a mode that
    finds the mutant has that verdict or an error, and one of the kinds."""

    mutant: str
    run: Callable[[str], Result]
    modes: tuple[str, ...] = MODES
    verdict: str = ""
    kinds: frozenset[str] = frozenset()

    def is_found(self, result: Result) -> bool:
        if self.kinds and not self.kinds & result.kinds:
            return False
        return result.verdict in ((self.verdict, "error") if self.verdict else ("review", "error"))


class Suite(NamedTuple):
    """Cases of one kernel, in the order of the table."""

    name: str
    kernel: str
    cases: list[Case]


def parts(mode: str) -> tuple[str, int]:
    """The binding's mode and seed."""
    kind, _, seed = mode.partition(":")
    return kind, int(seed or 1)


def pipeline(name: str, mode: str) -> Result:
    text = tma_pipeline.TEXT.replace(*tma_pipeline.MUTANTS[name][:2]) if name else tma_pipeline.TEXT
    sim, status, right = tma_pipeline.run(text, *parts(mode))
    return Result(sim.verdict, set(sim.kinds), right and status == 0)


def phases(name: str, mode: str) -> Result:
    text = mbarrier_phases.UNSAFE[name] if name else mbarrier_phases.SAFE["an mbarrier back"]
    sim = mbarrier_phases.run(text, *parts(mode), mbarrier_phases.THREADS.get(name, 64))
    return Result(sim.verdict, set(sim.kinds), "deadlock" not in sim.kinds)


def maps(name: str, mode: str) -> Result:
    text = changed_maps.kernel()
    sim, source, out = changed_maps.run(text.replace(*changed_maps.MUTANTS[name][:2]) if name else text, parts(mode)[0])
    return Result(sim.verdict, set(sim.kinds), bool((out == source).all()))


def worst(results: list[Result]) -> Result:
    """One result of several kernels."""
    rights = [result.right for result in results]
    verdict = max((result.verdict for result in results), key=ORDER.index)
    right = None if None in rights else all(rights)
    return Result(verdict, set().union(*(result.kinds for result in results)), right)


def launches(name: str, mode: str) -> Result:
    def one(case: overlapping_launches.Case) -> Result:
        sim, right = overlapping_launches.run(case, bool(name), *parts(mode))
        return Result(sim.verdict, set(sim.kinds), right or not case.shows)

    return worst([one(case) for key, case in overlapping_launches.CASES.items() if not name or key == name])


def faults(name: str, mode: str) -> Result:
    chosen = [fault for key, fault in real_faults.FAULTS.items() if not name or key == name]
    return worst([Result(*fault.run(bool(name), mode)) for fault in chosen])


def gemm(problem: gemm_problem.Problem, text: str, name: str, mode: str) -> Result:
    verdict, kinds, wrong = problem.run(gemm_ptx.mutate(text, name) if name else text, mode)
    found = {kind for _, kind in kinds}
    return Result(verdict, found, wrong == 0 and "deadlock" not in found)


def hopper(folder: Path, name: str, mode: str) -> Result:
    text = hopper_mutants.kernel_text()
    if name:
        text = re.sub(hopper_mutants.MUTANTS[name][0], hopper_mutants.MUTANTS[name][1], text)
    (folder / "mutant.ptx").write_text(text)
    shapes = [(256, 512, 1024, True), (256, 512, 1024, True)]
    right, report, _ = hopper_mutants.run(shapes, folder / "report.json", mode, folder / "mutant.ptx")
    return Result(report["verdict"], {found["kind"] for found in report["findings"]}, right is not None and all(right))


def blackwell(name: str, what: str, text: str, mode: str) -> Result:
    size = {"n": blackwell_dual.CONFIGS[name].tile_n, "k": blackwell_dual.mutant_k(name)}
    kernel = blackwell_dual.Kernel(name, text, *parts(mode), **size)
    kernel.run()
    if what == "no griddepcontrol.wait":
        kernel.run(dependent=1)
    return Result(kernel.verdict, set(kernel.kinds))


def geforce(problem: ModuleType, name: str, what: str, text: str, mode: str) -> Result:
    """A mutant; or the kernel as it is, launched twice, the second time as a dependent launch."""
    kernel = problem.Kernel(name, text, *parts(mode))
    outputs = kernel.outputs if problem is geforce_grouped else [kernel.output]
    right = True
    for dependent in range(2 if not what or what == "no griddepcontrol.wait" else 1):
        for output in outputs:
            output[:] = 0xFFFF
        ended = kernel.run(dependent) == 0
        right = right and ended and kernel.is_right()
    return Result(kernel.verdict, set(kernel.kinds), None if what else right)


def cases(run: Callable[[str, str], Result], names: list[str], modes: tuple[str, ...] = MODES) -> list[Case]:
    """The kernel as it is, and each mutant."""
    return [Case(name, partial(run, name), modes) for name in ("", *names)]


def geforce_cases(problem: ModuleType, name: str) -> Iterator[Case]:
    text = problem.entries()[name]
    yield Case("", partial(geforce, problem, name, "", text), EVERY_MODE)
    for what, mutant, verdict, kinds in geforce_dual.mutants(text):
        run = partial(geforce, problem, name, what, mutant)
        yield Case(what, run, ("eager", "late", "random:1"), verdict, frozenset(kinds))


def suites(folder: Path) -> Iterator[Suite]:
    """All kernels with mutants."""
    for name in ("one", "pair", "hopper"):
        (folder / name).mkdir()
    yield Suite("TMA pipeline (sm_90a)", "", cases(pipeline, list(tma_pipeline.MUTANTS)))
    yield Suite("warps that wait for one mbarrier (sm_90a)", "", cases(phases, list(mbarrier_phases.UNSAFE)))
    yield Suite("tensor maps that a kernel changes (sm_90a)", "", cases(maps, list(changed_maps.MUTANTS)))
    for title, place, width, pair, names in (
        ("block-scaled GEMM, one CTA (sm_100a)", "one", 128, False, gemm_problem.MUTANTS),
        ("block-scaled GEMM, CTA pair (sm_100a)", "pair", 64, True, gemm_problem.PAIR_MUTANTS),
    ):
        problem = gemm_problem.Problem(folder / place, width, pair=pair)
        text = gemm_ptx.kernel(width, gemm_problem.CHUNKS, pair=pair)
        yield Suite(title, "", cases(partial(gemm, problem, text), list(names)))
    yield Suite("launches that overlap (sm_90a)", "", cases(launches, list(overlapping_launches.CASES)))
    yield Suite("faults that people met in 2026", "", cases(faults, list(real_faults.FAULTS), MODES[:4]))
    backend = cases(partial(hopper, folder / "hopper"), list(hopper_mutants.MUTANTS), MODES[:3])
    yield Suite("the Hopper backend", "", backend)
    for name in blackwell_dual.PLACES:
        mutants = blackwell_dual.mutants(name, blackwell_dual.entries()[name])
        found = [Case(what, partial(blackwell, name, what, text), MODES[:2]) for what, text, _, _ in mutants]
        yield Suite("the Blackwell backend", name, found)
    for title, problem in (("dual", geforce_dual), ("grouped", geforce_grouped)):
        for name in problem.CONFIGS:
            yield Suite("the GeForce backend", f"{title} {name}", list(geforce_cases(problem, name)))


def measure(suite: Suite) -> list[dict]:
    """The suite's rows: one for each mutant, whatever the number of its places."""
    places: dict[str, list[tuple[Case, list[Result]]]] = defaultdict(list)
    for case in track(suite.cases, description=f"{suite.name} {suite.kernel}"):
        places[case.mutant].append((case, [case.run(mode) for mode in case.modes]))
    rows = []
    for mutant, ran in places.items():
        modes = ran[0][0].modes
        every = [result for _, results in ran for result in results]
        wrong = [mode for i, mode in enumerate(modes) if any(results[i].right is False for _, results in ran)]
        if mutant:
            count, found = len(ran), sum(all(map(case.is_found, results)) for case, results in ran)
        else:
            count, found = len(every), sum(r.verdict != "clean" or r.right is False for r in every)
        verdicts = {max((r.verdict for r in results), key=ORDER.index) for _, results in ran}
        rows.append(
            {
                "suite": suite.name, "kernel": suite.kernel, "mutant": mutant, "places": count, "found": found,
                "modes": modes, "verdicts": sorted(verdicts), "kinds": sorted(set().union(*(r.kinds for r in every))),
                "wrong_in": NOT_COMPARED if every[0].right is None else wrong,
            }
        )  # fmt: skip
    return rows


def main(arguments: list[str]) -> int:
    """Writes the rows and the page; 1 if a mutant was missed or a correct kernel reported."""
    parser = argparse.ArgumentParser(
        prog="./nvfp4 validate mutants.mutant_table", description=(__doc__ or "").split("\n", 1)[0]
    )
    parser.add_argument("--only", default="", metavar="SUITE", help="suites whose names have this text")
    options = parser.parse_args(arguments)
    old, rows = datasets.read("mutants"), []
    with tempfile.TemporaryDirectory() as folder:
        for suite in suites(Path(folder)):
            key = (suite.name, suite.kernel)
            if options.only in suite.name:
                rows += measure(suite)
            else:
                rows += [row for row in old if (row["suite"], row["kernel"]) == key]
    datasets.write("mutants", rows)
    (datasets.RESULTS / "MUTANTS.md").write_text(summary(datasets.read("mutants")))
    return int(any(row["found"] != (row["places"] if row["mutant"] else 0) for row in rows))


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
