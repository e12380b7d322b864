"""Prints how much installing requirements would download.

Asks pip which packages this Python lacks, and the servers or files for their sizes.  A pip from 25.1 on reads a
package's requirements from part of its file; an older one would download gigabytes to answer, so it is upgraded first
if FOLDER is its own environment.  Exit status: 0, or 1 if pip cannot install the requirements; then its last messages
and a hint are printed.
"""

from __future__ import annotations

import argparse
import importlib.metadata
import json
import re
import shutil
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

MB = 1_000_000
ANSWER_LIMIT_S = 15
# Gives up soon on an index that does not answer.
PIP = ("install", "--quiet", "--disable-pip-version-check", "--retries", "1", "--timeout", str(ANSWER_LIMIT_S))
DRY_RUN = ("--dry-run", "--report", "-")
PIP_THAT_LEAVES_FILES = (25, 1)  # the first whose dry run does not download whole files
FROM_PARTS_OF_FILES = "--use-feature=fast-deps"
WRONG_USAGE = 2  # exit status of a pip that does not know that feature


def size_of(url: str) -> int | None:
    """Size in bytes of the file at an address, or None if the server does not say."""
    parts = urllib.parse.urlsplit(url)
    try:
        if parts.scheme == "file":
            return Path(urllib.parse.unquote(parts.path)).stat().st_size
        with urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=ANSWER_LIMIT_S) as answer:
            return int(answer.headers["Content-Length"])
    except (OSError, TypeError, ValueError):
        return None


def describe(packages: list[tuple[str, int | None]], free: int) -> str:
    """A sentence with the packages to download (name and version, bytes) and the free space."""
    known = [size for _, size in packages if size is not None]
    names = ", ".join(
        name if size is None else f"{name} ({size / MB:.0f} MB)"
        for name, size in sorted(packages, key=lambda package: -(package[1] or 0))
        if size is None or size >= MB
    )
    unknown = len(packages) - len(known)
    more = f", and {unknown} of unknown size" if unknown else ""
    return (
        f"downloading {len(packages)} packages, {sum(known) / MB:.0f} MB{more}: {names}; unpacked they take several"
        f" times as much, and {free / MB:.0f} MB are free"
    )


def pip(*arguments: str) -> subprocess.CompletedProcess[str]:
    """Runs this Python's pip."""
    return subprocess.run([sys.executable, "-m", "pip", *PIP, *arguments], capture_output=True, text=True, check=False)


def renew_pip(folder: str) -> None:
    """Upgrades an old pip, only in the environment `folder`; if that fails, the old one stays."""
    version = tuple(map(int, re.findall(r"\d+", importlib.metadata.version("pip"))[:2]))
    if version < PIP_THAT_LEAVES_FILES and Path(sys.prefix).resolve() == Path(folder).resolve():
        pip("--upgrade", f"pip>={'.'.join(map(str, PIP_THAT_LEAVES_FILES))}")


def main(arguments: list[str]) -> int:
    """Prints the sentence; returns the exit status."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("requirements", metavar="REQUIREMENTS")
    parser.add_argument("folder", metavar="FOLDER", help="the environment")
    options = parser.parse_args(arguments)
    requirements, folder = options.requirements, options.folder
    print("setup: asking the package index for download sizes", file=sys.stderr)
    renew_pip(folder)
    done = pip(*DRY_RUN, FROM_PARTS_OF_FILES, "-r", requirements)
    if done.returncode == WRONG_USAGE:
        done = pip(*DRY_RUN, "-r", requirements)
    if done.returncode != 0:
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
        network = "NewConnectionError" in done.stderr or "Max retries" in done.stderr or "timed out" in done.stderr
        if not network:  # without one, pip ends with a conflict of versions that is none
            print(*said[-2:], sep="\n", file=sys.stderr)
        if network or "from versions: none" in done.stderr:
            print("setup: the package index does not answer; is there a network?", file=sys.stderr)
        return 1
    wanted = [
        (f"{entry['metadata']['name']} {entry['metadata']['version']}", size_of(entry["download_info"]["url"]))
        for entry in json.loads(done.stdout)["install"]
    ]
    if wanted:
        print(f"setup: {describe(wanted, shutil.disk_usage(folder).free)}", file=sys.stderr)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
