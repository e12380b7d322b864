"""The microbenchmarks' program on the simulator, and what an H200 gave."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import pytest

from simulator.calibration import packed
from simulator.calibration.benchmarks import __main__ as micro
from simulator.calibration.benchmarks.__main__ import rows_of
from simulator.python.toolchain import BUILD

QUICK_GROUPS = ("synchronisation", "clusters")


@pytest.fixture(scope="module")
def recorded():
    """The rows that an H200 measured."""
    _, rows = packed.read("h200_micro")
    return [row | {"parameters": packed.parameters_of(row["parameters"]), "value": float(row["value"])} for row in rows]


def test_the_program_runs_clean_on_the_simulator_and_asks_what_the_card_was_asked(root, recorded):
    program = BUILD / "micro_sim"
    if not program.is_file():
        pytest.skip("build/micro_sim is not built here")
    done = subprocess.run([program, *QUICK_GROUPS], capture_output=True, text=True, timeout=500)
    assert done.returncode == 0, done.stderr
    assert "error" not in done.stderr, done.stderr
    rows = rows_of(done.stdout)
    asked = [(row["name"], row["parameters"]) for row in rows]
    names = {name for name, _ in asked}
    assert {"mbarrier_round_trip_cycles", "cluster_barrier_cycles", "remote_copy_bytes_a_cycle"} <= names
    assert sorted(map(str, asked)) == sorted(
        str((row["name"], row["parameters"])) for row in recorded if row["name"] in names
    )


def test_without_the_program_or_a_device_nothing_is_measured(tmp_path, monkeypatch, capsys):
    monkeypatch.setattr(sys, "argv", ["micro", "--json", str(tmp_path / "x.json")])
    monkeypatch.setattr(micro, "PROGRAM", tmp_path / "none")
    assert micro.main() == 2 and "build/micro is not built" in capsys.readouterr().err
    monkeypatch.setattr(micro, "PROGRAM", Path(__file__))
    for error in (OSError("no driver"), subprocess.CalledProcessError(9, "nvidia-smi")):

        def device(error=error):
            raise error

        monkeypatch.setattr(micro, "device", device)
        assert micro.main() == 2 and f"no CUDA device: {error}" in capsys.readouterr().err
    assert list(tmp_path.iterdir()) == []


def test_no_parameter_was_measured_twice_or_as_nothing(recorded):
    keys = [(row["name"], json.dumps(row["parameters"], sort_keys=True)) for row in recorded]
    assert len(set(keys)) == len(keys)
    positive = [row for row in recorded if row["unit"] in ("cycles", "us", "GHz", "bytes a cycle")]
    assert len(positive) > 300 and all(row["value"] > 0 for row in positive)


def test_wgmma_takes_half_its_n_in_cycles(recorded):
    for row in recorded:
        p = row["parameters"]
        if row["name"] == "wgmma_interval_cycles" and p["warpgroups"] == 1 and p["n"] >= 64:
            assert row["value"] == pytest.approx(p["n"] / 2, abs=0.5), p
