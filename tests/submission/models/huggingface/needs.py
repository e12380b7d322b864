"""Skips a module of tests where transformers is not installed, without importing it."""

from __future__ import annotations

import importlib.metadata

import pytest

OLDEST = (5, 24)


def needs_transformers() -> None:
    """Skips the module that calls this unless transformers is there and new enough."""
    try:
        version = importlib.metadata.version("transformers")
    except importlib.metadata.PackageNotFoundError:
        version = "0.0"
    if tuple(map(int, version.split(".")[:2])) < OLDEST:
        pytest.skip("transformers 5.24 or later is not installed", allow_module_level=True)
