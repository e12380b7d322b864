"""The GEMM, c = a @ b^T, as the harness knows it (../interface.py); task.md states it."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, NamedTuple

from reference.problems import product
from reference.problems.interface import ACTIVATIONS, WEIGHTS, Problem

if TYPE_CHECKING:
    from reference.product_reference import Board

ANY_CODE, LARGEST_SCALE = 0xFF, 3


class _Sizes(NamedTuple):
    m: int
    n: int
    k: int
    l: int  # noqa: E741  (the leaderboard's name)


class Gemm(_Sizes, product.Product):
    """(M, N, K, L): a is M x K, b is N x K, c is M x N, for each of L batches."""

    __slots__ = ()

    roles = (ACTIVATIONS, WEIGHTS)

    @property
    def problem(self) -> Problem:
        """The GEMM."""
        return PROBLEM

    @property
    def b_rows(self) -> int:
        """N: b has no padding."""
        return self.n

    @property
    def board(self) -> Board:
        """Every code; scale factors from 0 to 3."""
        from reference import operands, product_reference

        return product_reference.Board(ANY_CODE, operands.whole_scales(0, LARGEST_SCALE))

    def record(self) -> dict[str, Any]:
        """m, n, k, l."""
        return self._asdict()


def _shape(values: dict[str, int]) -> Gemm:
    return Gemm(*product.check_sizes(values, "mnkl"))


PROBLEM = Problem(
    name="gemm",
    formula="c = a @ b^T",
    leaderboard="nvfp4_gemm",
    backend_member="run_grouped",
    submission="submission/product_submission.py",
    columns="M N K",
    example="m: 128; n: 7168; k: 16384; l: 1; seed: 1111",
    keys=("m", "n", "k", "l", "seed"),
    lists=frozenset(),
    inputs=50,
    rounds=1000,
    # Published with the task, B200 at 1.5 GHz (task.md).
    published_us={
        "B200": {
            Gemm(128, 7168, 16384, 1): 8.994,
            Gemm(128, 4096, 7168, 1): 2.354,
            Gemm(128, 7168, 2048, 1): 1.333,
        }
    },
    trials=(Gemm(128, 256, 256, 1), Gemm(40, 72, 192, 2)),
    shape=_shape,
    reference=product.reference,
    oracle=product.oracle,
)
