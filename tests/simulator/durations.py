"""How long a launch takes on a chip's clock: what the report says of it, and the same launch made with time beside."""

from __future__ import annotations

import hashlib
import json
from collections.abc import Callable
from pathlib import Path

from scripts.common.ptxsim import Sim

LIMIT = 100_000  # instructions of a warp: what has no end of its own ends there
CHIPS = {"sm_100": "b200", "sm_103": "b200", "sm_120": "rtx5090", "sm_121": "rtx5090"}


def summary(sim: Sim, folder: Path) -> str:
    """The cycles so far and of the last kernel, and a digest of all else that the report says of time."""
    told = json.loads(sim.report(folder / "report.json"))["time"]
    told = {name: value for name, value in told.items() if name not in ("chip", "error")}  # a path; another page's
    text = json.dumps(told, sort_keys=True)
    if sim.timeline:
        trace = json.loads(sim.report(folder / "trace.json", "sim_print_timeline"))
        text += json.dumps(trace["traceEvents"], sort_keys=True)
    digest = hashlib.sha256(text.encode()).hexdigest()[:8]
    return f"{told['cycles']} {told['kernel_cycles']} {digest}"


def chip_of(text: str) -> str:
    """The chip that a module's target is one of; the H200 for older ones."""
    target = text.partition(".target")[2][:12]
    return next((chip for name, chip in CHIPS.items() if name in target), "h200")


def duration(sim: Sim, text: str, folder: Path, launch: Callable[..., int], *arguments, **options) -> str:
    """What the launch takes on a simulator of its own; memory is afterwards as it was before."""
    kept = [(array, array.copy()) for array in sim.keep]
    try:
        timed = Sim(text, limit=LIMIT, chip=chip_of(text))
        for array in sim.keep:
            timed.register(array)
        status = launch(timed, *arguments, **options)
        return summary(timed, folder) if status == 0 else f"ends with {status}"
    finally:
        for array, before in kept:
            array[...] = before
