"""The worker: a spawned process that loads a submission, makes inputs, calls it and times it.

It answers requests over a pipe with plain data; outputs go to the parent as files, and the parent checks them.
Everything the worker relies on is bound before the submission is imported.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib.util
import os
import random
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import numpy as np
import torch

from eval.guards import FunctionWatch, fingerprint, output_problem
from reference.reference import generate_input

now_ns = time.perf_counter_ns

# Extra untimed calls at the start of a round, a random number up to this: a submission cannot count on its calls.
MAX_EXTRA_CALLS = 3
# A late write has had this long to show when outputs are looked at again.
SETTLE_S = 0.01
FLUSH_BYTES = 1 << 30  # several times any L2 cache
FLUSH_FILLS = 16  # about 5 ms at 4 TB/s: the calls of a round are queued before the first one starts
# Device work that goes on this long after the last timed call's event belongs to another queue.
IDLE_TOLERANCE_US = 200.0
CUDA_LIMIT_PERSISTING_L2 = 6  # cudaLimitPersistingL2CacheSize, CUDA runtime API


class Failure(Exception):
    """What a submission did wrong, in one line for the report."""


class Setup(NamedTuple):
    """What a worker is started with."""

    submission: str
    shape: tuple[int, int, int, int]
    device: str
    log: str  # the file that takes what the submission prints


@contextlib.contextmanager
def _blamed(action: str) -> Iterator[None]:
    """Turns whatever the submission raises into a Failure."""
    try:
        yield
    except Failure:
        raise
    except BaseException as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        raise Failure(
            f"{action}: {type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"
        ) from error


def _load(path: str) -> Callable[[tuple[torch.Tensor, ...]], torch.Tensor]:
    """custom_kernel of a submission file."""
    sys.path.append(str(Path(__file__).resolve().parent))  # `from task import input_t, output_t`
    sys.path.append(str(Path(path).resolve().parent))
    spec = importlib.util.spec_from_file_location("submission_under_test", path)
    if spec is None or spec.loader is None:
        raise Failure(f"{path} is not a Python file")
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    with _blamed("import failed"):
        spec.loader.exec_module(module)
    if not callable(getattr(module, "custom_kernel", None)):
        raise Failure("the submission has no function custom_kernel")
    return module.custom_kernel


class Calls(NamedTuple):
    """The calls of a round: `call(i)` for i < count, and `returned(i)` to look at its output, untimed."""

    call: Callable[[int], None]
    returned: Callable[[int], None]
    count: int


def _untimed(calls: Calls) -> None:
    for i in range(calls.count):
        calls.call(i)
        calls.returned(i)


class Timer:
    """Timing on one kind of device; the subclasses bind what they call before the submission is loaded."""

    def prepare(self) -> None:
        """Puts the device in the state a round starts from."""

    def round_us(self, calls: Calls) -> tuple[float, list[float]]:
        """Makes the calls; the mean time a call, and each call's own time where there is one."""
        raise NotImplementedError

    def single_us(self, calls: Calls) -> list[float]:
        """The time of each call with the device idle before it."""
        raise NotImplementedError


class CpuTimer(Timer):
    """A monotonic clock around each call; nothing overlaps, so a single call is the same as one of many."""

    def round_us(self, calls: Calls) -> tuple[float, list[float]]:
        each = []
        for i in range(calls.count):
            start = now_ns()
            calls.call(i)
            each.append((now_ns() - start) / 1e3)
            calls.returned(i)
        return sum(each) / calls.count, each

    def single_us(self, calls: Calls) -> list[float]:
        return self.round_us(calls)[1]


class CudaTimer(Timer):
    """CUDA events on the default queue around calls back to back, from a cold L2 cache."""

    def __init__(self, device: torch.device) -> None:
        # The C base class cannot be patched, unlike torch.cuda.Event.
        self._event = torch._C._CudaEventBase
        self._default_queue = torch.cuda.default_stream(device)
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

    def prepare(self) -> None:
        if self._set_limit is not None:  # no part of the cache may outlive the flush
            self._set_limit(CUDA_LIMIT_PERSISTING_L2, ctypes.c_size_t(0))
        self._synchronize()

    def _flush(self, fills: int) -> None:
        for i in range(fills):
            self._fill(self._flush_buffer, i)

    def _timed(self, calls: Calls, indices: range, fills: int) -> float:
        start, end = (self._event(enable_timing=True) for _ in range(2))
        self._flush(fills)
        start.record(self._default_queue)
        for i in indices:
            calls.call(i)
        end.record(self._default_queue)
        end.synchronize()
        last_event = now_ns()
        self._synchronize()
        rest_us = (now_ns() - last_event) / 1e3
        total_us = start.elapsed_time(end) * 1e3
        if rest_us > IDLE_TOLERANCE_US + 0.1 * total_us:
            raise Failure(f"the device was busy for {rest_us:.0f} us after the default queue was done: other queues")
        return total_us

    def round_us(self, calls: Calls) -> tuple[float, list[float]]:
        # Outputs are looked at after the round: in between, the queue would run dry.
        return self._timed(calls, range(calls.count), FLUSH_FILLS) / calls.count, []

    def single_us(self, calls: Calls) -> list[float]:
        return [self._timed(calls, range(i, i + 1), 1) for i in range(calls.count)]


class Worker:
    """One case of one submission."""

    def __init__(self, setup: Setup) -> None:
        self._device = torch.device(setup.device)
        if self._device.type == "cuda":
            torch.cuda.set_device(self._device)
            torch.cuda.init()
        self._shape = setup.shape
        self._timer: Timer = CudaTimer(self._device) if self._device.type == "cuda" else CpuTimer()
        self._inputs: list[tuple[torch.Tensor, ...]] = []
        self._clone, self._copy, self._fill = torch.Tensor.clone, torch.Tensor.copy_, torch.Tensor.fill_
        self._watch = FunctionWatch()
        self._kernel = _load(setup.submission)
        self._check_watch()

    def _check_watch(self) -> None:
        replaced = self._watch.replaced()
        if replaced:
            raise Failure(f"the submission replaced {replaced}, which the harness relies on")

    def _refill(self, seeds: list[int]) -> None:
        """Inputs of these seeds, in the memory of the last round's: fresh contents behind old pointers."""
        for i, seed in enumerate(seeds):
            fresh = generate_input(*self._shape, seed, device=self._device)
            if i < len(self._inputs):
                for old, new in zip(self._inputs[i][:-1], fresh[:-1], strict=True):
                    self._copy(old.view(torch.uint8), new.view(torch.uint8))
            else:
                self._inputs.append(fresh)

    def _synchronize(self) -> None:
        if self._device.type == "cuda":
            torch._C._cuda_synchronize()

    def _extra_calls(self, inputs: list[tuple[torch.Tensor, ...]]) -> None:
        with _blamed("custom_kernel failed"):
            for _ in range(random.randint(0, MAX_EXTRA_CALLS)):
                self._kernel(random.choice(inputs))

    def _round(self, seeds: list[int], make_calls: Callable[[Calls], Any]) -> tuple[list[torch.Tensor], Any]:
        """One call for each seed; the outputs as they were on return, after every check made here, and what
        make_calls returned."""
        self._refill(seeds)
        inputs = self._inputs[: len(seeds)]
        prints = [[fingerprint(tensor) for tensor in data[:-1]] for data in inputs]
        outputs: list[Any] = []
        snapshots: dict[int, torch.Tensor] = {}

        def call(i: int) -> None:
            outputs.append(self._kernel(inputs[i]))

        def returned(i: int) -> None:
            problem = output_problem(outputs[i], inputs[i], outputs[:i])
            if problem:
                raise Failure(problem)
            snapshots[i] = self._clone(outputs[i])

        if make_calls is not _untimed:
            self._extra_calls(inputs)
        for data in inputs:
            self._fill(data[-1], float("nan"))  # every element has to be written
        self._timer.prepare()
        gc.disable()
        try:
            with _blamed("custom_kernel failed"):
                measured = make_calls(Calls(call, returned, len(seeds)))
        finally:
            gc.enable()
        for i in range(len(seeds)):
            if i not in snapshots:
                returned(i)
        self._synchronize()
        time.sleep(SETTLE_S)
        for i, output in enumerate(outputs):
            if fingerprint(output) != fingerprint(snapshots[i]):
                raise Failure("an output changed after the call had returned")
        for data, before in zip(inputs, prints, strict=True):
            if [fingerprint(tensor) for tensor in data[:-1]] != before:
                raise Failure("the submission modified its inputs")
        self._check_watch()
        return [snapshots[i] for i in range(len(seeds))], measured

    def _save(self, outputs: list[torch.Tensor], path: str) -> None:
        stacked = torch.stack([output.cpu() for output in outputs])
        np.save(path, stacked.numpy())

    def check(self, seeds: list[int], path: str) -> dict[str, Any]:
        """One untimed call for each seed; the outputs go to `path`."""
        outputs, _ = self._round(seeds, _untimed)
        self._save(outputs, path)
        return {}

    def time_round(self, seeds: list[int], path: str) -> dict[str, Any]:
        """One timed round over inputs of these seeds, back to back."""
        outputs, (mean_us, each_us) = self._round(seeds, self._timer.round_us)
        self._save(outputs, path)
        return {"mean_us": mean_us, "each_us": each_us}

    def time_single(self, seeds: list[int], path: str) -> dict[str, Any]:
        """Calls over inputs of these seeds, each timed with the device idle before it."""
        outputs, single_us = self._round(seeds, self._timer.single_us)
        self._save(outputs, path)
        return {"single_us": single_us}

    def profile(self, seeds: list[int], path: str) -> dict[str, Any]:
        """torch's profile of one call for each seed, as the table it prints."""
        activities = [torch.profiler.ProfilerActivity.CPU]
        if self._device.type == "cuda":
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        with torch.profiler.profile(activities=activities) as profiler:
            outputs, _ = self._round(seeds, _untimed)
        self._save(outputs, path)
        return {"report": profiler.key_averages().table(sort_by="self_cpu_time_total", row_limit=20)}


def main(setup: Setup, connection: Connection) -> None:
    """Serves requests (name, arguments) with ("ok", result) or ("fail", message) until None comes."""
    log = os.open(setup.log, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    try:
        worker = Worker(setup)
        connection.send(("ok", {}))
        while (request := connection.recv()) is not None:
            name, arguments = request
            connection.send(("ok", getattr(worker, name)(**arguments)))
    except Failure as failure:
        connection.send(("fail", str(failure)))
    except BaseException as error:
        traceback.print_exc()
        connection.send(("fail", f"{type(error).__name__}: {error}"))
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    connection.close()
