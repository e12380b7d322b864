"""Writes the pages of simulator/results anew from its data sets, and every row of them as tables.

usage: make validation-report, or ./nvfp4 validate report [FOLDER]
FOLDER (default: validation/ in the build folder) gets the full tables, simulator/results the pages.
"""

from __future__ import annotations

import argparse
from pathlib import Path

from simulator.python.markdown import table
from simulator.python.toolchain import BUILD
from simulator.validation import backend_table, datasets
from simulator.validation.mutants import mutant_page

INTRODUCTION = """BACKENDS and MUTANTS are written from the data sets below, which the programs
of `simulator/validation/` measured (`./nvfp4 validate PROGRAM`). `make validation-report` writes these pages anew, and
every row of the data sets as tables into `build/validation/`. The data sets lie in `data/`, which `datasets.py` reads
and writes; cells of several words have semicolons between them. The pages on the clock come from
`simulator/calibration/`; THIRD_PARTY and SENTRYWARD are kept by hand."""


def schema() -> str:
    """The page that explains the columns of every data set."""
    text = ["# Results of validating the simulator", "", INTRODUCTION]
    for data_set in datasets.SETS.values():
        columns = [[f"`{name}`", column.meaning] for name, column in data_set.columns.items()]
        text += ["", f"## {data_set.file}", "", f"A row: {data_set.row}.", "", table(["column", "meaning"], columns)]
    return "\n".join(text) + "\n"


def pages() -> dict[str, str]:
    """The pages of simulator/results by name."""
    return {
        "README.md": schema(),
        "BACKENDS.md": backend_table.summary(datasets.each_mode(datasets.read("backends"))),
        "MUTANTS.md": mutant_page.summary(datasets.read("mutants")),
    }


def full_tables() -> dict[str, str]:
    """Every row of the data sets, by the name of the page."""
    return {
        "backends.md": backend_table.page(datasets.each_mode(datasets.read("backends"))),
        "mutants.md": mutant_page.page(datasets.read("mutants")),
    }


def main() -> None:
    parser = argparse.ArgumentParser(prog="./nvfp4 validate report", description=(__doc__ or "").split("\n", 1)[0])
    parser.add_argument("folder", nargs="?", type=Path, default=BUILD / "validation", help="default: %(default)s")
    folder = parser.parse_args().folder
    folder.mkdir(parents=True, exist_ok=True)
    for place, texts in ((datasets.RESULTS, pages()), (folder, full_tables())):
        for name, text in texts.items():
            (place / name).write_text(text)
    print(f"every row: {folder}")


if __name__ == "__main__":
    main()
