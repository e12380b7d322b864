"""The rounds whose sign the clock has wrong, one by one: what changed, and what of it the clock does not see."""

from __future__ import annotations

from collections.abc import Iterable

from scripts.common.markdown import table
from scripts.evidence.clock.measured.ratios import Ratio

FLAGS = (
    "words that one CTA leaves in global memory for others: a release beside copies takes 3,900 to 5,700 cycles on "
    "an H100, 1,850 here (stores_and_word_cycles)"
)
SHORT = "both sides are 15 to 26 % short: loops of MMAs of 64 columns (64 rows, above)"
UNSEEN = {
    10: (
        "A's kernel: a CTA takes a row, and divisions by sizes go away",
        "no row shows it: divisions are counted as ptxas has them, and both sides are within 6 %",
    ),
    11: (
        "weights of the next stage read ahead into registers",
        "no row shows it: the moves that ptxas pays for the second set of registers with are counted",
    ),
    15: (
        "registers left for the next call's first kernel",
        "no row shows it: both sides are 11 and 14 % short",
    ),
    16: (
        "A's kernel writes whole sectors",
        "sectors half written by stores 64 bytes apart: 2.6 times whole ones, 2.0 here (scattered_store_cycles)",
    ),
    22: ("idle SMs take the ends of other tiles' K and leave sums and flags in global memory", FLAGS),
    29: (
        "no warp specialisation: a consumer's thread asks for the copies",
        "that thread has to see all warps leave a stage, which no row measures apart",
    ),
    31: (
        "idle SMs dequantize A for others, stage by stage, by flags in global memory",
        f"{FLAGS}; and instruction fetch, tried: 37 to 54 KB of code, of which an SM keeps 32, move it by 1 of 9 %",
    ),
    58: (
        "two pairs of warpgroups take the stages in turn",
        f"{SHORT}; not MMAs of four warpgroups that end late, which is refuted (above)",
    ),
    59: (
        "four warpgroups of one block in place of two of two",
        "its base is met within 4 %: not the instructions, and not four warpgroups' MMAs (above)",
    ),
    61: (
        "a stage's descriptors by addition",
        SHORT,
    ),
    67: (
        "first bytes asked of L2 while the call before ends, and stages filled as soon as they are read",
        "supposed: it fills stages by cp.async sooner after they are read, and that is too fast here, as in 78 and 79",
    ),
    79: (
        "sixteen rows by wgmma in place of mma.sync",
        "the loop of that kernel, 1.8 us short at 32 rows by stamps",
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
