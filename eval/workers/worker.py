"""The worker: a process that loads a submission and calls it on inputs that the parent lends.

It knows no seed, case or mode, and never holds an expected output. The parent compares the worker's claims with its own
clock and checks its own copies of the outputs; the worker's checks only help to explain what went wrong.
"""

from __future__ import annotations

import contextlib
import ctypes
import errno
import gc
import importlib.machinery
import importlib.util
import json
import os
import secrets
import socket
import sys
import time
import traceback
from collections.abc import Iterator
from pathlib import Path
from types import ModuleType, TracebackType
from typing import Any, NamedTuple

import torch

import eval
from eval import board_utils, sandbox, task
from eval.lending.cuda import CudaBorrower
from eval.lending.host import HostBorrower
from eval.lending.layout import Layout, extent, paired
from eval.output.text import shortened
from eval.sandbox import keeper
from eval.sandbox.privileges import FILE_BYTES, MORE_PROCESSES
from eval.timing import CoreError
from eval.workers.channel import Channel
from eval.workers.guards import FunctionWatch, output_problem
from reference.problems.interface import Output, Problem, Shape, parts

# At most this many extra untimed calls before a round, a random number: a submission cannot count its calls.
MAX_EXTRA_CALLS = 3
# The time between the two checks of outputs: long enough for a late write to show.
SETTLE_S = 0.01
SETTLED_ROUNDS = 50  # so many rounds take that time: some boards ask for a thousand, and the parent's own copies decide
PROFILE_ROWS = 20
STIRRED_S, STIRRED_BYTES = 0.001, 4 << 20  # of a null call on a CPU; more than a core's own caches


# On the leaderboard a submission is the module of this name.
MODULE = "submission"
PACKAGE = Path(__file__).resolve().parents[2] / MODULE
# The beginnings of file names of frames: of the harness and the import system, of Python and its packages.
NOT_OWN = (str(Path(eval.__file__).parent) + os.sep, "<frozen ")
LIBRARIES = tuple(prefix + os.sep for prefix in {sys.prefix, sys.base_prefix})
STUB = """import importlib.machinery, importlib.util, sys
loader = importlib.machinery.SourceFileLoader({name!r}, {path!r})
spec = importlib.util.spec_from_file_location({name!r}, {path!r}, loader=loader, submodule_search_locations={places!r})
sys.modules[{name!r}] = importlib.util.module_from_spec(spec)
spec.loader.exec_module(sys.modules[{name!r}])
"""
# Added to an OSError, by its number. A refused call without a file's name is not about files.
WRITES = "a submission writes only where tempfile.gettempdir() says"
REFUSES = "the sandbox refuses this call: sockets but connected pairs, name spaces, and what concerns other processes"
HINTS = {
    errno.EPERM: WRITES,
    errno.EACCES: f"{WRITES}, and reads what lies beside it, the system's files and what PATH and PYTHONPATH name",
    errno.EROFS: WRITES,
    errno.ENOSPC: "the disk of the folder for temporary files is full; TMPDIR names another one",
    errno.EFBIG: f"files are limited to {FILE_BYTES >> 30} GiB",
    errno.EAGAIN: f"processes are limited to {MORE_PROCESSES} more than there were",
}
DEVICES_HINT = "on a CPU a worker's /dev and /dev/shm are its own; files that it needs must lie elsewhere"


class _TextLoader(importlib.machinery.SourceFileLoader):
    """Runs a file's text, whose digest the record has, and never compiled code that lies in a cache beside it."""

    def get_code(self, fullname: str) -> Any:
        return self.source_to_code(self.get_data(self.path), self.path)


class Failure(Exception):
    """What went wrong with a submission, in one line for the report."""


class Setup(NamedTuple):
    """The arguments of a worker."""

    submission: str
    shape: Shape
    device: str
    scratch: str = ""  # the folder that it may write to


@contextlib.contextmanager
def _blamed(action: str) -> Iterator[None]:
    """Turns any exception of the submission into a Failure."""
    try:
        yield
    except (Failure, CoreError):
        raise
    except BaseException as error:
        raise Failure(f"{action}: {_told(error)}") from None


def _hint(error: BaseException) -> str:
    """What the sandbox has to do with an error of the submission, if anything."""
    if isinstance(error, (ImportError, OSError)) and str(error).endswith(os.strerror(errno.EACCES)):
        return f"; {HINTS[errno.EACCES]}"  # a shared library's comes without a number
    if not isinstance(error, OSError):
        return ""
    if error.errno is None and error.__context__ is not None:  # urllib's says what another one meant
        return _hint(error.__context__)
    if error.errno == errno.EPERM and error.filename is None:
        return f"; {REFUSES}"
    if error.errno == errno.ENOENT and str(error.filename).startswith("/dev/"):
        return f"; {DEVICES_HINT}"
    return f"; {HINTS[error.errno]}" if error.errno in HINTS else ""


def _own_frames(trace: TracebackType | None) -> TracebackType | None:
    """A traceback from the first frame that is neither the harness's nor the import system's; None without any."""
    while trace is not None and trace.tb_frame.f_code.co_filename.startswith(NOT_OWN):
        trace = trace.tb_next
    return trace


def _told(error: BaseException) -> str:
    """An exception of the submission in one line, which its class may try to prevent; its traceback goes to the log.

    The line names the last place in the submission's own files, the traceback begins with the first.
    """
    kind, said, where, hint = type.__dict__["__name__"].__get__(type(error)), "(its message cannot be read)", "", ""
    with contextlib.suppress(BaseException):
        said = shortened(str.__str__(str(error)))  # a plain string, whatever __str__ returns
    with contextlib.suppress(BaseException):
        hint = _hint(error)
    with contextlib.suppress(BaseException):
        frames = traceback.extract_tb(_own_frames(error.__traceback__))
        own = [frame for frame in frames if not frame.filename.startswith((*NOT_OWN, *LIBRARIES))]
        place = (own or frames)[-1]
        where = f" ({Path(place.filename).name}:{place.lineno})"
    with contextlib.suppress(BaseException):  # the disk may be full
        traceback.print_exception(type(error), error, _own_frames(error.__traceback__))
    return f"{kind}{said and ': '}{said}{where}{hint}"


def _load(path: str, scratch: Path, problem: Problem) -> ModuleType:
    """Imports a submission file under its name on the leaderboard.

    Processes that the submission starts can import it, and `task`, under these names too.
    """
    # The leaderboard runs a submission as a script, which can import modules of its folder, and has these there.
    board_utils.offer_reference(problem)
    folder = Path(path).resolve().parent
    sys.path.insert(0, str(folder))
    stubs = scratch / "modules"
    stubs.mkdir(exist_ok=True)
    # A submission may also import parts of the package of the same name.
    places = [str(PACKAGE)]
    for name, module in (("task", task), ("utils", board_utils)):
        if name == "task" or not (folder / f"{name}.py").exists():
            sys.modules[name] = module
            (stubs / f"{name}.py").write_text(STUB.format(name=name, path=module.__file__, places=None))
    (stubs / f"{MODULE}.py").write_text(STUB.format(name=MODULE, path=str(Path(path).resolve()), places=places))
    sys.path.insert(0, str(stubs))
    loader = _TextLoader(MODULE, path)  # whatever the file's name ends in
    spec = importlib.util.spec_from_file_location(MODULE, path, loader=loader, submodule_search_locations=places)
    module = importlib.util.module_from_spec(spec)
    sys.modules[spec.name] = module
    with _blamed("import failed"):
        spec.loader.exec_module(module)
    if not callable(getattr(module, "custom_kernel", None)):
        raise Failure("the submission has no function custom_kernel")
    return module


def _backend(module: ModuleType, device: torch.device) -> str:
    """The backend that a submission reports through `backends()`, as this package's does; else an empty string."""
    asked = os.environ.get("NVFP4_BACKEND") or "auto"
    if not hasattr(module, "backends"):
        return ""
    with contextlib.suppress(BaseException):
        for backend in module.backends():
            fits = backend.name == asked if asked != "auto" else (backend.name == "cpu") == (device.type == "cpu")
            if backend.available and fits:
                return shortened(f"{backend.name} ({backend.detail})" if backend.detail else str(backend.name))
    return ""


class Worker:
    """One case of one submission; binds everything it relies on before the submission is loaded."""

    def __init__(self, setup: Setup, channel: Channel) -> None:
        self._send = channel.send
        self._device = torch.device(setup.device)
        self._submission, self._scratch = setup.submission, Path(setup.scratch)
        self._borrower = self._borrow(Layout(setup.shape, apart=self._device.type == "cuda"), channel)
        self._shape = setup.shape
        self._cs = self._borrower.own
        self._data = [setup.shape.data(*given) for given in zip(self._borrower.inputs, self._cs, strict=True)]
        self._lent = [extent(memory) for memory in self._borrower.lent]
        self._extents = {id(part): [extent(part)] for c in self._cs for part in parts(c)}
        self._copy = self._borrower.copy
        self._equal, self._sleep = torch.equal, time.sleep
        # The kernel of null rounds, which measure what a round costs apart from its calls.
        self._nothing = self._kernel = self._stir if self._device.type == "cpu" else setup.shape.offered
        self._stirred = ctypes.create_string_buffer(STIRRED_BYTES)
        self._watch: FunctionWatch | None = None
        self._seen = 0  # inputs that the submission has seen
        self._settled = 0  # rounds

    def _borrow(self, layout: Layout, channel: Channel) -> HostBorrower | CudaBorrower:
        """Maps the memory that the parent's first message describes."""
        raw, descriptors = channel.receive_with_descriptors(1)
        terms = json.loads(raw)
        if self._device.type == "cuda":
            torch.cuda.set_device(self._device)
            torch.cuda.init()
            return CudaBorrower(layout, terms["count"], channel, terms, self._device)
        return HostBorrower(layout, terms["count"], channel, terms, descriptors)

    def load(self) -> str:
        """Imports the submission. Returns the backend that it reports, if any."""
        self._watch = FunctionWatch()
        module = _load(self._submission, self._scratch, self._shape.problem)
        self._kernel = module.custom_kernel
        self._check_watch()
        return _backend(module, self._device)

    def _stir(self, data: Any) -> Output:
        """Computes nothing, but takes as long as a short call, and leaves as little of the rest in the caches.

        Without that a round would cost half as much: the parent would hardly have slept when the answer comes.
        """
        self._sleep(STIRRED_S)
        ctypes.memset(self._stirred, 0, STIRRED_BYTES)
        return self._shape.offered(data)

    def _check_watch(self) -> None:
        replaced = self._watch.replaced() if self._watch else None
        if replaced:
            raise Failure(f"the submission replaced {replaced}, which the harness relies on")

    def _extra_calls(self) -> None:
        """Makes a few calls on the last round's inputs and ignores the outputs."""
        with _blamed("custom_kernel failed"):
            for _ in range(secrets.randbelow(MAX_EXTRA_CALLS + 1) if self._seen else 0):
                self._kernel(self._data[secrets.randbelow(self._seen)])

    def round(self, count: int) -> None:
        """Makes one call for each of the first `count` inputs, which arrive with the parent's word.

        Sends {"ready": null} before the word and {"done": us} once the outputs are in lent memory.
        """
        self._extra_calls()
        outputs, earlier = self._calls(self._data[:count], self._cs)
        self._check_outputs([self._handed_over(index, outputs.get(index), earlier) for index in range(count)])

    def span(self, count: int) -> None:
        """As `round`, with many calls: the inputs in rotation, paired anew each time, and outputs in lent memory."""
        self._extra_calls()
        offered = self._borrower.kept[:count]
        inputs = self._borrower.inputs
        data = [self._shape.data(paired(self._shape, inputs, call), kept) for call, kept in enumerate(offered)]
        self._calls(data, offered)
        self._check_watch()

    def _calls(self, data: list[Any], offered: list[Output]) -> tuple[dict[int, Output], list[tuple[int, int]]]:
        """Makes the calls and copies the outputs to lent memory.

        Returns those outputs that were handed over one by one, as the submission returned them, and their extents.
        """
        outputs: dict[int, Output] = {}
        earlier: list[tuple[int, int]] = []
        own_ones: list[tuple[int, int]] = []
        place = {id(one): index for index, one in enumerate(data)}

        def returned(one: Any, output: Any) -> None:
            index = place[id(one)]
            outputs[index] = self._returned(output)
            three = (outputs[index], offered[index], self._borrower.kept[index])
            for number, (part, own, kept) in enumerate(zip(*map(parts, three), strict=True)):
                if part is own:  # the core copies it and _handed_over checks it, or it is in its place already
                    own_ones.extend(self._extents.get(id(own), ()))
                    continue
                self._look_at(part, own, number, earlier + own_ones)
                self._copy(kept, part.detach())
                earlier.append(extent(part))

        self._borrower.prepare(len(data) if offered is self._cs else 0)
        gc.disable()
        try:
            self._send({"ready": None})
            with _blamed("custom_kernel failed"):
                timed = self._borrower.round(self._kernel, returned, data, offered)
        finally:
            gc.enable()
        self._send({"done": timed.total_us})
        if self._kernel is not self._nothing:
            self._seen = max(self._seen, min(len(data), len(self._data)))
        if problem := self._borrower.problem(timed):
            raise Failure(problem)
        return outputs, earlier

    def _returned(self, output: Any) -> Output:
        """What a call returned, in the form of the problem's outputs: a tensor, or a list of the right length."""
        offered = self._cs[0]
        if not isinstance(offered, list):
            if isinstance(output, list):
                raise Failure("the output is a list; expected a plain torch.Tensor")
            return output
        if type(output) not in (list, tuple):
            raise Failure(f"the output is a {type(output).__name__}; expected a list of {len(offered)} tensors")
        if len(output) != len(offered):
            raise Failure(f"the output is a list of {len(output)}; expected {len(offered)} tensors")
        return list(output)

    def _look_at(self, part: Any, c: torch.Tensor, number: int, earlier: list[tuple[int, int]]) -> None:
        """Raises Failure if output `number` of a call has a wrong form."""
        if problem := output_problem(part, c, self._lent, earlier):
            name = self._shape.output_name(number)
            raise Failure(f"{name}: {problem}" if name else problem)

    def _handed_over(self, index: int, output: Output | None, earlier: list[tuple[int, int]]) -> Output:
        """The output of call `index`; None is the offered one, which the core copied without checking its form."""
        output = self._cs[index] if output is None else output
        blanks = parts(self._borrower.kept[index])
        for number, (part, c) in enumerate(zip(parts(output), parts(self._cs[index]), strict=True)):
            if part is c:
                self._look_at(part, blanks[number], number, earlier)
                if [extent(part)] != self._extents[id(c)]:
                    raise Failure("the offered output has other memory now; expected results in its own")
                earlier.append(extent(part))
        return output

    def _check_outputs(self, outputs: list[Output]) -> None:
        """Raises Failure if an output changed after its call, or if a watched function was replaced."""
        if self._kernel is not self._nothing:
            self._settled += 1
            self._sleep(SETTLE_S if self._settled <= SETTLED_ROUNDS else 0.0)
            for output, kept in zip(outputs, self._borrower.kept, strict=False):
                for part, copy in zip(parts(output), parts(kept), strict=True):
                    if not self._equal(part.detach().view(torch.int16), copy.view(torch.int16)):
                        raise Failure("an output changed after the call had returned")
        self._check_watch()

    def profile(self, count: int) -> str:
        """The table of torch's profile of a round."""
        activities = [torch.profiler.ProfilerActivity.CPU]
        if self._device.type == "cuda":
            activities.append(torch.profiler.ProfilerActivity.CUDA)
        with torch.profiler.profile(activities=activities) as profiler:
            self.round(count)
        table = profiler.key_averages()
        return table.table(sort_by=f"self_{self._device.type}_time_total", row_limit=PROFILE_ROWS)


def _isolate(setup: Setup, log: int, folder: int, mounted: sandbox.State) -> sandbox.State:
    """Gives the process its own output and command line, and enters the sandbox. Returns the sandbox's state."""
    for descriptor in (1, 2):
        os.dup2(log, descriptor)
    os.close(log)
    null = os.open(os.devnull, os.O_RDONLY)
    os.dup2(null, 0)
    os.close(null)
    sys.argv = ["submission.py"]
    # The CuTe DSL must compile the kernel anew, as on the leaderboard.
    os.environ["CUTE_DSL_DISABLE_FILE_CACHING"] = "1"
    device, submission = torch.device(setup.device).type, Path(setup.submission)
    state = sandbox.enter(Path(setup.scratch), device, folder, submission, mounted)
    os.close(folder)
    return state


def serve(worker: Worker, channel: Channel) -> None:
    """Answers requests until {"request": "end"} comes."""
    while (name := (request := json.loads(channel.receive())).pop("request")) != "end":
        channel.send({"ok": getattr(worker, name)(**request)})


def main(setup: Setup, end: int, lifeline: int, log: int, folder: int) -> None:
    """Answers each request with {"ok": content}, until {"fail": message}, which is the last answer.

    The first answer's content is the state of the sandbox and the process id.
    """
    mounted = sandbox.separate_mounts(torch.device(setup.device).type, Path(setup.scratch), folder)
    keeper.keep(socket.socket(fileno=lifeline), (end, log, folder))
    channel = Channel(socket.socket(fileno=end))
    try:
        state = _isolate(setup, log, folder, mounted)
        worker = Worker(setup, channel)
        sandbox.close_sockets(state)
        channel.send({"ok": {"sandbox": state.message(), "pid": os.getpid()}})
        serve(worker, channel)
    except Failure as failure:
        _tell(channel, str(failure))
    except (EOFError, BrokenPipeError):  # the parent has ended
        pass
    except BaseException as error:
        _tell(channel, _told(error))
    finally:
        for stream in (sys.stdout, sys.stderr):
            with contextlib.suppress(Exception):  # the submission may have replaced it
                stream.flush()
    os._exit(0)  # Python's own end takes half a second with torch, and runs the submission's code


def _tell(channel: Channel, failure: str) -> None:
    with contextlib.suppress(Exception):  # the parent kills this process as soon as it reads the failure
        sys.stdout.flush()
        sys.stderr.flush()
    with contextlib.suppress(OSError):
        channel.send({"fail": shortened(failure.encode(errors="backslashreplace").decode())})
