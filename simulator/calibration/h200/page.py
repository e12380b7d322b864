"""The full report of the clock beside an H200: every row, every comparison."""

from __future__ import annotations

import re
from collections.abc import Mapping

from simulator.calibration import packed
from simulator.calibration.h200 import targets
from simulator.calibration.rows import FAR, NEAR, Row, errors, summary, table

CHIP = "h200"
BEHIND_OTHERS = "shark_tank/data/h200_behind_others.json"
# Where each group of kernels was measured; the microbenchmarks' rows are the data set MICRO.
RECORDED = {
    "kernels": BEHIND_OTHERS,
    "tiles": BEHIND_OTHERS,
    "sweep": BEHIND_OTHERS,
    "ladder": "shark_tank/data/h200_fast_cu.json",
}
MICRO = "h200_micro"
TITLES = {
    "micro": "Microbenchmarks (calibrate)",
    "kernels": "Our Hopper kernels at the leaderboard's shapes (validate)",
    "tiles": "Every tile of our Hopper kernels (validate)",
    "sweep": "Our Hopper kernels over M, four sizes of weights (validate)",
    "rounds": "Ratios of measured rounds, both commits simulated (validate)",
    "sides": "Both sides of those ratios (validate)",
    "ladder": "fast.cu's ladder of bf16 products (validates)",
}
WORST = 10
TURNS = "supposed: how tensor cores alternate between warpgroups; the model has one figure for each N"
# Why rows are far off, the first entry that fits: start of the name, a part of the parameters, the reason.
REASONS = (
    ("consumer_lap", "", "supposed: ptxas moves part of the second group's work before the first group's wait"),
    ("hopper", "256x512x256", "supposed: code fetched for the first time, and what a dependent launch waits for"),
    *(
        ("hopper", f"{m}x", "supposed: small loads of many warps share L2's ports unevenly, and wait for that")
        for m in (1, 8, 16)
    ),
    ("hopper", "x256", "partly the SM clock, which hardly falls where MMAs are rare: 1.87 GHz measured, 1.80 modelled"),
    ("hopper", "", "the SM clock's finer steps, loads beside MMAs, clusters that take over each other's slots"),
    (
        "fast.cu",
        "matmul_2",
        "partly 8 KB boxes, 13 % too fast (box_rate); supposed: SMs share them less than larger boxes",
    ),
    ("fast.cu", "", "supposed: L2's two partitions, and the clock's fall, which depends on the data multiplied"),
    ("working_clock", "", "the SM clock depends on how many SMs multiply and on the data; the model has one figure"),
    ("box_rate", "", "supposed: L2 gives less to 64-byte rows and to boxes of few rows; the model has one rate"),
    ("warp_load_rate", "", "supposed: requests of few warps reach L2's ports unevenly; the model has one rate"),
    ("mbarrier_turn", "", "a warp that arrived itself wakes sooner than one that only waits"),
    ("wgmma_latency", "warpgroups 3", TURNS),
    ("wgmma_latency", "warpgroups 4", TURNS),
    ("wgmma", "warpgroups", TURNS),
    (
        "alu_rate",
        "mad_wide_high",
        "one warp's wide products issue 6 cycles apart, two warps' 4 apart; the model has one figure",
    ),
    ("alu_rate", "", "supposed: instruction fetch, which is not modelled (the loop has 32 KB of code)"),
    ("multicast_rate", "", "supposed: the ring's fences, which take longer while copies are under way"),
    ("launch_in_a_row", "cluster 2", "supposed: the start of clusters, one figure in the model"),
    ("next_kernel", "", "the host's launches set the pace: 3.7 us each on the card, 2 us in the model"),
    ("cta_start_spread", "", "the card's timer steps by 256 ns; the model starts CTAs 32 to 64 cycles apart"),
    ("cluster_barrier", "", "supposed: arrivals of many warps, one interval in the model"),
    ("load_rate", "HBM", "how HBM's latency grows with its load is one law in the model"),
)


def micro_key(name: str, parameters: Mapping[str, object]) -> str:
    """Name and parameters of a microbenchmark's row, as Row.key has them behind the group."""
    return " ".join([name, *(f"{key} {value}" for key, value in parameters.items())])


def measured_micro() -> dict[str, float]:
    """Values that the card's microbenchmarks measured, by micro_key."""
    _, rows = packed.read(MICRO)
    return {micro_key(row["name"], packed.parameters_of(row["parameters"])): float(row["value"]) for row in rows}


def groups_of(rows: Mapping[str, Row]) -> dict[str, list[Row]]:
    """The rows by group, in the order of TITLES, without empty groups."""
    found = {group: [row for row in rows.values() if row.group == group] for group in TITLES}
    return {group: of for group, of in found.items() if of}


def error_line(rows: Mapping[str, Row]) -> str:
    """The model's error, one line, as every simulator report shows it."""
    parts = []
    for group, words in (
        ("micro", "microbenchmarks, which calibrate"),
        ("kernels", "our Hopper kernels, which validate"),
    ):
        off = errors(row for row in rows.values() if row.group == group)
        if off:
            parts.append(f"{words}: mean {sum(off) / len(off):.1f} %, largest {max(off):.0f} %")
    return "; ".join(parts)


def older(rows: Mapping[str, Row]) -> str:
    """A sentence that counts the rows not predicted again since the model's last change; empty if none."""
    count = sum(row.older for row in rows.values())
    return "" if not count else f" {count} rows were predicted before the model's last change."


def reason(row: Row) -> str:
    """Why a row is far off, as far as known."""
    for start, part, why in REASONS:
        if row.name.startswith(start) and re.search(rf"(?<!\d){re.escape(part)}", row.parameters):
            return why
    return "not known"


def summaries(groups: Mapping[str, list[Row]]) -> str:
    """A table: how far off each group is."""
    head = [
        f"| set | rows | median error, % | mean, % | largest, % | within {NEAR} % | within {FAR} % |",
        "| --- | ---: | ---: | ---: | ---: | ---: | ---: |",
    ]
    return "\n".join([*head, *(f"| {TITLES[group]} | {summary(rows)} |" for group, rows in groups.items())])


def worst(rows: Mapping[str, Row], count: int = WORST) -> str:
    """A table: the kinds of rows that are furthest off, and why."""
    ranked = sorted((row for row in rows.values() if row.error is not None), key=lambda row: -abs(row.error or 0))
    kinds: dict[tuple[str, str], list[Row]] = {}
    for row in ranked:
        kinds.setdefault((row.name, reason(row)), []).append(row)
    lines = [
        f"| set | worst row of its kind | error | rows beyond {FAR} % | why |",
        "| --- | --- | ---: | ---: | --- |",
    ]
    for (_, why), found in list(kinds.items())[:count]:
        first, beyond = found[0], sum(off > FAR for off in errors(found))
        if beyond:
            what = f"{first.name} {first.parameters}"
            lines.append(f"| {first.group} | {what} | {first.error:+.0f} % | {beyond} | {why} |")
    return "\n".join(lines)


def render(rows: Mapping[str, Row]) -> str:
    """The whole report."""
    groups = groups_of(rows)
    sections = "\n\n".join(f"## {TITLES[group]}\n\n{table(of)}" for group, of in groups.items())
    return f"""# The clock beside an H200, row by row

`make clock-report` writes this page. The clock predicts by the machine code that ptxas makes of a kernel; the same
program ran on the card. A kernel's time is what one more call costs behind others with inputs of their own: on the
card the difference between rounds of 24 and of 8 calls. Parameters were fitted on microbenchmarks only, never on a
kernel's time.{older(rows)}

{summaries(groups)}

## Targets

{targets.text(groups)}

## Furthest off

{worst(rows)}

{sections}
"""
