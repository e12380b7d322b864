"""custom_kernel_quantize(): what it accepts and how it says no; every tensor ends at an inaccessible page."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
import torch

from tests.submission.cpu_kit import ARGUMENT, NULL_POINTER, OK, UNAVAILABLE, fenced
from tests.submission.quantize.quantize_kit import normed, wrong

M, K = 3, 48
POINTERS = ("x", "scale", "codes", "scales", "saturated", "queue")
FP32 = 3
PLAIN, NORM = 0, 1


class QuantizeArgs(ctypes.Structure):
    _fields_ = (
        ("struct_bytes", ctypes.c_uint32),
        *((name, ctypes.c_int32) for name in ("backend", "device", "scale_layout")),
        *((name, ctypes.c_int64) for name in ("m", "k", "x_row")),
        *((name, ctypes.c_void_p) for name in POINTERS),
        *((name, ctypes.c_int32) for name in ("form", "x_type")),
        *((name, ctypes.c_void_p) for name in ("weight", "residual", "sum")),
        *((name, ctypes.c_float) for name in ("epsilon", "limit", "alpha", "beta")),
        ("rows", ctypes.c_void_p),
        ("x_rows", ctypes.c_int64),
        ("token_scale", ctypes.c_void_p),
        ("activation", ctypes.c_int32),
        ("reserved", ctypes.c_uint32),
    )


class Call:
    """A valid call with RMSNorm and a residual, fp32, scale factors by rows."""

    def __init__(self, library):
        self.library = library
        library.custom_kernel_message.restype = ctypes.c_char_p
        self.values = torch.randn(2 * M + 1, K, generator=torch.Generator().manual_seed(1)).numpy()
        tensors = {
            "x": self.values[:M],
            "residual": self.values[M : 2 * M],
            "weight": self.values[2 * M],
            "scale": np.array([2.0], np.float32),
            "saturated": np.zeros(1, np.int64),
            "codes": np.full((M, K // 2), 0xA5, np.uint8),
            "scales": np.full((M, K // 16), 0xA5, np.uint8),
            "sum": np.full((M, K), 7.0, np.float32),
        }
        self.tensors = {name: fenced(np.ascontiguousarray(tensor)) for name, tensor in tensors.items()}
        self.args = QuantizeArgs(
            struct_bytes=ctypes.sizeof(QuantizeArgs), device=-1, scale_layout=1, m=M, k=K, x_row=K, form=NORM,
            x_type=FP32, epsilon=1e-6,
        )  # fmt: skip
        for name, tensor in self.tensors.items():
            setattr(self.args, name, tensor.ctypes.data)

    def run(self, **changes):
        for name, value in changes.items():
            setattr(self.args, name, value)
        status = self.library.custom_kernel_quantize(ctypes.byref(self.args))
        return status, self.library.custom_kernel_message().decode()

    def untouched(self):
        tensors = self.tensors
        return (tensors["codes"] == 0xA5).all() and (tensors["scales"] == 0xA5).all() and (tensors["sum"] == 7).all()


@pytest.fixture
def call(library_path):
    return Call(ctypes.CDLL(library_path))


def test_a_valid_call_writes_the_definitions_bits_and_nothing_else(call):
    assert call.run()[0] == OK
    given = torch.from_numpy(call.values)
    values, sums = normed(given[:M], given[2 * M], 1e-6, given[M : 2 * M])
    found = tuple(torch.from_numpy(call.tensors[name].copy()) for name in ("codes", "scales"))
    assert wrong(values, 2.0, "linear", found, int(call.tensors["saturated"][0])) == ""
    assert np.array_equal(call.tensors["sum"], sums.numpy())


@pytest.mark.parametrize(
    ("changes", "status", "text"),
    [
        ({"struct_bytes": 79}, ARGUMENT, "args->struct_bytes is 79"),
        ({"backend": 9}, ARGUMENT, "backend is 9"),
        ({"backend": 2}, ARGUMENT, "backend hopper cannot read memory of the host"),
        ({"device": -2}, ARGUMENT, "device is -2"),
        ({"device": 1000}, UNAVAILABLE, "no backend can run on CUDA device 1000"),
        ({"scale_layout": 3}, ARGUMENT, "scale_layout is 3"),
        ({"queue": 16}, ARGUMENT, "queue is not NULL"),
        ({"m": -1}, ARGUMENT, "m is -1"),
        ({"k": 0}, ARGUMENT, "k is 0"),
        ({"k": 40}, ARGUMENT, "k is 40; expected a multiple of 16"),
        ({"k": 2**63 - 16}, ARGUMENT, "x_row is 48; expected at least 9223372036854775792"),
        ({"x_row": K - 1}, ARGUMENT, "x_row is 47; expected at least 48"),
        ({"x_row": 2**62}, ARGUMENT, "2^63 bytes or more"),
        ({"form": 3}, ARGUMENT, "form is 3"),
        ({"x_type": 2}, ARGUMENT, "x_type is 2"),
        ({"x": None}, NULL_POINTER, "x is NULL"),
        ({"codes": None}, NULL_POINTER, "codes is NULL"),
        ({"scales": None}, NULL_POINTER, "scales is NULL"),
        ({"sum": None}, NULL_POINTER, "sum is NULL"),
        ({"residual": None}, ARGUMENT, "expected NULL without a residual"),
        ({"form": PLAIN}, ARGUMENT, "epsilon is 1e-06; expected 0 without RMSNorm"),
        ({"form": PLAIN, "epsilon": 0}, ARGUMENT, "expected NULL without RMSNorm"),
        ({"epsilon": -1}, ARGUMENT, "epsilon is -1"),
        ({"epsilon": float("inf")}, ARGUMENT, "epsilon is inf"),
        ({"limit": 1}, ARGUMENT, "limit is 1; expected 0 without a gate"),
        ({"activation": 2}, ARGUMENT, "activation is 2; expected 0 without a gate"),
        ({"reserved": 1}, ARGUMENT, "reserved is 1; expected 0"),
        ({"alpha": 1}, ARGUMENT, "alpha is 1; expected 0 without a gate"),
        ({"beta": 1}, ARGUMENT, "beta is 1; expected 0 without a gate"),
        ({"x_rows": 1}, ARGUMENT, "x_rows is 1; expected 0 without rows"),
        ({"rows": 64}, ARGUMENT, "x_rows is 0; expected at least 1"),
        ({"rows": 64, "x_rows": 2}, ARGUMENT, "rows is 0x40; expected NULL after RMSNorm or a gate"),
        ({"token_scale": 64}, ARGUMENT, "token_scale is 0x40; expected NULL after RMSNorm or a gate"),
    ],
)
def test_a_wrong_member_is_named_and_nothing_is_written(call, changes, status, text):
    found = call.run(**changes)
    assert found[0] == status and text in found[1]
    assert call.untouched()


@pytest.mark.parametrize("name", ["x", "scale", "codes", "scales", "saturated", "weight", "residual", "sum"])
def test_a_misaligned_or_overlapping_tensor_is_named(call, name):
    address = getattr(call.args, name)
    found = call.run(**{name: address + 1})
    assert found[0] == ARGUMENT and f"{name} is at" in found[1]
    if name in ("codes", "scales", "saturated", "sum"):
        found = call.run(**{name: call.tensors["residual" if name == "sum" else "sum"].ctypes.data})
        assert found[0] == ARGUMENT and "overlaps" in found[1]
    assert call.untouched()


def test_no_rows_need_no_tensors_and_older_structs_are_taken(call):
    empty = dict.fromkeys(("x", "scale", "codes", "scales", "saturated", "weight", "residual", "sum"))
    assert call.run(m=0, x_row=0, **empty)[0] == OK
    short = QuantizeArgs(struct_bytes=QuantizeArgs.queue.offset, device=-1, scale_layout=1, m=1, k=16, x_row=16)
    x, codes = np.full(16, 3.0, np.float16), np.zeros(8, np.uint8)
    tensors = {"x": fenced(x), "codes": fenced(codes), "scales": fenced(np.zeros(16, np.uint8))}
    for name, tensor in tensors.items():
        setattr(short, name, tensor.ctypes.data)
    assert call.library.custom_kernel_quantize(ctypes.byref(short)) == OK  # form 0 of fp16
    assert tensors["codes"].tolist() == [0x77] * 8 and tensors["scales"][0] == 0x30
    assert call.library.custom_kernel_quantize(None) == NULL_POINTER
