"""The extended GEMM on a Hopper or Blackwell card; skips where there is none.

On a machine with one:  make library && python -m pytest -q tests/submission/gpu/test_extended_cuda.py
"""

from __future__ import annotations

import pytest
import torch

from tests.submission.extended import on_card

BACKEND = on_card.backend() if torch.cuda.is_available() else ""
pytestmark = pytest.mark.skipif(not BACKEND, reason="no Hopper and no Blackwell card")


@pytest.mark.parametrize("tile", [*dict(on_card.TILES.get(BACKEND, ())), ""])
def test_every_option_is_right(tile):
    found = {case: on_card.wrong(case) for case in on_card.cases(small=False) if case[0] == tile}
    assert [(case, text) for case, text in found.items() if text] == []


@pytest.mark.skipif(BACKEND != "hopper", reason="promised on Hopper alone")
def test_a_rows_bits_do_not_depend_on_the_other_rows():
    assert on_card.rows_that_change() == ""
