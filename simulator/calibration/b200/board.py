"""Chip files for the leaderboard's B200, whose SM clock under load nobody published.

The clock is one unknown, fitted on one public row (FITTED) so that its predicted time is the published one; every
other public row validates.  A time is a range of two variants, each with a clock of its own:
    without   PTX is timed, without the mechanisms that were measured on an H200 only;
    with      machine code is timed, with them, as on an H200 or scaled (the "machine" values of the chip's file).
Wherever published B200 rows do not decide between the two, a choice of ours has to win in both.
"""

from __future__ import annotations

import json
import tempfile
from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from simulator.calibration.rows import parameters_of

FITTED = ("Nareg Megan v2", "256x4096x7168")
CLOCK_GHZ = {"without": 1.39, "with": 1.48}
BY_PTX = "without"
BY_MACHINE_CODE = ("with",)
# Missing from the B200's file.  wgmma's and the register file's parameters concern Hopper's kernels only.  The ring's
# rows refute copy_latency_less: 2.9 to 4.3 % in the mean.  rows_latency_* move no H200 row by 1 %, and
# cluster_arrive_alone none.  Published shared tiles speak against l2_shared_* (13.2 % in the mean, 11.6 without) and
# against fences in rounds, fence_joins and fence_follows (10.7 % in the mean by machine code, 5.0 without).
LEFT_OUT = (
    "wgmma_", "sm_registers", "copy_latency_less", "l2_shared_", "rows_latency_", "cluster_arrive_alone",
    "fence_joins", "fence_follows",
)  # fmt: skip


def mechanisms() -> dict[str, dict[str, Any]]:
    """The B200's parameters that differ between the variants, each with its value without and its "machine" value."""
    return {name: entry for name, entry in parameters_of("b200").items() if "machine" in entry}


def chip_file(variant: str, at: Path) -> Path:
    """Writes the B200's chip file of a variant of CLOCK_GHZ."""
    parameters = parameters_of("b200")
    clock = {"value": CLOCK_GHZ[variant], "source": f"fitted on {' '.join(FITTED)}"}
    parameters["sm_clock_tensor"] = parameters["sm_clock_tensor"] | clock
    at.write_text(json.dumps({"chip": "b200", "parameters": parameters}))
    return at


@contextmanager
def simulated_chip(backend: str) -> Iterator[dict[str, str]]:
    """Settings that time a backend's PTX: Blackwell's at the leaderboard's clock, others on their chip's file."""
    if backend != "blackwell":
        yield {}
        return
    with tempfile.TemporaryDirectory() as folder:
        yield {"NVFP4_SIMULATE_TIME": str(chip_file(BY_PTX, Path(folder) / "b200.json"))}
