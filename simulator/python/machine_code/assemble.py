"""Assembles the PTX that the simulator wrote to a folder; the next run is then timed by machine code."""

from __future__ import annotations

import hashlib
import re
import shutil
import subprocess
import sys
import tempfile
from collections.abc import Callable
from pathlib import Path
from typing import TypeVar

from simulator.python.machine_code import match, ptx, sass
from simulator.python.toolchain import nvcc

VARIABLE = "NVFP4_SIMULATE_MACHINE_CODE"  # names the folder to the simulator
Result = TypeVar("Result")


def edition() -> str:
    """A digest of this package's sources, which names the folder of the files that they make."""
    sources = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]


def nvdisasm() -> str | None:
    """The path of nvdisasm, from the running Python's packages or from PATH; None if there is none."""
    for folder in map(Path, sys.path):
        for found in folder.glob("nvidia/*/bin/nvdisasm"):
            return str(found)
    return shutil.which("nvdisasm")


def assembled(text: str) -> list[str]:
    """Assembles a PTX module; returns its .machine file in lines.  Raises CalledProcessError if ptxas refuses it."""
    module = ptx.marked(text)
    target = re.search(r"^\.target\s+(\w+)", text, re.MULTILINE)
    if target is None:
        raise ValueError("no .target in the PTX")
    with tempfile.TemporaryDirectory() as name:
        source, cubin = Path(name) / "marked.ptx", Path(name) / "marked.cubin"
        source.write_text(module.text)
        ptxas = Path(nvcc()).with_name("ptxas")
        command = [ptxas, "-O3", f"-arch={target[1]}", "--generate-line-info", "-o", cubin, source]
        subprocess.run(command, check=True, capture_output=True)
        shown = subprocess.run(
            [nvdisasm() or "nvdisasm", "-g", "-hex", cubin], check=True, capture_output=True, text=True
        )
    shown_lines = shown.stdout.splitlines()
    return list(match.lines(module, sass.functions(shown_lines), sass.registers(shown_lines)))


def assemble_left(folder: Path) -> int:
    """Assembles the folder's modules that have no machine code yet; returns their number."""
    count = 0
    for source in sorted(folder.glob("*.ptx")):
        target = source.with_suffix(".machine")
        if not target.exists():
            with tempfile.NamedTemporaryFile("w", dir=folder, delete=False) as part:
                part.write("\n".join(assembled(source.read_text())) + "\n")
            Path(part.name).replace(target)  # atomic, because several programs may do the same
            count += 1
    return count


def by_machine_code(run: Callable[[Path], Result], folder: Path) -> Result:
    """Calls `run`, repeatedly until all its modules are timed by machine code; returns the last result.

    folder: the machine code of all programs so far.  Each run gets a folder of its own with links to these files, so
    that the PTX it leaves there is its own.
    """
    folder.mkdir(parents=True, exist_ok=True)
    while True:
        with tempfile.TemporaryDirectory() as name:
            own = Path(name)
            for known in folder.glob("*.machine"):
                (own / known.name).symlink_to(known.resolve())
            result = run(own)
            left = list(own.glob("*.ptx"))
            for source in left:
                shutil.copy(source, folder / source.name)
        if not left:
            return result
        assemble_left(folder)
