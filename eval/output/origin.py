"""What a run used: the submission's libraries and their digests, the driver and the clock."""

from __future__ import annotations

import contextlib
import ctypes
import functools
import hashlib
import os
import sys
from collections.abc import Collection
from pathlib import Path
from typing import NamedTuple

import torch

from eval.hardware import chip
from eval.output.text import clean

_NVML_VERSION_BYTES = 80  # NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE


class Library(NamedTuple):
    """A shared library of the submission's own."""

    name: str
    sha256: str


@functools.lru_cache(maxsize=64)
def _digest_of(path: Path, size: int, changed_ns: int) -> str:
    with path.open("rb") as file:
        return hashlib.file_digest(file, "sha256").hexdigest()


def digest(path: Path) -> str:
    """The SHA-256 of a file; empty if it cannot be read."""
    try:
        status = path.stat()
        return _digest_of(path, status.st_size, status.st_mtime_ns)
    except OSError:
        return ""


def driver(device: torch.device) -> str | None:
    """The version of NVIDIA's driver; None on a CPU or if it cannot be read."""
    if device.type != "cuda":
        return None
    with contextlib.suppress(OSError, AttributeError):
        nvml = ctypes.CDLL("libnvidia-ml.so.1")
        text = ctypes.create_string_buffer(_NVML_VERSION_BYTES)
        if nvml.nvmlInit_v2() == 0 and nvml.nvmlSystemGetDriverVersion(text, _NVML_VERSION_BYTES) == 0:
            return text.value.decode()
    return None


def clock_mhz(device: torch.device) -> float | None:
    """The current clock of the SMs, or of the fastest processor; None if it cannot be read."""
    if device.type == "cuda":
        return chip.Clock(device).read_mhz()
    with contextlib.suppress(OSError, ValueError):
        lines = Path("/proc/cpuinfo").read_text().splitlines()
        return max(float(line.split(":")[1]) for line in lines if line.startswith("cpu MHz"))
    return None


def _system_folders() -> tuple[str, ...]:
    """Folders of libraries that are not a submission's own: the system's, Python's, torch's."""
    found = {"/lib", "/usr", "/lib64", sys.prefix, sys.base_prefix, str(Path(torch.__file__).parents[1])}
    return tuple(os.path.realpath(folder) + os.sep for folder in found)


def libraries_of(pid: int, known: Collection[Path] = ()) -> list[Library]:
    """A process's mapped libraries other than the system's, Python's, torch's and `known`, with their digests."""
    found: dict[str, Library] = {}
    beside = {str(path) for path in known}
    with contextlib.suppress(OSError):
        lines = Path(f"/proc/{pid}/maps").read_text(errors="replace").splitlines()
        system = _system_folders()
        for line in lines:
            path = line.partition("/")[2]
            path = f"/{path}" if path else ""
            if ".so" in path and path not in found and path not in beside and not path.startswith(system):
                found[path] = Library(clean(Path(path).name), digest(Path(path)))
    return sorted(set(found.values()))
