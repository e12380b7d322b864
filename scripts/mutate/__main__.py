"""Plants faults and reports which survive; usage: python -m scripts.mutate [--area NAME]... [--count N] ...

Each area's files and tests stand in areas.py and simulator_areas.py.  A fault is planted in a copy of the checkout
under build/mutate/ (uncommitted changes included), what the tests need is built again, and the tests run up to the
first failure: the area's own, then, for what survives them, wider ones (`--wider suite`: the whole suite but its slow
files, which takes minutes a survivor).  The score says which tests it counts, and how much of it the area's own tests
reach.
`--survivors FILE` plants only what survived in an earlier run's --json, to see what a new test catches.
"""

from __future__ import annotations

import argparse
import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

from rich.console import Console
from rich.progress import BarColumn, MofNCompleteColumn, Progress, TextColumn, TimeElapsedColumn

from scripts.mutate.area import Area, matching
from scripts.mutate.areas import AREAS
from scripts.mutate.driver import (
    COUNTED,
    AreaRun,
    Driver,
    Result,
    changed_lines,
    read_results,
    sample,
    write_results,
)
from scripts.mutate.operators import Fault
from scripts.mutate.order import described
from scripts.mutate.report import print_report, survivor_text
from scripts.mutate.workspace import Workspace

ROOT = Path(__file__).resolve().parents[2]
FAULTS_AN_AREA = 20
REPORT_WIDTH = 120  # where no terminal says how wide it is


def arguments(argv: list[str] | None) -> argparse.Namespace:
    """The command line."""
    parser = argparse.ArgumentParser(prog="python -m scripts.mutate", description=__doc__.splitlines()[0])
    parser.add_argument("--area", action="append", choices=AREAS, help="only this area (may be given again)")
    parser.add_argument("--files", nargs="+", help="only faults in these files")
    parser.add_argument("--tests", nargs="+", help="these test files instead of the area's")
    parser.add_argument(
        "--wider",
        choices=("none", "around", "suite"),
        default="around",
        help="tests that what survives an area's own meets next: of the layers around it, or the suite but its slow"
        " files (%(default)s)",
    )
    parser.add_argument("--count", type=int, default=FAULTS_AN_AREA, help="faults that count, an area (%(default)s)")
    parser.add_argument("--minutes", type=float, default=120.0, help="time limit, shared out (%(default)s)")
    parser.add_argument("--jobs", type=int, default=2, help="copies to work in at a time (%(default)s)")
    parser.add_argument("--seed", type=int, default=1, help="which sample (%(default)s)")
    parser.add_argument("--json", type=Path, metavar="FILE", help="write every result there, as it comes")
    parser.add_argument("--resume", action="store_true", help="keep the results that --json FILE holds already")
    parser.add_argument("--survivors", type=Path, metavar="FILE", help="only what survived in FILE")
    parser.add_argument("--list", action="store_true", help="print the sample, plant nothing")
    return parser.parse_args(argv)


def chosen_faults(options: argparse.Namespace, name: str, area: Area) -> list[Fault]:
    """An area's faults in the order to plant them in."""
    files = matching(ROOT, area.files)
    if options.files:
        files = [file for file in files if file in options.files]
    drawn = sample(ROOT, name, files, options.seed)
    if options.survivors:
        wanted = {
            (r.file, r.operator, r.before, r.after)
            for r in read_results(options.survivors).values()
            if r.outcome == "survived" and r.area == name
        }
        sources = {file: (ROOT / file).read_bytes() for file in files}
        drawn = [f for f in drawn if (f.path, f.operator, *changed_lines(sources[f.path], f)) in wanted]
    return drawn


def main(argv: list[str] | None = None) -> int:
    """Runs the areas asked for; 0 if every one of them could be run."""
    options = arguments(argv)
    console = Console(width=None if sys.stdout.isatty() else REPORT_WIDTH)
    work = {}
    for name in options.area or AREAS:
        area = AREAS[name]
        if options.tests:
            area = Area(area.files, tuple(options.tests), area.targets, area.environment)
        if drawn := chosen_faults(options, name, area):
            work[name] = (area, drawn)
    if options.list:
        for name, (_, drawn) in work.items():
            console.print(f"{name}: {len(drawn)} faults can be planted", style="bold")
            for fault in drawn[: options.count]:
                before, after = changed_lines((ROOT / fault.path).read_bytes(), fault)
                result = Result(name, fault.path, fault.line, fault.operator, before, after, "")
                console.print(survivor_text(result), soft_wrap=True)
        return 0
    if not work:
        console.print("no fault to plant: no area has these files")
        return 2
    known = read_results(options.json) if options.json and options.resume else {}
    place = ROOT / "build" / "mutate"
    place.mkdir(parents=True, exist_ok=True)
    folder = Path(tempfile.mkdtemp(dir=place))  # of this run's own: several may run at a time
    workspaces = [Workspace(ROOT, folder / f"copy-{number}") for number in range(options.jobs)]
    runs: dict[str, AreaRun] = {}
    for name in (signal.SIGINT, signal.SIGTERM):  # also where a shell started this in the background
        signal.signal(name, signal.default_int_handler)
    columns = (TextColumn("{task.description}"), BarColumn(), MofNCompleteColumn(), TimeElapsedColumn())
    try:
        with Progress(*columns, console=console) as progress:
            for workspace in workspaces:
                workspace.create()
            end = time.monotonic() + options.minutes * 60
            for number, (name, (area, drawn)) in enumerate(work.items()):
                task = progress.add_task(name, total=min(options.count, len(drawn)))

                def report(run: AreaRun, result: Result | None, task: int = task) -> None:
                    if result is not None and result.outcome == "survived":
                        progress.console.print(survivor_text(result), soft_wrap=True)
                    counted = sum(r.outcome in COUNTED for r in run.results)
                    progress.update(task, completed=counted)  # type: ignore[arg-type]
                    runs[run.name] = run
                    if options.json:
                        write_results(options.json, options.seed, runs.values())

                now = time.monotonic()
                deadline = now + (end - now) / (len(work) - number)
                run = Driver(ROOT, workspaces, report, known, options.wider).run_area(
                    name, area, drawn, options.count, deadline
                )
                runs[name] = run
                if options.json:
                    write_results(options.json, options.seed, runs.values())
    except KeyboardInterrupt:
        console.print("stopped; what was found so far:")
    finally:
        for name in (signal.SIGINT, signal.SIGTERM):  # one is enough: the copies are to go
            signal.signal(name, signal.SIG_IGN)
        shutil.rmtree(folder, ignore_errors=True)
    print_report(console, list(runs.values()), described(options.wider, options.tests or ()))
    return 1 if any(run.problem for run in runs.values()) else 0


if __name__ == "__main__":
    sys.exit(main())
