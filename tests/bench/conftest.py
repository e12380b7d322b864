"""Restores the environment after each test: benches that run in this process set variables for the library."""

from __future__ import annotations

import os

import pytest


@pytest.fixture(autouse=True)
def the_environment_of_before():
    before = dict(os.environ)
    yield
    os.environ.clear()
    os.environ.update(before)
