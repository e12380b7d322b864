"""Loads of tiles that several SMs share, on the B200's clock: the rate that all SMs get together.

    python -m simulator.calibration.b200 FOLDER sharing     # the checkout in FOLDER

The program is tma2dmcast_throughput of SemiAnalysisAI/microbench-blackwell, not committed, with ROUNDS rounds of each
CTA (theirs reads 2 GB).  Its tiles stay uninitialised, since no value is read.  Four warps of each of 148 CTAs load a
tile, wait for it and then for the cluster: the CTAs of a cluster load the same tile one by one (mode 0) or by one
multicast (1) or load their own (2), or CTAs without a cluster load the same (3).  Of the published 540 rows those with
rows of 512 bytes are compared.  Tiles of 8, 16, 32 and 56 KB validate.  Tiles of 2 and 4 KB calibrate the cluster
barrier that ends a round: fence_gpu_copies, cluster_barrier_wake.
"""

from __future__ import annotations

import csv
import re
from dataclasses import dataclass
from pathlib import Path

from simulator.calibration.rows import Row

PART = "tma2dmcast_throughput"
GROUP = "sharing"
WIDTH, HEIGHTS = "128", ("16", "32", "64", "112")  # floats a row, and rows, of a tile
FITTED_HEIGHTS = ("4", "8")
WARPS, SMS, ROUNDS = 4, 148, 24
MODES = {"0": "clusters, the same tile", "1": "clusters, multicast", "2": "clusters, own tiles", "3": "no clusters"}
VOLUME = (
    "constexpr size_t MAX_DATA_VOLUME = (size_t){rounds} * {warps} * (SMEM_WIDTH) * (SMEM_HEIGHT) * 4"
    " * (USE_MULTICAST == 3 ? {sms} / (SHARING_GROUP_SIZE) : {sms});"
)


@dataclass(frozen=True)
class Shared:
    """A published row."""

    mode: str
    cluster: str
    group: str
    height: str
    rate: float  # TB/s that all SMs got

    @property
    def macros(self) -> dict[str, str]:
        return {
            "USE_MULTICAST": self.mode, "CLUSTER_SIZE": self.cluster, "SHARING_GROUP_SIZE": self.group,
            "SMEM_WIDTH": WIDTH, "SMEM_HEIGHT": self.height,
        }  # fmt: skip

    @property
    def tile(self) -> int:
        return 4 * int(WIDTH) * int(self.height)

    @property
    def delivered(self) -> int:
        """Bytes that the CTAs load in ROUNDS rounds; CTAs beyond the last whole group do not run."""
        group = int(self.group if self.mode == "3" else self.cluster)
        return ROUNDS * WARPS * self.tile * (SMS // group * group)

    def row(self, us: float) -> Row:
        text = f"{MODES[self.mode]}, shared by {1 if self.mode == '2' else self.group}"
        text += f", clusters of {self.cluster}" if self.mode == "2" else ""
        predicted = self.delivered / us * 1e-6
        use = "calibrated" if self.height in FITTED_HEIGHTS else "validated"
        return Row(GROUP, "tma load", f"{text}, bytes {self.tile}", "TB/s", predicted, self.rate, use)


def published(folder: Path) -> dict[tuple[str, str, str], list[Shared]]:
    """The compared rows by mode, cluster and group; each combination is a program."""
    found: dict[tuple[str, str, str], list[Shared]] = {}
    for row in csv.DictReader((folder / PART / "tma2dmcast_sweep_results.csv").open()):
        if row["smem_width"] == WIDTH and row["smem_height"] in (*FITTED_HEIGHTS, *HEIGHTS):
            got = float(row["tma_ld_bytes_self"]) + float(row["tma_ld_bytes_mcast"])
            key = row["mode"], row["cluster_size"], row["sharing_group"]
            rate = got / float(row["gpu_time_ns"]) * 1e-3
            found.setdefault(key, []).append(Shared(*key, row["smem_height"], rate))
    return found


def shortened(text: str) -> str:
    """The program with ROUNDS rounds and without its tiles' initialisation."""
    volume = VOLUME.format(rounds=ROUNDS, warps=WARPS, sms=SMS)
    return re.sub("constexpr size_t MAX_DATA_VOLUME = .*", volume, text).replace("data[i] = rand();", "break;")
