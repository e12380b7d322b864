"""A GPU's memory and functions, without one."""

from __future__ import annotations

import ctypes
import json
from types import SimpleNamespace

import torch

from eval.lending import cuda
from eval.lending.cuda import CudaBorrower, CudaLender
from eval.lending.cuda_runtime import Runtime
from eval.timing import Cuda
from eval.workers import channel

CPU = torch.device("cpu")


class FakeRuntime(Runtime):
    """Device memory in the host's; events are numbers; what is recorded is kept in order."""

    def __init__(self, done):
        self.done, self.buffers, self.events = done, {}, 0

    def pointer(self, name):
        return 1

    def allocate(self, size):
        buffer = ctypes.create_string_buffer(size)
        self.buffers[ctypes.addressof(buffer)] = buffer
        return ctypes.addressof(buffer)

    def free(self, address):
        self.done.append("free")

    def memory_handle(self, address):
        return f"{address:x}"

    def open_memory(self, handle):
        return int(handle, 16)

    def event(self, shared=False):
        self.events += 1
        return self.events + (100 if shared else 0)

    def event_handle(self, event):
        return f"{event:x}"

    def open_event(self, handle):
        return int(handle, 16)

    def record(self, event):
        self.done.append(("record", event))

    def wait_for(self, event):
        self.done.append(("wait for", event))

    def elapsed_us(self, start, stop):
        return 1000.0 * start + stop


def lend(monkeypatch, layout):
    """A lender and a borrower of two inputs in host memory, and what was done in order."""
    done = []
    monkeypatch.setattr(cuda, "as_tensor", lambda at, size, device: torch.frombuffer(
        (ctypes.c_char * size).from_address(at), dtype=torch.uint8))  # fmt: skip
    for name in ("set_device", "init", "synchronize", "empty_cache", "default_stream", "set_stream"):
        monkeypatch.setattr(torch.cuda, name, lambda *_: None)
    monkeypatch.setattr(torch._C, "_cuda_getCurrentStream", lambda index: "the default queue", raising=False)
    monkeypatch.setattr(torch._C, "_cuda_synchronize", lambda: None, raising=False)
    monkeypatch.setattr(cuda, "FLUSH_BYTES", 64)
    runtime = FakeRuntime(done)
    lender = CudaLender(layout, 2, CPU, runtime)
    lender._flush = SimpleNamespace(fill_=lambda value: done.append("flush"))
    mine, theirs = (channel.Channel(end) for end in channel.pair())
    terms, descriptors = lender.terms()
    assert descriptors == []
    borrower = CudaBorrower(layout, 2, theirs, json.loads(json.dumps(terms)), CPU, runtime)
    return SimpleNamespace(lender=lender, borrower=borrower, done=done, mine=mine, theirs=theirs, layout=layout)


class FakeDevice:
    """The functions of struct timing_cuda, which record their calls; `failing` names one that fails."""

    def __init__(self, failing=None):
        self.done, self.kept = [], []
        status = {
            name: 7 if name == failing else 0 for name in ("record", "wait", "event", "device", "elapsed", "copy")
        }

        def note(name):
            def call(*arguments):
                self.done.append((name, *arguments))
                return status[name]

            return call

        def elapsed(ms, start, stop):
            self.done.append(("elapsed", start, stop))
            ms[0] = 0.25
            return status["elapsed"]

        pointer, c_int = ctypes.c_void_p, ctypes.c_int
        functions = (
            ctypes.CFUNCTYPE(c_int, pointer, pointer)(note("record")),
            ctypes.CFUNCTYPE(c_int, pointer, pointer, ctypes.c_uint)(note("wait")),
            ctypes.CFUNCTYPE(c_int, pointer)(note("event")),
            ctypes.CFUNCTYPE(c_int)(note("device")),
            ctypes.CFUNCTYPE(c_int, ctypes.POINTER(ctypes.c_float), pointer, pointer)(elapsed),
            ctypes.CFUNCTYPE(c_int, pointer, pointer, ctypes.c_size_t, c_int, pointer)(note("copy")),
        )
        self.kept = functions
        addresses = [ctypes.cast(function, pointer).value for function in functions]
        # Queue, lent, start, stop, kept.
        self.table = Cuda(*addresses, 70, 71, 72, 73, 74)
