"""Timing of calls, in the worker: a monotonic clock on a CPU, events on the default queue on a GPU.

Everything used here is bound before the submission is imported.
"""

from __future__ import annotations

import ctypes
import time
from collections.abc import Callable
from pathlib import Path
from typing import Any, NamedTuple

import torch

now_ns = time.perf_counter_ns

FLUSH_BYTES = 1 << 30  # several times any L2 cache
# As many bytes as the leaderboard's wipe, some 15 ms: the calls of a round are queued before the first one starts,
# so the host's part of a call does not count.
FLUSH_FILLS = 64
# Before a single call: enough to hide the host's part of one call.
FLUSH_FILLS_SINGLE = 2
# Between the inputs' arrival and the first call: no input is left in the cache.
FLUSH_FILLS_COLD = 1
# Device work that goes on this long after the default queue is done belongs to another queue.
IDLE_TOLERANCE_US = 100.0
CUDA_LIMIT_PERSISTING_L2 = 6  # cudaLimitPersistingL2CacheSize, CUDA runtime API


class TimingError(Exception):
    """The device did something that makes a time meaningless."""


class Calls(NamedTuple):
    """The calls of a round: `publish(i)` puts input i in place, `call(i)`, `returned(i)` keeps its output, untimed.

    `mark` tells the parent process that the timed section begins or ends.
    """

    publish: Callable[[int], None]
    call: Callable[[int], None]
    returned: Callable[[int], None]
    count: int
    mark: Callable[[str], None]


class Timer:
    """Timing on one kind of device."""

    def prepare(self) -> None:
        """Puts the device in the state a round starts from."""

    def synchronize(self) -> None:
        """Waits for the device."""

    def round_us(self, calls: Calls) -> float:
        """Makes the calls; the mean time of one."""
        raise NotImplementedError

    def single_us(self, calls: Calls) -> list[float]:
        """The time of each call with the device idle before it."""
        raise NotImplementedError


class CpuTimer(Timer):
    """A clock around each call; nothing overlaps, so a single call is the same as one of many."""

    def round_us(self, calls: Calls) -> float:
        each = self.single_us(calls)
        return sum(each) / len(each)

    def single_us(self, calls: Calls) -> list[float]:
        for i in range(calls.count):
            calls.publish(i)
        each = []
        calls.mark("begin")
        for i in range(calls.count):
            start = now_ns()
            calls.call(i)
            each.append((now_ns() - start) / 1e3)
            calls.returned(i)
        calls.mark("end")
        return each


class CudaTimer(Timer):
    """Events on the default queue around calls back to back, from a cold L2 cache."""

    def __init__(self, device: torch.device) -> None:
        # The C base class cannot be patched, unlike torch.cuda.Event.
        self._event = torch._C._CudaEventBase
        self._default_queue = torch.cuda.default_stream(device)
        self._set_queue = torch.cuda.set_stream
        self._current_queue = lambda read=torch._C._cuda_getCurrentStream, index=device.index: read(index)
        self._right_queue = self._current_queue()
        self._synchronize = torch._C._cuda_synchronize
        self._flush_buffer = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device=device)
        self._fill = torch.Tensor.fill_
        self._set_limit = self._find_set_limit()

    @staticmethod
    def _find_set_limit() -> Any | None:
        """cudaDeviceSetLimit of the runtime torch loaded, if it can be found."""
        for line in Path("/proc/self/maps").read_text().splitlines():
            if "libcudart" in line:
                return ctypes.CDLL(line.split()[-1]).cudaDeviceSetLimit
        return None

    def synchronize(self) -> None:
        self._synchronize()

    def prepare(self) -> None:
        self._set_queue(self._default_queue)
        if self._set_limit is not None:  # no part of the cache may outlive the flush
            self._set_limit(CUDA_LIMIT_PERSISTING_L2, ctypes.c_size_t(0))
        self._synchronize()

    def _flush(self, fills: int) -> None:
        for i in range(fills):
            self._fill(self._flush_buffer, i)

    def _timed(self, calls: Calls, indices: range, fills: int) -> float:
        start, end, kept = (self._event(enable_timing=True) for _ in range(3))
        self._flush(fills)
        # The host runs ahead of the device here: a call that does not wait for the default queue finds old inputs.
        for i in indices:
            calls.publish(i)
        self._flush(FLUSH_FILLS_COLD)
        start.record(self._default_queue)
        for i in indices:
            calls.call(i)
        end.record(self._default_queue)
        if self._current_queue() != self._right_queue:
            raise TimingError("the submission made another queue the current one")
        # Queued right behind the timed calls: what another queue has not written by now is missing in the copy.
        for i in indices:
            calls.returned(i)
        kept.record(self._default_queue)
        kept.synchronize()
        begin_rest = now_ns()
        self._synchronize()
        rest_us = (now_ns() - begin_rest) / 1e3
        total_us = start.elapsed_time(end) * 1e3
        if rest_us > IDLE_TOLERANCE_US + 0.1 * total_us:
            raise TimingError(f"the device was busy for {rest_us:.0f} us after the default queue was done")
        return total_us

    def round_us(self, calls: Calls) -> float:
        calls.mark("begin")
        total_us = self._timed(calls, range(calls.count), FLUSH_FILLS)
        calls.mark("end")
        return total_us / calls.count

    def single_us(self, calls: Calls) -> list[float]:
        calls.mark("begin")
        each = [self._timed(calls, range(i, i + 1), FLUSH_FILLS_SINGLE) for i in range(calls.count)]
        calls.mark("end")
        return each


def timer_for(device: torch.device) -> Timer:
    """The timer of a device; on a GPU it takes FLUSH_BYTES of its memory."""
    return CudaTimer(device) if device.type == "cuda" else CpuTimer()
