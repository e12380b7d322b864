"""Calls of the CUDA runtime, argument by argument, on functions that record them and answer as the API says."""

from __future__ import annotations

import ctypes

import pytest
import torch

from eval.lending import cuda_runtime
from eval.lending.cuda_runtime import CudaError, Runtime

HANDLE = bytes(range(64))


class Function:
    """Notes its arguments; what comes through a pointer is `answer`."""

    def __init__(self, name, library):
        self.name, self.library = name, library
        self.argtypes = self.restype = None

    def __call__(self, *arguments):
        plain = []
        for argument in arguments:
            if hasattr(argument, "_obj"):  # of byref()
                plain.append("out")
                self.fill(argument._obj)
            elif isinstance(argument, ctypes.Structure):
                plain.append(bytes(argument))
            else:
                plain.append(getattr(argument, "value", argument) or 0)
        self.library.asked.append((self.name, *plain))
        if self.name == "cudaGetErrorString":
            return b"out of memory" if arguments == (2,) else None
        return self.library.status

    def fill(self, out):
        if isinstance(out, ctypes.Structure):
            ctypes.memmove(ctypes.byref(out), HANDLE, ctypes.sizeof(out))
        else:
            out.value = self.library.answer


class Library:
    def __init__(self):
        self.asked, self.answer, self.status, self.made = [], 0x7000, 0, {}

    def __getattr__(self, name):
        return self.made.setdefault(name, Function(name, self))


@pytest.fixture
def library():
    return Library()


def test_each_call_has_the_arguments_of_the_api(library):
    runtime = Runtime(library)
    assert (runtime.allocate(4096), runtime.allocate(4 << 20)) == (0x7000, 0x7000)
    runtime.free(0x7000)
    assert runtime.memory_handle(0x7000) == HANDLE.hex()
    assert runtime.open_memory(HANDLE.hex()) == 0x7000
    assert (runtime.event(), runtime.event(shared=True)) == (0x7000, 0x7000)
    assert runtime.event_handle(0x7100) == HANDLE.hex()
    assert runtime.open_event(HANDLE.hex()) == 0x7000
    runtime.record(0x7100)
    runtime.wait_for(0x7100)
    runtime.forbid_persisting_cache()
    assert library.asked == [
        ("cudaMalloc", "out", 2 << 20),  # a smaller block might be lent with what lies beside it
        ("cudaMalloc", "out", 4 << 20),
        ("cudaFree", 0x7000),
        ("cudaIpcGetMemHandle", "out", 0x7000),
        ("cudaIpcOpenMemHandle", "out", HANDLE, 1),  # cudaIpcMemLazyEnablePeerAccess
        ("cudaEventCreateWithFlags", "out", 0),
        ("cudaEventCreateWithFlags", "out", 2 | 4),  # no timing, for other processes
        ("cudaIpcGetEventHandle", "out", 0x7100),
        ("cudaIpcOpenEventHandle", "out", HANDLE),
        ("cudaEventRecord", 0x7100, 0),
        ("cudaEventSynchronize", 0x7100),
        ("cudaDeviceSetLimit", 6, 0),  # cudaLimitPersistingL2CacheSize
        ("cudaGetLastError",),
    ]
    assert library.made["cudaGetErrorString"].restype is ctypes.c_char_p
    opens = [library.made[name].argtypes for name in ("cudaIpcOpenMemHandle", "cudaIpcOpenEventHandle")]
    assert [[ctypes.sizeof(kind) for kind in kinds] for kinds in opens] == [[8, 64, 4], [8, 64]]


def test_times_and_attributes_are_read(library):
    runtime = Runtime(library)
    library.answer = 1.5
    assert runtime.elapsed_us(0x10, 0x20) == 1500.0
    library.answer = 132
    assert runtime.attribute(16, 3) == 132
    assert library.asked == [("cudaEventElapsedTime", "out", 0x10, 0x20), ("cudaDeviceGetAttribute", "out", 16, 3)]
    library.status = 1
    assert runtime.attribute(200, 0) == 0
    assert library.asked[-1] == ("cudaGetLastError",), "a refusal is not left for torch to find"


@pytest.mark.parametrize(("status", "said"), [(2, "cudaMalloc: error 2, out of memory"), (9, "cudaMalloc: error 9, ")])
def test_a_call_that_fails_is_told_by_its_name(library, status, said):
    library.status = status
    with pytest.raises(CudaError) as error:
        Runtime(library).allocate(1)
    assert str(error.value) == said
    for call in ("free", "memory_handle", "event", "record", "wait_for"):
        with pytest.raises(CudaError):
            getattr(Runtime(library), call)(*[1] * (call != "event"))
    for call in ("open_memory", "open_event"):
        with pytest.raises(CudaError):
            getattr(Runtime(library), call)(HANDLE.hex())
    with pytest.raises(CudaError):
        Runtime(library).elapsed_us(1, 2)
    Runtime(library).forbid_persisting_cache()  # may be refused


def test_the_runtime_is_the_one_that_is_loaded_else_the_newest(monkeypatch, tmp_path):
    tried = []

    def load(name):
        tried.append(name)
        if name == "libcudart.so.13":
            raise OSError("none")
        return f"library {name}"

    maps = tmp_path / "maps"
    monkeypatch.setattr(cuda_runtime, "Path", lambda path: maps if path == "/proc/self/maps" else None)
    monkeypatch.setattr(ctypes, "CDLL", load)
    maps.write_text(
        "7f00-7f10 r-xp 0000 00:00 1    /lib/libc.so\n7f20-7f30 r-xp 0000 00:00 2    /a b/libcudart.so.12\n"
    )
    assert cuda_runtime.find_library() == "library /a b/libcudart.so.12"
    maps.write_text("7f00-7f10 r-xp 0000 00:00 1    /lib/libc.so\n")
    assert cuda_runtime.find_library() == "library libcudart.so.12"
    assert tried[1:] == ["libcudart.so.13", "libcudart.so.12"]

    def none(name):
        raise OSError(name)

    monkeypatch.setattr(ctypes, "CDLL", none)
    with pytest.raises(CudaError, match=r"^no CUDA runtime \(libcudart\) is loaded$"):
        cuda_runtime.find_library()


def test_an_address_is_the_one_that_c_would_call():
    found = ctypes.CDLL(None)
    pointer = Runtime.__new__(Runtime)
    pointer._functions = {"x": found.malloc}
    assert pointer.pointer("x") == ctypes.cast(found.malloc, ctypes.c_void_p).value > 0


def test_memory_is_taken_by_torch_as_it_lies(monkeypatch):
    taken = []
    monkeypatch.setattr(torch, "as_tensor", lambda of, device: taken.append((of, device)) or "tensor")
    assert cuda_runtime.as_tensor(0x7000, 96, torch.device("cuda:1")) == "tensor"
    ((of, device),) = taken
    assert device == torch.device("cuda:1") and of.__cuda_array_interface__ == {
        "shape": (96,),
        "typestr": "|u1",
        "data": (0x7000, False),
        "strides": None,
        "version": 3,
    }
