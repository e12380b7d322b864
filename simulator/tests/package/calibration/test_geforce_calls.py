"""The page of the GeForce kernels' simulated times."""

from __future__ import annotations

import json

import pytest

from simulator.calibration.calls.geforce import PAGE, RECORD, floors, render


def test_the_page_is_what_the_record_says():
    assert PAGE.read_text() == render(json.loads(RECORD.read_text()))


def test_the_floors_count_both_products_and_every_byte_once():
    memory, tensor = floors(256, 4096, 7168)
    # fp4 of three operands and a sixteenth of their elements in scale factors; fp16 out.
    assert memory == pytest.approx(((256 + 2 * 4096) * 7168 * (0.5 + 1 / 16) + 256 * 4096 * 2) / 1.792e6)
    assert tensor == pytest.approx(2 * 2 * 256 * 4096 * 7168 / (170 * 4096 * 2.88e3))


def test_256_rows_are_near_the_memory_floor():
    rows = [row for row in json.loads(RECORD.read_text())["ours"] if row["shape"][0] == 256]
    assert len(rows) == 2
    for row in rows:
        assert row["alone_us"] <= 1.3 * floors(*row["shape"])[0], row
