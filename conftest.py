"""What the tests of both houses share: a clean environment, optional packages, the order of the files."""

from __future__ import annotations

import importlib.util
import os
import re
from collections.abc import Generator
from pathlib import Path

import pytest

ROOT = Path(__file__).resolve().parent

for _name in ("NVFP4_BACKEND", "NVFP4_CPU_ISA", "POPCORN_FD", "POPCORN_SEED"):
    os.environ.pop(_name, None)


# The slowest files start first, so that with several workers (pytest-xdist) none runs alone at the end.
LONGEST_FILES = (
    "test_journeys.py",
    "test_bundle.py",
    "test_eval_guards.py",
    "test_fuzz_targets.py",
    "test_hopper_kernels.py",
    "test_grouped_kernels.py",
    "test_extended_kernels.py",
    "test_rounds.py",
    "test_bring_up.py",
    "test_reaching.py",
    "test_eval_protocol.py",
    "test_problem_bundles.py",
    "test_experts_kernels.py",
    "test_wheel.py",
    "test_h200.py",
    "test_published.py",
    "test_sanitized.py",
)

# Packages that a machine without a network may lack: tests that need them skip (scripts/setup.sh).
OPTIONAL_PACKAGES = {"hypothesis", "jsonschema", "matplotlib", "safetensors"}


def pytest_addoption(parser: pytest.Parser) -> None:
    """Options of tests that keep recorded values; accepts the `timeout` setting without pytest-timeout, too."""
    if importlib.util.find_spec("pytest_timeout") is None:
        parser.addini("timeout", "ignored: pytest-timeout is not installed")


def pytest_configure(config: pytest.Config) -> None:
    """Draws the same examples in each run: one that fails then fails for everybody (--hypothesis-profile=default: new
    ones).
    """
    if getattr(config.option, "hypothesis_profile", "") is None:
        config.option.hypothesis_profile = "ci"


@pytest.hookimpl(wrapper=True)
def pytest_make_collect_report(
    collector: pytest.Collector,
) -> Generator[None, pytest.CollectReport, pytest.CollectReport]:
    """Skips a module that cannot be imported because an optional package is missing."""
    report = yield
    missing = re.search(r"ModuleNotFoundError: No module named '(\w+)", str(report.longrepr)) if report.failed else None
    if missing and missing[1] in OPTIONAL_PACKAGES:
        report.outcome = "skipped"
        report.longrepr = (str(collector.path), 0, f"Skipped: {missing[1]} is not installed")
    return report


def pytest_collection_modifyitems(items: list[pytest.Item]) -> None:
    """Puts the longest files first."""
    place = {name: number for number, name in enumerate(LONGEST_FILES)}
    if "PYTEST_XDIST_WORKER" in os.environ:  # without workers, the order of the command line holds
        items.sort(key=lambda item: place.get(item.path.name, len(place)))


@pytest.fixture(scope="session")
def root() -> Path:
    """The checkout."""
    return ROOT
