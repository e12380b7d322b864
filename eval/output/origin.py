"""What a run used: the submission's libraries and their digests, the driver and the clock."""

from __future__ import annotations

import contextlib
import ctypes
import hashlib
import os
import stat
import sys
from collections.abc import Collection, Iterable
from pathlib import Path
from typing import NamedTuple

import torch

from eval.hardware import chip
from eval.output.text import clean

# A process can name thousands of huge sparse files as its libraries: hashing must end.
MOST_LIBRARIES = 100
MOST_HASHED_BYTES = 4 << 30  # of one process's libraries together
# A process can also add mappings faster than they are read.
MOST_MAPS_BYTES = 16 << 20
_CHUNK_BYTES = 1 << 20
_REPLACED = " (deleted)"  # what /proc/PID/maps appends to the path of a file that a build has replaced since
_NVML_VERSION_BYTES = 80  # NVML_SYSTEM_DRIVER_VERSION_BUFFER_SIZE


class Library(NamedTuple):
    """A shared library of the submission's own."""

    name: str
    sha256: str


_digests: dict[tuple[int, ...], str] = {}  # by the file's identity, size and last change, a time that no one can set


def _digest_of(path: str, size: int) -> str:
    hashed = hashlib.sha256()
    with Path(path).open("rb", buffering=0) as file:
        while size > 0 and (chunk := file.read(min(size, _CHUNK_BYTES))):
            hashed.update(chunk)
            size -= len(chunk)
    return hashed.hexdigest()


def digest(path: Path, most_bytes: int = MOST_HASHED_BYTES) -> tuple[str, int]:
    """The SHA-256 of a regular file and its size; ("", 0) if it is larger, cannot be read, or is not regular.

    A FIFO or device is never opened: that could block or have side effects. Nor is more read than the file's size: some
    files of /proc are regular and empty, and a read of them waits for the kernel's next message.
    """
    try:
        found = os.open(path, os.O_PATH | os.O_CLOEXEC)
    except OSError:
        return "", 0
    try:
        status = os.fstat(found)
        if not stat.S_ISREG(status.st_mode) or status.st_size > most_bytes:
            return "", 0
        key = (status.st_dev, status.st_ino, status.st_size, status.st_ctime_ns)
        if key not in _digests:
            _digests[key] = _digest_of(f"/proc/self/fd/{found}", status.st_size)
        return _digests[key], status.st_size
    except OSError:
        return "", 0
    finally:
        os.close(found)


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


def mapped_libraries(pid: int, known: Collection[Path] = ()) -> list[Path]:
    """A process's mapped libraries other than the system's, Python's, torch's and `known`."""
    found: dict[str, Path] = {}
    others = {str(path) + ending for path in known for ending in ("", _REPLACED)}
    with contextlib.suppress(OSError):
        with Path(f"/proc/{pid}/maps").open("rb") as file:
            lines = file.read(MOST_MAPS_BYTES).decode(errors="replace").splitlines()
        system = _system_folders()
        for line in lines:
            path = line.partition("/")[2]
            path = f"/{path}" if path else ""
            if ".so" in path and path not in found and path not in others and not path.startswith(system):
                found[path] = Path(path)
            if len(found) == MOST_LIBRARIES:
                break
    return list(found.values())


def libraries(mapped: Iterable[Path]) -> list[Library]:
    """Libraries with their digests.

    Call it once their process has ended: until then they may grow for ever, and leases may hold up whoever opens them.
    """
    found, left = set(), MOST_HASHED_BYTES
    for path in mapped:
        sha256, size = digest(path, left)
        found.add(Library(clean(path.name), sha256))
        left -= size
    return sorted(found)
