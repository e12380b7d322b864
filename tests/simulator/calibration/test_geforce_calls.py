"""The page of the GeForce kernels' simulated times."""

from __future__ import annotations

import json

import pytest

from simulator.calibration.calls import geforce
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


def test_a_simulation_is_of_each_shape_alone_and_behind_two_calls(monkeypatch, tmp_path):
    """The simulator is replaced: a minute each otherwise."""
    asked = []

    def calls(shape, backend, count=1):
        asked.append((shape, backend, count))
        return {"kernel_us": shape[0] / 7, "us": shape[0] * count / 9}

    monkeypatch.setattr(geforce, "simulated_calls", calls)
    monkeypatch.setattr(geforce, "PAGE", tmp_path / "page.md")
    record = tmp_path / "record.json"
    record.write_text('{"kept": 1}')
    assert geforce.main(["--simulate", "--record", str(record)]) == 0
    report = json.loads(record.read_text())
    assert report["kept"] == 1
    assert [row["shape"] for row in report["ours"]] == [
        [256, 4096, 7168],
        [512, 4096, 7168],
        [256, 3072, 4096],
        [512, 3072, 7168],
    ]
    assert [row["alone_us"] for row in report["ours"]] == [36.57, 73.14, 36.57, 73.14]
    assert [row["behind_us"] for row in report["ours"]] == [28.44, 56.89, 28.44, 56.89]
    assert all(row["tile"].startswith("m") for row in report["ours"])
    assert asked == [(tuple(row["shape"]), "geforce", count) for row in report["ours"] for count in (1, 3)]
    assert (tmp_path / "page.md").read_text() == render(report)
