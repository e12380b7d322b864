"""What a program of bench sets for the library, in a test that runs it in this process, ends with the test."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def the_environment_of_before():
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)
