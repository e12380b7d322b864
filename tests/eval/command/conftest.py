"""The command line in the tests' own process."""

from __future__ import annotations

import pytest

from eval.workers import template


@pytest.fixture(autouse=True)
def no_template_beforehand(monkeypatch):
    """A template imports torch for 4 s; few of these tests run a submission, and then one starts."""
    monkeypatch.setattr(template, "prepare", lambda: None)
