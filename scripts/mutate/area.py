"""An area: files, and the tests that ought to notice a fault in them."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True)
class Area:
    """Patterns of files, the tests' files in the order to run them in, and what make rebuilds for them."""

    files: tuple[str, ...]
    tests: tuple[str, ...]
    targets: tuple[str, ...] = ()
    environment: dict[str, str] = field(default_factory=dict)
    wider: tuple[str, ...] = ()  # asked last, on everything built again: the tests of the layers around it


def named_tests(root: Path, names: tuple[str, ...]) -> list[str]:
    """The test files of these names or patterns, in this order."""
    return matching(root, tuple(name if name.startswith((".", "tests/")) else f"tests/**/{name}" for name in names))


def matching(root: Path, patterns: tuple[str, ...]) -> list[str]:
    """The files of a checkout that patterns name, in the patterns' order."""
    found: dict[str, None] = {}
    for pattern in patterns:
        for path in sorted(root.glob(pattern)):
            if path.is_file() and "build" not in path.relative_to(root).parts[:1]:
                found[path.relative_to(root).as_posix()] = None
    return list(found)
