"""Measured data sets, shark_tank/data/NAME.json or NAME.json.gz: written dense, read back as they were measured.

    python -m scripts.common.measured pack FILE.json NAME   # keeps what a bench wrote
    python -m scripts.common.measured show NAME             # prints it, an item a line

A table on disk names its columns once:

    {"columns": ["variant", "us"], "rows": [["auto", 41.2], ...]}             a list of objects
    {"columns": ["auto", "cublas"], "rows": {"64x4096x7168": [41.2, 44.0]}}   objects by row, then by column
    {"by_column": true, "columns": ..., "rows": ...}                          objects by column, then by row

A null in a row is a value that was not measured.
"""

from __future__ import annotations

import argparse
import gzip
import json
from pathlib import Path
from typing import Any

from scripts.common.dense_json import dumps

DATA = Path(__file__).resolve().parents[2] / "shark_tank" / "data"
DIGITS = 6  # significant digits of a time: more than any clock has
PACKED_FROM = 100_000  # bytes from which on a file is compressed
LEAST_CELLS = 8  # a smaller object is no table


def path_of(name: str, folder: Path = DATA) -> Path:
    """The file of a data set."""
    found = [path for path in (folder / f"{name}.json", folder / f"{name}.json.gz") if path.is_file()]
    if len(found) != 1:
        raise ValueError(f"{folder}: {len(found)} files of data set {name!r}, expected one")
    return found[0]


def load(name: str, folder: Path = DATA) -> dict[str, Any]:
    """A data set with its tables expanded; ValueError where a row has not a cell for each column."""
    return read(path_of(name, folder))


def read(path: Path) -> dict[str, Any]:
    """The measurements of a file, as load() returns them; other JSON is returned unchanged."""
    content = path.read_bytes()
    text = gzip.decompress(content) if path.suffix == ".gz" else content
    return _expanded(json.loads(text), path.name)


def _expanded(value: Any, where: str) -> Any:
    if isinstance(value, list):
        return [_expanded(item, where) for item in value]
    if not isinstance(value, dict):
        return value
    if not value.keys() >= {"columns", "rows"}:
        return {key: _expanded(item, f"{where}: {key}") for key, item in value.items()}
    columns, rows = value["columns"], value["rows"]
    named = rows.items() if isinstance(rows, dict) else enumerate(rows)
    cells = {}
    for row, values in named:
        if len(values) != len(columns):
            raise ValueError(f"{where}: row {row} has {len(values)} cells for {len(columns)} columns")
        cells[row] = {column: cell for column, cell in zip(columns, values, strict=True) if cell is not None}
    if isinstance(rows, list):
        return list(cells.values())
    if not value.get("by_column"):
        return cells
    return {column: {row: found[column] for row, found in cells.items() if column in found} for column in columns}


def save(data: dict[str, Any], name: str, folder: Path = DATA) -> Path:
    """Writes a data set, its tables dense; compressed where it is large."""
    folder.mkdir(parents=True, exist_ok=True)
    content = (dumps(_condensed(data)) + "\n").encode()
    large = len(content) > PACKED_FROM
    path, other = (folder / f"{name}.json{ending}" for ending in ((".gz", "") if large else ("", ".gz")))
    path.write_bytes(gzip.compress(content, mtime=0) if large else content)
    other.unlink(missing_ok=True)
    return path


def _condensed(value: Any) -> Any:
    if isinstance(value, float):
        return float(f"{value:.{DIGITS}g}")
    if isinstance(value, list):
        if len(value) > 1 and all(isinstance(item, dict) for item in value):
            columns = list(dict.fromkeys(key for item in value for key in item))
            return {"columns": columns, "rows": [[_condensed(item.get(key)) for key in columns] for item in value]}
        return [_condensed(item) for item in value]
    if not isinstance(value, dict):
        return value
    if _is_table(value):
        inner = list(dict.fromkeys(key for entry in value.values() for key in entry))
        by_column = len(inner) > len(value)  # the longer side makes the rows
        columns, keys = (list(value), inner) if by_column else (inner, list(value))
        cell = (
            (lambda row, column: value[column].get(row)) if by_column else (lambda row, column: value[row].get(column))
        )
        rows = {row: [_condensed(cell(row, column)) for column in columns] for row in keys}
        return ({"by_column": True} if by_column else {}) | {"columns": columns, "rows": rows}
    return {key: _condensed(item) for key, item in value.items()}


def _is_table(value: dict[str, Any]) -> bool:
    """True if all entries are objects of numbers that have some keys in common."""
    entries = list(value.values())
    if len(entries) < 2 or not all(isinstance(entry, dict) and entry for entry in entries):
        return False
    cells = [cell for entry in entries for cell in entry.values()]
    numbers = all(isinstance(cell, int | float) and not isinstance(cell, bool) for cell in cells)
    keys = {key for entry in entries for key in entry}
    return numbers and len(cells) >= LEAST_CELLS and 2 * len(cells) >= len(keys) * len(entries)


def main(arguments: list[str] | None = None) -> int:
    """Entry point; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="python -m scripts.common.measured",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    commands = parser.add_subparsers(dest="command", required=True)
    pack = commands.add_parser("pack", help="keep a JSON that a bench wrote")
    pack.add_argument("file", type=Path)
    pack.add_argument("name")
    commands.add_parser("show", help="print a data set").add_argument("name")
    args = parser.parse_args(arguments)
    if args.command == "pack":
        print(save(json.loads(args.file.read_text()), args.name))
    else:
        print(json.dumps(load(args.name), indent=1, ensure_ascii=False))
    return 0


if __name__ == "__main__":
    raise SystemExit(main())
