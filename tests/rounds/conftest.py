"""What the tests of rounds leave out."""

from __future__ import annotations

import pytest

from scripts.rounds import check as rounds_check


@pytest.fixture(scope="module")
def no_plot():
    """The plot takes long to draw, and is tested with the history."""
    with pytest.MonkeyPatch.context() as patch:
        patch.setattr(rounds_check, "plot_problems", lambda tank: [])
        yield
