"""The host cost of one call of the shim on a minimal CPU problem, and what it is made of."""

from __future__ import annotations

import argparse
import ctypes
import json
import sys
import time
from collections.abc import Callable
from pathlib import Path
from statistics import median
from typing import Any

from reference.reference import generate_input
from submission import submission as shim

ROOT = Path(__file__).resolve().parents[2]
GOAL_US = 4.0
CALLS_PER_SAMPLE = 2000


def sample_us(call: Callable[[Any], object], argument: object) -> float:
    """Mean time of call(argument) over CALLS_PER_SAMPLE calls in a row."""
    start = time.perf_counter_ns()
    for _ in range(CALLS_PER_SAMPLE):
        call(argument)
    return (time.perf_counter_ns() - start) / CALLS_PER_SAMPLE / 1e3


def measure(repeats: int) -> dict[str, float]:
    """Medians in us of interleaved samples: a whole call, the C work in it, and the difference."""
    data = generate_input(1, 1, 64, 1, 1111, device="cpu")
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
        "call": (shim.custom_kernel, data),
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
        "call_us": medians["call"],
        "work_us": work,
        "ctypes_us": medians["ctypes"],
        "host_us": medians["call"] - work,
    }


def main() -> int:
    """Prints the host cost; --json FILE keeps it."""
    parser = argparse.ArgumentParser(description=__doc__)
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--json", type=Path, metavar="FILE")
    options = parser.parse_args()
    result = measure(options.repeats)
    print(
        f"host cost of a call, minimal CPU problem (M 1, N 1, K 64): {result['host_us']:.2f} us "
        f"(goal {GOAL_US:.0f} us), of which the ctypes call {result['ctypes_us']:.2f} us; "
        f"the work in C is {result['work_us']:.2f} us beside it"
    )
    if options.json:
        options.json.write_text(json.dumps({**result, "goal_us": GOAL_US}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
