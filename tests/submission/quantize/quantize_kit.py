"""Inputs of the quantizer at every edge of its arithmetic, and what it must make of them, operation by operation."""

from __future__ import annotations

import itertools

import numpy as np
import torch

from reference import extended_reference as extended
from reference import nvfp4

TYPES = (torch.float16, torch.bfloat16, torch.float32)
LAYOUTS = ("linear", "swizzled128x4", "swizzled8x4")
MIDPOINTS = (0.25, 0.75, 1.25, 1.75, 2.5, 3.5, 5.0)


def random_bits(m: int, columns: int, dtype: torch.dtype, seed: int) -> torch.Tensor:
    """Any bits at all in a third of the rows, and numbers of like size in the others."""
    generator = torch.Generator().manual_seed(seed)
    kind = torch.int32 if dtype is torch.float32 else torch.int16
    bits = torch.randint(-(2**31), 2**31, (m, columns), generator=generator).to(kind)
    numbers = torch.randn(m, columns, generator=generator) * torch.exp2(
        torch.randint(-12, 12, (m, 1), generator=generator).float()
    )
    rows = torch.arange(m).unsqueeze(1)
    return torch.where(rows % 3 == 1, bits.view(dtype), numbers.to(dtype))


def ties(dtype: torch.dtype) -> torch.Tensor:
    """Rows whose numbers lie on e2m1's midpoints and beside them, for scale factors of many sizes, with a global scale
    of 1; and groups whose scale factor itself lies on a midpoint of e4m3, or beside it."""
    rows = []
    for exponent in range(-8, 9):
        middle = torch.tensor(MIDPOINTS, dtype=dtype) * 2.0**exponent
        for beside in (middle, middle.nextafter(middle * 2), middle.nextafter(middle * 0)):
            group = torch.cat([beside, -beside, torch.tensor([6.0, -0.0], dtype=dtype) * 2.0**exponent])
            rows.append(group)
    factors = torch.arange(0x7F, dtype=torch.uint8).view(torch.float8_e4m3fn).double()
    for first, second in itertools.pairwise(factors):
        for top in ((first + second) / 2 * 6, second * 6):
            number = top.to(dtype)
            for one in (number, number.nextafter(number * 2), number.nextafter(number * 0)):
                rows.append(torch.cat([one.reshape(1), -one.reshape(1) / 3, torch.linspace(0, 1, 14).to(dtype) * one]))
    flat = torch.cat(rows)
    return torch.nn.functional.pad(flat, (0, -flat.numel() % 64)).reshape(-1, 64)


def normed(
    x: torch.Tensor, weight: torch.Tensor | None, epsilon: float, residual: torch.Tensor | None
) -> tuple[torch.Tensor, torch.Tensor]:
    """RMSNorm in numpy, each operation in float32 and in the order that the library promises, and x + residual."""
    rounded = x if residual is None else (x.float() + residual.float()).to(x.dtype)
    h = rounded.float().numpy()
    units = (h * h).reshape(len(h), -1, 8)
    parts = np.zeros(units.shape[:2], np.float32)
    for i in range(8):
        parts = parts + units[:, :, i]
    partials = np.zeros((len(h), 512), np.float32)
    for first in range(0, parts.shape[1], 512):
        some = parts[:, first : first + 512]
        partials[:, : some.shape[1]] += some
    trees = partials.reshape(len(h), 16, 32)
    while trees.shape[2] > 1:
        half = trees.shape[2] // 2
        trees = trees[:, :, :half] + trees[:, :, half:]
    total = np.zeros(len(h), np.float32)
    for tree in range(16):
        total = total + trees[:, tree, 0]
    mean = total / np.float32(h.shape[1])
    factor = np.float32(1) / np.sqrt(mean + np.float32(epsilon))
    v = h * factor[:, None]
    return torch.from_numpy(v if weight is None else v * weight.float().numpy()), rounded


def as_rows(scales: torch.Tensor, layout: str, m: int, k: int) -> tuple[torch.Tensor, torch.Tensor]:
    """Scale factors (M, K/16) as bytes, found by the formulas of the layouts, and the padding's bytes."""
    groups, tiles = k // 16, (k + 63) // 64
    if layout == "linear":
        return scales.view(torch.uint8), torch.empty(0, dtype=torch.uint8)
    raw = scales.view(torch.uint8)
    memory = (raw.permute(2, 4, 0, 1, 3) if layout == "swizzled128x4" else raw).flatten()
    row, group = torch.arange(m).unsqueeze(1), torch.arange(groups).unsqueeze(0)
    if layout == "swizzled128x4":
        place = (row // 128 * tiles + group // 4) * 512 + row % 32 * 16 + row % 128 // 32 * 4 + group % 4
    else:
        place = (row // 8 * tiles + group // 4) * 32 + row % 8 * 4 + group % 4
    padding = torch.ones(memory.numel(), dtype=torch.bool)
    padding[place.flatten()] = False
    return memory[place], memory[padding]


def gathered(x: torch.Tensor, rows: list[int]) -> torch.Tensor:
    """Those rows of x, of zeros where x has no such row."""
    return torch.stack([x[row] if 0 <= row < len(x) else torch.zeros_like(x[0]) for row in rows])


def scales_of_rows(values: torch.Tensor) -> tuple[torch.Tensor, torch.Tensor]:
    """What each row is quantized with, and what a product multiplies it by: each operation in float32."""
    most = values.float().abs().amax(-1).clamp(min=2.0**-100)
    return torch.tensor(2688.0) / most, most * torch.tensor(1 / 2688.0, dtype=torch.float32)


def _quantized(values: torch.Tensor, scale: torch.Tensor) -> extended.Quantized:
    """With one scale, or with one for each row."""
    if scale.dim() == 0:
        return extended.quantize(values, scale)
    rows = [extended.quantize(values[i : i + 1], one) for i, one in enumerate(scale)]
    return extended.Quantized(*(torch.cat(one) for one in zip(*rows, strict=True)))


def wrong(
    values: torch.Tensor,
    scale: object,
    layout: str,
    found: tuple[torch.Tensor, torch.Tensor],
    saturated: int | None = None,
) -> str:
    """How codes and scale factors differ from those of `values`; "" if they do not."""
    scale = torch.tensor(1.0) if scale is None else torch.as_tensor(scale, dtype=torch.float32)
    want = _quantized(values, scale)
    codes, scales = found[0], found[1]
    m, k = values.shape
    by_rows, padding = as_rows(scales, layout, m, k)
    if not torch.equal(by_rows, want.scales):
        where = (by_rows != want.scales).nonzero()
        return f"{len(where)} scale factors differ, first at {where[:1].tolist()}"
    if not torch.equal(codes, want.codes):
        where = (codes != want.codes).nonzero()
        return f"{len(where)} bytes of codes differ, first at {where[:1].tolist()}"
    if padding.any():
        return "padding is not zero"
    if saturated is None:
        return ""
    valid = scale if scale > 0 and scale.isfinite() else torch.tensor(torch.nan)
    largest = values.float().abs().unflatten(1, (-1, 16)).amax(-1)
    cut = int((largest * valid * torch.tensor(1 / 6, dtype=torch.float32) > 448).sum())
    return "" if saturated == cut else f"{saturated} groups counted as cut; expected {cut}"


def decoded(codes: torch.Tensor, scales: torch.Tensor) -> torch.Tensor:
    """The values of linear NVFP4."""
    return nvfp4.decode(codes, scales)
