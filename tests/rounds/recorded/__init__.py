"""Whole texts beside a record: what a page or a command says, word for word, commits and digests numbered.

After a change that is meant: `pytest -n 0 --record-outcomes` on the test, and read the record's difference.
"""

from __future__ import annotations

import difflib
import re
from pathlib import Path

import pytest

FOLDER = Path(__file__).parent
DAY = re.compile(r"\b\d{4}-\d\d-\d\d\b")  # the tests' rounds are of the day that they run on
HASH = re.compile(r"\b(?:[0-9a-f]{64}|[0-9a-f]{40}|[0-9a-f]{9})\b")


def numbered(text: str) -> str:
    """Days left out, commits and digests by the order in which they are first told, a short form as the whole."""
    seen: dict[str, int] = {}

    def number(found: re.Match[str]) -> str:
        return f"{seen.setdefault(found[0][:9], len(seen) + 1)}({len(found[0])})"

    return HASH.sub(number, DAY.sub("DAY", text))


def assert_recorded(request: pytest.FixtureRequest, name: str, text: str) -> None:
    """The text is what the record of that name says."""
    path, text = FOLDER / name, numbered(text)
    if request.config.getoption("--record-outcomes"):
        path.write_text(text)
    difference = list(difflib.unified_diff(path.read_text().split("\n"), text.split("\n"), "recorded", "now", n=0))
    assert difference == [], "\n".join(difference[:40])
