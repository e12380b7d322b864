"""The quantizer's kernels on the simulator: the promised bits on every GPU backend, clean in every mode."""

from __future__ import annotations

import pytest

from simulator.tests.package.kernels.simulated import BACKENDS, simulate

PROGRAM = """
import json
from tests.submission.quantize.on_device import wrong_on
print(json.dumps(wrong_on("cpu")))
"""


# One source for all backends: each is run, and each mode.
@pytest.mark.parametrize(
    ("backend", "mode"),
    [
        ("hopper", "late"),
        ("hopper", "poison"),
        ("blackwell", "reverse"),
        ("blackwell", "poison"),
        ("geforce", "random:1"),
    ],
)
def test_every_form_gives_the_promised_bits_and_is_clean(backend, mode, tmp_path):
    # On one SM RMSNorm's CTAs take several rows.
    wrong, report = simulate(backend, mode, [], tmp_path, PROGRAM, NVFP4_SIMULATE_SMS="1")
    assert wrong == []
    assert report["verdict"] == "clean", report["findings"]
    assert report["counters"]["instructions"] > 0


@pytest.mark.parametrize("backend", BACKENDS)
def test_every_call_takes_k_in_multiples_of_16(backend, tmp_path):
    program = f"""
import json
from tests.submission.k_tails import differing
print(json.dumps(differing((80, 96), {backend == "hopper"}, True)))
"""
    differing, report = simulate(backend, "eager", [], tmp_path, program)
    assert differing == []
    assert report["verdict"] == "clean", report["findings"]
