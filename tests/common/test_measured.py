"""The measured data sets: their form on disk, and the index that names them."""

from __future__ import annotations

import json
import re

import pytest

from scripts.common import measured

TIMES = {
    "chip": "NVIDIA H200",
    "versions": {"torch": "2.11"},
    "median_us": {
        "auto": {"1x2x3": 10.25, "4x5x6": 20.5, "7x8x9": 30.0},
        "cublas": {"1x2x3": 11.0, "7x8x9": 33.3333333},
    },
    "rows": [{"variant": "a", "us": 1.5}, {"variant": "b", "us": 2.5, "note": "twice"}],
    "draws": {"1x2x3": [{"seed": 1, "outside": 7}, {"seed": 2, "outside": 9}]},
    "right": True,
}


def test_a_table_names_its_columns_once_and_reads_back(tmp_path):
    small = {"a": {"x": 1, "y": 2, "z": 3, "w": 4, "v": 5}, "b": {"x": 6, "y": 7, "z": 8, "w": 9, "v": None}}
    del small["b"]["v"]
    path = measured.save(TIMES | {"counts": small}, "times", tmp_path)
    stored = json.loads(path.read_text())
    assert stored["counts"] == {
        "by_column": True,
        "columns": ["a", "b"],
        "rows": {"x": [1, 6], "y": [2, 7], "z": [3, 8], "w": [4, 9], "v": [5, None]},
    }
    assert stored["rows"] == {"columns": ["variant", "us", "note"], "rows": [["a", 1.5, None], ["b", 2.5, "twice"]]}
    found = measured.load("times", tmp_path)
    assert found["counts"] == small and found["rows"] == TIMES["rows"] and found["draws"] == TIMES["draws"]
    assert found["right"] is True and found["chip"] == "NVIDIA H200"
    assert found["median_us"]["cublas"] == {"1x2x3": 11.0, "7x8x9": 33.3333}  # six digits


def test_a_row_without_a_cell_for_each_column_is_refused(tmp_path):
    (tmp_path / "bad.json").write_text('{"us": {"columns": ["a", "b"], "rows": {"1x2x3": [1.0]}}}')
    with pytest.raises(ValueError, match=r"bad\.json: us: row 1x2x3 has 1 cells for 2 columns"):
        measured.load("bad", tmp_path)
    with pytest.raises(ValueError, match="0 files of data set 'none'"):
        measured.load("none", tmp_path)


def test_a_large_data_set_is_compressed_and_takes_the_place_of_the_small_one(tmp_path):
    assert measured.save(TIMES, "times", tmp_path).name == "times.json"
    large = TIMES | {"rows": [{"variant": f"v{at}", "us": float(at)} for at in range(9000)]}
    path = measured.save(large, "times", tmp_path)
    assert path.name == "times.json.gz" and path.stat().st_size < 100_000
    assert [one.name for one in tmp_path.iterdir()] == ["times.json.gz"]
    assert measured.load("times", tmp_path)["rows"] == large["rows"]


def test_the_index_names_each_data_set_and_each_reads():
    index = (measured.DATA / "README.md").read_text()
    files = {path.name for path in measured.DATA.glob("*.json*")}
    assert set(re.findall(r"\]\((\w+\.json(?:\.gz)?)\)", index)) == files
    for name in files:
        found = measured.load(name.split(".")[0])
        assert found.keys() & {"chip", "device", "processor", "environment"}, name  # the machine that was measured
