"""What a run found, as tables."""

from __future__ import annotations

from collections import Counter
from collections.abc import Sequence

from rich.console import Console
from rich.table import Table
from rich.text import Text

from scripts.mutate.driver import COUNTED, AreaRun, Result

COLUMNS = ("planted", "equivalent", "judged", "unbuildable", "caught", "by wider", "survived", "own", "score")


def score(results: Sequence[Result], phase: str = "") -> float | None:
    """The share of faults caught (in one phase: by own or wider tests), of those that count; None without any."""
    counted = [result for result in results if result.outcome in COUNTED]
    caught = sum(result.outcome == "caught" and phase in ("", result.phase) for result in counted)
    return caught / len(counted) if counted else None


def score_table(runs: Sequence[AreaRun], counted: str) -> Table:
    """A row an area, and their sum; `caught` is by own tests, `own` the score that these alone would have."""
    table = Table(title=f"faults planted; caught {counted}")
    table.add_column("area")
    for name in COLUMNS:
        table.add_column(name, justify="right", no_wrap=True)
    for run in runs:
        if run.problem and not run.results:
            table.add_row(run.name, *[""] * (len(COLUMNS) - 1), run.problem.splitlines()[0])
        else:
            table.add_row(run.name, *cells(run.results))
    table.add_section()
    table.add_row("all", *cells([result for run in runs for result in run.results]))
    return table


def cells(results: Sequence[Result]) -> list[str]:
    """The columns of some results."""
    counts = Counter(result.outcome for result in results)
    wider = sum(result.outcome == "caught" and result.phase == "wider" for result in results)
    numbers = (
        len(results),
        *(counts[name] for name in ("equivalent", "judged", "unbuildable")),
        counts["caught"] - wider,
        wider,
        counts["survived"],
    )
    shares = (score(results, "own"), score(results))
    return [*map(str, numbers), *("" if share is None else f"{share:.1%}" for share in shares)]


def survivor_text(result: Result) -> Text:
    """A survivor as file:line, and the line before and after."""
    text = Text()
    text.append(f"{result.file}:{result.line}", style="bold")
    text.append(f"  [{result.area}, {result.operator}]\n")
    text.append(f"  - {result.before}\n", style="red")
    text.append(f"  + {result.after}", style="green")
    return text


def print_report(console: Console, runs: Sequence[AreaRun], counted: str) -> None:
    """The survivors, the score an area, and what could not be run."""
    survivors = [result for run in runs for result in run.results if result.outcome == "survived"]
    for result in sorted(survivors, key=lambda r: (r.file, r.line)):
        console.print(survivor_text(result), soft_wrap=True)
    console.print(score_table(runs, counted))
    for run in runs:
        if run.problem:
            console.print(f"{run.name}: {run.problem}", markup=False, highlight=False, soft_wrap=True)
