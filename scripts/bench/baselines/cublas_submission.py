"""A submission that dequantizes in torch and multiplies with cuBLAS.

Operands are fp16, which holds every scaled value exactly, products fp32."""

from __future__ import annotations

import torch

MAGNITUDES = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
CODES = torch.cat((MAGNITUDES, -MAGNITUDES)).half()
BYTE = torch.arange(256)
PAIRS = torch.stack((CODES[BYTE & 15], CODES[BYTE >> 4]), -1).view(torch.int32).flatten()  # both values of a byte
_pairs: dict[torch.device, torch.Tensor] = {}


def _dequantize(codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    if codes.device not in _pairs:
        _pairs[codes.device] = PAIRS.to(codes.device)
    values = _pairs[codes.device][codes.view(torch.uint8).int()].view(torch.half)
    magnitudes = (scales.view(torch.uint8) & 0x7F).view(torch.float8_e4m3fn).half()
    return (values.view(*scales.shape, -1) * magnitudes.unsqueeze(-1)).view(codes.shape[0], -1)


def _product(a: torch.Tensor, b: torch.Tensor) -> torch.Tensor:
    if a.is_cuda:
        return torch.mm(a, b.t(), out_dtype=torch.float32)
    return a.float() @ b.float().t()


def custom_kernel(data: tuple[torch.Tensor, ...]) -> torch.Tensor:
    """silu(A @ B1^T) * (A @ B2^T) of the leaderboard's ten tensors; returns c."""
    c = data[-1]
    for batch in range(c.shape[2]):
        a, b1, b2 = (_dequantize(data[i][..., batch], data[i + 3][..., batch]) for i in range(3))
        c[..., batch] = (torch.nn.functional.silu(_product(a, b1)) * _product(a, b2)).half()
    return c
