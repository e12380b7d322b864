"""Experts with scales of their own for what they quantize, against the float weights."""

from __future__ import annotations

import pytest
import torch

from submission import quantize_linear
from submission.models.experts import Experts
from submission.routing_operator import route_ids
from tests.submission.models.layer_kit import OF_QUANTIZATION, relative

HIDDEN, INTERMEDIATE, LARGEST = 128, 192, 6 * 448.0  # the largest number that quantization keeps, times its scale


@pytest.fixture(autouse=True)
def seeded():
    torch.manual_seed(0)


def weights_of(experts):
    shapes = ((INTERMEDIATE, HIDDEN), (INTERMEDIATE, HIDDEN), (HIDDEN, INTERMEDIATE))
    return [[torch.randn(shape) * shape[1] ** -0.5 for shape in shapes] for _ in range(experts)]


def expert_in_float(x, weights):
    gate, up, down = weights
    return down @ (torch.nn.functional.silu(gate @ x) * (up @ x))


@pytest.mark.parametrize("own", [False, True])
def test_no_scale_saturates_what_another_experts_would_not(own):
    """Scales that are 64 times as large as fits what other experts take, of the shared input and of each one's own."""
    weights, x = weights_of(3), torch.randn(3, HIDDEN)
    fits = LARGEST / x.abs().max()
    between = [x_ @ one[1].T for x_, one in zip(x, weights, strict=True)]
    inner = LARGEST / torch.stack(between).abs().max() / 4
    linears = [
        [quantize_linear(weight)._replace(input_scale=scale) for weight, scale in zip(one, scales, strict=True)]
        for one, scales in zip(
            weights, ((fits, fits, inner), (64 * fits, 64 * fits, inner / 64), (fits, 64 * fits, inner)), strict=True
        )
    ]
    how = {"between": lambda h: torch.nn.functional.silu(h[0].float()) * h[1].float()} if own else {}
    experts = Experts(linears, activation=None if own else {"activation": "silu"})
    placed = route_ids(torch.tensor([[0], [1], [2]], dtype=torch.int32), 3)
    found = experts(x.bfloat16(), placed, None, torch.bfloat16, **how)
    for row, x_, one in zip(found, x, weights, strict=True):
        assert relative(row, expert_in_float(x_, one).double()) < 2 * OF_QUANTIZATION
