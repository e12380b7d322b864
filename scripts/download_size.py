"""Says what installing requirements would fetch, before it is fetched: download_size.py REQUIREMENTS FOLDER

Asks pip which packages the Python that runs this lacks, and their servers or files for the sizes.  Exit status: 0, or 1
where pip finds no way to install them, with its last words and a hint.
"""

from __future__ import annotations

import json
import shutil
import subprocess
import sys
import urllib.error
import urllib.parse
import urllib.request
from pathlib import Path

MB = 1_000_000
# An index that does not answer is told of soon.
PIP = ("install", "--dry-run", "--quiet", "--report", "-", "--disable-pip-version-check", "--retries", "1")
ANSWER_LIMIT_S = 15


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


def main(requirements: str, folder: str) -> int:
    """The command line; returns the exit status."""
    done = subprocess.run(
        [sys.executable, "-m", "pip", *PIP, "--timeout", str(ANSWER_LIMIT_S), "-r", requirements],
        capture_output=True,
        text=True,
        check=False,
    )
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
