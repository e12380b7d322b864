"""The NVFP4 format in torch: e2m1 codes, e4m3 scale factors and the blocked layout of scale factors.

An NVFP4 value is an e2m1 code times the scale factor of its group of 16 along K.
Sources: OCP Microscaling Formats v1.0, 5.3.3 (e2m1); OCP OFP8 v1.0 (e4m3); cuBLAS documentation, "1D Block
Scaling Factors Layout" (the blocked layout).
"""

from __future__ import annotations

import functools

import torch

GROUP_ELEMS = 16
SCALE_TILE_ROWS = 128
SCALE_TILE_GROUPS = 4
SCALE_NAN = 0x7F
SCALE_MAX_FINITE = 0x7E
SCALE_MAGNITUDE_MASK = 0x7F

E2M1_MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
# Midpoints of neighbouring magnitudes; a value on a midpoint rounds to the even code.
_E2M1_MIDPOINTS = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)


def as_bytes(tensor: torch.Tensor) -> torch.Tensor:
    """The same memory as uint8, with the same shape and strides."""
    return tensor.view(torch.uint8)


@functools.cache
def _byte_values(device: torch.device) -> torch.Tensor:
    """The two values in each byte of packed codes, (256, 2)."""
    table = torch.tensor(
        [sign * magnitude for sign in (1.0, -1.0) for magnitude in E2M1_MAGNITUDES],
        dtype=torch.float32,
        device=device,
    )
    byte = torch.arange(256, device=device)
    return torch.stack((table[byte & 15], table[byte >> 4]), dim=-1)


def decode_e2m1(codes: torch.Tensor) -> torch.Tensor:
    """Packed codes (..., K/2), two in a byte with the even k in the low nibble -> float32 (..., K)."""
    packed = as_bytes(codes).int()
    return _byte_values(codes.device)[packed].reshape(*packed.shape[:-1], 2 * packed.shape[-1])


def encode_e2m1(values: torch.Tensor) -> torch.Tensor:
    """float (..., K), K even -> packed codes (..., K/2) uint8, rounded to nearest, ties to the even code.

    Magnitudes above 6 saturate. Raises ValueError for NaN, which e2m1 lacks, and for an odd K.
    """
    if values.shape[-1] % 2 != 0:
        raise ValueError(f"values has {values.shape[-1]} columns; expected an even number")
    if values.isnan().any():
        raise ValueError("values contains a NaN; expected numbers, because e2m1 has no NaN")
    magnitude = values.abs().double()
    code = torch.zeros(values.shape, dtype=torch.uint8, device=values.device)
    for lower_code, midpoint in enumerate(_E2M1_MIDPOINTS):
        # The code above the midpoint is even when the lower one is odd: then a tie goes up.
        above = magnitude >= midpoint if lower_code % 2 else magnitude > midpoint
        code += above.to(torch.uint8)
    code |= values.signbit().to(torch.uint8) << 3
    return code[..., 0::2] | (code[..., 1::2] << 4)


def decode_scales(scales: torch.Tensor) -> torch.Tensor:
    """e4m3 bytes -> float32 magnitudes.  The sign bit is ignored, as tensor cores ignore it; NaN stays NaN."""
    magnitude = as_bytes(scales) & SCALE_MAGNITUDE_MASK
    return magnitude.view(torch.float8_e4m3fn).float()


def decode(codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """Packed codes (rows, K/2) and scale factors (rows, K/16) -> float32 values (rows, K), each exact."""
    rows, groups = scales.shape
    values = decode_e2m1(codes).view(rows, groups, GROUP_ELEMS)
    return values.mul_(decode_scales(scales).unsqueeze(-1)).view(rows, groups * GROUP_ELEMS)


def to_blocked(scales: torch.Tensor, padding: int = SCALE_NAN) -> torch.Tensor:
    """Scale factors (rows, K/16, L) -> the permuted view (32, 4, ceil(rows/128), 4, ceil(K/64), L).

    Memory order is (L, rows/128, K/64, 32, 4, 4); the factor of (row, group) is at
    [row % 32, row % 128 // 32, row // 128, group % 4, group // 4, l]. Places past the last row or group hold
    `padding`, by default NaN, so that a kernel that reads them gives wrong results.
    """
    rows, groups, batches = scales.shape
    tiles_m, tiles_k = -(-rows // SCALE_TILE_ROWS), -(-groups // SCALE_TILE_GROUPS)
    padded = torch.full(
        (batches, tiles_m * SCALE_TILE_ROWS, tiles_k * SCALE_TILE_GROUPS),
        padding,
        dtype=torch.uint8,
        device=scales.device,
    )
    padded[:, :rows, :groups] = as_bytes(scales).permute(2, 0, 1)
    tiles = padded.view(batches, tiles_m, 4, 32, tiles_k, SCALE_TILE_GROUPS)
    memory = tiles.permute(0, 1, 4, 3, 2, 5).contiguous()  # (L, tiles_m, tiles_k, 32, 4, 4)
    return memory.view(torch.float8_e4m3fn).permute(3, 4, 1, 5, 2, 0)


def from_blocked(blocked: torch.Tensor, rows: int, groups: int) -> torch.Tensor:
    """The inverse of to_blocked: scale factors (rows, groups, L) over memory (L, rows, groups)."""
    tiles_m, tiles_k, batches = blocked.shape[2], blocked.shape[4], blocked.shape[5]
    # (32, 4, tiles_m, 4, tiles_k, L) -> (L, tiles_m, 4, 32, tiles_k, 4)
    tiles = as_bytes(blocked).permute(5, 2, 1, 0, 4, 3)
    padded = tiles.reshape(batches, tiles_m * SCALE_TILE_ROWS, tiles_k * SCALE_TILE_GROUPS)
    return padded[:, :rows, :groups].contiguous().view(torch.float8_e4m3fn).permute(1, 2, 0)
