"""Assembles PTX that the simulator has left in a folder, so that its clock goes by machine code the next time."""

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

from scripts.common.machine_code import match, ptx, sass
from scripts.common.toolchain import nvcc

VARIABLE = "NVFP4_SIMULATE_MACHINE_CODE"  # the folder, for the simulator
Result = TypeVar("Result")


def edition() -> str:
    """A name for what these sources make of machine code: files of others are not ours to read."""
    sources = sorted(Path(__file__).parent.glob("*.py"))
    return hashlib.sha256(b"".join(source.read_bytes() for source in sources)).hexdigest()[:12]


def nvdisasm() -> str | None:
    """The one of the Python that runs this, or of the PATH; None: there is none."""
    for folder in map(Path, sys.path):
        for found in folder.glob("nvidia/*/bin/nvdisasm"):
            return str(found)
    return shutil.which("nvdisasm")


def assembled(text: str) -> list[str]:
    """The lines of the machine code of a PTX module, ready for the simulator; CalledProcessError: ptxas refuses it."""
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
    """How many modules of the folder had no machine code yet and have it now."""
    count = 0
    for source in sorted(folder.glob("*.ptx")):
        target = source.with_suffix(".machine")
        if not target.exists():
            with tempfile.NamedTemporaryFile("w", dir=folder, delete=False) as part:
                part.write("\n".join(assembled(source.read_text())) + "\n")
            Path(part.name).replace(target)  # whole or not at all: several programs may do the same
            count += 1
    return count


def by_machine_code(run: Callable[[Path], Result], folder: Path) -> Result:
    """What a run gives whose modules are all timed by machine code: it is made again where one was not.

    folder: what has been assembled so far, for all programs.  The run gets one of its own with links to that, so that
    what is left there is its own.
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
