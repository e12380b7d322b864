"""A frame for kernels in PTX on top of the binding: one module, arrays as they are given, findings as dictionaries."""

from __future__ import annotations

import ctypes
from collections.abc import Sequence

import numpy as np
import numpy.typing as npt

from simulator.python.ptxsim import Extent, Module, Simulator, load_library
from simulator.python.toolchain import built

HEADER = ".version 9.0\n.target sm_90a\n.address_size 64\n"

# A kernel's argument; an array stands for its address.
Argument = np.ndarray | bytes | float | int


def library() -> ctypes.CDLL:
    """The library that make builds."""
    return load_library(str(built("libptxsim.so")))


def aligned(shape: int | tuple[int, ...], dtype: npt.DTypeLike = np.uint32) -> np.ndarray:
    """Zeros at a 256-byte boundary."""
    count = int(np.prod(shape)) * np.dtype(dtype).itemsize
    raw = np.zeros(count + 256, np.uint8)
    start = -raw.ctypes.data % 256
    return raw[start : start + count].view(dtype).reshape(shape)


class Sim(Simulator):
    """A simulator with one module of PTX loaded.

    Memory is registered by `buffer` and `register` alone, and a launch returns the library's status: tests run kernels
    that miss their memory and launches that are refused.
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
        super().__init__(
            mode,
            seed,
            threads,
            chip=chip,
            values=not no_values,
            timeline=timeline,
            sms=sms,
            limit=limit,
            machine_code=machine_code,
            library=built("libptxsim.so"),
        )
        self.lib, self.sim = self._lib, self._sim
        self.module = self._parsed(text.encode())._handle  # a Module would hold the simulator that holds it

    def message(self) -> str:
        """What the library said last."""
        return self._message()

    def register(self, array: np.ndarray, name: str = "buffer") -> np.ndarray:
        """Makes an array's memory accessible to kernels; returns the array."""
        super().register(array, name)
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
        """A tensor map's bytes.  box, sizes and strides start with the innermost dimension; default: the array's."""
        sizes, strides = sizes or array.shape[::-1], strides or array.strides[-2::-1]
        return self._tensor_map(array.ctypes.data, data_type, box, sizes, strides, swizzle=swizzle, fill=fill)

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
        """Runs a kernel; the library's status."""
        given = [value.ctypes.data if isinstance(value, np.ndarray) else value for value in arguments]
        return Module(self, self.module)._launched(kernel, given, grid, block, cluster, shared, dependent, cooperative)

    def event(self, queue: int) -> ctypes.c_void_p:
        """Records an event in a queue; sim_event_free() frees it."""
        return ctypes.c_void_p(self.lib.sim_event_record(self.sim, queue))

    @property
    def findings(self) -> list[dict]:
        return [dict(vars(finding)) for finding in super().findings]

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
