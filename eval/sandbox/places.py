"""What a submission may read: everything except where programs keep named pipes, devices and terminals.

Reading a named pipe or a terminal takes something away from whoever waits for it. There are none among the system's and
Python's files. In the folder for temporary files and its like a submission reads only what it needs, and beside itself,
in the home folder and in the current one no pipe.
"""

from __future__ import annotations

import os
import sys
from collections.abc import Iterator
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
_OF_PROGRAMS = ("/dev", "/run", "/tmp", "/var/spool", "/var/tmp")
_SEARCHED = (
    "PATH", "LD_LIBRARY_PATH", "LIBRARY_PATH", "CPATH", "C_INCLUDE_PATH", "CPLUS_INCLUDE_PATH", "CUDA_HOME", "BUILD",
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
    homes = [path.parent for path in searched if path.name == "bin"]
    return {Path(path).resolve() for path in (ROOT, sys.prefix, sys.base_prefix, *sys.path, *searched, *homes)}


def readable(submission: Path, temporary: Path) -> list[Path]:
    """The files and folders that a submission may read; `temporary` is the folder for the user's temporary files."""
    private = {Path(path).resolve() for path in (*_OF_PROGRAMS, temporary)}
    listed = {Path(path).resolve() for path in (submission.parent, Path.home(), Path.cwd())}
    above = {parent for path in private | listed for parent in path.parents}
    found: list[Path] = []

    def add(folder: Path) -> None:
        if folder in private:
            return
        if folder not in listed | above:
            found.append(folder)
            return
        for path, is_folder in _entries(folder):
            if is_folder:
                add(path)
            else:
                found.append(path)

    add(Path("/"))
    for folder in listed | _needed():
        if any(folder.is_relative_to(path) for path in private):
            found += [path for path, is_folder in _entries(folder) if not is_folder or folder not in private]
    return found
