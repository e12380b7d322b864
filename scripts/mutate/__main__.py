"""Plants faults in the sources and lists those that no test notices: python -m scripts.mutate [--area NAME]...

An area (areas.py) names files and their tests. A fault is planted in a copy of the checkout below build/mutate/,
uncommitted changes included; the area is built, and its tests run up to the first failure, those nearest to the file
first. Survivors are printed as they are found, and a table of all outcomes at the end. Nothing is recorded.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from dataclasses import replace
from pathlib import Path

from scripts.common.markdown import table
from scripts.mutate.areas import AREAS
from scripts.mutate.driver import AreaRun, Result, changed_lines, faults_of, run_area
from scripts.mutate.workspace import Workspace

ROOT = Path(__file__).resolve().parents[2]
OUTCOMES = ("equivalent", "unbuildable", "caught", "survived")


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """The command line."""
    text = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="python -m scripts.mutate", description=__doc__, formatter_class=text)
    parser.add_argument("--area", action="append", choices=AREAS, help="only this area (may be repeated)")
    parser.add_argument("--files", nargs="+", help="only faults in these files")
    parser.add_argument("--tests", nargs="+", help="these test files instead of the area's")
    parser.add_argument("--count", type=int, default=20, help="faults to count per area (%(default)s)")
    parser.add_argument("--minutes", type=float, default=60.0, help="time limit, shared by the areas (%(default)s)")
    parser.add_argument("--jobs", type=int, default=2, help="copies to work in at a time (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="seed of the sample (%(default)s)")
    parser.add_argument("--list", action="store_true", help="print the sample, plant nothing")
    return parser.parse_args(argv)


def summary(runs: list[AreaRun]) -> str:
    """A row per area, and why an area could not be run."""
    rows = []
    for run in runs:
        counts, score = run.counts(), run.score()
        share = "" if score is None else f"{score:.0%}"
        rows.append([run.name, *(str(counts[name]) for name in OUTCOMES), share])
    problems = "".join(f"\n\n{run.name}: {run.problem}" for run in runs if run.problem)
    return table(["area", *OUTCOMES, "caught of those that count"], rows) + problems


def main(argv: list[str] | None = None) -> int:
    """Runs the areas asked for; returns 0 if each of them could be run."""
    options = arguments(argv)
    work = {}
    for name in options.area or AREAS:
        area = replace(AREAS[name], tests=tuple(options.tests)) if options.tests else AREAS[name]
        if drawn := faults_of(ROOT, name, area, options.files, options.seed):
            work[name] = (area, drawn)
    if options.list:
        for name, (_, drawn) in work.items():
            print(f"{name}: {len(drawn)} faults can be planted")
            for fault in drawn[: options.count]:
                print(Result(fault, *changed_lines((ROOT / fault.path).read_bytes(), fault), "").text())
        return 0
    if not work:
        print("no fault to plant: no area has these files", file=sys.stderr)
        return 2
    place = ROOT / "build" / "mutate"
    place.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=place))  # several runs at a time do not share it
    signal.signal(signal.SIGTERM, signal.default_int_handler)
    runs: list[AreaRun] = []

    def report(result: Result) -> None:
        if result.outcome == "survived":
            print(result.text(), flush=True)

    try:
        workspaces = [Workspace(ROOT, folder / f"copy-{number}") for number in range(options.jobs)]
        for workspace in workspaces:
            workspace.create()
        end = time.monotonic() + options.minutes * 60
        for number, (name, (area, drawn)) in enumerate(work.items()):
            now = time.monotonic()
            deadline = now + (end - now) / (len(work) - number)
            runs.append(run_area(name, area, drawn, workspaces, options.count, deadline, report))
    except KeyboardInterrupt:
        print("stopped; the finished areas:")
    finally:
        shutil.rmtree(folder, ignore_errors=True)
    print(summary(runs))
    return 1 if any(run.problem for run in runs) else 0


if __name__ == "__main__":
    sys.exit(main())
