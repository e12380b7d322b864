"""The dual GEMM, C = silu(A @ B1^T) * (A @ B2^T), as the harness knows it (../interface.py); task.md states it."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from reference.problems import interface
from reference.problems.interface import ACTIVATIONS, FP16_BYTES, GROUP_ELEMS, K_MULTIPLE, WEIGHTS, Block, Problem, Work

if TYPE_CHECKING:
    import torch

    from reference.check import Oracle

FP32_BYTES, FP64_BYTES = 4, 8


class _Sizes(NamedTuple):
    m: int
    n: int
    k: int
    l: int  # noqa: E741  (the leaderboard's name)


class DualGemm(_Sizes, interface.Shape):
    """(M, N, K, L): A is M x K, B1 and B2 are N x K, C is M x N, for each of L batches.

    data: a, b1, b2, sfa, sfb1, sfb2, the same three permuted, and c, which the kernel returns.
    """

    __slots__ = ()

    @property
    def problem(self) -> Problem:
        """The dual GEMM."""
        return PROBLEM

    def text(self) -> str:
        """`M N K`, followed by `x L` for more than one batch."""
        return f"{self.m} {self.n} {self.k}" + (f" x {self.l}" if self.l > 1 else "")

    def record(self) -> dict[str, Any]:
        """m, n, k, l."""
        return self._asdict()

    def work(self) -> Work:
        """Multiply-adds of two products; the operands read and C written."""
        read = (self.m + 2 * self.n) * (self.k // 2 + self.k // GROUP_ELEMS)
        written = FP16_BYTES * self.m * self.n
        return Work(2 * self.m * self.n * self.k * self.l, read * self.l, written * self.l)

    def checking_bytes(self) -> int:
        """The larger of: one batch's dequantized operands and products; all outputs in float64."""
        reference = (self.m + 2 * self.n) * self.k * FP32_BYTES + 2 * self.m * self.n * FP32_BYTES
        return max(reference, self.m * self.n * self.l * FP64_BYTES)

    def inputs(self) -> list[Block]:
        """Nine: codes, scale factors by rows and permuted ones, each for a, b1 and b2."""
        rows = ((self.m, ACTIVATIONS), (self.n, WEIGHTS), (self.n, WEIGHTS))
        return [
            *(interface.packed(count, self.k, self.l, role) for count, role in rows),
            *(make(count, self.k, self.l) for make in (interface.scales, interface.permuted) for count, _ in rows),
        ]

    def output(self) -> Block:
        """C."""
        return interface.output(self.m, self.n, self.l)

    def data(self, inputs: Sequence[torch.Tensor], output: torch.Tensor) -> tuple[torch.Tensor, ...]:
        """The leaderboard's ten tensors."""
        return (*inputs, output)

    def offered(self, data: tuple[torch.Tensor, ...]) -> torch.Tensor:
        """The tuple's last tensor."""
        return data[-1]

    def output_name(self, index: int) -> str:
        """ "": there is one output."""
        return ""

    def generate(self, seed: int, kind: str, device: torch.device) -> list[torch.Tensor]:
        """reference.generate_input()'s tensors; full data also has NaN scale factors."""
        from reference import full_data, nvfp4, reference

        full = kind == interface.FULL
        data = list(reference.generate_input(*self, seed, full=full, device=device)[:-1])
        if full:
            data[3:6] = full_data.with_nans(data[3:6], seed)
            data[6:9] = [nvfp4.to_blocked(scale) for scale in data[3:6]]
        return data


def _shape(values: dict[str, int]) -> DualGemm:
    for key in ("m", "n", "k", "l"):
        if values[key] < 1:
            raise ValueError(f"{key} is {values[key]}; expected at least 1")
    if values["k"] % K_MULTIPLE != 0:
        raise ValueError(f"k is {values['k']}; expected a multiple of {K_MULTIPLE}")
    return DualGemm(values["m"], values["n"], values["k"], values["l"])


def _reference(data: tuple[torch.Tensor, ...]) -> torch.Tensor:
    from reference import reference

    return reference.ref_kernel(data)


def _oracle(data: tuple[torch.Tensor, ...], roundings: float | None) -> Oracle:
    from reference import reference

    return reference.oracle_with_error(data, roundings)


PROBLEM = Problem(
    name="dual_gemm",
    formula="C = silu(A @ B1^T) * (A @ B2^T)",
    leaderboard="nvfp4_dual_gemm",
    backend_member="run",
    submission="submission/submission.py",
    columns="M N K",
    example="m: 256; n: 4096; k: 7168; l: 1; seed: 1111",
    keys=("m", "n", "k", "l", "seed"),
    lists=frozenset(),
    inputs=50,
    rounds=1000,
    # Published with the task, B200 at 1.5 GHz (task.md).
    published_us={
        "B200": {
            DualGemm(256, 4096, 7168, 1): 4.708,
            DualGemm(512, 4096, 7168, 1): 8.714,
            DualGemm(256, 3072, 4096, 1): 2.125,
            DualGemm(512, 3072, 7168, 1): 6.535,
        }
    },
    trials=(DualGemm(128, 256, 256, 1), DualGemm(40, 72, 192, 2)),
    shape=_shape,
    reference=_reference,
    oracle=_oracle,
)
