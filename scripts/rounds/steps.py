"""Steps that write measurements, counts or simulated times to the record, and the end that all steps share."""

from __future__ import annotations

import argparse
import datetime
import gzip
import json
from pathlib import Path
from typing import Any

from scripts.rounds import check as rounds_check
from scripts.rounds import modelled, origin
from scripts.rounds import stats as rounds_stats
from scripts.rounds.model import (
    RoundError,
    Tank,
    chip_name,
    digest,
    env_digest,
    env_problems,
    parse_samples,
    read_bytes,
    round_shapes,
    transitions,
)


def today() -> str:
    """The date of today, UTC."""
    return datetime.datetime.now(datetime.UTC).date().isoformat()


def advance(data: dict[str, Any], state: str) -> None:
    """Moves a round to a state; RoundError if the rules do not allow that transition."""
    following = transitions(data)[data["state"]]
    if state not in following:
        allowed = ", ".join(following) or "nothing"
        raise RoundError(f"round {data['number']}: cannot go from {data['state']} to {state}; allowed: {allowed}")
    data["state"] = state
    data["history"].append({"state": state, "date": today()})


def write_round(tank: Tank, data: dict[str, Any]) -> None:
    """Save round.json, then bring round.md and the tables up to date."""
    tank.save(data)
    render(tank)


def render(tank: Tank) -> None:
    """Regenerate every generated block; other text stays."""
    for path, text in rounds_check.expected_texts(tank).items():
        path.write_text(text)
    if rounds_check.plot_problems(tank):
        # Imported here: matplotlib takes long to import, and is needed only if the plot is out of date.
        from scripts.history import site

        site.write_progress(tank, tank.dir / "progress.png")


def read_run(samples: Path, env_path: Path) -> tuple[bytes, dict[str, Any]]:
    """Reads raw samples and environment from a GPU machine; RoundError if one has another form."""
    content, env_bytes = read_bytes(samples), read_bytes(env_path)
    try:
        env = json.loads(env_bytes)
    except json.JSONDecodeError as error:
        raise RoundError(f"{env_path}: {getattr(error, 'strerror', None) or error}") from error
    problems = env_problems(env)
    if problems:
        raise RoundError(f"{env_path}: " + "; ".join(problems))
    parse_samples(content, str(samples))
    return content, env


def store_run(tank: Tank, content: bytes, env: dict[str, Any], name: str | None) -> str:
    """Put a run's samples and environment under shark_tank/runs once; returns the run's name."""
    wanted, environments = digest(content), tank.environments()
    for stored in sorted(environments):
        if digest(read_bytes(tank.samples_path(stored))) == wanted:
            if name not in (None, stored):
                raise RoundError(f"--run {name}: these samples are already stored as {stored}")
            if environments[stored] != env:
                raise RoundError(f"--env: {stored}, which has these samples, is stored with another environment")
            return stored
    run = name or f"{today()}-{wanted[:8]}"
    if run in environments:
        raise RoundError(f"run {run} exists with other samples; give another --run")
    tank.save_environments(environments | {run: env})
    tank.samples_path(run).write_bytes(gzip.compress(content, mtime=0))
    return run


def _may_be_measured(tank: Tank, args: argparse.Namespace, data: dict[str, Any]) -> str | None:
    """The commit of the round's prediction, None for a reconstructed round; RoundError if it may not be measured."""
    before = "draft" if "reconstructed" in data else "predicted"
    if data["state"] != before:
        raise RoundError(f"round {args.number} is {data['state']}; only a {before} round can be measured")
    for side in ("base", "candidate"):
        given = getattr(args, side)
        if given and given != data[side]["variant"]:
            raise RoundError(
                f"--{side} {given}: the committed prediction is about {data[side]['variant']!r}; commit a changed "
                "prediction first"
            )
    if data["rule"]["name"] in rounds_check.CHIPLESS_RULES:
        raise RoundError(f"round {args.number} has a rule without times; measure the idea in a new round")
    if "reconstructed" in data:
        return None
    commit = tank.prediction_commit(data)
    if commit is None:
        raise RoundError(f"round {args.number}: its present prediction is in no commit; commit it, then measure")
    return commit


def _name_commits(tank: Tank, args: argparse.Namespace, data: dict[str, Any], env: dict[str, Any]) -> None:
    """Sets the commits of base and candidate: as given, else as the variant's name begins, else the environment's."""
    taken = tank.commit(str(env.get("commit", ""))) or tank.commit("HEAD")
    for side, given in (("base", args.base_commit), ("candidate", args.candidate_commit)):
        if given and not tank.commit(given):
            raise RoundError(f"--{side}-commit {given}: not a commit of this repository")
        before, slash, _ = data[side]["variant"].partition("/")
        named = tank.commit(before) if slash else None
        data[side]["commit"] = tank.commit(given or data[side]["commit"] or "") or named or taken


def measure(tank: Tank, args: argparse.Namespace) -> None:
    """Take in raw samples: compute ratios, apply the rule, write the record."""
    data = tank.get(args.number)
    commit = _may_be_measured(tank, args, data)
    noise = tank.get(data["rule"]["noise_round"]) if data["rule"]["name"] == "faster-v1" else None
    band = rounds_check.noise_measurement(tank, data) if noise else None
    content, env = read_run(args.samples, args.env)
    found = rounds_stats.compare(
        parse_samples(content, str(args.samples)), data["base"]["variant"], data["candidate"]["variant"]
    )
    missing = [shape for shape in round_shapes(data, tank.root) if shape not in found["shapes"]]
    if missing:
        raise RoundError(f"samples lack the shapes {', '.join(missing)}")
    _name_commits(tank, args, data, env)
    run = store_run(tank, content, env, args.run)
    other_floor = origin.noise_problems(data, noise, env) if noise else []
    origin.require(other_floor + origin.origin_problems(tank, data, env, content, run))
    data["measurement"] = {
        "run": run,
        "samples_sha256": digest(content),
        "env_sha256": env_digest(env),
        "chip": chip_name(env),
        "prediction_commit": commit,
        **found,
    }
    data["evidence"] = f"measured:{chip_name(env)}"
    if args.command:
        data["command"] = args.command
        data["build"] = args.build
    advance(data, "measured")
    state, reason = rounds_check.judge(data, band)
    data["verdict"] = {"state": state, "reason": reason, "why": args.why or ""}
    advance(data, state)
    write_round(tank, data)
    print(f"round {args.number}: {state}: {reason}")
    print(f"Now write Verdict, Cost and What would reopen it, then `./nvfp4 rounds finish {args.number} ...`")


def _take_times(tank: Tank, run: str, times: Path) -> dict[str, str]:
    """Stores a run of simulated times once; returns the commit of each variant."""
    content = read_bytes(times)
    commits = modelled.load_times(content, str(times))["commits"]
    path = modelled.times_path(tank, run)
    if path.exists() and read_bytes(path) != content:
        raise RoundError(f"run {run} exists with other times; give another --run")
    path.parent.mkdir(parents=True, exist_ok=True)
    path.write_bytes(gzip.compress(content, mtime=0))
    return commits


def model(tank: Tank, args: argparse.Namespace) -> None:
    """Take in times of the simulator's clock (simulator.calibration.calls.model_times): ratios and verdict."""
    data = tank.get(args.number)
    if data["state"] != "predicted" or data["rule"]["name"] != modelled.RULE:
        raise RoundError(f"round {args.number}: only a predicted round of rule {modelled.RULE} takes the clock's times")
    commit = tank.prediction_commit(data)
    if commit is None:
        raise RoundError(f"round {args.number}: its present prediction is in no commit; commit it, then simulate")
    commits = _take_times(tank, args.run, args.times)
    data["model"] = modelled.model_of(tank, data, args.run, commit)
    for side in ("base", "candidate"):
        data[side]["commit"] = tank.commit(commits[data[side]["variant"]])
    data["evidence"] = modelled.EVIDENCE
    state, reason = modelled.judge(data["model"])
    data["verdict"] = {"state": state, "reason": reason, "why": args.why or ""}
    advance(data, state)
    write_round(tank, data)
    print(f"round {args.number}: {state}: {reason}")
