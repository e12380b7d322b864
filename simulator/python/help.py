"""Lets `python -m PROGRAM` answer --help, and name a missing package in a line, where numpy, torch or a build lacks."""

from __future__ import annotations

import importlib.abc
import importlib.machinery
import sys
from collections.abc import Sequence
from types import ModuleType, TracebackType
from unittest.mock import MagicMock

SLOW = {"torch", "submission"}  # stood in for even where they are there: they take seconds, or need a build


class _StandIns(importlib.abc.MetaPathFinder, importlib.abc.Loader):
    """Finds modules of the packages named, or of every package but Python's own; a stand-in has every attribute."""

    def __init__(self, packages: set[str] | None = None) -> None:
        self.packages = packages

    def find_spec(
        self, name: str, path: Sequence[str] | None, target: ModuleType | None = None
    ) -> importlib.machinery.ModuleSpec | None:
        package, _, rest = name.partition(".")
        absent = isinstance(sys.modules[package], MagicMock) if rest else package not in sys.stdlib_module_names
        stands_in = absent if self.packages is None else package in self.packages
        return importlib.machinery.ModuleSpec(name, self, is_package=True) if stands_in else None

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return MagicMock(name=spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


def _say_what_is_missing(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    if isinstance(error, ModuleNotFoundError) or "build it with" in str(error):
        print(error, file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)


def prepare() -> None:
    """For an interpreter that is about to run a module (-m): stand-ins if it is asked for help, else that line."""
    if sys.argv[:1] == ["-m"] and {"-h", "--help"} & set(sys.argv[1:]):
        sys.meta_path.insert(0, _StandIns(SLOW))
        sys.meta_path.append(_StandIns())
    elif sys.argv[:1] == ["-m"]:
        sys.excepthook = _say_what_is_missing
