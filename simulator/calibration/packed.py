"""Reads and writes the data sets in data/.

A data set is one CSV file, `NAME.csv`, or `NAME.csv.gz` where the text is longer than 20 KB.  Its first line is "# "
and a JSON object: where the rows come from, and under "columns" what each column means.  The second line names the
columns.
"""

from __future__ import annotations

import csv
import gzip
import io
import json
import re
from collections.abc import Iterable, Mapping
from pathlib import Path
from typing import Any

DATA = Path(__file__).resolve().parent / "data"
MOST_PLAIN_BYTES = 20_000
LINE = 120  # characters of a line of JSON
INTEGER = re.compile(r"-?\d+")

Head = dict[str, Any]
Cells = dict[str, str]


def path_of(name: str, folder: Path = DATA) -> Path:
    """The file of a data set; FileNotFoundError if there is none."""
    for path in (folder / f"{name}.csv", folder / f"{name}.csv.gz"):
        if path.is_file():
            return path
    raise FileNotFoundError(f"no data set {name} in {folder}")


def read(name: str, folder: Path = DATA) -> tuple[Head, list[Cells]]:
    """The head and the rows of a data set, each row a dictionary of texts by column."""
    path = path_of(name, folder)
    raw = path.read_bytes()
    first, _, rest = (gzip.decompress(raw) if path.suffix == ".gz" else raw).decode().partition("\n")
    return json.loads(first.removeprefix("# ")), list(csv.DictReader(io.StringIO(rest)))


def dense(value: Any, indent: int = 0) -> str:
    """JSON in which a list or dictionary that fits a line stands on one."""
    line = json.dumps(value, ensure_ascii=False)
    if not isinstance(value, dict | list) or len(line) + indent <= LINE:
        return line
    if isinstance(value, dict):
        items = [f"{json.dumps(key, ensure_ascii=False)}: {dense(item, indent + 1)}" for key, item in value.items()]
    else:
        items = [dense(item, indent + 1) for item in value]
    begin, end = "{}" if isinstance(value, dict) else "[]"
    return begin + f",\n{' ' * (indent + 1)}".join(items) + end


def read_dense(path: Path) -> Any:
    """JSON whose tables {"columns", "rows"} become lists or dictionaries of objects; a null cell is left out."""
    return _expanded(json.loads(path.read_text()))


def _expanded(value: Any) -> Any:
    if isinstance(value, list):
        return [_expanded(item) for item in value]
    if not isinstance(value, dict):
        return value
    if not value.keys() >= {"columns", "rows"}:
        return {key: _expanded(item) for key, item in value.items()}
    columns, rows = value["columns"], value["rows"]
    if value.get("by_column"):
        columns, rows = list(rows), dict(zip(columns, zip(*rows.values(), strict=True), strict=True))
    keys = list(rows) if isinstance(rows, dict) else range(len(rows))
    cells = {k: {c: cell for c, cell in zip(columns, rows[k], strict=True) if cell is not None} for k in keys}
    return cells if isinstance(rows, dict) else list(cells.values())


def write(name: str, head: Head, rows: Iterable[Mapping[str, object]], folder: Path = DATA) -> Path:
    """Writes a data set in the order of head["columns"]; the same rows give the same bytes."""
    text = io.StringIO()
    text.write(f"# {json.dumps(head)}\n")
    writer = csv.DictWriter(text, list(head["columns"]), lineterminator="\n")
    writer.writeheader()
    writer.writerows(rows)
    content = text.getvalue().encode()
    packed = len(content) > MOST_PLAIN_BYTES
    path = folder / f"{name}.csv{'.gz' if packed else ''}"
    (folder / f"{name}.csv{'' if packed else '.gz'}").unlink(missing_ok=True)
    path.write_bytes(gzip.compress(content, mtime=0) if packed else content)
    return path


def value_of(text: str) -> bool | int | str:
    """A parameter's value from its text."""
    if text in ("true", "false"):
        return text == "true"
    return int(text) if INTEGER.fullmatch(text) else text


def parameters_of(text: str) -> dict[str, bool | int | str]:
    """A microbenchmark's parameters from "name=value;name=value"."""
    pairs = (part.partition("=") for part in text.split(";") if part)
    return {name: value_of(value) for name, _, value in pairs}


def parameters_text(parameters: Mapping[str, object]) -> str:
    """The reverse of parameters_of."""
    return ";".join(
        f"{name}={str(value).lower() if isinstance(value, bool) else value}" for name, value in parameters.items()
    )
