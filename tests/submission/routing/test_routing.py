"""Routing on the CPU: choices, rows and weighted sums, and the operators as torch sees them."""

from __future__ import annotations

import pytest
import torch
from hypothesis import given, settings
from hypothesis import strategies as st

from submission import combine_rows, route_ids, route_logits
from tests.submission.routing.routing_kit import DTYPES, wrong_combine, wrong_ids, wrong_on, wrong_route


def test_choices_rows_and_sums_are_those_of_the_definition():
    assert wrong_on("cpu") == []


@settings(max_examples=60, deadline=None)
@given(
    st.integers(1, 40), st.integers(1, 40), st.integers(1, 32), st.sampled_from(DTYPES), st.booleans(),
    st.integers(0, 999),
)  # fmt: skip
def test_any_router_any_ids_and_any_map(tokens, routed, choices, dtype, normalize, seed):
    generator = torch.Generator().manual_seed(seed)
    logits = torch.randn(tokens, routed, generator=generator).mul(3).round().to(dtype)
    experts = int(torch.randint(1, routed + 1, (), generator=generator))
    known = torch.randint(-2, routed + 2, (routed,), generator=generator).tolist()
    assert wrong_route(logits, min(choices, routed), normalize, experts, known, "cpu") == ""
    ids = torch.randint(-3, routed + 3, (tokens, choices), generator=generator)
    assert wrong_ids(ids, experts, known if normalize else None, "cpu") == ""
    assert wrong_combine(tokens, choices, routed, DTYPES[1 + seed % 2], dtype if normalize else None, "cpu", seed) == ""


def test_no_tokens():
    counts, rows, tokens, weights = route_logits(torch.empty(0, 7), 2)
    assert counts.tolist() == [0] * 7 and rows.shape == weights.shape == (0, 2) and tokens.shape == (0,)
    assert route_ids(torch.empty(0, 2, dtype=torch.int64), 3)[0].tolist() == [0, 0, 0]
    assert combine_rows(torch.empty(0, 5).half(), rows, weights).shape == (0, 5)


def test_torchs_own_checks_and_compiled_graphs():
    logits, ids = torch.randn(5, 8), torch.tensor([[0, -1], [7, 3], [8, 0]])
    operators, map_ = torch.ops.nvfp4_gemm, torch.arange(8, dtype=torch.int32)
    _, rows, _, weights = route_logits(logits, 2)
    y = torch.randn(10, 24).bfloat16()
    for operator, arguments in (
        (operators.route.default, (logits, 3, 8)),
        (operators.route.default, (logits, 2, 4, 0, map_)),
        (operators.route.ids, (ids, 8)),
        (operators.route.ids, (ids.int(), 4, map_)),
        (operators.combine.default, (y, rows)),
        (operators.combine.default, (y, rows, weights)),
    ):
        assert set(torch.library.opcheck(operator, arguments).values()) == {"SUCCESS"}

    def layer(logits, y):
        _, rows, _, weights = route_logits(logits, 2)
        return combine_rows(y, rows, weights)

    compiled = torch.compile(layer, backend="eager", fullgraph=True, dynamic=True)
    for tokens in (5, 1, 0, 33):
        given = torch.randn(tokens, 8), torch.randn(2 * tokens, 24).half()
        assert torch.equal(compiled(*given), layer(*given))


@pytest.mark.parametrize(
    ("call", "text"),
    [
        (lambda: route_logits(torch.tensor(1.0), 1), r"logits has shape \(\); expected \(T, experts\)"),
        (lambda: route_logits(torch.randn(5, 8), 2**62), "top_k is 4611686018427387904; expected 1 to 32"),
        (lambda: route_logits(torch.randn(5), 1), r"logits has shape \(5,\); expected \(T, experts\)"),
        (lambda: route_logits(torch.randn(5, 8).double(), 1), "logits has dtype torch.float64"),
        (lambda: route_logits(torch.randn(8, 5).T, 1), "logits has strides"),
        (lambda: route_logits(torch.randn(5, 8), 0), "top_k is 0; expected 1 to 32"),
        (lambda: route_logits(torch.randn(5, 8), 9), "top_k is 9; expected 1 to 8"),
        (lambda: route_logits(torch.randn(5, 64), 33), "top_k is 33; expected 1 to 32"),
        (lambda: route_logits(torch.randn(5, 1025), 1, experts=4), "routed is 1025; expected 1 to 1024"),
        (lambda: route_logits(torch.randn(5, 8), 1, experts=1025), "experts is 1025; expected 1 to 1024"),
        (lambda: route_logits(torch.randn(5, 8), 1, expert_map=torch.ones(7).int()), "expert_map has shape"),
        (lambda: route_ids(torch.randn(5, 2), 8), "ids has dtype torch.float32; expected torch.int32 or torch.int64"),
        (lambda: route_ids(torch.zeros(5, 2, dtype=torch.int32), 0), "experts is 0; expected 1 to 1024"),
        (lambda: route_ids(torch.zeros(2, 2).int(), 4, expert_map=torch.ones(4)), "expert_map has dtype torch.float32"),
        (lambda: combine_rows(torch.randn(4, 8), torch.zeros(2, 2).int()), "y has dtype torch.float32"),
        (lambda: combine_rows(torch.randn(5, 8).half(), torch.zeros(2, 2).int()), r"y has shape \(5, 8\) and rows"),
        (lambda: combine_rows(torch.randn(4, 8).half(), torch.zeros(2, 2)), "rows has dtype torch.float32"),
        (lambda: combine_rows(torch.randn(4, 8).half(), torch.zeros(2, 2).int(), torch.ones(4)), "weights has shape"),
    ],
)  # fmt: skip
def test_a_wrong_argument_is_named(call, text):
    with pytest.raises((RuntimeError, ValueError), match=text):
        call()


def test_a_backward_pass_is_refused():
    logits = torch.randn(5, 8, requires_grad=True)
    with pytest.raises(RuntimeError, match="asks for the gradient of logits"):
        route_logits(logits, 2)[3].sum().backward()
