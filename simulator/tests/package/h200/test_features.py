"""A small kernel for each feature: the simulator gives what an H200 gave (validation/h200/record_calls.py)."""

from __future__ import annotations

import re
import subprocess
from pathlib import Path

import numpy as np
import pytest

from simulator.tests.sim_kit import built, nvcc
from simulator.validation.h200.recordings import load_arrays, load_record

RECORDED = Path(__file__).parent / "recorded.csv.xz"
MODES = ("eager", "late", "reverse", "random:1", "random:2", "poison")
OUT_WORDS = 16384  # output of a feature (features.cuh)
APPROXIMATED = 2048  # operands, then as many results
# HW: bounds of the approximations, relative or else absolute (PTX ISA, each instruction's notes).  ex2's holds for the
# fraction of its operand, sine's and cosine's for operands of -2 pi to 2 pi; lg2's is relative but for 0.5 to 2.
RELATIVE = {"ex2": 2**-22, "rcp": 2**-23, "rsqrt": 2**-22.9, "sqrt": 2**-23, "tanh": 2**-11}
ABSOLUTE = {"lg2": 2**-22, "sin": 2**-20.5, "cos": 2**-20.5}
EXACT = {
    "ex2": np.exp2,
    "rcp": lambda x: 1 / x,
    "rsqrt": lambda x: 1 / np.sqrt(x),
    "sqrt": np.sqrt,
    "lg2": np.log2,
    "tanh": np.tanh,
    "sin": np.sin,
    "cos": np.cos,
}


def run(mode, words):
    """Name -> [hash of the output, its words]; the words of each feature; the simulator's report."""
    program, environment = built("features_sim"), {"NVFP4_SIMULATE_MODE": mode}
    done = subprocess.run([program, "--words", words], env=environment, capture_output=True, text=True, check=False)
    assert done.returncode == 0, done.stderr
    found = {name: [digest, int(count)] for name, digest, count in map(str.split, done.stdout.splitlines())}
    return found, dict(zip(found, np.fromfile(words, np.uint32).reshape(-1, OUT_WORDS), strict=True)), done.stderr


@pytest.fixture(scope="module")
def simulated(tmp_path_factory):
    nvcc()
    return run("eager", tmp_path_factory.mktemp("features") / "words")


@pytest.fixture(scope="module")
def recorded():
    return load_record(RECORDED)


def test_every_feature_runs_and_leaves_an_output(simulated):
    found, _, _ = simulated
    sources = "".join(path.read_text() for path in RECORDED.parent.glob("features/*.cu"))
    assert len(found) > sources.count("feature(")
    assert [name for name, (_, words) in found.items() if words == 0] == []


def test_no_feature_has_a_finding(simulated):
    assert re.findall(r"^(error|incomplete).*", simulated[2], re.M) == []


@pytest.mark.parametrize("mode", MODES[1:])
def test_outputs_do_not_depend_on_when_operations_happen(simulated, mode, tmp_path):
    found, _, report = run(mode, tmp_path / "words")
    assert found == simulated[0]
    assert re.findall(r"^(error|incomplete).*", report, re.M) == []


def test_outputs_are_those_of_the_card(simulated, recorded):
    found, _, _ = simulated
    exact = {name: tuple(value) for name, value in found.items() if not name.startswith("approximate.")}
    card = {name: tuple(value) for name, value in recorded["features"].items() if not name.startswith("approximate.")}
    assert "H200" in recorded["chip"]
    assert dict(exact.items() - card.items()) == {}
    assert dict(card.items() - exact.items()) == {}


def test_stores_that_the_card_refuses_are_errors(recorded):
    assert len(recorded["refused"]) == 4
    for name, said in recorded["refused"].items():
        assert "illegal instruction" in said
        done = subprocess.run([built("features_sim"), name], capture_output=True, text=True, check=False)
        assert done.returncode == 1
        assert re.findall(r"^(error: [\w-]+)", done.stderr, re.M) == ["error: out-of-bounds"], name


def outside(name, operands, results):
    """Indices of results outside an approximation's bound."""
    function = name.split(".")[1]
    exact = EXACT[function](operands.astype(np.float64))
    error = np.abs(results.astype(np.float64) - exact)
    if function in RELATIVE:
        normal = (np.abs(exact) >= 2.0**-126) & (np.abs(exact) < 2.0**128)  # the forms with .ftz flush what is below
        return np.flatnonzero((error > RELATIVE[function] * np.abs(exact)) & normal)
    if function == "lg2":
        return np.flatnonzero(
            error > ABSOLUTE[function] * np.where((operands > 0.5) & (operands < 2), 1, np.abs(exact))
        )
    return np.flatnonzero((error > ABSOLUTE[function]) & (np.abs(operands) <= 2 * np.pi))


def test_approximations_lie_within_the_documented_bounds(simulated):
    _, words, _ = simulated
    names = [name for name in words if name.startswith("approximate.")]
    assert {name.split(".")[1] for name in names} == set(EXACT)
    for name in names:
        operands, results = words[name][: 2 * APPROXIMATED].view(np.float32).reshape(2, -1)
        assert outside(name, operands, results).size == 0, name


def test_approximations_of_the_card_lie_within_the_same_bounds(simulated, recorded):
    samples = load_arrays(RECORDED.with_name("recorded.npz.xz"))
    names = {name for name in recorded["features"] if name.startswith("approximate.")}
    assert names == {name for name in simulated[0] if name.startswith("approximate.")}
    for name in sorted(names):
        operands, results = samples[name].view(np.float32).reshape(2, -1)
        assert (operands == simulated[1][name][:APPROXIMATED].view(np.float32)).all(), name
        assert outside(name, operands, results).size == 0, name
