"""Simulates products of experts on a B200's and an RTX 5090's clock (data/experts_calls.json; a table of RESULTS.md).

    python -m simulator.calibration.calls.experts      # minutes; then ./nvfp4 rounds results

Each time is one launch alone, from its first CTA's start to its last CTA's end.  Every token has EXPERTS_A_TOKEN
experts, drawn at random, the same for every product and chip.  The floor reads the weights of the experts that have
tokens once, as codes and scale factors.
"""

from __future__ import annotations

import argparse
import random
import sys
from collections import Counter
from pathlib import Path

from simulator.calibration.b200.board import simulated_chip
from simulator.calibration.packed import DATA, dense
from simulator.package.simulated_call import simulated_program

RECORD = DATA / "experts_calls.json"
EXPERTS, EXPERTS_A_TOKEN, HIDDEN, INTERMEDIATE = 128, 8, 2048, 768
TOKENS = (1, 16, 64)
BYTES_PER_US = {"blackwell": 8.0e6, "geforce": 1.792e6}  # NVIDIA's datasheets: HBM3e, GDDR7
PRODUCTS = {"gate-up": (2, INTERMEDIATE, HIDDEN), "down": (1, HIDDEN, INTERMEDIATE)}  # weights of an expert, N and K
BYTES_PER_ELEMENT = 1 / 2 + 1 / 16
CALL = """
import sys
import torch
from submission import grouped_gated_gemm, grouped_plain_gemm
weights, n, k, *counts = map(int, sys.argv[1:])
torch.set_num_threads(1)
def operand(*rows):
    return torch.zeros(*rows, k // 2, dtype=torch.uint8), torch.zeros(*rows, k // 16, dtype=torch.uint8)
(a, sfa), (b, sfb) = operand(sum(counts)), operand(len(counts), n)
options = {"counts": torch.tensor(counts, dtype=torch.int32), "scale_layout": "linear", "out_dtype": torch.bfloat16}
if weights == 2:
    b2, sfb2 = operand(len(counts), n)
    grouped_gated_gemm(a, b, b2, sfa, sfb, sfb2, **options)
else:
    grouped_plain_gemm(a, b, sfa, sfb, **options)
"""


def counts_of(tokens: int) -> list[int]:
    """Tokens of each expert."""
    draw = random.Random(tokens)
    chosen = Counter(expert for _ in range(tokens) for expert in draw.sample(range(EXPERTS), EXPERTS_A_TOKEN))
    return [chosen[expert] for expert in range(EXPERTS)]


def floor_us(backend: str, product: str, tokens: int) -> float:
    """us that reading the weights takes at least."""
    weights, n, k = PRODUCTS[product]
    used = sum(count > 0 for count in counts_of(tokens))
    return used * weights * n * k * BYTES_PER_ELEMENT / BYTES_PER_US[backend]


def simulate(backend: str, product: str, tokens: int) -> float:
    """us of one call."""
    arguments = [str(one) for one in (*PRODUCTS[product], *counts_of(tokens))]
    with simulated_chip(backend) as chip:
        (launch,) = simulated_program(CALL, arguments, backend, **chip)["launches"]
    return round(launch["end_us"] - launch["start_us"], 1)


def main(arguments: list[str]) -> int:
    """Writes the record, or the file that is named."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument(
        "file", type=Path, nargs="?", default=RECORD, help="where to write (default: the committed record)"
    )
    record = parser.parse_args(arguments).file
    rows = [
        {"backend": backend, "product": product, "us": {str(t): simulate(backend, product, t) for t in TOKENS}}
        for backend in BYTES_PER_US
        for product in PRODUCTS
    ]
    record.write_text(dense({"rows": rows}) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
