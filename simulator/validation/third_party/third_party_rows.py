"""The rows of third-party kernels: each kernel with its runs and findings, kept in three data sets."""

from __future__ import annotations

from collections import defaultdict

from simulator.validation import datasets

KERNELS, RUNS, FINDINGS = "third_party_kernels", "third_party_runs", "third_party_findings"
KEY = ("project", "name", "arch")  # identifies a kernel


def key(row: dict) -> tuple[str, str, str]:
    """The columns that identify a row."""
    return row["project"], row["name"], row["arch"]


def load() -> list[dict]:
    """Every kernel, with lists of its runs and findings."""
    parts: dict[tuple, dict[str, list[dict]]] = defaultdict(lambda: {"runs": [], "findings": []})
    for name, data_set in (("runs", RUNS), ("findings", FINDINGS)):
        rows = datasets.read(data_set)
        for row in datasets.each_mode(rows) if data_set == RUNS else rows:
            parts[key(row)][name].append({column: cell for column, cell in row.items() if column not in KEY})
    return [row | {"outside": row["outside"] == "yes"} | parts[key(row)] for row in datasets.read(KERNELS)]


def save(rows: list[dict]) -> None:
    """Replaces the three files."""
    lists = ("runs", "findings")
    for data_set, name in ((RUNS, "runs"), (FINDINGS, "findings")):
        found = [dict(zip(KEY, key(row), strict=True)) | each for row in rows for each in row[name]]
        datasets.write(data_set, datasets.modes_together(found) if data_set == RUNS else found)
    kernels = ({column: cell for column, cell in row.items() if column not in lists} for row in rows)
    datasets.write(KERNELS, [row | {"outside": "yes" if row.get("outside") else ""} for row in kernels])
