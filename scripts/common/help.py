"""Lets `python -m PROGRAM` answer --help, and say what is missing, without torch, a package or the built library.

The programs import those at their top. Asked for help, Python gets stand-ins for them, which are enough to define a
program's functions and to build its parser.
"""

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
        if self.packages is None:
            ours = isinstance(sys.modules[package], MagicMock) if rest else package not in sys.stdlib_module_names
        else:
            ours = package in self.packages
        if not ours:
            return None
        return importlib.machinery.ModuleSpec(name, self, is_package=True)

    def create_module(self, spec: importlib.machinery.ModuleSpec) -> ModuleType:
        return MagicMock(name=spec.name)

    def exec_module(self, module: ModuleType) -> None:
        pass


def _say_what_is_missing(kind: type[BaseException], error: BaseException, trace: TracebackType | None) -> None:
    """Prints a library that is not built, or a package that is not there, in a line; other errors as Python does."""
    if isinstance(error, ImportError) and ("build it with" in str(error) or isinstance(error, ModuleNotFoundError)):
        print(error, file=sys.stderr)
    else:
        sys.__excepthook__(kind, error, trace)


def prepare() -> None:
    """If the interpreter is about to run a module (-m): installs the stand-ins for --help, else the line above."""
    if sys.argv[:1] != ["-m"]:
        return
    if not {"-h", "--help"} & set(sys.argv[1:]):
        sys.excepthook = _say_what_is_missing
    else:
        sys.meta_path.insert(0, _StandIns(SLOW))
        sys.meta_path.append(_StandIns())
