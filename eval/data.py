"""Which inputs a case is judged on: the leaderboard's, or every code and scale factor there is."""

from __future__ import annotations

import random
from collections.abc import Callable

import torch

from eval.judge import Verdict, judge_as_board, judge_fresh, judge_full
from reference import nvfp4
from reference.reference import generate_input

# One row in so many holds a NaN among its scale factors, which makes a whole row or column of C NaN.
ROWS_A_NAN = 24
SIGNS = (0x00, 0x80)

Generate = Callable[..., tuple[torch.Tensor, ...]]
Judge = Callable[..., Verdict]


def full_input(
    m: int,
    n: int,
    k: int,
    l: int,  # noqa: E741  (the leaderboard's name)
    seed: int,
    device: torch.device,
) -> tuple[torch.Tensor, ...]:
    """generate_input's tensors with all e2m1 codes and all e4m3 scale magnitudes, zero and subnormals included, of
    either sign; where there are enough rows, some have a NaN for a scale factor."""
    data = generate_input(m, n, k, l, seed, full=True, device=device)
    generator = random.Random(seed)
    scales = [scale.clone(memory_format=torch.preserve_format) for scale in data[3:6]]
    for scale in scales:
        rows, groups, batches = scale.shape
        for _ in range(rows * batches // ROWS_A_NAN):
            place = tuple(generator.randrange(extent) for extent in (rows, groups, batches))
            nvfp4.as_bytes(scale)[place] = nvfp4.SCALE_NAN | generator.choice(SIGNS)
    return (*data[:3], *scales, *(nvfp4.to_blocked(scale) for scale in scales), data[-1])


def generator_of(data: str) -> Generate:
    """What makes inputs of a kind."""
    return generate_input if data == "board" else full_input


def judges_of(data: str) -> tuple[Judge, Judge]:
    """What judges outputs of a kind: those of the case's own seeds, and those of fresh ones."""
    return (judge_as_board, judge_fresh) if data == "board" else (judge_full, judge_full)
