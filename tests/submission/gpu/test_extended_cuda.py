"""The extended GEMM on a Hopper card; skips where there is none.

On a machine with one:  make library && python -m pytest -q tests/submission/gpu/test_extended_cuda.py
"""

from __future__ import annotations

import pytest
import torch

import submission
from tests.submission.extended import on_card

pytestmark = pytest.mark.skipif(
    not torch.cuda.is_available() or not any(b.available and b.name == "hopper" for b in submission.backends()),
    reason="no Hopper card",
)


@pytest.mark.parametrize("tile", [tile for tile, _ in (*on_card.NARROW, *on_card.WIDE)] + [""])
def test_every_option_is_right(tile):
    found = {case: on_card.wrong(case) for case in on_card.cases(small=False) if case[0] == tile}
    assert [(case, text) for case, text in found.items() if text] == []


def test_a_rows_bits_do_not_depend_on_the_other_rows():
    assert on_card.rows_that_change() == ""
