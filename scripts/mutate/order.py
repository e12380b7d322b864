"""Which tests of the whole suite a fault meets after its area's own, the likeliest first."""

from __future__ import annotations

import re
from collections.abc import Sequence
from functools import cache
from pathlib import Path

from scripts.mutate.area import Area, matching, named_tests

# Files that take a minute or more and stand for the whole product: a fault that only they would see is a survivor.
SLOW = {"test_journeys.py", "test_eval_protocol.py", "test_bundle.py", "test_eval_guards.py", "test_fuzz_targets.py"}


@cache
def _text(test: Path) -> str:
    return test.read_text()


def nearness(root: Path, path: str, test: str) -> int:
    """How near a test file is to a source: 3 imports it or has its name, 1 names it, 0 neither."""
    stem = Path(path).stem
    if not path.endswith(".py"):
        words = Path(test).stem.split("_")
        return 3 if stem in words or stem == Path(test).stem.removeprefix("test_") else 0
    dotted = path.removesuffix(".py").removesuffix("/__init__").replace("/", ".")
    parent, _, name = dotted.rpartition(".")
    text = _text(root / test)
    if dotted in text or re.search(rf"from {re.escape(parent)} import [^#\n]*\b{name}\b", text):
        return 3
    return 1 if re.search(rf"\b{name}\b", text) else 0


def own_tests(root: Path, area: Area, path: str) -> list[str]:
    """An area's own test files, those nearest to a source first."""
    return sorted(named_tests(root, area.tests), key=lambda test: -nearness(root, path, test))


def wider_tests(root: Path, area: Area, path: str, suite: bool) -> list[str]:
    """Test files beyond the area's own: those of the layers around it, and of the `suite` all but the slow ones."""
    own = set(named_tests(root, area.tests))
    around = [test for test in named_tests(root, area.wider) if test not in own]
    if not suite:
        return around
    rest = [test for test in matching(root, ("tests/**/test_*.py",)) if test not in own and test not in around]
    fast = [test for test in (*around, *rest) if Path(test).name not in SLOW]
    return sorted(fast, key=lambda test: -nearness(root, path, test))


def described(wider: str, tests: Sequence[str] = ()) -> str:
    """Which tests a score counts, in words."""
    if tests:
        return f"by {', '.join(tests)}"
    beyond = {
        "none": "",
        "around": ", then by those of the layers around it",
        "suite": ", then by the rest of the suite",
    }
    return f"by an area's own tests{beyond[wider]}{' but its slow files' if wider == 'suite' else ''}"
