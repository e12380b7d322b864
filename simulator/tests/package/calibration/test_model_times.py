"""Rounds' times on the simulator's clock: another clock of the SMs, and the file that a run leaves."""

from __future__ import annotations

import json

from simulator.calibration.calls import model_times
from simulator.calibration.rows import parameters_of
from simulator.python.toolchain import built

SHAPE = "256x512x1024"
LOWER, BOOST = 1.5, 1.965


def test_the_slower_chip_differs_in_the_clock_under_mmas_alone(tmp_path):
    model_times.write_slower_chip(tmp_path / "slower.json", LOWER)
    slower = json.loads((tmp_path / "slower.json").read_text())["parameters"]
    chip = parameters_of("b200")
    assert [name for name in chip if slower[name]["value"] != chip[name]["value"]] == ["sm_clock_tensor"]
    assert slower["sm_clock_tensor"]["value"] == LOWER and chip["sm_clock_tensor"]["value"] == BOOST


def test_the_blackwell_kernels_slow_down_with_the_sms_but_not_by_as_much():
    library = str(built("libcustom_kernel_sim.so"))
    ratio = model_times.us_of(library, SHAPE, None, LOWER) / model_times.us_of(library, SHAPE, None)
    assert 1.02 < ratio < BOOST / LOWER - 0.02  # memory keeps its clock
