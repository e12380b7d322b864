"""Routing worked out in plain Python and float64, and what of a device's routing is wrong.

    python -m tests.submission.routing.routing_kit [--device cuda]

Prints what is wrong as JSON, and needs no pytest, so that the simulator's tests and compute-sanitizer run it too.
"""

from __future__ import annotations

import json
import sys

import torch

from submission import combine_rows, route_ids, route_logits

DTYPES = (torch.float32, torch.bfloat16, torch.float16)
# T, experts of the router, choices.
SHAPES = ((1, 128, 8), (33, 8, 2), (300, 60, 6), (65, 1024, 32), (7, 256, 1), (5, 1, 1), (70, 200, 3))
FEW_SHAPES = ((1, 128, 8), (33, 8, 2), (65, 160, 4), (9, 1024, 32), (260, 5, 2))


def rows_of(ids: list[list[int]], experts: int, known: list[int] | None = None) -> tuple[list[int], ...]:
    """Counts, rows and tokens of choices, one after the other."""
    routed = experts if known is None else len(known)
    found = []
    for token, choices in enumerate(ids):
        for place, given in enumerate(choices):
            expert = given if 0 <= given < routed else -1
            expert = known[expert] if known is not None and expert >= 0 else expert
            found.append((expert if 0 <= expert < experts else experts, token, place))
    order = sorted(found)
    counts = [sum(1 for one in order if one[0] == expert) for expert in range(experts)]
    rows = [[-1] * len(ids[0]) for _ in ids] if ids else []
    tokens = [-1] * len(order)
    for row, (expert, token, place) in enumerate(order):
        if expert < experts:
            rows[token][place], tokens[row] = row, token
    return counts, rows, tokens


def chosen_of(logits: torch.Tensor, choices: int) -> list[list[int]]:
    """The numbers of each token's largest logits; a NaN is larger than any number."""
    return [
        sorted(range(len(row)), key=lambda i: (-row[i] if row[i] == row[i] else -float("inf"), row[i] == row[i], i))[
            :choices
        ]
        for row in logits.double().tolist()
    ]


def wrong_route(
    logits: torch.Tensor, choices: int, normalize: bool, experts: int | None, known: list[int] | None, device: str
) -> str:
    """How a routing by logits differs from what it must be; "" if it does not."""
    number = logits.shape[1] if experts is None else experts
    map_ = None if known is None else torch.tensor(known, dtype=torch.int32, device=device)
    found = route_logits(logits.to(device), choices, normalize=normalize, experts=experts, expert_map=map_)
    counts, rows, tokens, weights = (one.cpu() for one in found)
    ids = chosen_of(logits, choices)
    want = rows_of(ids, number, list(range(logits.shape[1])) if known is None else known)
    for name, one, other in zip(("counts", "rows", "tokens"), (counts, rows, tokens), want, strict=True):
        if one.tolist() != other:
            return f"{name} is {one.tolist()!s:.200}; expected {other!s:.200}"
    p = torch.softmax(logits.double(), -1).gather(1, torch.tensor(ids).reshape(-1, choices))
    exact = p / p.sum(-1, keepdim=True) if normalize else p
    if not torch.allclose(weights.double(), exact, rtol=1e-5, atol=1e-30, equal_nan=True):
        return f"weights differ by {(weights - exact).abs().max()}"
    return ""


def wrong_ids(ids: torch.Tensor, experts: int, known: list[int] | None, device: str) -> str:
    """How a routing by ids differs from what it must be."""
    map_ = None if known is None else torch.tensor(known, dtype=torch.int32, device=device)
    found = route_ids(ids.to(device), experts, expert_map=map_)
    for one, other in zip(found, rows_of(ids.tolist(), experts, known), strict=True):
        if one.tolist() != other:
            return f"{one.tolist()!s:.200}; expected {other!s:.200}"
    return ""


def wrong_combine(
    tokens: int, choices: int, n: int, dtype: torch.dtype, weights_type: torch.dtype | None, device: str, seed: int
) -> str:
    """How a weighted sum differs from one in float32, operation by operation."""
    generator = torch.Generator().manual_seed(seed)
    y = torch.randn(tokens * choices, n, generator=generator).to(dtype)
    rows = torch.randperm(tokens * choices, generator=generator).to(torch.int32).view(tokens, choices)
    rows[torch.rand(tokens, choices, generator=generator) < 0.2] = -1
    rows[-1, -1] = tokens * choices
    y[[row for row in range(tokens * choices) if row not in rows]] = torch.nan
    weights = None if weights_type is None else torch.rand(tokens, choices, generator=generator).to(weights_type)
    want = torch.zeros(tokens, n)
    for choice in range(choices):
        for token in range(tokens):
            row = int(rows[token, choice])
            if 0 <= row < tokens * choices:
                one = torch.tensor(1.0) if weights is None else weights[token, choice].float()
                want[token] += one * y[row].float()
    found = combine_rows(y.to(device), rows.to(device), None if weights is None else weights.to(device)).cpu()
    return "" if torch.equal(found, want.to(dtype)) else f"{(found != want.to(dtype)).sum()} numbers differ"


def wrong_on(device: str, shapes: tuple[tuple[int, int, int], ...] = SHAPES) -> list[list[str]]:
    """The calls that are wrong, and how."""
    found = []

    def check(name: str, text: str) -> None:
        if text:
            found.append([name, text])

    for i, (tokens, routed, choices) in enumerate(shapes):
        generator = torch.Generator().manual_seed(i)
        dtype = DTYPES[i % 3]
        logits = torch.randn(tokens, routed, generator=generator).mul(2).to(dtype)
        if i % 2:
            logits = logits.round()  # equal ones
            logits[0, 0], logits[-1, -1] = -0.0, -torch.inf
        known = torch.randint(-2, routed + 1, (routed,), generator=generator).tolist() if i % 3 == 1 else None
        some = max(routed // 2, 1) if i % 3 else None  # without a map, too
        check(f"logits {i}", wrong_route(logits, choices, i % 2 == 0, some, known, device))
        ids = torch.randint(-2, routed + 2, (tokens, choices), generator=generator)
        ids[0, 0] = 2**40 if i % 2 else -(2**31)
        ids = ids if i % 2 else ids.int()
        check(f"ids {i}", wrong_ids(ids, routed, None, device))
        known = torch.randint(-1, routed, (routed,), generator=generator).tolist()
        check(f"map {i}", wrong_ids(ids, max(routed - 1, 1), known, device))
        weights = (*DTYPES, None)[i % 4]
        check(
            f"sums {i}",
            wrong_combine(min(tokens, 40), choices, (8, 24, 1030, 7)[i % 4], DTYPES[1 + i % 2], weights, device, i),
        )
    nan = torch.zeros(2, 40)
    nan[0, 3], nan[1, 7] = torch.nan, torch.inf
    for dtype in DTYPES:
        some = nan.to(dtype)
        some[0, 5] = -some[0, 3]  # a NaN with its sign set
        check(f"nan {dtype}", wrong_route(some[:1], 3, True, None, None, device))
        check(f"infinity {dtype}", wrong_route(some[1:], 3, False, None, None, device))
    return found


def main() -> int:
    """Prints the calls with wrong results; returns the exit status."""
    found = wrong_on(sys.argv[sys.argv.index("--device") + 1] if "--device" in sys.argv else "cpu")
    print(json.dumps(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
