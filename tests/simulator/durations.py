"""How long the launches of a simulator took on its chip's clock, in a line that two runs can be compared by."""

from __future__ import annotations

import hashlib
import json
from pathlib import Path

from scripts.common.ptxsim import Sim


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
