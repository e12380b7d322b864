"""The ledger: the steps from the first right kernel to the present one, each an adopted round.

shark_tank/ledger.json names the steps.  A step's ratio was measured in one run, and the next step may be of another
run: the check rejects a change of time between them.  One more run timed the kernels of all steps.
"""

from __future__ import annotations

import json
import math
from dataclasses import dataclass
from statistics import geometric_mean, median
from typing import Any

from scripts.common import measured
from scripts.rounds.model import Tank
from scripts.rounds.pages.words import diff_command, percent, plain
from simulator.python.markdown import table

LEDGER_FILE = "ledger.json"
COMPARISON = "hopper_comparison"  # data set
MAX_GAP = 0.02  # largest difference of a step's candidate and the next step's base that clocks and equal tiles explain


@dataclass
class Step:
    """One adopted round of the ledger; times are geometric means over the benchmark's shapes, us."""

    number: int
    title: str
    words: str
    base_us: float | None  # None while the round is not measured
    candidate_us: float | None
    ratio: float | None
    one_run_us: float | None = None


@dataclass
class Ledger:
    """All steps, and the kernel that they start from."""

    first_us: float
    first_words: str
    steps: list[Step]
    first_one_run_us: float | None = None
    now_one_run_us: float | None = None
    run: str | None = None

    @property
    def open(self) -> list[Step]:
        """Unmeasured steps."""
        return [step for step in self.steps if step.ratio is None]

    @property
    def last_us(self) -> float:
        """The time after the last step, in its own run."""
        return next(step.candidate_us for step in reversed(self.steps) if step.candidate_us is not None)

    def gaps(self) -> list[tuple[int, int, float]]:
        """Between consecutive steps: (round, next round, the next base / this candidate)."""
        found, before, skipped = [], None, False
        for step in self.steps:
            if step.ratio is None:
                skipped = True
                continue
            if before is not None and not skipped:
                found.append((before.number, step.number, step.base_us / before.candidate_us))
            before, skipped = step, False
        return found


def read(tank: Tank) -> dict[str, Any] | None:
    """ledger.json, or None without one."""
    path = tank.dir / LEDGER_FILE
    return json.loads(path.read_text()) if path.is_file() else None


def load(tank: Tank) -> Ledger | None:
    """The ledger with its times; None without one or before its first round is measured."""
    data = read(tank)
    rounds = {entry["number"]: entry for entry in tank.all()}
    first = rounds.get(data["first"]["round"]) if data else None
    if first is None or not first["measurement"]:
        return None
    steps = []
    for entry in data["steps"]:
        found = rounds.get(entry["round"])
        if found is None:
            continue
        mean = (found["measurement"] or {}).get("geomean", {})
        times = (mean.get("base_us"), mean.get("candidate_us"), mean.get("ratio"))
        steps.append(Step(entry["round"], found["title"], plain(found), *times))
    ledger = Ledger(first["measurement"]["geomean"]["base_us"], data["first"]["words"], steps)
    _add_one_run(tank, data, ledger)
    return ledger


def _add_one_run(tank: Tank, data: dict[str, Any], ledger: Ledger) -> None:
    """Adds the times of the run that holds all steps, if it is stored."""
    run = data["one_run"]["run"]
    if not tank.samples_path(run).is_file():
        return
    means: dict[str, list[float]] = {}
    for variants in tank.samples(run).values():
        for variant, repeats in variants.items():
            means.setdefault(variant, []).append(median(repeats.values()))
    times = {variant: geometric_mean(values) for variant, values in means.items()}
    ledger.run = run
    ledger.first_one_run_us = times.get(data["first"]["variant"])
    variants = {entry["round"]: entry["variant"] for entry in data["steps"]}
    for step in ledger.steps:
        step.one_run_us = times.get(variants[step.number])
    now = next((name.removesuffix("+again") for name in times if name.endswith("/auto+again")), None)
    ledger.now_one_run_us = times.get(now)


def problems(tank: Tank) -> list[str]:
    """Adopted rounds that are neither a step nor explained, steps that were not adopted, and changes between steps."""
    data = read(tank)
    if data is None:
        return []
    where = f"shark_tank/{LEDGER_FILE}"
    rounds = {entry["number"]: entry for entry in tank.all()}
    numbers = [entry["round"] for entry in data["steps"]]
    known = {*numbers, *map(int, data["elsewhere"])}
    found = [f"{where}: step {n} is used twice" for n in sorted({n for n in numbers if numbers.count(n) > 1})]
    for number, entry in rounds.items():
        kept = (entry["verdict"] or {}).get("state") == "adopted" and entry["measurement"] and entry["kind"] == "change"
        if kept and entry["backend"] == data["backend"] and number not in known:
            found.append(f"{where}: round {number} was adopted: make it a step, or say in `elsewhere` why it is none")
    for entry in data["steps"]:
        step = rounds.get(entry["round"])
        if step is None:
            found.append(f"{where}: round {entry['round']} does not exist")
            continue
        if step["verdict"] and step["verdict"]["state"] != "adopted":
            found.append(f"{where}: round {entry['round']} is a step but was {step['verdict']['state']}")
        commit = step["candidate"]["commit"] or ""
        if commit and not commit.startswith(entry["variant"].partition("/")[0]):
            found.append(
                f"{where}: {entry['variant']} does not belong to round {entry['round']}'s candidate, {commit[:9]}"
            )
    ledger = load(tank)
    for before, after, gap in ledger.gaps() if ledger else ():
        if abs(gap - 1.0) > MAX_GAP:
            found.append(
                f"{where}: between rounds {before} and {after} the time changes by {gap - 1.0:+.1%} without a round"
            )
    return found


def headline(tank: Tank) -> dict[str, Any] | None:
    """The number at the top of README and page: from the comparison with cuBLAS after the last adopted round."""
    if not (tank.dir / "data" / f"{COMPARISON}.json").is_file():
        return None
    data = measured.load(COMPARISON, tank.dir / "data")
    # A baseline that the chip cannot run has no time.
    means = {name: geometric_mean(times.values()) for name, times in data["median_us"].items() if times}
    baseline = means.get("cublas_one_gemm")
    return {
        "us": means["auto"],
        "chip": data["chip"],
        "commit": data["commit"],
        "of_cublas": means["auto"] / baseline if baseline else None,
    }


def why_two_numbers(tank: Tank, ledger: Ledger) -> str:
    """Explains why the headline and the ledger's last time differ."""
    head = headline(tank)
    if head is None or ledger.steps[-1].ratio is None:
        return ""
    last, difference = ledger.steps[-1], 100.0 * (head["us"] / ledger.last_us - 1.0)
    return (
        f"The headline, {head['us']:.1f} us, comes from the comparison with cuBLAS after the last step "
        f"(data/{COMPARISON}.json); "
        f"round {last.number:04d}'s own run gave {ledger.last_us:.1f} us for the same kernel. They are two runs, "
        f"{abs(difference):.1f} % apart: only times of one run are compared, as ratios."
    )


def record_table(tank: Tank, base: str = "") -> str:
    """The steps in short: time, idea, and the command that shows the change; `base` is the path prefix of links."""
    ledger = load(tank)
    if ledger is None:
        return "None yet."
    rows = [["start", f"{ledger.first_us:.1f}", "", ledger.first_words, ""]]
    for at, step in enumerate(ledger.steps, 1):
        folder = tank.find(step.number)
        time, ratio = ("-", "-") if step.ratio is None else (f"{step.candidate_us:.1f}", f"{step.ratio:.3f}")
        idea = f"{step.title} ([{step.number:04d}]({base}rounds/{folder.name}/round.md))"
        diff = diff_command(tank.load(folder))
        rows.append([str(at), time, ratio, idea, f"`{diff}`" if diff else "chosen at run time"])
    return table(["step", "us", "ratio", "idea", "change"], rows)


def ledger_table(tank: Tank, base: str = "") -> str:
    """The ledger in Markdown; `base` is the path prefix of links."""
    ledger = load(tank)
    if ledger is None:
        return "None yet."
    folders = {int(folder.name[:4]): folder.name for folder in tank.round_dirs()}
    gaps = {after: gap for _, after, gap in ledger.gaps()}
    one_run = ledger.run is not None

    def us(value: float | None) -> str:
        return "-" if value is None else f"{value:.1f}"

    rows = [["", f"start: {ledger.first_words}", "", us(ledger.first_us), "", "", us(ledger.first_one_run_us)]]
    for step in ledger.steps:
        rows.append(
            [
                f"[{step.number:04d}]({base}rounds/{folders[step.number]}/round.md)",
                f"{step.title}. {step.words}",
                us(step.base_us),
                us(step.candidate_us),
                "-" if step.ratio is None else f"{step.ratio:.3f}",
                f"{gaps[step.number]:.3f}" if step.number in gaps else "",
                us(step.one_run_us),
            ]
        )
    ratios = [step.ratio for step in ledger.steps if step.ratio is not None]
    product, between = math.prod(ratios), math.prod(gaps.values())
    whole = ledger.last_us / ledger.first_us
    rows.append(["", "all steps", us(ledger.first_us), us(ledger.last_us), f"{product:.3f}", f"{between:.3f}", ""])
    if one_run:
        rows.append(["", "the newest commit, in that run", "", "", "", "", us(ledger.now_one_run_us)])
    head = ["round", "what it was", "before, us", "after, us", "ratio", "since the step before", "all in one run, us"]
    width = len(head) if one_run else len(head) - 1
    text = table(head[:width], [row[:width] for row in rows], width - 2)
    if ledger.open:
        waiting = ", ".join(f"{step.number:04d}" for step in ledger.open)
        return f"{text}\n\nNot measured yet: round {waiting}; the products are of the other steps."
    return (
        f"{text}\n\n{ledger.first_us:.1f} us x {product:.3f} (the steps) x {between:.3f} (between their runs) = "
        f"{ledger.last_us:.1f} us, {percent(whole)}. {why_two_numbers(tank, ledger)}"
    )
