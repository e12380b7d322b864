"""The files of simulator/tests/package/h200 that hold what a card gave: digests and arrays, packed with xz."""

from __future__ import annotations

import csv
import io
import lzma
from pathlib import Path
from typing import Any

import numpy as np

COLUMNS = ("what", "name", "value", "more")
VERSION = "version of "


def load_arrays(path: Path) -> dict[str, np.ndarray]:
    """The arrays of a .npz.xz file by name."""
    with lzma.open(path) as packed:
        return dict(np.load(io.BytesIO(packed.read())))


def save_arrays(path: Path, arrays: dict[str, np.ndarray]) -> None:
    """Writes a .npz.xz file: xz finds more in the whole than .npz's own compression in each array."""
    plain = io.BytesIO()
    np.savez(plain, **arrays)
    path.write_bytes(lzma.compress(plain.getvalue(), preset=9 | lzma.PRESET_EXTREME))


def load_record(path: Path) -> dict[str, Any]:
    """Reads a card's record: `features` by name with digest and count of words, `hopper` with the digests of each
    call's inputs and output, `refused` with the card's message; the rest says when and with which versions."""
    record: dict[str, Any] = {"versions": {}, "features": {}, "hopper": {}, "refused": {}}
    with lzma.open(path, "rt", newline="") as file:
        for row in csv.DictReader(file):
            what, name, value, more = (row[column] for column in COLUMNS)
            if what == "feature":
                record["features"][name] = [value, int(more)]
            elif what == "call":
                record["hopper"][name] = {"inputs": more, "output": value}
            elif what == "refused":
                record["refused"][name] = value
            elif name.startswith(VERSION):
                record["versions"][name.removeprefix(VERSION)] = value
            else:
                record[name] = value
    return record


def save_record(path: Path, record: dict[str, Any]) -> None:
    """A row for each fact, feature, call and refusal."""
    named = ("versions", "features", "hopper", "refused")
    rows = [("about", name, value, "") for name, value in record.items() if name not in named]
    rows += [("about", VERSION + name, value, "") for name, value in record["versions"].items()]
    rows += [("call", name, each["output"], each["inputs"]) for name, each in record["hopper"].items()]
    rows += [("refused", name, said, "") for name, said in record["refused"].items()]
    rows += [("feature", name, *each) for name, each in record["features"].items()]
    with lzma.open(path, "wt", newline="") as file:
        csv.writer(file, lineterminator="\n").writerows([COLUMNS, *rows])
