"""The rounds whose sign the clock has wrong, one by one: what changed, and what of it the clock does not see."""

from __future__ import annotations

from collections.abc import Iterable

from scripts.common.markdown import table
from scripts.evidence.clock.measured.ratios import FLAGS, Ratio

UNSEEN = {
    15: (
        "registers left for the next call's first kernel",
        "registers are counted: A's kernel has a place sooner here, which the card does not show",
    ),
    22: ("idle SMs take the ends of other tiles' K and leave sums and flags in global memory", FLAGS),
}


def text(found: Iterable[Ratio]) -> str:
    """Markdown: a line a round, in their order."""
    rows = [
        [
            ratio.round,
            f"{ratio.measured:.3f}",
            f"{ratio.predicted:.3f}",
            *UNSEEN.get(int(ratio.round), ("", "not known")),
        ]
        for ratio in found
    ]
    return table(["round", "measured", "simulated", "what changed", "what the clock does not see"], rows)
