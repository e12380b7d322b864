"""The Hopper backend's kernels: outputs on the simulator and on an H200 (validation/h200/record_calls.py)."""

from __future__ import annotations

from pathlib import Path

import numpy as np
import pytest

from simulator.tests.sim_kit import built, nvcc
from simulator.validation.h200.hopper_cases import (
    COMMITTED_SAMPLE,
    SIGNS,
    cases,
    configs,
    inputs,
    sample,
    simulate,
    ulps,
)
from simulator.validation.h200.recordings import load_arrays, load_record

RECORDED = Path(__file__).parent / "recorded.csv.xz"
MOST_MACS = 1.3e8  # `record_calls compare` runs larger cases
# ex2.approx and rcp.approx are 2^-22 and 2^-23 off at most: less than 2^-21 of an output in fp32, which sends fewer
# than one rounding to fp16 (2^-11) in 1024 to the other neighbour; twice as many are allowed.
MOST_ULPS, MOST_DIFFERING = 1, 1 / 512
WANTED = [case for case in cases() if case.macs <= MOST_MACS]


@pytest.fixture(scope="module")
def recorded():
    return load_record(RECORDED)["hopper"], load_arrays(RECORDED.with_name("recorded.npz.xz"))


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    """Case name -> digests and sample from hopper_cases.py."""
    nvcc()
    built("libcustom_kernel_sim.so")
    folder = tmp_path_factory.mktemp("hopper")
    simulate(folder, WANTED)
    return {case.name: dict(np.load(folder / f"{case.name}.npz")) for case in WANTED}


def test_the_record_covers_every_case_and_configuration(recorded):
    assert set(recorded[0]) >= {case.name for case in cases()}
    assert {case.config for case in WANTED} == {"", *configs()}


@pytest.mark.parametrize("case", WANTED, ids=lambda case: case.name)
def test_outputs_are_those_of_the_card(case, simulated, recorded):
    digests, samples = recorded
    ours, card = simulated[case.name], digests[case.name]
    assert str(ours["inputs"]) == card["inputs"]
    if case.kind == "residue":
        assert str(ours["output"]) == card["output"]
        return
    apart = np.abs(ulps(sample(ours["sample"], COMMITTED_SAMPLE)) - ulps(samples[case.name]))
    assert apart.max() <= MOST_ULPS
    assert np.count_nonzero(apart) <= max(1, MOST_DIFFERING * apart.size)


@pytest.mark.parametrize("kind", ["full", "residue"])
def test_outputs_have_digits_to_compare(kind, simulated):
    for case in WANTED:
        output = simulated[case.name]["sample"].view(np.float16)
        if case.kind == kind and output.size > 1:
            assert np.mean(np.isfinite(output) & (output != 0)) > 0.5, case.name


def test_a_residue_leaves_nothing_to_approximate():
    case = min((case for case in WANTED if case.kind == "residue"), key=lambda case: case.k)
    codes, scales = inputs(case)
    values = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6])
    a, b1 = (np.stack([values[x & 7], values[x >> 4 & 7]], -1).reshape(*x.shape[:2], -1) for x in codes[:2])
    assert not any((code & SIGNS).any() for code in codes[:2])

    def scale(x):
        mantissa, exponent = (x & 7).astype(float), (x >> 3 & 15).astype(int)
        return np.repeat(np.where(exponent, (1 + mantissa / 8) * 2.0 ** (exponent - 7), mantissa / 8 * 2.0**-6), 16, -1)

    gate = np.einsum("lmk,lnk->lmn", a * scale(scales[0]), b1 * scale(scales[1]), optimize=True)
    assert gate.min() > 18  # 1 + exp(-18) is 1 in fp32, whose reciprocal is exact
