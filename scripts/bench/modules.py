"""Times whole gated MLPs on a CUDA device: NVFP4 with 4-bit and with 16-bit activations beside torch in bf16, whose
silu * mul torch.compile makes one kernel.

    python -m scripts.bench.modules [--json FILE]

A CUDA graph runs the layers of a small model one after another, so that each layer's weights come from memory.  The
time is that of a layer: the median of several replays, with the kinds interleaved.
"""

from __future__ import annotations

import argparse
import json
from collections.abc import Callable
from statistics import geometric_mean, median

import torch
from torch.nn.functional import silu

from scripts.bench.provenance import need_device
from scripts.common.options import output_file
from simulator.python.markdown import table
from submission import GatedMLP

SIZES = ((2048, 768), (7168, 2048), (4096, 14336), (5120, 13824), (3584, 18944))  # hidden, intermediate
TOKENS = (1, 16, 32, 64, 128, 256, 1024)
WEIGHTS_BYTES = 256 << 20  # NVFP4 weights of all layers: several times an H200's L2
REPLAYS = 15


def layers_of(hidden: int, intermediate: int) -> int:
    """Layers whose NVFP4 weights together exceed L2."""
    return max(2, min(24, -(-WEIGHTS_BYTES // (3 * hidden * intermediate // 2))))


def bf16_mlp(up: torch.Tensor, down: torch.Tensor, intermediate: int) -> Callable[[torch.Tensor], torch.Tensor]:
    """The same MLP in bf16, gate and up as one product."""

    @torch.compile(dynamic=False)
    def between(both: torch.Tensor) -> torch.Tensor:
        return silu(both[:, :intermediate]) * both[:, intermediate:]

    return lambda x: between(x @ up.T) @ down.T


def graph_of(layers: list[Callable[[torch.Tensor], torch.Tensor]], x: torch.Tensor) -> torch.cuda.CUDAGraph:
    """A graph of all layers on the same input."""
    side = torch.cuda.Stream()
    with torch.cuda.stream(side):
        for layer in layers:
            layer(x)
    torch.cuda.synchronize()
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        for layer in layers:
            layer(x)
    return graph


def us_of_a_layer(graphs: dict[str, torch.cuda.CUDAGraph], layers: int) -> dict[str, float]:
    """Median us of a layer by kind, the kinds interleaved."""
    found: dict[str, list[float]] = {name: [] for name in graphs}
    for _ in range(REPLAYS):
        for name, graph in graphs.items():
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            graph.replay()
            end.record()
            end.synchronize()
            found[name].append(1000 * start.elapsed_time(end) / layers)
    return {name: round(median(times), 2) for name, times in found.items()}


def main() -> None:
    """Times every size and number of tokens."""
    parser = argparse.ArgumentParser(
        prog="./nvfp4 bench modules", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--json", type=output_file)
    options = parser.parse_args()
    need_device(parser)
    rows, record = [], {"chip": torch.cuda.get_device_name(), "torch": torch.__version__, "us_a_layer": {}}
    for hidden, intermediate in SIZES:
        count = layers_of(hidden, intermediate)
        quantized = [GatedMLP.random(hidden, intermediate, device="cuda") for _ in range(count)]
        halves = [GatedMLP.random(hidden, intermediate, device="cuda", quantize=False) for _ in range(count)]
        shapes = ((2 * intermediate, hidden), (hidden, intermediate))
        weights = [
            [torch.randn(shape, device="cuda", dtype=torch.bfloat16) * shape[1] ** -0.5 for shape in shapes]
            for _ in range(count)
        ]
        torch.compiler.reset()  # it keeps few shapes of a function
        plain = [bf16_mlp(*pair, intermediate) for pair in weights]
        for tokens in TOKENS:
            x = torch.randn(tokens, hidden, device="cuda", dtype=torch.bfloat16)
            kinds = {"4-bit": quantized, "16-bit": halves, "bf16": plain}
            times = us_of_a_layer({name: graph_of(layers, x) for name, layers in kinds.items()}, count)
            record["us_a_layer"][f"{hidden}x{intermediate}, {tokens}"] = times
            ratios = [f"{times[name] / times['bf16']:.2f}" for name in ("4-bit", "16-bit")]
            rows.append([f"{hidden} x {intermediate}", str(tokens), *(f"{us:.1f}" for us in times.values()), *ratios])
            print(" ".join(rows[-1]), flush=True)
    head = [
        "hidden x intermediate",
        "tokens",
        "4-bit A, us",
        "16-bit A, us",
        "bf16, us",
        "4-bit / bf16",
        "16-bit / bf16",
    ]
    print(f"{record['chip']}, torch {record['torch']}\n\n{table(head, rows, 5)}")
    for at, name in ((5, "4-bit"), (6, "16-bit")):
        few = geometric_mean(float(row[at]) for row in rows if int(row[1]) <= 64)
        many = geometric_mean(float(row[at]) for row in rows if int(row[1]) > 64)
        print(f"{name}: {few:.2f} of bf16 up to 64 tokens, {many:.2f} from 128 on")
    if options.json:
        options.json.write_text(json.dumps(record, indent=1) + "\n")


if __name__ == "__main__":
    main()
