"""The dual GEMM's inputs and operands, as compare.py times them."""

from __future__ import annotations

import torch

from reference import nvfp4
from reference.reference import generate_input

SEED = 1111


class Problem:
    """One shape with its inputs, dequantized operands and the variants' outputs."""

    def __init__(self, m: int, n: int, k: int, inputs: int, device: str) -> None:
        self.m, self.n, self.k = m, n, k
        self.data = [generate_input(m, n, k, 1, SEED + 42 * i, device=device) for i in range(inputs)]
        self.dequantized = [
            tuple(nvfp4.decode(code[..., 0], scale[..., 0]).half() for code, scale in zip(d[:3], d[3:6], strict=True))
            for d in self.data
        ]
        self.stacked = [torch.cat((b1, b2)) for _, b1, b2 in self.dequantized]
        self.dequantized = [(a, w[:n], w[n:]) for (a, _, _), w in zip(self.dequantized, self.stacked, strict=True)]
        self.both = torch.empty((m, 2 * n), dtype=torch.half, device=device)

    def arguments(self, i: int, scales: str) -> tuple[torch.Tensor, ...]:
        """Input i as custom_kernel takes it: all ten tensors, or seven, with the scale factors in rows only."""
        return self.data[i] if scales == "blocked" else (*self.data[i][:6], self.data[i][-1])

    def output(self, i: int) -> torch.Tensor:
        """The tensor c of input i, as (M, N)."""
        return self.data[i][-1][..., 0]
