"""The sample, and what becomes of each fault in it."""

from __future__ import annotations

import json
import random
import threading
import time
import tomllib
from collections.abc import Callable, Iterable
from dataclasses import asdict, dataclass, field
from pathlib import Path

from scripts.mutate.area import Area, named_tests
from scripts.mutate.operators import C_SUFFIXES, Fault, faults
from scripts.mutate.order import own_tests, wider_tests
from scripts.mutate.workspace import Run, Workspace, bytecode, first_failure

JUDGED = Path(__file__).with_name("equivalent.toml")
# Tests of a planted fault may take this many times as long as without it; what takes longer hangs.
TIME_FACTOR, TIME_ADDED_S = 4.0, 60.0
WIDER_LIMIT_S = 3600.0
COUNTED = {"caught", "survived"}
EVERYTHING = ("build", "test-programs")


@dataclass(frozen=True)
class Result:
    """What became of one fault: caught, survived, equivalent (same code), judged (by hand) or unbuildable."""

    area: str
    file: str
    line: int
    operator: str
    before: str
    after: str
    outcome: str
    by: str = ""
    seconds: float = 0.0
    id: str = ""
    phase: str = ""  # of what was caught: by the area's own tests, or by wider ones


@dataclass
class AreaRun:
    """An area's results, or why it could not be run."""

    name: str
    results: list[Result] = field(default_factory=list)
    problem: str = ""
    baseline_s: float = 0.0


def sample(root: Path, area: str, files: Iterable[str], seed: int) -> list[Fault]:
    """Every fault of an area's files in the order to plant them in: lines are drawn, then one fault a line.

    Lines, not faults, are drawn, so that a line full of constants counts no more than a `break`; faults left on a
    line come in later rounds.  The order depends on the seed and the files' text alone.
    """
    draw = random.Random(f"{seed}:{area}")
    lines: list[list[Fault]] = []
    for path in sorted(files):
        by_line: dict[int, list[Fault]] = {}
        for fault in faults(path, (root / path).read_bytes()):
            by_line.setdefault(fault.line, []).append(fault)
        for line in sorted(by_line):
            kinds: dict[str, list[Fault]] = {}
            for fault in by_line[line]:
                kinds.setdefault(fault.operator, []).append(fault)
            order = []
            while kinds:
                kind = draw.choice(sorted(kinds))
                order.append(kinds[kind].pop(draw.randrange(len(kinds[kind]))))
                if not kinds[kind]:
                    del kinds[kind]
            lines.append(order)
    draw.shuffle(lines)
    ordered: list[Fault] = []
    while lines:
        ordered += [line.pop(0) for line in lines]
        lines = [line for line in lines if line]
    return ordered


def changed_lines(source: bytes, fault: Fault) -> tuple[str, str]:
    """The text of the lines that a fault touches, before and after, as one line each."""
    start = source.rfind(b"\n", 0, fault.start) + 1
    end = source.find(b"\n", fault.end)
    end = len(source) if end < 0 else end
    after = source[start : fault.start] + fault.text + source[fault.end : end]
    return " ".join(source[start:end].decode().split()), " ".join(after.decode().split())


def judged(path: Path = JUDGED) -> set[tuple[str, str, str]]:
    """Faults that change nothing that anyone could observe, judged by hand: file, before, after."""
    entries = tomllib.loads(path.read_text()).get("equivalent", []) if path.is_file() else []
    return {(entry["file"], entry["before"], entry["after"]) for entry in entries}


@dataclass
class Driver:
    """Plants the sample of one area after another in the copies, a thread a copy."""

    root: Path
    workspaces: list[Workspace]
    report: Callable[[AreaRun, Result | None], None]
    known: dict[str, Result] = field(default_factory=dict)
    wider: str = "around"  # or none, or suite

    def run_area(self, name: str, area: Area, chosen: list[Fault], count: int, deadline: float) -> AreaRun:
        """Plants faults in the order given until `count` of them counted or the time is up."""
        run = AreaRun(name)
        tests = named_tests(self.root, area.tests)
        wider = self.wider == "suite" or (self.wider == "around" and bool(area.wider))
        for workspace in self.workspaces:
            built = workspace.build((*area.targets, *(EVERYTHING if wider else ())))
            if built.returncode != 0:
                run.problem = f"does not build here:\n{built.output[-2000:]}"
                return run
        base = self.workspaces[0].test(tests, 3600.0, area.environment)
        if base.returncode != 0:
            run.problem = f"the tests fail before any fault is planted:\n{base.output[-3000:]}"
            return run
        run.baseline_s = base.seconds
        prints = [workspace.fingerprint(area.targets) for workspace in self.workspaces]
        changed, by_hand, queue = threading.Condition(), judged(), iter(chosen)
        running = 0

        def take() -> Fault | None:
            """The next fault: never one more than would be needed if all that run now count."""
            nonlocal running
            with changed:
                while True:
                    counted = sum(result.outcome in COUNTED for result in run.results)
                    if counted >= count or time.monotonic() > deadline:
                        return None
                    if counted + running < count:
                        fault = next(queue, None)
                        running += fault is not None
                        return fault
                    changed.wait(1.0)

        def work(workspace: Workspace, clean: str) -> None:
            nonlocal running
            while (fault := take()) is not None:
                try:
                    result = self.plant(name, area, fault, workspace, clean, base, by_hand)
                except OSError as error:
                    with changed:
                        running -= 1
                        run.problem = f"ended early: {error}"
                        changed.notify_all()
                    return
                with changed:
                    running -= 1
                    run.results.append(result)
                    self.report(run, result)
                    changed.notify_all()

        threads = [
            threading.Thread(target=work, args=pair, daemon=True) for pair in zip(self.workspaces, prints, strict=True)
        ]
        for thread in threads:
            thread.start()
        for thread in threads:
            while thread.is_alive():
                thread.join(1.0)
        return run

    def plant(
        self,
        name: str,
        area: Area,
        fault: Fault,
        workspace: Workspace,
        clean: str,
        base: Run,
        by_hand: set[tuple[str, str, str]],
    ) -> Result:
        """Plants one fault, builds, runs the tests, and takes it out again."""
        target = workspace.folder / fault.path
        source = target.read_bytes()
        before, after = changed_lines(source, fault)
        identity = fault.identity(source)
        if identity in self.known:
            return self.known[identity]
        start = time.monotonic()

        def result(outcome: str, by: str = "") -> Result:
            seconds = round(time.monotonic() - start, 1)
            phase = ("wider" if asked_wider else "own") if outcome == "caught" else ""
            what = (name, fault.path, fault.line, fault.operator, before, after)
            return Result(*what, outcome, by, seconds, identity, phase)

        asked_wider = False

        if (fault.path, before, after) in by_hand:
            return result("judged")
        faulty = fault.apply(source)
        compiled = Path(fault.path).suffix in C_SUFFIXES
        if fault.path.endswith(".py"):
            code = bytecode(faulty, fault.path)
            if code is None:
                return result("unbuildable")
            if code == bytecode(source, fault.path):
                return result("equivalent")
        tests = own_tests(self.root, area, fault.path)
        wider = [] if self.wider == "none" else wider_tests(self.root, area, fault.path, self.wider == "suite")
        try:
            target.write_bytes(faulty)
            built = workspace.build(area.targets)
            if built.returncode != 0:
                return result("unbuildable") if compiled else result("caught", "make")
            if compiled and workspace.fingerprint(area.targets) == clean:
                return result("equivalent")
            tested = workspace.test(tests, TIME_ADDED_S + TIME_FACTOR * base.seconds, area.environment)
            if tested.returncode is None:
                return result("caught", "time limit")
            asked_wider = tested.returncode == 0 and bool(wider)
            if asked_wider and workspace.build(EVERYTHING).returncode == 0:
                tested = workspace.test(wider, WIDER_LIMIT_S, area.environment)
            return result("survived") if not tested.returncode else result("caught", first_failure(tested.output))
        finally:
            target.write_bytes(source)
            if asked_wider:  # what else was built with the fault in it is not to differ from the clean build
                workspace.build(EVERYTHING)


def read_results(path: Path) -> dict[str, Result]:
    """The results of an earlier run, by the fault's identity."""
    if not path.is_file():
        return {}
    return {entry["id"]: Result(**entry) for entry in json.loads(path.read_text())["faults"]}


def write_results(path: Path, seed: int, runs: Iterable[AreaRun]) -> None:
    """Writes everything found so far; a reader never sees half a file."""
    runs = list(runs)
    data = {
        "seed": seed,
        "problems": {run.name: run.problem for run in runs if run.problem},
        "faults": [asdict(result) for run in runs for result in run.results],
    }
    scratch = path.with_suffix(".part")
    scratch.write_text(json.dumps(data, indent=1) + "\n")
    scratch.replace(path)
