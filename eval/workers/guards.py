"""Checks of a submission's behaviour inside the worker, with references taken before the submission is loaded.

The parent process checks the results, out of the submission's reach. Only the worker can see replaced functions and
outputs that are not plain tensors with memory of their own.
"""

from __future__ import annotations

import builtins
import sys
import time
from collections.abc import Iterable
from typing import NamedTuple

import torch

from eval.lending.layout import Extent, extent

_WATCHED = (
    (time, ("perf_counter", "perf_counter_ns", "time", "time_ns", "monotonic", "monotonic_ns", "sleep")),
    (builtins, ("sum", "min", "max", "len", "abs", "all", "any", "isinstance", "type", "open")),
    (torch, ("equal", "empty", "full", "allclose", "isclose", "tensor", "rand", "randint", "where")),
    (torch.Tensor, ("clone", "copy_", "fill_", "cpu", "numpy", "sum", "data_ptr", "view", "__eq__", "contiguous")),
    (torch.cuda, ("Event", "synchronize", "current_device", "is_available")),
    (torch.cuda.Event, ("record", "elapsed_time", "synchronize")),
)
_HARNESS_PACKAGES = ("eval.", "reference.")


class _Seen(NamedTuple):
    owner: object
    name: str
    value: object
    code: object  # of a Python function, whose code can be replaced while the object stays the same


def _harness_places() -> list[tuple[object, str]]:
    """Every global of the harness's modules, and every method of the classes defined there."""
    places: list[tuple[object, str]] = []
    for module_name, module in list(sys.modules.items()):
        if module is None or not module_name.startswith(_HARNESS_PACKAGES):
            continue
        for name, value in list(vars(module).items()):
            if not name.startswith("__"):
                places.append((module, name))
            if isinstance(value, type) and value.__module__ == module_name:
                places += [(value, method) for method in list(vars(value)) if callable(getattr(value, method))]
    return places


class FunctionWatch:
    """Remembers the functions that timing and checking rely on; created before the submission is imported."""

    def __init__(self) -> None:
        places = [(owner, name) for owner, names in _WATCHED for name in names] + _harness_places()
        self._seen = [
            _Seen(owner, name, value, getattr(value, "__code__", None))
            for owner, name in places
            if (value := getattr(owner, name, None)) is not None
        ]

    def replaced(self) -> str | None:
        """The first function that has been replaced, if any."""
        for owner, name, value, code in self._seen:
            now = getattr(owner, name, None)
            # Methods of C types are new objects at each access; equality compares what they are bound to.
            same = now is value or (type(now) is type(value) and callable(value) and now == value)
            if not same or getattr(now, "__code__", None) is not code:
                return f"{getattr(owner, '__name__', owner)}.{name}"
        return None


def _overlaps(x: Extent, others: Iterable[Extent]) -> bool:
    return any(x[0] < end and begin < x[1] for begin, end in others)


def output_problem(output: object, c: torch.Tensor, inputs: Iterable[Extent], earlier: Iterable[Extent]) -> str | None:
    """What is wrong with the form of an output, if anything.

    It must be a plain strided fp16 tensor with c's shape, strides and device. It must not share memory with an input or
    with the output of an earlier call in the same round.
    """
    if type(output) is not torch.Tensor:
        return f"the output is a {type(output).__name__}; expected a plain torch.Tensor"
    if output.layout is not torch.strided:
        return f"the output has layout {output.layout}; expected torch.strided"
    if output.shape != c.shape:
        return f"the output has shape {tuple(output.shape)}; expected {tuple(c.shape)}"
    if output.dtype is not c.dtype:
        return f"the output has dtype {output.dtype}; expected {c.dtype}"
    if output.device != c.device:
        return f"the output is on {output.device}; expected {c.device}"
    if output.is_neg() or output.is_conj() or output._is_zerotensor():
        return "the output is a lazy view of other data; expected plain memory"
    strides = zip(output.shape, output.stride(), c.stride(), strict=True)
    if any(size > 1 and got != want for size, got, want in strides):
        return f"the output has strides {output.stride()}; expected {c.stride()}"
    span = extent(output)
    if _overlaps(span, inputs):
        return "the output shares memory with an input"
    if _overlaps(span, earlier):
        return "the output shares memory with the output of an earlier call"
    return None
