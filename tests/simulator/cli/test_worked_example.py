"""The worked example of simulator/README.md prints what the page says."""

from __future__ import annotations

import pytest

from scripts.evidence.simulator_example import PAGE, render


def test_the_example_is_what_its_commands_print():
    page = PAGE.read_text()
    assert render(page) == page, "`./nvfp4 evidence simulator_example` writes it again"
    block = page.split("<!-- generated:example -->")[1].split("<!-- /generated:example -->")[0]
    assert block.count("$ ") == 3 and "verdict: clean" in block and "error: read-before-completion" in block


def test_an_altered_line_is_noticed():
    page = PAGE.read_text()
    altered = page.replace("error: read-before-completion", "error: something-else", 1)
    assert altered != page and render(altered) == page


def test_a_page_without_the_block_is_an_error():
    with pytest.raises(ValueError, match="has no block"):
        render("no block")
