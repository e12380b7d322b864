"""The rounds whose sign the clock predicts wrongly: what changed, and which part of it the clock does not model."""

from __future__ import annotations

from collections.abc import Iterable

from scripts.common.markdown import table
from simulator.calibration.h200.measured.ratios import FLAGS, Ratio

UNSEEN = {
    15: (
        "registers left for the next call's first kernel",
        "the model starts A's kernel sooner because its registers fit; the card does not",
    ),
    22: ("idle SMs multiply the ends of other tiles' K and leave sums and flags in global memory", FLAGS),
}


def text(found: Iterable[Ratio]) -> str:
    """A table with a line for each round, in their order."""
    rows = [
        [
            ratio.round,
            f"{ratio.measured:.3f}",
            f"{ratio.predicted:.3f}",
            *UNSEEN.get(int(ratio.round), ("", "not known")),
        ]
        for ratio in found
    ]
    return table(["round", "measured", "simulated", "what changed", "what the clock does not model"], rows)
