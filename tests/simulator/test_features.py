"""One small kernel a feature: the simulator runs every one, without an error and with the same output each time."""

from __future__ import annotations

import re
import subprocess

import pytest

FEATURES = 264


@pytest.fixture(scope="module")
def program(root):
    """The features' program on the simulator, built if an nvcc is there."""
    built = subprocess.run(["make", "-s", "build/features_sim"], cwd=root, capture_output=True, text=True)
    if built.returncode != 0:
        if "No rule to make target" in built.stderr:
            pytest.skip("needs nvcc")
        pytest.fail(built.stderr)
    return root / "build/features_sim"


@pytest.fixture(scope="module")
def outputs(program):
    """Name, hash of the output and number of words in it, a feature; and what the simulator reported."""
    done = subprocess.run([program], capture_output=True, text=True)
    assert done.returncode == 0, done.stderr
    lines = [line.split() for line in done.stdout.splitlines()]
    return {name: (digest, int(words)) for name, digest, words in lines}, done.stderr


def test_every_feature_runs_and_leaves_an_output(outputs):
    found, _ = outputs
    assert len(found) == FEATURES
    assert [name for name, (_, words) in found.items() if words == 0] == []


def test_no_feature_is_accused(outputs):
    _, report = outputs
    assert re.findall(r"^(error|incomplete).*", report, re.M) == []


def test_outputs_do_not_depend_on_when_operations_happen(program, outputs, monkeypatch):
    for mode in ("late", "random:1", "random:2"):
        monkeypatch.setenv("NVFP4_SIMULATE_MODE", mode)
        done = subprocess.run([program], capture_output=True, text=True)
        assert done.returncode == 0, done.stderr
        assert {line.split()[0]: line.split()[1] for line in done.stdout.splitlines()} == {
            name: digest for name, (digest, _) in outputs[0].items()
        }
