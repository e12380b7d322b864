"""Routing, 16-bit rows and a whole layer of experts on a CUDA device; skips where there is none."""

from __future__ import annotations

import pytest
import torch

from submission import MoE, backends
from tests.submission.experts.halves import wrong_on as wrong_halves_on
from tests.submission.routing.routing_kit import wrong_on


@pytest.fixture(autouse=True)
def backend():
    """The name of the device's backend."""
    found = [one.name for one in backends() if one.available and one.name != "cpu"]
    if not torch.cuda.is_available() or not found:
        pytest.skip("no CUDA device that a backend supports")
    return found[0]


def test_choices_rows_and_sums_are_those_of_the_definition():
    assert wrong_on("cuda") == []


def test_rows_of_16_bits_are_multiplied_as_they_are(backend):
    if backend != "hopper":
        pytest.skip(f"backend {backend} multiplies no 16-bit rows")
    assert wrong_halves_on("cuda") == []


def test_a_graph_of_a_layer_takes_other_tokens_and_has_the_eager_calls_bits():
    """Captured without a synchronisation; its routing is that of each replay's tokens."""
    layer = MoE.random(256, 128, 16, 4, device="cuda")
    layer.router = layer.router.bfloat16()
    x = torch.randn(33, 256, device="cuda", dtype=torch.bfloat16)
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        layer(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        y = layer(x)
    for _ in range(3):
        x.copy_(torch.randn_like(x))
        graph.replay()
        assert torch.equal(y, layer(x)) and torch.equal(y, layer(x))
