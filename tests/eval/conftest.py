"""Lets workers of several tests be forks of one template, which imports torch once.

A template serves one environment (eval/workers/template.py), and pytest writes each test's name into it.
"""

from __future__ import annotations

import os

import pytest


def _forget_the_test() -> None:
    os.environ["PYTEST_CURRENT_TEST"] = "a test"  # not removed: pytest does that


@pytest.hookimpl(tryfirst=True)
def pytest_fixture_setup() -> None:
    _forget_the_test()


@pytest.hookimpl(tryfirst=True)
def pytest_pyfunc_call() -> None:
    _forget_the_test()
