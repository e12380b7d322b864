"""Adds NaNs to the scale factors of full data (reference.generate_input)."""

from __future__ import annotations

import random
from collections.abc import Sequence

import torch

from reference import nvfp4

# One row in ROWS_A_NAN gets a NaN scale factor, which makes a whole row or column of C NaN.
ROWS_A_NAN = 24
SIGNS = (0x00, 0x80)


def with_nans(scales: Sequence[torch.Tensor], seed: int) -> list[torch.Tensor]:
    """Copies of scale factors (rows, K/16, L) with a NaN in one of ROWS_A_NAN rows, at random places."""
    generator = random.Random(seed)
    copies = [scale.clone(memory_format=torch.preserve_format) for scale in scales]
    for scale in copies:
        rows, groups, batches = scale.shape
        for _ in range(rows * batches // ROWS_A_NAN):
            place = tuple(generator.randrange(extent) for extent in (rows, groups, batches))
            nvfp4.as_bytes(scale)[place] = nvfp4.SCALE_NAN | generator.choice(SIGNS)
    return copies
