"""Shared fixtures: the built library, and environment variables the package reads kept away from tests."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent.parent

for _name in ("NVFP4_BACKEND", "NVFP4_CPU_ISA", "POPCORN_FD", "POPCORN_SEED"):
    os.environ.pop(_name, None)


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def library_path(root: Path) -> Path:
    """The library `make build` made."""
    path = Path(os.environ.get("NVFP4_LIBRARY", root / "build" / "libcustom_kernel.so"))
    if not path.is_file():
        pytest.fail(f"{path} does not exist; run `make build` first")
    return path
