"""Where the tensors of a problem lie in lent memory: the same in both processes, from the shape alone."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch

from reference.nvfp4 import GROUP_ELEMS, SCALE_TILE_GROUPS, SCALE_TILE_ROWS

ALIGN_BYTES = 512  # as torch's allocator on a GPU aligns
Shape = tuple[int, int, int, int]


class _Block(NamedTuple):
    """One tensor: its memory order, its dtype, and the permutation that gives the view a submission sees."""

    memory: tuple[int, ...]
    dtype: torch.dtype
    view: tuple[int, ...]

    @property
    def bytes(self) -> int:
        """Its size in memory."""
        elements = 1
        for size in self.memory:
            elements *= size
        return elements * self.dtype.itemsize


def _aligned(count: int) -> int:
    return -(-count // ALIGN_BYTES) * ALIGN_BYTES


def _codes(rows: int, k: int, batches: int) -> _Block:
    return _Block((batches, rows, k // 2), torch.float4_e2m1fn_x2, (1, 2, 0))


def _scales(rows: int, k: int, batches: int) -> _Block:
    return _Block((batches, rows, k // GROUP_ELEMS), torch.float8_e4m3fn, (1, 2, 0))


def _permuted(rows: int, k: int, batches: int) -> _Block:
    tiles_m, tiles_k = -(-rows // SCALE_TILE_ROWS), -(-(k // GROUP_ELEMS) // SCALE_TILE_GROUPS)
    return _Block((batches, tiles_m, tiles_k, 32, 4, 4), torch.float8_e4m3fn, (3, 4, 1, 5, 2, 0))


class Layout:
    """The places of a problem's nine input tensors, one input after the other, and of its outputs.

    Tensors are generate_input's: codes, scale factors and permuted scale factors of a, b1 and b2, with its shapes and
    strides; an output is float16 (M, N, L) over memory (L, M, N). Sizes and offsets are in bytes.
    """

    def __init__(self, shape: Shape) -> None:
        m, n, k, batches = shape
        self._blocks = [make(rows, k, batches) for make in (_codes, _scales, _permuted) for rows in (m, n, n)]
        self._output = _Block((batches, m, n), torch.float16, (1, 2, 0))
        self.offsets: list[int] = []
        self.input_bytes = 0
        for block in self._blocks:
            self.offsets.append(self.input_bytes)
            self.input_bytes += _aligned(block.bytes)
        self.output_bytes = _aligned(self._output.bytes)

    @staticmethod
    def _tensor(memory: torch.Tensor, begin: int, block: _Block) -> torch.Tensor:
        return memory[begin : begin + block.bytes].view(block.dtype).view(block.memory).permute(block.view)

    def input(self, memory: torch.Tensor, index: int) -> list[torch.Tensor]:
        """The nine tensors of input `index` in memory (uint8, one dimension)."""
        begin = index * self.input_bytes
        return [
            self._tensor(memory, begin + offset, block)
            for offset, block in zip(self.offsets, self._blocks, strict=True)
        ]

    def output(self, memory: torch.Tensor, index: int) -> torch.Tensor:
        """Output `index` in memory (uint8, one dimension)."""
        return self._tensor(memory, index * self.output_bytes, self._output)

    def code_rows(self) -> list[tuple[int, int, int]]:
        """(offset in an input, rows, bytes a row) of the codes of a, b1 and b2; rows of all batches together."""
        blocks = self._blocks[:3]
        return [
            (offset, block.memory[0] * block.memory[1], block.memory[2])
            for offset, block in zip(self.offsets, blocks, strict=False)
        ]


def copy_in(layout: Layout, memory: torch.Tensor, inputs: Iterable[Sequence[torch.Tensor]]) -> list[list[torch.Tensor]]:
    """Copies inputs, nine tensors each, to their places in memory; the tensors there."""
    staged = []
    for index, tensors in enumerate(inputs):
        staged.append(layout.input(memory, index))
        for place, tensor in zip(staged[-1], tensors, strict=True):
            place.view(torch.uint8).copy_(tensor.view(torch.uint8))
    return staged
