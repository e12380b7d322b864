"""The origin of a sample: program, sources, host, chip and its clock.

`rounds measure` and `rounds check` compare it with git: `digest` is taken of the files under submission/, so that
anyone can compute it from a commit, and the program's of its file.  shark_tank/RULES.md lists what cannot be verified.
"""

from __future__ import annotations

import argparse
import hashlib
import os
import platform
import subprocess
from collections.abc import Iterable
from pathlib import Path
from statistics import median_low

import torch

from eval.hardware import chip
from scripts.common.sources import SOURCE_SUFFIXES, source_digest

ROOT = Path(__file__).resolve().parents[2]
HOST_DIGITS = 12  # hex digits of a sha256: enough to distinguish hosts, without revealing the name


def need_device(parser: argparse.ArgumentParser) -> None:
    """Ends the program with a line where there is no CUDA device."""
    if not torch.cuda.is_available():
        parser.exit(1, f"{parser.prog}: no CUDA device\n")


def nvidia_smi(query: str) -> str:
    """One answer of nvidia-smi, or the reason why there is none."""
    command = ["nvidia-smi", f"--query-gpu={query}", "--format=csv,noheader"]
    try:
        return subprocess.run(command, capture_output=True, text=True, check=True).stdout.strip().splitlines()[0]
    except (OSError, subprocess.CalledProcessError) as error:
        return f"unknown ({type(error).__name__})"


def file_digest(path: Path) -> str:
    """sha256 of a file."""
    return hashlib.sha256(path.read_bytes()).hexdigest()


def checkout_digest(root: Path) -> str:
    """The digest of a checkout's sources, as `scripts.common.sources` computes it from a commit."""
    paths = sorted(p for p in (root / "submission").rglob("*") if p.is_file() and p.suffix in SOURCE_SUFFIXES)
    return source_digest((path.relative_to(root).as_posix(), path.read_bytes()) for path in paths)


def host() -> str:
    """An anonymous name that tells this machine from others."""
    identity = Path("/etc/machine-id")
    text = platform.node() + (identity.read_text() if identity.is_file() else "")
    return f"{platform.machine()}-{hashlib.sha256(text.encode()).hexdigest()[:HOST_DIGITS]}"


def chip_name(device: str) -> str:
    """The timed chip, or the simulator."""
    if os.environ.get("NVFP4_SIMULATE") == "1":
        return "PTX simulator"
    return chip.name(torch.device(device))


def of_samples(program: Path, device: str) -> dict[str, str]:
    """The origin that all samples of a run share; digest and clock are the sample's own."""
    return {"program": program.relative_to(ROOT).as_posix(), "host": host(), "chip": chip_name(device)}


def environment(
    program: Path, device: str, commit: str, clocks_mhz: Iterable[int], digests: dict[str, str]
) -> dict[str, object]:
    """The environment of a run: machine, clocks and code; `digests` has one for each timed variant."""
    clocks = sorted(clocks_mhz)
    cuda = device == "cuda"
    return {
        "chip": chip_name(device),
        "capability": "{}.{}".format(*torch.cuda.get_device_capability()) if cuda else None,
        "driver": nvidia_smi("driver_version") if cuda else "none",
        "versions": {"torch": torch.__version__, "cuda": torch.version.cuda},
        "clocks": {
            "sm_mhz_while_timing": median_low(clocks) if clocks else None,
            "sm_mhz_least": clocks[0] if clocks else None,
            "sm_mhz_max": nvidia_smi("clocks.max.sm") if cuda else "unknown",
            "memory_mhz": nvidia_smi("clocks.mem") if cuda else "unknown",
        },
        "flags": "Makefile and submission/*/build.mk of each checkout",
        "host": host(),
        "program": {"path": program.relative_to(ROOT).as_posix(), "sha256": file_digest(program)},
        "digests": digests,
        "commit": commit,
    }
