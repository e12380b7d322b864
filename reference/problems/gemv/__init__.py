"""The matrix-vector product, c = a @ b^T with one row of b, as the harness knows it (../interface.py); task.md states
it."""

from __future__ import annotations

from typing import TYPE_CHECKING, NamedTuple

from reference.problems import interface, product
from reference.problems.interface import ACTIVATIONS, WEIGHTS, Problem

if TYPE_CHECKING:
    from reference.product_reference import Board

# The leaderboard's reference multiplies by all rows of a tile of scale factors.
PADDED_ROWS = 128
UP_TO_THREE, LARGEST_SCALE = 0x03, 2  # a byte of codes from 0 to 3: the even k is 0, 0.5, 1 or 1.5, the odd one 0


class _Sizes(NamedTuple):
    m: int
    k: int
    l: int  # noqa: E741  (the leaderboard's name)


class Gemv(_Sizes, product.Product):
    """(M, K, L): a is M x K, b is 1 x K and padded to 128 rows, c is M x 1, for each of L batches."""

    __slots__ = ()

    n = 1
    b_rows = PADDED_ROWS
    roles = (WEIGHTS, ACTIVATIONS)

    @property
    def problem(self) -> Problem:
        """The matrix-vector product."""
        return PROBLEM

    @property
    def board(self) -> Board:
        """Codes 0, 0.5, 1 and 1.5 at every even k and 0 at every odd one; scale factors from 0 to 2."""
        from reference import operands, product_reference

        return product_reference.Board(UP_TO_THREE, operands.whole_scales(0, LARGEST_SCALE))


PROBLEM = Problem(
    name="gemv",
    formula="c = a @ b^T with one row of b",
    leaderboard="nvfp4_gemv",
    submission="submission/product_submission.py",
    columns="M K",
    example="m: 7168; k: 16384; l: 1; seed: 1111",
    keys=("m", "k", "l", "seed"),
    inputs=1,  # this leaderboard times single calls
    published_us={
        "B200": {
            Gemv(7168, 16384, 1): 8.622,
            Gemv(4096, 7168, 8): 17.275,
            Gemv(7168, 2048, 4): 4.317,
        }
    },
    trials=(Gemv(128, 256, 1), Gemv(40, 192, 2)),
    shape=lambda values: Gemv(*product.check_sizes(values, "mkl")),
    **interface.judged_by("product_reference"),
)
