"""What the dual GEMM, the GEMM and the GEMV have in common: one a, products a @ b^T of one size, in L batches."""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from reference.problems import interface
from reference.problems.interface import FP16_BYTES, GROUP_ELEMS, K_MULTIPLE, Block, Work

if TYPE_CHECKING:
    import torch

    from reference.product_reference import Board

FP32_BYTES, FP64_BYTES = 4, 8


class Sizes(NamedTuple):
    """The sizes of the dual GEMM and of the GEMM."""

    m: int
    n: int
    k: int
    l: int  # noqa: E741  (the leaderboard's name)


class Product(interface.Shape):
    """a is M x K, each b has N rows of K and perhaps more as padding, c is M x N, for each of L batches.

    data: codes of a and of each b, their scale factors, the same permuted, and c, which the kernel returns.
    """

    __slots__ = ()

    roles: tuple[str, ...]  # the kinds of blocks (interface.py) of a and of each b

    m: int
    n: int
    k: int
    l: int  # noqa: E741  (the leaderboard's name)

    @property
    def b_rows(self) -> int:
        """Rows of each b, padding included."""
        return self.n

    @property
    def products(self) -> int:
        """How many b there are."""
        return len(self.roles) - 1

    def record(self) -> dict[str, Any]:
        """The sizes by name."""
        return self._asdict()

    @property
    @abstractmethod
    def board(self) -> Board:
        """How the leaderboard draws operands."""

    def text(self) -> str:
        """The sizes but L, followed by `x L` for more than one batch."""
        sizes = " ".join(str(value) for name, value in self.record().items() if name != "l")
        return sizes + (f" x {self.l}" if self.l > 1 else "")

    def work(self) -> Work:
        """Multiply-adds of the products; the operands read, without padding, and c written."""
        read = (self.m + self.products * self.n) * (self.k // 2 + self.k // GROUP_ELEMS)
        adds, written = self.products * self.m * self.n * self.k, FP16_BYTES * self.m * self.n
        return Work(adds * self.l, read * self.l, written * self.l)

    def checking_bytes(self) -> int:
        """The larger of: one batch's dequantized operands and products; all outputs in float64."""
        reference = ((self.m + self.products * self.n) * self.k + self.products * self.m * self.n) * FP32_BYTES
        return max(reference, self.m * self.n * self.l * FP64_BYTES)

    def inputs(self) -> list[Block]:
        """Codes, scale factors by rows and permuted ones, each for a and each b."""
        rows = (self.m, *[self.b_rows] * self.products)
        return [
            *(interface.packed(count, self.k, self.l, role) for count, role in zip(rows, self.roles, strict=True)),
            *(make(count, self.k, self.l) for make in (interface.scales, interface.permuted) for count in rows),
        ]

    def output(self) -> Block:
        """c."""
        return interface.output(self.m, self.n, self.l)

    def data(self, inputs: Sequence[torch.Tensor], output: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The leaderboard's tensors."""
        return (*inputs, output)

    def offered(self, data: tuple[torch.Tensor, ...]) -> torch.Tensor:
        """The tuple's last tensor."""
        return data[-1]

    def output_name(self, index: int) -> str:
        """ "": there is one output."""
        return ""

    def tile(
        self, inputs: Sequence[torch.Tensor], output: torch.Tensor, choose: Callable[[int], int]
    ) -> tuple[interface.Shape, list[torch.Tensor], torch.Tensor]:
        """Some rows of a."""
        part, rows = interface.tile_of_rows(inputs, output, choose)
        return self._replace(m=rows.shape[0]), part, rows

    def generate(self, seed: int, kind: str, device: torch.device) -> list[torch.Tensor]:
        """product_reference.generate_inputs()'s tensors."""
        from reference import product_reference

        return product_reference.generate_inputs(
            (self.m, self.b_rows), self.k, self.l, self.board, seed, kind == interface.FULL, device
        )


def check_sizes(values: dict[str, int], names: str) -> list[int]:
    """The sizes named by one letter each.  Raises ValueError for one that no case has."""
    for key in names:
        if values[key] < 1:
            raise ValueError(f"{key} is {values[key]}; expected at least 1")
    if values["k"] % K_MULTIPLE != 0:
        raise ValueError(f"k is {values['k']}; expected a multiple of {K_MULTIPLE}")
    return [values[key] for key in names]
