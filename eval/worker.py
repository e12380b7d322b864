"""The worker: a process of its own that loads a submission and calls it on what the parent lends it.

It knows neither seeds nor cases nor the mode, and no right answer is ever in it. What it says is held against the
parent's own clock and the parent's own copies of the outputs; its checks are for telling what went wrong in words.
"""

from __future__ import annotations

import contextlib
import ctypes
import gc
import importlib.util
import os
import secrets
import signal
import socket
import sys
import time
import traceback
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, NamedTuple

import torch

from eval import task
from eval.channel import Channel
from eval.guards import FunctionWatch, extent, output_problem
from eval.lending.cuda import CudaBorrower
from eval.lending.host import HostBorrower
from eval.lending.layout import Layout, Shape
from eval.output.text import shortened
from eval.timing import CoreError, Timed

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
    shape: Shape
    device: str
    log: str  # the file that takes what the submission prints


@contextlib.contextmanager
def _blamed(action: str) -> Iterator[None]:
    """Turns whatever the submission raises into a Failure."""
    try:
        yield
    except (Failure, CoreError):
        raise
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


def _nothing(data: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """The kernel of a null round, which measures what a round costs beside its calls."""
    return data[-1]


class Worker:
    """One case of one submission; everything it relies on is bound before the submission is loaded."""

    def __init__(self, setup: Setup, channel: Channel) -> None:
        self._send = channel.send
        self._device = torch.device(setup.device)
        self._submission = setup.submission
        self._borrower = self._borrow(Layout(setup.shape), channel)
        m, n, _, batches = setup.shape
        count = len(self._borrower.inputs)
        self._cs = [self._empty_output(m, n, batches) for _ in range(count)]
        self._data = [(*tensors, c) for tensors, c in zip(self._borrower.inputs, self._cs, strict=True)]
        self._spans = [extent(tensor) for tensors in self._borrower.inputs for tensor in tensors]
        self._kept_spans = [extent(kept) for kept in self._borrower.kept]
        self._copy, self._fill = torch.Tensor.copy_, torch.Tensor.fill_
        self._equal, self._sleep = torch.equal, time.sleep
        self._kernel = _nothing
        self._watch: FunctionWatch | None = None
        self._seen = 0  # inputs that the submission has met

    def _borrow(self, layout: Layout, channel: Channel) -> HostBorrower | CudaBorrower:
        """Takes the parent's terms, the first message of all."""
        raw, descriptors = channel.receive_with_descriptors(1)
        terms = parse(raw)
        if self._device.type == "cuda":
            torch.cuda.set_device(self._device)
            torch.cuda.init()
            return CudaBorrower(layout, terms["count"], channel, terms, self._device)
        return HostBorrower(layout, terms["count"], channel, terms, descriptors)

    def _empty_output(self, m: int, n: int, batches: int) -> torch.Tensor:
        memory = torch.empty((batches, m, n), dtype=torch.float16, device=self._device)
        return memory.permute(1, 2, 0)

    def load(self) -> None:
        """Imports the submission."""
        self._watch = FunctionWatch()
        self._kernel = _load(self._submission)
        self._check_watch()

    def _check_watch(self) -> None:
        replaced = self._watch.replaced() if self._watch else None
        if replaced:
            raise Failure(f"the submission replaced {replaced}, which the harness relies on")

    def _extra_calls(self) -> None:
        """A few calls on the last round's inputs, whose outputs no one looks at."""
        with _blamed("custom_kernel failed"):
            for _ in range(secrets.randbelow(MAX_EXTRA_CALLS + 1) if self._seen else 0):
                self._kernel(self._data[secrets.randbelow(self._seen)])

    def round(self, count: int) -> None:
        """One call for each of the first `count` inputs, which come with the parent's word.

        Sends {"ready": null} before the word and {"done": us} once the outputs lie in lent memory.
        """
        self._extra_calls()
        outputs = self._calls(count, lambda data: self._borrower.round(self._kernel, data[0], data[1]))
        self._check_outputs(outputs)

    def _calls(self, count: int, make: Callable[[tuple[Callable[[Any], None], list[Any]]], Timed]) -> list[Any]:
        """Has `make` make the calls and hands outputs over; the outputs, as the submission returned them."""
        outputs: list[torch.Tensor] = []
        earlier: list[tuple[int, int]] = []

        def returned(output: Any) -> None:
            index = len(outputs)
            problem = output_problem(output, self._cs[index], self._spans + self._kept_spans, earlier)
            if problem:
                raise Failure(problem)
            self._copy(self._borrower.kept[index], output.detach())
            outputs.append(output)
            earlier.append(extent(output))

        for c in self._cs[:count]:
            self._fill(c, float("nan"))  # every element has to be written
        self._borrower.prepare()
        gc.disable()
        try:
            self._send({"ready": None})
            with _blamed("custom_kernel failed"):
                timed = make((returned, self._data[:count]))
        finally:
            gc.enable()
        self._send({"done": timed.total_us})
        if self._kernel is not _nothing:
            self._seen = max(self._seen, count)
        if problem := self._borrower.problem(timed):
            raise Failure(problem)
        return outputs

    def _check_outputs(self, outputs: list[torch.Tensor]) -> None:
        """Whether outputs are still what they were when their calls had returned, and the process what it was."""
        if self._kernel is not _nothing:
            self._sleep(SETTLE_S)
            for output, kept in zip(outputs, self._borrower.kept, strict=False):
                if not self._equal(output.detach().view(torch.int16), kept.view(torch.int16)):
                    raise Failure("an output changed after the call had returned")
        self._check_watch()

    def profile(self) -> str:
        """torch's profile of one call, made like a round of one, as the table it prints."""
        activities = [torch.profiler.ProfilerActivity.CPU]
        if self._device.type == "cuda":
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        with torch.profiler.profile(activities=activities) as profiler:
            self.round(1)
        table = profiler.key_averages()
        return table.table(sort_by=f"self_{self._device.type}_time_total", row_limit=PROFILE_ROWS)


def parse(raw: bytes) -> dict[str, Any]:
    """A message of the parent."""
    import json

    return json.loads(raw)


def _isolate(log_path: str) -> None:
    """Gives the process its own output, session and command line, and an end with its parent's."""
    log = os.open(log_path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC | os.O_APPEND, 0o600)
    os.dup2(log, 1)
    os.dup2(log, 2)
    os.setsid()  # what the submission starts is ended with it
    with contextlib.suppress(OSError, AttributeError):
        ctypes.CDLL(None).prctl(PR_SET_PDEATHSIG, signal.SIGKILL)
    sys.argv = ["submission.py"]
    # The CuTe DSL must compile what it is given, as on the leaderboard.
    os.environ["CUTE_DSL_DISABLE_FILE_CACHING"] = "1"


def serve(worker: Worker, channel: Channel) -> None:
    """Answers requests until {"request": "end"} comes."""
    while (request := parse(channel.receive()))["request"] != "end":
        name, content = request["request"], None
        if name == "load":
            worker.load()
        elif name == "round":
            worker.round(request["count"])
        elif name == "profile":
            content = worker.profile()
        channel.send({"ok": content})


def main(setup: Setup, end: socket.socket) -> None:
    """Serves requests; {"ok": content} answers each, {"fail": message} is the last answer of all."""
    _isolate(setup.log)
    channel = Channel(end)
    try:
        worker = Worker(setup, channel)
        channel.send({"ok": None})
        serve(worker, channel)
    except Failure as failure:
        _tell(channel, str(failure))
    except (EOFError, BrokenPipeError):  # the parent is gone
        pass
    except BaseException as error:
        traceback.print_exc()
        _tell(channel, f"{type(error).__name__}: {error}")
    finally:
        sys.stdout.flush()
        sys.stderr.flush()
    channel.close()


def _tell(channel: Channel, failure: str) -> None:
    with contextlib.suppress(OSError):
        channel.send({"fail": shortened(failure.encode(errors="backslashreplace").decode())})
