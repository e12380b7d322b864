"""The quantizer's bits on a device: every form, type and layout, numbers on every edge, rows at any distance.

    python -m tests.submission.quantize.on_device [--device cuda]

Prints what is wrong as JSON, and needs no pytest, so that the simulator's tests and compute-sanitizer run it too.
"""

from __future__ import annotations

import json
import sys

import torch

from submission import quantize_nvfp4, rms_norm_quantize_nvfp4, silu_mul_quantize_nvfp4
from tests.submission.quantize.quantize_kit import (
    LAYOUTS,
    TYPES,
    gathered,
    normed,
    random_bits,
    scales_of_rows,
    ties,
    wrong,
)

# M, K, gap between rows, numbers before the first.
SHAPES = ((1, 16, 0, 0), (3, 80, 3, 1), (130, 48, 0, 0), (2, 2112, 16, 8), (9, 64, 0, 0), (0, 64, 0, 0))
# M, K, numbers before the first: a warp; an unaligned row; one row, many threads; rows in turn; rows in two passes.
NORM_SHAPES = ((3, 16, 0), (1, 4096 + 80, 1), (1, 4096 + 80, 0), (7, 2064, 0), (3, 8208, 0))
# M, rows of x, K, gap between rows: a row with more numbers than a CTA holds, and rows in turn.
GATHERED_SHAPES = ((5, 3, 80, 3), (1, 1, 8192 + 16, 0), (130, 7, 64, 0))
SCALES = (None, 2.0**-140, 2.0**124, -1.0, -0.0, torch.inf)


def wrong_on(device: str) -> list[list[str]]:
    """Form, layout, shape and message of each call with a wrong bit."""
    found = []

    def check(name: str, values: torch.Tensor, scale: float | None, layout: str, output, count=None) -> None:
        tensors = tuple(one.cpu() for one in output)
        text = wrong(values, scale, layout, tensors, None if count is None else int(count))
        if text:
            found.append([name, layout, str(tuple(values.shape)), text])

    for index, dtype in enumerate(TYPES):
        x = torch.cat([ties(dtype), random_bits(24, 64, dtype, 3)])
        for scale in SCALES:
            some = x if scale is None else x[-24:]
            check("ties", some, scale, "linear", quantize_nvfp4(some.to(device), scale))
        for i, (m, k, gap, shift) in enumerate(SHAPES):
            memory = torch.zeros(m * (k + gap) + shift, dtype=dtype, device=device)
            x, values = memory[shift:].view(m, k + gap)[:, :k], random_bits(m, k, dtype, i)
            x.copy_(values)
            layout, count = LAYOUTS[(i + index) % 3], torch.zeros(1, dtype=torch.int64, device=device)
            check("plain", values, 0.37, layout, quantize_nvfp4(x, 0.37, layout, saturated=count), count)
        for i, (m, k, shift) in enumerate(NORM_SHAPES):
            layout = LAYOUTS[(i + index) % 3]
            x = torch.randn(m * k + shift).to(dtype)[shift:].view(m, k)
            weight, residual = torch.rand(k).to(dtype), torch.randn(m, k).to(dtype)
            on_device = torch.cat([torch.zeros(shift, dtype=dtype), x.flatten()]).to(device)[shift:].view(m, k)
            given = residual if (i + index) % 2 else None
            values, h = normed(x, weight, 1e-6, given)
            output = rms_norm_quantize_nvfp4(
                on_device, weight.to(device), 1e-6, 3.0, layout,
                residual=None if given is None else given.to(device),
            )  # fmt: skip
            check("norm", values, 3.0, layout, output[:2])
            if given is not None and not torch.equal(output[2].cpu(), h):
                found.append(["norm", "", str((m, k)), "x + residual differs"])
        for i, (m, x_rows, k, gap) in enumerate(GATHERED_SHAPES):
            layout, memory = LAYOUTS[(i + index) % 3], random_bits(x_rows, k + gap, dtype, i)
            memory[0] = 0
            rows = torch.randint(-1, x_rows + 1, (m,), generator=torch.Generator().manual_seed(i), dtype=torch.int32)
            x, values = memory.to(device)[:, :k], gathered(memory[:, :k], rows.tolist())
            check("rows", values, 0.37, layout, quantize_nvfp4(x, 0.37, layout, rows=rows.to(device)))
            *found_nvfp4, token_scale = quantize_nvfp4(x, None, layout, rows=rows.to(device), dynamic=True)
            scale, reciprocal = scales_of_rows(values)
            check("token", values, scale, layout, found_nvfp4)
            if not torch.equal(token_scale.cpu().nan_to_num(7.0), reciprocal.nan_to_num(7.0)):
                found.append(["token", layout, str((m, k)), "token_scale differs"])
        x = torch.empty((0, 80), dtype=dtype, device=device)
        if any(one.numel() for one in rms_norm_quantize_nvfp4(x, None, 1e-6, residual=x.clone())):
            found.append(["norm", "linear", "(0, 80)", "rows of no x"])
        gate = torch.tensor([0.0, 32.0, 40.0])[torch.randint(0, 3, (9, 80))]
        up = torch.randint(-8, 9, (9, 80)).float()
        values = gate * torch.where(gate == 0, 0.5, 1.0) * up
        x = torch.cat([gate, up], 1).to(dtype).to(device)
        for activation, want in (("silu", values), ("gelu_tanh", values), ("relu2", gate * gate * up)):
            output = silu_mul_quantize_nvfp4(x, 0.1, "swizzled128x4", activation=activation)
            check("gated", want, 0.1, "swizzled128x4", output)
    return found


def main() -> int:
    """Prints the calls with wrong bits; returns the exit status."""
    found = wrong_on(sys.argv[sys.argv.index("--device") + 1] if "--device" in sys.argv else "cpu")
    print(json.dumps(found))
    return 1 if found else 0


if __name__ == "__main__":
    sys.exit(main())
