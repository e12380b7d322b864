"""The dual GEMM, C = silu(A @ B1^T) * (A @ B2^T), as the harness knows it (../interface.py); /task.md states it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reference.problems import interface, product
from reference.problems.interface import ACTIVATIONS, WEIGHTS, Problem

if TYPE_CHECKING:
    import torch


class DualGemm(product.Sizes, product.Product):
    """(M, N, K, L): A is M x K, B1 and B2 are N x K, C is M x N, for each of L batches."""

    __slots__ = ()

    roles = (ACTIVATIONS, WEIGHTS, WEIGHTS)

    @property
    def problem(self) -> Problem:
        """The dual GEMM."""
        return PROBLEM

    def generate(self, seed: int, kind: str, device: torch.device) -> list[torch.Tensor]:
        """reference.generate_input()'s tensors; full data also has NaN scale factors."""
        from reference import full_data, nvfp4, reference

        full = kind == interface.FULL
        data = list(reference.generate_input(*self, seed, full=full, device=device)[:-1])
        if full:
            data[3:6] = full_data.with_nans(data[3:6], seed)
            data[6:9] = [nvfp4.to_blocked(scale) for scale in data[3:6]]
        return data


PROBLEM = Problem(
    name="dual_gemm",
    formula="C = silu(A @ B1^T) * (A @ B2^T)",
    leaderboard="nvfp4_dual_gemm",
    backend_member="run",
    submission="submission/submission.py",
    columns="M N K",
    example="m: 256; n: 4096; k: 7168; l: 1; seed: 1111",
    keys=("m", "n", "k", "l", "seed"),
    published_us={
        "B200": {
            DualGemm(256, 4096, 7168, 1): 4.708,
            DualGemm(512, 4096, 7168, 1): 8.714,
            DualGemm(256, 3072, 4096, 1): 2.125,
            DualGemm(512, 3072, 7168, 1): 6.535,
        }
    },
    trials=(DualGemm(128, 256, 256, 1), DualGemm(40, 72, 192, 2)),
    shape=lambda values: DualGemm(*product.check_sizes(values, "mnkl")),
    **interface.judged_by("reference"),
)
