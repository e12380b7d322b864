"""The page of the clock beside published B200 measurements, and the line on its error that reports show."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from statistics import mean, median

from scripts.evidence.clock.published.ladder import OWN_CLOCK, OWN_GHZ
from scripts.evidence.clock.published.told import LADDER, NOT_YET, PUBLIC_KERNELS, RING, SHARING, WHY, reason
from scripts.evidence.clock.table import ROOT, Row, summary, table

CHIP = "simulator/clock/chips/b200.json"
ERROR = "simulator/clock/chips/b200.error"
DATA = "simulator/results/clock_b200.json"
DOCUMENT = "simulator/results/clock_b200.md"
PUBLIC = "shark_tank/simulated/blackwell_public.json"  # of scripts/cost_model/public_kernels.py, on the same chip file
SOURCE = "SemiAnalysisAI/microbench-blackwell"
LADDER_SOURCE = "gau-nernst/learn-cuda"
LADDER_AIM = 12  # percent, of the ladder's mean
RING_AIM = 10  # percent, of the ring's mean
# Of a set: what it is, and the share that is aimed at, in percent, of the median.
SETS = {
    "latency": ("One tcgen05.mma, issue to the end of the wait", 5),
    "throughput": ("Cycles a tcgen05.mma, 256 in flight", 5),
    "copies": ("TMA loads from HBM, all SMs, 24 to 64 rounds", 10),
    "first loads": ("The first TMA load of a launch, all SMs", 10),
    "sharing": ("TMA loads of tiles that several SMs ask for", 10),
    "ring": ("CUTLASS's ring of one CTA, a sample of the published rows", RING_AIM),
    "ladder": ("gau-nernst/learn-cuda's bf16 products, 4096 each way, at 1.965 GHz", LADDER_AIM),
    OWN_CLOCK: (f"The same at the {OWN_GHZ} GHz of the machine that timed them", LADDER_AIM),
    "public": ("Public NVFP4 kernels beside their authors' times, behind other calls", LADDER_AIM),
}
OF_MEANS = ("ring", "ladder", OWN_CLOCK, "public")
WORST = 10


def digest() -> str:
    """SHA-256 of the chip's file: which parameters predicted."""
    return hashlib.sha256((ROOT / CHIP).read_bytes()).hexdigest()


def load() -> dict[str, Row]:
    """The committed rows by key; empty without a file."""
    path = ROOT / DATA
    rows = [Row(**row) for row in json.loads(path.read_text())["rows"]] if path.is_file() else []
    return {row.key: row for row in rows}


def public_rows() -> dict[str, Row]:
    """Public NVFP4 kernels, timed for the page of the Blackwell kernel, beside what their authors published."""
    found = json.loads((ROOT / PUBLIC).read_text())
    older = found.get("chip_sha256", digest()) != digest()
    rows = [
        Row(
            "public", row["kernel"], row["case"], "us", row["theirs"]["back_to_back_us"], row["published_us"],
            "validated", older or row.get("older", False),
        )
        for row in found["rows"]
    ]  # fmt: skip
    return {row.key: row for row in rows}


def save(rows: dict[str, Row]) -> None:
    """A row a line, with the digest of the chip's file."""
    lines = ",\n".join(json.dumps(asdict(rows[key])) for key in sorted(rows))
    head = json.dumps({"evidence": "simulated", "chip": "b200", "published": SOURCE, "chip_sha256": digest()})
    (ROOT / DATA).write_text(f'{head[:-1]},\n"rows": [\n{lines}\n]}}\n')


def of(rows: dict[str, Row], group: str, use: str = "") -> list[Row]:
    """A set's rows, or those of one use."""
    return [row for row in rows.values() if row.group == group and use in ("", row.use)]


def error_line(rows: dict[str, Row]) -> str:
    """One line for every report: what the rows that calibrated nothing came to."""
    parts = []
    for group, word in (("latency", "MMA latency"), ("throughput", "MMA rate"), ("copies", "copies")):
        errors = [abs(row.error) for row in of(rows, group, "validated") if row.error is not None]
        if errors:
            parts.append(f"{word} {median(errors):.1f} %")
    ring = [abs(row.error) for row in of(rows, "ring", "validated") if row.error is not None]
    if ring:
        parts.append(f"CUTLASS's ring of one CTA {median(ring):.1f} %")
    kernels = [abs(row.error) for row in of(rows, "ladder") if row.error is not None]
    whole = f"mean {mean(kernels):.0f} % over {len(kernels)}" if kernels else "not compared with a B200"
    own = [abs(row.error) for row in of(rows, OWN_CLOCK, "validated") if row.error is not None]
    if own:
        whole += f", {mean(own):.0f} % over {len(own)} at their machine's {OWN_GHZ} GHz"
    return f"medians on published B200 rows that validate: {', '.join(parts)}; whole bf16 kernels of others: {whole}"


def order_line(rows: dict[str, Row], group: str = "ladder") -> str:
    """How many pairs of the ladder's kernels stand in the right order."""
    ladder = of(rows, group)
    pairs = [(a, b) for i, a in enumerate(ladder) for b in ladder[i + 1 :]]
    right = sum((a.predicted < b.predicted) == (a.measured < b.measured) for a, b in pairs)
    off = mean(abs(row.error or 0) for row in of(rows, group, "validated"))
    where = f" at {OWN_GHZ} GHz" if group == OWN_CLOCK else ""
    order = f"Of {len(pairs)} pairs of the ladder's kernels {right} stand in the right order{where}"
    return f"{order}; those that validate are {off:.1f} % off in the mean."


def worst_rows(rows: dict[str, Row]) -> str:
    """Those that are furthest off, the worst of each other set, and why."""
    by_error = sorted(rows.values(), key=lambda row: -abs(row.error or 0))
    ranked = by_error[:WORST]
    for row in by_error[WORST:]:
        if row.group not in {found.group for found in ranked}:
            ranked.append(row)
    lines = [
        f"| {row.group} | {row.parameters} | {row.error or 0:+.0f} % | {row.use} | {reason(row)} |" for row in ranked
    ]
    return "\n".join(["| set | row | error | | why |", "| --- | --- | ---: | --- | --- |", *lines])


def older_line(rows: dict[str, Row]) -> str:
    """What has not been run with the model of today, as a line more; empty where all has."""
    counts = {group: len([row for row in of(rows, group) if row.older]) for group in SETS}
    named = ", ".join(f"{count} of {len(of(rows, group))} of {group}" for group, count in counts.items() if count)
    return f"\nPredicted before the model's last change and not run again: {named}." if named else ""


def render(rows: dict[str, Row]) -> str:
    """The whole page."""
    rows = rows | public_rows()
    lines = []
    for group, (title, aim) in SETS.items():
        for use in ("calibrated", "validated"):
            found = of(rows, group, use)
            if found:
                middle = mean if group in OF_MEANS else median
                reached = "yes" if middle(abs(row.error or 0) for row in found) <= aim else "no"
                lines.append(f"| {title} | {use} | {summary(found)} | {aim} | {reached} |")
    sections = "\n\n".join(f"## {SETS[group][0]}\n\n{table(of(rows, group))}" for group in SETS if of(rows, group))
    lines_of = [order_line(rows, group) for group in ("ladder", OWN_CLOCK) if of(rows, group)]
    ladder = "\n".join([*lines_of, "", LADDER]) if lines_of else "Not compared yet."
    public = of(rows, "public")
    same = [(a, b) for i, a in enumerate(public) for b in public[i + 1 :] if a.parameters == b.parameters]
    right = sum((a.predicted < b.predicted) == (a.measured < b.measured) for a, b in same)
    everything = mean(abs(row.error or 0) for row in rows.values())
    return f"""# The clock beside published B200 measurements

Written by `python -m scripts.evidence.clock.b200` from [clock_b200.json](clock_b200.json): times that the simulator's
clock predicts (simulated, from [one sourced line a parameter](../clock/chips/b200.json)) beside those that
{SOURCE} published with its programs. **No B200 of ours has run anything; these are its own
programs on the simulator.** Of the MMAs, N of 64, 128 and 256 calibrated and those between validate; of the copies,
one in flight calibrated and more validate; of shared tiles 2 and 4 KB calibrated and larger ones
validate. The ladder's programs and times are {LADDER_SOURCE}'s.

| set | use | rows | median error, % | mean, % | largest, % | within 5 % | within 12 % | aim, % | reached |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |
{chr(10).join(lines)}

Mean of all: {everything:.1f} %.
The aim is that of the median, of the ring and the ladder that of the mean.{older_line(rows)}

## The ten worst rows, and the worst of each other set

{worst_rows(rows)}

## First loads

{WHY}

## Shared tiles

{SHARING}

## CUTLASS's ring of one CTA

{RING}

## The ladder

{ladder}

## Public NVFP4 kernels

Of {len(same)} pairs of two authors' kernels for one shape {right} stand in the right order.

{PUBLIC_KERNELS}

{NOT_YET}

{sections}
"""


def render_all() -> None:
    """The page and the chip's line."""
    rows = load()
    (ROOT / DOCUMENT).write_text(render(rows))
    (ROOT / ERROR).write_text(error_line(rows) + "\n")
