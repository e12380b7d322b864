"""The rounds whose sign the clock has wrong, one by one: what changed, and what of it the clock does not see."""

from __future__ import annotations

from collections.abc import Iterable

from scripts.common.markdown import table
from scripts.evidence.clock.measured.ratios import Ratio

FLAGS = (
    "words that one CTA leaves in global memory for others: a release beside copies takes 3,450 cycles, 2,040 here "
    "(stores_and_word_cycles)"
)
SHORT = "both sides are 13 to 23 % short: loops of MMAs of 64 columns (64 rows, above)"
UNSEEN = {
    10: (
        "A's kernel: a CTA takes a row, and divisions by sizes go away",
        "no row shows it: divisions are counted as ptxas has them, and both sides are within 4 %",
    ),
    11: (
        "weights of the next stage read ahead into registers",
        "no row shows it: the moves that ptxas pays for the second set of registers with are counted",
    ),
    15: (
        "registers left for the next call's first kernel",
        "no row shows it: both sides are 11 and 15 % short",
    ),
    16: (
        "A's kernel writes whole sectors",
        "sectors half written by stores 64 bytes apart: 2.6 times whole ones, 2.0 here (scattered_store_cycles)",
    ),
    22: ("idle SMs take the ends of other tiles' K and leave sums and flags in global memory", FLAGS),
    58: (
        "two pairs of warpgroups take the stages in turn",
        f"{SHORT}; not MMAs of four warpgroups that end late, which is refuted (above)",
    ),
    59: (
        "four warpgroups of one block in place of two of two",
        "its base is met within 6 %: not the instructions, and not four warpgroups' MMAs (above)",
    ),
    61: (
        "a stage's descriptors by addition",
        SHORT,
    ),
    67: (
        "first bytes asked of L2 while the call before ends, and stages filled as soon as they are read",
        "supposed: it fills stages by cp.async sooner after they are read, and that is too fast here, as in 78 and 79",
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
