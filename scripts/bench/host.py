"""The host cost of one call of the shim on a minimal CPU problem, and its parts.

The shim alone, as in a bundle, and the package, which checks more of its tensors, are measured in turns.  The cost is
processor time of the calling thread, which other work on the machine disturbs less than wall time.
"""

from __future__ import annotations

import argparse
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
from reference import group_reference
from reference.problems import DEFAULT, PROBLEMS, short_name
from reference.problems.interface import BOARD, blank
from reference.reference import generate_input
from submission import group_submission, product_submission
from submission import submission as packaged

ROOT = Path(__file__).resolve().parents[2]
GOALS_US = {"dual_gemm": 4.0, "group_gemm": 8.0, "gemm": 8.0, "gemv": 8.0}
CALLS_PER_SAMPLE = 2000
GROUPS = 8  # the most that the leaderboard has


def sample_us(call: Callable[[Any], object], argument: object) -> float:
    """Mean time of call(argument) over CALLS_PER_SAMPLE calls in a row, of this thread."""
    start = time.thread_time_ns()
    for _ in range(CALLS_PER_SAMPLE):
        call(argument)
    return (time.thread_time_ns() - start) / CALLS_PER_SAMPLE / 1e3


def alone(shim: ModuleType = packaged) -> ModuleType:
    """The shim as in a bundle, without what the package adds to it."""
    spec = importlib.util.spec_from_file_location(f"{shim.__package__}.shim_alone", shim.__file__)
    module = importlib.util.module_from_spec(spec)
    spec.loader.exec_module(module)
    return module


class _Kept:
    """Buffers of a packed struct that outlive their call."""

    def __init__(self, shim: ModuleType) -> None:
        self._packing, self._made = shim._packing, []

    def __call__(self, groups: int) -> tuple[Callable[..., None], Callable[[], object]]:
        pack_into, buffer_type = self._packing(groups)

        def make() -> object:
            self._made.append(buffer_type())
            return self._made[-1]

        return pack_into, make


def measure(repeats: int, problem: str = DEFAULT.name) -> dict[str, float]:
    """Medians in us of interleaved samples: whole calls, the C work in them, and the differences."""
    grouped, product = problem == "group_gemm", problem in ("gemm", "gemv")
    ours = group_submission if grouped else product_submission if product else packaged
    data: Any = generate_input(1, 1, 64, 1, 1111, device="cpu")
    if product:
        shape, cpu = PROBLEMS[problem].shape({"m": 1, "n": 1, "k": 64, "l": 1}), torch.device("cpu")
        data = shape.data(shape.generate(1111, BOARD, cpu), blank(shape, cpu))
    if grouped:
        data = group_reference.generate_input((1,) * GROUPS, (1,) * GROUPS, (64,) * GROUPS, GROUPS, 1111, device="cpu")
    shim = alone(ours)
    packed = {}
    call_name = "_call_grouped" if grouped else "_call"
    real_call = getattr(shim, call_name)

    def record(args: object) -> int:
        packed["args"] = args
        return real_call(args)

    setattr(shim, call_name, record)
    if grouped or product:
        packing, shim._packing = shim._packing, _Kept(shim)
        shim._call_python = None  # packs in Python, as with an older torch
    shim.custom_kernel(data)
    setattr(shim, call_name, real_call)
    if grouped or product:
        kept, shim._packing = shim._packing, packing
        packed["kept"] = kept
    # The work itself is the library call with the same packed struct, less the cost of a ctypes call.
    version = shim._library.custom_kernel_version
    version.argtypes = real_call.argtypes  # the callee ignores it; converting it costs as much as the kernel's argument
    calls: dict[str, tuple[Callable[[Any], object], object]] = {
        "shim": (shim.custom_kernel, data),
        "package": (ours.custom_kernel, data),
        "library": (real_call, packed["args"]),
        "ctypes": (version, packed["args"]),
    }
    if grouped and ours._call_python is not None:
        calls |= {"packing": (shim.custom_kernel, data), "shim": (alone(ours).custom_kernel, data)}
    samples: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(repeats):
        for name, (call, argument) in calls.items():
            samples[name].append(sample_us(call, argument))
    medians = {name: median(values) for name, values in samples.items()}
    work = medians["library"] - medians["ctypes"]
    result = {"work_us": work, "ctypes_us": medians["ctypes"]}
    return result | {f"{name}_us": medians[name] - work for name in ("shim", "packing", "package") if name in medians}


def main() -> int:
    """Prints the host costs; --json FILE keeps them."""
    parser = argparse.ArgumentParser(description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=int, default=30)
    parser.add_argument("--json", type=Path, metavar="FILE")
    parser.add_argument("--problem", type=short_name, choices=GOALS_US, default=DEFAULT.name)
    options = parser.parse_args()
    result = measure(options.repeats, options.problem)
    sizes = "M 1, N 1, K 64" if options.problem != "group_gemm" else f"{GROUPS} groups of M 1, N 1, K 64"
    print(
        f"host cost of a call, minimal CPU problem ({sizes}): the shim {result['shim_us']:.2f} us "
        f"(goal {GOALS_US[options.problem]:.0f} us), of which the ctypes call {result['ctypes_us']:.2f} us; "
        + (f"packed in Python {result['packing_us']:.2f} us; " if "packing_us" in result else "")
        + f"in the package {result['package_us']:.2f} us; the work in C takes {result['work_us']:.2f} us more"
    )
    if options.json:
        origin = {"processor": chip.name(torch.device("cpu")), "torch": torch.__version__}
        options.json.write_text(json.dumps({**origin, **result, "goal_us": GOALS_US[options.problem]}, indent=2) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
