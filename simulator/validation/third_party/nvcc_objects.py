"""Compiles CUDA source of others and links it with the simulator's runtime; objects are cached by their inputs."""

from __future__ import annotations

import hashlib
import os
import subprocess
from pathlib import Path

from simulator.python.toolchain import built, nvcc

COMPILE_LIMIT = 1800  # seconds; CUTLASS takes minutes


class NotBuilt(Exception):
    """The first error of the compiler or the linker."""


def _first_error(text: str) -> str:
    lines = [line for line in text.splitlines() if "error" in line or "undefined" in line]
    return (lines or text.splitlines() or ["no message"])[0][-300:]


def run_quietly(command: list[str], limit: int = COMPILE_LIMIT) -> None:
    """Runs a command; raises NotBuilt where it fails."""
    try:
        done = subprocess.run(command, capture_output=True, text=True, check=False, timeout=limit)
    except subprocess.TimeoutExpired:
        raise NotBuilt(f"not compiled in {limit} s") from None
    if done.returncode != 0:
        raise NotBuilt(_first_error(done.stderr + done.stdout))


def compile_object(
    source: Path, arch: str, flags: list[str], cache: Path, depends: str, standard: str = "c++17"
) -> Path:
    """An object of a CUDA file.  `depends`: the other inputs, for instance the commit of the headers."""
    command = [nvcc(), f"-std={standard}", "-O3", "-w", "-lineinfo", "--no-compress", "--expt-relaxed-constexpr"]
    command += [f"-gencode=arch=compute_{arch},code=compute_{arch}", "-Xcompiler", "-fPIC", *flags]
    key = hashlib.sha256("\0".join([*command, depends, str(source), source.read_text()]).encode()).hexdigest()[:24]
    target = cache / "objects" / f"{source.stem}-{key}.o"
    if not target.exists():
        target.parent.mkdir(parents=True, exist_ok=True)
        partial = target.with_suffix(f".{os.getpid()}.o")
        run_quietly([*command, "-c", "-o", str(partial), str(source)])
        partial.rename(target)
    return target


def link(objects: list[Path], target: Path, shared: bool) -> Path:
    """A shared library or a program on build/libcudart_sim.a."""
    target.parent.mkdir(parents=True, exist_ok=True)
    mode = ["-shared"] if shared else []
    archive = str(built("libcudart_sim.a"))
    run_quietly(["g++", *mode, "-o", str(target), *map(str, objects), archive, "-lpthread", "-lm", "-ldl"])
    return target
