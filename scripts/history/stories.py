"""The history's stories: for each problem where its kernel began, what each kept round was worth, and where it stands.

shark_tank/stories.toml tells them; its head explains the fields.
"""

from __future__ import annotations

import re
import tomllib
from dataclasses import dataclass
from statistics import geometric_mean
from typing import Any

from scripts.common import measured
from scripts.rounds import ledger
from scripts.rounds.model import Tank
from scripts.rounds.pages.tables import chapter
from simulator.calibration.calls.board_times import board_text, clock_errors
from simulator.calibration.calls.geforce import floors
from simulator.python.markdown import table

STORIES_FILE = "stories.toml"
COLUMNS = {"h200_gemm": "M N K L", "h200_gemv": "M K L"}  # of a data set's shapes


@dataclass
class Step:
    """A kept round: us before and after it; percent of the time without it where the story's kind says so."""

    number: int
    words: str
    before_us: float
    after_us: float

    @property
    def ratio(self) -> float:
        return self.after_us / self.before_us


@dataclass
class Story:
    """One problem; `told` is its entry of stories.toml."""

    told: dict[str, Any]
    steps: list[Step]
    now: str  # table in Markdown: ours and the peer at each shape
    now_us: float | None = None  # geometric mean of ours over the table's shapes
    of_peer: float | None = None

    @property
    def start_us(self) -> float | None:
        """The time before the first step; None where steps do not follow each other."""
        return self.steps[0].before_us if self.steps and self.told["kind"] != "without" else None

    @property
    def unit(self) -> str:
        """What the bars of `steps` count."""
        return "% of the time without it" if self.told["kind"] == "without" else "us a call, geometric mean"

    @property
    def sentence(self) -> str:
        """What the figure and the table show together."""
        if self.told["kind"] == "none":
            return "No round was made for this kernel."
        if self.told["kind"] == "without":
            return "Each bar: the time that one feature leaves of the time without it, both in one simulation."
        last = self.steps[-1].after_us
        share = last / self.start_us
        text = f"{self.start_us:.1f} us before the first step, {last:.1f} after the last: {share:.2f} of the time."
        if len(self.steps) == 1:
            text = f"The round that was kept: {self.steps[0].number:04d} {self.steps[0].words}. {text}"
        newest = " The newest measurement of today's kernel, another run, is {:.1f} us."
        return text + (newest.format(self.now_us) if self.now_us else "")


def _ledger_steps(tank: Tank, words: dict[int, str]) -> list[Step]:
    found = ledger.load(tank)
    steps = found.steps if found else []
    return [
        Step(step.number, words.get(step.number, step.title), step.base_us, step.candidate_us)
        for step in steps
        if step.ratio is not None
    ]


def _chain(rounds: dict[int, dict[str, Any]], told: dict[str, Any]) -> list[Step]:
    """Steps from the first round's base on; a shape that a round did not measure keeps its time."""
    steps: list[Step] = []
    first = rounds[told["steps"][0]["round"]]["measurement"]["shapes"]
    times = {shape: first[shape]["base_us"] for shape in told["shapes"]}
    for entry in told["steps"]:
        measured_shapes = rounds[entry["round"]]["measurement"]["shapes"]
        after = {
            shape: us * (measured_shapes[shape]["ratio"] if shape in measured_shapes else 1.0)
            for shape, us in times.items()
        }
        steps.append(Step(entry["round"], entry["words"], *(geometric_mean(t.values()) for t in (times, after))))
        times = after
    return steps


def _without(rounds: dict[int, dict[str, Any]], told: dict[str, Any]) -> list[Step]:
    steps = []
    for entry in told["steps"]:
        shapes = rounds[entry["round"]]["model"]["shapes"].values()
        before, after = (geometric_mean(shape[side] for shape in shapes) for side in ("base_us", "candidate_us"))
        steps.append(Step(entry["round"], entry["words"], 100.0, 100.0 * after / before))
    return steps


def _beside(head: list[str], rows: list[tuple[str, float, float]], unit: str) -> tuple[str, float, float]:
    """The table of (shape, ours, peer), the mean of ours, and the mean ratio. `head` names shapes and peer."""
    peer = re.split("[,:]", head[1])[0]  # its name
    ratio = geometric_mean(ours / peer for _, ours, peer in rows)
    ours = geometric_mean(ours for _, ours, _ in rows)
    cells = [[shape.replace("x", " "), f"{a:.1f}", f"{b:.1f}", f"{a / b:.2f}"] for shape, a, b in rows]
    cells.append(["geometric mean", f"{ours:.1f}", f"{geometric_mean(b for *_, b in rows):.1f}", f"{ratio:.3f}"])
    return table([f"{head[0]}, {unit}", "ours", peer, "ours / its time"], cells, 3), ours, ratio


def _now(tank: Tank, told: dict[str, Any]) -> tuple[str, float | None, float | None]:
    now, words = told["now"], told["now"]["peer_words"]
    if "data" in now:
        times = measured.load(now["data"], tank.dir / "data")["median_us"]
        batches = {shape.removesuffix("x1"): shape for shape in times[now["ours"]]}  # one batch has no name in a round
        shapes = [batches.get(shape, shape) for shape in told.get("shapes", times[now["ours"]])]
        rows = [(shape, times[now["ours"]][shape], times[now["peer"]][shape]) for shape in shapes]
        return _beside([COLUMNS.get(now["data"], "M N K"), words], rows, "us a call")
    if "cpu" in now:
        shapes = measured.load(now["cpu"], tank.dir / "data")["shapes"]
        rows = [(f"{row['m']}x{row['n']}x{row['k']}", row["ours, ms"], row["same job, ms"]) for row in shapes]
        text, _, ratio = _beside(["M N K", words], rows, "ms a call")
        return text, None, ratio
    if "geforce" in now:
        ours = measured.read(tank.root / now["geforce"])["ours"]
        rows = [("x".join(map(str, row["shape"])), row["alone_us"], max(floors(*row["shape"]))) for row in ours]
        return _beside(["M N K", words], rows, "us a call alone, simulated")
    return board_text(), None, None


def load(tank: Tank) -> list[Story]:
    """All stories; none without stories.toml."""
    path = tank.dir / STORIES_FILE
    if not path.is_file():
        return []
    rounds = {data["number"]: data for data in tank.all()}
    found = []
    for told in tomllib.loads(path.read_text().replace("{clock_errors}", clock_errors()))["story"]:
        words = {step["round"]: step["words"] for step in told.get("steps", [])}
        kinds = {
            "ledger": lambda words=words: _ledger_steps(tank, words),
            "chain": lambda told=told: _chain(rounds, told),
            "without": lambda told=told: _without(rounds, told),
            "none": list,
        }
        found.append(Story(told, kinds[told["kind"]](), *_now(tank, told)))
    return found


def problems(tank: Tank) -> list[str]:
    """Steps that are not adopted rounds, and adopted rounds of a chapter with a story that are neither steps nor
    explained."""
    where = f"shark_tank/{STORIES_FILE}"
    rounds = {data["number"]: data for data in tank.all()}
    found, explained = [], {int(number) for number in (ledger.read(tank) or {"elsewhere": {}})["elsewhere"]}
    for story in load(tank):
        steps = {step.number for step in story.steps}
        found += [f"{where}: round {n} was not adopted" for n in sorted(steps) if rounds[n]["state"] != "adopted"]
        for number, data in rounds.items():
            kept = data["state"] == "adopted" and data["measurement"] and data["kind"] == "change"
            if kept and chapter(data) in story.told["chapters"] and number not in steps | explained:
                found.append(f"{where}: round {number} was adopted: make it a step of {story.told['id']!r}")
    return found
