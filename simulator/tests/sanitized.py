"""Builds with AddressSanitizer and UndefinedBehaviorSanitizer, for tests of C code."""

from __future__ import annotations

import fcntl
import os
import subprocess
from pathlib import Path

import pytest

# Of the simulator, which all of its tests share; of the library, without its GPU backends.
SIMULATOR, LIBRARY = ("build/sanitize_sim",), ("build/sanitize", "GPU=0")


def build_sanitized(root: Path, build: tuple[str, ...], *targets: str) -> Path:
    """Builds targets of make with both sanitizers; returns their folder. Skips if gcc lacks them."""
    probe = subprocess.run(
        ["gcc", "-fsanitize=address,undefined", "-x", "c", "-", "-o", os.devnull],
        input="int main(void) { return 0; }",
        text=True,
        capture_output=True,
    )
    if probe.returncode != 0:
        pytest.skip(f"gcc has no sanitizers: {probe.stderr.strip()[:200]}")
    folder, *options = build
    command = ["make", "-s", "-j2", "-C", root, "SANITIZE=address,undefined", "CFLAGS=-O0", f"BUILD={folder}", *options]
    (root / folder).mkdir(parents=True, exist_ok=True)
    with (root / folder / "lock").open("w") as lock:  # of several workers one builds
        fcntl.flock(lock, fcntl.LOCK_EX)
        made = subprocess.run([*command, *targets], capture_output=True, text=True)
    assert made.returncode == 0, made.stderr
    return root / folder
