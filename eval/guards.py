"""What the worker checks of a submission's behaviour, with references taken before the submission was loaded.

The result itself is checked in the parent process, out of the submission's reach; here are the things only the
worker can see: replaced functions, modified inputs, and outputs that are not plain tensors of their own.
"""

from __future__ import annotations

import builtins
import sys
import time
from collections.abc import Sequence

import torch

_WATCHED = (
    (time, ("perf_counter", "perf_counter_ns", "time", "time_ns", "monotonic", "monotonic_ns", "sleep")),
    (builtins, ("sum", "min", "max", "len", "abs", "all", "any", "isinstance", "type", "open", "print")),
    (torch, ("equal", "empty", "full", "allclose", "isclose", "tensor", "rand", "randint", "where")),
    (
        torch.Tensor,
        ("clone", "copy_", "fill_", "cpu", "numpy", "sum", "data_ptr", "view", "__eq__", "contiguous"),
    ),
    (torch.cuda, ("Event", "synchronize", "current_device", "is_available")),
    (torch.cuda.Event, ("record", "elapsed_time", "synchronize")),
)
_HARNESS_PACKAGES = ("eval.", "reference.")


def _harness_functions() -> list[tuple[object, str]]:
    """Every callable in the harness's own modules."""
    return [
        (module, name)
        for module_name, module in list(sys.modules.items())
        if module_name.startswith(_HARNESS_PACKAGES) and module is not None
        for name, value in list(vars(module).items())
        if callable(value)
    ]


class FunctionWatch:
    """Remembers which functions the timing and checking rest on; made before the submission is imported."""

    def __init__(self) -> None:
        places = [(owner, name) for owner, names in _WATCHED for name in names] + _harness_functions()
        self._seen = [(owner, name, getattr(owner, name)) for owner, name in places if hasattr(owner, name)]

    def replaced(self) -> str | None:
        """The first function that is not what it was, if any."""
        for owner, name, function in self._seen:
            # Methods of C types are made anew at each look; equality compares what they are bound to.
            if getattr(owner, name, None) != function:
                return f"{getattr(owner, '__name__', owner)}.{name}"
        return None


def fingerprint(tensor: torch.Tensor) -> tuple[int, int]:
    """Two 64-bit sums over a tensor's memory: changes with any single byte."""
    raw = tensor.detach().permute(sorted(range(tensor.ndim), key=lambda d: -tensor.stride(d)))
    raw = raw.contiguous().view(torch.uint8).flatten()
    words = torch.nn.functional.pad(raw, (0, -raw.numel() % 8)).view(torch.int64)
    odd = torch.arange(words.numel(), device=words.device) * 2 + 1  # sees an exchange of words, too
    return int(words.sum()), int((words * odd).sum())


def _extent(tensor: torch.Tensor) -> tuple[int, int]:
    storage = tensor.untyped_storage()
    return storage.data_ptr(), storage.data_ptr() + storage.nbytes()


def _overlap(x: torch.Tensor, y: torch.Tensor) -> bool:
    (x_begin, x_end), (y_begin, y_end) = _extent(x), _extent(y)
    return x.device == y.device and x_begin < y_end and y_begin < x_end


def output_problem(output: object, data: Sequence[torch.Tensor], earlier: Sequence[torch.Tensor]) -> str | None:
    """What is wrong with the form of an output, if anything.

    It has to be a plain strided fp16 tensor of c's shape on c's device, in memory that belongs to no input and to
    no output of an earlier call in the same round.
    """
    c = data[-1]
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
    for tensor in data[:-1]:
        if _overlap(output, tensor):
            return "the output shares memory with an input"
    for tensor in earlier:
        if _overlap(output, tensor):
            return "the output shares memory with the output of an earlier call"
    if any(size > 1 and stride == 0 for size, stride in zip(output.shape, output.stride(), strict=True)):
        return "the output's elements share memory"
    return None
