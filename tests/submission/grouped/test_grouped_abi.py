"""custom_kernel_grouped(): what it accepts, and how it says no, naming the group and the member."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest

from tests.submission.cpu_kit import ARGUMENT, BLOCKED, NULL_POINTER, OK, ROWS, UNAVAILABLE, UNSUPPORTED, fenced
from tests.submission.grouped.grouped_kit import MEMBERS, Call, GroupedArgs, GroupStruct, random_groups

SIZES = [(3, 5, 64), (2, 8, 128), (6, 136, 64)]
WITHOUT_QUEUE = GroupedArgs.queue.offset


def call_of(library, layout=BLOCKED, sizes=SIZES):
    return Call(library, random_groups(sizes, seed=1), layout)


def refused(call, status, text):
    got = call()
    assert got[0] == status and got[1].startswith(text), got
    assert call.untouched()


def test_header_and_tests_agree_on_the_structs(library):
    assert (ctypes.sizeof(GroupStruct), ctypes.sizeof(GroupedArgs), WITHOUT_QUEUE) == (64, 48, 40)


def test_null_pointers_are_named(library):
    assert library.custom_kernel_grouped(None) == NULL_POINTER
    assert library.custom_kernel_message() == b"args is NULL; expected a struct custom_kernel_grouped_args"
    call = call_of(library)
    call.args.group = None
    refused(call, NULL_POINTER, "group is NULL; expected 3 structs custom_kernel_group")
    for index in range(3):
        for name in MEMBERS:
            call = call_of(library)
            setattr(call.group[index], name, None)
            refused(call, NULL_POINTER, f"group[{index}].{name} is NULL; expected ")


def test_fields_of_the_call_are_named(library):
    for field, values in {
        "backend": (-1, 5),
        "device": (-2, -(2**31)),
        "scale_layout": (-1, 2),
        "groups": (0, -1, 65537, 2**40, -(2**63)),
        "group_bytes": (0, 63, 1025, 2**32 - 1),
        "reserved": (1, 2**31),
        "queue": (1,),
    }.items():
        for value in values:
            call = call_of(library)
            setattr(call.args, field, value)
            refused(call, ARGUMENT, f"{field} is {'not NULL' if field == 'queue' else value}; expected ")
    for count in (0, 4, WITHOUT_QUEUE - 8, WITHOUT_QUEUE - 1, WITHOUT_QUEUE + 1, 1025, 2**32 - 1):
        call = call_of(library)
        call.args.struct_bytes = count
        refused(call, ARGUMENT, f"args->struct_bytes is {count}; expected sizeof(struct custom_kernel_grouped_args)")


def test_sizes_of_a_group_are_named(library):
    for name, values, least in (("m", (-1, -(2**63)), 0), ("n", (0, -1, -(2**63)), 1), ("k", (0, -64), 1)):
        for value in values:
            for index in (0, 2):
                call = call_of(library)
                setattr(call.group[index], name, value)
                refused(call, ARGUMENT, f"group[{index}].{name} is {value}; expected at least {least}")
    for k in (1, 40, 63, 65, 100):
        call = call_of(library)
        call.group[1].m, call.group[1].k = 0, k  # checked in an empty group, too
        refused(call, ARGUMENT, f"group[1].k is {k}; expected a multiple of 16")


@pytest.mark.parametrize("layout", [BLOCKED, ROWS])
def test_a_size_beyond_63_bits_names_its_tensor(library, layout):
    for sizes, name in (
        ({"m": 2**62}, "a"),
        ({"n": 2**62}, "b"),
        ({"k": 2**62}, "b"),
        ({"m": 2**32, "n": 2**32}, "c"),
        ({"m": 2**63 - 1, "k": 64}, "a"),
    ):
        call = call_of(library, layout)
        for size, value in sizes.items():
            setattr(call.group[1], size, value)
        group = call.group[1]
        text = f"group[1].{name} of m {group.m}, n {group.n}, k {group.k} has 2^63 bytes or more; expected fewer"
        refused(call, ARGUMENT, text)


def test_pointers_out_of_line_or_past_the_address_space_are_named(library):
    for index in (0, 2):
        for name in MEMBERS:
            for offset in (1, 8, 15):
                call = call_of(library)
                setattr(call.group[index], name, getattr(call.group[index], name) + offset)
                refused(call, ARGUMENT, f"group[{index}].{name} is at ")
            call = call_of(library)
            setattr(call.group[index], name, 2**64 - 16)
            refused(call, ARGUMENT, f"group[{index}].{name} at 0xfffffffffffffff0 with ")


def test_an_output_apart_from_every_input_and_output_is_asked_for(library):
    for output in range(3):
        for other in range(3):
            for name in MEMBERS[:4]:
                for at_end in (False, True):
                    call = call_of(library, ROWS, [(9, 24, 64)] * 3)
                    bytes_of = call.inputs[other][MEMBERS.index(name)].nbytes
                    address = getattr(call.group[other], name)
                    call.group[output].c = (address + bytes_of - 1) // 16 * 16 if at_end else address
                    status, message = call()
                    assert status == ARGUMENT and call.untouched()
                    assert f"group[{output}].c at " in message and f" overlaps group[{other}].{name} at " in message
            if other != output:
                call = call_of(library, sizes=[(9, 24, 64)] * 3)
                call.group[output].c = call.group[other].c + (16 if other < output else 0)
                status, message = call()
                assert status == ARGUMENT and call.untouched()
                assert all(f"group[{index}].c at " in message for index in (output, other)), message


def test_outputs_side_by_side_in_any_order_are_accepted(library):
    call = call_of(library, sizes=[(2, 8, 64)] * 5)
    memory = np.full(5 * 16, 0x7BAD, dtype=np.uint16)
    base = np.zeros(5 * 16 + 8, dtype=np.uint16)
    start = (-base.ctypes.data % 16) // 2
    memory = base[start : start + 80]
    for index, place in enumerate((3, 0, 4, 2, 1)):
        call.group[index].c = memory[place * 16 :].ctypes.data
    assert call()[0] == OK
    for index, place in enumerate((3, 0, 4, 2, 1)):
        got = memory[place * 16 : place * 16 + 16].view(np.float16).reshape(2, 8)
        assert (got == call.groups[index].want()).all()


def test_structs_of_older_and_newer_callers(library):
    call = call_of(library)
    call.args.struct_bytes = WITHOUT_QUEUE
    shorter = fenced(np.frombuffer(bytes(call.args)[:WITHOUT_QUEUE], dtype=np.uint8))
    assert library.custom_kernel_grouped(ctypes.c_void_p(shorter.ctypes.data)) == OK

    class Longer(ctypes.Structure):
        _fields_ = (("args", GroupedArgs), ("extra", ctypes.c_uint64))

    class LongerGroup(ctypes.Structure):
        _fields_ = (("group", GroupStruct), ("extra", ctypes.c_uint64))

    longer = Longer(args=call.args)
    longer.args.struct_bytes = ctypes.sizeof(Longer)
    groups = (LongerGroup * 3)(*[LongerGroup(group=group) for group in call.group])
    longer.args.group, longer.args.group_bytes = ctypes.addressof(groups), ctypes.sizeof(LongerGroup)
    assert library.custom_kernel_grouped(ctypes.byref(longer)) == OK
    assert all((x.view(np.float16) == y.want()).all() for x, y in zip(call.outputs, call.groups, strict=True))
    groups[2].extra = 1 << 56
    assert library.custom_kernel_grouped(ctypes.byref(longer)) == ARGUMENT
    assert library.custom_kernel_message().startswith(b"group[2] has a field at byte 71 that this library")
    groups[2].extra, longer.extra = 0, 1
    assert library.custom_kernel_grouped(ctypes.byref(longer)) == ARGUMENT
    assert library.custom_kernel_message().startswith(b"args has a field at byte 48 that this library")


def test_the_backend_is_chosen_as_for_the_dual_gemm(library, monkeypatch):
    call = call_of(library)
    call.args.backend = 2
    refused(call, ARGUMENT, "backend hopper cannot read memory of the host")
    call.args.backend, call.args.device = 0, 1000
    refused(call, UNAVAILABLE, "no backend can run on CUDA device 1000")
    call.args.device = -1
    monkeypatch.setenv("NVFP4_BACKEND", "turing")
    refused(call, ARGUMENT, "NVFP4_BACKEND is 'turing'")
    for group in call.group:  # even where no group has rows
        group.m = 0
    refused(call, ARGUMENT, "NVFP4_BACKEND is 'turing'")
    assert UNSUPPORTED == 4
