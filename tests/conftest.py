"""Shared fixtures: the built library, and environment variables the package reads kept away from tests."""

from __future__ import annotations

import importlib.util
import os
import re
from pathlib import Path

import pytest

from scripts.common import tile_table
from scripts.common.toolchain import BUILD

ROOT = Path(__file__).resolve().parent.parent

for _name in ("NVFP4_BACKEND", "NVFP4_CPU_ISA", "POPCORN_FD", "POPCORN_SEED"):
    os.environ.pop(_name, None)


# Files that take longest, first: with several workers (pytest-xdist) none is left with one of them at the end.
LONGEST_FILES = (
    "test_journeys.py",
    "test_eval_protocol.py",
    "test_bundle.py",
    "test_eval_guards.py",
    "test_blackwell_kernels.py",
    "test_fuzz_targets.py",
    "test_hopper_recorded.py",
    "test_hopper_kernels.py",
)

# Development packages that a machine without a network may lack: what needs them skips (scripts/setup.sh).
OPTIONAL_PACKAGES = {"hypothesis", "jsonschema", "matplotlib", "safetensors"}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of tests that hold a record; and the configuration's `timeout`, where pytest-timeout is missing."""
    parser.addoption("--record-times", action="store_true", help="write tests/simulator/clock/recorded_times.json anew")
    parser.addoption("--record-outcomes", action="store_true", help="write the records of tests/rounds anew")
    if importlib.util.find_spec("pytest_timeout") is None:
        parser.addini("timeout", "ignored: pytest-timeout is not installed")


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(collector: pytest.Collector):
    """Skips a module whose import fails for want of an optional package."""
    report = yield
    missing = re.search(r"ModuleNotFoundError: No module named '(\w+)", str(report.longrepr)) if report.failed else None
    if missing and missing[1] in OPTIONAL_PACKAGES:
        report.outcome = "skipped"
        report.longrepr = (str(collector.path), 0, f"Skipped: {missing[1]} is not installed")
    return report


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the longest files first."""
    place = {name: number for number, name in enumerate(LONGEST_FILES)}
    if "PYTEST_XDIST_WORKER" in os.environ:  # one at a time, the order given on the command line holds
        items.sort(key=lambda item: place.get(item.path.name, len(place)))


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT


@pytest.fixture(scope="session")
def library_path(root: Path) -> Path:
    """The library `make build` made."""
    path = Path(os.environ.get("NVFP4_LIBRARY", BUILD / "libcustom_kernel.so"))
    if not path.is_file():
        pytest.fail(f"{path} does not exist; run `make build` first")
    return path


class Tiles:
    """What build/tile_table says of the GPU backends' tiles (submission/tile_table/tile_table.c)."""

    def __init__(self) -> None:
        self.program = tile_table.PROGRAM
        self.table = tile_table.printed()

    def selected(self, backend: str, sms: int, *shape: int) -> dict[str, int | str]:
        """The tile selected for m, n, k and maybe l, its CTAs and its predicted cost."""
        text = "x".join(map(str, shape))
        return tile_table.selected(backend, sms, text)[text]


@pytest.fixture(scope="session")
def tiles() -> Tiles:
    """The library's own tile table."""
    return Tiles()
