"""Lent memory on a CPU: sealed memory files. The worker gets the file of a round's inputs with the word to begin.

Until then only the parent has their contents. The outputs' file is shared from the start; the parent fills it with NaNs
before a round and copies it as soon as the worker reports that it is done.
"""

from __future__ import annotations

import ctypes
import fcntl
import mmap
import os
import time
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import numpy as np
import torch

from eval.lending.layout import NAN_BYTE, Layout, copy_in, extent
from eval.timing import WORD, Core, Timed
from eval.workers.channel import Channel
from reference.problems.interface import Output

# The worker cannot shrink a file that the parent has mapped.
_SEALS = fcntl.F_SEAL_SHRINK | fcntl.F_SEAL_GROW | fcntl.F_SEAL_SEAL


class MemoryFile:
    """A sealed memory file and this process's mapping of it."""

    def __init__(self, size: int) -> None:
        self.descriptor = os.memfd_create("lent", os.MFD_CLOEXEC | os.MFD_ALLOW_SEALING)
        os.ftruncate(self.descriptor, size)
        fcntl.fcntl(self.descriptor, fcntl.F_ADD_SEALS, _SEALS)
        self._map = mmap.mmap(self.descriptor, size)
        self.memory = torch.frombuffer(self._map, dtype=torch.uint8)

    def close(self) -> None:
        """Closes the descriptor; the memory is freed with the last tensor that uses it."""
        os.close(self.descriptor)


class HostLender:
    """The parent's side."""

    def __init__(self, layout: Layout, count: int, outputs: int = 0) -> None:
        self._layout = layout
        self._own = torch.empty(count * layout.input_bytes, dtype=torch.uint8)  # the worker never sees it
        self._outputs = MemoryFile(max(count, outputs) * layout.output_bytes)
        self._rows = self._outputs.memory.view(-1, layout.output_bytes).numpy()
        self._taken = np.empty((count, layout.output_bytes), np.uint8)
        self._lent: MemoryFile | None = None
        self._began = 0.0
        self.span_us = 0.0

    def terms(self) -> tuple[dict[str, Any], list[int]]:
        """The message that describes the memory to the worker, and the descriptors to send with it."""
        return {"outputs": self._outputs.memory.numel() // self._layout.output_bytes}, [self._outputs.descriptor]

    def stage(self, inputs: Iterable[Sequence[torch.Tensor]], calls: int = 0) -> list[list[torch.Tensor]]:
        """Prepares inputs for lending and fills the outputs of `calls` (default: one for each input) with NaNs.

        Returns the parent's own copy of the inputs.
        """
        self._drop()
        staged = copy_in(self._layout, self._own, inputs)
        own = self._own[: len(staged) * self._layout.input_bytes]
        self._lent = MemoryFile(own.numel())
        self._lent.memory.copy_(own)
        self._layout.spoil(self._outputs.memory, calls or len(staged))
        return staged

    def begin(self, channel: Channel) -> None:
        """Starts the clock and sends the word to begin with the staged inputs."""
        assert self._lent is not None
        self._began = time.monotonic()
        channel.send_bytes(WORD, [self._lent.descriptor])

    def take(self, count: int, sample: torch.Tensor | None = None) -> list[Output]:
        """Copies the first `count` outputs, or those of `sample`, over the last round's, and stops the clock.

        `span_us` is the time from the word until the copies are made.
        """
        # By numpy in one thread: torch would wait for a second one, which may have to wait for a processor.
        taken = self._taken[: count if sample is None else len(sample)]
        if sample is None:
            np.copyto(taken, self._rows[:count])
        else:
            np.take(self._rows, sample.numpy(), axis=0, out=taken, mode="clip")
        self.span_us = (time.monotonic() - self._began) * 1e6
        return [self._layout.output(torch.from_numpy(taken).flatten(), index) for index in range(len(taken))]

    def modified(self) -> bool:
        """Whether the worker changed the inputs of the last round."""
        assert self._lent is not None
        return not torch.equal(self._lent.memory, self._own[: self._lent.memory.numel()])

    def _drop(self) -> None:
        if self._lent is not None:
            self._lent.close()
            self._lent = None

    def close(self) -> None:
        """Frees everything."""
        self._drop()
        self._outputs.close()


class HostBorrower:
    """The worker's side: inputs stay at their addresses; their contents arrive with each round's word."""

    def __init__(self, layout: Layout, count: int, channel: Channel, terms: dict[str, Any], fds: Sequence[int]) -> None:
        self._layout, self._staged_bytes = layout, count * layout.input_bytes
        # Reserves address space; each round maps the lent inputs over it.
        self._place = mmap.mmap(-1, count * layout.input_bytes)
        address = ctypes.addressof(ctypes.c_char.from_buffer(self._place))
        memory = torch.frombuffer(self._place, dtype=torch.uint8)
        self.inputs = [layout.input(memory, index) for index in range(count)]
        self._own = torch.empty(count * layout.output_bytes, dtype=torch.uint8, device="cpu")
        self.own = [layout.output(self._own, index) for index in range(count)]
        kept = torch.frombuffer(mmap.mmap(fds[0], terms["outputs"] * layout.output_bytes), dtype=torch.uint8)
        os.close(fds[0])
        self.kept = [layout.output(kept, index) for index in range(terms["outputs"])]
        self.lent = [memory, kept]
        places = (self._own.data_ptr(), kept.data_ptr(), layout.output_bytes)
        self._core = Core(channel.fileno(), memory=address, outputs=places)

    def prepare(self, count: int) -> None:
        """Fills the first `count` outputs in `own` with NaNs: the kernel must write every element.

        The last round's inputs go.
        """
        self._core.drop(self._staged_bytes)
        ctypes.memset(self._own.data_ptr(), NAN_BYTE, count * self._layout.output_bytes)

    @staticmethod
    def copy(kept: torch.Tensor, output: torch.Tensor) -> None:
        """Copies an output of the same strides, in one thread: torch would wait for a second one."""
        begin, end = extent(output)
        ctypes.memmove(kept.data_ptr(), begin, end - begin)

    def round(
        self, kernel: Callable[[Any], Any], returned: Callable[[Any, Any], None], data: Sequence[Any],
        offered: Sequence[Output],
    ) -> Timed:  # fmt: skip
        """Waits for the inputs and makes one call for each of `data`, whose outputs are `offered`.

        Copies outputs in `own` to `kept` and passes all that are not `offered` to `returned`.
        """
        lent = min(len(data) * self._layout.input_bytes, self._staged_bytes)
        return self._core.round(kernel, returned, data, lent, offered, len(data) if offered is self.own else 0)

    def problem(self, timed: Timed) -> str | None:
        """Why the round's time is meaningless, if it is."""
        return None
