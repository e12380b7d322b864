"""The table of predicted and measured times: its rows, their errors, its Markdown."""

from __future__ import annotations

import hashlib
import json
import re
from dataclasses import asdict
from statistics import mean, median

from scripts.common.measured import read
from scripts.evidence.clock import targets
from scripts.evidence.clock.measured import main_loops, ratios, signs, stamps
from scripts.evidence.clock.row import ROOT, Row

CHIP = "simulator/clock/chips/h200.json"
DATA = "simulator/results/clock.json"
ERROR = "simulator/clock/chips/h200.error"  # what every report says of the model's error
DOCUMENT = "simulator/results/clock.md"
ACCOUNT = "scripts/evidence/clock/account.md"  # maintained by hand: what was tried, and what is missing
BEHIND_OTHERS = "shark_tank/data/h200_behind_others.json"
RECORDED = {
    "micro": "scripts/bench/micro/h200.json",
    "kernels": BEHIND_OTHERS,
    "tiles": BEHIND_OTHERS,
    "sweep": BEHIND_OTHERS,
    "ladder": "shark_tank/data/h200_fast_cu.json",
}
TITLES = {
    "micro": "Microbenchmarks, which calibrate",
    "kernels": "Our Hopper kernels at the leaderboard's shapes, which validate",
    "tiles": "Tiles of our Hopper kernels, chosen or not, which validate",
    "sweep": "Our Hopper kernels over M, at four sizes of weights, which validate",
    "rounds": "Ratios of measured rounds, both commits on the clock, which validate",
    "sides": "Both sides of those ratios, which validate",
    "ladder": "fast.cu's ladder of bf16 products, which validates",
}
# Of the leaderboard's fourteen shapes (one stands twice), those that a card was timed at.
BOARD = [
    "1536x512x7168",
    "256x512x256",
    "3072x1024x1536",
    "7168x1024x256",
    "7168x2304x2048",
    "4608x384x7168",
    "7168x384x2304",
    "512x768x7168",
    "4096x768x512",
    "256x4096x7168",
    "512x4096x7168",
    "256x3072x4096",
    "512x3072x7168",
]
NEAR, FAR = 5, 12  # percent
WORST = 10
# What is thought of rows that are far off, the first that fits: start of the name, part of the parameters, words.
TURNS = "supposed: how tensor cores take turns between warpgroups, which is one figure by N here"
REASONS = (
    (
        "consumer_lap",
        "",
        "supposed: ptxas moves a part of the second group's work before the first one's wait; loads here run beside it",
    ),
    (
        "hopper",
        "256x512x256",
        "supposed: code that is fetched for the first time, and what a dependent launch waits for",
    ),
    *(
        ("hopper", f"{m}x", "supposed: what small loads of many warps wait for, who share L2's ports unevenly")
        for m in (1, 8, 16)
    ),
    ("hopper", "x256", "in part the clock, which hardly falls where MMAs are rare: 1.87 GHz on the card, 1.80 here"),
    ("hopper", "", "see above: the clock's finer steps, loads beside MMAs, clusters that hand slots over"),
    (
        "fast.cu",
        "matmul_2",
        "in part boxes of 8 KB, 13 % too fast here (box_rate); supposed: SMs share them less than larger ones",
    ),
    ("fast.cu", "", "supposed: L2's two partitions, and the clock's fall, which depends on what is multiplied"),
    ("working_clock", "", "the clock depends on how many SMs multiply and on what: one figure here, for all SMs"),
    ("code_cycles", "", "instruction fetch is not modelled: code of 64 KB comes at 7 bytes a cycle, 16 KB once"),
    ("kernel_pair", "", "supposed: the start of a dependent kernel whose CTAs fill the SMs"),
    ("box_rate", "", "supposed: L2 gives less to rows of 64 bytes and to boxes of few rows; here boxes have one rate"),
    ("warp_load_rate", "", "supposed: requests of few warps reach L2's ports unevenly; here they have one rate"),
    ("mbarrier_turn", "", "the wake-up of a warp that has arrived itself is shorter than that of one that waits"),
    ("wgmma_latency", "warpgroups 3", TURNS),
    ("wgmma_latency", "warpgroups 4", TURNS),
    ("wgmma", "warpgroups", TURNS),
    (
        "alu_rate",
        "mad_wide_high",
        "a lone warp's wide products are 6 cycles apart, two warps share the pipe at 4: one figure",
    ),
    ("alu_rate", "", "supposed: instruction fetch, which is not modelled (the program's body has 32 KB)"),
    ("multicast_rate", "", "supposed: fences in the program's ring, which take longer with copies under way"),
    ("launch_in_a_row", "cluster 2", "supposed: clusters' start, which is one figure here"),
    (
        "next_kernel",
        "",
        "the host's launches bind here, 3.7 us each on the card, where the clock has the least, 2 us",
    ),
    ("cta_start_spread", "", "the card's timer has steps of 256 ns; here starts come 32 to 64 cycles apart"),
    ("cluster_barrier", "", "supposed: arrivals of many warps, which have one interval here"),
    ("load_after_prefetch", "", "a line that is still on its way from memory comes 60 cycles later than here"),
    (
        "fence_behind",
        "",
        "stores of 16 warps before a barrier and a fence take longer than their wavefronts and registers do here",
    ),
    ("fresh_copy", "", "supposed: L2's two halves: lines that another SM had last come from the other one"),
    (
        "cluster_exchange",
        "until sent",
        "stores wait on their way in a longer queue than here; when they have come is met",
    ),
    ("cluster_exchange", "", "all clusters at a time send at 17 bytes a cycle, one alone at 20.8; one figure here"),
    ("answer_cycles", "", "one address more for a lane takes 11 cycles more, which is not in the model"),
    (
        "hand_over",
        "mbarrier.arrive.release.cluster",
        "such an arrival waits less than a fence of the chip on the card; one figure here",
    ),
    (
        "word_round_trip",
        "from L2",
        "supposed: copies that wait for L2 do not keep a load waiting as they do here",
    ),
    (
        "fence_rounds",
        "stores 1",
        "supposed: copies asked for at the fence's begin; behind a store here when that is answered",
    ),
    (
        "dependent_release",
        "",
        "a kernel's end waits for its stores as a fence does here; a dependent one goes on sooner on the card",
    ),
    ("load_rate", "HBM", "what HBM's load adds to its latency is one law here"),
)


def chip_digest() -> str:
    """SHA-256 of the chip's file: which parameters predicted."""
    return hashlib.sha256((ROOT / CHIP).read_bytes()).hexdigest()


def load() -> dict[str, Row]:
    """The committed rows by key; empty without a file."""
    path = ROOT / DATA
    rows = [Row(**row) for row in json.loads(path.read_text())["rows"]] if path.is_file() else []
    return {row.key: row for row in rows}


def save(rows: dict[str, Row], digest: str) -> None:
    """A row a line, with the digest of the chip's file."""
    lines = ",\n".join(json.dumps(asdict(rows[key])) for key in sorted(rows))
    head = json.dumps({"evidence": "simulated", "chip": "h200", "chip_sha256": digest})
    (ROOT / DATA).write_text(f'{head[:-1]},\n"rows": [\n{lines}\n]}}\n')


def summary(rows: list[Row]) -> str:
    """Count, median, mean and largest error of rows that have one."""
    errors = [abs(row.error) for row in rows if row.error is not None]
    near, far = (sum(error <= limit for error in errors) for limit in (NEAR, FAR))
    return (
        f"{len(errors)} | {median(errors):.1f} | {mean(errors):.1f} | {max(errors):.1f} | "
        f"{near} ({100 * near / len(errors):.0f} %) | {far} ({100 * far / len(errors):.0f} %)"
    )


def error_line(rows: dict[str, Row]) -> str:
    """One line for every report: how far off the microbenchmarks and our kernels are."""
    parts = []
    for group, words in (
        ("micro", "microbenchmarks, which calibrate"),
        ("kernels", "our Hopper kernels, which validate"),
    ):
        errors = [abs(row.error) for row in rows.values() if row.group == group and row.error is not None]
        if errors:
            parts.append(f"{words}: mean {mean(errors):.1f} %, largest {max(errors):.0f} %")
    return "; ".join(parts)


def older_rows(rows: dict[str, Row]) -> str:
    """How many rows have not been predicted again since the model was changed; nothing where all have."""
    older = sum(row.older for row in rows.values())
    said = "Rows of an older model were predicted before the last changes of `simulator/clock` and not again since"
    return f" {said}: {older}." if older else ""


def missing(rows: dict[str, Row]) -> str:
    """What the card gave and this page has no prediction of."""
    micro = {row["name"] for row in json.loads((ROOT / RECORDED["micro"]).read_text())["rows"]}
    shapes = read(ROOT / RECORDED["kernels"])["median_us"]["auto"]
    lacking = sorted(micro - {row.name for row in rows.values()})
    lacking += sorted(set(BOARD) & set(shapes) - {row.parameters for row in rows.values() if row.group == "kernels"})
    groups = {row.group for row in rows.values()}
    lacking += [f"all of {group}" for group in TITLES if group not in groups]
    return "" if not lacking else f"\n\nMeasured and not predicted here yet: {', '.join(lacking)}."


def reason(row: Row) -> str:
    """What is known of a row that is far off."""
    for start, part, why in REASONS:
        if row.name.startswith(start) and re.search(rf"(?<!\d){re.escape(part)}", row.parameters):
            return why
    return "not known yet"


def table(rows: list[Row]) -> str:
    """All rows of a group."""
    lines = ["| what | | predicted | measured | error | |", "| --- | --- | ---: | ---: | ---: | --- |"]
    for row in rows:
        error = "" if row.error is None else f"{row.error:+.1f} %"
        values = f"{row.predicted:.4g} | {row.measured:.4g} {row.unit.split(' after')[0].split(' from')[0]}"
        use = f"{row.use}, older model" if row.older else row.use
        lines.append(f"| {row.name} | {row.parameters} | {values} | {error} | {use} |")
    return "\n".join(lines)


def signs_text(rows: list[Row]) -> str:
    """Markdown: the rounds whose sign is wrong, and the main loops of those whose kernels changed."""
    wrong = [ratio for ratio in ratios.ratios(rows) if ratio.moved and not ratio.right]
    return f"""### The {len(wrong)} signs that are wrong

{signs.text(wrong)}

[Instructions of the main loop](../../{main_loops.MAIN_LOOPS}), in PTX and in the
machine code that ptxas makes of it (compiled, `python -m scripts.evidence.clock.measured.main_loops`):

{main_loops.text()}"""


def render(rows: dict[str, Row]) -> str:
    """The whole page."""
    groups = {group: [row for row in rows.values() if row.group == group] for group in TITLES}
    groups = {group: found for group, found in groups.items() if found}
    summaries = "\n".join(f"| {TITLES[group]} | {summary(found)} |" for group, found in groups.items())
    ranked = sorted((row for row in rows.values() if row.error is not None), key=lambda row: -abs(row.error))
    kinds: dict[tuple[str, str], list[Row]] = {}
    for row in ranked:
        kinds.setdefault((row.name, reason(row)), []).append(row)
    worst = "\n".join(
        f"| {found[0].group} | {found[0].name} {found[0].parameters} | {found[0].error:+.0f} % | "
        f"{sum(abs(row.error) > FAR for row in found)} | {why} |"
        for (_, why), found in list(kinds.items())[:WORST]
        if abs(found[0].error) > FAR
    )
    before = (
        {"rounds": f"{ratios.text(groups['rounds'])}\n\n{signs_text(groups['rounds'])}\n\n"}
        if "rounds" in groups
        else {}
    )
    sections = "\n\n".join(
        f"## {TITLES[group]}\n\n{before.get(group, '')}{table(found)}" for group, found in groups.items()
    )
    return f"""# The clock beside an H200

Written by `python -m scripts.evidence.clock` from [clock.json](clock.json): times that the simulator's clock predicts
(simulated, from [one sourced line a parameter](../clock/chips/h200.json)) beside those of a card
([microbenchmarks](../../{RECORDED["micro"]}), [kernels](../../shark_tank/data/README.md)).
![Share of each set's rows within an error](clock.svg)

The same program ran on both, with one launch a median on the simulator, where all launches are the same. A kernel's
time is that of a call behind others with inputs of their own, from the end of the call before; the card's is what one
more call costs, a round of 24 calls against one of 8, which leaves out what a round costs once. The clock goes by
the machine code that ptxas makes of the kernels ([how](../README.md#simulated-time)). Parameters were chosen
on the microbenchmarks alone, some of them on an [H100's](../../scripts/bench/micro/h100.json), whose SMs are an
H200's; no kernel has been used to choose one.{older_rows(rows)}{missing(rows)}

| set | rows | median error, % | mean, % | largest, % | within {NEAR} % | within {FAR} % |
| --- | ---: | ---: | ---: | ---: | ---: | ---: |
{summaries}

## The targets

{targets.text(groups)}

{(ROOT / ACCOUNT).read_text().strip()}

## Where a call's time goes

[Stamps in the kernels](../../{stamps.STAMPS}), which cost time themselves: ns from one to the next, mean over CTAs.

{stamps.text()}

## The {WORST} kinds that are furthest off

| set | the worst of its kind | error | beyond {FAR} % | why |
| --- | --- | ---: | ---: | --- |
{worst}

{sections}
"""
