"""The page of third-party kernels in simulator/results, the full tables, and the rules that the rows keep."""

from __future__ import annotations

from collections import Counter, defaultdict
from collections.abc import Iterable

from simulator.python.markdown import table
from simulator.validation.third_party.judgements import RULINGS, corpus_reason, judgement, reason
from simulator.validation.third_party.third_party_rows import key

LEAST_KERNELS, LEAST_PROJECTS = 60, 6
VERDICTS = ("clean", "review", "error", "incomplete", "failed", "not built")  # from the best to the worst
INTRODUCTION = """Public kernels, and kernels that public compilers make, on the simulator. CUDA is compiled from its
authors' files with nvcc 13 and launched by their own host code on `build/libcudart_sim.a`; the launches of DeepGEMM
and of ThunderKittens' fast kernels are ours. Triton and CuTe DSL compile without a GPU, and those launches are ours
too. No source of others is kept here. `./nvfp4 validate third_party` repeats the trial, `./nvfp4 validate report`
prints a row for each kernel and each finding. Right: every element within the rounding of the result's type, and what
the tensor cores' sums may lose, of a float64 result; for CUTLASS, its examples' own comparison. Benchmarks compare
nothing."""


def in_order(rows: list[dict], cases: list[tuple[str, str, str]]) -> list[dict]:
    """Rows in the order of the cases, then rows from outside by name; rows of removed cases are dropped."""
    found = {key(row): row for row in rows}
    outside = sorted(name for name, row in found.items() if row["outside"] and name not in cases)
    return [found[name] for name in (*cases, *outside) if name in found]


def silently_wrong(run: dict) -> bool:
    """Wrong values under a verdict that does not say so."""
    return bool(run["wrong"]) and run["verdict"] not in ("error", "incomplete")


def by_mode(runs: list[dict], tell: list[str]) -> str:
    """The word of all modes, or each word with its modes."""
    modes = defaultdict(list)
    for run, word in zip(runs, tell, strict=True):
        modes[word].append(run["mode"])
    return next(iter(modes)) if len(modes) == 1 else "; ".join(f"{w} ({' '.join(m)})" for w, m in modes.items())


def value_of(run: dict) -> str:
    if run["wrong"] is None:
        return "none"
    return f"{run['wrong']} of {run['of']} wrong" if run["wrong"] else "right"


def kinds(row: dict) -> str:
    """Kinds of findings with verdicts and numbers of lines."""
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
    """The reason why a kernel has no values; empty if it has."""
    return row["not_built"] or next((run["failed"] for run in row["runs"] if run["failed"]), "")


def line_of(row: dict) -> str:
    name = f"{short(row['project'])} `{row['name']}`" + ("*" if row["outside"] else "")
    head = f"| {name} | {row['arch']} | {row['shows']} | {row['size']} |"
    if not row["runs"]:
        return f"{head} - | none | not built | - | {row['not_built']} |"
    runs = row["runs"]
    errors = [run["max_error"] for run in runs if run["max_error"] is not None]
    seconds = [run["seconds"] for run in runs]
    values = by_mode(runs, [value_of(run) for run in runs])
    verdicts = by_mode(runs, [run["verdict"] or "failed" for run in runs])
    why = refusal(row)
    cells = [f"{min(errors):.3g}" if errors else "-", values, verdicts, f"{max(seconds):.1f}", why or kinds(row)]
    return head + " " + " | ".join(cells) + " |"


def short(project: str) -> str:
    """A project without its owner."""
    return project.rsplit("/", 1)[-1]


def judged(rows: Iterable[dict]) -> list[list[str]]:
    """Project, kind, ruling, sentence and lines of each judgement, or of each finding without one."""
    lines: dict[tuple, set[str]] = defaultdict(set)
    for row in rows:
        for finding in row["findings"]:
            found = judgement(row["project"], row["name"], finding)
            ruling = (found.ruling, found.sentence) if found else ("not judged", finding["message"])
            lines[short(row["project"]), finding["kind"], *ruling].add(finding["source"])
    cells = []
    for (project, kind, ruling, sentence), sources in sorted(lines.items()):
        files: dict[str, list[str]] = defaultdict(list)
        for source in sorted(sources):
            name, _, number = source.rpartition(":")
            files[name or source].append(number if name else "")
        places = (f"{name} {', '.join(sorted(filter(None, ns), key=int))}".strip() for name, ns in files.items())
        cells.append([project, kind, ruling, f"{sentence}.", "; ".join(places)])
    return cells


def rulings(rows: Iterable[dict]) -> list[list[str]]:
    """Ruling, kind, sentence and projects of each judgement: those that blame a kernel first."""
    projects: dict[tuple[str, str, str], list[str]] = defaultdict(list)
    for project, kind, ruling, sentence, _ in judged(rows):
        projects[ruling, kind, sentence].append(project)
    order = ["not judged", *RULINGS]
    keys = sorted(projects, key=lambda key: (order.index(key[0]), *key[1:]))
    return [[*key, ", ".join(dict.fromkeys(projects[key]))] for key in keys]


def of_corpus(corpus: dict) -> list[str]:
    """The section on the parser's corpus."""
    files: dict[str, list[str]] = defaultdict(list)
    for name, why in corpus["unread"].items():
        files[corpus_reason(why) or "not judged"].append(short(name))
    text = ["", f"## The PTX corpus of {short(corpus['project'])}", ""]
    text.append(
        f"At `{corpus['version']}`: {corpus['texts']} texts. ptxas assembles {corpus['assembled']} of them, and the"
        f" simulator reads {corpus['read']} of these. The simulator refuses {corpus['refused_by_both']} of the others,"
        " mostly extracts without parameters."
    )
    if files:
        text += ["", table(["not read", "texts"], [[why, ", ".join(names)] for why, names in sorted(files.items())])]
    return text


def measured_on(rows: list[dict]) -> str:
    """The commits whose simulators ran the rows."""
    commits = Counter(row["simulator"] for row in rows).most_common()
    most, *others = (f"`{commit}`" for commit, _ in commits)
    return f"Run on the simulator of commit {most}" + (f", some of {', '.join(others)}." if others else ".")


def verdict(row: dict) -> str:
    """The worst of its modes."""
    return max((run["verdict"] or "failed" for run in row["runs"]), key=VERDICTS.index, default="not built")


def is_right(row: dict) -> bool:
    return bool(row["runs"]) and all(run["wrong"] == 0 for run in row["runs"])


def counted(rows: list[dict]) -> str:
    """Counts of kernels that run and of those that are right."""
    running = [row for row in rows if row["runs"]]
    right = sum(map(is_right, rows))
    silent = sum(any(map(silently_wrong, row["runs"])) for row in running)
    return (
        f"{len(running)} kernels of {len({row['project'] for row in running})} projects: {right} right in every mode, "
        f"{silent} wrong without an error, {len(rows) - right} wrong or without values in a mode."
    )


def summary(rows: list[dict], corpus: dict) -> str:
    """The page of simulator/results: a line for each project, and a line for each ruling."""
    text = ["# Third-party kernels on the simulator", "", INTRODUCTION, "", counted(rows), measured_on(rows), ""]
    body = []
    for project, version in sorted({(row["project"], row["version"]) for row in rows}):
        mine = [row for row in rows if row["project"] == project]
        found = Counter(map(verdict, mine))
        cells = [str(len(mine)), str(sum(map(is_right, mine))), *(str(found[name] or "") for name in VERDICTS)]
        body.append([project, f"`{version[:12]}`", *cells])
    text += [table(["project", "version", "kernels", "right", *VERDICTS], body, 2 + len(VERDICTS))]
    text += ["", "## Rulings", "", *(f"- {ruling}: {meaning}" for ruling, meaning in RULINGS.items()), ""]
    text += [table(["ruling", "finding", "why", "projects"], rulings(rows))]
    return "\n".join([*text, *of_corpus(corpus)]) + "\n"


def page(rows: list[dict], corpus: dict) -> str:
    """A line for each kernel, and the lines of each finding."""
    head = ("kernel", "sm", "what it is", "size", "max error", "values", "verdict", "s a mode", "findings, or why not")
    text = [counted(rows), "", "| " + " | ".join(head) + " |", "|" + " --- |" * len(head), *map(line_of, rows)]
    text += ["", "Rows with a star: the driver is not in this repository (`--cases FILE`)."]
    text += ["Max error is that of the best mode, seconds of the slowest one on a shared machine.", ""]
    text += [table(["project", "finding", "ruling", "why", "lines"], judged(rows))]
    refused = [row for row in rows if refusal(row)]
    if refused:
        why = [reason(row["project"], row["name"]) or "not judged" for row in refused]
        cells = [
            [f"{short(r['project'])} `{r['name']}`", r["arch"], f"{w}."] for r, w in zip(refused, why, strict=True)
        ]
        text += ["", table(["does not run", "sm", "why"], cells)]
    return "\n".join([*text, *of_corpus(corpus)]) + "\n"


def faults(rows: list[dict], corpus: dict) -> list[str]:
    """The rules that the rows break: enough kernels, no silent wrong value, every finding and refusal judged."""
    running = [row for row in rows if row["runs"] and not refusal(row)]
    found = [f"{name} is not read: {why}" for name, why in corpus["unread"].items() if corpus_reason(why) is None]
    if len(running) < LEAST_KERNELS or len({row["project"] for row in running}) < LEAST_PROJECTS:
        found.append(f"fewer than {LEAST_KERNELS} kernels of {LEAST_PROJECTS} projects run")
    for row in rows:
        name = f"{row['project']} {row['name']} sm_{row['arch']}"
        found += [f"{name}: silently wrong in mode {r['mode']}" for r in row["runs"] if silently_wrong(r)]
        if refusal(row) and not reason(row["project"], row["name"]):
            found.append(f"{name}: does not run, and no reason is named: {refusal(row)}")
        for finding in row["findings"]:
            judgement_of = judgement(row["project"], row["name"], finding)
            if judgement_of is None or judgement_of.ruling == "false":
                ruling = "not judged" if judgement_of is None else "a false alarm"
                found.append(f"{name}: {finding['kind']} at {finding['source']} is {ruling}")
    return found
