"""Canaries: parts of the inputs that are wrong until everything else is in place and the cache is flushed.

An output computed from earlier inputs is wrong in nearly every element: each row of activations has one segment of
wrong codes, and so do some rows of weights, so that converted weights are wrong too. A submission can find them only by
reading everything again. Correcting them leaves the cache cold, because they are few: about a dozen KB per tensor.
"""

from __future__ import annotations

import secrets

import torch

from eval.lending.layout import Layout
from reference.problems.interface import WEIGHTS

SEGMENT_BYTES = 32  # a sector of the L2 cache; divides a row of codes, since K is a multiple of 64
_WORD_BYTES = 8
_WORDS = SEGMENT_BYTES // _WORD_BYTES
WEIGHT_ROWS = 128  # rows with a canary in a tensor of weights


class Canaries:
    """The canaries of one round in memory (uint8) that holds `count` inputs."""

    def __init__(self, layout: Layout, memory: torch.Tensor, count: int, seed: int | None = None) -> None:
        device = memory.device
        generator = torch.Generator(device).manual_seed(secrets.randbits(63) if seed is None else seed)
        starts = []
        for index in range(count):
            for offset, rows, row_bytes, role in layout.code_rows():
                chosen = torch.arange(rows, device=device)
                if role == WEIGHTS and rows > WEIGHT_ROWS:
                    chosen = torch.randperm(rows, generator=generator, device=device)[:WEIGHT_ROWS]
                segments = (len(chosen),)
                segment = torch.randint(row_bytes // SEGMENT_BYTES, segments, generator=generator, device=device)
                starts.append(index * layout.input_bytes + offset + chosen * row_bytes + segment * SEGMENT_BYTES)
        words = torch.cat(starts) // _WORD_BYTES
        self.places = (words.unsqueeze(-1) + torch.arange(_WORDS, device=device)).flatten()
        whole = memory[: count * layout.input_bytes].view(torch.int64)
        self._right = whole[self.places]
        # Plausible values: those of another row.
        whole.scatter_(0, self.places, self._right.roll(_WORDS))

    def complete(self, memory: torch.Tensor) -> None:
        """Writes the right codes into memory that holds the inputs; on a GPU it only queues this."""
        memory[: memory.numel() // _WORD_BYTES * _WORD_BYTES].view(torch.int64).scatter_(0, self.places, self._right)
