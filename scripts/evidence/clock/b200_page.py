"""The page of the clock beside published B200 measurements, and the line on its error that reports show."""

from __future__ import annotations

import hashlib
import json
from dataclasses import asdict
from statistics import mean, median

from scripts.evidence.clock.table import ROOT, Row, summary, table

CHIP = "simulator/clock/chips/b200.json"
ERROR = "simulator/clock/chips/b200.error"
DATA = "simulator/results/clock_b200.json"
DOCUMENT = "simulator/results/clock_b200.md"
SOURCE = "SemiAnalysisAI/microbench-blackwell"
LADDER_SOURCE = "gau-nernst/learn-cuda"
LADDER_AIM = 12  # percent, of the ladder's mean
# Of a set: what it is, and the share that is aimed at, in percent, of the median.
SETS = {
    "latency": ("One tcgen05.mma, issue to the end of the wait", 5),
    "throughput": ("Cycles a tcgen05.mma, 256 in flight", 5),
    "copies": ("TMA loads from HBM, all SMs, 24 to 64 rounds", 10),
    "first loads": ("The first TMA load of a launch, all SMs", 10),
    "ladder": ("gau-nernst/learn-cuda's bf16 products, 4096 each way", LADDER_AIM),
}
NOT_YET = """The programs of the E4M3 rows have a reserved type in their instruction descriptor (atype 2), and the
simulator refuses them; so it does N = 80 and 112 of 8-bit integers in a pair, and A in tensor memory where its format
packs four bits. Not compared yet: the sharing of tiles (tma2dmcast_throughput), cp.async, short bursts of MMAs, the
702 rows of the CUTLASS ring (960 programs of CUTLASS; the ring's round
trips gave the parameters of copies from L2, by hand) and the NVFP4 ladders of gpu-mode-kernels."""
LADDER = """The target is the right order and a mean of 12 %. Two mechanisms are supposed to be missing, and no row that
calibrates has them:

- **The clock under load.** The fast kernels of the ladder keep the tensor cores busy, and are 1.9 PFLOP/s here where
  the best library takes 1.36 on the chip (the same README), 60 % of the rate that its MMAs have alone. An H200's clock
  falls by 9 % under MMAs (measured, and in its chip file); what a B200's does under dense bf16 is not published, so
  1.965 GHz stands here for any load.
- **Rows of 16 bytes.** v1 copies boxes whose rows have 16 bytes each; a copy's rate is one figure here, whatever the
  rows' length. An H200 copies boxes of 64-byte rows at up to half the rate (box_rate); 16 were not measured.

Neither can be fitted on these rows, which validate. v2b is 30 % too slow here, for which no reason is known; it and
v2a stand the wrong way round. v0 is for another generation's tensor cores, v1b has not been run. Of a memory-bound
NVFP4 kernel, which leaves the tensor cores idle much of the time, nothing here was compared."""
WHY = """First loads are the set that is far off. Each of these launches loads once from memory that has not been
touched, right after L2 was flushed: 512 bytes take some 900 cycles in a ring
that runs and 1,993 when they come first. Address translation and HBM's pages are not modelled; the rates of the
loads that follow are right without them."""


def digest() -> str:
    """SHA-256 of the chip's file: which parameters predicted."""
    return hashlib.sha256((ROOT / CHIP).read_bytes()).hexdigest()


def load() -> dict[str, Row]:
    """The committed rows by key; empty without a file."""
    path = ROOT / DATA
    rows = [Row(**row) for row in json.loads(path.read_text())["rows"]] if path.is_file() else []
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
    kernels = [abs(row.error) for row in of(rows, "ladder") if row.error is not None]
    whole = f"mean {mean(kernels):.0f} % over {len(kernels)}" if kernels else "not compared with a B200"
    return f"medians on published B200 rows that validate: {', '.join(parts)}; whole bf16 kernels of others: {whole}"


def order_line(rows: dict[str, Row]) -> str:
    """How many pairs of the ladder's kernels stand in the right order."""
    ladder = of(rows, "ladder")
    pairs = [(a, b) for i, a in enumerate(ladder) for b in ladder[i + 1 :]]
    right = sum((a.predicted < b.predicted) == (a.measured < b.measured) for a, b in pairs)
    off = mean(abs(row.error or 0) for row in ladder)
    return f"Of {len(pairs)} pairs of the ladder's kernels {right} stand in the right order; mean error {off:.1f} %."


def render(rows: dict[str, Row]) -> str:
    """The whole page."""
    lines = []
    for group, (title, aim) in SETS.items():
        for use in ("calibrated", "validated"):
            found = of(rows, group, use)
            if found:
                middle = mean if group == "ladder" else median
                reached = "yes" if middle(abs(row.error or 0) for row in found) <= aim else "no"
                lines.append(f"| {title} | {use} | {summary(found)} | {aim} | {reached} |")
    sections = "\n\n".join(f"## {SETS[group][0]}\n\n{table(of(rows, group))}" for group in SETS if of(rows, group))
    ladder = f"{order_line(rows)}\n\n{LADDER}" if of(rows, "ladder") else "Not compared yet."
    everything = mean(abs(row.error or 0) for row in rows.values())
    worst = max(rows.values(), key=lambda row: abs(row.error or 0))
    return f"""# The clock beside published B200 measurements

Written by `python -m scripts.evidence.clock.b200` from [clock_b200.json](clock_b200.json): times that the simulator's
clock predicts (simulated, from [one sourced line a parameter](../clock/chips/b200.json)) beside those that
{SOURCE} published with its programs. **No B200 of ours has run anything; these are its own
programs on the simulator.** Of the MMAs, N of 64, 128 and 256 calibrated and those between validate; of the copies,
one in flight calibrated and more validate. The ladder's programs and times are {LADDER_SOURCE}'s.

| set | use | rows | median error, % | mean, % | largest, % | within 5 % | within 12 % | aim, % | reached |
| --- | --- | ---: | ---: | ---: | ---: | ---: | ---: | ---: | --- |
{chr(10).join(lines)}

The worst row: {worst.group}, {worst.parameters}, {worst.error or 0:+.0f} %. Mean of all: {everything:.1f} %.
The aim is that of the median, of the ladder that of the mean.

{WHY}

## The ladder

{ladder}

{NOT_YET}

{sections}
"""


def render_all() -> None:
    """The page and the chip's line."""
    rows = load()
    (ROOT / DOCUMENT).write_text(render(rows))
    (ROOT / ERROR).write_text(error_line(rows) + "\n")
