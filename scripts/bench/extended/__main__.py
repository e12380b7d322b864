"""Times each option of the extended GEMM on a GPU, in turns with the dual GEMM.

    python -m scripts.bench.extended [--shapes 256x4096x7168 ...] [--rounds 40] [--json FILE]

Every round times each variant once, in a new order, with cold caches: before each call a buffer larger than L2 is
written, after a pause of the GPU in which the host queues the whole call, so that only the GPU's time counts.  A cell
has the median over the rounds and the median ratio to the dual GEMM of the same round.  "and torch's quantize" makes
fp16 output and converts it to NVFP4 with a second kernel, by torch.compile.
"""

from __future__ import annotations

import argparse
import json
import random
import statistics
import sys
from collections.abc import Callable

import torch

from reference import extended_reference as extended
from reference import nvfp4
from scripts.bench.provenance import need_device
from scripts.common.options import output_file, positive
from submission import dual_gemm, gated_gemm, plain_gemm

SHAPES = (
    (256, 4096, 7168),
    (512, 4096, 7168),
    (256, 3072, 4096),
    (512, 3072, 7168),
    (1, 4096, 7168),
    (2048, 4096, 7168),
)
FLUSH_BYTES = 256 << 20  # above the L2 of every GPU
PAUSE_CYCLES = 1_500_000  # 0.8 ms: more than the host takes for a call
Call = Callable[[], object]


def _random(rows: int, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    codes = torch.randint(0, 256, (rows, k // 2), dtype=torch.uint8, device="cuda")
    scales = torch.randint(0x28, 0x41, (rows, k // 16), dtype=torch.uint8, device="cuda")
    return codes, scales


def _blocked(scales: torch.Tensor) -> torch.Tensor:
    return nvfp4.to_blocked(scales.view(torch.float8_e4m3fn).unsqueeze(-1))[..., 0]


def quantize_fp16(values: torch.Tensor, scale: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """Converts a tensor to NVFP4 with scale factors in blocks; torch.compile makes one or two kernels of it."""
    groups = values.float().unflatten(-1, (-1, 16))
    factors = (groups.abs().amax(-1) * scale * (1 / 6)).clamp(max=448).to(torch.float8_e4m3fn)
    scaled = groups * (scale / factors.float().clamp(min=2**-9)).unsqueeze(-1)
    size = scaled.abs()
    code = sum((size > edge).to(torch.uint8) for edge in (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0))
    code = (code | (scaled < 0).to(torch.uint8) << 3).flatten(-2)
    rows, count = factors.shape
    padded = torch.nn.functional.pad(factors.view(torch.uint8), (0, 0, 0, -rows % 128))
    tiles = padded.view(-1, 4, 32, count // 4, 4).permute(0, 3, 2, 1, 4).contiguous()
    return code[..., 0::2] | code[..., 1::2] << 4, tiles


def variants(m: int, n: int, k: int) -> dict[str, Call]:
    """Each call by its name, the dual GEMM first; all on the same operands."""
    (a, sfa), (b1, sfb1), (b2, sfb2) = (_random(rows, k) for rows in (m, n, n))
    blocked = [_blocked(one) for one in (sfa, sfb1, sfb2)]
    one, small = torch.ones((), device="cuda"), torch.full((), 1e-3, device="cuda")
    tokens = torch.rand(m, device="cuda") + 0.5
    apart = (a, b1, b2, *blocked)
    scales = {"scale_gate": small, "scale_up": small}
    usual = {**scales, "token_scale": tokens, "limit": 7.0, "alpha": 1.702, "beta": 1.0}
    compiled = torch.compile(quantize_fp16)

    def joint(weights: int) -> tuple[torch.Tensor | None, ...]:
        return (
            a, extended.join(b1, b2, weights), None, blocked[0], _blocked(extended.join(sfb1, sfb2, weights)), None
        )  # fmt: skip

    def bound(tensors: tuple[torch.Tensor | None, ...], **options: object) -> Call:
        return lambda: gated_gemm(*tensors, **options)

    calls: dict[str, Call] = {
        "dual GEMM": lambda: dual_gemm(*apart),
        "extended entry, no option": bound(apart),
        "global scales": bound(apart, **scales),
        "and a scale a token": bound(apart, **scales, token_scale=tokens),
        "global scales, bf16": bound(apart, **scales, out_dtype="bfloat16"),
        "global scales, limit, alpha, beta": bound(apart, **scales, limit=7.0, alpha=1.702, beta=1.0),
        "stacked": bound(joint(1), **scales, weights="stacked"),
        "interleaved by 64": bound(joint(64), **scales, weights="interleaved64"),
        "interleaved by 32": bound(joint(32), **scales, weights="interleaved32"),
        "interleaved by 8": bound(joint(8), **scales, weights="interleaved8"),
        "NVFP4 output": bound(apart, **scales, scale_c=one, out_dtype="nvfp4"),
        "all of them, NVFP4 output": bound(joint(64), **usual, weights="interleaved64", scale_c=one, out_dtype="nvfp4"),
        "dual GEMM, and torch's quantize": lambda: compiled(dual_gemm(*apart), one),
        "global scales, and torch's quantize": lambda: compiled(gated_gemm(*apart, **scales), one),
        "plain product of N columns": lambda: plain_gemm(a, b1, blocked[0], blocked[1], scale=small),
    }
    return calls


def time_in_turns(calls: dict[str, Call], rounds: int) -> dict[str, list[float]]:
    """Microseconds of each round of each call."""
    flush = torch.empty(FLUSH_BYTES, dtype=torch.uint8, device="cuda")
    for call in calls.values():
        for _ in range(3):
            call()
    torch.cuda.synchronize()
    times: dict[str, list[float]] = {name: [] for name in calls}
    for _ in range(rounds):
        order = list(calls)
        random.shuffle(order)
        events = []
        for name in order:
            begin, end = (torch.cuda.Event(enable_timing=True) for _ in range(2))
            torch.cuda._sleep(PAUSE_CYCLES)
            flush.fill_(1)
            begin.record()
            calls[name]()
            end.record()
            events.append((name, begin, end))
        torch.cuda.synchronize()
        for name, begin, end in events:
            times[name].append(1e3 * begin.elapsed_time(end))
    return times


def main() -> int:
    """Prints the table; returns the exit status."""
    parser = argparse.ArgumentParser(
        prog="./nvfp4 bench extended", description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter
    )
    parser.add_argument("--shapes", nargs="+", metavar="MxNxK", default=["x".join(map(str, one)) for one in SHAPES])
    parser.add_argument("--rounds", type=positive, default=40)
    parser.add_argument("--json", type=output_file, metavar="FILE")
    options = parser.parse_args()
    need_device(parser)
    random.seed(1)
    found: dict[str, dict[str, dict[str, float]]] = {}
    for shape in options.shapes:
        torch.manual_seed(1)
        times = time_in_turns(variants(*map(int, shape.split("x"))), options.rounds)
        base = times["dual GEMM"]
        found[shape] = {
            name: {
                "us": statistics.median(one),
                "ratio": statistics.median(x / y for x, y in zip(one, base, strict=True)),
            }
            for name, one in times.items()
        }
        print(f"{shape}: " + "; ".join(f"{name} {one['us']:.1f}" for name, one in found[shape].items()), flush=True)
    names = list(next(iter(found.values())))
    print(f"\n{torch.cuda.get_device_name()}, us (ratio to the dual GEMM)\n")
    print("| | " + " | ".join(found) + " |\n| --- |" + " --: |" * len(found))
    for name in names:
        cells = (f"{one[name]['us']:.1f} ({one[name]['ratio']:.3f})" for one in found.values())
        print(f"| {name} | " + " | ".join(cells) + " |")
    if options.json:
        options.json.write_text(json.dumps({"device": torch.cuda.get_device_name(), "us": found}, indent=1) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main())
