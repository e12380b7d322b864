"""The GPU backends of the library, one line each: scripts take names, chips and bundle targets from here."""

from __future__ import annotations

import re
from typing import NamedTuple


class GpuBackend(NamedTuple):
    """A backend's facts; its name is that of its folder in submission/."""

    title: str  # its name in tables
    capabilities: tuple[str, ...]  # compute capabilities that it runs on
    chips: re.Pattern[str]  # matches the names of its devices
    target: str  # name of its bundle (scripts/release/bundle_targets.py)


GPU_BACKENDS = {
    "hopper": GpuBackend("Hopper", ("9.0",), re.compile(r"\b(H100|H200|H800|H20|GH200)\b"), "h200"),
    "blackwell": GpuBackend("Blackwell", ("10.0", "10.3"), re.compile(r"\b(B200|B300|GB200|GB300)\b"), "b200"),
    "geforce": GpuBackend(
        "GeForce", ("12.0", "12.1"), re.compile(r"\b(RTX (50\d\d|PRO \d000 Blackwell)|GB10)\b"), "geforce"
    ),
}
CHOICES = ("cpu", *GPU_BACKENDS)  # values of --backend


def backend_of_major(major: int) -> str | None:
    """The backend that runs on devices of this major compute capability; None if there is none."""
    return next((name for name, one in GPU_BACKENDS.items() if one.capabilities[0].split(".")[0] == str(major)), None)
