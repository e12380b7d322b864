"""Rounds that the simulator's clock judges: takes in a run of simulated times, judges it, shows it."""

from __future__ import annotations

import json
from pathlib import Path
from statistics import geometric_mean
from typing import Any

from scripts.rounds.model import TIMES, RoundError, Tank, digest, read_bytes, round_shapes
from scripts.rounds.stats import MAX_SHAPE_RATIO, shape_key
from simulator.python.markdown import table

RULE, EVIDENCE = "modelled-v1", "timed:model"
RATIO_DIGITS = 6


def times_path(tank: Tank, run: str) -> Path:
    """The file of a run's times."""
    return tank.runs_dir / f"{run}{TIMES}"


def load_times(content: bytes, name: str) -> dict[str, Any]:
    """The JSON of simulator.calibration.calls.model_times: us by variant and shape, the model's error in percent."""
    try:
        data = json.loads(content)
        values = [us for shapes in data["times"].values() for us in shapes.values()]
        if not values or not all(isinstance(us, int | float) and us > 0 for us in values):
            raise ValueError("times are numbers above 0")
        if not 0 < data["error"]["percent"] < 100 or not data["error"]["source"]:
            raise ValueError("error: expected percent and source")
        if not (data["chip_sha256"] and data["command"] and data["commits"].keys() == data["times"].keys()):
            raise ValueError("expected chip_sha256, command, and a commit for each variant")
    except (ValueError, KeyError, TypeError, AttributeError) as error:
        raise RoundError(f"{name}: {error!r}") from error
    return data


def model_of(tank: Tank, data: dict[str, Any], run: str, prediction_commit: str) -> dict[str, Any]:
    """The block `model` of a round; RoundError if the run lacks a variant or a shape."""
    path = times_path(tank, run)
    found = load_times(read_bytes(path), tank.relative(path))
    shapes = {}
    for shape in sorted(round_shapes(data, tank.root), key=shape_key):
        try:
            base, candidate = (found["times"][data[side]["variant"]][shape] for side in ("base", "candidate"))
        except KeyError as error:
            raise RoundError(f"run {run}: no time of {error} for both variants of round {data['number']}") from error
        shapes[shape] = {"base_us": base, "candidate_us": candidate, "ratio": round(candidate / base, RATIO_DIGITS)}
    ratios = (entry["candidate_us"] / entry["base_us"] for entry in shapes.values())
    return {
        "run": run,
        "times_sha256": digest(read_bytes(path)),
        "chip_sha256": found["chip_sha256"],
        "prediction_commit": prediction_commit,
        "error_percent": found["error"]["percent"],
        "shapes": shapes,
        "geomean": round(geometric_mean(ratios), RATIO_DIGITS),
    }


def judge(model: dict[str, Any]) -> tuple[str, str]:
    """Rule modelled-v1: `(state, reason)`.  A gain that is smaller than the model's error decides nothing."""
    ratio, error = model["geomean"], model["error_percent"]
    worst = max(model["shapes"], key=lambda shape: model["shapes"][shape]["ratio"])
    slowest = model["shapes"][worst]["ratio"]
    text = f"geomean ratio {ratio:.4f} on the clock"
    if ratio >= 1:
        return "rejected", f"{text} is no gain"
    if slowest > MAX_SHAPE_RATIO:
        return "rejected", f"{text}, but {worst} is at {slowest:.4f}, over {MAX_SHAPE_RATIO:.2f}"
    if ratio >= 1 - error / 100:
        return "inconclusive", f"{text} is a gain within the model's error, {error:.1f} %"
    return "adopted", f"{text} is a gain beyond the model's error, {error:.1f} %; worst shape {worst} at {slowest:.4f}"


def problems(tank: Tank, data: dict[str, Any]) -> list[str]:
    """Compares the stored block with the stored times, and the verdict with its rule."""
    stored = data.get("model")
    if (stored is None) != (data["evidence"] != EVIDENCE):
        return [f"evidence {EVIDENCE} and a model's times must go together"]
    if stored is None:
        return []
    found = model_of(tank, data, stored["run"], stored["prediction_commit"])
    wrong = [f"model.{key} is not what runs/{stored['run']} gives" for key in found if found[key] != stored[key]]
    if data["rule"]["name"] != RULE:
        wrong.append(f"rule is {data['rule']['name']}, expected {RULE} where the clock judges")
    verdict = data["verdict"] or {}
    if (verdict.get("state"), verdict.get("reason")) != judge(stored):
        wrong.append(f"verdict is {verdict.get('state')}, the rule gives {' ('.join(judge(stored))})")
    commits = load_times(read_bytes(times_path(tank, stored["run"])), stored["run"])["commits"]
    wrong += [
        f"{side}.commit is not the one that the run names"
        for side in ("base", "candidate")
        if data[side]["commit"] != commits[data[side]["variant"]]
    ]
    return wrong


def git_problems(tank: Tank, data: dict[str, Any]) -> list[str]:
    """Problems of the order in git: prediction, unchanged since, then times."""
    stored = data.get("model")
    if stored is None:
        return []
    commit = tank.prediction_commit(data)
    if commit != stored["prediction_commit"]:
        return [f"model.prediction_commit is {stored['prediction_commit'][:9]}, git says {(commit or 'none')[:9]}"]
    return [
        f"run {stored['run']} was committed in {found[:9]}, which does not come after the prediction ({commit[:9]})"
        for found in tank.added(times_path(tank, stored["run"]))
        if found == commit or not tank.is_ancestor(commit, found)
    ]


def again_problems(tank: Tank, data: dict[str, Any]) -> list[str]:
    """Compares a second judgement with its stored times and its rule."""
    stored = data.get("judged_again")
    if stored is None:
        return []
    if "simulation" not in data:
        return ["judged_again is for a round that was judged on counts"]
    wrong = []
    found = model_of(tank, data, stored["model"]["run"], data["simulation"]["prediction_commit"])
    state, reason = judge(found)
    if stored != {"date": stored["date"], "state": state, "reason": reason, "model": found}:
        wrong.append(f"judged_again is not what runs/{stored['model']['run']} gives")
    run = stored["model"]["run"]
    commits = load_times(read_bytes(times_path(tank, run)), run)["commits"]
    wrong += [
        f"judged_again: {side}.commit is not the one that the run names"
        for side in ("base", "candidate")
        if data[side]["commit"] != commits[data[side]["variant"]]
    ]
    return wrong


def again_text(data: dict[str, Any]) -> str:
    """The second judgement, below the verdict in round.md."""
    stored = data["judged_again"]
    state = stored["state"] + (" (by the clock)" if stored["state"] == "adopted" else "")
    return (
        f"(Added {stored['date']}: judged again on the simulator's clock, evidence {EVIDENCE}, rule {RULE}: "
        f"**{state}**: {stored['reason']}. The verdict above stays what the counts gave.)"
    )


def again_table(data: dict[str, Any]) -> str:
    """The times of the second judgement."""
    return text_of(data["judged_again"]["model"], data["prediction"]["shapes"])


def block(data: dict[str, Any]) -> str:
    """The section Measurement of a round's page."""
    return text_of(data["model"], data["prediction"]["shapes"])


def text_of(found: dict[str, Any], predicted: dict[str, list[float]]) -> str:
    """A table of a run's times next to the prediction."""
    rows = []
    for shape, entry in found["shapes"].items():
        low, high = predicted[shape]
        hit = "inside" if low <= entry["ratio"] <= high else "outside"
        rows.append(
            [shape.replace("x", " "), f"{entry['base_us']:.2f}", f"{entry['candidate_us']:.2f}",
             f"{entry['ratio']:.4f}", f"{low:.3f} to {high:.3f}, {hit}"]
        )  # fmt: skip
    rows.append(["geomean", "", "", f"{found['geomean']:.4f}", ""])
    return (
        f"**Simulated time, not measured**: run [{found['run']}](../../runs/{found['run']}{TIMES}), a call "
        "after others on the simulator's clock of a B200. The model's error on a whole kernel: "
        f"{found['error_percent']:.1f} %. "
        f"Prediction committed in {found['prediction_commit'][:9]}.\n\n"
        + table(["M N K", "base, us (simulated)", "candidate, us (simulated)", "ratio", "predicted"], rows, 4)
    )
