"""The choice of a backend: the library's core, linked with fake GPU backends that record their calls."""

from __future__ import annotations

import ctypes
import re
import shutil
import subprocess
import threading
from itertools import combinations

import pytest

from tests.submission.cpu_kit import (
    ARGUMENT,
    BLOCKED,
    DEVICE,
    INPUTS,
    NULL_POINTER,
    OK,
    OUT_OF_MEMORY,
    ROWS,
    UNAVAILABLE,
    UNSUPPORTED,
    Args,
    Info,
    assert_says,
)

HOPPER, BLACKWELL, GEFORCE = "hopper", "blackwell", "geforce"
NUMBERS = {"cpu": 1, HOPPER: 2, BLACKWELL: 3, GEFORCE: 4}
FAKES = (HOPPER, BLACKWELL, GEFORCE)
LISTED = (BLACKWELL, GEFORCE, HOPPER)  # the order of automatic choice


class Seen(ctypes.Structure):
    """struct problem of submission/core/backend.h."""

    _fields_ = (
        *((name, ctypes.c_int64) for name in "mnkl"),
        *((name, ctypes.c_void_p) for name in (*INPUTS, "c")),
        ("scale_layout", ctypes.c_int32),
        ("device", ctypes.c_int32),
        ("queue", ctypes.c_void_p),
    )


class Library:
    """The library with the named fake backends built in."""

    def __init__(self, path, built):
        self.core = ctypes.CDLL(str(path))
        self.core.custom_kernel_message.restype = ctypes.c_char_p
        self.built = built

    def fake(self, name, which):
        """A fake's variable, to read or to set."""
        return (ctypes.c_int32 * len(FAKES)).in_dll(self.core, f"fake_{name}"), FAKES.index(which)

    def get(self, name, which):
        values, i = self.fake(name, which)
        return values[i]

    def set(self, which, available=None, device=None, status=None, detail=None):
        for name, value in (("available", available), ("device", device), ("status", status)):
            if value is not None:
                values, i = self.fake(name, which)
                values[i] = value
        if detail is not None:
            (ctypes.c_char * 600 * len(FAKES)).in_dll(self.core, "fake_detail")[
                FAKES.index(which)
            ].value = detail.encode()

    def reset(self):
        for which in FAKES:
            self.set(which, 0, 0, 0, f"no {which} here")
            for name in ("runs", "details_asked", "last_asked"):
                values, i = self.fake(name, which)
                values[i] = 0

    def seen(self):
        return Seen.in_dll(self.core, "fake_problem")

    def __call__(self, device=0, backend=0, queue=None, layout=BLOCKED):
        """A call with made-up addresses, which only a real backend would read."""
        places = {name: (i + 1) << 20 for i, name in enumerate((*INPUTS, "c"))}
        self.args = Args(ctypes.sizeof(Args), backend, device, layout, 3, 5, 128, 2, **places, queue=queue)
        status = self.core.custom_kernel(ctypes.byref(self.args))
        return status, self.core.custom_kernel_message().decode()

    def query(self, index):
        info = Info(ctypes.sizeof(Info))
        return self.core.custom_kernel_backend_query(index, ctypes.byref(info)), info


OF_A_SET = ("_avx2.c", "_avx512.c", "_amx.c", "_neon.c")  # sources that need compiler flags of their own


@pytest.fixture(scope="module")
def build(root, tmp_path_factory):
    compiler = shutil.which("gcc") or shutil.which("cc")
    if not compiler:
        pytest.skip("no C compiler")
    folder = tmp_path_factory.mktemp("core")
    sources = [*(root / "submission" / "core").rglob("*.c"), root / "tests" / "submission" / "c" / "fake_backends.c"]
    sources += [path for path in (root / "submission" / "cpu").glob("**/*.c") if not path.name.endswith(OF_A_SET)]

    def make(*built):
        path = folder / f"core-{'-'.join(built)}.so"
        flags = ["-D_GNU_SOURCE", "-std=c11", "-O0", "-fPIC", "-shared", "-pthread", "-fvisibility=hidden"]
        flags += [f"-DNVFP4_HAVE_{name.upper()}" for name in built]
        subprocess.run([compiler, *flags, "-o", path, *sources, "-lm"], check=True)
        return Library(path, built)

    return make


@pytest.fixture(scope="module")
def both(build):
    return build(*FAKES)


@pytest.fixture(scope="module")
def neither(build):
    return build()


@pytest.fixture(autouse=True)
def fresh(request, monkeypatch):
    monkeypatch.delenv("NVFP4_BACKEND", raising=False)
    for name in ("both", "neither"):
        if name in request.fixturenames:
            request.getfixturevalue(name).reset()


# --- nothing but the CPU is built ---------------------------------------------------------------------


@pytest.mark.parametrize("name", FAKES)
@pytest.mark.parametrize("by_environment", [False, True])
def test_a_backend_that_is_not_built_is_unavailable(neither, monkeypatch, name, by_environment):
    if by_environment:
        monkeypatch.setenv("NVFP4_BACKEND", name)
    status, message = neither(backend=0 if by_environment else NUMBERS[name])
    assert status == UNAVAILABLE
    assert re.fullmatch(rf"back ?end {name} is not built into this library", message)


@pytest.mark.parametrize("device", [0, 7])
def test_without_a_gpu_backend_no_device_can_be_used(neither, device):
    status, message = neither(device)
    assert status == UNAVAILABLE
    assert re.fullmatch(
        rf"no back ?end can run on CUDA device {device}: (\w+: not built; ){{3}}cpu: takes tensors in host memory",
        message,
    )


def test_the_query_lists_backends_that_are_not_built(neither):
    for index, name in enumerate(LISTED):
        status, info = neither.query(index)
        assert status == OK
        assert (info.name, info.backend, info.built, info.available) == (name.encode(), NUMBERS[name], 0, 0)
        assert info.detail == b"not built"
    status, info = neither.query(len(LISTED))
    assert (info.name, info.backend, info.built, info.available) == (b"cpu", 1, 1, 1)


def test_a_backend_without_extended_gemm_runs_the_dual_gemm_alone(both):
    """All members after queue zero make the call the dual GEMM, the only product that a fake has."""
    assert both(backend=NUMBERS[GEFORCE])[0] == UNAVAILABLE
    both.set(GEFORCE, available=1)
    longer = (ctypes.c_char * 256)()
    ctypes.memmove(longer, ctypes.byref(both.args), ctypes.sizeof(Args))
    longer[0:4] = (256).to_bytes(4, "little")
    assert both.core.custom_kernel_extended(longer) == OK and both.get("runs", GEFORCE) == 1
    longer[128:136] = (1 << 30).to_bytes(8, "little")  # scale_gate
    assert both.core.custom_kernel_extended(longer) == UNSUPPORTED and both.get("runs", GEFORCE) == 1
    assert b"geforce" in both.core.custom_kernel_message() and b"extended" in both.core.custom_kernel_message()


# --- choosing -----------------------------------------------------------------------------------------


@pytest.mark.parametrize("able", [able for n in range(4) for able in combinations(LISTED, n)])
def test_the_first_listed_that_can_run_is_taken(both, able):
    for name in FAKES:
        both.set(name, available=name in able, device=4)
    status, message = both(device=4)
    assert {name: both.get("runs", name) for name in FAKES} == {name: int((name,) == able[:1]) for name in FAKES}
    if able:
        assert status == OK
        asked = [name for name in FAKES if both.get("details_asked", name)]
        assert asked == [], "a successful choice asks for no details: they are slow"
    else:
        assert status == UNAVAILABLE
        assert re.fullmatch(
            r"no back ?end can run on CUDA device 4: blackwell: no blackwell here; "
            r"geforce: no geforce here; hopper: no hopper here; cpu: .*",
            message,
        )


def test_the_callers_device_is_the_one_that_is_asked_about(both):
    both.set(HOPPER, available=1, device=3)
    assert both(device=3)[0] == OK
    assert both(device=2)[0] == UNAVAILABLE
    assert {both.get("last_asked", name) for name in FAKES} == {2}


@pytest.mark.parametrize("name", FAKES)
@pytest.mark.parametrize("by_environment", [False, True])
def test_a_named_backend_runs_or_says_why_it_cannot(both, monkeypatch, name, by_environment):
    if by_environment:
        monkeypatch.setenv("NVFP4_BACKEND", name)
    number = 0 if by_environment else NUMBERS[name]
    other = HOPPER if name == BLACKWELL else BLACKWELL
    both.set(other, available=1, device=1)
    both.set(name, available=1, device=1)
    assert both(device=1, backend=number)[0] == OK
    assert (both.get("runs", name), both.get("runs", other), both.get("details_asked", name)) == (1, 0, 0)
    both.set(name, available=0)
    status, message = both(device=1, backend=number)
    assert status == UNAVAILABLE
    assert re.fullmatch(rf"back ?end {name} cannot run here: no {name} here", message)
    assert both.get("runs", other) == 0


def test_host_memory_never_goes_to_a_gpu(both):
    for name in FAKES:
        both.set(name, available=1, device=0)
        status, message = both(device=-1, backend=NUMBERS[name])
        assert status == ARGUMENT
        assert "cannot read memory of the host" in message
    assert {both.get("runs", name) for name in FAKES} == {0}


@pytest.mark.parametrize(("layout", "queue"), [(BLOCKED, None), (ROWS, 0xDEAD0)])
def test_a_problem_reaches_the_backend_as_the_caller_gave_it(both, layout, queue):
    both.set(BLACKWELL, available=1, device=5)
    assert both(device=5, queue=queue, layout=layout)[0] == OK
    for name, _ in Seen._fields_:
        assert getattr(both.seen(), name) == getattr(both.args, name), name


@pytest.mark.parametrize("status", [OUT_OF_MEMORY, DEVICE])
def test_a_backends_status_and_message_are_the_calls(both, status):
    both.set(HOPPER, available=1, status=status, detail="it broke")
    assert both() == (status, "it broke")


def test_a_long_message_is_cut_and_a_fairly_long_one_is_not(both):
    both.set(HOPPER, available=1, status=DEVICE, detail="x" * 500)
    assert both()[1] == "x" * 500
    both.set(HOPPER, detail="x" * 599)
    assert both()[1] == "x" * 511


def test_a_message_lasts_until_the_threads_next_failed_call(both):
    both.set(HOPPER, available=1)
    assert both(backend=9)[0] == ARGUMENT
    assert both()[0] == OK
    others = []
    message = both.core.custom_kernel_message
    thread = threading.Thread(target=lambda: others.extend((message(), both(device=-3)[1])))
    thread.start()
    thread.join()
    assert others[0] == b"" and others[1].startswith("device is -3")
    assert both.core.custom_kernel_message().startswith(b"backend is 9")


@pytest.mark.parametrize("name", FAKES)
def test_a_problem_without_rows_is_computed_by_no_backend(both, name):
    """custom_kernel() and custom_kernel_extended() return in the common path, if the backend can run here."""
    both(backend=NUMBERS[name])  # fills both.args
    both.args.m = 0
    longer = (ctypes.c_char * 256)()
    ctypes.memmove(longer, ctypes.byref(both.args), ctypes.sizeof(Args))
    longer[0:4] = (256).to_bytes(4, "little")
    calls = [
        lambda: both.core.custom_kernel(ctypes.byref(both.args)),
        lambda: both.core.custom_kernel_extended(longer),
    ]
    assert [call() for call in calls] == [UNAVAILABLE] * 2
    both.set(name, available=1, status=DEVICE)
    assert [call() for call in calls] == [OK] * 2
    assert both.get("runs", name) == 0


# --- the query ----------------------------------------------------------------------------------------


def test_the_query_lists_the_newest_chip_first_and_asks_about_any_device(both):
    both.set(HOPPER, available=1, device=6, detail="an H200")
    found = [both.query(index) for index in range(4)]
    assert [status for status, _ in found] == [OK] * 4
    assert [info.name for _, info in found] == [b"blackwell", b"geforce", b"hopper", b"cpu"]
    assert [info.backend for _, info in found] == [3, 4, 2, 1]
    assert [(info.built, info.available) for _, info in found] == [(1, 0), (1, 0), (1, 1), (1, 1)]
    assert {both.get("last_asked", name) for name in FAKES} == {-1}


def test_a_long_detail_is_cut(both):
    both.set(HOPPER, detail="y" * 599)
    assert both.query(2)[1].detail == b"y" * 255
    both.set(HOPPER, available=0)
    assert both(backend=2)[1].endswith(": " + "y" * 255)


@pytest.mark.parametrize("index", [-(2**31), -1, 4, 5, 2**31 - 1])
def test_the_query_ends_after_the_last_backend(both, index):
    assert both.query(index)[0] == ARGUMENT
    assert_says(both.core.custom_kernel_message().decode(), "index", index, "0 to 3")


WITHOUT_DETAIL = Info.detail.offset


@pytest.mark.parametrize("count", [0, 4, 16, WITHOUT_DETAIL - 1, WITHOUT_DETAIL + 4, ctypes.sizeof(Info) - 1])
def test_the_query_refuses_a_struct_that_is_too_short(both, count):
    info = Info(count)
    assert both.core.custom_kernel_backend_query(0, ctypes.byref(info)) == ARGUMENT
    message = both.core.custom_kernel_message().decode()
    assert_says(message, "info->struct_bytes", count, "custom_kernel_backend_info", ctypes.sizeof(Info), WITHOUT_DETAIL)
    assert not info.name


def test_the_query_takes_a_newer_callers_longer_struct(both):
    info = Info(ctypes.sizeof(Info) + 64)
    assert both.core.custom_kernel_backend_query(3, ctypes.byref(info)) == OK
    assert info.struct_bytes == ctypes.sizeof(Info) + 64


def test_the_query_refuses_a_null_info(both):
    assert both.core.custom_kernel_backend_query(0, None) == NULL_POINTER
    assert both.core.custom_kernel_message().startswith(b"info is NULL")


def test_details_belong_to_their_thread(both):
    both.set(HOPPER, detail="of the first thread")
    _, mine = both.query(2)
    others = []
    both.set(HOPPER, detail="of the second")
    thread = threading.Thread(target=lambda: others.append(both.query(2)[1].detail))
    thread.start()
    thread.join()
    assert others == [b"of the second"]
    assert mine.detail == b"of the first thread"
