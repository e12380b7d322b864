"""THIRD_PARTY.md of simulator/results from the rows of third_party.json, and the rules that the rows are held to."""

from __future__ import annotations

from collections import defaultdict
from collections.abc import Iterable

from simulator.validation.third_party.judgements import RULINGS, corpus_reason, judgement, reason

LEAST_KERNELS, LEAST_PROJECTS = 60, 6
INTRODUCTION = """# Third-party kernels on the simulator

Public kernels, and what public compilers make of kernels, on the simulator. CUDA is compiled from its authors'
files with nvcc 13 and driven by their own host code on `build/libcudart_sim.a`, but for DeepGEMM and ThunderKittens'
fast kernels, whose launches are ours. Triton and CuTe DSL compile without a GPU, and the launch is ours; so are the
Triton kernels (`simulator/validation/third_party/triton/`). Nothing of others is kept here. `./nvfp4 validate
third_party` repeats the trial and writes this file; `third_party.json` has every run and every finding's sentence.
Rows with a star: source and driver lie outside the tree (`--cases FILE`), and the row alone is kept.

Modes: {modes}.
Right: every element within the rounding of the result's type, and what the tensor cores' sums may lose, of a float64
result; for CUTLASS, its examples' own comparison.
"""


def key(row: dict) -> tuple[str, str, str]:
    """What tells a row from the others."""
    return row["project"], row["name"], row["arch"]


def in_order(rows: list[dict], cases: list[tuple[str, str, str]]) -> list[dict]:
    """Rows in the order of the cases, without those of cases that are no more; last, by name, those from outside."""
    found = {key(row): row for row in rows}
    outside = sorted(name for name, row in found.items() if row.get("outside") and name not in cases)
    return [found[name] for name in (*cases, *outside) if name in found]


def silently_wrong(run: dict) -> bool:
    """Wrong values under a verdict that does not say so."""
    return bool(run.get("wrong")) and run.get("verdict") not in ("error", "incomplete")


def by_mode(runs: list[dict], tell: list[str]) -> str:
    """A word for all modes, or each word with its modes."""
    modes = defaultdict(list)
    for run, word in zip(runs, tell, strict=True):
        modes[word].append(run["mode"])
    return next(iter(modes)) if len(modes) == 1 else "; ".join(f"{w} ({' '.join(m)})" for w, m in modes.items())


def value_of(run: dict) -> str:
    if "wrong" not in run:
        return "none"
    return f"{run['wrong']} of {run['of']} wrong" if run["wrong"] else "right"


def kinds(row: dict) -> str:
    """Kinds of findings with their verdicts, and how many lines have each."""
    lines: dict[tuple[str, str], list[dict]] = defaultdict(list)
    for finding in row["findings"]:
        lines[finding["verdict"], finding["kind"]].append(finding)
    shown = []
    for (verdict, kind), found in sorted(lines.items()):
        modes = {mode for each in found for mode in each["modes"]}
        only = (
            ""
            if len(modes) == len(row["runs"])
            else ", " + " ".join(r["mode"] for r in row["runs"] if r["mode"] in modes)
        )
        shown.append(f"{kind} ({verdict}{f', {len(found)} lines' if len(found) > 1 else ''}{only})")
    return "; ".join(shown) or "none"


def refusal(row: dict) -> str:
    """Why there are no values, where there are none."""
    return row.get("not_built") or next((run["failed"] for run in row["runs"] if "failed" in run), "")


def line_of(row: dict) -> str:
    name = f"{row['project'].rsplit('/', 1)[-1]} `{row['name']}`" + ("*" if row.get("outside") else "")
    head = f"| {name} | {row['arch']} | {row['shows']} | {row['size']} |"
    if not row["runs"]:
        return f"{head} - | none | not built | - | {row['not_built']} |"
    runs = row["runs"]
    errors = [run["max_error"] for run in runs if "max_error" in run]
    seconds = [run["seconds"] for run in runs]
    values = by_mode(runs, [value_of(run) for run in runs])
    verdict = by_mode(runs, [run.get("verdict", "failed") for run in runs])
    why = refusal(row)
    cells = [f"{min(errors):.3g}" if errors else "-", values, verdict, f"{max(seconds):.1f}", why or kinds(row)]
    return head + " " + " | ".join(cells) + " |"


def judged(rows: Iterable[dict]) -> list[str]:
    """A line a judgement, or a finding without one: project, kind, ruling, lines, sentence."""
    lines: dict[tuple, set[str]] = defaultdict(set)
    for row in rows:
        for finding in row["findings"]:
            found = judgement(row["project"], row["name"], finding)
            project = row["project"].rsplit("/", 1)[-1]
            told = (found.ruling, found.sentence) if found else ("not judged", finding["message"])
            lines[project, finding["kind"], *told].add(finding["source"])
    table = ["| project | finding | ruling | why | lines |", "| --- | --- | --- | --- | --- |"]
    for (project, kind, ruling, sentence), sources in sorted(lines.items()):
        files: dict[str, list[str]] = defaultdict(list)
        for source in sorted(sources):
            name, _, number = source.rpartition(":")
            files[name or source].append(number if name else "")
        told = "; ".join(f"{name} {', '.join(sorted(filter(None, ns), key=int))}".strip() for name, ns in files.items())
        table.append(f"| {project} | {kind} | {ruling} | {sentence}. | {told} |")
    return table


def of_corpus(corpus: dict) -> list[str]:
    """The section on the parser's corpus."""
    files: dict[str, list[str]] = defaultdict(list)
    for name, why in corpus["unread"].items():
        files[corpus_reason(why) or "not judged"].append(name.rsplit("/", 1)[-1])
    name = corpus["project"].rsplit("/", 1)[-1]
    counts = f"{corpus['texts']} texts, of which ptxas assembles {corpus['assembled']}"
    text = ["", f"## The PTX corpus of {name}", ""]
    text.append(f"At `{corpus['version']}`: {counts}; of these the simulator reads {corpus['read']}.")
    text.append(
        f"The others are no whole PTX, mostly extracts without parameters; refused: {corpus['refused_by_both']}."
    )
    if files:
        text += ["", "| not read | texts |", "| --- | --- |"]
        text += [f"| {why} | {', '.join(names)} |" for why, names in sorted(files.items())]
    return text


def measured_on(rows: list[dict]) -> list[str]:
    """Which commit's simulator ran the rows; those of another than most have are named."""
    commits: dict[str, list[dict]] = defaultdict(list)
    for row in rows:
        commits[row.get("simulator", "before commits were noted")].append(row)
    most, *others = sorted(commits, key=lambda commit: -len(commits[commit]))
    text = [f"Run on the simulator of commit `{most}`" + (", but for:\n" if others else ".")]
    for commit in others:
        names = (f"{row['project'].rsplit('/', 1)[-1]} `{row['name']}` {row['arch']}" for row in commits[commit])
        text.append(f"- `{commit}`: {', '.join(names)}")
    return text


def render(rows: list[dict], corpus: dict) -> str:
    """The whole file."""
    modes = max((row["runs"] for row in rows), key=len, default=[])
    text = [INTRODUCTION.format(modes=", ".join(run["mode"] for run in modes))]
    running = [row for row in rows if row["runs"]]
    right = [row for row in running if all(run.get("wrong") == 0 for run in row["runs"])]
    projects = {row["project"] for row in running}
    text.append(
        f"{len(running)} kernels of {len(projects)} projects: {len(right)} right in every mode, "
        f"{sum(any(silently_wrong(run) for run in row['runs']) for row in running)} wrong without an error, "
        f"{len(rows) - len(right)} wrong or without values in a mode, each with its reason below.\n"
    )
    text += [*measured_on(rows), ""]
    head = ("kernel", "sm", "what it is", "size", "max error", "values", "verdict", "s a mode", "findings, or why not")
    text += ["| " + " | ".join(head) + " |", "|" + " --- |" * len(head)]
    text += [line_of(row) for row in rows]
    text += ["", "Max error is that of the best mode, seconds of the slowest one on a shared machine. Versions:", ""]
    text += [f"- {project} at `{at}`" for project, at in sorted({(r["project"], r["version"]) for r in running})]
    text += ["", "## Who is right", "", *(f"- {ruling}: {meaning}" for ruling, meaning in RULINGS.items()), ""]
    text += judged(rows)
    refused = [row for row in rows if refusal(row)]
    if refused:
        text += ["", "## What does not run", "", "| kernel | sm | why |", "| --- | --- | --- |"]
        for row in refused:
            why = reason(row["project"], row["name"]) or "not judged"
            text.append(f"| {row['project'].rsplit('/', 1)[-1]} `{row['name']}` | {row['arch']} | {why}. |")
    text += of_corpus(corpus)
    return "\n".join(text) + "\n"


def faults(rows: list[dict], corpus: dict) -> list[str]:
    """Which rules the rows break: enough of them, no wrong value in silence, every finding and refusal judged."""
    running = [row for row in rows if row["runs"] and not refusal(row)]
    found = [f"{name} is not read: {why}" for name, why in corpus["unread"].items() if corpus_reason(why) is None]
    if len(running) < LEAST_KERNELS or len({row["project"] for row in running}) < LEAST_PROJECTS:
        found.append(f"fewer than {LEAST_KERNELS} kernels of {LEAST_PROJECTS} projects run")
    for row in rows:
        name = f"{row['project']} {row['name']} sm_{row['arch']}"
        found += [f"{name}: wrong in silence in mode {r['mode']}" for r in row["runs"] if silently_wrong(r)]
        if refusal(row) and not reason(row["project"], row["name"]):
            found.append(f"{name}: does not run, and no reason is named: {refusal(row)}")
        for finding in row["findings"]:
            judgement_of = judgement(row["project"], row["name"], finding)
            if judgement_of is None or judgement_of.ruling == "false":
                ruling = "not judged" if judgement_of is None else "a false alarm"
                found.append(f"{name}: {finding['kind']} at {finding['source']} is {ruling}")
    return found
