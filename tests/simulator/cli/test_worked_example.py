"""The worked examples of simulator/README.md print what the page says."""

from __future__ import annotations

import re

import pytest

from simulator.validation.worked_examples import PAGE, SHRINK, WALK, render
from tests.simulator.sim_kit import nvcc


def test_the_example_is_what_its_commands_print():
    page = PAGE.read_text()
    assert render(page) == page, "`./nvfp4 validate worked_examples` writes it again"
    block = page.split("<!-- generated:example -->")[1].split("<!-- /generated:example -->")[0]
    assert block.count("$ ") == 3 and "verdict: clean" in block and "error: read-before-completion" in block


def test_the_smallest_set_of_delays_is_what_its_commands_print():
    page = PAGE.read_text()
    assert render(page, SHRINK) == page, "`./nvfp4 validate worked_examples` writes it again"
    block = page.split("<!-- generated:shrink -->")[1].split("<!-- /generated:shrink -->")[0]
    assert "shrunk: out-of-bounds" in block and "needs 1 delay, of" in block and "verdict: error" in block


def test_four_commands_lead_from_a_source_file_to_a_report():
    nvcc()
    page = PAGE.read_text()
    compiled = re.compile(r"PTX line \d+|%\w+")  # nvcc's choice, another one in another version
    assert compiled.sub("", render(page, WALK)) == compiled.sub("", page), (
        "`./nvfp4 validate worked_examples` writes it again"
    )
    block = page.split("<!-- generated:walk -->")[1].split("<!-- /generated:walk -->")[0]
    assert block.count("$ ") == 4 and "verdict: error, 1 launch" in block and "read-after-write-race" in block


def test_an_altered_line_is_noticed():
    page = PAGE.read_text()
    altered = page.replace("error: read-before-completion", "error: something-else", 1)
    assert altered != page and render(altered) == page


def test_a_page_without_the_block_is_an_error():
    with pytest.raises(ValueError, match="has no block"):
        render("no block")
