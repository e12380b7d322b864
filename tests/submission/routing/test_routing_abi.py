"""custom_kernel_route() and custom_kernel_combine(): what they accept, and that what they refuse is named and writes
nothing; every tensor ends at an inaccessible page.
"""

from __future__ import annotations

import ctypes
import itertools

import numpy as np
import pytest

from tests.submission.cpu_kit import ARGUMENT, NULL_POINTER, OK, UNAVAILABLE, fenced

M, CHOICES, ROUTED, EXPERTS, N = 3, 2, 7, 5, 24
FP16, BF16, FP32 = 0, 1, 3
UNWRITTEN = 0xA5A5A5A5


class RouteArgs(ctypes.Structure):
    _fields_ = (
        ("struct_bytes", ctypes.c_uint32),
        *((name, ctypes.c_int32) for name in ("backend", "device", "logits_type")),
        *((name, ctypes.c_int64) for name in ("m", "choices", "routed", "experts")),
        *((name, ctypes.c_void_p) for name in ("logits", "ids", "map", "counts", "rows", "tokens", "weights", "queue")),
        *((name, ctypes.c_int32) for name in ("id_bytes", "normalize")),
    )


class CombineArgs(ctypes.Structure):
    _fields_ = (
        ("struct_bytes", ctypes.c_uint32),
        *((name, ctypes.c_int32) for name in ("backend", "device", "type")),
        *((name, ctypes.c_int64) for name in ("m", "choices", "n")),
        *((name, ctypes.c_void_p) for name in ("y", "rows", "weights", "c", "queue")),
        ("weights_type", ctypes.c_int32),
        ("reserved", ctypes.c_uint32),
    )


class Call:
    """A valid call: "route" by logits, "ids", or "combine"; `outputs` are the names of its outputs."""

    def __init__(self, library, name):
        self.function = library.custom_kernel_combine if name == "combine" else library.custom_kernel_route
        self.library = library
        if name == "combine":
            self.outputs = ("c",)
            tensors = {
                "y": np.full((M * CHOICES, N), 0x3C00, np.uint16),
                "rows": np.arange(M * CHOICES, dtype=np.int32),
                "weights": np.ones((M, CHOICES), np.float32),
                "c": np.full((M, N), 0xA5A5, np.uint16),
            }
            self.args = CombineArgs(device=-1, m=M, choices=CHOICES, n=N, weights_type=FP32)
        else:
            self.outputs = ("counts", "rows", "tokens", "weights")
            shapes = {"counts": EXPERTS, "rows": M * CHOICES, "tokens": M * CHOICES}
            tensors = {one: np.full(size, UNWRITTEN, np.uint32) for one, size in shapes.items()}
            tensors["map"] = np.arange(-2, EXPERTS, dtype=np.int32)
            self.args = RouteArgs(device=-1, m=M, choices=CHOICES, routed=ROUTED, experts=EXPERTS)
            if name == "route":
                tensors["logits"] = np.tile(np.arange(ROUTED, dtype=np.float32), (M, 1))
                tensors["weights"] = np.full(M * CHOICES, UNWRITTEN, np.uint32)
                self.args.logits_type, self.args.normalize = FP32, 1
            else:
                tensors["ids"], self.args.id_bytes = np.full((M, CHOICES), 2, np.int64), 8
        self.tensors = {one: fenced(tensor) for one, tensor in tensors.items()}
        self.args.struct_bytes = ctypes.sizeof(self.args)
        for one, tensor in self.tensors.items():
            setattr(self.args, one, tensor.ctypes.data)

    def run(self, **changes):
        for name, value in changes.items():
            setattr(self.args, name, value)
        status = self.function(ctypes.byref(self.args))
        return status, self.library.custom_kernel_message().decode()

    def untouched(self):
        return all((self.tensors[one].view(np.uint8) == 0xA5).all() for one in self.outputs if one in self.tensors)


@pytest.fixture
def make(library_path):
    library = ctypes.CDLL(str(library_path))
    library.custom_kernel_message.restype = ctypes.c_char_p

    return lambda name: Call(library, name)


def test_a_valid_call_writes_its_outputs_and_nothing_else(make):
    call = make("route")
    assert call.run()[0] == OK
    found = {name: call.tensors[name].view(np.int32).tolist() for name in ("counts", "rows", "tokens")}
    assert found == {"counts": [0, 0, 0, 3, 3], "rows": [3, 0, 4, 1, 5, 2], "tokens": [0, 1, 2, 0, 1, 2]}
    call = make("ids")
    assert call.run()[0] == OK
    assert call.tensors["counts"].tolist() == [6, 0, 0, 0, 0]
    call = make("combine")
    assert call.run()[0] == OK
    assert (call.tensors["c"] == 0x4000).all()  # 1 + 1


WRONG = [
    ("route", {"struct_bytes": 112}, ARGUMENT, "args->struct_bytes is 112; expected sizeof(struct"),
    ("route", {"backend": 9}, ARGUMENT, "backend is 9"),
    ("route", {"backend": 2}, ARGUMENT, "backend hopper cannot read memory of the host"),
    ("route", {"device": 1000}, UNAVAILABLE, "no backend can run on CUDA device 1000"),
    ("route", {"queue": 16}, ARGUMENT, "queue is not NULL"),
    ("route", {"logits_type": 2}, ARGUMENT, "logits_type is 2; expected 0 (fp16), 1 (bf16) or 3 (fp32)"),
    ("route", {"m": -1}, ARGUMENT, "m is -1"),
    ("route", {"m": 2**30}, ARGUMENT, "m is 1073741824; expected 0 to 1073741823"),
    ("route", {"choices": 0}, ARGUMENT, "choices is 0; expected 1 to 32"),
    ("route", {"choices": 8}, ARGUMENT, "choices is 8; expected 1 to 7"),
    ("route", {"routed": 1025}, ARGUMENT, "routed is 1025; expected 1 to 1024"),
    ("route", {"experts": 0}, ARGUMENT, "experts is 0; expected 1 to 1024"),
    ("route", {"normalize": 2}, ARGUMENT, "normalize is 2; expected 0 to 1"),
    ("route", {"id_bytes": 2}, ARGUMENT, "id_bytes is 2; expected 4, 8, or 0 with logits"),
    ("route", {"id_bytes": 4}, ARGUMENT, "expected NULL with ids"),
    ("route", {"ids": 64}, ARGUMENT, "logits and ids are both given; expected one of them"),
    ("route", {"logits": None}, ARGUMENT, "logits and ids are both NULL; expected one of them"),
    ("route", {"counts": None}, NULL_POINTER, "counts is NULL"),
    ("route", {"rows": None}, NULL_POINTER, "rows is NULL"),
    ("route", {"tokens": None}, NULL_POINTER, "tokens is NULL"),
    ("route", {"weights": None}, NULL_POINTER, "weights is NULL"),
    ("ids", {"weights": 64}, ARGUMENT, "weights is 0x40; expected NULL with ids"),
    ("ids", {"logits_type": 1}, ARGUMENT, "logits_type is 1; expected 0 to 0"),
    ("ids", {"normalize": 1}, ARGUMENT, "normalize is 1; expected 0 to 0"),
    ("ids", {"routed": 2**31}, ARGUMENT, "routed is 2147483648; expected 1 to 2147483647"),
    ("combine", {"struct_bytes": 80}, ARGUMENT, "args->struct_bytes is 80; expected sizeof(struct"),
    ("combine", {"type": 3}, ARGUMENT, "type is 3; expected 0 (fp16) or 1 (bf16)"),
    ("combine", {"weights_type": 2}, ARGUMENT, "weights_type is 2"),
    ("combine", {"choices": 33}, ARGUMENT, "choices is 33; expected 1 to 32"),
    ("combine", {"n": 0}, ARGUMENT, "n is 0; expected at least 1"),
    ("combine", {"n": 2**62}, ARGUMENT, "2^63 bytes or more"),
    ("combine", {"reserved": 1}, ARGUMENT, "reserved is 1; expected 0"),
    ("combine", {"y": None}, NULL_POINTER, "y is NULL"),
    ("combine", {"rows": None}, NULL_POINTER, "rows is NULL"),
    ("combine", {"c": None}, NULL_POINTER, "c is NULL"),
]  # fmt: skip


@pytest.mark.parametrize(("name", "changes", "status", "text"), WRONG)
def test_a_wrong_member_is_named_and_nothing_is_written(make, name, changes, status, text):
    call = make(name)
    found = call.run(**changes)
    assert found[0] == status and text in found[1]
    assert call.untouched()


@pytest.mark.parametrize("name", ["route", "ids", "combine"])
def test_a_misaligned_or_overlapping_tensor_is_named(make, name):
    for tensor in make(name).tensors:
        call = make(name)
        assert call.run(**{tensor: getattr(call.args, tensor) + 1})[0] == ARGUMENT, tensor
        assert f"{tensor} is at" in call.library.custom_kernel_message().decode() and call.untouched()
    for output, other in itertools.permutations(make(name).tensors, 2):
        call = make(name)
        if output in call.outputs:
            end = call.tensors[other].ctypes.data + call.tensors[other].nbytes
            status, message = call.run(**{output: (end - 1) // 16 * 16})
            assert status == ARGUMENT and "overlaps" in message and call.untouched(), (output, other)


def test_no_tokens_need_no_tensors_but_the_counts(make):
    for name in ("route", "ids"):
        call = make(name)
        assert call.run(m=0, logits=None, ids=None, map=None, rows=None, tokens=None, weights=None)[0] == OK
        assert not call.tensors["counts"].any()
    assert make("combine").run(m=0, y=None, rows=None, weights=None, c=None)[0] == OK
