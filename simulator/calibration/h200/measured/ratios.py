"""The clock's predictions of measured rounds: each round's ratio and sign, and the errors' rms."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import geometric_mean, mean

from simulator.calibration.rows import Row

MOVED = 2.0  # percent: the sign of a smaller measured change does not count


@dataclass(frozen=True)
class Ratio:
    """A round's ratio, candidate over base: the geometric mean over its simulated shapes."""

    round: str
    shapes: tuple[str, ...]
    predicted: float
    measured: float

    @property
    def error(self) -> float:
        """Percent."""
        return (self.predicted / self.measured - 1) * 100

    @property
    def moved(self) -> bool:
        return abs(self.measured - 1) * 100 > MOVED

    @property
    def right(self) -> bool:
        """True if the predicted sign is the measured one."""
        return (self.predicted < 1) == (self.measured < 1)


def ratios(rows: Iterable[Row]) -> list[Ratio]:
    """The rounds' ratios in order of their numbers."""
    found: dict[int, list[Row]] = {}
    for row in rows:
        found.setdefault(int(row.name.split()[1]), []).append(row)
    return [
        Ratio(
            f"{number:04d}",
            tuple(row.parameters for row in of),
            geometric_mean(row.predicted for row in of),
            geometric_mean(row.measured for row in of),
        )
        for number, of in sorted(found.items())
    ]


def rms(found: Iterable[Ratio]) -> float:
    """The root mean square of the errors, percent."""
    return mean(ratio.error**2 for ratio in found) ** 0.5
