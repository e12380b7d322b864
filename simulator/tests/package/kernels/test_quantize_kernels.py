"""The quantizer's kernels on the simulator: the promised bits on every GPU backend, clean in every mode."""

from __future__ import annotations

import json
import os

import pytest

from simulator.python import forked
from simulator.tests.sim_kit import built, nvcc

BACKENDS = ("hopper", "blackwell", "geforce")
PROGRAM = """
import json
from tests.submission.quantize.on_device import wrong_on
print(json.dumps(wrong_on("cpu")))
"""


@pytest.fixture(scope="module", autouse=True)
def needs_nvcc():
    nvcc()


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("mode", ["late", "reverse", "random:1", "poison"])
def test_every_form_gives_the_promised_bits_and_is_clean(backend, mode, tmp_path):
    environment = dict(
        os.environ,
        NVFP4_LIBRARY=str(built("libcustom_kernel_sim.so")),
        NVFP4_BACKEND=backend,
        NVFP4_SIMULATE="1",
        NVFP4_SIMULATE_MODE=mode,
        NVFP4_SIMULATE_SMS="1",  # RMSNorm's CTAs take several rows
        NVFP4_SIMULATE_JSON=str(tmp_path / "report.json"),
    )
    done = forked.run(PROGRAM, [], environment, timeout=300)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == []
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["verdict"] == "clean", report["findings"]
    assert report["counters"]["instructions"] > 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_call_takes_k_in_multiples_of_16(backend, tmp_path):
    environment = dict(
        os.environ,
        NVFP4_LIBRARY=str(built("libcustom_kernel_sim.so")),
        NVFP4_BACKEND=backend,
        NVFP4_SIMULATE="1",
        NVFP4_SIMULATE_JSON=str(tmp_path / "report.json"),
    )
    program = f"""
import json
from tests.submission.k_tails import differing
print(json.dumps(differing((80, 96), {backend == "hopper"}, True)))
"""
    done = forked.run(program, [], environment, timeout=300)
    assert done.returncode == 0, done.stderr
    assert json.loads(done.stdout.splitlines()[-1]) == []
    report = json.loads((tmp_path / "report.json").read_text())
    assert report["verdict"] == "clean", report["findings"]
