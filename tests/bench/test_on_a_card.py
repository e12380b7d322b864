"""The card-only parts of benches and checks, with stand-ins for CUDA that record their calls."""

from __future__ import annotations

from types import SimpleNamespace

import pytest
import torch

from reference.reference import generate_input
from scripts.bench import check_gpu, host
from submission import custom_kernel

# --- the check on a card ----------------------------------------------------------------------------------------


@pytest.mark.parametrize("right", [True, False])
def test_a_graph_is_replayed_into_an_output_that_was_spoilt(monkeypatch, right):
    data = generate_input(16, 64, 128, 1, 3, device="cpu")
    queues = []

    class Graph:
        """Runs what was captured; the wrong one does nothing."""

        def __enter__(self):
            return self

        def __exit__(self, *_):
            return None

        def replay(self):
            if right:
                custom_kernel(data)

    def call(data, queue=None):
        queues.append(queue)
        return custom_kernel(data)

    monkeypatch.setattr(check_gpu, "poisoned", lambda *shape: assert_shape(shape, (256, 3072, 4096, 1)) or data)
    monkeypatch.setattr(check_gpu, "custom_kernel", call)
    monkeypatch.setattr(torch.cuda, "CUDAGraph", Graph)
    monkeypatch.setattr(torch.cuda, "graph", lambda graph: graph)
    monkeypatch.setattr(torch.cuda, "current_stream", lambda: SimpleNamespace(cuda_stream=77))
    monkeypatch.setattr(torch.cuda, "synchronize", lambda: None)
    found = list(check_gpu.capture())
    assert found == [(f"graph replay {i}", right, "differs from the call outside") for i in range(3)]
    assert queues == [None, 77]


def assert_shape(shape, wanted):
    assert shape == wanted


def test_bad_calls_are_refused_and_the_next_one_works(monkeypatch):
    data = generate_input(16, 64, 128, 1, 3, device="cpu")
    answers = iter([ValueError("on two"), None, TypeError("of bytes"), ValueError("tensors on CUDA"), None])
    seen = []

    def call(data):
        import os

        seen.append(os.environ.get("NVFP4_BACKEND"))
        answer = next(answers)
        if answer is not None:
            raise answer
        return "output"

    monkeypatch.delenv("NVFP4_BACKEND", raising=False)
    monkeypatch.setattr(check_gpu, "poisoned", lambda *shape: assert_shape(shape, (128, 128, 256, 1)) or data)
    monkeypatch.setattr(check_gpu, "custom_kernel", call)
    monkeypatch.setattr(check_gpu, "check_implementation", lambda of, output: (of is data and output == "output", "so"))
    assert list(check_gpu.errors()) == [
        ("mixed devices", True, "on two"),
        ("host inputs", False, "was accepted"),
        ("wrong dtype", True, "of bytes"),
        ("cpu backend on CUDA tensors", True, "tensors on CUDA"),
        ("works afterwards", True, "so"),
    ]
    assert seen == [None, None, None, "cpu", None]
    answers = iter([ValueError("a"), ValueError("b"), TypeError("c"), ValueError("of the host"), None])
    assert [(what, ok) for what, ok, _ in check_gpu.errors()][3] == ("cpu backend on CUDA tensors", False)
    answers = iter([ValueError("a"), ValueError("b"), TypeError("c"), None, None])
    assert list(check_gpu.errors())[3] == ("cpu backend on CUDA tensors", False, "was accepted")
    answers = iter([ValueError("a"), RuntimeError("the device is lost")])
    with pytest.raises(RuntimeError, match="the device is lost"):
        list(check_gpu.errors())


# --- programs ---------------------------------------------------------------------------------------------------


def test_the_host_bench_of_groups_keeps_what_a_call_packed(monkeypatch):
    """The bundle's shim is timed with packing in Python, so that the same struct can be passed again."""
    costs = {"shim": 5.0, "package": 6.0, "library": 4.0, "ctypes": 1.0, "packing": 9.0}
    called = []

    def sample_us(call, argument):
        called.append((call, argument))
        call(argument)
        return costs[order[(len(called) - 1) % len(order)]]

    native = host.group_submission._call_python is not None
    order = ["shim", "package", "library", "ctypes", *(["packing"] if native else [])]
    monkeypatch.setattr(host, "sample_us", sample_us)
    found = host.measure(2, "group_gemm")
    more = {"packing_us": 6.0} if native else {}
    assert found == {"work_us": 3.0, "ctypes_us": 1.0, "shim_us": 2.0, "package_us": 3.0, **more}
    assert len(called) == 2 * len(order) and called[2][1] is called[3][1]
    assert called[1][0] is host.group_submission.custom_kernel
    if native:
        assert called[4][0].__globals__["_call_python"] is None
        assert called[0][0].__globals__ is not called[4][0].__globals__
