"""The kernels around the products of experts on the simulator: right on every GPU backend, clean in every mode."""

from __future__ import annotations

import json
import os

import pytest

from simulator.python import forked
from simulator.tests.sim_kit import built, nvcc

BACKENDS = ("hopper", "blackwell", "geforce")
PROGRAM = """
import json
from tests.submission.routing.routing_kit import FEW_SHAPES, wrong_on
print(json.dumps(wrong_on("cpu", FEW_SHAPES)))
"""


@pytest.fixture(scope="module", autouse=True)
def needs_nvcc():
    nvcc()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("mode", ["eager", "late", "reverse", "random:1", "poison"])
def test_choices_rows_and_sums_are_right_and_clean(backend, mode, tmp_path):
    """From one CTA to a cluster of eight; warps with several tokens."""
    environment = dict(
        os.environ,
        NVFP4_LIBRARY=str(built("libcustom_kernel_sim.so")),
        NVFP4_BACKEND=backend,
        NVFP4_SIMULATE="1",
        NVFP4_SIMULATE_MODE=mode,
        NVFP4_SIMULATE_JSON=str(tmp_path / "report.json"),
    )
    done = forked.run(PROGRAM, [], environment, timeout=300)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == []
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["verdict"] == "clean", report["findings"]
    assert report["counters"]["instructions"] > 0
