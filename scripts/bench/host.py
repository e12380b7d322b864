"""The host cost of one call of the shim on a minimal CPU problem, and what it is made of.

Measured in turns: the shim alone, as a bundle has it, and as part of the package, which asks more of its tensors.
It is processor time of the calling thread: other work on the machine adds less to it.
"""

from __future__ import annotations

import argparse
import ctypes
import importlib.util
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from types import ModuleType
from typing import Any

import torch

from eval.hardware import chip
from reference.reference import generate_input
from submission import submission as packaged

ROOT = Path(__file__).resolve().parents[2]
GOAL_US = 4.0
CALLS_PER_SAMPLE = 2000


def sample_us(call: Callable[[Any], object], argument: object) -> float:
    """Mean time of call(argument) over CALLS_PER_SAMPLE calls in a row, of this thread."""
    start = time.thread_time_ns()
    for _ in range(CALLS_PER_SAMPLE):
        call(argument)
    return (time.thread_time_ns() - start) / CALLS_PER_SAMPLE / 1e3


def alone() -> ModuleType:
    """The shim as a bundle or a bare file has it: what the package puts into it is not there."""
    spec = importlib.util.spec_from_file_location("shim_alone", packaged.__file__)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


def measure(repeats: int) -> dict[str, float]:
    """Medians in us of interleaved samples: whole calls, the C work in them, and the differences."""
    data = generate_input(1, 1, 64, 1, 1111, device="cpu")
    shim = alone()
    packed = {}
    real_call = shim._call

    def record(args: bytes) -> int:
        packed["args"] = args
        return real_call(args)

    shim._call = record
    shim.custom_kernel(data)
    shim._call = real_call
    # The same library call from the same packed struct, less what one ctypes call costs: the work itself.
    version = shim._library.custom_kernel_version
    version.argtypes = (ctypes.c_char_p,)  # ignored by the callee: costs what custom_kernel's argument costs
    calls: dict[str, tuple[Callable[[Any], object], object]] = {
        "shim": (shim.custom_kernel, data),
        "package": (packaged.custom_kernel, data),
        "library": (real_call, packed["args"]),
        "ctypes": (version, packed["args"]),
    }
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, (call, argument) in calls.items():
            samples[name].append(sample_us(call, argument))
    medians = {name: median(values) for name, values in samples.items()}
    work = medians["library"] - medians["ctypes"]
    return {
        "work_us": work,
        "ctypes_us": medians["ctypes"],
        "shim_us": medians["shim"] - work,
        "package_us": medians["package"] - work,
    }


def main() -> int:
    """Prints the host costs; --json FILE keeps them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    result = measure(options.repeats)
    print(
        f"host cost of a call, minimal CPU problem (M 1, N 1, K 64): the shim {result['shim_us']:.2f} us "
        f"(goal {GOAL_US:.0f} us), of which the ctypes call {result['ctypes_us']:.2f} us; "
        f"in the package {result['package_us']:.2f} us; the work in C is {result['work_us']:.2f} us beside it"
    )
    if options.json:
        origin = {"processor": chip.name(torch.device("cpu")), "torch": torch.__version__}
        options.json.write_text(json.dumps({**origin, **result, "goal_us": GOAL_US}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
