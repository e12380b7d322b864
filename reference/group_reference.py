"""The leaderboard's contract for the grouped GEMM, c_i = a_i @ b_i^T: inputs, reference kernel and check; and a float64
oracle.  The functions have the names of those in reference.py."""

from __future__ import annotations

from collections.abc import Sequence
from typing import Any

import torch

from reference import full_data, nvfp4, product_reference
from reference.check import Oracle, compare, compare_with_oracle
from reference.device import default_device
from reference.operands import LEADERBOARD_CODE_MASK, whole_scales

# abc_tensors, sfasfb_tensors, sfasfb_reordered_tensors, problem_sizes: lists with a tuple per group.
Data = tuple[Sequence[Any], Sequence[Any], Sequence[Any], Sequence[Any]]


BOARD = product_reference.Board(LEADERBOARD_CODE_MASK, whole_scales(1, 2))


def generate_input(
    m: Sequence[int],
    n: Sequence[int],
    k: Sequence[int],
    g: int,
    seed: int = 1111,
    full: bool = False,
    device: torch.device | str | None = None,
) -> Data:
    """The leaderboard's four lists: (a, b, c), (sfa, sfb), blocked (sfa, sfb) and (m, n, k, 1) for each of g groups.

    a (M, K/2, 1) and b (N, K/2, 1) are codes, c (M, N, 1) is uninitialised float16.  Scale factors by rows
    (rows, K/16, 1) are on the CPU, the blocked ones (32, 4, ceil(rows/128), 4, K/64, 1) on `device`, padded with NaN.
    M may be 0; K is a multiple of 64.  The leaderboard's data has codes masked with 0xBB and scale factors 1 and 2;
    `full` draws every code and every scale magnitude with random sign bits, and a NaN in some rows.  The same seed
    gives the same data on the same kind of device.
    """
    for name, values in (("m", m), ("n", n), ("k", k)):
        if len(values) != g:
            raise ValueError(f"{name} has {len(values)} values; expected {g}, as g says")
    device = torch.device(device) if device is not None else default_device()
    generator = torch.Generator(device).manual_seed(seed)
    abc, by_rows, blocked = [], [], []
    for index, (rows, columns, depth) in enumerate(zip(m, n, k, strict=True)):
        (a, b), factors = product_reference.operands((rows, columns), depth, 1, BOARD, generator, full)
        if full:
            factors = full_data.with_nans(factors, seed + index)
        c = torch.empty((1, rows, columns), dtype=torch.float16, device=device).permute(1, 2, 0)
        abc.append((a, b, c))
        by_rows.append(tuple(factor.cpu() for factor in factors))
        blocked.append(tuple(nvfp4.to_blocked(factor) for factor in factors))
    return abc, by_rows, blocked, [(rows, columns, depth, 1) for rows, columns, depth in zip(m, n, k, strict=True)]


def _products(data: Data) -> list[tuple[tuple[torch.Tensor, torch.Tensor], tuple[torch.Tensor, torch.Tensor]]]:
    """(a, b) and (sfa, sfb) of every group, on the device of a."""
    abc, by_rows = data[:2]
    if len(abc) != len(by_rows):
        raise ValueError(
            f"data has {len(abc)} groups of operands and {len(by_rows)} of scale factors; expected as many"
        )
    return [((a, b), (sfa.to(a.device), sfb.to(a.device))) for (a, b, _), (sfa, sfb) in zip(abc, by_rows, strict=True)]


def ref_kernel(data: Data) -> list[torch.Tensor]:
    """a_i @ b_i^T of every group as a list of new float16 tensors (M, N, 1); data as for custom_kernel.

    Products are fp32, rounded to fp16 once.
    """
    return [product_reference.product(*pairs, 0).half().unsqueeze(-1) for pairs in _products(data)]


def oracle_with_error(data: Data, roundings: float | None = None) -> list[Oracle]:
    """a_i @ b_i^T in float64, not rounded, with the bound of product_reference.product_oracle()."""
    found = [product_reference.product_oracle(*pairs, 0, roundings) for pairs in _products(data)]
    return [Oracle(value.unsqueeze(-1), error.unsqueeze(-1)) for value, error in found]


def oracle(data: Data) -> list[torch.Tensor]:
    """a_i @ b_i^T in float64, not rounded: new tensors (M, N, 1)."""
    return [one.value for one in oracle_with_error(data)]


def _first_wrong(output: Sequence[torch.Tensor], verdicts: Sequence[tuple[bool, str]]) -> tuple[bool, str]:
    for index, (ok, message) in enumerate(verdicts):
        if not ok:
            return False, f"group {index} of {len(output)}: {message}"
    return True, ""


def check_implementation(data: Data, output: Sequence[torch.Tensor]) -> tuple[bool, str]:
    """True if output is within the leaderboard's tolerance of ref_kernel(data); else a message says where it is not."""
    wanted = ref_kernel(data)
    if len(output) != len(wanted):
        return False, f"the output is a list of {len(output)}; expected {len(wanted)} tensors"
    return _first_wrong(output, [compare(got, want) for got, want in zip(output, wanted, strict=True)])


def check_against_oracle(
    data: Data, output: Sequence[torch.Tensor], roundings: float | None = None
) -> tuple[bool, str]:
    """check_implementation() for any NVFP4 input: compares with float64 and grants the error bound of fp32 sums."""
    oracles = oracle_with_error(data, roundings)
    if len(output) != len(oracles):
        return False, f"the output is a list of {len(output)}; expected {len(oracles)} tensors"
    verdicts = [compare_with_oracle(got, one) for got, one in zip(output, oracles, strict=True)]
    return _first_wrong(output, verdicts)
