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
    31: ("four idle SMs dequantize A and leave it and flags in global memory", FLAGS),
    77: (
        "each CTA asks L2 for A's lines before the wait, and rings of two stages have both on their way",
        "its base, which has one stage on its way, takes 8.1 us at 12 and 16 rows and 9.1 to 9.2 on the card; its "
        "candidate 8.5 to 8.6 of 8.4, since a load's own lines wait for HBM's queue twice (h200_common_loads)",
    ),
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
