"""The leaderboard's contract for the grouped GEMM, c_i = a_i @ b_i^T: inputs, the reference kernel, the check, and a
float64 oracle; its functions are named as reference.py's are."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from reference import full_data, nvfp4
from reference.check import Oracle, compare, compare_with_oracle
from reference.device import default_device
from reference.operands import (
    LEADERBOARD_CODE_MASK,
    exact_product,
    full_scales,
    has_fp4_tensor_cores,
    random_codes,
    scaled_product,
)

# abc_tensors, sfasfb_tensors, sfasfb_reordered_tensors, problem_sizes: each a list with a tuple for every group.
Data = tuple[Sequence[Any], Sequence[Any], Sequence[Any], Sequence[Any]]
HALF_ROWS = HALF_COLUMNS = 128  # what torch._scaled_mm's operands are a multiple of


def _one_or_two(shape: tuple[int, int, int], generator: torch.Generator) -> torch.Tensor:
    drawn = torch.randint(1, 3, shape, dtype=torch.uint8, device=generator.device, generator=generator)
    return drawn.float().to(torch.float8_e4m3fn).view(torch.uint8)


def generate_input(
    m: Sequence[int],
    n: Sequence[int],
    k: Sequence[int],
    g: int,
    seed: int = 1111,
    full: bool = False,
    device: torch.device | str | None = None,
) -> Data:
    """The leaderboard's lists: (a, b, c), (sfa, sfb), (sfa, sfb) in blocks and (m, n, k, 1), for each of g groups.

    a (M, K/2, 1) and b (N, K/2, 1) codes, c (M, N, 1) float16, uninitialised; scale factors (rows, K/16, 1) on the
    CPU, and (32, 4, ceil(rows/128), 4, K/64, 1) where the rest is.  M may be 0, K is a multiple of 64.  The
    leaderboard's data has codes masked with 0xBB and scale factors of 1 and 2; `full` draws every code and every scale
    magnitude, with random sign bits, and a NaN in some rows.  What pads the blocks is NaN.  A seed gives the same data
    on one kind of device.
    """
    for name, values in (("m", m), ("n", n), ("k", k)):
        if len(values) != g:
            raise ValueError(f"{name} has {len(values)} values; expected {g}, as g says")
    device = torch.device(device) if device is not None else default_device()
    generator = torch.Generator(device).manual_seed(seed)
    mask, draw = (0xFF, full_scales) if full else (LEADERBOARD_CODE_MASK, _one_or_two)
    abc, plain, blocked = [], [], []
    for index, (rows, columns, depth) in enumerate(zip(m, n, k, strict=True)):
        a, b = (random_codes(count, depth, 1, mask, generator) for count in (rows, columns))
        factors = [
            draw((1, count, depth // nvfp4.GROUP_ELEMS), generator).view(torch.float8_e4m3fn).permute(1, 2, 0)
            for count in (rows, columns)
        ]
        if full:
            factors = full_data.with_nans(factors, seed + index)
        c = torch.empty((1, rows, columns), dtype=torch.float16, device=device).permute(1, 2, 0)
        abc.append((a, b, c))
        plain.append(tuple(factor.cpu() for factor in factors))
        blocked.append(tuple(nvfp4.to_blocked(factor) for factor in factors))
    return abc, plain, blocked, [(rows, columns, depth, 1) for rows, columns, depth in zip(m, n, k, strict=True)]


def _products(data: Data) -> list[tuple[tuple[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]]:
    """(a, b) and (sfa, sfb) of every group, all on one device."""
    abc, plain = data[:2]
    if len(abc) != len(plain):
        raise ValueError(f"data has {len(abc)} groups of operands and {len(plain)} of scale factors")
    return [((a, b), (sfa.to(a.device), sfb.to(a.device))) for (a, b, _), (sfa, sfb) in zip(abc, plain, strict=True)]


def ref_kernel(data: Data) -> list[torch.Tensor]:
    """a_i @ b_i^T of every group as a list of new float16 tensors (M, N, 1); data as for custom_kernel.

    Products are fp32, rounded to fp16 once: on the chip's fp4 tensor cores where it has them and the shape suits, else
    of exactly dequantized operands with TF32 off.
    """
    results = []
    for (a, b), (sfa, sfb) in _products(data):
        if has_fp4_tensor_cores(a) and a.shape[0] and not (a.shape[0] % HALF_ROWS or b.shape[0] % HALF_COLUMNS):
            product = scaled_product((a, b), (sfa, sfb), 0)
        else:
            left, right = (nvfp4.decode(*of) for of in ((a[..., 0], sfa[..., 0]), (b[..., 0], sfb[..., 0])))
            product = exact_product(left, right)
        results.append(product.half().unsqueeze(-1))
    return results


def oracle_with_error(data: Data, roundings: float | None = None) -> list[Oracle]:
    """a_i @ b_i^T in float64, not rounded, with a bound of what fp32 sums may lose: roundings times 2^-23 of the sum of
    magnitudes; None is K/16, the most that a sum of K/16 terms can lose, rounded or truncated."""
    oracles = []
    for (a, b), (sfa, sfb) in _products(data):
        left, right = (nvfp4.decode(*of).double() for of in ((a[..., 0], sfa[..., 0]), (b[..., 0], sfb[..., 0])))
        relative = (left.shape[1] / nvfp4.GROUP_ELEMS if roundings is None else roundings) * 2.0**-23
        error = relative * (left.abs() @ right.abs().t())
        oracles.append(Oracle((left @ right.t()).unsqueeze(-1), error.unsqueeze(-1)))
    return oracles


def oracle(data: Data) -> list[torch.Tensor]:
    """a_i @ b_i^T in float64, not rounded: new tensors (M, N, 1)."""
    return [one.value for one in oracle_with_error(data)]


def _first_wrong(output: Sequence[torch.Tensor], verdicts: Sequence[tuple[bool, str]]) -> tuple[bool, str]:
    for index, (ok, message) in enumerate(verdicts):
        if not ok:
            return False, f"group {index} of {len(output)}: {message}"
    return True, ""


def check_implementation(data: Data, output: Sequence[torch.Tensor]) -> tuple[bool, str]:
    """Whether output is the reference's result for data within the leaderboard's tolerance, and why not."""
    wanted = ref_kernel(data)
    if len(output) != len(wanted):
        return False, f"the output is a list of {len(output)}; expected {len(wanted)} tensors"
    return _first_wrong(output, [compare(got, want) for got, want in zip(output, wanted, strict=True)])


def check_against_oracle(
    data: Data, output: Sequence[torch.Tensor], roundings: float | None = None
) -> tuple[bool, str]:
    """As check_implementation, but for any NVFP4 input: against float64, with the error fp32 sums are due."""
    oracles = oracle_with_error(data, roundings)
    if len(output) != len(oracles):
        return False, f"the output is a list of {len(output)}; expected {len(oracles)} tensors"
    verdicts = [compare_with_oracle(got, one) for got, one in zip(output, oracles, strict=True)]
    return _first_wrong(output, verdicts)
