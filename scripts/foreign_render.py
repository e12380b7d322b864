"""simulator/FOREIGN.md from the rows that scripts/foreign_kernels.py measured."""

from __future__ import annotations

INTRODUCTION = """# Kernels of others on the simulator

Public kernels that their authors ran on real chips, compiled from their own files with nvcc 13, driven by their own
host code on `build/libcudart_sim.a`. Nothing of them is kept here. `scripts/foreign_kernels.py NAME=CHECKOUT ...`
repeats the trial and writes this file; `simulator/foreign.json` has every finding's sentence.

Right: every element within half a unit of bf16, or one of fp16, and 1e-4 sqrt(K), of the float64 result. A cell is
the number of wrong elements, then the verdict. Inputs: normal bf16, or the leaderboard's NVFP4 data.
"""
# What a finding means for the kernels here, and who is right; only those that occur are printed.
JUDGED = {
    "deadlock": (
        "One mbarrier phase can complete twice before a slower warp looks at it: every warp waits for a barrier that "
        "warp 0 alone re-arms, and nothing keeps warp 0 from going round again. A TMA's latency hides it on a chip. "
        "The simulator is right, but only mode eager shows it: see below"
    ),
    "missing-tcgen05-fence": (
        "PTX orders dealloc, or tcgen05's reads of shared memory, after another thread's work only through "
        "tcgen05.fence; CUTLASS leaves it out as well. Review is right"
    ),
    "tensor-memory-lane": "A CTA has lanes 0 to 127; in a pair these authors use 128 to 255. Review is right",
    "tensor-memory": (
        "With dealloc at once: warps read columns that warp 0 gave back, since the barrier in front of dealloc is "
        "commented out. In s_128t and sub_tcgen2: a warp names lane 0 for lanes 32 and up, which PTX forbids; the "
        "author's log beside s_128t has a benchmark on a B200 passing, so the chip seems to take the warp's own lanes. "
        "The simulator is right by PTX"
    ),
    "tensor-memory-freed": (
        "Dealloc before the other warps' loads are known to be complete: the barrier in front of it is commented out "
        "(NVFP4_Kernels) or stands behind it (s_128t). Right"
    ),
    "tensor-memory-leak": "Follows from a launch that an error ended",
    "unpipelined-copy": (
        "tcgen05.cp onto scale columns that an earlier cp or mma of the same thread uses: no pipelined pair in PTX, "
        "and everybody's practice. Review is right"
    ),
    "tensor-memory-race": "The same cp from another thread, with no order between the two (equal bytes). Right by PTX",
    "tcgen05-register": "tcgen05.ld's register moved before wait::ld by nvcc: asm without dependence. Review is right",
    "out-of-bounds": "A pointer that the driver did not fill, or a pipeline longer than K",
    "mbarrier-init-fence": "No fence between mbarrier.init and the first TMA on it. Right by PTX; chips forgive it",
    "missing-proxy-fence": "Ordinary stores, then a TMA store of them, without fence.proxy.async. Right by PTX",
    "unfinished-store": "The kernel ends without waiting for its TMA store to read shared memory. Right by PTX",
    "overwrite-while-read": (
        "Every thread copies the scales to tensor memory, one thread's commit is waited for: TMA refills the stage "
        "while the others' copies may still read it. Right by PTX"
    ),
    "read-before-landing": "A warp that lags copies scales that the next round's TMA is already replacing. Right",
    "mbarrier-init-race": "Barriers used without a synchronisation after their initialisation",
}
MISSED = """
## What the simulator should learn from this

- `deadlock` of learn-cuda v1 to v3 and of s_128t is a property of the synchronisation, yet it is reported only when the
  schedule runs into it (eager). A check at issue would do: nobody may complete a phase of an mbarrier unless the waits
  for the phase in front of it have been passed before. SentryWard has this rule and finds v1 to v3 (`SENTRYWARD.md`).
- A module's static shared variables are charged to each of its kernels: fast.cu's kernels in one file, as its author
  builds them, are refused for want of shared memory. The trial compiles each alone.
- A launch that is refused leaves the verdict `clean` and cudaGetLastError at success; the trial counts the CTAs.
- The stand-in runtime has no cuGetErrorString; the trial's wrapper brings one.
- A chip seems to take a warp's own lanes whatever the lane in tcgen05.ld's address says (s_128t; 128 to 255 in pairs).
  An error that ends the launch is strict; with the lanes put right (`lanes`) the results are.
"""


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
    return "\n".join(lines) + "\n" + MISSED
