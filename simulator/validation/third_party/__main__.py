"""Kernels of others on the simulator: builds them from fetched sources, runs them in every mode, checks values.

    nice ./nvfp4 validate third_party                      # all that can be fetched here; hours, cached
    ./nvfp4 validate third_party --project triton          # one project; --only TEXT: kernels whose name has it
    ./nvfp4 validate third_party --checkout NVIDIA/cutlass=FOLDER    # a checkout at hand in the place of a fetch
    ./nvfp4 validate third_party --cases FILE  # kernels of a Python file with a function cases(), too
    ./nvfp4 validate third_party --check       # holds the recorded rows to their rules, and stops

What is fetched and compiled stays in --cache (default: third_party/ in the build folder).  Rows go to
simulator/results/data/third_party_*.csv, and a page with judgements to THIRD_PARTY.md.
"""

from __future__ import annotations

import argparse
import fcntl
import json
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

from simulator.python.toolchain import BUILD, ROOT, NoCompiler, built
from simulator.validation.datasets import DATA, RESULTS
from simulator.validation.third_party import ptx_corpus
from simulator.validation.third_party.cuda import cutlass, deepgemm, flashinfer, libraries, microbench, thunderkittens
from simulator.validation.third_party.cute import cute_cases as cute
from simulator.validation.third_party.nvcc_objects import NotBuilt
from simulator.validation.third_party.outcome import Case, cases_of
from simulator.validation.third_party.third_party_page import faults, in_order, summary
from simulator.validation.third_party.third_party_rows import key, load, save
from simulator.validation.third_party.third_party_sources import COMMITS, SOURCE_WHEELS, WHEELS, Sources, Unavailable
from simulator.validation.third_party.triton import triton_cases as triton

CORPUS = DATA / "third_party_corpus.json"
PRODUCERS = (
    triton.cases,
    cutlass.cases,
    cute.cases,
    deepgemm.cases,
    libraries.cases,
    thunderkittens.cases,
    flashinfer.cases,
    microbench.cases,
)


def all_cases() -> Iterator[Case]:
    for producer in PRODUCERS:
        yield from producer()


def version(project: str, sources: Sources) -> str:
    """The commit, or the wheel's version, of a project."""
    wheels = WHEELS | SOURCE_WHEELS
    return wheels[project] if project in wheels else sources.commit(project)


def simulator() -> str:
    """The last commit that changed the simulator's code, and whether the working tree differs from it."""
    git = ["git", "-C", str(ROOT)]
    commit, changed = (
        subprocess.run(
            [*git, *command, "--", ":(glob)simulator/**/*.[ch]"], capture_output=True, text=True, check=False
        )
        for command in (["log", "-1", "--format=%h"], ["status", "--short"])
    )
    return (commit.stdout.strip() or "unknown") + (" with changes" if changed.stdout.strip() else "")


def measure(case: Case, sources: Sources) -> dict:
    """A case's row: a run in each mode, and each finding once, with its modes."""
    row = {"project": case.project, "name": case.name, "arch": case.arch, "size": case.size, "shows": case.shows}
    row |= {"simulator": simulator(), "runs": [], "findings": []} | ({"outside": True} if case.outside else {})
    try:
        row["version"] = version(case.project, sources)
        run = case.prepare(sources)
    except (Unavailable, NotBuilt) as reason:
        return row | {"not_built": str(reason)}
    found: dict[tuple[str, str, str], dict] = {}
    for mode in case.modes:
        result = run(mode)
        for each in result.pop("findings", []):
            one = found.setdefault((each["verdict"], each["kind"], each["source"]), {**each, "modes": []})
            one["modes"].append(mode)
            one["times"] = max(one["times"], each["times"])
        row["runs"].append({"mode": mode, **result})
    return row | {"findings": [found[key] for key in sorted(found)]}


def read_corpus() -> dict:
    return json.loads(CORPUS.read_text())


def write(rows: list[dict]) -> None:
    """The rows in the order of the cases, and the page."""
    save(in_order(rows, [(case.project, case.name, case.arch) for case in all_cases()]))
    (RESULTS / "THIRD_PARTY.md").write_text(summary(load(), read_corpus()))


def measure_corpus(sources: Sources) -> None:
    """Measures the corpus of PTX texts, where it can be fetched."""
    try:
        found = ptx_corpus.measure(sources)
    except (Unavailable, NoCompiler) as reason:
        print(ptx_corpus.REPOSITORY, reason, flush=True)
        return
    CORPUS.write_text(json.dumps(found, indent=1) + "\n")
    print(ptx_corpus.REPOSITORY, found["read"], "of", found["assembled"], "read", flush=True)


def store(row: dict, cache: Path) -> None:
    """Puts a row among the others, where another run of this program may be writing too."""
    with (cache / "lock").open("w") as lock:
        fcntl.flock(lock, fcntl.LOCK_EX)
        rows = load()
        same = [each for each in rows if key(each) == key(row)]
        if "not_built" in row and any(each["runs"] for each in same):
            return  # a row that was measured once stays where its source cannot be had today
        write([each for each in rows if each not in same] + [{"outside": False} | row])


def main() -> None:
    parser = argparse.ArgumentParser(prog="./nvfp4 validate third_party", description=(__doc__ or "").splitlines()[0])
    parser.add_argument("--cache", type=Path, default=BUILD / "third_party", help="default: %(default)s")
    parser.add_argument("--url", default=Sources.url, help="of a repository, with {repository} or {name} in it")
    parser.add_argument("--checkout", action="append", default=[], help="OWNER/NAME=FOLDER, of " + ", ".join(COMMITS))
    parser.add_argument("--project", default="", help="only projects whose name has this")
    parser.add_argument("--only", default="", help="only kernels whose name and chip have this")
    parser.add_argument("--missing", action="store_true", help="only kernels without a recorded run")
    parser.add_argument("--cases", action="append", default=[], type=Path, help="a Python file with cases() of its own")
    parser.add_argument("--check", action="store_true", help="hold the recorded rows to their rules, and stop")
    options = parser.parse_args()
    if options.check:
        sys.exit("\n".join(faults(load(), read_corpus())) or 0)
    built("libcudart_sim.a"), built("libptxsim.so")
    given = {name: Path(path).resolve() for name, path in (item.split("=", 1) for item in options.checkout)}
    sources = Sources(options.cache.resolve(), options.url, given)
    if options.project in ptx_corpus.REPOSITORY and not options.only:
        measure_corpus(sources)
    rows = load()
    for case in (*all_cases(), *(case for path in options.cases for case in cases_of(path))):
        if options.project not in case.project or options.only not in f"{case.name} sm_{case.arch}":
            continue
        old = [row for row in rows if key(row) == (case.project, case.name, case.arch)]
        if options.missing and any(row["runs"] for row in old):
            continue
        row = measure(case, sources)
        shown = [r.get("failed") or f"{r.get('wrong')} {r.get('verdict')}" for r in row["runs"]]
        print(case.project, case.name, case.arch, row.get("not_built") or shown, flush=True)
        store(row, sources.cache)
    write(load())


if __name__ == "__main__":
    main()
