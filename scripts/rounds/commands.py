"""Adds, measures, judges and checks optimisation rounds; shark_tank/RULES.md lists the steps."""

from __future__ import annotations

import argparse
import contextlib
import sys
from pathlib import Path
from typing import Any

from scripts.common.gpu_backends import CHOICES
from scripts.rounds import check as rounds_check
from scripts.rounds import rerun as rounds_rerun
from scripts.rounds.model import (
    FINAL,
    VIEWPOINTS,
    RoundError,
    Tank,
    prediction_problems,
    round_shapes,
)
from scripts.rounds.pages import round_page
from scripts.rounds.steps import advance, measure, model, render, today, write_round

ROOT = Path(__file__).resolve().parents[2]
DEFAULT_BUILD = "make build"
WRITING = (
    "new",
    "predict",
    "measure",
    "model",
    "close",
    "finish",
)  # a refusal leaves nothing behind
COSTS = ("lines", "registers", "shared_bytes")


def new(tank: Tank, args: argparse.Namespace) -> None:
    """Create a draft."""
    taken = {int(folder.name[:4]): folder.name for folder in tank.round_dirs()}
    number = args.number or max(taken, default=0) + 1
    if number in taken:
        raise RoundError(f"round {number} exists: {tank.find(number).name}")
    if args.slug in (name[5:] for name in taken.values()):
        raise RoundError(f"slug {args.slug!r} is taken; give a second try of an idea another name")
    if args.base == args.candidate:
        raise RoundError(f"base and candidate are one variant, {args.base!r}")
    for other in filter(None, (args.parent, args.noise_round)):
        if other != number:
            tank.find(other)
    noise = tank.get(args.noise_round) if args.noise_round else None
    if noise and noise["kind"] == "noise-floor" and noise["backend"] != args.backend:
        raise RoundError(f"--noise-round {args.noise_round}: its noise floor is of backend {noise['backend']}")
    kind = "noise-floor" if args.noise_floor else "change"
    rule = (
        "noise-floor-v1" if args.noise_floor
        else "modelled-v1" if args.modelled
        else "faster-v1"
    )  # fmt: skip
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
        "history": [{"state": "draft", "date": today()}],
    }
    if args.shapes:
        data["shapes"] = [shape for shape in args.shapes.split(";" if ";" in args.shapes else ",") if shape]
    if args.reconstructed:
        before, _, why = args.reconstructed.partition(":")
        data["reconstructed"] = {"from": tank.commit(before.strip()) or before, "why": why.strip()}
    folder = tank.rounds_dir / round_page.round_id(data)
    folder.mkdir(parents=True)
    tank.save(data)
    (folder / "round.md").write_text(round_page.new_round_md(data))
    render(tank)
    print(f"{tank.relative(folder)}: fill round.md, then `./nvfp4 rounds predict {number} ...`")


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
    """Fill in and validate the prediction; commit it before any measurement."""
    data = tank.get(args.number)
    if "reconstructed" in data:
        raise RoundError(f"round {args.number} is reconstructed: its outcome was known, so it has no prediction")
    if data["measurement"]:
        raise RoundError(f"round {args.number} is measured; its prediction is closed")
    prediction = data["prediction"] or {"shapes": {}, "viewpoints": {}}
    shapes = round_shapes(data, tank.root)
    if args.all:
        prediction["shapes"] |= {shape: _interval(args.all) for shape in shapes}
    for item in args.shape or []:
        shape, _, interval = item.partition("=")
        if shape not in shapes:
            raise RoundError(f"shape {shape!r}: not a shape of this round; expected one of {', '.join(shapes)}")
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
    print(f"round {args.number}: {round_page.state_text(data)}")


def finish(tank: Tank, args: argparse.Namespace) -> None:
    """Note what would reopen a round that has ended, why it ended so, and what the change costs."""
    data = tank.get(args.number)
    if data["verdict"] is None:
        raise RoundError(f"round {args.number} is {data['state']}: it has no verdict yet")
    data["reopen_if"] = args.reopen_if or data["reopen_if"]
    data["verdict"]["why"] = args.why or data["verdict"]["why"]
    for name in COSTS:
        given = getattr(args, name)
        data["cost"][name] = data["cost"][name] if given is None else given
    write_round(tank, data)
    print(f"round {args.number}: noted; now `make rounds-check`, and commit")


def check(tank: Tank, args: argparse.Namespace) -> None:
    """Report every problem of the record; exit 1 if there is one."""
    notes, problems = rounds_check.check(tank)
    for note in notes:
        print(f"note: {note}")
    if problems:
        raise RoundError("\n".join(problems))
    print(f"{len(tank.round_dirs())} rounds: all checks hold")


def show(tank: Tank, args: argparse.Namespace) -> None:
    """Print a round's page with its tables of prediction and measurement."""
    data = tank.get(args.number)
    text = round_page.page_text(tank.find(args.number), data)
    print(round_page.whole_page(data, text, rounds_check.noise_or_none(tank, data)), end="")


def results(_tank: Tank, args: argparse.Namespace) -> None:
    """Write the generated tables of README.md, RESULTS.md and scripts/release/README.md."""
    from scripts.rounds import results as pages  # imports torch

    stale = pages.write(args.check)
    if stale and args.check:
        raise RoundError(f"{', '.join(stale)}: tables are not current; run `./nvfp4 rounds results`")


def rerun(tank: Tank, args: argparse.Namespace) -> None:
    """Build both commits, measure again, report whether the verdict holds."""
    raise SystemExit(rounds_rerun.rerun(tank, args.number))


def parser() -> argparse.ArgumentParser:
    """The command line."""
    top = argparse.ArgumentParser(prog="./nvfp4 rounds", description=__doc__)
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
    sub.add_argument("--backend", required=True, choices=CHOICES)
    sub.add_argument("--base", required=True, metavar="VARIANT", help="variant name of the base in the samples")
    sub.add_argument("--candidate", required=True, metavar="VARIANT")
    sub.add_argument(
        "--shapes",
        metavar="MxNxK,...",
        help="shapes to measure, with semicolons between them if they are lists of groups; default: the benchmark's",
    )
    sub.add_argument("--noise-round", type=int, metavar="N", help="the A/A round whose noise floor the rule uses")
    sub.add_argument("--noise-floor", action="store_true", help="this round is an A/A run")
    sub.add_argument(
        "--reconstructed",
        metavar="'COMMIT: why'",
        help="a change that was made without a round: its commit, and why there was none",
    )
    sub.add_argument("--modelled", action="store_true", help="no chip: the simulator's clock judges")

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
    sub.add_argument("--command", help="how to measure again; {samples} and others as in round.schema.json")
    sub.add_argument("--build", default=DEFAULT_BUILD)
    sub.add_argument("--why", help="one line for the tables")

    sub = command("model", model)
    sub.add_argument("--times", type=Path, required=True, help="JSON of simulator/calibration/calls/model_times.py")
    sub.add_argument("--run", required=True, help="name under shark_tank/runs")
    sub.add_argument("--why", help="one line for the tables")

    sub = command("close", close)
    sub.add_argument("--state", required=True, choices=FINAL)
    sub.add_argument("--reason")
    sub.add_argument("--why")
    sub.add_argument("--evidence", choices=("judged", "simulated", "compiled", "predicted"))
    sub.add_argument("--by", type=int, metavar="N")

    sub = command("finish", finish)
    sub.add_argument("--reopen-if", metavar="'WHAT'", help="the change of circumstances that would reopen it")
    sub.add_argument("--why", help="one line for the tables")
    for name in COSTS:
        sub.add_argument(f"--{name.replace('_', '-')}", type=int, metavar="N")

    command("show", show)
    command("check", check, number=False)
    command("render", lambda tank, _: render(tank), number=False)
    command("rerun", rerun)
    sub = command("results", results, number=False)
    sub.add_argument("--check", action="store_true", help="write nothing; exit with 1 if a page is not current")
    return top


def main(argv: list[str] | None = None) -> int:
    """Entry point; returns the exit status."""
    args = parser().parse_args(argv)
    tank = Tank(args.root)
    try:
        with tank.unchanged_on_refusal() if args.command_name in WRITING else contextlib.nullcontext():
            args.run_command(tank, args)
    except (RoundError, ValueError) as error:
        print(f"rounds: {error}", file=sys.stderr)
        return 1
    return 0
