"""The worker: a spawned process that loads a submission, makes inputs, calls it and times it.

It answers requests over a pipe with JSON and the bytes of outputs; the parent checks them, so no right answer is
ever in the submission's process. Everything the worker relies on is bound before the submission is imported.
What this cannot stop is a submission that takes the process apart from below (writing to its memory, say); the
parent's own clock and the chip's physical limits bound what that could gain.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib.util
import json
import os
import secrets
import signal
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from multiprocessing.connection import Connection
from pathlib import Path
from typing import Any, NamedTuple

import torch

from eval import task
from eval.guards import FunctionWatch, extent, fingerprint, output_problem
from eval.timing import Calls, TimingError, timer_for
from reference.nvfp4 import as_bytes
from reference.reference import generate_input

# Extra untimed calls before a round, a random number up to this: a submission cannot count on its calls.
MAX_EXTRA_CALLS = 3
# A late write has had this long to show when outputs are looked at again.
SETTLE_S = 0.01
PROFILE_ROWS = 20
PR_SET_PDEATHSIG = 1  # linux/prctl.h


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
    except TimingError as error:
        raise Failure(str(error)) from error
    except BaseException as error:
        place = traceback.extract_tb(error.__traceback__)[-1]
        raise Failure(
            f"{action}: {type(error).__name__}: {error} ({Path(place.filename).name}:{place.lineno})"
        ) from error


def _load(path: str) -> Callable[[tuple[torch.Tensor, ...]], torch.Tensor]:
    """custom_kernel of a submission file."""
    sys.modules["task"] = task  # `from task import input_t, output_t`
    # The leaderboard runs a submission as a script: modules beside it can be imported.
    sys.path.insert(0, str(Path(path).resolve().parent))
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


class Worker:
    """One case of one submission. `send` takes messages for the parent."""

    def __init__(self, setup: Setup, send: Callable[[dict[str, Any]], None]) -> None:
        self._send = send
        self._device = torch.device(setup.device)
        if self._device.type == "cuda":
            torch.cuda.set_device(self._device)
            torch.cuda.init()
        self._shape = setup.shape
        self._timer = timer_for(self._device)
        self._staged: list[tuple[torch.Tensor, ...]] = []
        self._inputs: list[tuple[torch.Tensor, ...]] = []
        self._kept: list[torch.Tensor] = []  # outputs as they were on return
        self._copy, self._fill = torch.Tensor.copy_, torch.Tensor.fill_
        self._equal, self._sleep = torch.equal, time.sleep
        self._watch = FunctionWatch()
        self._kernel = _load(setup.submission)
        self._check_watch()

    def _check_watch(self) -> None:
        replaced = self._watch.replaced()
        if replaced:
            raise Failure(f"the submission replaced {replaced}, which the harness relies on")

    def _stage(self, seeds: list[int]) -> None:
        """Makes inputs of these seeds ready to be published."""
        fresh = [generate_input(*self._shape, seed, device=self._device) for seed in seeds]
        self._staged = [data[:-1] for data in fresh]
        for *staged, c in fresh[len(self._inputs) :]:
            blank = [torch.empty_like(tensor) for tensor in staged]
            for tensor in blank:
                self._fill(as_bytes(tensor), 0)
            self._inputs.append((*blank, c))
            self._kept.append(torch.empty_like(c))

    def _publish(self, i: int) -> None:
        """Copies a staged input to where the last round's was: fresh contents behind old pointers."""
        for old, new in zip(self._inputs[i][:-1], self._staged[i], strict=True):
            self._copy(as_bytes(old), as_bytes(new))

    @staticmethod
    def _fingerprints(inputs: list[tuple[torch.Tensor, ...]]) -> torch.Tensor:
        """One row for each tensor."""
        return torch.stack([fingerprint(tensor) for data in inputs for tensor in data])

    def _extra_calls(self) -> None:
        """A few calls on the last round's inputs, whose outputs no one looks at."""
        with _blamed("custom_kernel failed"):
            for _ in range(secrets.randbelow(MAX_EXTRA_CALLS + 1)):
                self._kernel(self._inputs[secrets.randbelow(len(self._inputs))])

    def _round(self, seeds: list[int], make_calls: Callable[[Calls], Any], extra: bool = True) -> Any:
        """One call for each seed, with every check that can be made here; what make_calls returned.

        The outputs are kept as they were right after the calls.
        """
        count = len(seeds)
        if extra:
            self._extra_calls()
        self._stage(seeds)
        inputs = self._inputs[:count]
        spans = [extent(tensor) for data in inputs for tensor in data[:-1]]
        outputs: list[torch.Tensor] = []
        earlier = []

        def call(i: int) -> None:
            outputs.append(self._kernel(inputs[i]))

        def returned(i: int) -> None:
            problem = output_problem(outputs[i], inputs[i][-1], spans, earlier)
            if problem:
                raise Failure(problem)
            self._copy(self._kept[i], outputs[i])
            earlier.append(extent(outputs[i]))

        for i, data in enumerate(inputs):
            self._fill(data[-1], float("nan"))  # every element has to be written
            self._fill(self._kept[i], float("nan"))
        self._timer.prepare()
        gc.disable()
        try:
            with _blamed("custom_kernel failed"):
                measured = make_calls(
                    Calls(self._publish, call, returned, count, lambda name: self._send({"mark": name}))
                )
        finally:
            gc.enable()
        self._timer.synchronize()
        self._sleep(SETTLE_S)
        for output, kept in zip(outputs, self._kept, strict=False):
            if not self._equal(output.view(torch.int16), kept.view(torch.int16)):
                raise Failure("an output changed after the call had returned")
        if not self._equal(self._fingerprints([data[:-1] for data in inputs]), self._fingerprints(self._staged)):
            raise Failure("the submission modified its inputs")
        self._check_watch()
        return measured

    def check(self, seeds: list[int]) -> dict[str, Any]:
        """One call for each seed, whose times do not count."""
        self._round(seeds, self._timer.single_us, extra=False)
        return {}

    def time_round(self, seeds: list[int]) -> dict[str, Any]:
        """One timed round over inputs of these seeds, back to back."""
        return {"mean_us": self._round(seeds, self._timer.round_us)}

    def time_single(self, seeds: list[int]) -> dict[str, Any]:
        """Calls over inputs of these seeds, each timed with the device idle before it."""
        return {"single_us": self._round(seeds, self._timer.single_us)}

    def profile(self, seeds: list[int]) -> dict[str, Any]:
        """torch's profile of the call for the first seed, as the table it prints."""
        activities = [torch.profiler.ProfilerActivity.CPU]
        if self._device.type == "cuda":
            activities.append(torch.profiler.ProfilerActivity.CUDA)

        def profiled(calls: Calls) -> torch.profiler.profile:
            calls.publish(0)
            self._timer.synchronize()
            with torch.profiler.profile(activities=activities) as profiler:
                calls.call(0)
                self._timer.synchronize()
            calls.returned(0)
            return profiler

        averages = self._round(seeds[:1], profiled, extra=False).key_averages()
        return {"report": averages.table(sort_by=f"self_{self._device.type}_time_total", row_limit=PROFILE_ROWS)}

    def output_bytes(self, index: int) -> memoryview:
        """The output of a call of the last round, as (L, M, N) float16 in memory order."""
        return memoryview(self._kept[index].permute(2, 0, 1).contiguous().cpu().numpy()).cast("B")


def _isolate(log_path: str) -> None:
    """Gives the process its own output, session and command line, and an end with its parent's."""
    log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.setsid()  # what the submission starts is ended with it
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    sys.argv = ["submission.py"]  # the mode is not its business
    # The CuTe DSL must compile what it is given, as on the leaderboard.
    os.environ["CUTE_DSL_DISABLE_FILE_CACHING"] = "1"


def main(setup: Setup, connection: Connection) -> None:
    """Serves requests {"request": name, ...} until null comes.

    Answers are {"ok": result} or {"fail": message}, after any number of {"mark": name}; an output's are its bytes.
    """
    _isolate(setup.log)

    def send(message: dict[str, Any]) -> None:
        connection.send_bytes(json.dumps(message).encode())

    try:
        worker = Worker(setup, send)
        send({"ok": {}})
        while (request := json.loads(connection.recv_bytes())) is not None:
            name = request.pop("request")
            if name == "output":
                connection.send_bytes(worker.output_bytes(**request))
            else:
                send({"ok": getattr(worker, name)(**request)})
    except Failure as failure:
        send({"fail": str(failure)})
    except EOFError:  # the parent is gone
        pass
    except BaseException as error:
        traceback.print_exc()
        send({"fail": f"{type(error).__name__}: {error}"})
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    connection.close()
