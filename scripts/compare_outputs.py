"""Shows how what the programs print at a commit differs from what they print at another: a diff for a person to read.

    python -m scripts.compare_outputs BASE [COMMIT] [--probes NAME...]

Each commit (COMMIT is HEAD unless given) is cloned into build/outputs/ and its probes run there:
  make       the commands that make would run for each of its targets (`make -n`)
  help       --help of every program
  findings   what the simulator reports for right and wrong PTX programs, in each mode (builds build/ptxsim)
  pages      the generated pages (builds the library)
Exit status: 0 where all outputs are the same, 1 where one differs.
"""

from __future__ import annotations

import argparse
import difflib
import os
import re
import shutil
import subprocess
import sys
from collections.abc import Callable, Iterator
from concurrent.futures import ThreadPoolExecutor
from pathlib import Path
from typing import Any

ROOT = Path(__file__).resolve().parents[1]
MODES = ("eager", "late", "reverse", "random:1", "poison")
PIPELINE, GATHER = "pipeline.ptx --block 64 -- buf:4096 buf:4096 u32:7", "gather.ptx -- buf:128 buf:4096 buf:1024"
# A PTX program with its arguments, and an edit that makes it wrong.
PROGRAMS = (
    (PIPELINE, "", ""),
    (PIPELINE, r"mbarrier\.try_wait\S+ (%p\d+), .*;", r"setp.eq.u32 \1, 0, 0;"),  # waits for nothing
    (GATHER, "", ""),
    (GATHER, r"\[%r7\], %r8;", "[%r7], 0;"),  # waits for the first phase again and again
)
PROGRAM_FOLDERS = ("scripts", "simulator")
RENDERERS = (("scripts.evidence.readme",), ("scripts.rounds", "render"), ("scripts.history",))
PAGES = ("README.md", "shark_tank/*.md", "build/history/*.html")

CAPTURED: dict[str, Any] = {"capture_output": True, "text": True}

Outputs = Iterator[tuple[str, str]]  # title, text


class Checkout:
    """A clone of the repository at one commit, and what commands print in it."""

    def __init__(self, commit: str, folder: Path) -> None:
        shutil.rmtree(folder, ignore_errors=True)
        self.folder = folder
        subprocess.run(["git", "clone", "-q", "--shared", "--no-checkout", ROOT, folder], check=True)
        found = subprocess.run(
            ["git", "-C", ROOT, "rev-parse", "--verify", f"{commit}^{{commit}}"], check=False, **CAPTURED
        )
        if found.returncode != 0:
            raise SystemExit(f"compare_outputs: '{commit}' is not a commit")
        subprocess.run(["git", "-C", folder, "checkout", "-q", "--detach", found.stdout.strip()], check=True)
        for makefile in (folder / "Makefile", *folder.rglob("*.mk")):  # `+` would run a recipe under `make -n`, too
            makefile.write_text(makefile.read_text().replace("\t+@", "\t@"))

    def run(self, *command: str) -> str:
        """Standard output and error, then an exit status other than 0; the clone's folder and addresses are masked."""
        removed = ("MAKEFLAGS", "MAKELEVEL", "BUILD", "NVFP4_LIBRARY")
        environment = {name: value for name, value in os.environ.items() if name not in removed}
        environment |= {"PYTHON": sys.executable, "COLUMNS": "120"}
        done = subprocess.run(
            command, cwd=self.folder, env=environment, stdin=subprocess.DEVNULL, check=False, **CAPTURED
        )
        text = done.stdout + done.stderr + (f"exit status {done.returncode}\n" if done.returncode else "")
        return re.sub(r"\b0x[0-9a-f]{9,}\b", "ADDRESS", text.replace(str(self.folder), "CHECKOUT"))


def make(checkout: Checkout) -> Outputs:
    text = checkout.run("make", "help")
    yield "make help", text
    for target in re.findall(r"^  make (\S+)", text, re.MULTILINE):
        yield f"make -n {target}", re.sub(r"\s*\\\n\s*", " ", checkout.run("make", "-n", "-j1", target, "R=7"))


def programs_help(checkout: Checkout) -> Outputs:
    checkout.run("make", "-s", "library")  # modules that import the package load it
    modules = ["eval"]
    for path in sorted(path for folder in PROGRAM_FOLDERS for path in (checkout.folder / folder).rglob("*.py")):
        if "ArgumentParser(" in path.read_text():
            name = path.relative_to(checkout.folder).with_suffix("").as_posix().replace("/", ".")
            modules.append(name.removesuffix(".__main__"))
    yield "./nvfp4", checkout.run("./nvfp4")
    with ThreadPoolExecutor(os.cpu_count()) as pool:
        said = pool.map(lambda module: checkout.run(sys.executable, "-m", module, "--help"), modules)
        yield from zip((f"python -m {module} --help" for module in modules), said, strict=True)


def findings(checkout: Checkout) -> Outputs:
    checkout.run("make", "-s", "build/ptxsim")
    for call, old, new in PROGRAMS:
        name, *arguments = call.split()
        text = (ROOT / "simulator/tests/ptx" / name).read_text()
        program = checkout.folder / "build" / name
        program.write_text(re.sub(old, new, text) if old else text)
        for mode in MODES:
            title = f"ptxsim --mode {mode} {call}{' with ' + repr(new) if old else ''}"
            yield title, checkout.run("build/ptxsim", str(program), "--mode", mode, *arguments)


def pages(checkout: Checkout) -> Outputs:
    checkout.run("make", "-s", "library")
    for module, *arguments in RENDERERS:
        yield f"python -m {module}", checkout.run(sys.executable, "-m", module, *arguments)
    for pattern in PAGES:
        for path in sorted(checkout.folder.glob(pattern)):
            yield path.relative_to(checkout.folder).as_posix(), path.read_text()


PROBES: dict[str, Callable[[Checkout], Outputs]] = {
    "make": make,
    "help": programs_help,
    "findings": findings,
    "pages": pages,
}


def difference(base: dict[str, str], other: dict[str, str]) -> list[str]:
    """A unified diff without context, headed by each output's title."""
    lines: list[str] = []
    for title in base | other:
        if base.get(title) == other.get(title):
            continue
        before, after = (side.get(title, "").splitlines() for side in (base, other))
        where = "only at BASE: " if title not in other else "not at BASE: " if title not in base else ""
        lines.append(f"== {where}{title}")
        lines += list(difflib.unified_diff(before, after, n=0, lineterm=""))[2:]
    return lines


def main(argv: list[str] | None = None) -> int:
    """Prints the differences; returns the exit status."""
    text = argparse.RawDescriptionHelpFormatter
    parser = argparse.ArgumentParser(prog="compare_outputs", description=__doc__, formatter_class=text)
    parser.add_argument("base", help="the commit to compare with")
    parser.add_argument("commit", nargs="?", default="HEAD", help="the commit compared (%(default)s)")
    parser.add_argument("--probes", nargs="+", choices=PROBES, default=list(PROBES), help="which outputs (all)")
    options = parser.parse_args(argv)
    place = ROOT / "build" / "outputs"
    checkouts = [Checkout(options.base, place / "base"), Checkout(options.commit, place / "other")]
    differs = False
    for name in options.probes:
        lines = difference(*(dict(PROBES[name](checkout)) for checkout in checkouts))
        print(*(lines or [f"== {name}: no difference"]), sep="\n", flush=True)
        differs = differs or bool(lines)
    return int(differs)


if __name__ == "__main__":
    sys.exit(main())
