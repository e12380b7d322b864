"""Times a Llama of random weights in transformers: bf16 beside NVFP4 weights with 16-bit and with 4-bit activations.

    python -m scripts.bench.model [--size 8b] [--kinds bf16 W4A16 W4A4 token] [--compile] [--json FILE]

Decode: a step of one token for each sequence, with a static cache; on a CUDA device replays of a graph of it, and with
--compile of what torch.compile makes of it, where norms, rotations and sums are few kernels.  Prefill:
one sequence, without a graph, the last token's logits.  Medians in ms; memory is what the device holds at most
meanwhile, on a CPU the model's weights.
"""

from __future__ import annotations

import argparse
import json
import time
from collections.abc import Callable
from statistics import median

import torch
from transformers import AutoConfig, AutoModelForCausalLM, StaticCache

from scripts.common.options import output_file
from simulator.python.markdown import table
from submission import Linear
from submission.models.huggingface.fusion import fuse
from submission.models.huggingface.together import groups_of, join, quantize_together

SIZES = {
    "8b": {"hidden_size": 4096, "intermediate_size": 14336, "num_hidden_layers": 32, "vocab_size": 128256},
    "1b": {"hidden_size": 2048, "intermediate_size": 8192, "num_hidden_layers": 16, "vocab_size": 128256},
    "tiny": {"hidden_size": 128, "intermediate_size": 192, "num_hidden_layers": 2, "vocab_size": 512},
}
HEAD_DIM, QUERIES_A_KEY = 128, 4
LARGEST_INPUT = 16.0  # of a linear layer: a calibrated scale costs the same whatever it is
KINDS = {
    "bf16": None,
    "W4A16": {"quantize": False},
    "W4A4": {"largest_input": LARGEST_INPUT},
    "token": {"scale": "token"},  # W4A4 with a scale for each token
}
BATCHES = (1, 8, 32)
CONTEXT = 512
PREFILL = 2048
REPLAYS = 25
WARM_UPS = 3


def build(size: str, kind: str, device: str) -> torch.nn.Module:
    """The model, with linear layers of that kind but for the output layer, as published checkpoints have them."""
    shape = SIZES[size]
    keys = max(1, shape["hidden_size"] // HEAD_DIM // QUERIES_A_KEY)
    config = AutoConfig.for_model(
        "llama", **shape, head_dim=HEAD_DIM, num_attention_heads=keys * QUERIES_A_KEY, num_key_value_heads=keys,
        max_position_embeddings=2 * PREFILL, pad_token_id=0,
    )  # fmt: skip
    torch.manual_seed(5)
    with torch.device(device):
        model = AutoModelForCausalLM.from_config(config, dtype=torch.bfloat16).eval()
    if KINDS[kind] is not None:
        linears = [name for name, one in model.named_modules() if type(one) is torch.nn.Linear and name != "lm_head"]
        options = dict(KINDS[kind])
        largest_input = options.pop("largest_input", None)
        for group in groups_of(model, linears):
            weights = [model.get_submodule(name).weight for name in group]
            for name, one in zip(group, quantize_together(weights, largest_input), strict=True):
                model.set_submodule(name, Linear(one, **options))
        fuse(model)
        join(model)
    return model


def clock(run: Callable[[], object], device: str) -> float:
    """Median time of a call in ms."""
    times = []
    for _ in range(REPLAYS):
        if device == "cuda":
            start, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            start.record()
            run()
            end.record()
            end.synchronize()
            times.append(start.elapsed_time(end))
        else:
            begin = time.perf_counter()
            run()
            times.append(1000 * (time.perf_counter() - begin))
    return median(times)


def decoder(model: torch.nn.Module, batch: int, context: int, device: str, compiled: bool) -> Callable[[], object]:
    """A step of one token behind `context` others; each call takes a place of the cache."""
    cache = StaticCache(config=model.config, max_cache_len=context + REPLAYS + 2 * WARM_UPS)
    tokens = torch.full((batch, 1), 7, device=device)
    positions = torch.full((1, 1), context, device=device)
    # Given as it is, so that a step asks nothing of the host: all places are seen, those not yet taken hold zeros.
    mask = torch.ones(batch, 1, 1, context + REPLAYS + 2 * WARM_UPS, dtype=torch.bool, device=device)
    model(torch.full((batch, context), 7, device=device), cache=cache, use_cache=True, logits_to_keep=1)

    called = torch.compile(model, dynamic=False) if compiled else model

    def step() -> torch.Tensor:
        return called(tokens, attention_mask=mask, position_ids=positions, cache=cache, use_cache=True).logits

    if not step().isfinite().all():
        raise RuntimeError("a step's logits are not finite")
    if device != "cuda":
        return step
    side = torch.cuda.Stream()
    side.wait_stream(torch.cuda.current_stream())
    with torch.cuda.stream(side):
        for _ in range(WARM_UPS):
            step()
    torch.cuda.current_stream().wait_stream(side)
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        step()
    return graph.replay


@torch.inference_mode()
def times_of(model: torch.nn.Module, device: str, context: int, prefill: int, compiled: bool) -> dict[str, float]:
    """ms of a step for each batch and of a prefill, and GiB."""
    found = {}
    if device == "cuda":
        torch.cuda.reset_peak_memory_stats()
    for batch in BATCHES:
        found[f"decode, batch {batch}, ms"] = clock(decoder(model, batch, context, device, compiled), device)
    prompt = torch.full((1, prefill), 7, device=device)
    for _ in range(WARM_UPS):
        model(prompt, use_cache=False, logits_to_keep=1)
    found[f"prefill of {prefill}, ms"] = clock(lambda: model(prompt, use_cache=False, logits_to_keep=1), device)
    weights = sum(one.nbytes for one in (*model.parameters(), *model.buffers()))
    found["weights, GiB"] = weights / 2**30
    found["memory, GiB"] = torch.cuda.max_memory_allocated() / 2**30 if device == "cuda" else weights / 2**30
    return found


def main(arguments: list[str] | None = None) -> None:
    """Times every kind."""
    parser = argparse.ArgumentParser(
        prog="./nvfp4 bench model", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--size", choices=SIZES, default="8b")
    parser.add_argument("--kinds", nargs="+", choices=KINDS, default=list(KINDS))
    parser.add_argument("--context", type=int, default=CONTEXT, help="tokens in the cache before a step")
    parser.add_argument("--prefill", type=int, default=PREFILL)
    parser.add_argument("--compile", action="store_true")
    parser.add_argument("--json", type=output_file)
    options = parser.parse_args(arguments)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    found: dict[str, dict[str, float]] = {}
    for kind in options.kinds:
        model = build(options.size, kind, device)
        found[kind] = times_of(model, device, options.context, options.prefill, options.compile)
        print(kind, {name: round(value, 3) for name, value in found[kind].items()}, flush=True)
        del model
        if device == "cuda":
            torch.cuda.empty_cache()
    first = options.kinds[0]
    rows = []
    for name in found[first]:
        values = [found[kind][name] for kind in options.kinds]
        rows.append([name, *(f"{one:.3f}" for one in values), *(f"{one / values[0]:.2f}" for one in values[1:])])
    head = [f"Llama {options.size}", *options.kinds, *(f"{kind} / {first}" for kind in options.kinds[1:])]
    chip = torch.cuda.get_device_name() if device == "cuda" else "CPU"
    print(f"\n{chip}, torch {torch.__version__}\n\n{table(head, rows, len(head) - 1)}")
    if options.json:
        record = {"chip": chip, "torch": torch.__version__, "size": options.size, "context": options.context}
        record["compiled"] = options.compile
        options.json.write_text(json.dumps(record | {"found": found}, indent=1) + "\n")


if __name__ == "__main__":
    main()
