"""The page on SentryWard in simulator/results, and the full table, from sentryward.csv."""

from __future__ import annotations

from collections import Counter

from scripts.common.markdown import table

INTRODUCTION = """SentryWard {version} (PyPI) verifies PTX statically: synchronisation and memory races in every
schedule, for one launch shape. It and the simulator (modes eager, late and random:1; the worst verdict counts) judge
the same kernels and mutants of them. `./nvfp4 validate sentryward` runs both, `./nvfp4 validate report` prints a row
for each text.

Its limits, by its README: it models neither fences nor the full memory model, and sizes and the launch are fixed. By
trial: it refuses `wgmma`, bulk copies from shared memory to global without a tensor map, collector qualifiers of
`tcgen05.mma`, and scale factors of N = 192. It follows tensor memory addresses through add, not through mad. It
follows neither `elect.sync` nor a predicate that goes through selp and setp, so it takes an elected lane's work for
that of all lanes (`barrier_initialized_multiple_times`), and takes a wait for one that may go on without success.
Texts marked `ported` are rewritten for both tools: mul and add for mad, typed pointers, rank 0, lane 0 for the
elected lane, waits that branch on their own predicate, no collector qualifiers, plain stores for the bulk store."""
# Diagnostics of a result `unsupported` that name the fault all the same.
NAMED = (
    "invalid_bulk_transfer_size",
    "tmem_missing_dealloc",
    "tmem_dealloc_size",
    "tmem_invalid_alloc",
    "tmem_unresolved_dealloc",
)
FENCES = {"mbarrier-init-fence", "missing-tcgen05-fence"}
NOTES = """- learn-cuda v1 to v3 give right values on B200s, and both tools call them wrong in every schedule: a warp
  can miss a phase of an mbarrier (no arrival at a phase may come before the previous phase was waited for).
- A `review` is no blame: PTX does not guarantee the order, and CUTLASS relies on it.
- Blackwell m256n192k2: all stages share their columns of scale factors, which SentryWard does not see; the kernel's
  mutants are in [MUTANTS.md](MUTANTS.md).
- Blackwell's grouped kernels: with one group the text names the first group's address. With two, the kernel computes
  it, SentryWard takes each value loaded from such an address for another, and cannot tell where C's rows lie.
- Hopper's GEMMs: SentryWard cannot read `wgmma`; their mutants are in
  `tests/simulator/kernels/test_hopper_kernels.py`."""
REPORTS = ("not_wellsynced", "potential_race", "invalid_lifecycle")


def kinds_of(row: dict) -> list[str]:
    """Kinds of the simulator's findings, without their verdicts."""
    return list(dict.fromkeys(each.split(" ", 1)[1] for each in row["kinds"]))


def passed_synchronization(row: dict) -> bool:
    return "synchronization passed" in row["checks"]


def judge(row: dict) -> str:
    """Says whether the two agree, and if not which one is right."""
    ours, theirs, kinds = row["verdict"], row["result"], set(kinds_of(row))
    if theirs == "timeout":
        return "SentryWard ran out of time"
    if theirs == "unsupported":
        if ours == "error" and any(code in said for code in NAMED for said in row["said"]):
            return "agree: SentryWard names the fault"
        passed = passed_synchronization(row) and ours == "clean"
        return "SentryWard cannot say" + (", synchronization passed" if passed else "")
    if theirs == "race_free":
        if ours == "clean":
            return "agree"
        if kinds <= FENCES:
            return "simulator: SentryWard models no fences" + ("; review, no error" if ours == "review" else "")
        if "out-of-bounds" in kinds:
            return "simulator: SentryWard checks no bounds"
        if "tensor-memory-uninitialised" in kinds:
            return "simulator: SentryWard does not ask whether memory was written"
        if "tcgen05-register" in kinds:
            return "simulator: PTX wants wait::ld before the registers and the dealloc"
        if "cta-group" in kinds:
            return "simulator: PTX wants one cta_group in a kernel"
        return "they differ"
    if theirs in REPORTS and ours in ("error", "review"):
        if "elected-signal" in kinds:
            return "agree: lanes that lag behind the one that arrives can miss a phase"
        return "agree"
    return "they differ"


def result_of(row: dict) -> str:
    """SentryWard's word on a kernel that is no mutant."""
    if row["result"] == "unsupported" and passed_synchronization(row):
        return "synchronization passed, memory not judged"
    return row["result"]


def summary(rows: list[dict]) -> str:
    """The page of simulator/results: how often the two agree, where they do not, and the Blackwell kernels."""
    judged = [judge(row) for row in rows]
    whole = sum(not row["mutant"] for row in rows)
    theirs, ours = (sum(row[key] or 0 for row in rows) for key in ("their_seconds", "seconds"))
    text = ["# SentryWard on the same PTX", "", INTRODUCTION.format(version=rows[0]["version"]), ""]
    text += [f"{len(rows)} texts, {whole} of them no mutants. SentryWard took {theirs:.0f} s for all, the simulator"]
    text += [f"{ours:.0f} s for three modes each, starts of processes included.", ""]
    counts = sorted(Counter(judged).items(), key=lambda item: (-item[1], item[0]))
    text += [table(["agree, or who is right", "texts"], [[what, str(count)] for what, count in counts], 1), ""]
    scopes = [
        [
            row["kernel"].removesuffix(", ported"),
            row["scope"],
            row["verdict"],
            result_of(row),
            f"{row['their_seconds']:.0f}",
        ]
        for row in rows
        if row["scope"] and not row["mutant"]
    ]
    text += [table(["Blackwell kernel", "launch", "simulator", "SentryWard", "s"], scopes, 1), "", NOTES]
    return "\n".join(text) + "\n"


def page(rows: list[dict]) -> str:
    """Every text."""
    body = []
    for row in rows:
        modes = dict(each.split(" ", 1) for each in row["modes"])
        hits = [mode for mode, verdict in modes.items() if verdict == row["verdict"]]
        only = f" ({' '.join(hits)} only)" if 0 < len(hits) < len(modes) else ""
        kinds = ", ".join(kinds_of(row))
        first = row["said"][0].split(":")[0].replace("not_wellsynced", "cannot advance") if row["said"] else ""
        mine = f"{row['verdict']}{only}{': ' + kinds if kinds else ''}"
        other = f"{row['result']}{': ' + first if first else ''}"
        mutant = row["mutant"].replace("|", " ")
        body.append([row["kernel"], mutant, mine, other, f"{row['their_seconds']}", judge(row)])
    return table(["kernel", "mutant", "simulator", "SentryWard", "s", "agree, or who is right"], body) + "\n"
