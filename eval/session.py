"""Runs one case in its worker: rounds over inputs that the worker cannot know in advance, timed and checked here.

The parent makes the inputs, keeps its own copy, and starts each round with one word. Its clock runs from that word
until it has copied the outputs. Only then does it compute the expected outputs and check all of them. The worker claims
how long its calls took; the claim counts as far as the parent's own time supports it.
"""

from __future__ import annotations

import contextlib
import random
import secrets
import time
from collections.abc import Callable, Sequence
from pathlib import Path
from statistics import median
from types import TracebackType
from typing import Any, NamedTuple

import torch

from eval import sandbox, timing
from eval.cases import Case
from eval.hardware.load import Load
from eval.lending.cuda import CudaLender
from eval.lending.host import HostLender
from eval.lending.layout import Layout, paired
from eval.output import origin
from eval.output.origin import Library
from eval.output.text import clean
from eval.sandbox import State, privileges
from eval.workers.answers import Garbled, text_in, time_us
from eval.workers.process import GARBLED, WorkerProcess
from eval.workers.worker import Failure
from reference.problems.interface import BOARD, Output, Shape, blank

_OF_MANY_THREADS = 1 << 20  # elements
START_S = 60.0  # at least, for a worker to start: a submission has no part in it, and importing torch takes seconds
NULL_ROUNDS = 7
NULL_ROUNDS_WARMING_UP = 2
# Noise on the machine widens a batch of null rounds. If no batch is quiet for so long, the cheapest rounds count.
NULL_SEARCH_S = 3.0
QUIET = 1.5  # a batch whose tolerance is at most this times its median is quiet enough
NULL_SEED = 0  # null rounds never look at their inputs
# A round with real calls may cost this much more than a null round: caches are cold, threads spin.
TOLERANCE_OF_NULL = 1.25
ENOUGH_STANDING = 3  # rounds
MOST_EXCESS = 0.1  # of the parent's times over the claims
# So many of a span's outputs are checked, and no more than there are inputs. Three spans of fifty inputs reveal a
# worker that leaves out a fiftieth of its calls 19 times in 20.
SPAN_SAMPLE = 50
# A worker cheats if every claim is below half of the time that the parent's clock supports.
BLATANT = 2.0

# Takes a shape, the kernel's arguments and its output. Returns whether the output is right, why not, and (some checks
# only) its Mismatch.
Check = Callable[[Shape, tuple[Any, ...], Output], tuple[Any, ...]]


class Round(NamedTuple):
    """The times of a round's calls together, in us: the worker's claim and the parent's own."""

    claimed_us: float
    span_us: float

    def stands(self, tolerance_us: float) -> bool:
        """Whether the parent's time supports the claim."""
        return self.claimed_us >= self.span_us - tolerance_us

    def counted_us(self, tolerance_us: float) -> float:
        """The claim if it stands, else the parent's time minus the tolerance."""
        return max(self.claimed_us, self.span_us - tolerance_us)


class Session:
    """A worker running a case, and the memory lent to it. Raises Failure for errors on the worker's side."""

    def __init__(
        self, submission: Path, case: Case, device: torch.device, inputs: int, answer_s: float,
        data: str = BOARD, span_calls: int = 0,
    ) -> None:  # fmt: skip
        """`span_calls`: how many calls a span may have."""
        self._case, self.device, self._kind = case, device, data
        self._inputs = inputs
        self.printed, self.backend = "", ""
        self.sandbox = State()
        self.left = ""  # the error message if a process survived the worker
        self.libraries: list[Library] = []
        self.worst_error: float | None = None  # the largest error / tolerance of the outputs checked
        self.wrong: dict[str, Any] | None = None  # where the wrong elements lie
        self.pid = 0  # the worker's
        self.waits = Load()  # while the clock runs
        self.checked = 0  # outputs compared with the reference
        # Starts the threads of torch's loops: the submission may use up all processes, and libgomp ends a program that
        # gets no thread.
        torch.ones(_OF_MANY_THREADS, device="cpu").sum()
        layout = Layout(case.shape, apart=device.type == "cuda")
        self._lender: CudaLender | HostLender = (
            CudaLender(layout, inputs, device, outputs=span_calls)
            if device.type == "cuda"
            else HostLender(layout, inputs, span_calls)
        )
        try:
            self._process = WorkerProcess(submission, case.shape, str(device), answer_s)
        except BaseException:
            self._lender.close()
            raise
        try:
            terms, descriptors = self._lender.terms()
            self._process.send({"count": inputs, **terms}, descriptors)
            begun = self._process.answer("ok", "start", self._process.deadline(START_S))
            self.sandbox, self.pid = State(**begun["sandbox"]), begun["pid"]
            privileges.let_end_first(self.pid)
            sandbox.hold(device.type, self.sandbox)
        except BaseException:
            self.close(patient=False)
            raise

    def null_overheads_us(self, count: int, request: str = "round") -> list[float]:
        """What rounds (or spans) of `count` calls cost apart from the calls, measured with a kernel that does nothing.

        Returns a quiet batch, or the cheapest rounds of all on a busy machine, so that noise cannot add to them. Call
        it before `load`: no submission code has run in the process by then.
        """
        blank = self._generated(NULL_SEED)
        sample = self._sample(count) if request == "span" else None

        def made() -> float:
            torch.rand(_OF_MANY_THREADS)  # empties the caches, as making each round's inputs does
            self._lender.stage((blank for _ in range(min(count, self._inputs))), count)
            times = self._exchange(request, count, sample=sample)[0]
            return max(0.0, times.span_us - times.claimed_us)

        for _ in range(NULL_ROUNDS_WARMING_UP):
            made()
        all_us: list[float] = []
        give_up = time.monotonic() + NULL_SEARCH_S
        while time.monotonic() < give_up or not all_us:
            batch = [made() for _ in range(NULL_ROUNDS)]
            if tolerance_us(batch) <= QUIET * median(batch):
                return batch
            all_us += batch
        return sorted(all_us)[:NULL_ROUNDS]

    def _generated(self, seed: int) -> list[torch.Tensor]:
        return self._case.shape.generate(seed, self._kind, self.device)

    def load(self) -> None:
        """Makes the worker import the submission."""
        self._process.send({"request": "load"})
        backend = self._process.answer("ok", "start", self._process.deadline())
        try:
            self.backend = " ".join(text_in(backend).split())  # one line: it must not forge others
        except Garbled as error:
            raise Failure(f"{GARBLED} ({error})") from None

    def _exchange(
        self, request: str, count: int, after: Callable[[], object] = bool, sample: torch.Tensor | None = None
    ) -> tuple[Round, list[Output], Any]:
        """Makes one request that contains a round. Returns its times, the copied outputs and the last answer.

        Copies only the outputs of the calls in `sample`, if given.
        """
        deadline = self._process.deadline()
        self._process.send({"request": request, "count": count})
        self._process.answer("ready", request, deadline)
        self.waits.begin(self.pid)
        with contextlib.suppress(OSError):  # if the worker died, the missing answer reveals it
            self._lender.begin(self._process.channel)
        claim = self._process.answer("done", request, deadline)
        outputs = self._lender.take(count, sample)
        self.waits.end()
        after()
        answer = self._process.answer("ok", request, deadline)
        try:
            claimed_us = time_us(claim)
        except Garbled as error:
            raise Failure(f"{GARBLED} ({error})") from None
        return Round(claimed_us, self._lender.span_us), outputs, answer

    def round(
        self, seeds: Sequence[int], check: Check, what: str, request: str = "round",
        after: Callable[[], object] = bool, most_adds: int = 0,
    ) -> tuple[Round, Any]:  # fmt: skip
        """Makes one call for each seed and checks every output. Returns the times and the worker's last answer.

        Calls `after` once the outputs are copied, before anything else uses the device. If `most_adds` is given and
        the case has more multiply-adds, it checks so much of a random choice of rows.
        """
        staged = self._lender.stage(self._generated(seed) for seed in seeds)
        times, outputs, answer = self._exchange(request, len(seeds), after)
        if self._lender.modified():
            raise Failure("the submission modified its inputs")
        shape = self._case.shape
        for index, (tensors, output) in enumerate(zip(staged, outputs, strict=True)):
            where = f"{what}, input {index + 1} of {len(seeds)}, seed {seeds[index]}"
            if not most_adds or shape.work().multiply_adds <= most_adds:
                self._check(check, shape, tensors, output, where)
                continue
            left = most_adds
            while left > 0:
                part = shape.tile(tensors, output, secrets.randbelow)
                self._check(check, *part, f"{where}, rows chosen at random")
                left -= part[0].work().multiply_adds
        return times, answer

    def _sample(self, calls: int, most: int = SPAN_SAMPLE) -> torch.Tensor:
        """A random choice of calls, which the worker cannot know."""
        chosen = random.SystemRandom().sample(range(calls), min(calls, most, self._inputs))
        return torch.tensor(chosen, device=self.device)

    def span(self, seeds: Sequence[int], calls: int, check: Check, checked: int = SPAN_SAMPLE) -> float:
        """Makes many calls on inputs of these seeds, no two alike, and checks some. Returns the parent's time in us."""
        staged = self._lender.stage((self._generated(seed) for seed in seeds), calls)
        sample = self._sample(calls, checked)
        times, outputs, _ = self._exchange("span", calls, sample=sample)
        if self._lender.modified():
            raise Failure("the submission modified its inputs")
        for call, output in zip(sample.tolist(), outputs, strict=True):
            shape = self._case.shape
            self._check(check, shape, paired(shape, staged, call), output, f"span, call {call + 1} of {calls}")
        return times.span_us

    def _check(self, check: Check, shape: Shape, tensors: list[torch.Tensor], output: Output, where: str) -> None:
        """Raises Failure if an output is wrong."""
        ok, message, *found = check(shape, shape.data(tensors, blank(shape, self.device)), output)
        for one in found:
            self.worst_error = max(self.worst_error or 0.0, one.worst)
            self.wrong = self.wrong if ok else one.record()
        if not ok:
            raise Failure(f"wrong result ({where}): {message}")
        self.checked += 1

    def profile(self, seed: int, check: Check) -> str:
        """torch's profile of one call."""
        _, table = self.round([seed], check, "profile", request="profile")
        if not isinstance(table, str):
            raise Failure(f"{GARBLED} (a {type(table).__name__} for a profile)")
        return clean(table)

    def close(self, patient: bool = True) -> None:
        """Ends the worker (`patient`: gives it time to exit by itself) and takes back the lent memory."""
        mapped = origin.mapped_libraries(self.pid, {timing.LIBRARY}) if self.pid else []
        self.printed, self.left = self._process.close(patient), self._process.left
        self.libraries = origin.libraries(mapped) if not self.left else []
        self._lender.close()

    def __enter__(self) -> Session:
        return self

    def __exit__(
        self, kind: type[BaseException] | None, value: BaseException | None, trace: TracebackType | None
    ) -> None:
        self.close(patient=kind is None)


def tolerance_us(null_overheads_us: Sequence[float]) -> float:
    """How far a claim may lie below the parent's time: the largest cost of a null round plus the range of the costs."""
    most = max(null_overheads_us)
    return max(most + (most - min(null_overheads_us)), TOLERANCE_OF_NULL * median(null_overheads_us))


class Timings:
    """The timed rounds of a case.

    If enough claims stand, only those rounds count: a busy machine delays the others. Else the parent's clock counts
    for all rounds, if it shows little more than the claims; if not, the case is not measured.
    """

    def __init__(self, inputs: int, tolerance_us: float, small_us: float = 0.0) -> None:
        """`small_us`: a smaller tolerance of a call is never too large, and a smaller difference is no lie."""
        self._inputs, self._tolerance_us, self._small_us = inputs, tolerance_us, small_us
        self._rounds: list[Round] = []

    def add(self, made: Round) -> float:
        """Adds a round. Returns the time of one of its calls that counts, in us."""
        self._rounds.append(made)
        return made.counted_us(self._tolerance_us) / self._inputs

    @property
    def tolerance_us(self) -> float:
        """The tolerance of one call."""
        return self._tolerance_us / self._inputs

    @property
    def count(self) -> int:
        """Rounds made."""
        return len(self._rounds)

    @property
    def doubted(self) -> int:
        """Rounds whose claim does not stand."""
        return sum(not made.stands(self._tolerance_us) for made in self._rounds)

    def rounds_us(self) -> list[float]:
        """The mean time of a call in each round that counts."""
        standing = [made for made in self._rounds if made.stands(self._tolerance_us)]
        counting = standing if len(standing) >= ENOUGH_STANDING else self._rounds
        return [made.counted_us(self._tolerance_us) / self._inputs for made in counting]

    def too_coarse(self, most: float) -> str | None:
        """The error message if the tolerance of a call is more than `most` of its time and not small, else None.

        The parent's time decides, because the claim may be false.
        """
        usual_us = median(made.span_us for made in self._rounds)
        if self.tolerance_us <= max(most * usual_us / self._inputs, self._small_us):
            return None
        return (
            f"not measured: {self.tolerance_us / 1e3:.3g} of the {usual_us / self._inputs / 1e3:.3g} ms of a call may"
            f" be the cost of a round (at most {100 * most:.0f} % are allowed); is the machine busy?"
        )

    def _excess(self) -> float:
        """By how much the parent's times exceed the claims if they count, because too few claims stand; else 0."""
        if self.count - self.doubted >= ENOUGH_STANDING:
            return 0.0
        counted_us = median(made.counted_us(self._tolerance_us) for made in self._rounds)
        return counted_us / median(made.claimed_us for made in self._rounds) - 1

    def note(self) -> str:
        """What did not count; "" if all did."""
        less = "the worker's clock shows less than the harness's"
        if excess := self._excess():
            longer = f"{100 * excess:.0f}" if excess > 0.01 else "less than 1"
            return f"in {self.doubted} of {self.count} rounds {less}: all times are the harness's, {longer} % longer"
        return f"{self.doubted} of {self.count} rounds do not count: {less}" if self.doubted else ""

    def too_few(self) -> str | None:
        """The error message if the parent's times count and lie far above the claims, else None."""
        if self._excess() <= MOST_EXCESS:
            return None
        return f"not measured: {self.note()}. The machine is busy, or the worker's clock wrong: it shows {self._last()}"

    def _last(self) -> str:
        last, tolerance = self._rounds[-1], f"tolerance {self._tolerance_us / 1e3:.3g} ms"
        return f"{last.claimed_us / 1e3:.3g} ms for calls that took {last.span_us / 1e3:.3g} ms ({tolerance})"

    def lie(self) -> str | None:
        """The error message if no round's claim comes near the parent's time, else None."""
        for made in self._rounds:
            counted_us = made.counted_us(self._tolerance_us)
            if counted_us <= max(BLATANT * made.claimed_us, made.claimed_us + self._small_us * self._inputs):
                return None
        return f"the worker's clock shows {self._last()}"
