"""Where a call's time goes: stamps in the kernels, on the card and on the clock at the commit that was stamped."""

from __future__ import annotations

from itertools import pairwise
from typing import Any

from scripts.common.markdown import table
from simulator.calibration import packed

# Stamps in their order, and the name of the part that ends with each.
TILES = {
    "A end": "A dequantized",
    "GEMM start": "GEMM's CTA starts",
    "A asked for": "first copies asked for",
    "w1 stage 0 full": "first stage full",
    "w1 products done": "products",
    "w1 cluster met": "cluster met",
    "w1 sums came": "sums exchanged",
    "w1 stored": "output",
}
NARROW = {
    "w0 loads issued": "loads issued",
    "w0 A stored by all": "A dequantized",
    "w0 stage 0 full": "first step there",
    "w0 products done": "products",
    "w0 sums came": "sums exchanged",
    "w0 stored": "output",
}


def parts(stamps: dict[str, list[float]], names: dict[str, str]) -> dict[str, float]:
    """ns of each part in the stamps' order; parts that the kernel has no stamp for are left out."""
    there = [name for name in names if name in stamps]
    return {
        names[after]: stamps[after][0] - (stamps[before][0] if before else 0)
        for before, after in pairwise(["", *there])
    }


def of(rows: list[dict[str, Any]], names: dict[str, str]) -> str:
    """A table of the kernels that have these stamps."""
    lines = []
    for row in rows:
        if list(names)[-1] not in row["card"]:
            continue
        card, clock = (parts(row[side], names) for side in ("card", "simulated"))
        cells = [f"{card[what]:.0f}, {clock[what]:.0f}" if what in card else "" for what in names.values()]
        more = sum(card.values()) - sum(clock.values())
        lines.append([f"{row['shape']} {row['tile']}", *cells, f"{more:+.0f}"])
    return table(["ns on the card, simulated", *names.values(), "card minus simulated"], lines)


def text() -> str:
    """A table of the GEMM's tiles and one of the kernels of few rows."""
    rows = packed.observed("h200", "stamps", "rows")
    return f"{of(rows, TILES)}\n\n{of(rows, NARROW)}"
