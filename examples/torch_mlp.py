"""A gated MLP of a language model, down(silu(gate(x)) * up(x)), its first two matrices in NVFP4.

    pip install .
    python examples/torch_mlp.py

The weights are quantized once, the activations in each call; torch.compile takes the whole module in one graph.
"""

from __future__ import annotations

import torch
from nvfp4_gemm import dual_gemm

GROUP = 16  # elements of K that share a scale factor
LARGEST = 6.0  # of e2m1
MAGNITUDES = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
MIDPOINTS = torch.tensor([0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0])


def quantize(x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(rows, K) -> e2m1 values, two a byte (rows, K/2), and an e4m3 scale factor a group of 16 (rows, K/16)."""
    groups = x.float().unflatten(-1, (-1, GROUP))
    scales = (groups.abs().amax(-1) / LARGEST).to(torch.float8_e4m3fn)
    scaled = groups / scales.float().clamp(min=2**-9).unsqueeze(-1)  # 2^-9: the smallest e4m3 number
    codes = torch.bucketize(scaled.abs(), MIDPOINTS.to(x.device)) + 8 * (scaled < 0)
    codes = codes.flatten(-2).to(torch.uint8)
    return codes[..., 0::2] | codes[..., 1::2] << 4, scales


def dequantize(codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """The float32 values that quantize() kept."""
    nibbles = torch.stack((codes & 15, codes >> 4), -1).flatten(-2).int()
    values = MAGNITUDES.to(codes.device)[nibbles & 7] * (1 - 2 * (nibbles >> 3))
    return values * scales.float().repeat_interleave(GROUP, -1)


class GatedMLP(torch.nn.Module):
    """hidden -> intermediate -> hidden; both widths multiples of 64."""

    def __init__(self, hidden: int, intermediate: int) -> None:
        super().__init__()
        for name in ("gate", "up"):
            codes, scales = quantize(torch.randn(intermediate, hidden) * hidden**-0.5)
            self.register_buffer(f"{name}_codes", codes)
            self.register_buffer(f"{name}_scales", scales)
        self.down = torch.nn.Linear(intermediate, hidden, bias=False, dtype=torch.float16)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(tokens, hidden) -> (tokens, hidden)."""
        codes, scales = quantize(x)
        gated = dual_gemm(codes, self.gate_codes, self.up_codes, scales, self.gate_scales, self.up_scales)
        return self.down(gated.to(self.down.weight.dtype))


def main() -> None:
    """Compares the module with the same arithmetic in float32."""
    torch.manual_seed(0)
    device = "cuda" if torch.cuda.is_available() else "cpu"
    mlp = GatedMLP(hidden=256, intermediate=512).to(device)
    x = torch.randn(32, 256, device=device)
    with torch.no_grad():
        got = mlp(x).float()
        kept = dequantize(*quantize(x))
        gate, up = (
            kept @ dequantize(*pair).T for pair in ((mlp.gate_codes, mlp.gate_scales), (mlp.up_codes, mlp.up_scales))
        )
        wanted = (torch.nn.functional.silu(gate) * up) @ mlp.down.weight.float().T
    worst = ((got - wanted).abs().max() / wanted.abs().max()).item()
    print(f"{device}: worst error {worst:.1e} of the largest output")
    assert worst < 2e-3  # two roundings to fp16, each within 2^-11


if __name__ == "__main__":
    main()
