"""Products of experts with an A of 16 bits, against float64, for every backend that has them.

    python -m tests.submission.experts.halves [--device cuda]

Prints what is wrong as JSON, and needs no pytest.
"""

from __future__ import annotations

import json
import sys

import torch

from reference import nvfp4
from submission import grouped_gated_gemm, grouped_plain_gemm, quantize_nvfp4, swizzle_expert_scales

# Rows of each expert, N, K, rows of a (0: no index), padded, the weights' factors in blocks.
CASES = (
    ((2, 0, 3, 1), 64, 192, 4, False, False),
    ((1, 17, 0, 40), 72, 80, 0, False, True),
    ((0, 5, 3), 128, 64, 0, True, True),
    ((130, 1), 40, 256, 9, False, False),
    ((3,), 8, 16, 2, False, False),
)


def _weights(experts: int, n: int, k: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """Codes, scale factors row by row, and their values in float64."""
    codes, factors = quantize_nvfp4(torch.randn(experts * n, k), 100.0)
    values = nvfp4.decode(codes, factors).double()
    return codes.view(experts, n, -1), factors.view(experts, n, -1), values.view(experts, n, k)


def wrong_on(device: str) -> list[list[str]]:
    """The calls that are wrong, and how."""
    torch.manual_seed(0)
    found = []
    for number, (counts, n, k, held, padded, blocked) in enumerate(CASES):
        dtype, experts = (torch.float16, torch.bfloat16)[number % 2], len(counts)
        capacity = max(counts) + 1
        rows = capacity * experts if padded else sum(counts) + 2
        a = torch.randn(held or rows, k).to(dtype)
        index = torch.randint(-1, held + 1, (rows,), dtype=torch.int32) if held else None
        gate, up = _weights(experts, n, k), _weights(experts, n, k)
        scale = torch.rand(experts) / 10
        factors = [swizzle_expert_scales(one[1]) if blocked else one[1] for one in (gate, up)]
        options = {
            "counts": torch.tensor(counts, dtype=torch.int32).to(device),
            "scale_layout": "swizzled128x4" if blocked else "linear",
            "rows": None if index is None else index.to(device),
        }
        given = (a.view(experts, capacity, k) if padded else a).to(device)
        codes, factors = [one[0].to(device) for one in (gate, up)], [one.to(device) for one in factors]
        plain = grouped_plain_gemm(
            given, codes[0], None, factors[0], scale=scale.to(device), out_dtype=dtype, **options
        )
        both = grouped_gated_gemm(
            given, *codes, None, *factors, scale_gate=scale.to(device), out_dtype=torch.bfloat16, **options
        )
        values = torch.cat([a, torch.zeros(1, k)]).double()
        if index is not None:
            values = values[torch.where((index >= 0) & (index < held), index, held).long()]
        for name, c in (("plain", plain), ("gated", both)):
            c = c.cpu().double().view(-1, n)
            for expert, count in enumerate(counts):
                start = capacity * expert if padded else sum(counts[:expert])
                x = values[start : start + count]
                want = x @ gate[2][expert].T * scale[expert].double()
                if name == "gated":
                    want = want * torch.sigmoid(want) * (x @ up[2][expert].T)
                error = (c[start : start + count] - want).abs()
                if not (error <= 0.006 * want.abs() + 2e-3).all():
                    found.append([name, str((counts, n, k)), f"expert {expert} differs by {error.max()}"])
    a = torch.randn(5, 64).half().to(device)
    codes, factors, values = _weights(2, 64, 64)
    nvfp4_c = grouped_plain_gemm(
        a, codes.to(device), None, factors.to(device), counts=torch.tensor([2, 3], dtype=torch.int32).to(device),
        scale=0.01, scale_c=50.0, out_dtype="nvfp4", scale_layout="linear",
    )  # fmt: skip
    kept = nvfp4.decode(*(one.cpu() for one in nvfp4_c)).double() / 50
    want = torch.cat([a.cpu().double()[:2] @ values[0].T, a.cpu().double()[2:] @ values[1].T]) * 0.01
    if (kept - want).norm() > 0.15 * want.norm():
        found.append(["plain", "nvfp4", str((kept - want).norm() / want.norm())])
    return found


def main() -> int:
    """Prints the calls with wrong results; returns the exit status."""
    found = wrong_on(sys.argv[sys.argv.index("--device") + 1] if "--device" in sys.argv else "cpu")
    print(json.dumps(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
