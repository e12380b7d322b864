"""A gated MLP of a language model in NVFP4, down(swish(gate(x)) * up(x)), from a checkpoint's tensors.

    pip install .
    python examples/torch_mlp.py [--hidden 256] [--intermediate 512] [--tokens 17] [--checkpoint FILE.safetensors]

Three steps, all in NVFP4: quantize x; compute gate and up in one call with NVFP4 output; multiply that output by the
down projection.  Weights have the format of compressed-tensors checkpoints (NVFP4).  For each of gate_proj, up_proj and
down_proj:

    weight_packed (N, K/2) uint8, weight_scale (N, K/16) e4m3, weight_global_scale and input_global_scale, float32

A weight is code * weight_scale / weight_global_scale, an activation code * scale factor / input_global_scale.  The
result is compared with the same MLP in float64, within the error bound of expected(), and timed against bfloat16 in
torch.
"""

from __future__ import annotations

import argparse
import time
from collections.abc import Callable, Mapping
from pathlib import Path

import torch
from nvfp4_gemm import gated_gemm, plain_gemm

GROUP = 16  # elements of K that share a scale factor
LARGEST = 6.0  # largest e2m1 value
LARGEST_SCALE = 448.0  # largest e4m3 value
MAGNITUDES = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
MIDPOINTS = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)
PROJECTIONS = ("gate_proj", "up_proj", "down_proj")
TENSORS = ("weight_packed", "weight_scale", "weight_global_scale", "input_global_scale")
BF16_ROUNDING = 2.0**-8


def global_scale(x: torch.Tensor) -> torch.Tensor:
    """The global scale that makes the largest scale factor e4m3's largest value."""
    return (LARGEST * LARGEST_SCALE / x.float().abs().amax()).reshape(1)


def quantize(x: torch.Tensor, scale: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """(rows, K) -> e2m1 codes, two a byte (rows, K/2), and an e4m3 scale factor a group of 16 (rows, K/16).

    code * factor / scale approximates x.  The rule is that of the library's NVFP4 output: both are rounded to nearest,
    ties to even.
    """
    groups = x.float().unflatten(-1, (-1, GROUP))
    factors = (groups.abs().amax(-1) * scale * (1 / 6)).clamp(max=LARGEST_SCALE).to(torch.float8_e4m3fn)
    held = factors.float().unsqueeze(-1)
    scaled = groups * torch.where(held == 0, 0.0, scale / held)
    size = scaled.abs()
    # Above an odd midpoint the code is even, so a tie rounds up.
    codes = sum((size >= edge if i % 2 else size > edge).to(torch.uint8) for i, edge in enumerate(MIDPOINTS))
    codes = (codes | (scaled < 0).to(torch.uint8) << 3).flatten(-2)
    return codes[..., 0::2] | codes[..., 1::2] << 4, factors


def dequantize(codes: torch.Tensor, factors: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """The float64 values of quantize()'s result."""
    nibbles = torch.stack((codes & 15, codes >> 4), -1).flatten(-2).int()
    values = MAGNITUDES.to(codes.device)[nibbles & 7].double() * (1 - 2 * (nibbles >> 3))
    return values * factors.double().repeat_interleave(GROUP, -1) / scale.double()


def random_checkpoint(hidden: int, intermediate: int) -> dict[str, torch.Tensor]:
    """A layer of random weights, with the tensor names of a checkpoint."""
    tensors = {}
    for name in PROJECTIONS:
        shape = (hidden, intermediate) if name == "down_proj" else (intermediate, hidden)
        weight = torch.randn(shape) * shape[1] ** -0.5
        scale = global_scale(weight)
        packed, factors = quantize(weight, scale)
        largest = 16.0 if name == "down_proj" else 6.0  # the largest activation that calibration might have seen
        found = (packed, factors, scale, torch.tensor([LARGEST * LARGEST_SCALE / largest]))
        tensors.update({f"{name}.{tensor}": value for tensor, value in zip(TENSORS, found, strict=True)})
    return tensors


class GatedMLP(torch.nn.Module):
    """A gated MLP, hidden -> intermediate -> hidden; both widths are multiples of 64."""

    def __init__(self, tensors: Mapping[str, torch.Tensor], prefix: str = "", limit: float = 0.0) -> None:
        """Reads a checkpoint's tensors whose names begin with `prefix`, such as model.layers.0.mlp.

        Raises KeyError if one is missing, and ValueError if gate and up were calibrated for different inputs.
        """
        super().__init__()
        self.limit = limit
        for projection in PROJECTIONS:
            for name in TENSORS:
                # A file's tensors may have any alignment; the library needs 16 bytes.
                found = tensors[f"{prefix}{projection}.{name}"].clone(memory_format=torch.contiguous_format)
                self.register_buffer(f"{projection}_{name}", found)
            for name in TENSORS[2:]:
                buffer = getattr(self, f"{projection}_{name}").float().reshape(1)
                setattr(self, f"{projection}_{name}", buffer)
        if not torch.equal(self.gate_proj_input_global_scale, self.up_proj_input_global_scale):
            raise ValueError(
                "gate_proj and up_proj differ in input_global_scale; expected the same, as they share an input"
            )
        for projection in PROJECTIONS:  # the scale of a product of codes and scale factors
            scale = 1 / (
                getattr(self, f"{projection}_weight_global_scale") * getattr(self, f"{projection}_input_global_scale")
            )
            self.register_buffer(f"{projection}_scale", scale)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(tokens, hidden) -> (tokens, hidden) bfloat16."""
        codes, factors = quantize(x, self.gate_proj_input_global_scale)
        gated, gated_factors = gated_gemm(
            codes, self.gate_proj_weight_packed, self.up_proj_weight_packed, factors, self.gate_proj_weight_scale,
            self.up_proj_weight_scale, scale_gate=self.gate_proj_scale, scale_up=self.up_proj_scale, limit=self.limit,
            scale_c=self.down_proj_input_global_scale, out_dtype="nvfp4", scale_layout="linear",
        )  # fmt: skip
        return plain_gemm(
            gated, self.down_proj_weight_packed, gated_factors, self.down_proj_weight_scale,
            scale=self.down_proj_scale, out_dtype="bfloat16", scale_layout="linear",
        )  # fmt: skip

    def weight(self, projection: str) -> torch.Tensor:
        """A projection's matrix in float64."""
        packed, factors, scale = (getattr(self, f"{projection}_{name}") for name in TENSORS[:3])
        return dequantize(packed, factors, scale)


def expected(mlp: GatedMLP, x: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """The MLP in float64 with the same quantized x and weights but unquantized intermediate values, and an error bound.

    The bound covers the quantization of the intermediate values.  An element moves by at most half of e2m1's step:
    1/4, 1/2 or 1 scale factors for magnitudes up to 2, 4 and 6 scale factors.  The scale factor is a sixth of its
    group's largest magnitude, or up to 1/16 more; a subnormal one adds 6 * 2^-10 of the scale's unit.  Each movement
    reaches the output times its weight.  If the movements are independent with random signs, their sum exceeds 6 times
    the root of the sum of their squares in 4 of 10^8 outputs (Hoeffding's inequality: 2 exp(-18)).  Saturation always
    reduces a magnitude, so it is counted in full.  Finally the output is rounded to bfloat16.
    """
    scale = mlp.down_proj_input_global_scale.double()
    kept = dequantize(*quantize(x, mlp.gate_proj_input_global_scale), mlp.gate_proj_input_global_scale)
    gate, up, down = kept @ mlp.weight("gate_proj").T, kept @ mlp.weight("up_proj").T, mlp.weight("down_proj")
    if mlp.limit:
        gate, up = gate.clamp(max=mlp.limit), up.clamp(-mlp.limit, mlp.limit)
    gated = torch.nn.functional.silu(gate) * up
    largest = gated.abs().unflatten(-1, (-1, GROUP)).amax(-1).repeat_interleave(GROUP, -1)
    factor = largest / LARGEST * (17 / 16)
    steps = torch.where(gated.abs() <= 2 * factor, 0.25, torch.where(gated.abs() <= 4 * factor, 0.5, 1.0))
    moved = steps * factor + LARGEST * 2.0**-10 / scale
    saturated = (gated.abs() - LARGEST * LARGEST_SCALE / scale).clamp(min=0)
    wanted = gated @ down.T
    bound = 6 * (moved.square() @ down.square().T).sqrt() + saturated @ down.abs().T
    return wanted, bound + (wanted.abs() + bound) * BF16_ROUNDING


def seconds_of(call: Callable[[], object], device: str, repeats: int = 20) -> float:
    """The shortest time of `repeats` calls."""
    best = float("inf")
    for _ in range(repeats):
        if device == "cuda":
            torch.cuda.synchronize()
        begin = time.perf_counter()
        call()
        if device == "cuda":
            torch.cuda.synchronize()
        best = min(best, time.perf_counter() - begin)
    return best


def main() -> None:
    """Prints error and time of one layer; fails if the error exceeds the bound."""
    parser = argparse.ArgumentParser(description=__doc__, formatter_class=argparse.RawDescriptionHelpFormatter)
    parser.add_argument("--hidden", type=int, default=256)
    parser.add_argument("--intermediate", type=int, default=512)
    parser.add_argument("--tokens", type=int, default=17)
    parser.add_argument(
        "--checkpoint",
        type=Path,
        metavar="FILE",
        help="safetensors file with a layer's tensors (default: random weights)",
    )
    parser.add_argument("--prefix", default="", help="prefix of the layer's tensor names, such as model.layers.0.mlp.")
    parser.add_argument("--device", default="cuda" if torch.cuda.is_available() else "cpu")
    options = parser.parse_args()
    torch.manual_seed(0)
    if options.checkpoint:
        from safetensors.torch import load_file

        tensors = load_file(options.checkpoint)
    else:
        tensors = random_checkpoint(options.hidden, options.intermediate)
    mlp = GatedMLP(tensors, options.prefix).to(options.device)
    hidden = mlp.down_proj_weight_packed.shape[0]
    x = torch.randn(options.tokens, hidden, device=options.device)
    with torch.no_grad():
        got = mlp(x).double()
        wanted, bound = expected(mlp, x)
        error = (got - wanted).abs()
        width = mlp.gate_proj_weight_packed.shape[0]
        print(
            f"{options.device}: {options.tokens} tokens, {hidden} -> {width} -> {hidden}: relative error "
            f"{(error.norm() / wanted.norm()).item():.2e}, the rounding of intermediate values to NVFP4 "
            f"(largest element: {(error / bound).max().item():.2f} of that rounding's bound)"
        )
        assert (error <= bound).all()
        gate, up, down = (mlp.weight(name).bfloat16() for name in PROJECTIONS)
        half = x.bfloat16()

        def in_bfloat16() -> torch.Tensor:
            return (torch.nn.functional.silu(half @ gate.T) * (half @ up.T)) @ down.T

        compiled = torch.compile(mlp) if options.device == "cuda" else mlp
        for name, call in (("NVFP4", lambda: compiled(x)), ("torch in bfloat16", in_bfloat16)):
            call()
            print(f"{options.device}: {name} {1e6 * seconds_of(call, options.device):.1f} us")


if __name__ == "__main__":
    main()
