"""The CUDA runtime that torch has loaded, through ctypes: memory and events that two processes share.

Signatures and constants are those of the CUDA runtime API, "Event Management", "Memory Management" and "Interprocess
Communication". All functions are looked up at the start, before a submission is imported.
"""

from __future__ import annotations

import ctypes
from pathlib import Path
from typing import Any

import torch

# Smaller allocations may lie in one block, all of which a handle lends (CUDA programming guide, "Interprocess
# Communication").
_LENT_BYTES = 2 << 20
HANDLE_BYTES = 64  # CUDA_IPC_HANDLE_SIZE
_LAZY_PEER_ACCESS = 1  # cudaIpcMemLazyEnablePeerAccess
_NO_TIMING, _INTERPROCESS = 2, 4  # cudaEventDisableTiming, cudaEventInterprocess
_LIMIT_PERSISTING_L2 = 6  # cudaLimitPersistingL2CacheSize
_FUNCTIONS = (
    "cudaMalloc", "cudaFree", "cudaIpcGetMemHandle", "cudaIpcOpenMemHandle",
    "cudaEventCreateWithFlags", "cudaIpcGetEventHandle", "cudaIpcOpenEventHandle", "cudaEventRecord",
    "cudaEventSynchronize", "cudaEventElapsedTime", "cudaStreamWaitEvent",
    "cudaDeviceSynchronize", "cudaDeviceSetLimit", "cudaDeviceGetAttribute", "cudaGetErrorString",
    "cudaGetLastError", "cudaMemcpyAsync",
)  # fmt: skip


class CudaError(RuntimeError):
    """A call of the runtime failed."""


class _Handle(ctypes.Structure):
    _fields_ = (("bytes", ctypes.c_ubyte * HANDLE_BYTES),)


def find_library() -> ctypes.CDLL:
    """The CUDA runtime of this process. Raises CudaError if there is none."""
    for line in Path("/proc/self/maps").read_text().splitlines():
        if "libcudart" in line:
            return ctypes.CDLL(line.split(maxsplit=5)[-1])
    for major in (13, 12):
        try:
            return ctypes.CDLL(f"libcudart.so.{major}")
        except OSError:
            continue
    raise CudaError("no CUDA runtime (libcudart) is loaded")


class Runtime:
    """The runtime's functions; their errors are raised as CudaError."""

    def __init__(self, library: Any = None) -> None:
        library = library or find_library()
        self._functions = {name: getattr(library, name) for name in _FUNCTIONS}
        self._functions["cudaGetErrorString"].restype = ctypes.c_char_p
        self._functions["cudaIpcOpenMemHandle"].argtypes = (ctypes.c_void_p, _Handle, ctypes.c_uint)
        self._functions["cudaIpcOpenEventHandle"].argtypes = (ctypes.c_void_p, _Handle)

    def pointer(self, name: str) -> int:
        """The address of a function."""
        return ctypes.cast(self._functions[name], ctypes.c_void_p).value or 0

    def _call(self, name: str, *arguments: Any) -> None:
        status = self._functions[name](*arguments)
        if status != 0:
            said = self._functions["cudaGetErrorString"](status) or b""
            raise CudaError(f"{name}: error {status}, {said.decode(errors='replace')}")

    def _made(self, name: str, *arguments: Any) -> int:
        """Calls a function that returns a pointer through its first argument. Returns the pointer."""
        made = ctypes.c_void_p()
        self._call(name, ctypes.byref(made), *arguments)
        return made.value or 0

    def _handle(self, name: str, what: int) -> str:
        """Calls a function that makes an interprocess handle. Returns the handle in hexadecimal digits."""
        handle = _Handle()
        self._call(name, ctypes.byref(handle), ctypes.c_void_p(what))
        return bytes(handle.bytes).hex()

    def allocate(self, size: int) -> int:
        """Allocates device memory that can be lent. Returns its address."""
        return self._made("cudaMalloc", ctypes.c_size_t(-(-size // _LENT_BYTES) * _LENT_BYTES))

    def free(self, address: int) -> None:
        """Frees device memory."""
        self._call("cudaFree", ctypes.c_void_p(address))

    def memory_handle(self, address: int) -> str:
        """The handle by which another process opens the memory."""
        return self._handle("cudaIpcGetMemHandle", address)

    def open_memory(self, handle: str) -> int:
        """Maps memory that another process lends. Returns its address here."""
        return self._made("cudaIpcOpenMemHandle", _Handle.from_buffer_copy(bytes.fromhex(handle)), _LAZY_PEER_ACCESS)

    def event(self, shared: bool = False) -> int:
        """Creates an event: one that can time, or (`shared`) one that other processes can wait for."""
        return self._made("cudaEventCreateWithFlags", ctypes.c_uint(_NO_TIMING | _INTERPROCESS if shared else 0))

    def event_handle(self, event: int) -> str:
        """The handle by which another process opens a shared event."""
        return self._handle("cudaIpcGetEventHandle", event)

    def open_event(self, handle: str) -> int:
        """Opens another process's event."""
        return self._made("cudaIpcOpenEventHandle", _Handle.from_buffer_copy(bytes.fromhex(handle)))

    def record(self, event: int) -> None:
        """Records an event on the default queue."""
        self._call("cudaEventRecord", ctypes.c_void_p(event), ctypes.c_void_p(0))

    def wait_for(self, event: int) -> None:
        """Waits until everything queued before the event is done."""
        self._call("cudaEventSynchronize", ctypes.c_void_p(event))

    def elapsed_us(self, start: int, stop: int) -> float:
        """The time between two recorded events."""
        ms = ctypes.c_float()
        self._call("cudaEventElapsedTime", ctypes.byref(ms), ctypes.c_void_p(start), ctypes.c_void_p(stop))
        return ms.value * 1e3

    def forbid_persisting_cache(self) -> None:
        """Makes sure that a flush reaches the whole L2 cache. Chips without persisting lines refuse, which is fine."""
        self._functions["cudaDeviceSetLimit"](_LIMIT_PERSISTING_L2, ctypes.c_size_t(0))
        self._functions["cudaGetLastError"]()  # clears a refusal, so that torch does not report it

    def attribute(self, number: int, device: int) -> int:
        """A device attribute by its number in enum cudaDeviceAttr; 0 if unknown."""
        value = ctypes.c_int()
        status = self._functions["cudaDeviceGetAttribute"](ctypes.byref(value), number, device)
        if status != 0:
            self._functions["cudaGetLastError"]()
            return 0
        return value.value


class _Bytes:
    """Device memory in the form that torch accepts without a copy."""

    __cuda_array_interface__: dict[str, Any]


def as_tensor(address: int, size: int, device: torch.device) -> torch.Tensor:
    """Device memory as a uint8 tensor."""
    memory = _Bytes()
    memory.__cuda_array_interface__ = {
        "shape": (size,), "typestr": "|u1", "data": (address, False), "strides": None, "version": 3,
    }  # fmt: skip
    return torch.as_tensor(memory, device=device)
