"""Data sets in CSV files and recordings of a card: what is written comes back, and other columns are refused."""

from __future__ import annotations

import gzip
import lzma

import numpy as np
import pytest

from simulator.validation import datasets, report
from simulator.validation.datasets import DataSet, number, text, whole, words
from simulator.validation.h200.recordings import load_arrays, load_record, save_arrays, save_record
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


def test_arrays_come_back_with_their_types_and_shapes(tmp_path):
    arrays = {"a": np.arange(6, dtype=np.uint16).reshape(2, 3), "b.c": np.array([7], np.uint32)}
    save_arrays(tmp_path / "x.npz.xz", arrays)
    found = load_arrays(tmp_path / "x.npz.xz")
    assert list(found) == list(arrays)
    for name, array in arrays.items():
        assert found[name].dtype == array.dtype and np.array_equal(found[name], array)


def test_a_record_comes_back(tmp_path):
    record = {"chip": "NVIDIA H200", "versions": {"numpy": "2"}, "features": {"f, g": ["0a", 3]}}
    record |= {"hopper": {"call": {"inputs": "1b", "output": "2c"}}, "refused": {"store": 'an "illegal" word'}}
    save_record(tmp_path / "x.csv.xz", record)
    assert load_record(tmp_path / "x.csv.xz") == record


def test_the_committed_record_is_packed_as_it_would_be_again(root, tmp_path):
    path = root / "simulator/tests/package/h200/recorded.csv.xz"
    save_record(tmp_path / "x.csv.xz", load_record(path))
    assert lzma.decompress((tmp_path / "x.csv.xz").read_bytes()) == lzma.decompress(path.read_bytes())
