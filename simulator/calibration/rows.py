"""Times that the clock predicts beside those that a chip gave: one row each, how they are kept, and their errors."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Iterable
from dataclasses import asdict, dataclass
from pathlib import Path
from statistics import mean, median
from typing import Any

from simulator.calibration import packed

ROOT = Path(__file__).resolve().parents[2]
CHIPS = ROOT / "simulator" / "clock" / "chips"
RESULTS = ROOT / "simulator" / "results"
NEAR, FAR = 5, 12  # percent
COLUMNS = {
    "group": "the comparison",
    "name": "program or microbenchmark",
    "parameters": "which case of it",
    "unit": "of both values",
    "predicted": "by the clock",
    "measured": "by the chip",
    "use": "calibrated: parameters were fitted on it; validated: none was",
    "older": "1: predicted before the model's last change and not since",
}


@dataclass(frozen=True)
class Row:
    """One time: predicted by the clock and measured on a chip; COLUMNS says what the fields hold."""

    group: str
    name: str
    parameters: str
    unit: str
    predicted: float
    measured: float
    use: str
    older: bool = False

    @property
    def key(self) -> str:
        return f"{self.group} {self.name} {self.parameters}".strip()

    @property
    def error(self) -> float | None:
        """Percent of the measured time; None if that is 0."""
        return None if self.measured == 0 else (self.predicted / self.measured - 1) * 100


def parameters_of(chip: str) -> dict[str, dict[str, Any]]:
    """A chip file's parameters by name, each with value, unit and source."""
    return json.loads((CHIPS / f"{chip}.json").read_text())["parameters"]


def parameters_digest(chip: str) -> str:
    """SHA-256 of a chip's parameter values, without their units and sources: the values that a prediction used."""
    values = {name: entry["value"] for name, entry in parameters_of(chip).items()}
    return hashlib.sha256(json.dumps(values, sort_keys=True).encode()).hexdigest()


def load(chip: str) -> dict[str, Row]:
    """The committed rows of a chip, by key."""
    _, found = packed.read(f"{chip}_predicted")
    rows = (
        Row(
            **row
            | {
                "predicted": float(row["predicted"]),
                "measured": float(row["measured"]),
                "older": row["older"] == "1",
            }
        )
        for row in found
    )
    return {row.key: row for row in rows}


def save(chip: str, rows: dict[str, Row]) -> None:
    """Commits the rows with the digest of the parameters that predicted them."""
    head, _ = packed.read(f"{chip}_predicted")
    digits = [
        asdict(rows[key])
        | {
            "predicted": f"{rows[key].predicted:.7g}",
            "measured": f"{rows[key].measured:.7g}",
            "older": int(rows[key].older),
        }
        for key in sorted(rows)
    ]
    head |= {"parameters_sha256": parameters_digest(chip), "columns": COLUMNS}
    packed.write(f"{chip}_predicted", head, digits)


def errors(rows: Iterable[Row]) -> list[float]:
    """Percent, without signs."""
    return [abs(row.error) for row in rows if row.error is not None]


def summary(rows: Iterable[Row]) -> str:
    """Table cells: count, median, mean and largest error, rows within NEAR and FAR percent."""
    off = errors(rows)
    near, far = (sum(error <= limit for error in off) for limit in (NEAR, FAR))
    return (
        f"{len(off)} | {median(off):.1f} | {mean(off):.1f} | {max(off):.1f} | "
        f"{near} ({100 * near / len(off):.0f} %) | {far} ({100 * far / len(off):.0f} %)"
    )


def table(rows: Iterable[Row]) -> str:
    """A Markdown table with a line for each row."""
    lines = ["| what | | predicted | measured | error | |", "| --- | --- | ---: | ---: | ---: | --- |"]
    for row in rows:
        error = "" if row.error is None else f"{row.error:+.1f} %"
        values = f"{row.predicted:.4g} | {row.measured:.4g} {row.unit.split(' after')[0].split(' from')[0]}"
        use = f"{row.use}, older model" if row.older else row.use
        lines.append(f"| {row.name} | {row.parameters} | {values} | {error} | {use} |")
    return "\n".join(lines)
