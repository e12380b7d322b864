"""Random operands in narrow formats: the bytes that kernels take, and their values."""

from __future__ import annotations

import numpy as np
import torch

E2M1 = np.array([0, 0.5, 1, 1.5, 2, 3, 4, 6, 0, -0.5, -1, -1.5, -2, -3, -4, -6])
BIAS = 127  # bias of ue8m0's exponent


def _generator(seed: int) -> torch.Generator:
    return torch.Generator().manual_seed(seed)


def e2m1(rows: int, columns: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Two elements a byte, the first in the low half."""
    packed = torch.randint(0, 256, (rows, columns // 2), generator=_generator(seed), dtype=torch.uint8).numpy()
    return packed, np.stack([E2M1[packed & 15], E2M1[packed >> 4]], -1).reshape(rows, columns)


def e4m3(rows: int, columns: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Normal numbers."""
    x = torch.randn(rows, columns, generator=_generator(seed)).to(torch.float8_e4m3fn)
    return x.view(torch.uint8).numpy(), x.double().numpy()


def ue4m3(rows: int, columns: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Scale factors between 0.25 and 1.25."""
    x = torch.rand(rows, columns, generator=_generator(seed)).add(0.25).to(torch.float8_e4m3fn)
    return x.view(torch.uint8).numpy(), x.double().numpy()


def powers_of_two(rows: int, columns: int, seed: int) -> tuple[np.ndarray, np.ndarray]:
    """Scale factors in ue8m0, from an eighth to eight."""
    x = torch.randint(BIAS - 3, BIAS + 4, (rows, columns), generator=_generator(seed), dtype=torch.uint8).numpy()
    return x, np.exp2(x.astype(np.float64) - BIAS)


def tiled(scales: np.ndarray, tile: int = 128) -> np.ndarray:
    """Scale factors (rows, groups) as tcgen05.cp copies them: four each of 128 rows 32 p + r, as (r, p, factor)."""
    rows, groups = scales.shape
    split = scales.reshape(rows // tile, 4, tile // 4, groups // 4, 4)
    return np.ascontiguousarray(split.transpose(0, 3, 2, 1, 4)).reshape(-1)
