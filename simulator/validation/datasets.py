"""The measured rows of simulator/results/data: a CSV file for each data set, read and written by its schema.

A file with .gz at the end of its name is compressed. A cell of several words has them with semicolons between; an empty
cell of a number is None.
"""

from __future__ import annotations

import csv
import gzip
import io
from collections.abc import Callable, Iterable
from pathlib import Path
from typing import Any, NamedTuple

RESULTS = Path(__file__).resolve().parents[1] / "results"  # pages
DATA = RESULTS / "data"
BETWEEN = ";"


class Column(NamedTuple):
    """How a cell becomes a value; and what it means, with its unit."""

    read: Callable[[str], Any]
    meaning: str


def text(meaning: str) -> Column:
    return Column(str, meaning)


def whole(meaning: str) -> Column:
    return Column(lambda cell: int(cell) if cell else None, meaning)


def number(meaning: str) -> Column:
    return Column(lambda cell: float(cell) if cell else None, meaning)


def words(meaning: str) -> Column:
    return Column(lambda cell: cell.split(BETWEEN) if cell else [], f"{meaning} (several)")


class DataSet(NamedTuple):
    """A file of simulator/results/data, what one row is, and its columns in their order."""

    file: str
    row: str
    columns: dict[str, Column]

    @property
    def path(self) -> Path:
        return DATA / self.file


MODES = "modes of the simulator"
SETS = {
    "backends": DataSet(
        "backends.csv",
        "a set of problems on one configuration of a backend, in the modes that gave the same",
        {
            "backend": text("Blackwell's or GeForce's"),
            "set": text("the problems (backend_table.py)"),
            "config": text("configuration, or `chosen`: the one that tile selection chooses"),
            "modes": words(MODES),
            "problems": whole("problems run"),
            "right": whole("outputs that agree with the float64 reference"),
            "verdict": text("the simulator's verdict on all of them"),
            "kinds": words("kinds of findings"),
            "seconds": number("seconds of the calls in the slowest of them, on a shared machine"),
            "wrong": words("what was wrong"),
        },
    ),
    "mutants": DataSet(
        "mutants.csv",
        "a kernel with one synchronisation removed or altered, at each place where it stands",
        {
            "suite": text("kernels that belong together"),
            "kernel": text("which of them, where there are several"),
            "mutant": text("what is done to the kernel; empty: nothing, and `found` counts false alarms"),
            "places": whole("places that were altered, one at a time; runs of the kernel as it is"),
            "found": whole("places whose fault every mode reports"),
            "modes": words(MODES),
            "verdicts": words("worst verdict of each place, without repetition"),
            "kinds": words("kinds of findings"),
            "wrong_in": words("modes with wrong values or without an end; `not compared`"),
        },
    ),
}


def decode(data_set: DataSet, content: str) -> list[dict[str, Any]]:
    """The rows of a CSV text. Raises ValueError where its columns are not the schema's."""
    reader = csv.DictReader(io.StringIO(content))
    if list(reader.fieldnames or ()) != list(data_set.columns):
        raise ValueError(f"{data_set.file} has columns {reader.fieldnames}; expected {list(data_set.columns)}")
    return [{name: column.read(row[name]) for name, column in data_set.columns.items()} for row in reader]


def encode(data_set: DataSet, rows: Iterable[dict[str, Any]]) -> str:
    """A CSV text of the rows; a key that the schema lacks is an error, one that the row lacks an empty cell."""
    out = io.StringIO()
    writer = csv.DictWriter(out, data_set.columns, restval="", lineterminator="\n")
    writer.writeheader()
    for row in rows:
        writer.writerow({name: BETWEEN.join(x) if isinstance(x, (list, tuple)) else x for name, x in row.items()})
    return out.getvalue()


def read(name: str) -> list[dict[str, Any]]:
    """All rows of a data set."""
    data_set = SETS[name]
    raw = data_set.path.read_bytes()
    return decode(data_set, (gzip.decompress(raw) if data_set.file.endswith(".gz") else raw).decode())


def write(name: str, rows: Iterable[dict[str, Any]]) -> None:
    """Replaces a data set; a reader finds the old file or the new one."""
    data_set = SETS[name]
    raw = encode(data_set, rows).encode()
    partial = data_set.path.with_name(f"{data_set.file}.part")
    partial.write_bytes(gzip.compress(raw, mtime=0) if data_set.file.endswith(".gz") else raw)
    partial.rename(data_set.path)


def each_mode(rows: Iterable[dict]) -> list[dict]:
    """A row with a "mode" for each of the "modes" of a row."""
    return [
        {"mode" if name == "modes" else name: mode if name == "modes" else value for name, value in row.items()}
        for row in rows
        for mode in row["modes"]
    ]


def modes_together(rows: Iterable[dict]) -> list[dict]:
    """The reverse: rows that differ in mode and seconds alone are one, with the most seconds."""
    found: dict[str, dict] = {}
    for row in rows:
        same = repr([(name, value) for name, value in row.items() if name not in ("mode", "seconds")])
        others = {name: value for name, value in row.items() if name != "mode"}
        one = found.setdefault(same, others | {"modes": []})
        one["modes"].append(row["mode"])
        one["seconds"] = max((each for each in (one["seconds"], row["seconds"]) if each is not None), default=None)
    return list(found.values())
