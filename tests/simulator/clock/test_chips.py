"""Every chip's file that the library holds has all of its parameters: a kernel can be timed on it."""

from __future__ import annotations

import json
import subprocess

import pytest

from tests.simulator.sim_kit import HEADER, ROOT, built

CHIPS = sorted(path.stem for path in (ROOT / "simulator/clock/chips").glob("*.json"))


@pytest.mark.parametrize("chip", CHIPS)
def test_a_kernel_is_timed_on_every_chip_by_its_name(chip, tmp_path):
    path = tmp_path / "kernel.ptx"
    path.write_text(HEADER + ".visible .entry k() { ret; }")
    done = subprocess.run([built("ptxsim"), path, "--time", chip, "--json"], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout)["time"]["kernel_us"] > 0


def test_the_chips_files_have_the_same_parameters():
    names = {
        chip: set(json.loads((ROOT / f"simulator/clock/chips/{chip}.json").read_text())["parameters"]) for chip in CHIPS
    }
    assert len(CHIPS) >= 3 and all(found == names["h200"] for found in names.values()), names
