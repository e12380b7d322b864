"""Fixtures for tests of the package."""

from __future__ import annotations

import os
from pathlib import Path

import pytest

from scripts.common import tile_table
from scripts.common.toolchain import BUILD


def _forget_the_test() -> None:
    """Hides the test's name, which pytest writes into the environment: a template of workers, which imports torch
    once, serves one environment (eval/workers/template.py).
    """
    os.environ["PYTEST_CURRENT_TEST"] = "a test"  # not removed: pytest does that


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup() -> None:
    _forget_the_test()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call() -> None:
    _forget_the_test()


@pytest.fixture(autouse=True)
def the_environment_of_before():
    """Restores the environment after each test: programs that run in this process change it."""
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)


@pytest.fixture(scope="session")
def library_path(root: Path) -> Path:
    """The library that `make build` built."""
    path = Path(os.environ.get("NVFP4_LIBRARY", BUILD / "libcustom_kernel.so"))
    if not path.is_file():
        pytest.fail(f"{path} does not exist; run `make build` first")
    return path


class Tiles:
    """What build/tile_table says of the GPU backends' tiles (scripts/tile_table/tile_table.c)."""

    def __init__(self) -> None:
        self.program = tile_table.PROGRAM
        self.table = tile_table.printed()

    def selected(self, backend: str, sms: int, *shape: int) -> dict[str, int | str]:
        """The tile selected for m, n, k and optionally l, with its CTAs and predicted cost."""
        text = "x".join(map(str, shape))
        return tile_table.selected(backend, sms, text)[text]


@pytest.fixture(scope="session")
def tiles() -> Tiles:
    """The library's tile table."""
    return Tiles()
