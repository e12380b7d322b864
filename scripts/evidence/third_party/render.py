"""simulator/results/THIRD_PARTY.md from the rows that scripts/evidence/third_party/kernels.py measured."""

from __future__ import annotations

INTRODUCTION = """# Third-party kernels on the simulator

Public kernels that their authors ran on real chips, compiled from their own files with nvcc 13, driven by their own
host code on `build/libcudart_sim.a`. Nothing of them is kept here.
`python -m scripts.evidence.third_party.kernels NAME=CHECKOUT ...` repeats the trial and writes this file;
`third_party.json` has every finding's sentence.

Right: every element within half a unit of bf16, or one of fp16, and 1e-4 sqrt(K), of the float64 result. A cell is
the number of wrong elements, then the verdict. Inputs: normal bf16, or the leaderboard's NVFP4 data.
"""
# What a finding means for the kernels here, and who is right; only those that occur are printed.
JUDGED = {
    "deadlock": ("Follows from missed-phase where the schedule runs into it"),
    "missed-phase": (
        "One mbarrier phase can complete twice before a slower warp looks at it: every warp waits for a barrier that "
        "warp 0 alone re-arms, and nothing keeps warp 0 from going round again. A TMA's latency hides it on a chip. "
        "Right, and SentryWard says the same of v1 to v3 (`SENTRYWARD.md`)"
    ),
    "missing-tcgen05-fence": (
        "PTX orders dealloc, or tcgen05's reads of shared memory, after another thread's work only through "
        "tcgen05.fence; CUTLASS leaves it out as well. Review is right"
    ),
    "tensor-memory-lane": (
        "A CTA has lanes 0 to 127, of which a warp reaches its own 32. In a pair two authors use 128 to 255; in s_128t "
        "and sub_tcgen2 every warp names lane 0, and the author's log beside s_128t has a benchmark on a B200 passing. "
        "PTX allows neither and chips seem to take the warp's own lanes, as the simulator does. Review is right"
    ),
    "tensor-memory": (
        "With dealloc at once: warps read columns that warp 0 gave back, since the barrier before dealloc is "
        "commented out. The simulator is right by PTX"
    ),
    "tensor-memory-freed": (
        "Dealloc before the other warps' loads are known to be complete: the barrier before it is commented out "
        "(NVFP4_Kernels) or stands behind it (s_128t). Right"
    ),
    "tensor-memory-leak": "Follows from a launch that an error ended",
    "unpipelined-copy": (
        "tcgen05.cp onto scale columns that an earlier cp or mma of the same thread uses: no pipelined pair in PTX, "
        "and everybody's practice. Review is right"
    ),
    "tensor-memory-race": (
        "The same cp from another thread, with no order between the two (equal bytes); in sub_tcgen2 tcgen05.st of the "
        "scales, and an MMA of another warp on them without wait::st and fences. Right by PTX"
    ),
    "tensor-memory-uninitialised": "An early version's MMA names scale columns that nothing has written. Right",
    "write-after-read-race": "Warps refill shared memory with no barrier behind the other warps' reads. Right",
    "tcgen05-register": "tcgen05.ld's register moved before wait::ld by nvcc: asm without dependence. Review is right",
    "out-of-bounds": "A pointer that the driver did not fill, or a pipeline longer than K",
    "mbarrier-init-fence": "No fence between mbarrier.init and the first TMA on it. Right by PTX; chips forgive it",
    "missing-proxy-fence": "Ordinary stores, then a TMA store of them, without fence.proxy.async. Right by PTX",
    "unfinished-store": "The kernel ends without waiting for its TMA store to read shared memory. Right by PTX",
    "overwrite-while-read": (
        "Every thread copies the scales to tensor memory, one thread's commit is waited for: TMA refills the stage "
        "while the others' copies may still read it. Right by PTX"
    ),
    "read-before-completion": "A warp that lags copies scales that the next round's TMA is already replacing. Right",
    "mbarrier-init-race": "Barriers used without a synchronisation after their initialisation",
}


def cell(run: dict) -> str:
    """Wrong elements and verdict, or why there are none."""
    if "failed" in run:
        return "failed"
    return f"{run['wrong']} {run['verdict']}"


def kinds(row: dict) -> str:
    """Errors and reviews of all modes, each once, with the modes where not all have it."""
    modes: dict[tuple[str, str], list[str]] = {}
    for run in row["runs"]:
        for finding in run.get("findings", []):
            modes.setdefault((finding["verdict"], finding["kind"]), []).append(run["mode"])
    everywhere = len(row["runs"])
    shown = [
        f"{kind} ({verdict}{'' if len(where) == everywhere else ', ' + ' '.join(where)})"
        for (verdict, kind), where in sorted(modes.items())
    ]
    return "; ".join(shown) or "none"


def render(rows: list[dict]) -> str:
    """The whole file."""
    names = [run["mode"] for run in next((row["runs"] for row in rows if row["runs"]), [])]
    lines = [INTRODUCTION, "| kernel | what it is | M x N x K | max error | " + " | ".join(names) + " | findings |"]
    lines.append("|" + " --- |" * (5 + len(names)))
    repositories: dict[str, str] = {}
    seen: set[str] = set()
    for row in sorted(rows, key=lambda r: r["order"]):
        repositories[row["repository"]] = row["commit"]
        short = row["repository"].split("/")[1]
        name = f"{short} `{row['file'].rsplit('/', 1)[-1]}` {row['name']}".strip()
        shape = " x ".join(map(str, row["shape"]))
        if "not_built" in row:
            lines.append(f"| {name} | {row['shows']} | {shape} | - |" + " - |" * len(names) + f" {row['not_built']} |")
            continue
        seen |= {finding["kind"] for run in row["runs"] for finding in run.get("findings", [])}
        error = min((run["max_error"] for run in row["runs"] if "max_error" in run), default=float("nan"))
        cells = " | ".join(cell(run) for run in row["runs"])
        lines.append(f"| {name} | {row['shows']} | {shape} | {error:.3g} | {cells} | {kinds(row)} |")
    lines += ["", "Max error is that of the best mode. Commits:", ""]
    lines += [f"- {name} at `{commit}`" for name, commit in sorted(repositories.items())]
    lines += ["", "## Who is right", "", "| finding | judgement |", "| --- | --- |"]
    lines += [f"| {kind} | {JUDGED.get(kind, 'not judged yet')}. |" for kind in sorted(seen)]
    return "\n".join(lines) + "\n"
