"""The C ABI at its limits: both sides of each rule, the order of the rules, and what each message names."""

from __future__ import annotations

import ctypes
import re

import pytest

from tests.submission.cpu_kit import (
    ALIGNMENT,
    ARGUMENT,
    BLOCKED,
    INPUTS,
    NULL_POINTER,
    OK,
    POINTERS,
    ROWS,
    SHAPES,
    Args,
    Call,
    assert_says,
    round_up,
)

MAX_STRUCT_BYTES = 1024
FAR = 2**64  # the end of the address space


def hexadecimal(address):
    return f"{address:#x}"


# --- the struct ---------------------------------------------------------------------------------------


class Longest(ctypes.Structure):
    _fields_ = (("args", Args), ("extra", ctypes.c_uint8 * (MAX_STRUCT_BYTES + 1 - ctypes.sizeof(Args))))


@pytest.mark.parametrize(
    "count", [ctypes.sizeof(Args), ctypes.sizeof(Args) + 1, MAX_STRUCT_BYTES - 1, MAX_STRUCT_BYTES]
)
def test_a_newer_callers_struct_passes_up_to_the_longest(library, count):
    call = Call()
    longest = Longest(args=call.args)
    longest.args.struct_bytes = count
    # The library must not read past struct_bytes.
    for i in range(count - ctypes.sizeof(Args), len(longest.extra)):
        longest.extra[i] = 0xFF
    assert library.custom_kernel(ctypes.byref(longest)) == OK, library.custom_kernel_message()


@pytest.mark.parametrize("count", [MAX_STRUCT_BYTES + 1, MAX_STRUCT_BYTES + 4, 2**31, 2**32 - 1])
def test_a_longer_struct_is_refused(library, count):
    call = Call()
    longest = Longest(args=call.args)
    longest.args.struct_bytes = count
    assert library.custom_kernel(ctypes.byref(longest)) == ARGUMENT
    assert_says(library.custom_kernel_message().decode(), "args->struct_bytes", count, ctypes.sizeof(Args))


@pytest.mark.parametrize("at", [ctypes.sizeof(Args), ctypes.sizeof(Args) + 7, MAX_STRUCT_BYTES - 1])
def test_an_unknown_field_is_named_by_its_place(library, at):
    call = Call()
    longest = Longest(args=call.args)
    longest.args.struct_bytes = MAX_STRUCT_BYTES
    longest.extra[at - ctypes.sizeof(Args)] = 0x80
    assert library.custom_kernel(ctypes.byref(longest)) == ARGUMENT
    version = library.custom_kernel_version()
    assert_says(library.custom_kernel_message().decode(), "args", f"byte {at} ", f"{version:#x}")


# --- sizes and places ---------------------------------------------------------------------------------


@pytest.mark.parametrize("layout", [BLOCKED, ROWS])
@pytest.mark.parametrize("shape", [*SHAPES, (1, 1, 64, 1)])
@pytest.mark.parametrize("name", POINTERS)
def test_a_null_pointer_is_named_with_the_bytes_it_should_hold(library, name, shape, layout):
    call = Call(shape, layout)
    setattr(call.args, name, None)
    status, message = call(library)
    assert status == NULL_POINTER
    assert_says(message, name, "NULL", f"{call.sizes[name]} bytes")


@pytest.mark.parametrize("layout", [BLOCKED, ROWS])
@pytest.mark.parametrize("shape", SHAPES)
@pytest.mark.parametrize("name", INPUTS)
def test_the_output_may_touch_an_input_and_not_reach_into_it(library, name, shape, layout):
    call = Call(shape, layout, spare=1 << 20)
    own, c_bytes = call.sizes[name], call.sizes["c"]
    assert own % ALIGNMENT == c_bytes % ALIGNMENT == 0, "the edges would not be exact"
    begin = call.args.c + round_up(c_bytes, 64)  # after all other tensors, with room for c on both sides
    setattr(call.args, name, begin)
    for c, accepted in (
        (begin - c_bytes, True),
        (begin - c_bytes + ALIGNMENT, False),
        (begin, False),
        (begin + own - ALIGNMENT, False),
        (begin + own, True),
    ):
        call.args.c = c
        status, message = call(library)
        if accepted:
            assert status == OK, message
        else:
            assert status == ARGUMENT
            assert_says(message, "c", hexadecimal(c), f"{c_bytes} bytes", f"overlaps {name} ", hexadecimal(begin))


def test_inputs_may_be_the_same_memory(library):
    call = Call((128, 128, 64, 1))
    call.args.b1 = call.args.b2 = call.args.a
    call.args.sfb1 = call.args.sfb2 = call.args.sfa
    assert call(library)[0] == OK


@pytest.mark.parametrize("offset", [1, 2, 4, 8, ALIGNMENT - 1])
@pytest.mark.parametrize("name", POINTERS)
def test_every_misalignment_is_reported_with_the_address(library, name, offset):
    call = Call()
    address = getattr(call.args, name) + offset
    setattr(call.args, name, address)
    status, message = call(library)
    assert status == ARGUMENT
    assert_says(message, name, hexadecimal(address), f"aligned to {ALIGNMENT} bytes")


def test_sixteen_bytes_of_alignment_are_enough(library):
    call = Call(spare=64)
    for name in POINTERS:
        setattr(call.args, name, getattr(call.args, name) + ALIGNMENT)
    assert call(library)[0] == OK


@pytest.mark.parametrize("layout", [BLOCKED, ROWS])
@pytest.mark.parametrize("name", POINTERS)
def test_a_tensor_may_not_run_past_the_address_space(library, name, layout):
    call = Call(SHAPES[2], layout)
    count = call.sizes[name]
    for address, past in ((FAR - ALIGNMENT, True), (FAR - count + ALIGNMENT, True), (FAR - count - ALIGNMENT, False)):
        setattr(call.args, name, address)
        if name != "c":
            call.args.c = call.args.b1 if name != "b1" else call.args.b2  # refused later, so nothing is read
        status, message = call(library)
        assert status == ARGUMENT or not past
        if past:
            assert_says(message, name, hexadecimal(address), f"{count} bytes", "address space")
        elif name != "c":
            assert re.match(r"c at .* overlaps b[12] at", message)
        if name == "c":
            break  # an output within the address space would be written


def spoilt(library, **extents):
    call = Call()
    for name, value in extents.items():
        setattr(call.args, name, value)
    return call(library)


@pytest.mark.parametrize(
    ("tensor", "fits", "extents"),
    [
        # a: M K/2 L bytes, where 2^63 is one too many.
        ("a", {"m": 2**58 - 128, "n": 1, "l": 1}, {"m": 2**58, "n": 1, "l": 1}),
        ("a", {"m": 2**30, "n": 1, "l": 2**26}, {"m": 2**30, "n": 1, "l": 2**28}),
        ("a", {"m": 1, "n": 1, "k": 2**58, "l": 1}, {"m": 3, "n": 1, "k": 2**63 - 64, "l": 1}),
        ("b1", {"m": 1, "n": 2**56, "l": 1}, {"m": 1, "n": 2**58, "l": 1}),
        ("b1", {"m": 1, "n": 2**31, "l": 2**25}, {"m": 1, "n": 2**31, "l": 2**27}),
        # For one row, a blocked scale tensor has 8 K bytes, and a has K / 2.
        ("sfa", {"m": 1, "n": 1, "k": 2**58, "l": 2}, {"m": 1, "n": 1, "k": 2**58, "l": 4}),
        ("c", {"m": 2**30, "n": 2**30, "l": 2}, {"m": 2**31, "n": 2**30, "l": 2}),
        ("c", {"m": 2**31, "n": 2**30, "l": 1}, {"m": 2**31, "n": 2**31, "l": 1}),
    ],
)
def test_sizes_fit_63_bits_or_the_tensor_is_named(library, tensor, fits, extents):
    status, message = spoilt(library, **fits)
    assert status == ARGUMENT
    assert re.match(r"c at .* overlaps |\w+ at .* runs past the address space", message), message
    status, message = spoilt(library, **extents)
    assert status == ARGUMENT
    m, n, k, batches = (extents.get(name, value) for name, value in zip("mnkl", SHAPES[0], strict=True))
    assert_says(message, tensor, f"m {m}, n {n}, k {k}, l {batches}", "2^63 bytes")


# --- values and their order ---------------------------------------------------------------------------


@pytest.mark.parametrize("value", [0, 1, 2, 3, 4])
def test_every_backend_number_is_accepted(library, value):
    call = Call()
    call.args.backend = value
    status, message = call(library)
    assert (status == OK) == (value < 2), message
    assert not message.startswith("backend is") or status == OK


@pytest.mark.parametrize(
    ("field", "value", "expected"),
    [
        ("backend", -1, ("0 (auto)", "1 (cpu)", "2 (hopper)", "3 (blackwell)", "4 (geforce)")),
        ("backend", 5, ("0 (auto)", "1 (cpu)", "2 (hopper)", "3 (blackwell)", "4 (geforce)")),
        ("device", -2, ("-1", "host memory")),
        ("scale_layout", -1, ("0 (blocked)", "1 (rows)")),
        ("scale_layout", 2, ("0 (blocked)", "1 (rows)")),
        *(("m", value, ("at least 0",)) for value in (-1, -2, -(2**62))),
        *((name, value, ("at least 1",)) for name in "nkl" for value in (0, -1, 1 - 2**62)),
        ("k", 40, ("multiple of 16",)),
    ],
)
def test_a_value_outside_its_range_is_named_with_the_values_expected(library, field, value, expected):
    call = Call()
    setattr(call.args, field, value)
    status, message = call(library)
    assert status == ARGUMENT
    assert_says(message, field, f"is {value};", *expected)


@pytest.mark.parametrize("name", ["m", "n", "l"])
def test_one_is_enough_of_each_extent(library, name):
    call = Call()
    setattr(call.args, name, 1)
    assert call(library)[0] == OK


def test_rules_are_checked_in_the_order_of_the_structs_fields(library):
    """All members are wrong at once; each reported one is corrected, until none is left."""
    call = Call()
    right = {name: getattr(call.args, name) for name, _ in Args._fields_}
    wrong = {"struct_bytes": 2000, "backend": 9, "device": -9, "scale_layout": 9}
    wrong |= {"m": -1, "n": 0, "k": 0, "l": 0}
    order = [
        *((name, f"args->{name} is" if name == "struct_bytes" else f"{name} is") for name in wrong),
        *((name, f"{name} is NULL") for name in POINTERS),
    ]
    order.insert(4, ("queue", "queue is not NULL"))
    # A queue is wrong only for host memory, so it is reported once the device is the host.
    for name, value in {**wrong, **dict.fromkeys(POINTERS), "queue": 64}.items():
        setattr(call.args, name, value)
    for name, text in order:
        status, message = call(library)
        assert message.startswith(text), f"wanted {text}"
        assert status == (NULL_POINTER if "NULL; expected " in message and name in POINTERS else ARGUMENT)
        setattr(call.args, name, right[name])
    assert call(library)[0] == OK


@pytest.mark.parametrize("first", range(len(POINTERS) - 1))
def test_the_first_of_two_wrong_pointers_is_reported(library, first):
    call = Call()
    earlier, later = POINTERS[first], POINTERS[first + 1]
    setattr(call.args, earlier, getattr(call.args, earlier) + 8)
    setattr(call.args, later, None)
    status, message = call(library)
    assert status == ARGUMENT
    assert message.startswith(f"{earlier} is at ")


def test_the_first_of_two_overlapped_inputs_is_reported(library):
    call = Call()
    call.args.c = call.args.b2 = call.args.sfb1
    assert " overlaps b2 at " in call(library)[1]


def test_k_is_checked_for_its_multiple_after_every_extent(library):
    call = Call()
    call.args.k, call.args.l = 65, 0
    assert call(library)[1].startswith("l is 0")


# --- the environment ----------------------------------------------------------------------------------


@pytest.mark.parametrize("name", ["", "auto", "cpu"])
def test_names_that_mean_this_machine_run_host_memory(library, monkeypatch, name):
    monkeypatch.setenv("NVFP4_BACKEND", name)
    status, message = Call()(library)
    assert status == OK, message


@pytest.mark.parametrize("name", ["hopper", "blackwell", "geforce"])
def test_a_gpu_name_is_refused_for_host_memory(library, monkeypatch, name):
    monkeypatch.setenv("NVFP4_BACKEND", name)
    status, message = Call()(library)
    assert status == ARGUMENT
    assert re.fullmatch(rf"back ?end {name} cannot read memory of the host; expected tensors on a CUDA device", message)


def test_the_cpu_is_refused_for_device_memory(library):
    call = Call()
    call.args.device, call.args.backend = 0, 1
    status, message = call(library)
    assert status == ARGUMENT
    assert re.fullmatch(r"back ?end cpu cannot read memory of a CUDA device; expected tensors in host memory", message)


@pytest.mark.parametrize(
    "name", ["CPU", "Auto", " cpu", "cpu ", "cp", "cpux", "hop", "hopper2", "black", "none", "0", "x" * 200]
)
def test_any_other_name_is_refused_and_cut_to_64_characters(library, monkeypatch, name):
    monkeypatch.setenv("NVFP4_BACKEND", name)
    status, message = Call()(library)
    assert status == ARGUMENT
    assert_says(message, "NVFP4_BACKEND", f"'{name[:64]}'", "cpu", "hopper", "blackwell", "geforce", "auto")


def test_arguments_are_checked_before_the_environment(library, monkeypatch):
    monkeypatch.setenv("NVFP4_BACKEND", "turing")
    call = Call()
    call.args.k = 65
    assert call(library)[1].startswith("k is 65")


@pytest.mark.parametrize("value", [1, 2, 3])
def test_a_callers_choice_does_not_read_the_environment(library, monkeypatch, value):
    monkeypatch.setenv("NVFP4_BACKEND", "turing")
    call = Call()
    call.args.backend = value
    assert "NVFP4_BACKEND" not in call(library)[1]
