"""The configuration tables of submission/*/config.h, by the names of their columns."""

from __future__ import annotations

import re
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]


def config_table(backend: str, root: Path = ROOT) -> dict[str, dict[str, int]]:
    """Name of each configuration -> its figures, named as the members of `struct BACKEND_config`.

    Both are in the header's order: `const char *name`, then the int members.  ValueError where they do not match.
    """
    text = (root / "submission" / backend / "config.h").read_text()
    struct = re.search(rf"struct {backend}_config {{(.*?)}};", text, re.S)
    if struct is None:
        raise ValueError(f"submission/{backend}/config.h: no struct {backend}_config")
    columns = [name.strip() for line in re.findall(r"\bint ([^;]+);", struct[1]) for name in line.split(",")]
    found = {}
    for name, row in re.findall(r"^ +X\((\w+), ([\d, ]+)\)", text, re.M):
        figures = [int(figure) for figure in row.split(",")]
        if len(figures) != len(columns):
            raise ValueError(f"submission/{backend}/config.h: {name} has {len(figures)} figures for {columns}")
        found[name] = dict(zip(columns, figures, strict=True))
    return found
