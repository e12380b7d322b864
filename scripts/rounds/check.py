"""Checks what the record promises: schema, states, order in git, digests, figures, verdicts, tables."""

from __future__ import annotations

import itertools
import re
from pathlib import Path
from typing import Any

from scripts.history.data import COMMITS_FILE, commits_text, png_digest, series_digest, shape_series
from scripts.rounds import ledger, modelled, origin, stats
from scripts.rounds.figures import link_problems, prose_problems
from scripts.rounds.model import (
    FINAL,
    SECTIONS,
    UNWRITTEN,
    RoundError,
    Tank,
    chip_name,
    digest,
    env_digest,
    env_problems,
    prediction_problems,
    read_bytes,
    round_shapes,
    schema_problems,
    transitions,
)
from scripts.rounds.pages import round_page, tables

CHIPLESS_RULES = ("unmeasured-v1", modelled.RULE)
UNMEASURED_BACKENDS = ("blackwell", "geforce")  # no chip of theirs was at hand so far
# Sections to write before the measurement; the others before the round ends.
BEFORE = ("Pitch", "Hypothesis", "Feasibility", "Objections")


def noise_measurement(tank: Tank, data: dict[str, Any]) -> dict[str, Any]:
    """Measurement of the A/A round that a round's rule names; RoundError unless that round is an adopted A/A round."""
    number = data["rule"]["noise_round"]
    if number is None:
        raise RoundError(f"round {data['number']}: its rule names no noise_round")
    noise = tank.get(number)
    if noise["kind"] != "noise-floor" or round_page.verdict_state(noise) != "adopted":
        raise RoundError(f"round {data['number']}: noise_round {number} is not an adopted A/A round")
    return noise["measurement"]


def judge(data: dict[str, Any], noise: dict[str, Any] | None) -> tuple[str, str]:
    """`(state, reason)` that the round's rule gives for its measurement."""
    if noise is None:
        return stats.judge_noise(data["measurement"])
    return stats.judge_faster(data["measurement"], stats.noise_band(noise))


def noise_or_none(tank: Tank, data: dict[str, Any]) -> dict[str, Any] | None:
    if data["measurement"] is None or data["rule"]["name"] != "faster-v1":
        return None
    return noise_measurement(tank, data)


def expected_texts(tank: Tank) -> dict[Path, str]:
    """The correct content of each file that has generated blocks, and of commits.json."""
    texts = {tank.dir / COMMITS_FILE: commits_text(tank)}
    for folder in tank.round_dirs():
        data, path = tank.load(folder), folder / "round.md"
        if "page" in data:
            continue
        texts[path] = round_page.render_round_md(data, path.read_text(), tank.relative(path))
    readme = tank.dir / "README.md"
    text = readme.read_text()
    for name, content in tables.readme_blocks(tank).items():
        text = round_page.put_block(text, name, content, tank.relative(readme))
    texts[readme] = text
    return texts


def text_problems(tank: Tank, data: dict[str, Any], upto: str | None = None) -> list[str]:
    """Sections of round.md that are missing, out of order or not written yet for the round's state."""
    path = tank.rounds_dir / round_page.round_id(data) / "round.md"
    where, state = tank.relative(path), upto or data["state"]
    if "page" in data:
        lost = state in FINAL and round_page.verdict_state(data) != "adopted" and "kept_although" not in data
        return [] if lost and not path.exists() else [f"{where}: only the text of a lost round may be in git alone"]
    text = path.read_text()
    heads = re.findall(r"^## (.+)$", text, re.MULTILINE)
    if heads != list(SECTIONS):
        return [f"{where}: sections are {', '.join(heads)}; expected {', '.join(SECTIONS)}"]
    required = () if state == "draft" else BEFORE if state == "predicted" else SECTIONS
    if state == "blocked":
        required = ("Pitch", "Verdict", "What would reopen it")
    bodies = dict(re.findall(r"^## (.+?)\n(.*?)(?=^## |\Z)", text, re.MULTILINE | re.DOTALL))
    problems = []
    for name in required:
        body = bodies[name]
        prose = re.sub(r"<!--.*?-->", "", body, flags=re.DOTALL).strip()
        if UNWRITTEN in body or not prose:
            problems.append(f"{where}: section {name} is not written")
    if state in FINAL:
        problems += [
            f"{where}: {problem}"
            for missing, problem in (
                (not data["reopen_if"], "round.json has no reopen_if"),
                (not (data["verdict"] or {}).get("why"), "round.json has no verdict.why"),
            )
            if missing
        ]
    return problems


# --- the checks of one round ----------------------------------------------------------------------------
def state_problems(data: dict[str, Any]) -> list[str]:
    """`history` must be a path of allowed transitions that ends at `state`, and fit the round's content."""
    states = [entry["state"] for entry in data["history"]]
    problems = []
    if states[-1] != data["state"]:
        problems.append(f"state is {data['state']}, its history ends with {states[-1]}")
    dates = [entry["date"] for entry in data["history"]]
    if dates != sorted(dates):
        problems.append("history: dates go backwards")
    if "inherited" in data:
        if data["evidence"] != "inherited" or data["measurement"] or data["prediction"]:
            problems.append("an inherited round has evidence inherited and no prediction or measurement of ours")
        return problems
    if states[0] != "draft":
        problems.append(f"history starts with {states[0]}, expected draft")
    problems += [
        f"history: {old} to {new} is not allowed"
        for old, new in itertools.pairwise(states)
        if new not in transitions(data)[old]
    ]
    if ("measured" in states) != (data["measurement"] is not None):
        problems.append("a measurement and the state measured must go together")
    if "reconstructed" in data and (data["prediction"] or (data["measurement"] or {}).get("prediction_commit")):
        problems.append("a reconstructed round has no prediction: its outcome was known")
    if (data["verdict"] is not None) != any(state in FINAL for state in states):
        problems.append("a verdict and a final state must go together")
    if data["verdict"] and data["verdict"]["state"] not in states:
        problems.append(f"verdict says {data['verdict']['state']}, which is not in the history")
    if (data["state"] == "superseded") != ("superseded_by" in data):
        problems.append("superseded and superseded_by must go together")
    undecided = data["rule"]["name"] == modelled.RULE and data["state"] == "inconclusive"
    if "kept_although" in data and data["state"] != "rejected" and not undecided:
        problems.append("kept_although is for a rejected round whose code stays")
    return problems + _evidence_problems(data)


def _evidence_problems(data: dict[str, Any]) -> list[str]:
    evidence = data["evidence"]
    if data["measurement"]:
        expected = f"measured:{data['measurement']['chip']}"
        return [] if evidence == expected else [f"evidence is {evidence}, expected {expected}"]
    if evidence.startswith("measured:") or evidence == "inherited":
        return [f"evidence is {evidence} without such a measurement"]
    if (evidence == "simulated") != ("simulation" in data):
        return ["evidence simulated and a simulation must go together"]
    verdict = round_page.verdict_state(data)
    if verdict in ("adopted", "rejected", "inconclusive") and evidence == "predicted":
        return [f"{verdict} on a prediction alone"]
    if verdict == "adopted" and data["backend"] not in UNMEASURED_BACKENDS:
        return [f"adopted without a measurement, which only {' and '.join(UNMEASURED_BACKENDS)} rounds may be"]
    return []


def relation_problems(tank: Tank, data: dict[str, Any]) -> list[str]:
    """Problems of the rounds that this one names: they must exist and precede it."""
    numbers = [int(folder.name[:4]) for folder in tank.round_dirs()]
    problems = []
    for name, number in (("parent", data["parent"]), ("rule.noise_round", data["rule"]["noise_round"])):
        if number is not None and (number not in numbers or number >= data["number"]):
            problems.append(f"{name} is {number}, expected an earlier round")
    noise = data["rule"]["noise_round"]
    if noise in numbers and data["measurement"]:
        problems += origin.noise_problems(data, tank.get(noise), tank.env(data["measurement"]["run"]))
    if data.get("superseded_by") is not None and data["superseded_by"] not in numbers:
        problems.append(f"superseded_by {data['superseded_by']} does not exist")
    expected = ("noise-floor-v1",) if data["kind"] == "noise-floor" else ("faster-v1", *CHIPLESS_RULES)
    if data["rule"]["name"] not in expected:
        problems.append(f"rule is {data['rule']['name']}, expected {' or '.join(expected)} for kind {data['kind']}")
    if data["rule"]["name"] in CHIPLESS_RULES and data["backend"] not in UNMEASURED_BACKENDS:
        problems.append(
            f"rule {data['rule']['name']} is for {' or '.join(UNMEASURED_BACKENDS)}, not for {data['backend']}"
        )
    return problems


def measurement_problems(tank: Tank, data: dict[str, Any]) -> list[str]:
    """Compares the measurement with one computed from the raw samples, and the verdict with its rule."""
    stored = data["measurement"]
    if stored is None:
        return []
    run, content = stored["run"], read_bytes(tank.samples_path(stored["run"]))
    if digest(content) != stored["samples_sha256"]:
        return [f"runs/{run}.jsonl.gz: digest differs from measurement.samples_sha256"]
    env = tank.env(run)
    if env_digest(env) != stored["env_sha256"]:
        return [f"environment of run {run}: digest differs from measurement.env_sha256"]
    problems = [f"environment of run {run}: {problem}" for problem in env_problems(env)]
    if not problems and chip_name(env) != stored["chip"]:
        problems.append(f"measurement.chip is {stored['chip']}, the run's environment says {chip_name(env)}")
    problems += origin.origin_problems(tank, data, env, content, run)
    found = stats.compare(tank.samples(run), data["base"]["variant"], data["candidate"]["variant"], stored["seed"])
    if stored["seed"] != stats.SEED:
        problems.append(f"measurement.seed is {stored['seed']}, fixed at {stats.SEED}")
    problems += [
        f"measurement.{place} is {old}, the samples give {new}"
        for place, old, new in _differences(found, {key: stored.get(key) for key in found})
    ]
    state, reason = judge(data, noise_or_none(tank, data))
    verdict = data["verdict"] or {}
    claimed = verdict.get("state"), verdict.get("reason")
    if claimed != (state, reason):
        problems.append(f"verdict is {claimed[0]} ({claimed[1]}), the rule gives {state} ({reason})")
    return problems


def _differences(found: Any, stored: Any, place: str = "") -> list[tuple[str, Any, Any]]:
    if isinstance(found, dict) and isinstance(stored, dict):
        keys = list(found) + [key for key in stored if key not in found]
        return [
            difference
            for key in keys
            for difference in _differences(found.get(key), stored.get(key), f"{place}.{key}" if place else key)
        ]
    return [] if found == stored else [(place, stored, found)]


def git_problems(tank: Tank, data: dict[str, Any]) -> list[str]:
    """Problems of the order in git: prediction, unchanged since, then samples and measurement."""
    stored = data["measurement"]
    if stored is None:
        return []
    problems = []
    for side in ("base", "candidate"):
        commit = data[side]["commit"]
        if tank.commit(commit or "") is None:
            problems.append(f"{side}.commit {commit} is not in this repository")
    if "reconstructed" in data:
        return problems + reconstruction_problems(tank, data)
    commit = tank.prediction_commit(data)
    if commit is None:
        return [*problems, "no commit holds this prediction, as it stands, before a measurement"]
    if commit != stored["prediction_commit"]:
        problems.append(f"measurement.prediction_commit is {stored['prediction_commit'][:9]}, git says {commit[:9]}")
    for found in tank.added(tank.samples_path(stored["run"])):
        if found == commit or not tank.is_ancestor(commit, found):
            problems.append(
                f"run {stored['run']} was committed in {found[:9]}, which does not come after the prediction "
                f"({commit[:9]})"
            )
    taken = tank.commit(str(tank.env(stored["run"]).get("commit", "")))
    if taken and not tank.is_ancestor(commit, taken):
        problems.append(f"env.json was taken at {taken[:9]}, which does not hold the prediction ({commit[:9]})")
    return problems


def reconstruction_problems(tank: Tank, data: dict[str, Any]) -> list[str]:
    """A change may be written down after the fact only if a measured round builds on it; a new idea is predicted."""
    made = tank.commit(data["reconstructed"]["from"])
    if made is None:
        return [f"reconstructed.from {data['reconstructed']['from']} is not in this repository"]
    later = [other for other in tank.all() if other["measurement"] and "reconstructed" not in other]
    bases = [tank.commit(other["base"]["commit"] or "") for other in later]
    if not any(base and tank.is_ancestor(made, base) for base in bases):
        return [f"reconstructed.from {made[:9]}: no measured round builds on it; a new idea is predicted"]
    return []


def round_problems(tank: Tank, folder: Path, history: bool) -> list[str]:
    """All problems of one round."""
    data = tank.load(folder)
    problems = schema_problems(data)
    if problems:
        return problems
    if round_page.round_id(data) != folder.name:
        return [f"number and slug give {round_page.round_id(data)}"]
    problems = state_problems(data) + relation_problems(tank, data)
    if not {"inherited", "reconstructed"} & data.keys() and data["state"] not in ("draft", "blocked"):
        problems += prediction_problems(data, round_shapes(data, tank.root))
    try:
        problems += measurement_problems(tank, data) + modelled.problems(tank, data)
        problems += modelled.again_problems(tank, data)
    except (RoundError, ValueError) as error:
        problems.append(str(error))
    if history:
        problems += git_problems(tank, data) + modelled.git_problems(tank, data)
    problems += text_problems(tank, data)
    return problems


# --- all of it ------------------------------------------------------------------------------------------
def check(tank: Tank) -> tuple[list[str], list[str]]:
    """`(notes, problems)` of the whole record."""
    with tank.unchanging():
        return _check(tank)


def _check(tank: Tank) -> tuple[list[str], list[str]]:
    notes, problems = [], []
    history = tank.has_history()
    if not history:
        notes.append("no full git history here: the order of prediction and measurement is not checked")
    for folder in tank.round_dirs():
        problems += [f"{folder.name}: {problem}" for problem in round_problems(tank, folder, history)]
    numbers = [folder.name[:4] for folder in tank.round_dirs()]
    problems += [f"round number {n} is used twice" for n in sorted({n for n in numbers if numbers.count(n) > 1})]
    slugs = [folder.name[5:] for folder in tank.round_dirs()]
    problems += [f"slug {s!r} is used twice" for s in sorted({s for s in slugs if slugs.count(s) > 1})]
    if history:
        problems += origin.older_problems(tank)
    problems += ledger.problems(tank)
    used = {data[kind]["run"] for data in tank.all() for kind in ("measurement", "model") if data.get(kind)}
    used |= {data["judged_again"]["model"]["run"] for data in tank.all() if "judged_again" in data}
    stored = tank.stored_runs() | tank.environments().keys()
    problems += [f"run {name}: no round refers to it" for name in sorted(stored - used)]
    if problems:
        return notes, problems
    for path, text in expected_texts(tank).items():
        if not path.is_file() or path.read_text() != text:
            problems.append(f"{tank.relative(path)}: generated blocks are out of date; run `make rounds-render`")
    return notes, problems + plot_problems(tank) + figure_problems(tank)


def plot_problems(tank: Tank) -> list[str]:
    """Problems of progress.png: it must show the rounds as they are."""
    path = tank.dir / "progress.png"
    if not path.is_file():
        return [f"{tank.relative(path)} is missing; run `make rounds-render`"]
    if png_digest(path) != series_digest(shape_series(tank, tank.all())):
        return [f"{tank.relative(path)} does not show the present rounds; run `make rounds-render`"]
    return []


def figure_problems(tank: Tank) -> list[str]:
    """Wrong or unlinked figures in the record's prose and in the README."""
    problems = []
    for path in (*(tank.dir / name for name in ("README.md", "LEARNINGS.md", "BELIEFS.md")), tank.root / "README.md"):
        if path.is_file():
            problems += prose_problems(path.read_text(), path.parent, tank.relative(path))
    for folder in tank.round_dirs():
        path = folder / "round.md"
        if not path.is_file():  # a lost round's text that is in git alone
            continue
        text, where = path.read_text(), tank.relative(path)
        problems += link_problems(text, folder, where)
        # Only a verdict must link each figure: a pitch does arithmetic of its own.
        match = re.search(r"^## Verdict\n.*?(?=^## |\Z)", text, re.MULTILINE | re.DOTALL)
        problems += prose_problems(match.group(), folder, f"{where} (Verdict)") if match else []
    return problems + learnings_problems(tank)


def learnings_problems(tank: Tank) -> list[str]:
    """Learnings that do not link the round they come from."""
    path = tank.dir / "LEARNINGS.md"
    items = re.findall(r"^- .*(?:\n  .*)*", path.read_text(), re.MULTILINE) if path.is_file() else []
    problems = []
    for item in items:
        links = re.findall(r"\]\((rounds/\d{4}-[a-z0-9-]+)/round\.md\)", item)
        if not links or not all((tank.dir / link).is_dir() for link in links):
            problems.append(f"shark_tank/LEARNINGS.md: {item.splitlines()[0][:60]!r} is not linked to a round")
    return problems
