"""The compiled timing core, bound before a submission is imported; core.h describes it.

ctypes passes functions of Python and of the CUDA runtime to the core as pointers.
"""

from __future__ import annotations

import ctypes
import os
from collections.abc import Callable, Sequence
from pathlib import Path
from typing import Any, NamedTuple

LIBRARY = Path(__file__).resolve().parents[2] / (os.environ.get("BUILD") or "build") / "libtiming_core.so"
WORD = b"g"  # TIMING_WORD: the parent sends it to begin a round

OK, NO_WORD, CUDA_FAILED = 0, -2, -4  # a status of core.h


class CoreError(Exception):
    """A round failed for a reason outside the submission's calls."""


class ParentGone(CoreError):
    """The parent closed its end."""


class _Python(ctypes.Structure):
    _fields_ = (("call", ctypes.c_void_p), ("release", ctypes.c_void_p))


class Cuda(ctypes.Structure):
    """struct timing_cuda."""

    _fields_ = (
        *(
            (name, ctypes.c_void_p)
            for name in (
                "record", "wait", "synchronize_event", "synchronize_device", "elapsed_ms", "copy", "queue", "lent",
                "start", "stop", "kept",
            )
        ),
    )  # fmt: skip


class _Round(ctypes.Structure):
    _fields_ = (
        ("kernel", ctypes.py_object),
        ("returned", ctypes.py_object),
        ("data", ctypes.c_void_p),
        ("own", ctypes.c_void_p),
        ("outputs", ctypes.c_void_p),
        ("count", ctypes.c_int32),
        ("copied", ctypes.c_int32),
        ("socket", ctypes.c_int32),
        ("memory", ctypes.c_void_p),
        ("bytes", ctypes.c_size_t),
        ("own_outputs", ctypes.c_void_p),
        ("lent_outputs", ctypes.c_void_p),
        ("output_bytes", ctypes.c_size_t),
        ("total_ns", ctypes.c_int64),
        ("rest_ns", ctypes.c_int64),
        ("cuda_status", ctypes.c_int32),
    )


class Timed(NamedTuple):
    """A round's times in us: its calls together, and how long the device ran on after its default queue was done."""

    total_us: float
    rest_us: float


class Core:
    """The core of one worker: its socket, the memory for inputs and outputs and, on a GPU, CUDA's functions."""

    def __init__(
        self, socket: int, memory: int = 0, cuda: Cuda | None = None, outputs: tuple[int, int, int] = (0, 0, 0)
    ) -> None:
        """`outputs`: where those that the worker offers lie, where they are copied to, and the bytes of one."""
        loaded = ctypes.PyDLL(str(LIBRARY))  # PyDLL: Python's lock is held throughout
        self._socket, self._memory, self._cuda, self._outputs = socket, memory, cuda, outputs
        self._drop = loaded.timing_drop
        self._drop.argtypes = (ctypes.c_void_p, ctypes.c_size_t)
        self._cpu_round, self._cuda_round = loaded.timing_cpu_round, loaded.timing_cuda_round
        self._cpu_round.argtypes = (ctypes.c_void_p, ctypes.c_void_p)
        self._cuda_round.argtypes = (ctypes.c_void_p, ctypes.c_void_p, ctypes.c_void_p)
        call, release = (
            ctypes.cast(getattr(ctypes.pythonapi, name), ctypes.c_void_p)
            for name in ("PyObject_CallFunctionObjArgs", "Py_DecRef")
        )
        self._python = _Python(call, release)

    def drop(self, lent_bytes: int) -> None:
        """Takes the inputs of the last round away: while a round is timed, that would cost as much as mapping them."""
        if self._drop(self._memory, lent_bytes) != OK:
            raise CoreError("the lent memory cannot be replaced")

    def round(
        self,
        kernel: Callable[[Any], Any],
        returned: Callable[[Any, Any], None],
        data: Sequence[Sequence[Any]],
        lent_bytes: int,
        own: Sequence[Any] | None = None,
        copied: int = 0,
    ) -> Timed:
        """Waits for the parent's word and makes one call for each of `data`; raises what the calls raise.

        `own` holds the offered outputs (default: the last object of each of `data`). Calls returned(data, output) for
        every output that is not the offered object; the core copies the first `copied` offered ones. `lent_bytes` is
        the size of the host memory that arrives with the word.
        """
        count = len(data)
        objects = (ctypes.py_object * count)(*data)
        offered = (ctypes.py_object * count)(*(own[:count] if own is not None else (one[-1] for one in data)))
        outputs = (ctypes.c_void_p * count)()
        this = _Round(
            kernel=kernel,
            returned=returned,
            data=ctypes.addressof(objects),
            own=ctypes.addressof(offered),
            outputs=ctypes.addressof(outputs),
            count=count,
            copied=copied,
            socket=self._socket,
            memory=self._memory,
            bytes=lent_bytes,
            **dict(zip(("own_outputs", "lent_outputs", "output_bytes"), self._outputs, strict=True)),
        )
        if self._cuda is None:
            status = self._cpu_round(ctypes.addressof(self._python), ctypes.addressof(this))
        else:
            cuda = ctypes.addressof(self._cuda)
            status = self._cuda_round(ctypes.addressof(self._python), cuda, ctypes.addressof(this))
        if status == NO_WORD:
            raise ParentGone("the parent closed its end")
        if status != OK:
            what = f"CUDA error {this.cuda_status}" if status == CUDA_FAILED else "the lent memory cannot be mapped"
            raise CoreError(what)
        return Timed(this.total_ns / 1e3, this.rest_ns / 1e3)
