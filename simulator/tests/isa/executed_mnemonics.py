"""A pytest plugin that prints the mnemonics of all kernels that tests would execute, and executes none of them.

Run as `python -m pytest -n 0 -p simulator.tests.isa.executed_mnemonics FOLDER`.
"""

from __future__ import annotations

import json
import os
import re
from typing import Any, NoReturn

import pytest

from simulator.tests import sim_kit
from simulator.tests.isa.values import value_table

MARK = "mnemonics: "
STATEMENT = re.compile(r"(?:^|[;{:])\s*(?:@!?[%{][\w}]+\s+)?([a-z]\w*)(?=[.\s;])", re.MULTILINE)
seen: dict[str, set[str]] = {}  # by test file


def record(text: str) -> None:
    file = os.environ["PYTEST_CURRENT_TEST"].partition("::")[0]
    seen.setdefault(file, set()).update(STATEMENT.findall(re.sub(r"//.*", "", text)))


class Recorder:
    """In place of Sim: records the kernel's text and ends the test."""

    def __init__(self, text: str, *_: Any, **__: Any) -> None:
        record(text)
        pytest.skip("only recorded")


def compile_nothing(*_: Any, **__: Any) -> NoReturn:
    """In place of nvcc: kernels in CUDA C say nothing about mnemonics."""
    pytest.skip("only kernels in PTX are recorded")


def record_rows(rows: list[tuple[str, int | str]], *_: Any, **__: Any) -> NoReturn:
    for text, _width in rows:
        record(text)
    pytest.skip("only recorded")


def record_table(table: dict[str, Any], *_: Any, **__: Any) -> None:
    for text in table:
        record(text)


def pytest_configure() -> None:
    """Before test modules import these names."""
    sim_kit.Sim = Recorder
    sim_kit.nvcc = sim_kit.compile_cuda = compile_nothing
    value_table.check = record_table
    value_table.evaluate = record_rows


def pytest_terminal_summary(terminalreporter: pytest.TerminalReporter) -> None:
    terminalreporter.write_line(MARK + json.dumps({file: sorted(names) for file, names in seen.items()}))
