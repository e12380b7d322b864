"""simulator/results/third_party/SENTRYWARD.md from what simulator/validation/sentryward/__main__.py measured."""

from __future__ import annotations

import textwrap

INTRODUCTION = """# SentryWard on the same PTX

SentryWard {version} (PyPI; a static verifier of PTX: synchronisation and memory races in every schedule, for one launch
shape) and the simulator (modes eager, late, random:1; the worst verdict) on kernels and mutants of them.
`./nvfp4 validate sentryward` runs both and writes this file; `sentryward.json` has the full words of both.

Its limits, by its README: fences and the full memory model are not modelled, sizes and the launch are fixed. By trial:
no `wgmma`; no bulk copy from shared memory to global without a tensor map; no collector qualifiers of `tcgen05.mma`;
no scale factors of N = 192; tensor memory addresses are followed through add, not through mad; neither `elect.sync` nor
a predicate that goes through selp and setp is followed, so that it takes an elected lane's work for that of all lanes
(`barrier_initialized_multiple_times`) and a wait for one that may go on without success. So that it can say something,
texts marked ported have mul and add for mad, typed pointers, rank 0, lane 0 for the elected one, waits that branch on
their own predicate, no collector qualifiers, and plain stores for the bulk store: the same text goes to both.
"""
# What it finds wrong and yet calls unsupported.
NAMED = (
    "invalid_bulk_transfer_size",
    "tmem_missing_dealloc",
    "tmem_dealloc_size",
    "tmem_invalid_alloc",
    "tmem_unresolved_dealloc",
)
FENCES = {"mbarrier-init-fence", "missing-tcgen05-fence"}
NOTES = """
SentryWard took {theirs:.0f} s for all, the simulator {ours:.0f} s for three modes each, starts of processes included.

- learn-cuda v1 to v3, right on B200s, are wrong for both, whatever the schedule: a warp can miss a phase of an mbarrier
  (no arrival at a phase may come before the previous phase was waited for).
- A `review` blames no one: PTX does not guarantee it, and CUTLASS relies on it.
- The Blackwell backend: {dual}
  What m256n192k2 adds to m256n128k2, columns of scale factors that all stages share, SentryWard does not see; its
  mutants are in `BLACKWELL_MUTANTS.md`.
- Its grouped kernels: {grouped}
  With one group the kernel's address of the group found is written as the first group's; with two it is the kernel's
  own, and SentryWard, which takes each value loaded from such an address for another, cannot tell where C's rows lie.
- Hopper's GEMMs, the dual and the grouped one alike: SentryWard cannot read `wgmma`; the mutants are in
  `tests/simulator/kernels/test_hopper_kernels.py`."""
REPORTS = ("not_wellsynced", "potential_race", "invalid_lifecycle")


def judge(row: dict) -> str:
    """Whether the two agree, and if not who is right."""
    ours, theirs = row["ours"]["verdict"], row["theirs"]["result"]
    kinds = {kind for _, kind in row["ours"]["kinds"]}
    said = " ".join(row["theirs"].get("said", []))
    if theirs == "timeout":
        return "it ran out of time"
    if theirs == "unsupported":
        if ours == "error" and any(code in said for code in NAMED):
            return "agree: it names the fault"
        passed = row["theirs"].get("checks", {}).get("synchronization") == "passed"
        return "it cannot say, synchronization passed" if passed and ours == "clean" else "it cannot say"
    if theirs == "race_free":
        if ours == "clean":
            return "agree"
        if kinds <= FENCES:
            return "simulator: it models no fences" + ("; review, no error" if ours == "review" else "")
        if "out-of-bounds" in kinds:
            return "simulator: it checks no bounds"
        if kinds & {"tensor-memory-uninitialised"}:
            return "simulator: it does not ask whether memory was written"
        if kinds & {"tcgen05-register"}:
            return "simulator: PTX wants wait::ld before the registers and the dealloc"
        if kinds & {"cta-group"}:
            return "simulator: PTX wants one cta_group in a kernel"
        return "they differ"
    if theirs in REPORTS and ours in ("error", "review"):
        if "elected-signal" in kinds:
            return "agree: lanes that lag behind the one that arrives can miss a phase"
        return "agree"
    return "they differ"


def scope(rows: list[dict], grouped: bool) -> str:
    """What its verdicts on the Blackwell backend's kernels cover: the dual GEMM's, or the grouped GEMM's."""
    each = []
    for row in rows:
        kernel = row["kernel"].removesuffix(", ported").removeprefix("Blackwell ").removeprefix("grouped ")
        if "scope" in row and not row["mutant"] and ("grouped" in row["kernel"]) == grouped:
            theirs = row["theirs"]
            kind = theirs["result"]
            if kind == "unsupported" and theirs["checks"]["synchronization"] == "passed":
                kind = "synchronization passed, memory not judged"
            each.append(f"{kernel} {kind} in {theirs['seconds']:.0f} s ({row['scope']})")
    tiles = "two groups of a tile each, or one" if grouped else "one tile"
    text = f"synchronisation and memory in every schedule of one launch of {tiles}: {'; '.join(each)}."
    return "\n  ".join(textwrap.wrap(text, 92, break_on_hyphens=False))


def render(data: dict) -> str:
    """The whole file."""
    rows = data["rows"]
    judged = [judge(row) for row in rows]
    total = {}
    for text in judged:
        key = text.split(":")[0].split(",")[0]
        total[key] = total.get(key, 0) + 1
    lines = [INTRODUCTION.format(version=data["version"])]
    counts = ", ".join(f"{key} {count}" for key, count in sorted(total.items(), key=lambda item: -item[1]))
    lines += [f"{len(rows)} texts, of which {sum(not row['mutant'] for row in rows)} are no mutants: {counts}.", ""]
    lines += ["| kernel | mutant | simulator | SentryWard | s | agree, or who is right |", "| --- " * 6 + "|"]
    for row, text in zip(rows, judged, strict=True):
        ours, theirs = row["ours"], row["theirs"]
        kinds = ", ".join(dict.fromkeys(kind for _, kind in ours["kinds"]))
        modes = [mode for mode, verdict in ours.get("modes", {}).items() if verdict == ours["verdict"]]
        only = f" ({' '.join(modes)} only)" if 0 < len(modes) < len(ours.get("modes", {})) else ""
        said = theirs["said"][0].split(":")[0].replace("not_wellsynced", "cannot advance") if theirs.get("said") else ""
        mine = f"{ours['verdict']}{only}{': ' + kinds if kinds else ''}"
        other = f"{theirs['result']}{': ' + said if said else ''}"
        mutant = row["mutant"].replace("|", " ")
        lines.append(f"| {row['kernel']} | {mutant} | {mine} | {other} | {theirs['seconds']} | {text} |")
    seconds = sum(row["theirs"]["seconds"] for row in rows)
    own = sum(row["ours"].get("seconds", 0) for row in rows)
    lines.append(NOTES.format(theirs=seconds, ours=own, dual=scope(rows, False), grouped=scope(rows, True)))
    return "\n".join(lines) + "\n"
