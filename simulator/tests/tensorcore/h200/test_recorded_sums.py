"""wgmma, mma.sync and cvt agree bit for bit with an H200 (validation/h200/record_mma.cu)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from simulator.python.tensorcore import ISAS, force_isa, from_f32, mma
from simulator.validation.h200.record_mma import CONVERSIONS, INSTRUCTIONS, STYLES
from simulator.validation.h200.recordings import load_arrays

FIXTURE = Path(__file__).with_name("recorded_sums.npz.xz")


@pytest.fixture(scope="module")
def recorded():
    return load_arrays(FIXTURE)


@pytest.mark.parametrize("index", range(len(INSTRUCTIONS)), ids=lambda i: INSTRUCTIONS[i][0])
def test_sums(recorded, index):
    for isa in filter(force_isa, ISAS):
        for i, style in enumerate(STYLES):
            a, b = (np.ascontiguousarray(recorded[f"{x}{index}"][i]).view(np.uint8) for x in "ab")
            got = mma(INSTRUCTIONS[index][1], a, b, recorded[f"c{index}"][i])
            assert (got == recorded[f"d{index}"][i]).all(), (isa, style)


@pytest.mark.parametrize("index", range(len(CONVERSIONS)), ids=lambda i: str(CONVERSIONS[i]))
def test_conversions(recorded, index):
    fmt, mode, flags = CONVERSIONS[index]
    x = recorded["x"]
    assert (from_f32(fmt, x.view(np.float32), mode, flags) == recorded["codes"][:, index]).all()
