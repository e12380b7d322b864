"""Times the extended GEMM at few and many rows of A beside the dual GEMM and torch's bf16, as a model decodes.

    python -m scripts.bench.extended.rows [--sizes 2048x768 ...] [--rows 1 16 ...] [--json FILE]

A size is hidden x intermediate.  Each column is a CUDA graph of calls in a row with the weights of several layers in
rotation, more than L2 holds; a cell is microseconds a call, the median of several replays, and in brackets the ratio to
the dual GEMM.  All columns read the same number of weights: gate and up, or one product with both.

  gated          gated_gemm with global scales            plain          plain_gemm with all rows
  token, nvfp4   gated_gemm with all scales, to NVFP4     bf16 A         gated_gemm of an A in bfloat16
  fp16 A         gated_gemm of an A in float16            bf16 A plain   plain_gemm of an A in bfloat16
  torch bf16     a @ b^T with weights in bfloat16, without the activation
"""

from __future__ import annotations

import argparse
import json
import sys
from collections.abc import Callable

import torch

from reference import nvfp4
from scripts.bench.provenance import need_device
from scripts.bench.quantize import microseconds
from scripts.common.options import output_file, positive
from submission import dual_gemm, gated_gemm, plain_gemm

SIZES = ("2048x768", "7168x2048", "4096x14336")
ROWS = (1, 16, 32, 64, 128, 256, 1024)
WEIGHT_BYTES = 160 << 20  # of a column's layers together: three times the largest L2
Call = Callable[[int], object]  # the argument is the layer


def _operand(rows: int, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    codes = torch.randint(0, 256, (rows, k // 2), dtype=torch.uint8, device="cuda")
    scales = torch.randint(0x28, 0x41, (rows, k // 16), dtype=torch.uint8, device="cuda")
    return codes, nvfp4.to_blocked(scales.view(torch.float8_e4m3fn).unsqueeze(-1))[..., 0]


def columns(m: int, hidden: int, intermediate: int) -> dict[str, tuple[Call, int]]:
    """Each column's call and its number of layers, the dual GEMM first."""
    fp4_layers = max(2, -(-WEIGHT_BYTES // (intermediate * hidden * 9 // 8)))
    bf16_layers = max(2, -(-WEIGHT_BYTES // (intermediate * hidden * 4)))
    layers = [(_operand(intermediate, hidden), _operand(intermediate, hidden)) for _ in range(fp4_layers)]
    joint = [_operand(2 * intermediate, hidden) for _ in range(fp4_layers)]
    bf16 = [torch.randn(2 * intermediate, hidden, device="cuda", dtype=torch.bfloat16) for _ in range(bf16_layers)]
    a, sfa = _operand(m, hidden)
    halves = {kind: torch.randn(m, hidden, device="cuda").to(kind) for kind in (torch.float16, torch.bfloat16)}
    small, tokens = torch.full((), 1e-3, device="cuda"), torch.rand(m, device="cuda") + 0.5

    def gated(a: torch.Tensor, sfa: torch.Tensor | None, **options: object) -> Call:
        def call(layer: int) -> object:
            (b1, sfb1), (b2, sfb2) = layers[layer]
            return gated_gemm(a, b1, b2, sfa, sfb1, sfb2, scale_gate=small, scale_up=small, **options)

        return call

    def plain(a: torch.Tensor, sfa: torch.Tensor | None) -> Call:
        return lambda layer: plain_gemm(a, joint[layer][0], sfa, joint[layer][1], scale=small, out_dtype="bfloat16")

    def dual(layer: int) -> object:
        (b1, sfb1), (b2, sfb2) = layers[layer]
        return dual_gemm(a, b1, b2, sfa, sfb1, sfb2)

    return {
        "dual": (dual, fp4_layers),
        "gated": (gated(a, sfa, out_dtype="bfloat16"), fp4_layers),
        "token, nvfp4": (gated(a, sfa, token_scale=tokens, scale_c=small, out_dtype="nvfp4"), fp4_layers),
        "plain": (plain(a, sfa), fp4_layers),
        "bf16 A": (gated(halves[torch.bfloat16], None, out_dtype="bfloat16"), fp4_layers),
        "fp16 A": (gated(halves[torch.float16], None), fp4_layers),
        "bf16 A plain": (plain(halves[torch.bfloat16], None), fp4_layers),
        "torch bf16": (lambda layer: torch.mm(halves[torch.bfloat16], bf16[layer].t()), bf16_layers),
    }


def microseconds_of(call: Call, layers: int) -> float:
    """A call's time in a graph that goes through the layers at least twice."""
    for layer in range(layers):
        call(layer)
    return microseconds(lambda i: call(i % layers), layers * -(-24 // layers))


def main() -> int:
    """Prints the tables; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="./nvfp4 bench extended.rows", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--sizes", nargs="+", metavar="HIDDENxINTERMEDIATE", default=SIZES)
    parser.add_argument("--rows", nargs="+", type=positive, default=ROWS)
    parser.add_argument("--json", type=output_file, metavar="FILE")
    options = parser.parse_args()
    need_device(parser)
    found: dict[str, dict[int, dict[str, float]]] = {}
    for size in options.sizes:
        hidden, intermediate = map(int, size.split("x"))
        of_size = found.setdefault(size, {})
        for m in options.rows:
            torch.manual_seed(1)
            of_size[m] = {name: microseconds_of(*column) for name, column in columns(m, hidden, intermediate).items()}
            torch.cuda.empty_cache()
    for size, rows in found.items():
        names = list(next(iter(rows.values())))
        print(f"\n{torch.cuda.get_device_name()}, {size}, us (of the dual GEMM)\n")
        print("| rows | " + " | ".join(names) + " |\n| --: |" + " --: |" * len(names))
        for m, times in rows.items():
            print(f"| {m} | " + " | ".join(f"{t:.1f} ({t / times['dual']:.2f})" for t in times.values()) + " |")
    if options.json:
        options.json.write_text(json.dumps({"device": torch.cuda.get_device_name(), "us": found}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
