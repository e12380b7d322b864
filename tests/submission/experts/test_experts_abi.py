"""custom_kernel_experts(): what it accepts, and that what it refuses is named and writes nothing."""

from __future__ import annotations

import ctypes

import numpy as np
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tests.submission.cpu_kit import ARGUMENT, NULL_POINTER, OK, fenced

E, ROWS, N, K = 3, 5, 128, 64
POINTERS = ("a", "b1", "b2", "sfa", "sfb1", "sfb2", "c", "queue", "counts")
KINDS = ("tokens", "sfa_layout", "products", "weights", "output", "activation")
NUMBERS = ("scale_gate", "scale_up", "token_scale", "scale_c", "sfc")
BIASES = ("bias_gate", "bias_up")
FLOATS = ("limit", "alpha", "beta", "reserved_float")


class ExpertsArgs(ctypes.Structure):
    _fields_ = (
        ("struct_bytes", ctypes.c_uint32),
        *((name, ctypes.c_int32) for name in ("backend", "device", "scale_layout")),
        *((name, ctypes.c_int64) for name in ("experts", "rows", "n", "k")),
        *((name, ctypes.c_void_p) for name in POINTERS),
        *((name, ctypes.c_int32) for name in KINDS),
        *((name, ctypes.c_void_p) for name in NUMBERS),
        *((name, ctypes.c_float) for name in FLOATS),
        *((name, ctypes.c_void_p) for name in BIASES),
        ("a_type", ctypes.c_int32),
        ("reserved_2", ctypes.c_uint32),
        ("a_index", ctypes.c_void_p),
        ("a_rows", ctypes.c_int64),
    )


class Call:
    """A valid gated call with NVFP4 output, every tensor before an inaccessible page."""

    def __init__(self, library, tokens=0, layouts=(1, 1)):
        self.library = library
        rows = ROWS * E if tokens == 2 else ROWS
        padded = (128 * E if tokens == 2 else 128) if layouts[0] == 0 else rows
        sizes = {
            "a": (rows, K // 2), "b1": (E, N, K // 2), "b2": (E, N, K // 2), "sfa": (padded, K // 16),
            "sfb1": (E, N, K // 16), "sfb2": (E, N, K // 16), "c": (rows, N // 2), "sfc": (rows, N // 16),
        }  # fmt: skip
        values = {"a": 0x21, "b1": 0x12, "b2": 0x22, "sfa": 0x38, "sfb1": 0x38, "sfb2": 0x38, "c": 0xA5, "sfc": 0xA5}
        tensors = {name: np.full(size, values[name], dtype=np.uint8) for name, size in sizes.items()}
        tensors["counts"] = np.array({0: [2, 0, 3], 1: [2, 2, 5], 2: [5, 0, 1]}[tokens], dtype=np.int32)
        tensors |= {name: np.ones(E, dtype=np.float32) for name in ("scale_gate", "scale_up", "scale_c")}
        tensors["token_scale"] = np.ones(rows, dtype=np.float32)
        tensors |= {name: np.ones((E, N), dtype=np.float32) for name in BIASES}
        self.tensors = {name: fenced(tensor) for name, tensor in tensors.items()}
        self.args = ExpertsArgs(
            struct_bytes=ctypes.sizeof(ExpertsArgs), device=-1, scale_layout=layouts[1], experts=E, rows=ROWS, n=N, k=K,
            tokens=tokens, sfa_layout=layouts[0], output=2,
        )  # fmt: skip
        for name, tensor in self.tensors.items():
            setattr(self.args, name, tensor.ctypes.data)

    def __call__(self):
        status = self.library.custom_kernel_experts(ctypes.byref(self.args))
        return status, self.library.custom_kernel_message().decode() if status else ""

    def unwritten(self):
        return all((self.tensors[name] == 0xA5).all() for name in ("c", "sfc"))


@pytest.fixture(scope="module")
def library(library_path):
    library = ctypes.CDLL(str(library_path))
    library.custom_kernel_message.restype = ctypes.c_char_p
    return library


@pytest.mark.parametrize("tokens", [0, 1, 2])
@pytest.mark.parametrize("layouts", [(0, 0), (1, 1), (0, 1), (1, 0)])
def test_tensors_are_used_to_their_last_byte_and_no_further(library, tokens, layouts):
    call = Call(library, tokens, layouts)
    assert call() == (OK, "")
    written = (call.tensors["sfc"] != 0xA5).all(1).tolist()
    assert written == ([True] * 5 + [False] * 5 + [True] + [False] * 4 if tokens == 2 else [True] * 5)


def test_rows_that_belong_to_no_expert_are_not_written(library):
    call = Call(library)
    call.tensors["counts"][:] = (2, 0, 2)
    assert call() == (OK, "")
    for name in ("c", "sfc"):
        assert ((call.tensors[name] == 0xA5).all(1) == [False] * 4 + [True]).all(), name


def test_a_struct_may_end_before_the_scales_and_have_more_zeros(library):
    assert ctypes.sizeof(ExpertsArgs) == 240 and ExpertsArgs.scale_gate.offset == 144
    call = Call(library)
    call.args.output, call.args.struct_bytes = 0, 144
    call.tensors["c"] = fenced(np.full((ROWS, 2 * N), 0xA5, dtype=np.uint8))
    call.args.c = call.tensors["c"].ctypes.data
    assert call() == (OK, "")
    call.args.struct_bytes = 136
    assert call() == (ARGUMENT, "args->struct_bytes is 136; expected sizeof(struct custom_kernel_experts_args) = 240, "
                      "or 144 without scale_gate and what follows it")  # fmt: skip


WRONG = {
    "experts": (0, -1, 1025, 2**62),
    "rows": (-1, 2**31, 2**62),
    "n": (0, -64, 100, 2**62),
    "k": (0, 8, 100, -64),
    "device": (-2,),
    "scale_layout": (-1, 2),
    "tokens": (-1, 3),
    "sfa_layout": (-1, 2),
    "products": (-1, 1, 2),  # a plain product must not have b2
    "weights": (2, 8, 16),
    "output": (-1, 0, 3),  # fp16 output must not have sfc
    "activation": (-1, 4),
    "limit": (-1.0, float("nan")),
    "alpha": (float("inf"),),
    "beta": (float("nan"),),
    "reserved_float": (1.0,),
    "a_type": (-1, 1, 3),  # an A of 16 bits must not have sfa
    "reserved_2": (1,),
    "a_index": (64,),
    "a_rows": (1,),
}


@settings(max_examples=150, deadline=None)
@given(st.data())
def test_what_is_wrong_is_refused_in_one_line_and_nothing_is_written(library, data):
    call = Call(library, data.draw(st.sampled_from((0, 1, 2))))
    names = sorted({*WRONG, *call.tensors})
    name = data.draw(st.sampled_from(names))
    if name in WRONG:
        setattr(call.args, name, data.draw(st.sampled_from(WRONG[name])))
        expected = {ARGUMENT}
    else:
        required = name not in ("scale_gate", "scale_up", "scale_c", "token_scale", *BIASES)
        address = getattr(call.args, name)
        changed = data.draw(
            st.sampled_from(([0] if required else []) + [address + 1] + [2**64 - 16] * (call.tensors[name].nbytes > 16))
        )
        setattr(call.args, name, changed)
        expected = {NULL_POINTER} if changed == 0 else {ARGUMENT}
    status, message = call()
    assert status in expected and "\n" not in message and message and call.unwritten()


def test_outputs_may_not_overlap_any_tensor(library):
    for name in ("a", "b2", "sfa", "sfb1", "counts", "token_scale", "scale_c", "bias_up"):
        call = Call(library)
        call.args.c = call.tensors[name].ctypes.data // 16 * 16
        status, message = call()
        assert status == ARGUMENT and message.startswith("c at ") and call.unwritten()


def test_rows_that_an_index_names_end_at_the_last_one(library):
    """A of fp16 with two rows, each at the end of its memory; rows that a lacks are zeros, and rows of the others."""
    call = Call(library)
    call.args.a_type, call.args.sfa, call.args.a_rows = 1, None, 2
    call.args.bias_gate = call.args.bias_up = None
    halves = fenced(np.full((2, K), 0x3C00, dtype=np.uint16))
    index = fenced(np.array([1, 0, 2, -1, 1], dtype=np.int32))
    call.args.a, call.args.a_index = halves.ctypes.data, index.ctypes.data
    assert call() == (OK, "")
    assert (call.tensors["sfc"] == 0).all(1).tolist() == [False, False, True, True, False]
    for a_rows in (0, -1, 2**31):
        call.args.a_rows = a_rows
        status, message = call()
        assert status == ARGUMENT and message.startswith(f"a_rows is {a_rows}; expected ")
