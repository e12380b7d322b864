"""The reference in SOL-ExecBench's definition: silu(a @ b1^T) * (a @ b2^T) of NVFP4 operands, and random inputs.

definition.json contains this file's text, so the file imports nothing from this checkout.
"""

import torch


def generate_inputs(axes_and_scalars: dict[str, int], device: torch.device) -> dict[str, torch.Tensor]:
    """Codes of -1.5 to 1.5 and scale factors in [0, 1), as the leaderboard draws them."""
    m, n, k = (axes_and_scalars[name] for name in ("M", "N", "K"))
    inputs = {}
    for name, rows in (("a", m), ("b1", n), ("b2", n)):
        codes = torch.randint(0, 256, (rows, k // 2), dtype=torch.uint8, device=device) & 0xBB
        inputs[name] = codes.view(torch.float4_e2m1fn_x2)
    for name, rows in (("sfa", m), ("sfb1", n), ("sfb2", n)):
        inputs[name] = torch.rand((rows, k // 16), device=device).to(torch.float8_e4m3fn)
    return inputs


def dequantize(codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Packed codes (rows, K/2), the even element of K in the low half, and scale factors (rows, K/16) -> float32."""
    magnitudes = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0], device=scales.device)
    table = torch.cat((magnitudes, -magnitudes))
    packed = codes.view(torch.uint8).int()
    values = torch.stack((table[packed & 15], table[packed >> 4]), dim=-1).flatten(-2)
    return values * scales.float().abs().repeat_interleave(16, dim=-1)


def run(
    a: torch.Tensor, b1: torch.Tensor, b2: torch.Tensor, sfa: torch.Tensor, sfb1: torch.Tensor, sfb2: torch.Tensor
) -> torch.Tensor:
    """silu(a @ b1^T) * (a @ b2^T) as (M, N) float16."""
    left = dequantize(a, sfa)
    gate, up = left @ dequantize(b1, sfb1).t(), left @ dequantize(b2, sfb2).t()
    return (gate / (1 + torch.exp(-gate)) * up).half()
