"""custom_kernel_extended(): what it accepts, how it says no, and batches."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
import torch

from reference import extended_reference as extended
from reference import nvfp4
from reference.extended_reference import Extension
from tests.submission.cpu_kit import ARGUMENT, NULL_POINTER, OK, UNAVAILABLE, UNSUPPORTED, Args, fenced
from tests.submission.extended.extended_kit import of_16_bits, random_case, with_biases, wrong_values

POINTERS = ("a", "b1", "b2", "sfa", "sfb1", "sfb2", "c")
NUMBERS = ("scale_gate", "scale_up", "token_scale", "scale_c")
BIASES = ("bias_gate", "bias_up")
M, N, K, L = 3, 64, 64, 2
HALF, HALF_ROW, NVFP4 = 0, 1, 2
A_DTYPES = (None, torch.float16, torch.bfloat16)  # enum custom_kernel_a_type


class ExtendedArgs(ctypes.Structure):
    _fields_ = (
        *Args._fields_,
        *((name, ctypes.c_int32) for name in ("products", "weights", "output", "activation")),
        *((name, ctypes.c_void_p) for name in (*NUMBERS, "sfc")),
        *((name, ctypes.c_float) for name in ("limit", "alpha", "beta", "reserved_float")),
        ("a_type", ctypes.c_int32),
        ("reserved_2", ctypes.c_uint32),
        *((name, ctypes.c_void_p) for name in BIASES),
    )


class Call:
    """A valid call of two batches with NVFP4 output, by rows, every tensor before an inaccessible page."""

    def __init__(self, library, weights=0, output=NVFP4, plain=False, layout=1, seed=1, a_type=0):
        self.library, self.plain, self.weights, self.output = library, plain, weights, output
        scale_c = torch.tensor(30.0) if output == NVFP4 else None
        self.extension = Extension(
            plain, (extended.FP16, extended.BF16, extended.NVFP4)[output], torch.tensor(0.01),
            None if plain else torch.tensor(0.02), torch.tensor([0.5, 1.0, 1.5]), scale_c,
        )  # fmt: skip
        tokens = [self.extension.token_scale * (i + 1) for i in range(L)]
        self.cases = [
            random_case(
                M, N, K, with_biases(self.extension._replace(token_scale=of_batch), N, seed=i), weights, seed + i
            )
            for i, of_batch in enumerate(tokens)
        ]
        if a_type:
            self.cases = [of_16_bits(case, A_DTYPES[a_type], i) for i, case in enumerate(self.cases)]
        tensors = {}
        for place, name in enumerate(POINTERS[:6]):
            batches = [case.arguments(False)[place] for case in self.cases]
            if batches[0] is not None and layout == 0 and place > 2:
                batches = [
                    nvfp4.to_blocked(one.view(torch.float8_e4m3fn)[..., None])[..., 0].permute(2, 4, 0, 1, 3)
                    .contiguous().view(torch.uint8) for one in batches
                ]  # fmt: skip
            if batches[0] is not None:
                tensors[name] = np.stack([one.view(torch.uint8).numpy() for one in batches])
        for name in ("scale_gate", "scale_up", "scale_c"):
            value = getattr(self.extension, name)
            if value is not None:
                tensors[name] = np.array([value.item()], dtype=np.float32)
        tensors["token_scale"] = np.stack([of_batch.numpy() for of_batch in tokens])
        for name in BIASES[: 1 if plain else 2]:
            tensors[name] = np.stack([getattr(case.extension, name).numpy() for case in self.cases])
        width = N // 2 if output == NVFP4 else 2 * N
        tensors["c"] = np.full((L, M, width), 0xA5, dtype=np.uint8)
        if output == NVFP4:
            rows = 128 if layout == 0 else M
            tensors["sfc"] = np.full((L, rows, N // 16), 0xA5, dtype=np.uint8)
        self.tensors = {name: fenced(tensor) for name, tensor in tensors.items()}
        self.args = ExtendedArgs(
            struct_bytes=ctypes.sizeof(ExtendedArgs), device=-1, scale_layout=layout, m=M, n=N, k=K, l=L,
            products=int(plain), weights=weights, output=output, a_type=a_type,
        )  # fmt: skip
        for name, tensor in self.tensors.items():
            setattr(self.args, name, tensor.ctypes.data)

    def __call__(self):
        status = self.library.custom_kernel_extended(ctypes.byref(self.args))
        return status, self.library.custom_kernel_message().decode() if status else ""

    def refused(self, status, text):
        found = self()
        assert found[0] == status and found[1].startswith(text), found
        assert all((self.tensors[name] == 0xA5).all() for name in ("c", "sfc") if name in self.tensors)

    def wrong(self):
        """A message about the first batch whose output differs from the oracle's; "" if there is none."""
        kinds = (torch.float16, torch.bfloat16)
        for i, case in enumerate(self.cases):
            c = torch.from_numpy(self.tensors["c"][i])
            if self.output == NVFP4:
                found = (c, torch.from_numpy(self.tensors["sfc"][i]))
            else:
                found = c.view(kinds[self.output])
            text = wrong_values(case, found)
            if text:
                return f"batch {i}: {text}"
        return ""


@pytest.mark.parametrize("weights", [0, 1, 8, 32, 64, None])
def test_batches_of_every_kind_are_right_to_the_last_byte(library, weights):
    for output in (HALF, HALF_ROW, NVFP4):
        call = Call(library, weights or 0, output, weights is None)
        assert call() == (OK, "") and call.wrong() == ""
    if weights != 1:
        call = Call(library, weights or 0, HALF, weights is None, layout=0)
        assert call() == (OK, "") and call.wrong() == ""
    for a_type in (1, 2):
        call = Call(library, weights or 0, HALF_ROW, weights is None, a_type=a_type)
        assert call() == (OK, "") and call.wrong() == ""


def test_a_struct_may_end_from_queue_on_and_have_more_zeros(library):
    assert ctypes.sizeof(ExtendedArgs) == 208
    call = Call(library, output=HALF)
    for size in (104, 112, 120, 184, 192):  # all that follows is zero: the dual GEMM
        call.args.struct_bytes = size
        call.tensors["c"][:] = 0xA5
        assert call() == (OK, "") and not (call.tensors["c"] == 0xA5).all()
    for size in (0, 4, 96, 103, 105, 183, 188, 1025):
        call.args.struct_bytes = size
        assert call()[0] == ARGUMENT
    longer = (ctypes.c_char * 256)()
    call.args.struct_bytes = 256
    ctypes.memmove(longer, ctypes.byref(call.args), ctypes.sizeof(call.args))
    assert library.custom_kernel_extended(longer) == OK
    longer[209] = 1
    assert library.custom_kernel_extended(longer) == ARGUMENT
    assert library.custom_kernel_extended(None) == NULL_POINTER


@pytest.mark.parametrize(
    ("field", "values", "expected"),
    [
        ("backend", (-1, 9), "backend is "),
        ("device", (-2,), "device is "),
        ("scale_layout", (-1, 2), "scale_layout is "),
        ("queue", (16,), "queue is not NULL"),
        ("products", (-1, 2), "products is "),
        ("weights", (-1, 2, 16, 128), "weights is "),
        ("output", (-1, 3), "output is "),
        ("a_type", (-1, 3), "a_type is "),
        ("activation", (-1, 4), "activation is "),
        ("reserved_2", (1,), "reserved_float is "),
        ("reserved_float", (1.0, float("nan")), "reserved_float is "),
        ("limit", (-1.0, float("nan")), "limit is "),
        ("alpha", (float("nan"), float("inf")), "alpha is "),
        ("beta", (float("nan"), float("-inf")), "beta is "),
        ("m", (-1, -(2**63)), "m is "),
        ("n", (0, -1, 63, 96), "n is "),
        ("k", (0, 40, 65), "k is "),
        ("l", (0, -1), "l is "),
    ],
)
def test_a_field_out_of_its_range_is_named(library, field, values, expected):
    for value in values:
        call = Call(library)
        setattr(call.args, field, value)
        call.refused(ARGUMENT, expected)


def test_arguments_without_a_use_are_refused(library):
    call = Call(library)
    spare = call.tensors["scale_gate"].ctypes.data
    call.args.a_type = 2
    call.refused(ARGUMENT, "sfa is 0x")
    for field, kind in (("scale_c", {"output": HALF}), ("sfc", {"output": HALF}), ("b2", {"weights": 8}),
                        ("sfb2", {"weights": 64}), ("b2", {"plain": True}), ("scale_up", {"plain": True}),
                        ("bias_up", {"plain": True})):  # fmt: skip
        call = Call(library, **kind)
        setattr(call.args, field, spare)
        call.refused(ARGUMENT, f"{field} is 0x")
    for field, value in (("limit", 1.0), ("alpha", 1.0), ("beta", 1.0), ("weights", 8)):
        call = Call(library, plain=True)
        setattr(call.args, field, value)
        call.refused(ARGUMENT, f"{field} is ")
    for weights, n, text in (
        (64, 32, "n is 32; expected a multiple of 64"),
        (8, 4, "n is 4; expected a multiple of 8"),
    ):
        call = Call(library, weights, HALF)
        call.args.n = n
        call.refused(ARGUMENT, text)
    call = Call(library, 1, HALF, layout=1)
    call.args.scale_layout = 0
    call.refused(ARGUMENT, "n is 64; expected a multiple of 128, for stacked weights")


def test_every_pointer_is_checked(library):
    for name in (*POINTERS, "sfc"):
        call = Call(library)
        setattr(call.args, name, None)
        call.refused(NULL_POINTER, f"{name} is NULL")
        call = Call(library)
        setattr(call.args, name, getattr(call.args, name) + 8)
        call.refused(ARGUMENT, f"{name} is at ")
    for name in (*NUMBERS, *BIASES):
        call = Call(library)
        setattr(call.args, name, getattr(call.args, name) + 2)
        call.refused(ARGUMENT, f"{name} is at ")
    for field, value in (("m", 2**62), ("n", 2**62), ("l", 2**61), ("n", 2**63 - 64)):
        call = Call(library)
        setattr(call.args, field, value)
        assert call()[0] == ARGUMENT and "2^63 bytes or more" in call()[1]


def test_an_output_overlaps_nothing(library):
    for output, name in (
        ("c", "a"),
        ("c", "sfb2"),
        ("sfc", "b1"),
        ("c", "token_scale"),
        ("c", "bias_gate"),
        ("sfc", "scale_c"),
        ("sfc", "c"),
    ):
        call = Call(library)
        setattr(call.args, name, getattr(call.args, output))
        status, message = call()
        assert status == ARGUMENT and "overlaps" in message and name in message


@pytest.mark.parametrize("name", ["a", "b1", "b2", "sfb1", "sfb2"])
@pytest.mark.parametrize("output", [HALF, HALF_ROW, NVFP4])
def test_an_output_may_touch_an_input_and_not_enter_it(library, output, name):
    """An input right before c and right behind it, then 16 bytes further in: the bytes are those of both tensors."""
    call = Call(library, 0, output)
    given, c = call.tensors[name], call.tensors["c"]
    assert given.nbytes % 16 == c.nbytes % 16 == 0
    room = np.zeros(2 * given.nbytes + c.nbytes + 64, dtype=np.uint8)
    start, behind = -room.ctypes.data % 64, given.nbytes + c.nbytes
    call.args.c = room.ctypes.data + start + given.nbytes
    for at, allowed in ((0, True), (behind, True), (16, False), (behind - 16, False)):
        room[start + at : start + at + given.nbytes] = given.reshape(-1).view(np.uint8)
        setattr(call.args, name, room.ctypes.data + start + at)
        status, message = call()
        assert status == (OK if allowed else ARGUMENT) and ("overlaps" in message) == (not allowed), (at, message)


def test_a_backend_that_is_not_there_or_lacks_it_says_so(library, monkeypatch):
    monkeypatch.setenv("NVFP4_BACKEND", "hopper")
    call = Call(library)
    assert call()[0] in (ARGUMENT, UNAVAILABLE, UNSUPPORTED)
    call.args.backend, call.args.device = 2, 0
    assert call()[0] in (UNAVAILABLE, UNSUPPORTED) and call()[1]
