"""The host cost of one call of the shim on a minimal CPU problem, and its parts; or of the operators of PyTorch.

The shim alone, as in a bundle, and the package, which checks more of its tensors, are measured in turns.  The cost is
processor time of the calling thread, which other work on the machine disturbs less than wall time.

--operators measures the eager products and quantizers beside torch.mm(out=) in turns: on a CUDA device by the time that
a row of calls takes the host, on CPU tensors without rows (M = 0), so that no arithmetic is timed.
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
from scripts.common.options import output_file, positive
from submission import (
    backends,
    dual_gemm,
    gated_gemm,
    group_submission,
    grouped_gated_gemm,
    grouped_plain_gemm,
    plain_gemm,
    product_submission,
    quantize_nvfp4,
    rms_norm_quantize_nvfp4,
    silu_mul_quantize_nvfp4,
)
from submission import submission as packaged
from submission.shim import library

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
        self._packing, self._made = shim.packing, []

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
    call_name = "call_grouped" if grouped or product else "_call"
    real_call = getattr(shim, call_name)

    def record(args: object) -> int:
        packed["args"] = args
        return real_call(args)

    setattr(shim, call_name, record)
    if grouped or product:
        packing, shim.packing = shim.packing, _Kept(shim)
        shim._call_python = None  # packs in Python, as with an older torch
    shim.custom_kernel(data)
    setattr(shim, call_name, real_call)
    if grouped or product:
        kept, shim.packing = shim.packing, packing
        packed["kept"] = kept
    # The work itself is the library call with the same packed struct, less the cost of a ctypes call.
    version = library.custom_kernel_version
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


OPERATOR_ROWS = (1, 16, 256)
OPERATOR_N, OPERATOR_K, OPERATOR_EXPERTS = 768, 2048, 4
QUEUED_CALLS = 200  # in a row: few enough that the device's queue, which holds 1,024, does not hold the host up


def _operator_calls(device: torch.device, m: int) -> dict[str, Callable[[], object]]:
    """Calls of one shape, with the options that a model uses; torch.mm writes bf16 to a tensor that is there."""

    def ones(rows: int, columns: int, dtype: torch.dtype = torch.uint8) -> torch.Tensor:
        return torch.ones(rows, columns, dtype=dtype, device=device)

    n, k = OPERATOR_N, OPERATOR_K
    a, b1, b2 = ones(m, k // 2), ones(n, k // 2), ones(n, k // 2)
    sfa, sfb1, sfb2 = ones(m, k // 16), ones(n, k // 16), ones(n, k // 16)
    scale = torch.ones((), device=device)
    x, w, out = (ones(*size, torch.bfloat16) for size in ((m, k), (k, n), (m, n)))
    gated = {"scale_gate": scale, "scale_up": scale, "out_dtype": torch.bfloat16, "scale_layout": "linear"}
    of_experts = [one.expand(OPERATOR_EXPERTS, *one.shape).contiguous() for one in (b1, b2, sfb1, sfb2)]
    e1, e2, sfe1, sfe2 = of_experts
    counts = torch.tensor([m] + [0] * (OPERATOR_EXPERTS - 1), dtype=torch.int32, device=device)
    grouped = {"counts": counts, "out_dtype": torch.bfloat16, "scale_layout": "linear"}
    both = ones(m, 2 * k, torch.bfloat16)
    return {
        "torch.mm(out=)": lambda: torch.mm(x, w, out=out),
        "dual_gemm": lambda: dual_gemm(a, b1, b2, sfa, sfb1, sfb2, scale_layout="linear"),
        "gated_gemm": lambda: gated_gemm(a, b1, b2, sfa, sfb1, sfb2, **gated),
        "plain_gemm": lambda: plain_gemm(
            a, b1, sfa, sfb1, scale=scale, out_dtype=torch.bfloat16, scale_layout="linear"
        ),
        "grouped_gated_gemm": lambda: grouped_gated_gemm(a, e1, e2, sfa, sfe1, sfe2, **grouped),
        "grouped_plain_gemm": lambda: grouped_plain_gemm(a, e1, sfa, sfe1, **grouped),
        "quantize_nvfp4": lambda: quantize_nvfp4(x, scale),
        "rms_norm_quantize_nvfp4": lambda: rms_norm_quantize_nvfp4(x, None, 1e-6, scale, residual=x),
        "silu_mul_quantize_nvfp4": lambda: silu_mul_quantize_nvfp4(both, scale),
    }


def _queue_us(call: Callable[[], object], device: torch.device) -> float:
    """Mean time that one of QUEUED_CALLS calls in a row takes the host."""
    if device.type == "cuda":
        torch.cuda.synchronize()
    start = time.perf_counter_ns()
    for _ in range(QUEUED_CALLS):
        call()
    taken = (time.perf_counter_ns() - start) / QUEUED_CALLS / 1e3
    if device.type == "cuda":
        torch.cuda.synchronize()
    return taken


def measure_operators(repeats: int) -> dict[str, dict[str, float]]:
    """Medians in us by M and call, of samples in turns."""
    on_card = torch.cuda.is_available() and any(one.available and one.name != "cpu" for one in backends())
    device = torch.device("cuda" if on_card else "cpu")
    found = {}
    for m in OPERATOR_ROWS if on_card else (0,):
        calls = _operator_calls(device, m)
        samples: dict[str, list[float]] = {name: [] for name in calls}
        for _ in range(repeats + 1):  # the first is a warm-up
            for name, call in calls.items():
                samples[name].append(_queue_us(call, device))
        found[str(m)] = {name: median(values[1:]) for name, values in samples.items()}
    return found


def print_operators(found: dict[str, dict[str, float]]) -> None:
    """One line for each M."""
    print(f"host time of an eager call, N {OPERATOR_N}, K {OPERATOR_K}, us (of torch.mm(out=)'s):")
    for m, times in found.items():
        base = times["torch.mm(out=)"]
        print(f"  M {m:>4}  " + ", ".join(f"{name} {us:.2f} ({us / base:.2f})" for name, us in times.items()))


def main() -> int:
    """Prints the host costs; --json FILE keeps them."""
    parser = argparse.ArgumentParser(prog="./nvfp4 bench host", description=__doc__.splitlines()[0])
    parser.add_argument("--repeats", type=positive, default=30)
    parser.add_argument("--json", type=output_file, metavar="FILE")
    parser.add_argument("--problem", type=short_name, choices=GOALS_US, default=DEFAULT.name)
    parser.add_argument("--operators", action="store_true", help="measure the operators of PyTorch")
    options = parser.parse_args()
    if options.operators:
        found = measure_operators(options.repeats)
        print_operators(found)
        if options.json:
            device = torch.device("cuda" if torch.cuda.is_available() else "cpu")
            options.json.write_text(
                json.dumps({"device": chip.name(device), "torch": torch.__version__, "host_us": found}, indent=2) + "\n"
            )
        return 0
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
