"""The leaderboard's contract for one product, c = a @ b^T in L batches (gemm, gemv): inputs, reference kernel and a
float64 oracle.  b may have more rows than c has columns: they are padding, which no result depends on."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch

from reference import full_data, nvfp4
from reference.check import Oracle
from reference.operands import (
    Draw,
    exact_product,
    full_scales,
    has_fp4_tensor_cores,
    random_codes,
    scaled_product,
)

Data = Sequence[torch.Tensor]  # a, b, sfa, sfb, sfa_permuted, sfb_permuted, c
Pair = Sequence[torch.Tensor]  # codes or scale factors of a and b
SCALED_MM_MULTIPLE = 128  # M and N of torch._scaled_mm


class Board(NamedTuple):
    """How a leaderboard draws operands: the bits of a byte of codes that may be set, and the scale factors."""

    code_mask: int
    scales: Draw


def operands(
    rows: Sequence[int], k: int, batches: int, board: Board, generator: torch.Generator, full: bool = False
) -> tuple[list[torch.Tensor], list[torch.Tensor]]:
    """Random codes (rows, K/2, L), and scale factors (rows, K/16, L), of each operand.

    `full` draws every code and every scale magnitude with random sign bits instead of the leaderboard's data.
    """
    mask, draw = (0xFF, full_scales) if full else board
    codes = [random_codes(count, k, batches, mask, generator) for count in rows]
    factors = [
        draw((batches, count, k // nvfp4.GROUP_ELEMS), generator).view(torch.float8_e4m3fn).permute(1, 2, 0)
        for count in rows
    ]
    return codes, factors


def generate_inputs(
    rows: Sequence[int], k: int, batches: int, board: Board, seed: int, full: bool, device: torch.device
) -> list[torch.Tensor]:
    """a, b, sfa, sfb, and both scale factors permuted, padded with NaN; of `full` data some scale factors are NaN too.

    `rows`: of a and b.  The same seed gives the same data on the same kind of device.
    """
    generator = torch.Generator(device).manual_seed(seed)
    codes, factors = operands(rows, k, batches, board, generator, full)
    if full:
        factors = full_data.with_nans(factors, seed)
    return [*codes, *factors, *map(nvfp4.to_blocked, factors)]


def product(codes: Pair, scales: Pair, batch: int) -> torch.Tensor:
    """a @ b^T of one batch in fp32: by the chip's fp4 tensor cores if it has them and M and N are multiples of 128,
    else on exactly dequantized operands with TF32 off."""
    a, b = codes
    whole = a.shape[0] and all(code.shape[0] % SCALED_MM_MULTIPLE == 0 for code in codes)
    if has_fp4_tensor_cores(a) and whole:
        return scaled_product((a, b), scales, batch)
    return exact_product(*(nvfp4.decode(x[..., batch], y[..., batch]) for x, y in zip(codes, scales, strict=True)))


def product_oracle(codes: Pair, scales: Pair, batch: int, roundings: float | None) -> Oracle:
    """a @ b^T of one batch in float64, not rounded, with a bound on the error of fp32 sums.

    The bound is `roundings` times 2^-23 of the sum of magnitudes.  None means K/16, the worst case of a sum of K/16
    terms, rounded or truncated.
    """
    a, b = (nvfp4.decode(x[..., batch], y[..., batch]).double() for x, y in zip(codes, scales, strict=True))
    relative = (a.shape[1] / nvfp4.GROUP_ELEMS if roundings is None else roundings) * 2.0**-23
    return Oracle(a @ b.t(), relative * (a.abs() @ b.abs().t()))


def ref_kernel(data: Data) -> torch.Tensor:
    """a @ b^T as a new float16 tensor of c's shape; products are fp32, rounded to fp16 once."""
    codes, scales, c = data[:2], data[2:4], data[6]
    m, n, batches = c.shape
    output = torch.empty((batches, m, n), dtype=torch.float16, device=c.device)
    if not (has_fp4_tensor_cores(c) and codes[1].shape[0] % SCALED_MM_MULTIPLE == 0):
        codes, scales = _without_padding(codes, n), _without_padding(scales, n)
    for batch in range(batches):
        output[batch] = product(codes, scales, batch)[:, :n].half()
    return output.permute(1, 2, 0)


def oracle_with_error(data: Data, roundings: float | None = None) -> Oracle:
    """a @ b^T in float64 with the bound of product_oracle()."""
    n, batches = data[6].shape[1:]
    codes, scales = _without_padding(data[:2], n), _without_padding(data[2:4], n)
    found = [product_oracle(codes, scales, batch, roundings) for batch in range(batches)]
    return Oracle(*(torch.stack(parts, dim=-1) for parts in zip(*found, strict=True)))


def _without_padding(pair: Pair, n: int) -> Pair:
    return pair[0], pair[1][:n]
