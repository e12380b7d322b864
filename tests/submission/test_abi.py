"""The C ABI: exported functions, valid and invalid argument structs, error messages."""

from __future__ import annotations

import ctypes
import re
import subprocess

import numpy as np
import pytest

from tests.submission.cpu_kit import (
    ARGUMENT,
    NULL_POINTER,
    OK,
    POINTERS,
    UNAVAILABLE,
    UNWRITTEN,
    Args,
    Call,
    Info,
    assert_says,
    fenced,
)


def test_exports_only_the_documented_functions(library_path):
    listing = subprocess.run(
        ["nm", "-D", "--defined-only", library_path], capture_output=True, text=True, check=True
    ).stdout
    versions = [line.split()[-1].split("@@") for line in listing.splitlines() if " A " not in line]
    assert {version for _, version in versions} == {f"CUSTOM_KERNEL_1.{minor}" for minor in range(8)}
    assert {name for name, _ in versions} == {
        "custom_kernel",
        "custom_kernel_combine",
        "custom_kernel_examine",
        "custom_kernel_experts",
        "custom_kernel_extended",
        "custom_kernel_grouped",
        "custom_kernel_grouped_python",
        "custom_kernel_message",
        "custom_kernel_quantize",
        "custom_kernel_route",
        "custom_kernel_status_name",
        "custom_kernel_tensor_form",
        "custom_kernel_torch_check",
        "custom_kernel_torch_register",
        "custom_kernel_torch_schema",
        "custom_kernel_version",
        "custom_kernel_backend_query",
    }


def test_loads_without_a_cuda_driver(library_path):
    needed = subprocess.run(["ldd", library_path], capture_output=True, text=True, check=True).stdout
    assert "libcuda" not in needed


def test_valid_problem_writes_every_output(library):
    call = Call()
    assert call(library)[0] == OK
    assert not call.c.any()  # 0 * silu(0)


def test_null_struct_is_an_error(library):
    assert library.custom_kernel(None) == NULL_POINTER
    assert b"args" in library.custom_kernel_message()


def test_without_rows_nothing_is_written_and_no_pointer_looked_at(library):
    call = Call()
    call.args.m = 0
    assert call(library)[0] == OK
    assert (call.c == UNWRITTEN).all()
    for name, address in zip(POINTERS, (None, 1, None, 2**64 - 1, None, 8, None), strict=True):
        setattr(call.args, name, address)
    assert call(library)[0] == OK


WITHOUT_QUEUE = Args.queue.offset  # the required members: all up to c


def test_shorter_struct_is_filled_with_zeros_and_nothing_past_it_is_read(library):
    call = Call()
    call.args.struct_bytes = WITHOUT_QUEUE
    whole = bytes(8) + bytes(call.args)[:WITHOUT_QUEUE]  # 7 * 16 bytes: an inaccessible page follows at once
    shorter = fenced(np.frombuffer(whole, dtype=np.uint8))[8:]
    assert library.custom_kernel(ctypes.c_void_p(shorter.ctypes.data)) == OK, library.custom_kernel_message()
    assert not call.c.any()


@pytest.mark.parametrize("count", [4, WITHOUT_QUEUE - 8, WITHOUT_QUEUE - 1, WITHOUT_QUEUE + 4, ctypes.sizeof(Args) - 1])
def test_struct_that_lacks_a_tensor_or_ends_inside_a_member_is_refused(library, count):
    call = Call()
    call.args.struct_bytes = count
    status, message = call(library)
    assert status == ARGUMENT
    assert_says(message, "args->struct_bytes", count, "custom_kernel_args", ctypes.sizeof(Args), WITHOUT_QUEUE)


def test_status_has_the_name_of_its_enumerator(library, root):
    name_of = library.custom_kernel_status_name
    name_of.restype = ctypes.c_char_p
    header = (root / "submission" / "custom_kernel.h").read_text()
    statuses = re.findall(r"^    (CUSTOM_KERNEL_(?:OK|ERROR_\w+)) = (\d+),", header, re.M)
    assert [int(value) for _, value in statuses] == list(range(7))
    assert [name_of(int(value)).decode() for _, value in statuses] == [name for name, _ in statuses]
    assert {name_of(value) for value in (-1, 7, 2**31 - 1, -(2**31))} == {b"unknown status"}


def test_rejected_call_leaves_the_output_alone(library):
    call = Call()
    call.args.k = 100
    assert call(library)[0] == ARGUMENT
    assert (call.c == UNWRITTEN).all()


def test_device_that_no_backend_can_use_is_refused(library):
    call = Call()
    call.args.device = 1000
    status, message = call(library)
    assert status == UNAVAILABLE
    assert "CUDA device 1000" in message


def test_query_lists_the_backends_and_then_ends(library):
    info = Info(struct_bytes=ctypes.sizeof(Info))
    found = {}
    while library.custom_kernel_backend_query(len(found), ctypes.byref(info)) == OK:
        found[info.name.decode()] = (info.backend, info.built, info.available, info.detail.decode())
    assert set(found) == {"cpu", "hopper", "blackwell", "geforce"}
    assert found["cpu"][:3] == (1, 1, 1)
    for name, (_, built, available, detail) in found.items():
        assert detail, f"{name} gives no detail"
        assert built or not available


def test_query_of_a_shorter_struct_writes_nothing_past_it(library):
    without_detail = Info.detail.offset
    info = Info(struct_bytes=without_detail, detail=b"kept")
    assert library.custom_kernel_backend_query(0, ctypes.byref(info)) == OK
    assert (info.struct_bytes, info.name, info.detail) == (without_detail, b"blackwell", b"kept")


def test_the_version_is_the_headers(library, root):
    header = (root / "submission" / "custom_kernel.h").read_text()
    version = library.custom_kernel_version()
    assert f"#define CUSTOM_KERNEL_VERSION {version:#010x}u" in header
