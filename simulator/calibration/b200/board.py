"""Chip files for the leaderboard's B200, whose SM clock under load nobody published.

The clock is one unknown, fitted on one public row (FITTED) so that its predicted time is the published one; every
other public row validates.  Mechanisms that were measured on an H200 and that no published B200 row shows or refutes
are left out of the chip's file; the variant "with" has them, as on an H200 or scaled, and a clock of its own.
A time between the two variants is all that the published rows support.
"""

from __future__ import annotations

import json
from pathlib import Path
from typing import Any

from simulator.calibration.rows import CHIPS

FITTED = ("Nareg Megan v2", "256x4096x7168")
CLOCK_GHZ = {"without": 1.39, "with": 1.42}
# wgmma's and the register file's parameters concern Hopper's kernels only.  The published times of one-row products
# refute past_end_*: 5.1 and 13.0 us (pytorch/helion pull requests 3046, 3079) where they would give 9 and 21.
LEFT_OUT = ("wgmma_", "sm_registers", "past_end_")


def _parameters(chip: str) -> dict[str, dict[str, Any]]:
    return json.loads((CHIPS / f"{chip}.json").read_text())["parameters"]


def mechanisms() -> dict[str, dict[str, Any]]:
    """Parameters that only the H200's file has, for a B200."""
    h200, b200 = _parameters("h200"), _parameters("b200")
    found = {
        name: entry | {"source": "assumed: as an H200"}
        for name, entry in h200.items()
        if name not in b200 and not name.startswith(LEFT_OUT)
    }
    rates = b200["l2_load_rate"]["value"] / h200["l2_load_rate"]["value"]
    for name, value, why in (
        ("l2_shared_rate", round(h200["l2_shared_rate"]["value"] * rates), "scaled by l2_load_rate"),
        ("l2_shared_for", b200["l2_latency"]["value"], "as l2_latency; about that on an H200"),
    ):
        found[name] |= {"value": value, "source": f"assumed: {why}"}
    return found


def chip_file(variant: str, at: Path) -> Path:
    """Writes the B200's chip file of a variant of CLOCK_GHZ."""
    parameters = _parameters("b200") | (mechanisms() if variant == "with" else {})
    clock = {"value": CLOCK_GHZ[variant], "source": f"fitted on {' '.join(FITTED)}"}
    parameters["sm_clock_tensor"] = parameters["sm_clock_tensor"] | clock
    at.write_text(json.dumps({"chip": "b200", "parameters": parameters}))
    return at
