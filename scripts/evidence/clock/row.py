"""One time that was predicted, beside the measured one."""

from __future__ import annotations

from dataclasses import dataclass
from pathlib import Path

ROOT = Path(__file__).resolve().parents[3]


@dataclass(frozen=True)
class Row:
    """One time: `group` is a key of TITLES, `use` calibrated or validated; `older`: predicted before the model's last
    change, and not run again since.
    """

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
        """Percent; None where the card gave nothing to divide by."""
        return None if self.measured == 0 else (self.predicted / self.measured - 1) * 100
