"""Random NVFP4 operands, as the leaderboard draws them or with every code and scale; and A @ B^T of operands."""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from reference import nvfp4

# Leaves the codes 0, 0.5, 1, 1.5 and their negatives in both nibbles.
LEADERBOARD_CODE_MASK = 0xBB
# HW: fp4 tensor cores come with compute capability 10.0 (PTX ISA, tcgen05.mma kind::mxf4nvf4).
FP4_COMPUTE_CAPABILITY = (10, 0)
# Draws scale factors, as bytes, of shape (L, rows, K/16).
Draw = Callable[[tuple[int, int, int], torch.Generator], torch.Tensor]


def random_codes(rows: int, k: int, batches: int, mask: int, generator: torch.Generator) -> torch.Tensor:
    """(rows, K/2, L) e2m1 codes over memory (L, rows, K/2)."""
    shape = (batches, rows, k // 2)
    random = torch.randint(0, 256, shape, dtype=torch.uint8, device=generator.device, generator=generator)
    return (random & mask).view(torch.float4_e2m1fn_x2).permute(1, 2, 0)


def whole_scales(lowest: int, highest: int) -> Draw:
    """Scale factors that are integers, each as likely."""

    def draw(shape: tuple[int, int, int], generator: torch.Generator) -> torch.Tensor:
        options = {"dtype": torch.uint8, "device": generator.device, "generator": generator}
        drawn = torch.randint(lowest, highest + 1, shape, **options)
        return drawn.float().to(torch.float8_e4m3fn).view(torch.uint8)

    return draw


def full_scales(shape: tuple[int, int, int], generator: torch.Generator) -> torch.Tensor:
    """Scale factors of every finite magnitude with random signs, in two kinds of rows.

    Half of the rows draw from all 127 magnitudes, so their sums are large and many outputs overflow fp16. The
    others draw from those below 1/8, subnormals and zero included, so that there are many moderate outputs too.
    """
    options = {"device": generator.device, "generator": generator}
    small = nvfp4.SCALE_MAX_FINITE // 4 + 1
    any_magnitude = torch.randint(0, nvfp4.SCALE_MAX_FINITE + 1, shape, dtype=torch.uint8, **options)
    small_magnitude = torch.randint(0, small, shape, dtype=torch.uint8, **options)
    row_is_small = torch.rand((*shape[:2], 1), **options) < 0.5
    sign = torch.randint(0, 2, shape, dtype=torch.uint8, **options) << 7
    return torch.where(row_is_small, small_magnitude, any_magnitude) | sign


def exact_product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    """a @ b^T of dequantized operands, in their precision and with TF32 off."""
    allowed = torch.backends.cuda.matmul.allow_tf32
    torch.backends.cuda.matmul.allow_tf32 = False
    try:
        return a @ b.t()
    finally:
        torch.backends.cuda.matmul.allow_tf32 = allowed


def scaled_product(codes: Sequence[torch.Tensor], scales: Sequence[torch.Tensor], batch: int) -> torch.Tensor:
    """A @ B^T in fp32 on the chip's fp4 tensor cores, from one batch of (a, b) and their scale factors."""
    # The sign bits are cleared, so that cuBLAS cannot depend on them.
    blocked = [
        (nvfp4.as_bytes(nvfp4.to_blocked(scale[:, :, batch : batch + 1], padding=0)) & nvfp4.SCALE_MAGNITUDE_MASK)
        .permute(5, 2, 4, 0, 1, 3)
        .reshape(-1)
        .view(torch.float8_e4m3fn)
        for scale in scales
    ]
    a, b = (code[:, :, batch] for code in codes)
    return torch._scaled_mm(a, b.t(), blocked[0], blocked[1], out_dtype=torch.float32)


def has_fp4_tensor_cores(tensor: torch.Tensor) -> bool:
    """True if the tensor is on a chip whose tensor cores multiply fp4."""
    return tensor.is_cuda and torch.cuda.get_device_capability(tensor.device) >= FP4_COMPUTE_CAPABILITY
