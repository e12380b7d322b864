"""Data sets in CSV files: what is written comes back, and a file with other columns is refused."""

from __future__ import annotations

import gzip

import pytest

from simulator.validation import datasets, report
from simulator.validation.datasets import DataSet, number, text, whole, words
from simulator.validation.mutants.mutant_page import summary

SMALL = {"name": text("a"), "count": whole("b"), "share": number("c"), "kinds": words("d")}
ROWS = [
    {"name": "a, b", "count": 3, "share": 0.5, "kinds": ["x", "y"]},
    {"name": 'with "quotes"', "count": None, "share": None, "kinds": []},
]


@pytest.fixture(params=["small.csv", "small.csv.gz"])
def data_set(request, tmp_path, monkeypatch):
    monkeypatch.setattr(datasets, "DATA", tmp_path)
    monkeypatch.setitem(datasets.SETS, "small", DataSet(request.param, "a row", SMALL))
    return datasets.SETS["small"]


def test_rows_come_back_as_they_were_written(data_set):
    datasets.write("small", ROWS)
    assert datasets.read("small") == ROWS
    raw = data_set.path.read_bytes()
    assert (gzip.decompress(raw) if raw[:2] == b"\x1f\x8b" else raw).startswith(b"name,count,share,kinds\n")
    datasets.write("small", ROWS)
    assert data_set.path.read_bytes() == raw, "the time of writing is no part of the file"


def test_another_column_is_refused(data_set):
    with pytest.raises(ValueError, match="other"):
        datasets.write("small", [{"name": "a", "other": 1}])
    with pytest.raises(ValueError, match=r"small\.csv.*other"):
        datasets.decode(data_set, "name,other\na,1\n")


def test_the_pages_are_written_from_the_data_sets():
    for name, content in report.pages().items():
        assert (datasets.RESULTS / name).read_text() == content, f"{name}: make validation-report writes it"
        assert len(content.splitlines()) <= 120, "two screens"


def test_every_recorded_mutant_is_found_and_no_correct_kernel_reported():
    rows = datasets.read("mutants")
    assert sum(row["places"] for row in rows if row["mutant"]) > 200
    assert [row for row in rows if row["found"] != (row["places"] if row["mutant"] else 0)] == []


def a_mutant(**given):
    row = {"suite": "a", "kernel": "", "mutant": "m", "places": 3, "found": 2, "modes": ["eager"]}
    return row | {"verdicts": ["error"], "kinds": ["deadlock"], "wrong_in": ["eager"]} | given


def test_mutants_are_counted_by_place_and_false_alarms_by_run():
    rows = [a_mutant(mutant="", places=5, found=1, wrong_in=[]), a_mutant(), a_mutant(mutant="n", found=3, wrong_in=[])]
    assert "| a | 2 | 6 | 5 | 1 | 1 of 5 |" in summary(rows)
