"""Times the two products of a mixture of experts on a CUDA device beside torch._grouped_mm in bf16.

    python -m scripts.bench.experts [--json FILE] [--experts 128] [--hidden 2048] [--intermediate 768]

Each token goes to 8 experts at random, the same ones for both.  Every time is a CUDA graph's of calls that go through
the weights of several layers, the median of several replays divided by the number of calls.  torch's offsets are on the
device too; its gate-up product has no activation.  A's quantization is in neither time.
"""

from __future__ import annotations

import argparse
import functools
import json
from pathlib import Path
from typing import NamedTuple

import torch

from scripts.bench.provenance import need_device
from scripts.bench.quantize import microseconds
from scripts.common.options import positive
from submission import grouped_gated_gemm, grouped_plain_gemm

TOKENS, OF_A_TOKEN, LAYERS = (1, 16, 64, 256, 4096), 8, 6
LAYOUTS = ("swizzled128x4", "linear")


def _nvfp4(*rows: int, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    codes = torch.randint(0, 256, (*rows, k // 2), dtype=torch.uint8, device="cuda")
    return codes, torch.randint(0x28, 0x38, (*rows, k // 16), dtype=torch.uint8, device="cuda")


def _ends(tokens: int, experts: int) -> torch.Tensor:
    chosen = torch.rand(tokens, experts, device="cuda").topk(OF_A_TOKEN, dim=1).indices
    return torch.bincount(chosen.flatten(), minlength=experts).cumsum(0).int()


class Layers(NamedTuple):
    """A product's operands: A, and each layer's weights and ends of the experts' tokens, in NVFP4 and in bf16."""

    gated: bool
    a: tuple[torch.Tensor, torch.Tensor]
    weights: list[tuple[torch.Tensor, torch.Tensor]]
    ends: list[torch.Tensor]
    wide_a: torch.Tensor
    wide: list[torch.Tensor]

    def ours(self, i: int, layout: str) -> torch.Tensor:
        """Call number i."""
        (a, sfa), (b, sfb) = self.a, self.weights[i % LAYERS]
        options = {"offsets": self.ends[i % LAYERS], "out_dtype": "bfloat16", "scale_layout": ("linear", layout)}
        if self.gated:
            return grouped_gated_gemm(a, b, None, sfa, sfb, None, weights="stacked", **options)
        return grouped_plain_gemm(a, b, sfa, sfb, **options)

    def torchs(self, i: int) -> torch.Tensor:
        """The same by torch in bf16, without the activation."""
        return torch._grouped_mm(self.wide_a, self.wide[i % LAYERS].transpose(-2, -1), offs=self.ends[i % LAYERS])


def times(experts: int, hidden: int, intermediate: int, tokens: tuple[int, ...]) -> list[dict[str, object]]:
    """A row for each product and number of tokens; K of all sizes is a multiple of 128, rows of B too."""
    rows = []
    for gated, n, k in ((True, intermediate, hidden), (False, hidden, intermediate)):
        b_rows = 2 * n if gated else n
        weights = [_nvfp4(experts, b_rows, k=k) for _ in range(LAYERS)]
        wide = [torch.randn(experts, b_rows, k, device="cuda", dtype=torch.bfloat16) for _ in range(LAYERS)]
        for count in tokens:
            total, ends = count * OF_A_TOKEN, [_ends(count, experts) for _ in range(LAYERS)]
            wide_a = torch.randn(total, k, device="cuda", dtype=torch.bfloat16)
            layers = Layers(gated, _nvfp4(total, k=k), weights, ends, wide_a, wide)
            row: dict[str, object] = {"product": "gate-up" if gated else "down", "n": n, "k": k, "tokens": count}
            for layout in LAYOUTS:
                row[layout] = microseconds(functools.partial(layers.ours, layout=layout), 2 * LAYERS)
            row["bf16"] = microseconds(layers.torchs, 2 * LAYERS)
            row["ratio"] = row[LAYOUTS[0]] / row["bf16"]
            rows.append(row)
        del weights, wide, layers
        torch.cuda.empty_cache()
    return rows


def main() -> None:
    """Prints a table, times in microseconds."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--json", type=Path)
    for name, value in (("experts", 128), ("hidden", 2048), ("intermediate", 768)):
        parser.add_argument(f"--{name}", type=positive, default=value)
    parser.add_argument("--tokens", type=positive, nargs="+", default=TOKENS)
    given = parser.parse_args()
    need_device(parser)
    rows = times(given.experts, given.hidden, given.intermediate, tuple(given.tokens))
    if given.json is not None:
        text = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": rows}
        given.json.write_text(json.dumps(text, indent=1) + "\n")
    print("| product | tokens | " + " | ".join(LAYOUTS) + " | bf16 | ratio |\n" + "| --- " * 6 + "|")
    for row in rows:
        numbers = " | ".join(f"{row[name]:.1f}" for name in (*LAYOUTS, "bf16"))
        print(f"| {row['product']} | {row['tokens']} | {numbers} | {row['ratio']:.2f} |")


if __name__ == "__main__":
    main()
