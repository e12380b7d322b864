"""The kernels around the products of experts on the simulator: right on every GPU backend, clean in every mode."""

from __future__ import annotations

import pytest

from simulator.tests.package.kernels.simulated import BACKENDS, simulate

PROGRAM = """
import json
from tests.submission.routing.routing_kit import FEW_SHAPES, wrong_on
print(json.dumps(wrong_on("cpu", FEW_SHAPES)))
"""


@pytest.mark.parametrize("backend", BACKENDS)
@pytest.mark.parametrize("mode", ["eager", "late", "reverse", "random:1", "poison"])
def test_choices_rows_and_sums_are_right_and_clean(backend, mode, tmp_path):
    """From one CTA to a cluster of eight; warps with several tokens."""
    wrong, report = simulate(backend, mode, [], tmp_path, PROGRAM)
    assert wrong == []
    assert report["verdict"] == "clean", report["findings"]
    assert report["counters"]["instructions"] > 0


LAYER = """
import json, os
import torch
from submission import MoE
torch.manual_seed(0)
backend = os.environ["NVFP4_BACKEND"]
os.environ["NVFP4_BACKEND"] = "cpu"  # which quantizes the weights
layer, found = MoE.random(128, 64, 6, 2), []
os.environ["NVFP4_BACKEND"] = backend
for tokens in (1, 70):
    x = torch.randn(tokens, 128, dtype=torch.bfloat16)
    y, again = layer(x).double(), layer(x).double()
    ids = torch.randint(-1, 6, (tokens, 3))
    weights = torch.rand(tokens, 3)
    other = layer(x, ids, weights).double()
    os.environ["NVFP4_BACKEND"] = "cpu"
    want, of_ids = layer(x).double(), layer(x, ids, weights).double()
    os.environ["NVFP4_BACKEND"] = backend
    found.append([torch.equal(y, again), ((y - want).norm() / want.norm()).item()])
    found.append([True, ((other - of_ids).norm() / (of_ids.norm() + 1e-9)).item()])
print(json.dumps(found))
"""


@pytest.mark.parametrize("backend", BACKENDS)
def test_a_layer_of_experts_takes_few_launches(backend, tmp_path):
    """Hopper brings A into order before either product.  The router's product is torch's; the same bits each time, and
    the CPU's values but for roundings."""
    found, report = simulate(backend, "eager", [], tmp_path, LAYER)
    assert all(same and error < 0.01 for same, error in found), found
    assert report["verdict"] == "clean", report["findings"]
    assert report["counters"]["launches"] == (7 if backend == "hopper" else 5) * 3 * len(found) // 2
