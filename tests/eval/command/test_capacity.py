"""A case that does not fit into memory is refused before a submission runs."""

from __future__ import annotations

import pytest
import torch

from eval.cases import parse_case
from eval.hardware import capacity

CPU = torch.device("cpu")
CASE = parse_case("m: 256; n: 512; k: 1024; l: 2; seed: 1")


def test_what_a_case_needs_by_hand():
    rows = 256 + 2 * 512
    lent = 2 * (rows * (512 + 128) + 256 * 512 * 2) * 2  # packed codes, scale factors twice, output; two of each
    reference = rows * 1024 * 4 + 2 * 256 * 512 * 4
    assert capacity.needed_bytes(CASE.shape) == lent + reference


@pytest.mark.parametrize(("free", "fits"), [(0, 0), (-1, False), (1, True)])
def test_a_case_is_refused_from_the_first_byte_too_many(monkeypatch, free, fits):
    needed = capacity.needed_bytes(CASE.shape)
    monkeypatch.setattr(capacity, "available_bytes", lambda device: needed + free)
    said = capacity.does_not_fit(CASE, CPU)
    assert bool(said) == (free < 0)
    assert said == "" or said.startswith("the case is too large for this machine: it needs at least 0.00")


def test_available_memory_counts_caches_and_the_cgroups_limit(monkeypatch, tmp_path):
    (tmp_path / "meminfo").write_text("MemTotal: 100 kB\nMemFree: 1 kB\nMemAvailable:   50 kB\n")
    monkeypatch.setattr(capacity, "Path", lambda name: tmp_path / "meminfo")
    monkeypatch.setattr(capacity, "_CGROUP", tmp_path)
    assert capacity.available_bytes(CPU) == 50 << 10
    (tmp_path / "memory.max").write_text("max\n")
    (tmp_path / "memory.current").write_text("1000\n")
    assert capacity.available_bytes(CPU) == 50 << 10
    (tmp_path / "memory.max").write_text("11000\n")
    assert capacity.available_bytes(CPU) == 10000
    monkeypatch.setattr(torch.cuda, "mem_get_info", lambda device: (123, 456))
    assert capacity.available_bytes(torch.device("cuda", 0)) == 123


def test_shapes_beyond_all_bounds_are_no_trouble():
    case = parse_case("m: " + "9" * 19 + "; n: " + "9" * 19 + "; k: 64; l: 1; seed: 1")
    assert "too large" in capacity.does_not_fit(case, CPU)
