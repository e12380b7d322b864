"""Checks the products of experts on a CUDA device: against the float64 oracle, other rows, and replays of a graph.

    python -m tests.submission.experts.on_device [--small]

Prints a line for each check that fails, then how many did; --small: the first shape only, for a sanitizer.
"""

from __future__ import annotations

import functools
import os
import sys

import torch

from reference.extended_reference import BF16, FP16, NVFP4, Extension
from submission import grouped_gated_gemm, grouped_plain_gemm
from tests.submission.experts import experts_kit as kit
from tests.submission.experts.experts_kit import arguments, call, random_problem, wrong
from tests.submission.extended.extended_kit import exact_case, with_activation

SHAPES = (  # counts, n, k, tokens
    ((2, 0, 17, 1), 128, 192, kit.COUNTS),
    ((5, 0, 0, 33), 128, 320, kit.PADDED),
    ((1, 3, 0, 8, 40, 0, 130), 768, 2048, kit.OFFSETS),
    ((400, 0, 7, 161), 768, 2048, kit.COUNTS),
    ((4, 0, 90), 2048, 768, kit.PADDED),
)
KINDS = (  # output, order of weights, blocked scale factors, activation with biases
    (FP16, 0, (False, False), None),
    (BF16, 1, (False, True), None),
    (NVFP4, 64, (True, True), None),
    (BF16, -1, (False, True), None),
    (FP16, 0, (False, True), "gelu_tanh"),
    (NVFP4, 8, (True, False), "relu2"),
    (NVFP4, -1, (False, True), "silu"),
)


def check_values(small: bool) -> list[str]:
    """What the oracle and the bits of exact sums say."""
    failed = []
    for counts, n, k, tokens in SHAPES[: 1 if small else None]:
        for output, weights, blocked, activation in KINDS:
            plain, scale_c = weights < 0, torch.tensor(2.0) if output == NVFP4 else None
            how = {"weights": max(weights, 0), "blocked": blocked, "tokens": tokens, "spare": 2}
            options = Extension(plain, output, torch.tensor(0.01), None, 0.5 + torch.arange(7.0) / 7, scale_c)
            exact = Extension(plain, output, None, None, None, scale_c)
            if activation is not None:
                options = with_activation(options, activation, n)
                exact = with_activation(exact, activation, n, exact=True)
            problem = random_problem(counts, n, k, options, **how)
            text = wrong(problem, call(problem, "cuda"))
            problem = random_problem(counts, n, k, exact, make=exact_case, **how)
            text = text or wrong(problem, call(problem, "cuda"), exactly=True)
            if text:
                failed.append(f"{counts} {n} {k} {tokens} {output} {weights} {activation}: {text}")
    return failed


def check_replays(small: bool) -> list[str]:
    """A graph takes the counts of each replay, malformed ones too; a row's bits are the same each time."""
    failed, size = [], (64, 192) if small else (768, 2048)
    for plain in (False, True):
        problem = random_problem((300, 0, 9), *size, Extension(plain, BF16, torch.tensor(0.01)))
        tensors, options = arguments(problem)
        moved = [None if one is None else one.cuda() for one in tensors]
        options = {name: one.cuda() if isinstance(one, torch.Tensor) else one for name, one in options.items()}
        operator = grouped_plain_gemm if plain else grouped_gated_gemm
        want = operator(*moved, **options).clone()
        graph = torch.cuda.CUDAGraph()
        with torch.cuda.graph(graph):
            found = operator(*moved, **options)
        for counts in ((300, 0, 9), (1, 0, 0), (17, 283, 9), (64, -3, 2**31 - 1), (2**31 - 1, 4, 4), (0, 0, 0)):
            options["counts"].copy_(torch.tensor(counts, dtype=torch.int32))
            graph.replay()
            torch.cuda.synchronize()
            rows = min(counts[0], 300)
            if not torch.equal(found[:rows], want[:rows]):
                failed.append(f"replay with {counts}, plain {plain}")
    return failed


def _random_nvfp4(*rows: int, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    codes = torch.randint(0, 256, (*rows, k // 2), dtype=torch.uint8, device="cuda")
    return codes, torch.randint(0x30, 0x40, (*rows, k // 16), dtype=torch.uint8, device="cuda")


def check_tiles() -> list[str]:
    """Large tiles, which share out an expert's rows, give the bits of a small one."""
    failed = []
    for plain, layout, k in ((False, "linear", 1088), (True, "swizzled128x4", 512)):
        b_rows = 1024 if plain else 2048
        (a, sfa), (b, sfb) = _random_nvfp4(6000, k=k), _random_nvfp4(32, b_rows, k=k)
        counts = torch.randint(100, 260, (32,), dtype=torch.int32, device="cuda")
        options = {"counts": counts, "out_dtype": BF16, "scale_layout": ("linear", layout)}
        gated = functools.partial(grouped_gated_gemm, a, b, None, sfa, sfb, None, weights="stacked")
        product = functools.partial(grouped_plain_gemm, a, b, sfa, sfb) if plain else gated
        found, rows = {}, min(int(counts.sum()), 6000)
        for tile in ("m16", "m96", "m144"):
            os.environ["NVFP4_EXPERTS_CONFIG"] = tile
            found[tile] = product(**options)[:rows].view(torch.int16)
            if not torch.equal(found[tile], found["m16"]):
                failed.append(f"tile {tile}, plain {plain}: other bits than m16's")
        del os.environ["NVFP4_EXPERTS_CONFIG"]
    return failed


def main() -> int:
    """The number of failures."""
    small = "--small" in sys.argv[1:]
    failed = [*check_values(small), *check_replays(small), *([] if small else check_tiles())]
    for text in failed:
        print(text[:300])
    print(f"{len(failed)} checks failed")
    return len(failed)


if __name__ == "__main__":
    raise SystemExit(main())
