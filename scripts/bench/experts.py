"""Times a mixture of experts on a CUDA device beside torch in bf16: its two products, or with --layer the whole layer.

    python -m scripts.bench.experts [--layer] [--json FILE] [--experts 128] [--hidden 2048] [--intermediate 768]

Each token goes to 8 experts, the same ones for both: at random, or by the same router in the layer.  Every time is a
CUDA graph's of calls that go through the weights of several layers, the median of several replays divided by the number
of calls.

The products: torch._grouped_mm with offsets on the device, its gate-up product without an activation; A's quantization
is in neither time.  The layer: the router's product and all that follows it to the sum of a token's experts; torch's is
softmax, topk, sort, _grouped_mm, a compiled silu(gate) * up, and index_add_; ours has activations of 4 bits, with
calibrated scales, and of 16 bits where the backend takes them.  The host's time is that of one eager call with nothing
queued, until it returns.
"""

from __future__ import annotations

import argparse
import functools
import json
import statistics
import time
from collections.abc import Callable
from typing import NamedTuple

import torch

from scripts.bench.provenance import need_device
from scripts.bench.quantize import microseconds
from scripts.common.options import output_file, positive
from submission import MoE, grouped_gated_gemm, grouped_plain_gemm

TOKENS, OF_A_TOKEN, LAYERS = (1, 16, 64, 256, 1024, 4096), 8, 6
EAGER_CALLS = 50
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


# ---- the whole layer ----


class TorchLayer:
    """The same router in bf16, with experts of random weights of its own."""

    def __init__(self, router: torch.Tensor, hidden: int, intermediate: int) -> None:
        experts = router.shape[0]
        made = functools.partial(torch.randn, device="cuda", dtype=torch.bfloat16)
        self.router = router
        self.up = made(experts, 2 * intermediate, hidden).mul_(hidden**-0.5).transpose(1, 2)
        self.down = made(experts, hidden, intermediate).mul_(intermediate**-0.5).transpose(1, 2)

    @staticmethod
    @functools.cache
    def _silu_times() -> Callable[[torch.Tensor], torch.Tensor]:
        def of_both(both: torch.Tensor) -> torch.Tensor:
            gate, up = both.chunk(2, -1)
            return torch.nn.functional.silu(gate) * up

        return torch.compile(of_both, dynamic=True)

    def __call__(self, x: torch.Tensor) -> torch.Tensor:
        scores = torch.softmax(x @ self.router.T, -1, dtype=torch.float32)
        weights, chosen = scores.topk(OF_A_TOKEN)
        weights = weights / weights.sum(-1, keepdim=True)
        ids, order = chosen.flatten().sort(stable=True)
        tokens = order // OF_A_TOKEN
        experts = torch.arange(self.router.shape[0], device=x.device)
        ends = torch.searchsorted(ids, experts, right=True, out_int32=True)
        between = self._silu_times()(torch._grouped_mm(x[tokens], self.up, offs=ends))
        found = torch._grouped_mm(between, self.down, offs=ends) * weights.flatten()[order].unsqueeze(-1)
        return torch.zeros_like(x, dtype=torch.float32).index_add_(0, tokens, found).to(x.dtype)


def host_microseconds(call: Callable[[], object]) -> float:
    """The median time until an eager call returns, with nothing queued before it."""
    found = []
    for _ in range(EAGER_CALLS):
        torch.cuda.synchronize()
        begin = time.perf_counter()
        call()
        found.append(1e6 * (time.perf_counter() - begin))
    torch.cuda.synchronize()
    return statistics.median(found)


def layer_times(experts: int, hidden: int, intermediate: int, tokens: tuple[int, ...]) -> list[dict[str, object]]:
    """A row for each number of tokens."""
    ours, halves, torchs, rows = [], [], [], []
    for _ in range(LAYERS):
        layers = [
            MoE.random(hidden, intermediate, experts, OF_A_TOKEN, device="cuda", quantize=quantize)
            for quantize in (True, False)
        ]
        for layer in layers:
            layer.router = layers[0].router.bfloat16()
        ours.append(layers[0])
        halves.append(layers[1])
        torchs.append(TorchLayer(layers[0].router, hidden, intermediate))
    takes_halves = torch.cuda.get_device_capability()[0] == 9  # as Hopper does
    for count in tokens:
        x = torch.randn(count, hidden, device="cuda", dtype=torch.bfloat16)
        of_ours = microseconds(lambda i, x=x: ours[i % LAYERS](x), 2 * LAYERS)
        of_torch = microseconds(lambda i, x=x: torchs[i % LAYERS](x), 2 * LAYERS)
        rows.append(
            {
                "tokens": count,
                "us": of_ours,
                "16-bit": microseconds(lambda i, x=x: halves[i % LAYERS](x), 2 * LAYERS) if takes_halves else None,
                "bf16": of_torch,
                "ratio": of_ours / of_torch,
                "host": host_microseconds(lambda x=x: ours[0](x)),
                "bf16 host": host_microseconds(lambda x=x: torchs[0](x)),
            }
        )
    return rows


def print_layers(rows: list[dict[str, object]]) -> None:
    """A table, times in microseconds."""
    print("| tokens | us | 16-bit | bf16 | ratio | host | bf16 host |\n" + "| --- " * 7 + "|")
    for row in rows:
        numbers = ("-" if row[name] is None else f"{row[name]:.1f}" for name in ("us", "16-bit", "bf16"))
        host = (f"{row[name]:.0f}" for name in ("host", "bf16 host"))
        print(f"| {row['tokens']} | {' | '.join(numbers)} | {row['ratio']:.2f} | {' | '.join(host)} |")


def print_products(rows: list[dict[str, object]]) -> None:
    """A table, times in microseconds."""
    print("| product | tokens | " + " | ".join(LAYOUTS) + " | bf16 | ratio |\n" + "| --- " * 6 + "|")
    for row in rows:
        numbers = " | ".join(f"{row[name]:.1f}" for name in (*LAYOUTS, "bf16"))
        print(f"| {row['product']} | {row['tokens']} | {numbers} | {row['ratio']:.2f} |")


def main() -> None:
    """Prints a table."""
    parser = argparse.ArgumentParser(
        prog="./nvfp4 bench experts", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=output_file)
    parser.add_argument("--layer", action="store_true")
    for name, value in (("experts", 128), ("hidden", 2048), ("intermediate", 768)):
        parser.add_argument(f"--{name}", type=positive, default=value)
    parser.add_argument("--tokens", type=positive, nargs="+", default=TOKENS)
    given = parser.parse_args()
    need_device(parser)
    timed = layer_times if given.layer else times
    rows = timed(given.experts, given.hidden, given.intermediate, tuple(given.tokens))
    if given.json is not None:
        text = {"device": torch.cuda.get_device_name(), "torch": torch.__version__, "rows": rows}
        given.json.write_text(json.dumps(text, indent=1) + "\n")
    (print_layers if given.layer else print_products)(rows)


if __name__ == "__main__":
    main()
