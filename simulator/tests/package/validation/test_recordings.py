"""Recordings of a card: what is packed comes back, and the committed record is what packing it again gives."""

from __future__ import annotations

import lzma

import numpy as np

from simulator.validation.h200.recordings import load_arrays, load_record, save_arrays, save_record


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
