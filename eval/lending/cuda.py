"""Lent memory on a GPU: the parent allocates and fills it, and the worker maps it by CUDA's interprocess calls.

Inputs become complete only after the parent has flushed the cache: then it corrects the canaries and records an event,
for which the worker's queue waits before its first call. The parent's clock runs between events of its own queue.
"""

from __future__ import annotations

import mmap
from collections.abc import Callable, Iterable, Sequence
from typing import Any

import torch

from eval.lending.canaries import Canaries
from eval.lending.cuda_runtime import Runtime, as_tensor
from eval.lending.host import MemoryFile
from eval.lending.layout import NAN_BYTE, Layout, copy_in
from eval.timing import WORD, Core, Cuda, Timed
from eval.workers.channel import Channel
from reference.problems.interface import Output

_WORD_BYTES = 8
FLUSH_BYTES = 1 << 30  # several times any L2 cache
# As many bytes as the leaderboard's wipe, about 15 ms: all calls of a round are queued before the first one starts, so
# that the host's part of a call does not count.
FLUSH_FILLS = 64
# Before a single call: some 2 ms, ten times the host's part of one call.
FLUSH_FILLS_SINGLE = 8
# Device work that continues for longer than this after the default queue is done belongs to another queue.
IDLE_TOLERANCE_US = 100.0
IDLE_TOLERANCE = 0.1  # of the calls' time
# This many rounds of a worker may be so: the host may have been delayed between its two looks at the device. Work on
# another queue in so few rounds changes no median, and the default queue copies the outputs in its turn.
BUSY_ROUNDS_EXCUSED = 2


class CudaLender:
    """The parent's side."""

    def __init__(
        self, layout: Layout, count: int, device: torch.device, runtime: Runtime | None = None, outputs: int = 0
    ) -> None:
        torch.cuda.set_device(device)
        torch.cuda.init()
        self._runtime = runtime or Runtime()
        self._layout, self._device = layout, device
        self._sizes = (count * layout.input_bytes, max(count, outputs) * layout.output_bytes)
        self._own = torch.empty(self._sizes[0], dtype=torch.uint8, device=device)  # the worker never sees it
        self._own_host = torch.empty(count * layout.host_bytes, dtype=torch.uint8)
        self._lent_host: MemoryFile | None = None  # the inputs in host memory
        self._taken = torch.empty(count * layout.output_bytes, dtype=torch.uint8, device=device)
        self._flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device=device)
        self._addresses = [self._runtime.allocate(size) for size in self._sizes]
        lent = (as_tensor(at, size, device) for at, size in zip(self._addresses, self._sizes, strict=True))
        self._inputs, self._outputs = lent
        self._whole = self._runtime.event(shared=True)
        self._began, self._ended = self._runtime.event(), self._runtime.event()
        self._canaries: Canaries | None = None
        self._count = 0
        self.span_us = 0.0

    def terms(self) -> tuple[dict[str, Any], list[int]]:
        """The message that describes the memory to the worker, and the descriptors to send with it."""
        inputs, outputs = (self._runtime.memory_handle(address) for address in self._addresses)
        event = self._runtime.event_handle(self._whole)
        count = self._sizes[1] // self._layout.output_bytes
        return {"inputs": inputs, "memory": outputs, "outputs": count, "event": event}, []

    def stage(self, inputs: Iterable[Sequence[torch.Tensor]], calls: int = 0) -> list[list[torch.Tensor]]:
        """Prepares inputs for lending and fills the outputs of `calls` (default: one for each input) with NaNs.

        Returns the parent's own copy of the inputs, which is complete once the round has begun.
        """
        staged = copy_in(self._layout, self._own, inputs, self._own_host)
        self._count = len(staged)
        self._drop()
        if self._layout.host_bytes:
            self._lent_host = MemoryFile(self._count * self._layout.host_bytes)
            self._lent_host.memory.copy_(self._own_host[: self._lent_host.memory.numel()])
        self._canaries = Canaries(self._layout, self._own, self._count)
        self._layout.spoil(self._outputs, calls or self._count)
        torch.cuda.synchronize(self._device)
        return staged

    def begin(self, channel: Channel) -> None:
        """Queues the completion of the inputs and sends the word; the worker queues its calls meanwhile."""
        assert self._canaries is not None
        size = self._count * self._layout.input_bytes
        self._inputs[:size].copy_(self._own[:size])
        self._canaries.complete(self._own)
        for fill in range(FLUSH_FILLS if self._count > 1 else FLUSH_FILLS_SINGLE):
            self._flush.fill_(fill)
        self._canaries.complete(self._inputs)
        self._runtime.record(self._began)
        self._runtime.record(self._whole)
        channel.send_bytes(WORD, [self._lent_host.descriptor] if self._lent_host else [])

    def take(self, count: int, sample: torch.Tensor | None = None) -> list[Output]:
        """Copies the first `count` outputs, or those of `sample`.

        `span_us` is the device's time from complete inputs until the copies are made.
        """
        size = count * self._layout.output_bytes
        if sample is None:
            self._taken[:size].copy_(self._outputs[:size])
        else:
            count = len(sample)
            words = self._outputs.view(torch.int64).view(-1, self._layout.output_bytes // _WORD_BYTES)
            taken = self._taken[: count * self._layout.output_bytes].view(torch.int64).view(count, -1)
            torch.index_select(words, 0, sample, out=taken)
        self._runtime.record(self._ended)
        self._runtime.wait_for(self._ended)
        self.span_us = self._runtime.elapsed_us(self._began, self._ended)
        return [self._layout.output(self._taken, index) for index in range(count)]

    def modified(self) -> bool:
        """Whether the worker changed the inputs of the last round."""
        size = self._count * self._layout.input_bytes
        if self._lent_host and not torch.equal(
            self._lent_host.memory, self._own_host[: self._lent_host.memory.numel()]
        ):
            return True
        return not torch.equal(self._inputs[:size], self._own[:size])

    def _drop(self) -> None:
        if self._lent_host is not None:
            self._lent_host.close()
            self._lent_host = None

    def close(self) -> None:
        """Frees everything."""
        self._drop()
        torch.cuda.synchronize(self._device)
        for address in self._addresses:
            self._runtime.free(address)
        self._addresses = []
        del self._own, self._taken, self._flush, self._inputs, self._outputs
        torch.cuda.empty_cache()


class CudaBorrower:
    """The worker's side: inputs stay at their addresses; binds events and every function of a round at the start."""

    copy = staticmethod(torch.Tensor.copy_)

    def __init__(
        self, layout: Layout, count: int, channel: Channel, terms: dict[str, Any], device: torch.device,
        runtime: Runtime | None = None,
    ) -> None:  # fmt: skip
        self._runtime = runtime or Runtime()
        inputs, outputs = (
            as_tensor(self._runtime.open_memory(terms[name]), size, device)
            for name, size in (
                ("inputs", count * layout.input_bytes),
                ("memory", terms["outputs"] * layout.output_bytes),
            )
        )
        self._own = own = torch.empty(count * layout.output_bytes, dtype=torch.uint8, device=device)
        self.own = [layout.output(own, index) for index in range(count)]
        # Reserves address space; each round maps the lent host memory over it.
        self._place, self._staged_bytes = mmap.mmap(-1, max(1, count * layout.host_bytes)), count * layout.host_bytes
        self._layout = layout
        host = torch.frombuffer(self._place, dtype=torch.uint8)
        self.inputs = [layout.input(inputs, index, host) for index in range(count)]
        self.kept = [layout.output(outputs, index) for index in range(terms["outputs"])]
        self.lent = [inputs, outputs, host]
        self._default_queue = torch.cuda.default_stream(device)
        self._set_queue = torch.cuda.set_stream
        self._current_queue = lambda read=torch._C._cuda_getCurrentStream, index=device.index: read(index)
        self._right_queue = self._current_queue()
        self._synchronize = torch._C._cuda_synchronize
        cuda = Cuda(
            record=self._runtime.pointer("cudaEventRecord"),
            wait=self._runtime.pointer("cudaStreamWaitEvent"),
            synchronize_event=self._runtime.pointer("cudaEventSynchronize"),
            synchronize_device=self._runtime.pointer("cudaDeviceSynchronize"),
            elapsed_ms=self._runtime.pointer("cudaEventElapsedTime"),
            copy=self._runtime.pointer("cudaMemcpyAsync"),
            queue=None,
            lent=self._runtime.open_event(terms["event"]),
            start=self._runtime.event(),
            stop=self._runtime.event(),
            kept=self._runtime.event(),
        )
        places = (own.data_ptr(), outputs.data_ptr(), layout.output_bytes)
        self._core = Core(channel.fileno(), memory=host.data_ptr(), cuda=cuda, outputs=places)
        self._busy_rounds = 0

    def prepare(self, count: int) -> None:
        """Puts the device into the state that a round starts from; the first `count` outputs in `own` become NaNs."""
        self._own[: count * self._layout.output_bytes].fill_(NAN_BYTE)
        self._set_queue(self._default_queue)
        self._runtime.forbid_persisting_cache()
        self._synchronize()

    def round(
        self, kernel: Callable[[Any], Any], returned: Callable[[Any, Any], None], data: Sequence[Any],
        offered: Sequence[Output],
    ) -> Timed:  # fmt: skip
        """Waits for the word and makes one call for each of `data`, whose outputs are `offered`.

        Copies outputs in `own` to `kept` and passes all that are not `offered` to `returned`.
        """
        lent = min(len(data) * self._layout.host_bytes, self._staged_bytes)
        copied = len(data) if offered is self.own else 0
        return self._core.round(kernel, returned, data, lent, offered, copied)

    def problem(self, timed: Timed) -> str | None:
        """Why the round's time is meaningless, if it is."""
        if self._current_queue() != self._right_queue:
            return "the submission made another queue the current one"
        self._busy_rounds += timed.rest_us > IDLE_TOLERANCE_US + IDLE_TOLERANCE * timed.total_us
        if self._busy_rounds > BUSY_ROUNDS_EXCUSED:
            return f"the device was busy for {timed.rest_us:.0f} us after the default queue was done"
        return None
