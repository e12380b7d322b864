"""The optimisation rounds: new, predict, measure, simulate, close, check, render, rerun. See shark_tank/RULES.md."""

from __future__ import annotations

import argparse
import datetime
import gzip
import json
import sys
from pathlib import Path
from typing import Any

from scripts.rounds import check as rounds_check
from scripts.rounds import render as rounds_render
from scripts.rounds import rerun as rounds_rerun
from scripts.rounds import simulation as rounds_simulation
from scripts.rounds import stats as rounds_stats
from scripts.rounds.model import (
    FINAL,
    TRANSITIONS,
    VIEWPOINTS,
    RoundError,
    Tank,
    benchmark_shapes,
    chip_name,
    digest,
    env_problems,
    parse_samples,
    prediction_problems,
    read_bytes,
    write_json,
)

ROOT = Path(__file__).resolve().parents[2]
DEFAULT_BUILD = "make build"


def advance(data: dict[str, Any], state: str) -> None:
    """Move a round to a state; RoundError when the rules do not allow that step."""
    if state not in TRANSITIONS[data["state"]]:
        allowed = ", ".join(TRANSITIONS[data["state"]]) or "nothing"
        raise RoundError(f"round {data['number']}: cannot go from {data['state']} to {state}; allowed: {allowed}")
    data["state"] = state
    data["history"].append({"state": state, "date": datetime.datetime.now(datetime.UTC).date().isoformat()})


def write_round(tank: Tank, data: dict[str, Any]) -> None:
    """Save round.json, then bring round.md and the tables up to date."""
    tank.save(data)
    render(tank)


def render(tank: Tank) -> None:
    """Regenerate every generated block; the text around them is not touched."""
    for path, text in rounds_check.expected_texts(tank).items():
        path.write_text(text)
    if rounds_check.plot_problems(tank):
        # Only now: matplotlib takes long to import, and is not needed to run rounds whose plot is current.
        from scripts.history import site

        site.write_progress(tank, tank.dir / "progress.png")


def new(tank: Tank, args: argparse.Namespace) -> None:
    """Create a draft."""
    taken = [int(folder.name[:4]) for folder in tank.round_dirs()]
    number = args.number or max(taken, default=0) + 1
    if number in taken:
        raise RoundError(f"round {number} exists: {tank.find(number).name}")
    for other in filter(None, (args.parent, args.noise_round)):
        if other != number:
            tank.find(other)
    kind = "noise-floor" if args.noise_floor else "change"
    rule = "noise-floor-v1" if args.noise_floor else "unmeasured-v1" if args.unmeasured else "faster-v1"
    data: dict[str, Any] = {
        "number": number,
        "slug": args.slug,
        "title": args.title or args.slug.replace("-", " ").capitalize(),
        "parent": args.parent,
        "backend": args.backend,
        "kind": kind,
        "state": "draft",
        "evidence": "predicted",
        "rule": {
            "name": rule,
            "noise_round": args.noise_round if rule == "faster-v1" else None,
        },
        "base": {"commit": None, "variant": args.base},
        "candidate": {"commit": None, "variant": args.candidate},
        "prediction": None,
        "measurement": None,
        "verdict": None,
        "cost": {"lines": None, "registers": None, "shared_bytes": None},
        "reopen_if": "",
        "history": [{"state": "draft", "date": datetime.datetime.now(datetime.UTC).date().isoformat()}],
    }
    folder = tank.rounds_dir / rounds_render.round_id(data)
    folder.mkdir(parents=True)
    try:
        tank.save(data)
    except RoundError:
        folder.rmdir()
        raise
    (folder / "round.md").write_text(rounds_render.new_round_md(data))
    render(tank)
    print(f"{tank.relative(folder)}: fill round.md, then `rounds.py predict {number} ...`")


def _interval(text: str) -> list[float]:
    low, _, high = text.partition(":")
    try:
        return [float(low), float(high)]
    except ValueError as error:
        raise RoundError(f"interval {text!r}: expected LOW:HIGH, e.g. 0.90:0.97") from error


def _viewpoint(text: str) -> dict[str, Any]:
    ratio, _, because = text.partition(":")
    try:
        return {"ratio": float(ratio), "because": because.strip()}
    except ValueError as error:
        raise RoundError(f"viewpoint {text!r}: expected 'RATIO: reason', e.g. '0.95: fewer waits'") from error


def predict(tank: Tank, args: argparse.Namespace) -> None:
    """Fill and validate the prediction; the round is then to be committed before any measurement."""
    data = tank.get(args.number)
    if data["measurement"]:
        raise RoundError(f"round {args.number} is measured; its prediction is closed")
    prediction = data["prediction"] or {"shapes": {}, "viewpoints": {}}
    shapes = benchmark_shapes(tank.root)
    if args.all:
        prediction["shapes"] |= {shape: _interval(args.all) for shape in shapes}
    for item in args.shape or []:
        shape, _, interval = item.partition("=")
        if shape not in shapes:
            raise RoundError(f"shape {shape!r}: not a benchmark shape; expected one of {', '.join(shapes)}")
        prediction["shapes"][shape] = _interval(interval)
    for name in VIEWPOINTS:
        if getattr(args, name):
            prediction["viewpoints"][name] = _viewpoint(getattr(args, name))
    data["prediction"] = prediction
    problems = prediction_problems(data, shapes) + rounds_check.text_problems(tank, data, upto="predicted")
    if data["rule"]["name"] == "faster-v1" and data["rule"]["noise_round"] is None:
        problems.append("rule: no noise_round; name the A/A round (`new --noise-round N`, or edit round.json)")
    if problems:
        raise RoundError("\n".join(problems))
    if data["state"] == "draft":
        advance(data, "predicted")
    write_round(tank, data)
    print(f"round {args.number}: predicted. Commit it now: the measurement is refused until git has it.")


def store_run(tank: Tank, samples: Path, env_path: Path, name: str | None) -> str:
    """Put a run's samples and environment under shark_tank/runs once; returns the run's name."""
    content, env_bytes = read_bytes(samples), read_bytes(env_path)
    try:
        env = json.loads(env_bytes)
    except json.JSONDecodeError as error:
        raise RoundError(f"{env_path}: {error}") from error
    problems = env_problems(env)
    if problems:
        raise RoundError(f"{env_path}: " + "; ".join(problems))
    parse_samples(content, str(samples))
    wanted = digest(content)
    for stored in sorted(tank.runs_dir.glob("*/samples.jsonl.gz")):
        if digest(read_bytes(stored)) == wanted:
            if name not in (None, stored.parent.name):
                raise RoundError(f"--run {name}: these samples are already stored as {stored.parent.name}")
            if tank.env(stored.parent.name) != env:
                raise RoundError(f"{env_path}: not the env.json stored with these samples in {stored.parent.name}")
            return stored.parent.name
    day = datetime.datetime.now(datetime.UTC).date().isoformat()
    run = name or f"{day}-{wanted[:8]}"
    folder = tank.runs_dir / run
    if folder.exists():
        raise RoundError(f"run {run} exists with other samples; give another --run")
    folder.mkdir(parents=True)
    (folder / "samples.jsonl.gz").write_bytes(gzip.compress(content, mtime=0))
    write_json(folder / "env.json", env)
    return run


def measure(tank: Tank, args: argparse.Namespace) -> None:
    """Take in raw samples: ratios, verdict by the rule fixed in advance, generated blocks."""
    data = tank.get(args.number)
    if data["state"] != "predicted":
        raise RoundError(f"round {args.number} is {data['state']}; only a predicted round can be measured")
    for side in ("base", "candidate"):
        given = getattr(args, side)
        if given and given != data[side]["variant"]:
            raise RoundError(
                f"--{side} {given}: the committed prediction is about {data[side]['variant']!r}; commit a changed "
                "prediction first"
            )
    commit = tank.prediction_commit(data)
    if commit is None:
        raise RoundError(f"round {args.number}: its prediction as it stands is in no commit; commit it, then measure")
    noise = None
    if data["rule"]["name"] == "unmeasured-v1":
        raise RoundError(f"round {args.number} is to end without times; measure the idea in a new round")
    if data["rule"]["name"] == "faster-v1":
        noise = rounds_check.noise_measurement(tank, data)
    run = store_run(tank, args.samples, args.env, args.run)
    env = tank.env(run)
    found = rounds_stats.compare(tank.samples(run), data["base"]["variant"], data["candidate"]["variant"])
    missing = [shape for shape in benchmark_shapes(tank.root) if shape not in found["shapes"]]
    if missing:
        raise RoundError(f"samples lack the benchmark shapes {', '.join(missing)}")
    if noise and noise["chip"] != chip_name(env):
        raise RoundError(f"chip {chip_name(env)!r}: the noise floor is of {noise['chip']!r}")
    data["measurement"] = {
        "run": run,
        "samples_sha256": digest(read_bytes(tank.samples_path(run))),
        "env_sha256": digest((tank.runs_dir / run / "env.json").read_bytes()),
        "chip": chip_name(env),
        "prediction_commit": commit,
        **found,
    }
    data["evidence"] = f"measured:{chip_name(env)}"
    default = tank.commit(str(env.get("commit", ""))) or tank.commit("HEAD")
    for side, given in (("base", args.base_commit), ("candidate", args.candidate_commit)):
        if given and not tank.commit(given):
            raise RoundError(f"--{side}-commit {given}: not a commit of this repository")
        data[side]["commit"] = tank.commit(given or data[side]["commit"] or "") or default
    if args.command:
        data["command"] = args.command
        data["build"] = args.build
    advance(data, "measured")
    state, reason = rounds_check.judge(data, noise)
    data["verdict"] = {"state": state, "reason": reason, "why": args.why or ""}
    advance(data, state)
    write_round(tank, data)
    print(f"round {args.number}: {state}: {reason}")
    print("Now fill Verdict, Cost and reopen_if, run `rounds.py render` and `rounds.py check`, and commit.")


def simulate(tank: Tank, args: argparse.Namespace) -> None:
    """Take in the simulator's counts (scripts/cost_model/counters.py); `close` then ends the round."""
    data = tank.get(args.number)
    if data["state"] != "predicted" or data["rule"]["name"] != "unmeasured-v1":
        raise RoundError(f"round {args.number}: only a predicted round of rule unmeasured-v1 takes counts")
    commit = tank.prediction_commit(data)
    if commit is None:
        raise RoundError(f"round {args.number}: its prediction as it stands is in no commit; commit it, then simulate")
    rounds_simulation.store(tank, args.counters, args.run)
    data["simulation"] = rounds_simulation.simulation_of(tank, data, args.run, commit)
    data["evidence"] = "simulated"
    for side, given in (("base", args.base_commit), ("candidate", args.candidate_commit)):
        found = tank.commit(given or "HEAD")
        if found is None:
            raise RoundError(f"--{side}-commit {given}: not a commit of this repository")
        data[side]["commit"] = found
    write_round(tank, data)
    print(f"round {args.number}: {len(data['simulation']['shapes'])} shapes counted; now `rounds.py close`")


def close(tank: Tank, args: argparse.Namespace) -> None:
    """End a round without a measurement, or supersede one."""
    data = tank.get(args.number)
    if args.state == "superseded":
        if args.by is None:
            raise RoundError("--state superseded: give --by N, the round that replaces this one")
        tank.find(args.by)
        data["superseded_by"] = args.by
    else:
        if not args.reason:
            raise RoundError(f"--state {args.state}: give --reason, what decided it")
        data["verdict"] = {"state": args.state, "reason": args.reason.rstrip("."), "why": args.why or ""}
        data["evidence"] = args.evidence or data["evidence"]
    advance(data, args.state)
    write_round(tank, data)
    print(f"round {args.number}: {rounds_render.state_text(data)}")


def check(tank: Tank, args: argparse.Namespace) -> None:
    """Report everything that does not hold; exit 1 when there is any."""
    notes, problems = rounds_check.check(tank)
    for note in notes:
        print(f"note: {note}")
    if problems:
        raise RoundError("\n".join(problems))
    print(f"{len(tank.round_dirs())} rounds: all checks hold")


def rerun(tank: Tank, args: argparse.Namespace) -> None:
    """Build both commits, measure again, say whether the verdict holds."""
    raise SystemExit(rounds_rerun.rerun(tank, args.number))


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog="python -m scripts.rounds", description=__doc__)
    top.add_argument("--root", type=Path, default=ROOT, help="repository root (default: this one)")
    commands = top.add_subparsers(dest="command_name", required=True)

    def command(name: str, run: Any, number: bool = True) -> argparse.ArgumentParser:
        sub = commands.add_parser(name, help=run.__doc__, description=run.__doc__)
        sub.set_defaults(run_command=run)
        if number:
            sub.add_argument("number", type=int, metavar="N", help="round number")
        return sub

    sub = command("new", new, number=False)
    sub.add_argument("slug", help="short name, lower case with dashes")
    sub.add_argument("--number", type=int, help="default: the next free one")
    sub.add_argument("--title")
    sub.add_argument("--parent", type=int, help="the round this builds on")
    sub.add_argument("--backend", required=True, choices=("cpu", "hopper", "blackwell"))
    sub.add_argument("--base", required=True, metavar="VARIANT", help="variant name of the base in the samples")
    sub.add_argument("--candidate", required=True, metavar="VARIANT")
    sub.add_argument("--noise-round", type=int, metavar="N", help="the A/A round whose noise floor the rule uses")
    sub.add_argument("--noise-floor", action="store_true", help="this round is an A/A run")
    sub.add_argument("--unmeasured", action="store_true", help="no chip: to be judged on the simulator's counts")

    sub = command("predict", predict)
    sub.add_argument("--all", metavar="LOW:HIGH", help="one interval for every benchmark shape")
    sub.add_argument("--shape", action="append", metavar="MxNxK=LOW:HIGH")
    for name in VIEWPOINTS:
        sub.add_argument(f"--{name}", metavar="'RATIO: reason'")

    sub = command("measure", measure)
    sub.add_argument("--samples", type=Path, required=True, help="JSON lines, may be .gz; stored once per run")
    sub.add_argument("--env", type=Path, required=True)
    sub.add_argument("--run", help="name under shark_tank/runs (default: date and digest)")
    sub.add_argument("--base", metavar="VARIANT", help="checked against the prediction")
    sub.add_argument("--candidate", metavar="VARIANT")
    sub.add_argument("--base-commit", help="default: the commit env.json names, else HEAD")
    sub.add_argument("--candidate-commit", help="likewise")
    sub.add_argument("--command", help="how to measure again; placeholders as in round.schema.json")
    sub.add_argument("--build", default=DEFAULT_BUILD)
    sub.add_argument("--why", help="one line for the tables")

    sub = command("simulate", simulate)
    sub.add_argument("--counters", type=Path, required=True, help="JSON of scripts/cost_model/counters.py")
    sub.add_argument("--run", required=True, help="name under shark_tank/runs")
    sub.add_argument("--base-commit", help="default: HEAD")
    sub.add_argument("--candidate-commit", help="likewise")

    sub = command("close", close)
    sub.add_argument("--state", required=True, choices=FINAL)
    sub.add_argument("--reason")
    sub.add_argument("--why")
    sub.add_argument("--evidence", choices=("judged", "simulated", "compiled", "predicted"))
    sub.add_argument("--by", type=int, metavar="N")

    command("check", check, number=False)
    command("render", lambda tank, _: render(tank), number=False)
    command("rerun", rerun)
    return top


def main(argv: list[str] | None = None) -> int:
    """Entry point; returns the exit status."""
    args = parser().parse_args(argv)
    try:
        args.run_command(Tank(args.root), args)
    except (RoundError, ValueError) as error:
        print(f"rounds: {error}", file=sys.stderr)
        return 1
    return 0
