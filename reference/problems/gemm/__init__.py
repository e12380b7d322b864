"""The GEMM, c = a @ b^T, as the harness knows it (../interface.py); task.md states it."""

from __future__ import annotations

from typing import TYPE_CHECKING

from reference.problems import interface, product
from reference.problems.interface import ACTIVATIONS, WEIGHTS, Problem

if TYPE_CHECKING:
    from reference.product_reference import Board

ANY_CODE, LARGEST_SCALE = 0xFF, 3


class Gemm(product.Sizes, product.Product):
    """(M, N, K, L): a is M x K, b is N x K, c is M x N, for each of L batches."""

    __slots__ = ()

    roles = (ACTIVATIONS, WEIGHTS)

    @property
    def problem(self) -> Problem:
        """The GEMM."""
        return PROBLEM

    @property
    def board(self) -> Board:
        """Every code; scale factors from 0 to 3."""
        from reference import operands, product_reference

        return product_reference.Board(ANY_CODE, operands.whole_scales(0, LARGEST_SCALE))


PROBLEM = Problem(
    name="gemm",
    formula="c = a @ b^T",
    leaderboard="nvfp4_gemm",
    submission="submission/product_submission.py",
    columns="M N K",
    example="m: 128; n: 7168; k: 16384; l: 1; seed: 1111",
    keys=("m", "n", "k", "l", "seed"),
    published_us={
        "B200": {
            Gemm(128, 7168, 16384, 1): 8.994,
            Gemm(128, 4096, 7168, 1): 2.354,
            Gemm(128, 7168, 2048, 1): 1.333,
        }
    },
    trials=(Gemm(128, 256, 256, 1), Gemm(40, 72, 192, 2)),
    shape=lambda values: Gemm(*product.check_sizes(values, "mnkl")),
    **interface.judged_by("product_reference"),
)
