"""The worked examples in the simulator's pages print what the pages show."""

from __future__ import annotations

import re

import pytest

from simulator.tests.sim_kit import nvcc
from simulator.validation.worked_examples import BLOCK, EXAMPLE, PAGES, SHRINK, WALK, render

AGAIN = "`./nvfp4 validate worked_examples` writes it again"


def block(name: str) -> str:
    return re.search(BLOCK.format(name=name), PAGES[name].read_text(), re.DOTALL)[2]


def test_one_kernel_of_a_ptx_file():
    page = PAGES[EXAMPLE].read_text()
    assert render(page) == page, AGAIN
    shown = block(EXAMPLE)
    assert shown.count("$ ") == 3 and "verdict: clean" in shown and "error: read-before-completion" in shown


def test_the_smallest_set_of_delays():
    page = PAGES[SHRINK].read_text()
    assert render(page, SHRINK) == page, AGAIN
    shown = block(SHRINK)
    assert "shrunk: out-of-bounds" in shown and "needs 1 delay, of" in shown and "verdict: error" in shown


def test_four_commands_lead_from_a_source_file_to_a_report():
    nvcc()
    page = PAGES[WALK].read_text()
    compiled = re.compile(r"PTX line \d+|%\w+")  # these depend on the version of nvcc
    assert compiled.sub("", render(page, WALK)) == compiled.sub("", page), AGAIN
    shown = block(WALK)
    assert shown.count("$ ") == 4 and "verdict: error, 1 launch" in shown and "read-after-write-race" in shown


def test_an_altered_line_is_noticed():
    page = PAGES[EXAMPLE].read_text()
    altered = page.replace("error: read-before-completion", "error: something-else", 1)
    assert altered != page and render(altered) == page


def test_a_page_without_the_block_is_an_error():
    with pytest.raises(ValueError, match="has no block"):
        render("no block")
