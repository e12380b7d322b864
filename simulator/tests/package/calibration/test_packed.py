"""Data sets are read as they were written, and the committed ones hold what their heads say."""

from __future__ import annotations

import pytest

from simulator.calibration import packed

HEAD = {"chip": "any", "columns": {"name": "of it", "value": "its value"}}


@pytest.mark.parametrize(("rows", "suffix"), [(3, ".csv"), (20_000, ".csv.gz")])
def test_a_data_set_is_read_as_it_was_written(tmp_path, rows, suffix):
    written = [{"name": f"a, {i}", "value": str(i / 8)} for i in range(rows)]
    path = packed.write("x", HEAD, written, tmp_path)
    assert path == tmp_path / f"x{suffix}"
    first = path.read_bytes()
    assert packed.read("x", tmp_path) == (HEAD, written)
    assert packed.write("x", HEAD, written, tmp_path).read_bytes() == first
    assert packed.write("x", HEAD, written[:1], tmp_path).name == "x.csv"
    assert [file.name for file in tmp_path.iterdir()] == ["x.csv"], "one file a data set, whatever its size was"


def test_a_data_set_that_is_not_there_is_named(tmp_path):
    with pytest.raises(FileNotFoundError, match="no data set x"):
        packed.read("x", tmp_path)


def test_parameters_keep_their_types():
    parameters = {"access": "ld.b32", "warps": 8, "computed": False, "apart": -1}
    assert packed.parameters_of(packed.parameters_text(parameters)) == parameters
    assert packed.parameters_of("") == {}


def test_every_committed_data_set_has_the_columns_that_its_head_explains():
    names = sorted(path.name.partition(".")[0] for path in packed.DATA.glob("*.csv*"))
    assert {"h100_micro", "h200_micro", "h200_predicted", "b200_predicted", "h200_observed"} <= set(names)
    for name in names:
        head, rows = packed.read(name)
        assert rows and all(list(row) == list(head["columns"]) for row in rows), name


def test_observations_are_of_the_sets_that_the_head_explains():
    head, rows = packed.read("h200_observed")
    assert {row["set"] for row in rows} == set(head["sets"])
