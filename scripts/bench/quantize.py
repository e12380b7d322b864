"""Times the quantizer on a CUDA device: against a copy where x is large, at a row, and fused beside unfused.

    python -m scripts.bench.quantize [--json FILE]

Every time is a CUDA graph's of calls in a row, the median of several replays divided by their number; large calls go
through several tensors, which L2 cannot hold.  Bandwidth counts what is read and what is written, once each.
"""

from __future__ import annotations

import argparse
import json
import statistics
import sys
from collections.abc import Callable

import torch
from torch.nn import functional

from scripts.bench.provenance import need_device
from scripts.common.options import output_file
from submission import plain_gemm, quantize_nvfp4, rms_norm_quantize_nvfp4, silu_mul_quantize_nvfp4

K = 8192
MEGABYTES = (64, 256, 1024)
ROTATED_BYTES = 256 << 20  # of the tensors that small calls go through, together
REPLAYS, WARM_UP = 9, 3
TYPES = (torch.bfloat16, torch.float16, torch.float32)
NVFP4_BYTES = 1 / 2 + 1 / 16  # of a number


def microseconds(call: Callable[[int], object], calls: int) -> float:
    """The time of call(i) in a graph of `calls` calls, i from 0 on."""
    for i in range(min(calls, 3)):
        call(i)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for i in range(calls):
            call(i)
    times = []
    for i in range(WARM_UP + REPLAYS):
        begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
        begin.record()
        graph.replay()
        end.record()
        torch.cuda.synchronize()
        if i >= WARM_UP:
            times.append(1e3 * begin.elapsed_time(end) / calls)
    return statistics.median(times)


def bandwidths() -> list[dict[str, object]]:
    """Of a copy and of the quantizer, for x of 64 MB and more."""
    rows = []
    for dtype in TYPES:
        for megabytes in MEGABYTES:
            count = max(1, ROTATED_BYTES // (megabytes << 20))
            tensors = [
                torch.randn((megabytes << 20) // dtype.itemsize // K, K, device="cuda", dtype=dtype)
                for _ in range(count)
            ]
            to, size = torch.empty_like(tensors[0]), tensors[0].numel()
            copy = 2 * size * dtype.itemsize / microseconds(lambda i, t=tensors, to=to: to.copy_(t[i % len(t)]), 4)
            row: dict[str, object] = {"dtype": str(dtype), "MB": megabytes, "copy GB/s": copy / 1e3}
            for layout in ("linear", "swizzled128x4", "swizzled8x4"):
                us = microseconds(lambda i, t=tensors, layout=layout: quantize_nvfp4(t[i % len(t)], None, layout), 4)
                found = size * (dtype.itemsize + NVFP4_BYTES) / us
                row[layout] = found / copy
            rows.append(row)
            del tensors, to
            torch.cuda.empty_cache()
    return rows


def forms(m: int, hidden: int) -> dict[str, Callable[[], object]]:
    """The three forms beside torch's own operations before the quantizer, and before a product."""
    layout, scale = "swizzled128x4", torch.ones((), device="cuda")
    x = torch.randn(m, hidden, device="cuda", dtype=torch.bfloat16)
    residual, wide = torch.randn_like(x), torch.randn(m, 2 * hidden, device="cuda", dtype=torch.bfloat16)
    weight = torch.rand(hidden, device="cuda", dtype=torch.bfloat16)
    b, sfb = quantize_nvfp4(torch.randn(4096, hidden, device="cuda"), 1.0, layout)
    made = quantize_nvfp4(x, scale, layout)

    def product(a: torch.Tensor, sfa: torch.Tensor) -> torch.Tensor:
        return plain_gemm(a, b, sfa, sfb, scale=scale, scale_layout=layout)

    def unfused_norm() -> object:
        normed = functional.rms_norm(x + residual, weight.shape, weight, 1e-6)
        return quantize_nvfp4(normed, scale, layout)

    def unfused_gate() -> object:
        return quantize_nvfp4(functional.silu(wide[:, :hidden]) * wide[:, hidden:], scale, layout)

    return {
        "quantize": lambda: quantize_nvfp4(x, scale, layout),
        "norm": lambda: rms_norm_quantize_nvfp4(x, weight, 1e-6, scale, layout, residual=residual),
        "norm unfused": unfused_norm,
        "gate": lambda: silu_mul_quantize_nvfp4(wide, scale, layout),
        "gate unfused": unfused_gate,
        "product": lambda: product(*made),
        "quantize, product": lambda: product(*quantize_nvfp4(x, scale, layout)),
    }


def small_calls() -> list[dict[str, object]]:
    """Microseconds of each call of forms(), by rows and columns of x."""
    rows = []
    for m in (1, 16, 256, 4096):
        for hidden in (2048, 7168):
            times = {name: microseconds(lambda _, call=call: call(), 32) for name, call in forms(m, hidden).items()}
            rows.append({"rows": m, "hidden": hidden, **times})
    return rows


def _table(rows: list[dict[str, object]], digits: int) -> str:
    names = list(rows[0])
    lines = ["| " + " | ".join(names) + " |", "|" + " --: |" * len(names)]
    for row in rows:
        cells = (f"{v:.{digits}f}" if isinstance(v, float) else str(v) for v in row.values())
        lines.append("| " + " | ".join(cells) + " |")
    return "\n".join(lines)


def main() -> int:
    """Prints the tables; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="./nvfp4 bench quantize", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=output_file, metavar="FILE")
    options = parser.parse_args()
    need_device(parser)
    torch.manual_seed(1)
    large, small = bandwidths(), small_calls()
    print(f"{torch.cuda.get_device_name()}: bandwidth by layout, of a copy's\n\n{_table(large, 3)}")
    print(f"\nmicroseconds a call, bfloat16, columns = hidden\n\n{_table(small, 2)}")
    if options.json:
        found = {"device": torch.cuda.get_device_name(), "bandwidth": large, "us": small}
        options.json.write_text(json.dumps(found, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
