"""What a run found, as tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from scripts.mutate.driver import COUNTED, AreaRun, Result

OUTCOMES = ("caught", "survived", "equivalent", "judged", "unbuildable")


def score(results: Sequence[Result]) -> float | None:
    """The share of faults caught, of those that change what runs; None without any."""
    counted = [result for result in results if result.outcome in COUNTED]
    return sum(result.outcome == "caught" for result in counted) / len(counted) if counted else None


def score_table(runs: Sequence[AreaRun]) -> Table:
    """A row an area, and their sum."""
    table = Table(title="faults planted")
    table.add_column("area")
    for name in ("planted", *OUTCOMES, "score"):
        table.add_column(name, justify="right", no_wrap=True)
    for run in runs:
        if run.problem and not run.results:
            table.add_row(run.name, *[""] * len(OUTCOMES), "", run.problem.splitlines()[0])
        else:
            table.add_row(run.name, *_cells(run.results))
    table.add_section()
    table.add_row("all", *_cells([result for run in runs for result in run.results]))
    return table


def _cells(results: Sequence[Result]) -> list[str]:
    counts = Counter(result.outcome for result in results)
    share = score(results)
    return [str(len(results)), *(str(counts[name]) for name in OUTCOMES), "" if share is None else f"{share:.0%}"]


def survivor_text(result: Result) -> Text:
    """A survivor as file:line, and the line before and after."""
    text = Text()
    text.append(f"{result.file}:{result.line}", style="bold")
    text.append(f"  [{result.area}, {result.operator}]\n")
    text.append(f"  - {result.before}\n", style="red")
    text.append(f"  + {result.after}", style="green")
    return text


def print_report(console: Console, runs: Sequence[AreaRun]) -> None:
    """The survivors, the score an area, and what could not be run."""
    survivors = [result for run in runs for result in run.results if result.outcome == "survived"]
    for result in sorted(survivors, key=lambda r: (r.file, r.line)):
        console.print(survivor_text(result), soft_wrap=True)
    console.print(score_table(runs))
    for run in runs:
        if run.problem:
            console.print(f"{run.name}: {run.problem}", markup=False, highlight=False, soft_wrap=True)
