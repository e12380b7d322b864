"""Where the tensors of a problem are in lent memory. It depends only on the shape, so both processes agree."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import NamedTuple

import torch

from reference.problems.interface import OTHER, Block, Output, Shape, like, parts

NAN_BYTE = 0xFF  # repeated, it is a NaN in every floating-point type of an output
ALIGN_BYTES = 512  # the alignment of torch's allocator on a GPU


def _aligned(count: int) -> int:
    return -(-count // ALIGN_BYTES) * ALIGN_BYTES


Extent = tuple[int, int]


def extent(tensor: torch.Tensor) -> Extent:
    """The address range of a tensor's elements: the first byte and the one after the last."""
    if tensor.numel() == 0:
        return tensor.data_ptr(), tensor.data_ptr()
    last = sum((size - 1) * stride for size, stride in zip(tensor.shape, tensor.stride(), strict=True))
    return tensor.data_ptr(), tensor.data_ptr() + (last + 1) * tensor.element_size()


class CodeRows(NamedTuple):
    """Where the rows of an operand's codes are in an input, how long they are, and the operand's role."""

    offset: int
    rows: int
    row_bytes: int
    role: str


class _Places:
    """Blocks laid out one after the other. Sizes and offsets are in bytes."""

    def __init__(self, blocks: Sequence[Block]) -> None:
        self.blocks = list(blocks)
        self.offsets: list[int] = []
        self.bytes = 0
        for block in self.blocks:
            self.offsets.append(self.bytes)
            self.bytes += _aligned(block.bytes)

    def tensors(self, memory: torch.Tensor, index: int) -> list[torch.Tensor]:
        """The tensors of copy `index` in memory (uint8, one-dimensional)."""
        begin = index * self.bytes
        return [
            memory[begin + offset : begin + offset + block.bytes]
            .view(getattr(torch, block.dtype))
            .view(block.memory)
            .permute(block.view)
            for offset, block in zip(self.offsets, self.blocks, strict=True)
        ]


class Layout:
    """The places of a problem's input tensors, one input after the other, and of its outputs."""

    def __init__(self, shape: Shape, apart: bool = False) -> None:
        """`apart`: blocks for host memory are laid out separately."""
        self.shape = shape
        blocks = shape.inputs()
        self._is_apart = [apart and block.on_host for block in blocks]
        self._inputs = _Places([block for block, away in zip(blocks, self._is_apart, strict=True) if not away])
        self._host = _Places([block for block, away in zip(blocks, self._is_apart, strict=True) if away])
        self._outputs = _Places(parts(shape.output()))
        self.input_bytes, self.host_bytes, self.output_bytes = (
            places.bytes for places in (self._inputs, self._host, self._outputs)
        )
        self.call_bytes = self.input_bytes + self.output_bytes

    def input(self, memory: torch.Tensor, index: int, host: torch.Tensor | None = None) -> list[torch.Tensor]:
        """The tensors of input `index` in `memory`, and separate ones in `host` (uint8, one-dimensional)."""
        here = iter(self._inputs.tensors(memory, index))
        there = iter(self._host.tensors(host, index) if host is not None else ())
        return [next(there if away else here) for away in self._is_apart]

    def output(self, memory: torch.Tensor, index: int) -> Output:
        """Output `index` in memory (uint8, one-dimensional): a tensor, or a list if the problem has several."""
        return like(self.shape.output(), self._outputs.tensors(memory, index))

    def spoil(self, memory: torch.Tensor, count: int) -> None:
        """Fills the first `count` outputs in memory with NaNs."""
        for index in range(count):
            for part in parts(self.output(memory, index)):
                part.fill_(float("nan"))

    def code_rows(self) -> list[CodeRows]:
        """The code operands of an input, each with the rows of all batches."""
        return [
            CodeRows(offset, block.memory[0] * block.memory[1], block.memory[2], block.role)
            for offset, block in zip(self._inputs.offsets, self._inputs.blocks, strict=True)
            if block.role != OTHER
        ]


def paired(shape: Shape, inputs: Sequence[list[torch.Tensor]], call: int) -> list[torch.Tensor]:
    """The tensors of a call of a span: the codes of one input, and everything else, such as scale factors, of another.

    n inputs make n * n calls, no two of them alike, so that neither operand can be converted once for several calls.
    Each rotation reads every input once.
    """
    rotation, index = divmod(call, len(inputs))
    other = inputs[(index + rotation) % len(inputs)]
    blocks = zip(shape.inputs(), inputs[index], other, strict=True)
    return [there if block.role == OTHER else here for block, here, there in blocks]


def copy_in(
    layout: Layout, memory: torch.Tensor, inputs: Iterable[Sequence[torch.Tensor]], host: torch.Tensor | None = None
) -> list[list[torch.Tensor]]:
    """Copies inputs to their places in memory. Returns the tensors there."""
    staged = []
    for index, tensors in enumerate(inputs):
        staged.append(layout.input(memory, index, host))
        for place, tensor in zip(staged[-1], tensors, strict=True):
            place.view(torch.uint8).copy_(tensor.view(torch.uint8))
    return staged
