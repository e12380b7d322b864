"""The layers on a card beside the same layers on the CPU, eager and in a CUDA graph; skips where there is no card.

On a machine with one:  make library && python -m pytest -q tests/submission/models/test_layers_cuda.py
"""

from __future__ import annotations

import pytest
import torch

import submission
from submission import GatedMLP, Linear, MoE
from tests.submission.models.layer_kit import ACTIVATIONS, OF_KERNELS, relative

HERE = {one.name for one in submission.backends() if one.available} - {"cpu"} if torch.cuda.is_available() else set()
pytestmark = pytest.mark.skipif(not HERE, reason="no card that a backend supports")

OPTIONS = ({}, {"scale": "token"}, {"quantize": False})
WIDE, NARROW = 512, 328  # NARROW is a multiple of 8 alone


def layers(options):
    torch.manual_seed(0)
    for width in (WIDE, NARROW):
        yield Linear.random(width, 200, bias=torch.randn(200), **options)
    for activation in ACTIVATIONS:
        yield GatedMLP.random(WIDE, NARROW, activation=activation, **options)
    yield GatedMLP.random(NARROW, WIDE, limit=1.0, **options)
    yield MoE.random(WIDE, NARROW, 8, 2, **options)
    yield MoE.random(NARROW, WIDE, 8, 2, activation="gelu_tanh", **options)


@pytest.mark.parametrize("options", OPTIONS)
@pytest.mark.parametrize("rows", [1, 17, 300])
def test_a_layer_is_the_same_on_a_card(rows, options):
    if not options.get("quantize", True) and "hopper" not in HERE:
        pytest.skip("16-bit activations need a Hopper card")
    for layer in layers(options):
        x = torch.randn(rows, layer.in_features if isinstance(layer, Linear) else layer.hidden, dtype=torch.bfloat16)
        want = layer(x).double()
        on_card, x = layer.to("cuda"), x.to("cuda")
        assert relative(on_card(x).cpu(), want) < 3 * OF_KERNELS, layer
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            y = on_card(x)
        x.mul_(-1)
        graph.replay()
        torch.cuda.synchronize()
        assert torch.equal(y, on_card(x)), layer
