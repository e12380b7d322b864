"""The rounds whose sign the clock has wrong, one by one: what changed, and what of it the clock does not see."""

from __future__ import annotations

from collections.abc import Iterable

from scripts.common.markdown import table
from scripts.evidence.clock.measured.ratios import Ratio

FLAGS = (
    "words that one CTA leaves in global memory for others that ask again and again: no row measures how long one "
    "takes beside copies; the loop's instructions are counted as ptxas has them"
)
UNSEEN = {
    10: (
        "A's kernel: a CTA takes a row, and divisions by sizes go away",
        "a division is one instruction in PTX and some twenty in machine code; here it takes what one does",
    ),
    11: (
        "weights of the next stage read ahead into registers",
        "ptxas pays for the second set of registers by moves: machine code grows by 8 %, PTX by 2 %",
    ),
    22: ("idle SMs take the ends of other tiles' K and leave sums and flags in global memory", FLAGS),
    31: (
        "idle SMs dequantize A for others, stage by stage, by flags in global memory",
        f"{FLAGS}; and instruction fetch, tried: 37 to 54 KB of code, of which an SM keeps 32, move it by 1 of 9 %",
    ),
    58: (
        "two pairs of warpgroups take the stages in turn",
        "machine code of a stage grows by 11 %, PTX by 5 %, which is half of the error; the other half: "
        "not MMAs of four warpgroups that end late, which is refuted (above)",
    ),
    59: (
        "four warpgroups of one block in place of two of two",
        "not the instructions, which grow by as much in PTX, and not four warpgroups' MMAs (above)",
    ),
    61: (
        "a stage's descriptors by addition",
        "28 of a stage's 63 uniform instructions go, 12 % of machine code; of PTX 4 %, which shows none as uniform",
    ),
    67: (
        "first bytes asked of L2 while the call before ends, and stages filled as soon as they are read",
        "supposed: it fills stages by cp.async sooner after they are read, and that is too fast here, as in 78 and 79",
    ),
    79: (
        "sixteen rows by wgmma in place of mma.sync",
        "the loop of that kernel, 1.8 us short at 32 rows by stamps: cp.async into stages that wgmma reads has no row",
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
