"""The worked examples in the simulator's pages: commands, and what they print here.

./nvfp4 validate worked_examples           write the output again
./nvfp4 validate worked_examples --check   exit with 1 if a page shows other output
"""

from __future__ import annotations

import argparse
import re
import subprocess
import sys
import tempfile
from pathlib import Path

from simulator.python import toolchain
from simulator.python.toolchain import BUILD, ROOT, built

BLOCK = "(<!-- generated:{name} -->\n)(.*?)(<!-- /generated:{name} -->)"
WALK, EXAMPLE, SHRINK = "walk", "example", "shrink"  # from a .cu file to a report, which takes nvcc; from PTX
PAGES = {
    WALK: ROOT / "simulator" / "README.md",
    EXAMPLE: ROOT / "simulator" / "cli" / "README.md",
    SHRINK: ROOT / "simulator" / "cli" / "README.md",
}
COMMAND = re.compile(r"^    \$ ((?:.*\\\n)*.*)", re.MULTILINE)  # with its continued lines
INDENT = "    "


def printed(command: str, folder: Path) -> str:
    """The output of a command of the page, with scratch files in `folder` and programs of BUILD."""
    command = command.replace("/tmp/", f"{folder}/").replace("build/ptxsim", f"'{BUILD}/ptxsim'")
    if command.startswith("nvcc "):
        command = f"'{toolchain.nvcc()}' {command.removeprefix('nvcc ')}"
    command = command.replace("make simulator", "make -s simulator > /dev/null")
    done = subprocess.run(command, shell=True, cwd=ROOT, capture_output=True, text=True, check=False)
    return (done.stdout + done.stderr).replace(f"{ROOT}/", "")


def render(page: str, name: str = EXAMPLE) -> str:
    """The page with a block's commands as they are and their output anew."""
    built("ptxsim")
    block = re.search(BLOCK.format(name=name), page, re.DOTALL)
    if block is None:
        raise ValueError(f"the page has no block generated:{name}")
    lines = []
    with tempfile.TemporaryDirectory() as folder:
        for command in COMMAND.findall(block[2]):
            lines.append(f"{INDENT}$ {command}")
            lines += [f"{INDENT}{line}" for line in printed(command, Path(folder)).splitlines()]
    return page[: block.start(2)] + "\n" + "\n".join(lines) + "\n\n" + page[block.end(2) :]


def main(arguments: list[str]) -> int:
    """The command line; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="./nvfp4 validate worked_examples",
        description=__doc__,
        formatter_class=argparse.RawDescriptionHelpFormatter,
    )
    parser.add_argument("--check", action="store_true")
    check = parser.parse_args(arguments).check
    differs = False
    for name, path in PAGES.items():
        page = path.read_text()
        fresh = render(page, name)
        differs |= fresh != page
        if not check:
            path.write_text(fresh)
    return int(differs and check)


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
