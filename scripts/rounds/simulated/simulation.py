"""Rounds that are judged on the simulator's counts: takes in a run, checks it, shows it."""

from __future__ import annotations

import gzip
import json
from pathlib import Path
from typing import Any

from scripts.rounds.model import COUNTERS, RoundError, Tank, digest, read_bytes
from scripts.rounds.stats import shape_key

RATIO_DIGITS = 6


def counters_path(tank: Tank, run: str) -> Path:
    """The file of a run's counters."""
    return tank.runs_dir / f"{run}{COUNTERS}"


def load_counters(content: bytes, name: str) -> dict[str, Any]:
    """`{"command", "counters": {variant: {shape: {counter: number}}}, "correct": {variant: {mode: verdict}}}`."""
    try:
        data = json.loads(content)
        for variant, shapes in data["counters"].items():
            for shape, counters in shapes.items():
                if not all(isinstance(value, int | float) and value >= 0 for value in counters.values()):
                    raise ValueError(f"{variant}, {shape}: counters are numbers from 0 on")
        if set(data["correct"]) != set(data["counters"]) or not isinstance(data["command"], str):
            raise ValueError("expected the same variants under counters and correct, and a command")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RoundError(f"{name}: {error!r}") from error
    return data


def store(tank: Tank, source: Path, run: str) -> None:
    """Stores a run's counters once; RoundError if another run has that name."""
    content = read_bytes(source)
    load_counters(content, str(source))
    path = counters_path(tank, run)
    if path.exists() and read_bytes(path) != content:
        raise RoundError(f"run {run} exists with other counters; give another --run")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content, mtime=0))


def compare(tank: Tank, run: str, base: str, candidate: str) -> dict[str, Any]:
    """Counts of both variants by shape; RoundError if a variant is missing or gives wrong results."""
    path = counters_path(tank, run)
    data = load_counters(read_bytes(path), tank.relative(path))
    for variant in (base, candidate):
        if variant not in data["counters"]:
            raise RoundError(f"run {run} has no variant {variant!r}; it has {', '.join(data['counters'])}")
        wrong = [mode for mode, found in data["correct"][variant].items() if not found["right"]]
        if wrong or not data["correct"][variant]:
            raise RoundError(f"run {run}: {variant} gives wrong results or was not checked ({', '.join(wrong)})")
    shapes = {}
    if len({tuple(counts) for variant in (base, candidate) for counts in data["counters"][variant].values()}) > 1:
        raise RoundError(f"run {run}: {base} and {candidate} do not have the same counters")
    both = data["counters"][base].keys() & data["counters"][candidate].keys()
    for shape in sorted(both, key=shape_key):
        of_base, of_candidate = data["counters"][base][shape], data["counters"][candidate][shape]
        shapes[shape] = {
            name: {
                "base": of_base[name],
                "candidate": of_candidate[name],
                "ratio": round(of_candidate[name] / of_base[name], RATIO_DIGITS) if of_base[name] else None,
            }
            for name in of_base
        }
    if not shapes:
        raise RoundError(f"run {run} has no shape with both {base!r} and {candidate!r}")
    return shapes


def simulation_of(tank: Tank, data: dict[str, Any], run: str, prediction_commit: str) -> dict[str, Any]:
    """The block `simulation` of a round."""
    return {
        "run": run,
        "counters_sha256": digest(read_bytes(counters_path(tank, run))),
        "prediction_commit": prediction_commit,
        "shapes": compare(tank, run, data["base"]["variant"], data["candidate"]["variant"]),
    }


def simulation_problems(tank: Tank, data: dict[str, Any]) -> list[str]:
    """Compares the stored block with the stored counters."""
    stored = data.get("simulation")
    if stored is None:
        return []
    found = simulation_of(tank, data, stored["run"], stored["prediction_commit"])
    return [f"simulation.{key} is not what runs/{stored['run']} gives" for key in found if found[key] != stored[key]]


def git_problems(tank: Tank, data: dict[str, Any]) -> list[str]:
    """Problems of the order in git: prediction, unchanged since, then counters."""
    stored = data.get("simulation")
    if stored is None:
        return []
    commit = tank.prediction_commit(data)
    if commit != stored["prediction_commit"]:
        return [f"simulation.prediction_commit is {stored['prediction_commit'][:9]}, git says {(commit or 'none')[:9]}"]
    return [
        f"run {stored['run']} was committed in {found[:9]}, which does not come after the prediction ({commit[:9]})"
        for found in tank.added(counters_path(tank, stored["run"]))
        if found == commit or not tank.is_ancestor(commit, found)
    ]


def block(data: dict[str, Any]) -> str:
    """The section Measurement of a round's page: counts of base and candidate."""
    found = data["simulation"]
    shapes = list(found["shapes"])
    rows, equal = [], []
    for name in found["shapes"][shapes[0]]:
        entries = [found["shapes"][shape][name] for shape in shapes]
        if all(entry["base"] == entry["candidate"] for entry in entries):
            equal.append(name)
        else:
            rows.append([name, *map(_cell, entries)])
    head = ["counted", *(shape.replace("x", " ") for shape in shapes)]
    lines = [head, ["---"] + ["---:"] * len(shapes), *rows]
    return (
        f"Simulated, run [{found['run']}](../../runs/{found['run']}{COUNTERS}): counts of one call, base to "
        "candidate (ratio). They are no times. Prediction committed in "
        f"{found['prediction_commit'][:9]}.\n\n"
        + "\n".join(f"| {' | '.join(line)} |" for line in lines)
        + (f"\n\nEqual in both: {', '.join(equal)}." if equal else "")
    )


def _cell(entry: dict[str, Any]) -> str:
    ratio = "" if entry["ratio"] is None else f" ({entry['ratio']:.3f})"
    return f"{entry['base']:,} to {entry['candidate']:,}{ratio}"
