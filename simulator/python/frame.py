"""The simulator's library through ctypes, and a frame for test kernels in PTX."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence
from functools import cache
from pathlib import Path

import numpy as np
import numpy.typing as npt

from simulator.python.ptxsim.structs import Counters, Finding, Launch, Options, TensorMap, Time
from simulator.python.toolchain import built

ROOT = Path(__file__).resolve().parents[2]
HEADER = ".version 9.0\n.target sm_90a\n.address_size 64\n"
MODES = ("eager", "late", "reverse", "random", "poison")
VERDICTS = ("clean", "review", "error", "incomplete")
RUN_ERROR = 5


# A kernel's argument (an array stands for its address); the size of a grid, block or cluster as x or (x, y, z).
Argument = np.ndarray | bytes | float | int
Extent = int | tuple[int, int, int]


@cache
def library() -> ctypes.CDLL:
    lib = ctypes.CDLL(str(built("libptxsim.so")))
    for name in ("sim_create", "sim_load", "sim_finding", "sim_counters", "sim_event_record"):
        getattr(lib, name).restype = ctypes.c_void_p
    lib.sim_message.restype = ctypes.c_char_p
    lib.sim_finding_count.restype = ctypes.c_size_t
    lib.sim_parameter_bytes.restype = ctypes.c_size_t
    return lib


class PtxError(Exception):
    """The simulator cannot parse the PTX."""


def aligned(shape: int | tuple[int, ...], dtype: npt.DTypeLike = np.uint32) -> np.ndarray:
    """Zeros at a 256-byte boundary."""
    count = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(count + 256, np.uint8)
    start = -raw.ctypes.data % 256
    return raw[start : start + count].view(dtype).reshape(shape)


class Sim:
    """A simulator with one module of PTX loaded.

    chip: simulate time on this chip, given by name or file.  no_values: MMAs do not write their results.  timeline:
    record when things happen.  sms: number of SMs; 0 for that of the module's chip.  machine_code: folder with the
    module's machine code (simulator/python/machine_code).
    """

    def __init__(
        self,
        text: str,
        mode: str = "eager",
        seed: int = 1,
        threads: int = 1,
        limit: int = 0,
        chip: str | None = None,
        no_values: bool = False,
        timeline: bool = False,
        sms: int = 0,
        machine_code: str | None = None,
    ) -> None:
        self.lib = library()
        name = None if chip is None else chip.encode()
        options = Options(MODES.index(mode), seed, threads, 0, sms, limit, name, no_values, timeline)
        options.machine_code = None if machine_code is None else machine_code.encode()
        self.sim = ctypes.c_void_p(self.lib.sim_create(ctypes.byref(options)))
        self.keep = []
        self.timeline = timeline
        if chip is not None and self.time is None:
            raise ValueError(self.message())
        encoded = text.encode()
        self.module = ctypes.c_void_p(self.lib.sim_load(self.sim, encoded, ctypes.c_size_t(len(encoded))))
        if not self.module:
            raise PtxError(self.message())

    def __del__(self) -> None:
        self.lib.sim_destroy(self.sim)

    def message(self) -> str:
        return self.lib.sim_message(self.sim).decode()

    def register(self, array: np.ndarray, name: str = "buffer") -> np.ndarray:
        status = self.lib.sim_register(
            self.sim, ctypes.c_void_p(array.ctypes.data), ctypes.c_size_t(array.nbytes), name.encode()
        )
        assert status == 0, self.message()
        self.keep.append(array)
        return array

    def buffer(self, values: npt.ArrayLike, dtype: npt.DTypeLike = None) -> np.ndarray:
        """A registered copy of an array."""
        values = np.asarray(values, dtype)
        copy = aligned(values.shape, values.dtype)
        copy[...] = values
        return self.register(copy)

    def tensor_map(
        self,
        array: np.ndarray,
        data_type: int,
        box: Sequence[int],
        swizzle: int = 0,
        sizes: Sequence[int] | None = None,
        strides: Sequence[int] | None = None,
        fill: int = 0,
    ) -> bytes:
        """Encodes a tensor map.  box, sizes and strides start with the innermost dimension; default: the array's."""
        sizes = list(sizes or array.shape[::-1])
        strides = list(strides or array.strides[-2::-1])
        pad = lambda values, rest: [*values, *[rest] * (5 - len(values))]  # noqa: E731
        described = TensorMap(data_type, len(sizes), array.ctypes.data)
        described.sizes[:] = pad(sizes, 0)
        described.strides[:] = pad(strides, 0)
        described.box[:] = pad(box, 0)
        described.element_strides[:] = pad([1] * len(sizes), 0)
        described.swizzle, described.fill = swizzle, fill
        out, message = ctypes.create_string_buffer(128), ctypes.create_string_buffer(200)
        if self.lib.sim_encode_tensor_map(out, ctypes.byref(described), message, 200) != 0:
            raise ValueError(message.value.decode())
        return out.raw

    def _argument(self, kernel: str, index: int, value: Argument) -> bytes:
        size = self.lib.sim_parameter_bytes(self.module, kernel.encode(), index)
        if isinstance(value, np.ndarray):
            return value.ctypes.data.to_bytes(8, "little")
        if isinstance(value, bytes):
            return value.ljust(size, b"\0")
        if isinstance(value, float):
            return (np.float32 if size == 4 else np.float64)(value).tobytes()
        return (value % (1 << 8 * size)).to_bytes(size, "little")

    def launch(
        self,
        kernel: str,
        *arguments: Argument,
        grid: Extent = 1,
        block: Extent = 32,
        cluster: Extent = 0,
        shared: int = 0,
        dependent: int = 0,
        cooperative: int = 0,
    ) -> int:
        triple = lambda value: (ctypes.c_uint32 * 3)(  # noqa: E731
            *(value if isinstance(value, tuple) else (value, 1 if value else 0, 1 if value else 0))
        )
        blobs = [
            ctypes.create_string_buffer(self._argument(kernel, i, value), 256) for i, value in enumerate(arguments)
        ]
        pointers = (ctypes.c_void_p * max(len(blobs), 1))(*(ctypes.addressof(blob) for blob in blobs))
        launch = Launch(
            triple(grid),
            triple(block),
            triple(cluster),
            shared,
            dependent,
            cooperative,
            ctypes.addressof(pointers),
            len(blobs),
        )
        return self.lib.sim_launch(self.sim, self.module, kernel.encode(), ctypes.byref(launch))

    def event(self, queue: int) -> ctypes.c_void_p:
        """Records an event in a queue; sim_event_free() frees it."""
        return ctypes.c_void_p(self.lib.sim_event_record(self.sim, queue))

    @property
    def verdict(self) -> str:
        return VERDICTS[self.lib.sim_verdict(self.sim)]

    @property
    def findings(self) -> list[dict]:
        found = []
        for i in range(self.lib.sim_finding_count(self.sim)):
            finding = Finding.from_address(self.lib.sim_finding(self.sim, ctypes.c_size_t(i)))
            row = {name: getattr(finding, name) for name, _ in Finding._fields_}
            found.append({key: value.decode() if isinstance(value, bytes) else value for key, value in row.items()})
        return found

    @property
    def counters(self) -> Counters:
        return Counters.from_buffer_copy(Counters.from_address(self.lib.sim_counters(self.sim)))

    @property
    def time(self) -> Time | None:
        """Simulated time; None without a chip."""
        time = Time()
        return time if self.lib.sim_time(self.sim, ctypes.byref(time)) & 1 else None

    def report(self, path: Path, what: str = "sim_print_json") -> str:
        """The JSON report, or another text that function `what` of the library prints to a file."""
        libc = ctypes.CDLL(None)
        libc.fopen.restype = ctypes.c_void_p
        file = ctypes.c_void_p(libc.fopen(str(path).encode(), b"w"))
        getattr(self.lib, what)(self.sim, file)
        libc.fclose(file)
        return path.read_text()

    @property
    def kinds(self) -> set[str]:
        return {finding["kind"] for finding in self.findings}


def body(*lines: str, params: str = ".param .u64 p", registers: str = "", before: str = "") -> str:
    """PTX of a kernel `k` with the given statements; registers %r, %rd, %f, %p, %rs and %fd are declared."""
    return (
        f"{HEADER}{before}\n.visible .entry k({params})\n{{\n"
        ".reg .pred %p<16>; .reg .b16 %rs<32>; .reg .b32 %r<64>; .reg .b64 %rd<64>; .reg .f32 %f<32>;"
        f" .reg .f64 %fd<16>;\n{registers}\n" + "\n".join(lines) + "\nret;\n}\n"
    )
