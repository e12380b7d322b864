"""The worked example of simulator/README.md: its commands, with what they print here.

./nvfp4 evidence simulator_example           write the block again
./nvfp4 evidence simulator_example --check   exit with 1 if it is not what the commands print
"""

from __future__ import annotations

import re
import subprocess
import sys
import tempfile
from pathlib import Path

from scripts.common.toolchain import BUILD, ROOT, built

PAGE = ROOT / "simulator" / "README.md"
BLOCK = re.compile(r"(<!-- generated:example -->\n)(.*?)(<!-- /generated:example -->)", re.DOTALL)
COMMAND = re.compile(r"^    \$ ((?:.*\\\n)*.*)", re.MULTILINE)  # with its continued lines
INDENT = "    "


def printed(command: str, folder: Path) -> str:
    """What a command of the page prints, its scratch files in `folder` and its programs those of BUILD."""
    command = command.replace("/tmp/", f"{folder}/").replace("build/ptxsim", f"'{BUILD}/ptxsim'")
    done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, check=False)
    return done.stdout + done.stderr


def render(page: str) -> str:
    """The page with its block's commands as they are and their output anew."""
    built("ptxsim")
    block = BLOCK.search(page)
    if block is None:
        raise ValueError("simulator/README.md has no block generated:example")
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for command in COMMAND.findall(block[2]):
            lines.append(f"{INDENT}$ {command}")
            lines += [f"{INDENT}{line}" for line in printed(command, Path(folder)).splitlines()]
    return page[: block.start(2)] + "\n" + "\n".join(lines) + "\n\n" + page[block.end(2) :]


def main(arguments: list[str]) -> int:
    """The command line; returns the exit status."""
    page = PAGE.read_text()
    fresh = render(page)
    if "--check" in arguments:
        return int(fresh != page)
    PAGE.write_text(fresh)
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
