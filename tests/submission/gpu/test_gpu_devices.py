"""Devices that a GPU backend accepts, and calls during which the CUDA runtime fails."""

from __future__ import annotations

import ctypes
import math
import re

import pytest

from tests.submission.cpu_kit import BLOCKED, DEVICE, OK, OUT_OF_MEMORY, ROWS, UNAVAILABLE, UNSUPPORTED, Args
from tests.submission.extended.test_extended_abi import ExtendedArgs
from tests.submission.gpu.fake_gpu import (
    ADDRESS,
    BACKENDS,
    BLACKWELL,
    BROKEN,
    CHIPS,
    GEFORCE,
    HOPPER,
    LAYOUTS,
    MEMORY_ALLOCATION,
    NUMBERS,
)

# --- devices ------------------------------------------------------------------------------------------

NEEDED = {
    HOPPER: r"9\.0 \(H100, H200\)",
    BLACKWELL: r"10\.0 \(B200\)( or 10\.3 \(B300\))?",
    GEFORCE: r"12\.0 \(RTX 50, RTX PRO 6000\)( or 12\.1 \(GB10\))?",
}


@pytest.mark.parametrize(
    ("capability", "name"),
    [(90, HOPPER), (100, BLACKWELL), (80, None), (89, None), (91, None), (101, None), (120, GEFORCE), (122, None)],
)
def test_each_backend_runs_on_its_own_chips(fake, capability, name):
    fake.devices([(capability, 77)])
    for backend, needed in NEEDED.items():
        available, detail = fake.query(backend)
        description = rf"CUDA device 0, compute capability {capability // 10}\.{capability % 10}, 77 SMs"
        assert available == (backend == name)
        assert re.fullmatch(description if backend == name else rf"{description}; it needs {needed}", detail), detail
        status, message = fake.call(backend, device=0)
        assert status == (OK if backend == name else UNAVAILABLE), message
        if backend != name:
            assert message.endswith(f"cannot run here: {detail}")


@BACKENDS
def test_the_query_reports_the_first_device_that_can_run_the_backend(fake, name):
    capability, sms = CHIPS[name]
    fake.devices([(80, 1), (capability, sms), (capability, 5)])
    assert fake.query(name) == (
        1,
        f"CUDA device 1, compute capability {capability // 10}.{capability % 10}, {sms} SMs",
    )
    fake.devices([(80, 1), (70, 2)])
    available, detail = fake.query(name)
    assert not available
    assert detail.startswith("CUDA device 1, compute capability 7.0, 2 SMs; it needs ")


@BACKENDS
def test_the_detail_says_that_there_is_no_device_or_driver(fake, name):
    fake.devices([])
    assert fake.query(name) == (0, "no CUDA device (no error)")
    status, message = fake.call(name, device=0)
    assert status == UNAVAILABLE
    assert message.endswith("cannot run here: CUDA device 0: it broke")
    fake.devices([CHIPS[name]])
    fake.fail("cudaGetDeviceCount")
    fake.core.fake_clear_log()
    assert fake.query(name) == (0, "no CUDA device (it broke)")
    assert ["get_last_error", BROKEN] in fake.log("get_last_error"), "cleared, so that a later call does not report it"


@BACKENDS
@pytest.mark.parametrize("successes", [0, 1, 2])
def test_a_device_whose_query_fails_is_unavailable(fake, name, successes):
    fake.devices([CHIPS[name]])
    fake.fail("cudaDeviceGetAttribute", successes=successes)
    status, message = fake.call(name, device=0)
    assert status == UNAVAILABLE
    assert fake.log() == [["failed", "cudaDeviceGetAttribute"]] * 2 or successes
    fake.fail("cudaDeviceGetAttribute", successes=successes)
    assert fake.query(name)[0] == 0
    assert "CUDA device 0" in message


def test_without_a_backends_name_the_device_selects_it(fake):
    for device, kernel in enumerate(CHIPS):
        args = Args(ctypes.sizeof(Args), 0, device, BLOCKED, 300, 500, 320, 3, **ADDRESS)
        fake.core.fake_clear_log()
        assert fake.core.custom_kernel(ctypes.byref(args)) == OK
        assert kernel in fake.log("launch")[-1][1], "the kernel's namespace is its backend's name"
    fake.devices([(80, 1)])
    args = Args(ctypes.sizeof(Args), 0, 0, BLOCKED, 300, 500, 320, 3, **ADDRESS)
    assert fake.core.custom_kernel(ctypes.byref(args)) == UNAVAILABLE
    message = fake.core.custom_kernel_message().decode()
    assert message.startswith("no backend can run on CUDA device 0: ") and message.endswith("tensors in host memory")
    for chip in ("9.0 (H100, H200)", "10.0 (B200)", "12.0 (RTX 50, RTX PRO 6000)"):
        assert chip in message, "names every chip that can run it"


@BACKENDS
def test_the_callers_device_is_current_after_a_call(fake, name):
    fake.devices([CHIPS[name]] * 3)
    fake.number("current").value = 2
    assert fake.call(name, device=2)[0] == OK
    assert fake.log("set_device") == []
    assert fake.call(name, device=1)[0] == OK
    log = fake.log()
    assert log[0] == ["set_device", 1] and log[-1] == ["set_device", 2]
    assert fake.log("set_device") == [["set_device", 1], ["set_device", 2]]
    fake.fail("cudaLaunchKernelExC")
    assert fake.call(name, device=0)[0] == DEVICE
    assert fake.log("set_device") == [["set_device", 0], ["set_device", 2]]
    assert fake.number("current").value == 2


@pytest.mark.parametrize("name", [HOPPER, BLACKWELL])
def test_an_extended_call_changes_the_device_once_for_all_batches(fake, name):
    fake.devices([CHIPS[name]] * 3)
    fake.number("current").value = 2
    pointers = {pointer: (i + 1) << 50 for i, pointer in enumerate(("a", "b1", "b2", "sfa", "sfb1", "sfb2", "c"))}
    args = ExtendedArgs(ctypes.sizeof(ExtendedArgs), NUMBERS[name], 1, BLOCKED, 300, 500, 320, 3, **pointers)
    args.scale_gate, args.limit, args.alpha = 1 << 58, math.inf, 1.0
    for broken, status in ("", OK), ("cudaLaunchKernelExC", DEVICE):
        fake.fail(broken)
        fake.core.fake_clear_log()
        assert fake.core.custom_kernel_extended(ctypes.byref(args)) == status, fake.core.custom_kernel_message()
        assert fake.log("set_device") == [["set_device", 1], ["set_device", 2]]
        assert fake.log()[0][0] == fake.log()[-1][0] == "set_device"
        gemms = [line for line in fake.log("launch") if "extended_gemm" in line[1]]
        assert len(gemms) == (3 if status == OK else 0)
        assert status == OK or len(fake.log("malloc")) <= 1, "no batch runs after one that failed"


@BACKENDS
def test_sixty_four_devices_are_accepted_and_kept_apart(fake, name):
    fake.devices([CHIPS[name]] * 70)
    assert fake.call(name, device=63)[0] == OK
    status, message = fake.call(name, device=64)
    assert status == UNSUPPORTED
    assert message == "device is 64; expected at most 63"
    assert fake.log() == []


@BACKENDS
@LAYOUTS
def test_each_device_has_its_own_pool_and_its_own_limit_of_shared_memory(fake, name, layout):
    fake.devices([CHIPS[name]] * 3)
    for device in (0, 2, 0, 1, 2):
        first = device not in getattr(fake, "met", set())
        fake.met = {*getattr(fake, "met", ()), device}
        assert fake.call(name, device=device, layout=layout)[0] == OK
        needs_scratch = name == HOPPER or layout == ROWS
        keep_all = 2**64 - 1
        pool = [["pool_create", 1, 0, 1, device], ["pool_set", 1000 + device, 1, keep_all]]
        assert fake.log("pool_create", "pool_set") == (pool if first and needs_scratch else [])
        assert [line[2] for line in fake.log("malloc")] == ([1000 + device] if needs_scratch else [])
        assert len(fake.log("allow")) == ((9 if name == BLACKWELL else 1) if first else 0)


# --- errors -------------------------------------------------------------------------------------------

FUNCTIONS = (
    "cudaGetDevice",
    "cudaSetDevice",
    "cudaMemPoolCreate",
    "cudaMemPoolSetAttribute",
    "cudaMallocFromPoolAsync",
    "cudaGetDriverEntryPointByVersion",
    "cudaFuncSetAttribute",
    "cudaLaunchKernelExC",
    "cudaFreeAsync",
)


@BACKENDS
@pytest.mark.parametrize("function", FUNCTIONS)
@pytest.mark.parametrize(("error", "status"), [(BROKEN, DEVICE), (MEMORY_ALLOCATION, OUT_OF_MEMORY)])
def test_a_failing_runtime_call_ends_the_call_and_frees_everything(fake, name, function, error, status):
    fake.devices([CHIPS[name]] * 2)
    device = 0 if name == HOPPER else 1
    fake.number("current").value = 1 - device
    fake.fail(function, error)
    got, message = fake.call(name, device=device, layout=ROWS)
    assert got == status
    said = "cudaErrorMemoryAllocation (out of memory)" if error == MEMORY_ALLOCATION else "cudaErrorFake (it broke)"
    assert re.fullmatch(rf"{function}\(.*\): {re.escape(said)}", message), message
    assert ["get_last_error", error] in fake.log("get_last_error"), "the runtime's last error is cleared"
    assert len(fake.log("malloc")) == len(fake.log("free")), "scratch memory is given back"
    assert fake.number("current").value == 1 - device, "the caller's device is current"
    if function not in ("cudaLaunchKernelExC", "cudaFreeAsync"):
        assert fake.log("launch") == []
    fake.fail()
    assert fake.call(name, device=device, layout=ROWS)[0] == OK, "the next call succeeds"
    assert fake.log("launch")


@BACKENDS
def test_the_first_of_two_failures_is_reported(fake, name):
    fake.fail("cudaLaunchKernelExC", MEMORY_ALLOCATION)
    status, message = fake.call(name, layout=ROWS)
    assert (status, message.split("(")[0]) == (OUT_OF_MEMORY, "cudaLaunchKernelExC")
    fake.number("current").value = (list(CHIPS).index(name) + 1) % len(CHIPS)
    fake.fail("cudaSetDevice", successes=1)
    status, message = fake.call(name, layout=ROWS)
    assert status == DEVICE
    assert message.startswith("cudaSetDevice"), "the caller's device could not be made current again"


@BACKENDS
@pytest.mark.parametrize("successes", [1, 2])
def test_a_later_launch_that_fails_ends_the_call(fake, name, successes):
    fake.fail("cudaLaunchKernelExC", successes=successes)
    status, _ = fake.call(name, layout=ROWS)
    assert status == (DEVICE if successes < 2 else OK)
    assert len(fake.log("launch")) == successes
    assert len(fake.log("free")) == 1


@BACKENDS
def test_a_failing_tensor_map_is_reported_with_its_tensors_name(fake, name):
    tensors = ("a", "b1", "b2", "sfa", "sfb1", "sfb2") if name == BLACKWELL else ("a", "b1", "b2")
    for successes, tensor in enumerate(tensors):
        fake.fail("cuTensorMapEncodeTiled", successes=successes)
        assert fake.call(name) == (DEVICE, f"cuTensorMapEncodeTiled of {tensor} failed with CUresult 1")
        assert fake.log("launch") == []
    fake.fail()
    assert fake.call(name)[0] == OK


def test_a_failing_query_of_the_sms_ends_the_call(fake):
    fake.fail("cudaDeviceGetAttribute", successes=3)  # the calls that choose a backend
    status, message = fake.call(HOPPER)
    assert status == DEVICE
    assert message.startswith("cudaDeviceGetAttribute(")
