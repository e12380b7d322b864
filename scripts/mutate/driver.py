"""Draws a sample of an area's faults, plants one after another, and reports those that no test notices."""

from __future__ import annotations

import random
import threading
import time
from collections import Counter
from collections.abc import Callable, Iterable
from dataclasses import dataclass, field
from pathlib import Path

from scripts.mutate.areas import Area, area_tests, matching
from scripts.mutate.operators import C_SUFFIXES, Fault, faults
from scripts.mutate.workspace import Workspace, bytecode

# With a fault, tests may take this many times as long as without; after that they count as hanging, hence caught.
TIME_FACTOR, TIME_ADDED_S = 4.0, 60.0
BASELINE_LIMIT_S = 3600.0
COUNTED = ("caught", "survived")


@dataclass(frozen=True)
class Result:
    """A fault's outcome: caught, survived, equivalent (same machine code or bytecode) or unbuildable."""

    fault: Fault
    before: str
    after: str
    outcome: str

    def text(self) -> str:
        """The place, and the line before and after."""
        return f"{self.fault.path}:{self.fault.line}  [{self.fault.operator}]\n  - {self.before}\n  + {self.after}"


@dataclass
class AreaRun:
    """An area's results, or why it could not be run."""

    name: str
    results: list[Result] = field(default_factory=list)
    problem: str = ""

    def counts(self) -> Counter[str]:
        """The number of faults by outcome."""
        return Counter(result.outcome for result in self.results)

    def score(self) -> float | None:
        """The share of the counted faults that were caught."""
        counts = self.counts()
        counted = sum(counts[name] for name in COUNTED)
        return counts["caught"] / counted if counted else None


def sample(root: Path, files: Iterable[str], seed: str) -> list[Fault]:
    """All faults of some files in a random order: first one of each line, then a second of each line, and so on.

    Drawing lines first lets a line full of constants count no more than a `break`.
    """
    draw = random.Random(seed)
    by_line: dict[tuple[str, int], list[Fault]] = {}
    for path in sorted(files):
        for fault in faults(path, (root / path).read_bytes()):
            by_line.setdefault((path, fault.line), []).append(fault)
    for found in by_line.values():
        draw.shuffle(found)
    lines = list(by_line.values())
    draw.shuffle(lines)
    most = max(map(len, lines), default=0)
    return [line[turn] for turn in range(most) for line in lines if turn < len(line)]


def changed_lines(source: bytes, fault: Fault) -> tuple[str, str]:
    """The lines that a fault touches, before and after, each joined to one line."""
    start = source.rfind(b"\n", 0, fault.start) + 1
    end = source.find(b"\n", fault.end)
    end = len(source) if end < 0 else end
    after = source[start : fault.start] + fault.text + source[fault.end : end]
    return " ".join(source[start:end].decode().split()), " ".join(after.decode().split())


def plant(area: Area, tests: list[str], fault: Fault, workspace: Workspace, clean: str, limit_s: float) -> Result:
    """Plants one fault, builds, runs the tests, and restores the file."""
    target = workspace.folder / fault.path
    source = target.read_bytes()
    faulty = fault.apply(source)

    def result(outcome: str) -> Result:
        return Result(fault, *changed_lines(source, fault), outcome)

    if fault.path.endswith(".py"):
        code = bytecode(faulty, fault.path)
        if code is None or code == bytecode(source, fault.path):
            return result("unbuildable" if code is None else "equivalent")
    try:
        target.write_bytes(faulty)
        if workspace.build(area.targets).returncode != 0:
            return result("unbuildable")
        if area.targets and Path(fault.path).suffix in C_SUFFIXES and workspace.fingerprint() == clean:
            return result("equivalent")
        return result("survived" if workspace.test(tests, limit_s).returncode == 0 else "caught")
    finally:
        target.write_bytes(source)


def run_area(
    name: str,
    area: Area,
    chosen: list[Fault],
    workspaces: list[Workspace],
    count: int,
    deadline: float,
    report: Callable[[Result], None],
) -> AreaRun:
    """Plants faults in the order given, a thread a workspace, until `count` of them counted or the time is up."""
    run = AreaRun(name)
    for workspace in workspaces:
        built = workspace.build(area.targets)
        if built.returncode != 0:
            run.problem = f"does not build:\n{built.output[-2000:]}"
            return run
    root = workspaces[0].folder
    base = workspaces[0].test(area_tests(root, area), BASELINE_LIMIT_S)
    if base.returncode != 0:
        run.problem = f"the tests fail without a fault:\n{base.output[-3000:]}"
        return run
    limit_s = TIME_ADDED_S + TIME_FACTOR * base.seconds
    changed, queue, running = threading.Condition(), iter(chosen), 0

    def take() -> Fault | None:
        """The next fault, but never more than would be needed if all that run now count."""
        nonlocal running
        with changed:
            while (counted := sum(run.counts()[name] for name in COUNTED)) < count and time.monotonic() < deadline:
                if counted + running < count:
                    fault = next(queue, None)
                    running += fault is not None
                    return fault
                changed.wait(1.0)
        return None

    def work(workspace: Workspace) -> None:
        nonlocal running
        clean = workspace.fingerprint()
        while (fault := take()) is not None:
            result = plant(area, area_tests(root, area, fault.path), fault, workspace, clean, limit_s)
            with changed:
                running -= 1
                run.results.append(result)
                report(result)
                changed.notify_all()

    threads = [threading.Thread(target=work, args=(workspace,), daemon=True) for workspace in workspaces]
    for thread in threads:
        thread.start()
    for thread in threads:
        while thread.is_alive():
            thread.join(1.0)
    return run


def faults_of(root: Path, name: str, area: Area, files: list[str] | None, seed: int) -> list[Fault]:
    """An area's faults in the order to plant them in; `files` limits them to these."""
    wanted = [file for file in matching(root, area.files) if not files or file in files]
    return sample(root, wanted, f"{seed}:{name}")
