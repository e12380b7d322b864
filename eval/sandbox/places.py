"""What a submission may read: the system's files, Python's, this checkout's, compilers', and what lies beside it.

Reading a named pipe or a terminal takes something away from whoever waits for it, and the user's other files are no
business of a submission. There are no pipes among the files above, and beside itself it reads none.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
# Not all of /sys: a read of /sys/kernel/tracing/trace_pipe takes events away, and one of a device's registers, which
# root may map from /sys/devices/pci*, may do so. DEVICES is for CUDA alone.
DEVICES = Path("/sys/devices")
_OF_SYSTEM = (
    "/bin", "/etc", "/gnu", "/lib", "/lib32", "/lib64", "/nix", "/opt", "/proc", "/sbin", "/sys/bus", "/sys/class",
    "/sys/dev", "/sys/devices/system", "/sys/devices/virtual", "/sys/fs/cgroup", "/sys/kernel/mm", "/sys/module",
    "/usr",
)  # fmt: skip
# Other programs' files lie in these, so that a folder beside the submission there is not its own.
_OF_ALL = ("/", "/dev", "/run", "/tmp", "/var/spool", "/var/tmp")
_SEARCHED = (
    "PATH", "LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "CUDA_HOME",
    "CUDA_PATH", "CUTLASS_PATH", "BUILD",
)  # fmt: skip


def _entries(folder: Path) -> Iterator[tuple[Path, bool]]:
    """The files and folders in a folder, and which are folders; no links, pipes, sockets or devices."""
    try:
        with os.scandir(folder) as found:
            for entry in found:
                is_folder = entry.is_dir(follow_symlinks=False)
                if is_folder or entry.is_file(follow_symlinks=False):
                    yield Path(entry.path), is_folder
    except OSError:  # not to be listed
        return


def _needed() -> set[Path]:
    """The folders of this checkout and its build, of Python and its modules, of compilers and libraries."""
    searched = [Path(one) for name in _SEARCHED for one in os.environ.get(name, "").split(os.pathsep) if one]
    homes = [path.parent for path in searched if path.name == "bin" and path.parent not in (Path("/"), Path.home())]
    return _own() | {Path(path).resolve() for path in (*sys.path, *searched, *homes)}


def _own() -> set[Path]:
    """The folders of this checkout and of Python, which may also be the home folder."""
    return {Path(path).resolve() for path in (ROOT, sys.prefix, sys.base_prefix)}


def readable(submission: Path, temporary: Path) -> list[Path]:
    """The files and folders that a submission may read; `temporary` is the folder for the user's temporary files."""
    beside = submission.resolve().parent
    shared = {Path(path).resolve() for path in (*_OF_ALL, temporary, Path.home())} - _own()
    found: list[Path] = []

    def add(folder: Path) -> None:
        if folder not in shared and not beside.is_relative_to(folder):
            found.append(folder)
            return
        for path, is_folder in _entries(folder):
            if not is_folder:
                found.append(path)
            elif folder not in shared:
                add(path)

    for folder in {*map(Path, _OF_SYSTEM), *_needed(), beside}:
        add(folder)
    return found
