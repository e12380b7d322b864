"""Builds with AddressSanitizer and UndefinedBehaviorSanitizer, for tests of C code."""

from __future__ import annotations

import os
import subprocess
from pathlib import Path

import pytest


def build_sanitized(root: Path, target: str) -> Path:
    """Builds a target of make with both sanitizers in build/sanitize; returns that folder. Skips if gcc lacks them."""
    probe = subprocess.run(
        ["gcc", "-fsanitize=address,undefined", "-x", "c", "-", "-o", os.devnull],
        input="int main(void) { return 0; }",
        text=True,
        capture_output=True,
    )
    if probe.returncode != 0:
        pytest.skip(f"gcc has no sanitizers: {probe.stderr.strip()[:200]}")
    command = ["make", "-C", str(root), "BUILD=build/sanitize", "GPU=0", "CFLAGS=-O1"]
    subprocess.run([*command, "SANITIZE=address,undefined", target], check=True, capture_output=True)
    return root / "build" / "sanitize"
