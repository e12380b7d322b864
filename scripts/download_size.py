"""Says what installing requirements would fetch, before it is fetched: download_size.py REQUIREMENTS FOLDER

Asks pip which packages the Python that runs this lacks, and their servers or files for the sizes.  pip learns what a
package needs from parts of its file; one that is too old for that, and would fetch gigabytes to answer, is replaced
first where FOLDER is the environment that it stands in.  Exit status: 0, or 1 where pip finds no way to install them,
with its last words and a hint.
"""

from __future__ import annotations

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
# An index that does not answer is told of soon.
PIP = ("install", "--quiet", "--disable-pip-version-check", "--retries", "1", "--timeout", str(ANSWER_LIMIT_S))
DRY_RUN = ("--dry-run", "--report", "-")
PIP_THAT_LEAVES_FILES = (25, 1)  # the first whose dry run fetches no whole files where it need not
FROM_PARTS_OF_FILES = "--use-feature=fast-deps"
WRONG_USAGE = 2  # pip's exit status where it does not know that feature


def size_of(url: str) -> int | None:
    """Bytes behind an address, or None where they are not told."""
    parts = urllib.parse.urlsplit(url)
    try:
        if parts.scheme == "file":
            return Path(urllib.parse.unquote(parts.path)).stat().st_size
        with urllib.request.urlopen(urllib.request.Request(url, method="HEAD"), timeout=ANSWER_LIMIT_S) as answer:
            return int(answer.headers["Content-Length"])
    except (OSError, TypeError, ValueError):
        return None


def describe(packages: list[tuple[str, int | None]], free: int) -> str:
    """One sentence on packages (name and version, bytes) that are to be fetched, and on the room for them."""
    known = [size for _, size in packages if size is not None]
    names = ", ".join(
        name if size is None else f"{name} ({size / MB:.0f} MB)"
        for name, size in sorted(packages, key=lambda package: -(package[1] or 0))
        if size is None or size >= MB
    )
    unknown = len(packages) - len(known)
    more = f", and {unknown} whose sizes are not told" if unknown else ""
    return (
        f"fetching {len(packages)} packages, {sum(known) / MB:.0f} MB{more}: {names}; unpacked they take several times"
        f" that, and {free / MB:.0f} MB are free"
    )


def pip(*arguments: str) -> subprocess.CompletedProcess[str]:
    """What this Python's pip answers."""
    return subprocess.run([sys.executable, "-m", "pip", *PIP, *arguments], capture_output=True, text=True, check=False)


def renew_pip(folder: str) -> None:
    """Replaces a pip that is too old by a newer one, in the environment that is `folder` alone; at worst it stays."""
    version = tuple(map(int, re.findall(r"\d+", importlib.metadata.version("pip"))[:2]))
    if version < PIP_THAT_LEAVES_FILES and Path(sys.prefix).resolve() == Path(folder).resolve():
        pip("--upgrade", f"pip>={'.'.join(map(str, PIP_THAT_LEAVES_FILES))}")


def main(requirements: str, folder: str) -> int:
    """The command line; returns the exit status."""
    print("setup: asking the package index what has to be fetched", file=sys.stderr)
    renew_pip(folder)
    done = pip(*DRY_RUN, FROM_PARTS_OF_FILES, "-r", requirements)
    if done.returncode == WRONG_USAGE:
        done = pip(*DRY_RUN, "-r", requirements)
    if done.returncode != 0:
        said = [line for line in done.stderr.splitlines() if line.startswith("ERROR")] or done.stderr.splitlines()
        network = "NewConnectionError" in done.stderr or "Max retries" in done.stderr or "timed out" in done.stderr
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
    sys.exit(main(sys.argv[1], sys.argv[2]))
