"""The CUDA runtime shim leaks nothing: memory and files of a call, or of an object that is destroyed, are freed."""

from __future__ import annotations

import ctypes

from simulator.tests.held import assert_all_is_given_back, held, print_what_stays
from simulator.tests.sim_kit import HEADER, ROOT, built

KERNEL = (
    ".visible .global .u32 seven = 7; .visible .entry k(.param .u64 p) { .reg .b64 %rd<3>; .reg .b32 %r<3>;"
    " ld.param.u64 %rd1, [p]; ld.global.u32 %r1, [seven]; st.global.u32 [%rd1], %r1; ret; }"
)
BYTES = ctypes.c_size_t(4096)
ACTIONS = ("memory", "memory in order", "memory of the host", "a pool", "queues", "events", "host work", "copies")
ACTIONS += ("launches", "what is refused")


class Shim:
    """Calls of the shim, each of which must succeed."""

    def __init__(self) -> None:
        self.lib = ctypes.CDLL(str(built("cuda/libptxsim_cuda.so")))
        self.text = (HEADER + KERNEL).encode()
        self.worked = 0
        self.library = self.module = ctypes.c_void_p()
        self.callback = ctypes.CFUNCTYPE(None, ctypes.c_void_p)(self.work)

    def work(self, _: object) -> None:
        self.worked += 1

    def call(self, name: str, *arguments: object, want: int = 0) -> None:
        status = getattr(self.lib, name)(*arguments)
        assert status == want, (name, status)

    def made(self, name: str, *arguments: object) -> ctypes.c_void_p:
        """The result of a call that writes it through its first argument."""
        result = ctypes.c_void_p()
        self.call(name, ctypes.byref(result), *arguments)
        return result

    def memory(self) -> None:
        first, second = self.made("cudaMalloc", BYTES), self.made("cudaMalloc", BYTES)
        self.call("cudaMemset", first, 1, BYTES)
        self.call("cudaMemcpy", second, first, BYTES, 3)
        self.call("cudaFree", first)
        self.call("cudaFree", second)

    def memory_in_order(self) -> None:
        queue = self.made("cudaStreamCreate")
        block = self.made("cudaMallocAsync", BYTES, queue)
        self.call("cudaMemsetAsync", block, 0, BYTES, queue)
        self.call("cudaFreeAsync", block, queue)
        self.call("cudaStreamSynchronize", queue)
        self.call("cudaStreamDestroy", queue)

    def memory_of_the_host(self) -> None:
        self.call("cudaFreeHost", self.made("cudaMallocHost", BYTES))
        self.call("cudaFreeHost", self.made("cudaHostAlloc", BYTES, 0))
        own = ctypes.create_string_buffer(4096)
        self.call("cudaHostRegister", own, BYTES, 0)
        self.call("cudaHostUnregister", own)

    def a_pool(self) -> None:
        properties = (ctypes.c_uint32 * 22)(1, 0, 1, 0)  # pinned, no handles, on a device, the first
        pool = self.made("cudaMemPoolCreate", properties)
        block = self.made("cudaMallocFromPoolAsync", BYTES, pool, None)
        self.call("cudaFreeAsync", block, None)
        self.call("cudaDeviceSynchronize")
        self.call("cudaMemPoolDestroy", pool)

    def queues(self) -> None:
        made = [self.made("cudaStreamCreateWithPriority", flags, -1) for flags in (0, 1)]
        for queue in made:
            self.call("cudaStreamDestroy", queue)

    def events(self) -> None:
        queue, event, other = (self.made(f"cuda{name}Create") for name in ("Stream", "Event", "Event"))
        self.call("cudaEventRecord", event, queue)
        self.call("cudaStreamWaitEvent", queue, event, 0)
        self.call("cudaEventRecord", event, queue)
        self.call("cudaEventRecord", other, queue)
        self.call("cudaEventSynchronize", other)
        self.call("cudaEventElapsedTime", ctypes.byref(ctypes.c_float()), event, other)
        for name, thing in (("Event", event), ("Event", other), ("Stream", queue)):
            self.call(f"cuda{name}Destroy", thing)

    def host_work(self) -> None:
        before = self.worked
        self.call("cudaLaunchHostFunc", None, self.callback, None)
        self.call("cudaDeviceSynchronize")
        assert self.worked == before + 1

    def copies(self) -> None:
        block, own = self.made("cudaMalloc", BYTES), ctypes.create_string_buffer(4096)
        self.call("cudaMemcpyAsync", block, own, BYTES, 1, None)
        self.call(
            "cudaMemcpy2DAsync", own, *map(ctypes.c_size_t, (64,)), block, *map(ctypes.c_size_t, (64, 64, 8)), 2, None
        )
        self.call("cudaDeviceSynchronize")
        self.call("cudaFree", block)

    def launches(self) -> None:
        """A loaded library stays, since the program may hold its kernels; memory for launches does not."""
        for function in (
            self.made("cudaLibraryGetKernel", self.library, b"k"),
            self.made("cuModuleGetFunction", self.module, b"k"),
        ):
            out = self.made("cudaMalloc", BYTES)
            arguments = (ctypes.c_void_p * 1)(ctypes.addressof(out))
            self.call("cuLaunchKernel", function, 1, 1, 1, 32, 1, 1, 0, None, arguments, None)
            self.call("cudaDeviceSynchronize")
            back = ctypes.c_uint32()
            self.call("cudaMemcpy", ctypes.byref(back), out, ctypes.c_size_t(4), 2)
            assert back.value == 7
            self.call("cudaFree", out)

    def closes_its_files(self) -> bool:
        """True if files that hold no module are closed after reading."""
        result, before = ctypes.c_void_p(), held()[1]
        for path in (b"/none", b"/dev/null"):
            load = self.lib.cudaLibraryLoadFromFile
            assert load(ctypes.byref(result), path, None, None, 0, None, None, 0) != 0
        return held()[1] == before

    def what_is_refused(self) -> None:
        result = ctypes.c_void_p()
        assert self.lib.cudaStreamCreateWithFlags(ctypes.byref(result), 77) != 0
        assert self.lib.cudaMalloc(ctypes.byref(result), ctypes.c_size_t(1 << 62)) != 0
        assert self.lib.cudaFree(ctypes.c_void_p(64)) != 0
        self.lib.cudaGetLastError()


def main() -> None:
    """Prints a line for each of ACTIONS."""
    shim = Shim()
    shim.call("cuInit", 0)
    shim.library = shim.made("cudaLibraryLoadData", shim.text, None, None, 0, None, None, 0)
    shim.module = shim.made("cuModuleLoadData", shim.text)
    assert shim.closes_its_files()
    for name in ACTIONS:
        print_what_stays(name, getattr(shim, name.replace(" ", "_")))


def test_calls_leak_nothing():
    assert_all_is_given_back(ROOT, __name__, len(ACTIONS))
