"""Runs PTX kernels on a CPU, on numpy arrays or torch tensors, and returns the simulator's findings as objects."""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from functools import cache
from pathlib import Path
from typing import Any

import numpy as np

from . import structs

__all__ = [
    "MODES",
    "VERDICTS",
    "Delay",
    "Finding",
    "LaunchRefused",
    "Module",
    "PtxError",
    "Run",
    "Shrunk",
    "Simulator",
]

__version__ = "0.1.0"  # SIM_VERSION in sim.h

MODES = ("eager", "late", "reverse", "random", "poison")
VERDICTS = ("clean", "review", "error", "incomplete")
OK, RUN_ERROR = 0, 5  # enum sim_status
MAP_BYTES = 128

Extent = int | tuple[int, int, int]


class PtxError(Exception):
    """PTX that cannot be read; the message names the line."""


class LaunchRefused(Exception):
    """A launch that did not run; the message says why."""


@dataclass(frozen=True)
class Finding:
    """A fault and its place; lane and offset are -1 if the finding names none.

    The offset is that of a byte: in the global memory of `allocation`, or in the CTA's shared memory if that is "".
    The variable that holds it is "NAME" or "NAME + 0xOFFSET", or "" if none is known.
    """

    verdict: str
    kind: str
    message: str
    kernel: str
    cta: tuple[int, int, int]
    warp: int
    lane: int
    offset: int
    allocation: str
    ptx_line: int
    ptx: str
    source: str
    other_ptx_line: int
    other_ptx: str
    other_source: str
    times: int
    launch: int
    other_launch: int
    other_kernel: str
    variable: str


@dataclass(frozen=True)
class Run:
    """The result of a launch: its findings, and the worst verdict among them."""

    verdict: str
    findings: tuple[Finding, ...]


@dataclass(frozen=True)
class Delay:
    """A delayed asynchronous operation: the `occurrence`th that the warp issued at its instruction.

    `until` says when it took effect.  In mode random, "turns of the warps" is a delay without a place.
    """

    operation: str
    cta: tuple[int, int, int]
    warp: int
    lane: int
    ptx_line: int
    ptx: str
    source: str
    occurrence: int
    until: str


@dataclass(frozen=True)
class Shrunk:
    """The smallest set of delays that still shows a fault."""

    found: bool  # the mode shows a fault
    finding: Finding | None  # that fault; None if the caller's `shows` decided
    always: bool  # the fault occurs without any delay
    delays: tuple[Delay, ...]
    operations: int  # asynchronous operations of the launch when all are delayed
    runs: int
    least: bool  # no delay can be left out; else `stopped` names the limit that ended the search
    stopped: str


def _row(raw: ctypes.Structure) -> dict[str, Any]:
    """The members of a struct by name, texts as str and arrays as tuples."""
    row: dict[str, Any] = {}
    for name, *_ in raw._fields_:
        value = getattr(raw, name)
        if isinstance(value, bytes):
            value = value.decode(errors="replace")
        row[name] = tuple(value) if isinstance(value, ctypes.Array) else value
    return row


def _finding(raw: structs.Finding) -> Finding:
    return Finding(**_row(raw) | {"verdict": VERDICTS[raw.verdict]})


@cache
def load_library(path: str) -> ctypes.CDLL:
    """The library of a file, with the result types of its functions."""
    library = ctypes.CDLL(path)
    for name in (
        "sim_create",
        "sim_load",
        "sim_finding",
        "sim_shrink",
        "sim_counters",
        "sim_event_record",
        "image_ptx",
    ):
        getattr(library, name).restype = ctypes.c_void_p
    for name in ("sim_message", "sim_kernel_name"):
        getattr(library, name).restype = ctypes.c_char_p
    for name in ("sim_finding_count", "sim_parameter_bytes"):
        getattr(library, name).restype = ctypes.c_size_t
    return library


def _memory(value: Any) -> tuple[int, int] | None:
    """Address and bytes of an array or a CPU tensor; None for anything else."""
    if isinstance(value, np.ndarray):
        if not value.flags.c_contiguous:
            raise ValueError("the array is not contiguous")
        return value.ctypes.data, value.nbytes
    if hasattr(value, "data_ptr"):
        if value.device.type != "cpu" or not value.is_contiguous():
            raise ValueError("the tensor is not contiguous, or not in the CPU's memory")
        return value.data_ptr(), value.numel() * value.element_size()
    return None


def _triple(value: Extent, name: str) -> Any:
    """Raises TypeError or ValueError, which name the extent, if it is none."""
    parts = value if isinstance(value, tuple) else (value,)
    if not all(isinstance(part, int | np.integer) for part in parts):
        raise TypeError(f"{name} is {value!r}; expected an integer, or a tuple of three")
    if len(parts) not in (1, 3) or not all(0 <= part < 1 << 32 for part in parts):
        raise ValueError(f"{name} is {value!r}; expected an integer from 0 to 2^32 - 1, or a tuple of three")
    return (ctypes.c_uint32 * 3)(*(value if isinstance(value, tuple) else (value, min(value, 1), min(value, 1))))


def _attributes(
    blobs: Sequence[Any],
    grid: Extent,
    block: Extent,
    cluster: Extent,
    shared: int,
    dependent: bool,
    cooperative: bool = False,
) -> structs.Launch:
    """The attributes of a launch.  The caller keeps the argument blobs alive."""
    pointers = (ctypes.c_void_p * max(len(blobs), 1))(*(ctypes.addressof(blob) for blob in blobs))
    made = structs.Launch(
        _triple(grid, "grid"),
        _triple(block, "block"),
        _triple(cluster, "cluster"),
        shared,
        dependent,
        cooperative,
        None,
        len(blobs),
    )
    made.kept = pointers  # keeps them alive with the struct that holds their address
    made.arguments = ctypes.addressof(pointers)
    return made


class Simulator:
    """A simulated machine with its modules, memory and findings.  Not thread-safe.

    chip: simulate time on this chip, given by name or file.  values: MMAs write their results.  timeline: record when
    things happen.  sms: number of SMs; 0 for that of the module's chip.  limit: instructions of a launch; 0 for the
    library's.  machine_code: a folder with the modules' machine code.  library: the file of the library.
    """

    def __init__(
        self,
        mode: str = "eager",
        seed: int = 1,
        threads: int = 1,
        checks: bool = True,
        *,
        chip: str | None = None,
        values: bool = True,
        timeline: bool = False,
        sms: int = 0,
        limit: int = 0,
        machine_code: str | None = None,
        library: str | Path | None = None,
    ) -> None:
        if mode not in MODES:
            raise ValueError(f"mode is {mode!r}; expected one of {', '.join(MODES)}")
        beside = Path(__file__).parent / "libptxsim.so"
        self._lib = load_library(str(library or os.environ.get("PTXSIM_LIBRARY") or beside))
        texts = (None if text is None else text.encode() for text in (chip, machine_code))
        options = structs.Options(
            MODES.index(mode), seed, threads, not checks, sms, limit, next(texts), not values, timeline, next(texts)
        )
        self._sim = ctypes.c_void_p(self._lib.sim_create(ctypes.byref(options)))
        if not self._sim:
            raise MemoryError("no memory for a simulator")
        if chip is not None and self.time is None:
            raise ValueError(self._message())
        self._kept: dict[int, tuple[int, Any]] = {}  # by address: size and owner of registered memory

    def __del__(self) -> None:
        if getattr(self, "_sim", None):
            self._lib.sim_destroy(self._sim)

    def _message(self) -> str:
        return self._lib.sim_message(self._sim).decode()

    def load(self, ptx: str | bytes | Path, arch: int = 90) -> Module:
        """The only module of PTX text or of a file (see `load_all`).  Raises PtxError if it cannot be read."""
        modules = self.load_all(ptx, arch)
        if len(modules) != 1:
            raise PtxError(f"it holds {len(modules)} modules: use load_all")
        return modules[0]

    def load_all(self, ptx: str | bytes | Path, arch: int = 90) -> tuple[Module, ...]:
        """The modules of PTX text, a fat binary, or an object or program made by nvcc, given as text, bytes or path.

        From each fat binary, takes the PTX for sm_ARCH, else for the same major number, else any.  Raises PtxError if
        there is no PTX, or it cannot be read.
        """
        if not isinstance(ptx, str | bytes | bytearray | Path):
            raise TypeError(f"ptx is {type(ptx).__name__}; expected str, bytes or Path")
        data = ptx.encode() if isinstance(ptx, str) else ptx.read_bytes() if isinstance(ptx, Path) else bytes(ptx)
        modules: list[Module] = []
        count = ctypes.c_size_t(1)
        while len(modules) < count.value:
            modules.append(self._parsed(self._text(data, len(modules), arch, count)))
        return tuple(modules)

    def _parsed(self, text: bytes) -> Module:
        handle = self._lib.sim_load(self._sim, text, ctypes.c_size_t(len(text)))
        if not handle:
            raise PtxError(self._message())
        return Module(self, ctypes.c_void_p(handle))

    def _text(self, data: bytes, index: int, arch: int, count: ctypes.c_size_t) -> bytes:
        """The PTX of fat binary number `index`; sets `count` to how many there are."""
        size, unpacked, why = ctypes.c_size_t(), ctypes.c_void_p(), ctypes.c_char_p()
        address = self._lib.image_ptx(
            data,
            ctypes.c_size_t(len(data)),
            ctypes.c_size_t(index),
            arch,
            ctypes.byref(count),
            ctypes.byref(size),
            ctypes.byref(unpacked),
            ctypes.byref(why),
        )
        if not address:
            raise PtxError((why.value or b"").decode())
        text = ctypes.string_at(address, size.value)
        self._lib.image_free(unpacked)
        return text

    def register(self, value: Any, name: str = "array") -> int:
        """Makes the memory of an array or tensor accessible to kernels, as a launch does; returns its address.

        Findings call it by its name.
        """
        found = _memory(value)
        if found is None:
            raise TypeError(f"{type(value).__name__} has no memory that a kernel can use")
        address, size = found
        for base, (held, _) in self._kept.items():
            if base <= address and address + size <= base + held:
                return address
        status = self._lib.sim_register(self._sim, ctypes.c_void_p(address), ctypes.c_size_t(size), name.encode())
        if status != OK:
            raise ValueError(self._message())
        self._kept[address] = size, value
        return address

    def tensor_map(
        self,
        value: Any,
        data_type: int,
        box: Sequence[int],
        *,
        sizes: Sequence[int],
        strides: Sequence[int],
        element_strides: Sequence[int] = (),
        swizzle: int = 0,
        fill: int = 0,
        lower: Sequence[int] = (),
        upper: Sequence[int] = (),
        pixels: int = 0,
    ) -> bytes:
        """The 128 bytes of cuTensorMapEncodeTiled: innermost dimension first, strides in bytes from the second on.

        With `pixels` (per column), those of cuTensorMapEncodeIm2col: corners from W on; the box is channels only.
        """
        return self._tensor_map(
            self.register(value), data_type, box, sizes, strides, element_strides, swizzle, fill, lower, upper, pixels
        )

    def _tensor_map(
        self,
        address: int,
        data_type: int,
        box: Sequence[int],
        sizes: Sequence[int],
        strides: Sequence[int],
        element_strides: Sequence[int] = (),
        swizzle: int = 0,
        fill: int = 0,
        lower: Sequence[int] = (),
        upper: Sequence[int] = (),
        pixels: int = 0,
    ) -> bytes:
        described = structs.TensorMap(data_type, len(sizes), address, swizzle=swizzle, fill=fill)
        described.mode, described.pixels = int(pixels > 0), pixels
        for name, values in zip(
            ("sizes", "strides", "box", "lower", "upper"), (sizes, strides, box, lower, upper), strict=True
        ):
            getattr(described, name)[: len(values)] = list(values)
        steps = list(element_strides) or [1] * len(sizes)
        described.element_strides[: len(steps)] = steps
        out, message = ctypes.create_string_buffer(MAP_BYTES), ctypes.create_string_buffer(200)
        if self._lib.sim_encode_tensor_map(out, ctypes.byref(described), message, ctypes.c_size_t(200)) != 0:
            raise ValueError(message.value.decode())
        return out.raw

    @property
    def findings(self) -> tuple[Finding, ...]:
        """All findings since the simulator was created, or since `clear`."""
        found = []
        for i in range(self._lib.sim_finding_count(self._sim)):
            raw = structs.Finding.from_address(self._lib.sim_finding(self._sim, ctypes.c_size_t(i)))
            found.append(_finding(raw))
        return tuple(found)

    @property
    def verdict(self) -> str:
        """The worst verdict of all findings, listed or not."""
        return VERDICTS[self._lib.sim_verdict(self._sim)]

    def clear(self) -> None:
        """Forgets all findings."""
        self._lib.sim_clear_findings(self._sim)

    @property
    def counters(self) -> structs.Counters:
        """Instructions, bytes and conflicts of all launches."""
        return structs.Counters.from_buffer_copy(structs.Counters.from_address(self._lib.sim_counters(self._sim)))

    @property
    def time(self) -> structs.Time | None:
        """Simulated time; None without a chip."""
        time = structs.Time()
        return time if self._lib.sim_time(self._sim, ctypes.byref(time)) & 1 else None

    def report(self, path: Path, what: str = "sim_print_json") -> str:
        """The JSON report, or another text that function `what` of the library prints to a file."""
        libc = ctypes.CDLL(None)
        libc.fopen.restype = ctypes.c_void_p
        file = ctypes.c_void_p(libc.fopen(str(path).encode(), b"w"))
        getattr(self._lib, what)(self._sim, file)
        libc.fclose(file)
        return path.read_text()


class Module:
    """Parsed PTX."""

    def __init__(self, simulator: Simulator, handle: ctypes.c_void_p) -> None:
        self._simulator, self._lib, self._handle = simulator, simulator._lib, handle

    @property
    def kernels(self) -> tuple[str, ...]:
        """The names of its kernels in the PTX."""
        names = []
        while (name := self._lib.sim_kernel_name(self._handle, ctypes.c_size_t(len(names)))) is not None:
            names.append(name.decode())
        return tuple(names)

    def _bytes(self, kernel: str, index: int, value: Any) -> bytes:
        size = self._lib.sim_parameter_bytes(self._handle, kernel.encode(), index)
        if isinstance(value, bytes):
            return value.ljust(size, b"\0")
        if isinstance(value, bool | int | np.integer):
            if size > 0 and not -(1 << 8 * size) // 2 <= value < 1 << 8 * size:
                raise ValueError(f"{value} does not fit the parameter's {size} bytes")
            return (int(value) % (1 << 8 * max(size, 1))).to_bytes(max(size, 1), "little")
        if isinstance(value, float | np.floating):
            return (np.float32 if size == np.float32().nbytes else np.float64)(value).tobytes()
        return self._simulator.register(value).to_bytes(8, "little")

    def _blobs(self, kernel: str, arguments: Sequence[Any]) -> list[Any]:
        blobs = []
        for i, value in enumerate(arguments):
            try:
                blobs.append(ctypes.create_string_buffer(self._bytes(kernel, i, value)))
            except (TypeError, ValueError) as error:
                raise type(error)(f"argument {i} of {kernel}: {error}") from None
        return blobs

    def _refused(self, kernel: str) -> LaunchRefused:
        """What the simulator said of the launch; of an unknown kernel, those of the module too."""
        known = "" if kernel in self.kernels else f"; it has {', '.join(self.kernels) or 'none'}"
        return LaunchRefused(self._simulator._message() + known)

    def _launched(self, kernel: str, arguments: Sequence[Any], *attributes: Any) -> int:
        """Runs a kernel; `attributes` as _attributes takes them; the library's status."""
        blobs = self._blobs(kernel, arguments)
        made = _attributes(blobs, *attributes)
        return self._lib.sim_launch(self._simulator._sim, self._handle, kernel.encode(), ctypes.byref(made))

    def launch(
        self,
        kernel: str,
        *arguments: Any,
        grid: Extent = 1,
        block: Extent = 32,
        cluster: Extent = 0,
        shared: int = 0,
        dependent: bool = False,
        cooperative: bool = False,
    ) -> Run:
        """Runs a kernel to its end; returns the findings of this launch.  Raises LaunchRefused if it cannot run."""
        simulator = self._simulator
        before = {finding: finding.times for finding in simulator.findings}
        status = self._launched(kernel, arguments, grid, block, cluster, shared, dependent, cooperative)
        if status not in (OK, RUN_ERROR):
            raise self._refused(kernel)
        found = tuple(finding for finding in simulator.findings if finding not in before)
        severity = [VERDICTS.index(finding.verdict) for finding in found]
        error = VERDICTS.index("error")
        return Run(VERDICTS[error if error in severity else max(severity, default=0)], found)

    def shrink(
        self,
        kernel: str,
        *arguments: Any,
        grid: Extent = 1,
        block: Extent = 32,
        cluster: Extent = 0,
        shared: int = 0,
        kind: str | None = None,
        shows: Callable[[], bool] | None = None,
        most_runs: int = 0,
        most_operations: int = 0,
    ) -> Shrunk:
        """The smallest set of delays with which a launch still shows a finding that the simulator's mode shows.

        `shows` replaces the finding: it tells whether the arrays are wrong after a run.  Runs the launch many times;
        memory and findings stay as they were.  At most `most_operations` of a launch are delayed (0: 2^20).  Raises
        LaunchRefused if it cannot run.
        """
        simulator = self._simulator
        blobs = self._blobs(kernel, arguments)
        attributes = _attributes(blobs, grid, block, cluster, shared, False)
        raised: list[BaseException] = []

        def asked(_: int | None) -> int:
            try:
                return bool(not raised and shows is not None and shows())
            except BaseException as error:  # an exception cannot pass through C
                raised.append(error)
                return False

        options = structs.ShrinkOptions(
            None if kind is None else kind.encode(),
            structs.SHOWS(asked) if shows is not None else structs.SHOWS(),
            most_runs=most_runs,
            most_operations=most_operations,
        )
        address = self._lib.sim_shrink(
            simulator._sim, self._handle, kernel.encode(), ctypes.byref(attributes), ctypes.byref(options)
        )
        if raised:
            raise raised[0]
        if not address:
            raise self._refused(kernel)
        raw = structs.Shrunk.from_address(address)
        delays = tuple(Delay(**_row(raw.delays[i])) for i in range(raw.count))
        finding = _finding(raw.finding) if raw.finding.kind is not None else None
        return Shrunk(raw.found, finding, raw.always, delays, raw.operations, raw.runs, raw.least, raw.stopped.decode())
