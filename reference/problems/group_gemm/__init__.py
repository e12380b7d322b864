"""The grouped GEMM, c_i = a_i @ b_i^T, as the harness knows it (../interface.py); task.md states it."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import TYPE_CHECKING, Any, NamedTuple

from reference.problems import interface
from reference.problems.interface import ACTIVATIONS, FP16_BYTES, GROUP_ELEMS, K_MULTIPLE, WEIGHTS, Block, Problem, Work

if TYPE_CHECKING:
    import torch

FP32_BYTES, FP64_BYTES = 4, 8
TENSORS_A_GROUP = 6  # codes, scale factors by rows and permuted ones, of a and b
MOST_GROUPS = 256


class _Sizes(NamedTuple):
    m: tuple[int, ...]
    n: tuple[int, ...]
    k: tuple[int, ...]


class GroupGemm(_Sizes, interface.Shape):
    """M, N and K of each group: a is M x K, b is N x K, c is M x N; M may be 0.

    data: four lists with a tuple per group: (a, b, c), (sfa, sfb) on the CPU, blocked (sfa, sfb), and (m, n, k, 1).
    The kernel returns the list of all c.
    """

    __slots__ = ()

    @property
    def problem(self) -> Problem:
        """The grouped GEMM."""
        return PROBLEM

    @property
    def groups(self) -> list[tuple[int, int, int]]:
        """(M, N, K) of each group."""
        return list(zip(self.m, self.n, self.k, strict=True))

    def text(self) -> str:
        """`M N K`; a size that all groups share appears once: 80,176 4096 7168 is two groups with one N and K."""
        extents = [[values[0]] if len(set(values)) == 1 else values for values in self]
        count = f" x {len(self.m)}" if all(len(values) == 1 for values in extents) and len(self.m) > 1 else ""
        return " ".join(",".join(map(str, values)) for values in extents) + count

    def record(self) -> dict[str, Any]:
        """m, n, k, g."""
        return {"m": list(self.m), "n": list(self.n), "k": list(self.k), "g": len(self.m)}

    def work(self) -> Work:
        """The sum over all groups; a group with M = 0 reads nothing."""
        groups = [(m, n, k) for m, n, k in self.groups if m]
        adds = sum(m * n * k for m, n, k in groups)
        read = sum((m + n) * (k // 2 + k // GROUP_ELEMS) for m, n, k in groups)
        return Work(adds, read, FP16_BYTES * sum(m * n for m, n, _ in groups))

    def checking_bytes(self) -> int:
        """The larger of: the largest group's dequantized operands and product; its output in float64."""
        reference = max((m + n) * k * FP32_BYTES + m * n * FP32_BYTES for m, n, k in self.groups)
        return max(reference, max(m * n for m, n, _ in self.groups) * FP64_BYTES)

    def inputs(self) -> list[Block]:
        """Six per group: codes, scale factors by rows in host memory and permuted ones, each for a and b."""
        blocks = []
        for m, n, k in self.groups:
            blocks += [interface.packed(m, k, 1, ACTIVATIONS), interface.packed(n, k, 1, WEIGHTS)]
            blocks += [interface.scales(rows, k, 1, on_host=True) for rows in (m, n)]
            blocks += [interface.permuted(rows, k, 1) for rows in (m, n)]
        return blocks

    def output(self) -> list[Block]:
        """One per group."""
        return [interface.output(m, n, 1) for m, n, _ in self.groups]

    def data(self, inputs: Sequence[torch.Tensor], output: Sequence[torch.Tensor]) -> tuple[list[Any], ...]:
        """The leaderboard's four lists."""
        each = [inputs[first : first + TENSORS_A_GROUP] for first in range(0, len(inputs), TENSORS_A_GROUP)]
        return (
            [(a, b, c) for (a, b, *_), c in zip(each, output, strict=True)],
            [(sfa, sfb) for _, _, sfa, sfb, _, _ in each],
            [(sfa, sfb) for _, _, _, _, sfa, sfb in each],
            [(m, n, k, 1) for m, n, k in self.groups],
        )

    def offered(self, data: tuple[list[Any], ...]) -> list[torch.Tensor]:
        """Every c."""
        return [c for _, _, c in data[0]]

    def output_name(self, index: int) -> str:
        """The group's number and sizes."""
        m, n, k = self.groups[index]
        return f"group {index} of {len(self.m)} (M N K = {m} {n} {k})"

    def tile(
        self, inputs: Sequence[torch.Tensor], output: Sequence[torch.Tensor], choose: Callable[[int], int]
    ) -> tuple[interface.Shape, list[torch.Tensor], list[torch.Tensor]]:
        """Some rows of a group that has any."""
        having = [index for index, m in enumerate(self.m) if m]
        group = having[choose(len(having))]
        own = inputs[group * TENSORS_A_GROUP : (group + 1) * TENSORS_A_GROUP]
        part, rows = interface.tile_of_rows(own, output[group], choose)
        return GroupGemm((rows.shape[0],), (self.n[group],), (self.k[group],)), part, [rows]

    def generate(self, seed: int, kind: str, device: torch.device) -> list[torch.Tensor]:
        """group_reference.generate_input()'s tensors, six per group."""
        from reference import group_reference

        abc, by_rows, blocked, _ = group_reference.generate_input(
            *self, len(self.m), seed, full=kind == interface.FULL, device=device
        )
        return [
            tensor
            for (a, b, _), rows, blocks in zip(abc, by_rows, blocked, strict=True)
            for tensor in (a, b, *rows, *blocks)
        ]


def _shape(values: dict[str, Any]) -> GroupGemm:
    groups = values["g"]
    if not 1 <= groups <= MOST_GROUPS:
        raise ValueError(f"g is {groups}; expected 1 to {MOST_GROUPS}")
    for key, least in (("m", 0), ("n", 1), ("k", 1)):
        found = values[key]
        if len(found) != groups:
            raise ValueError(f"{key} has {len(found)} values; expected {groups}, as g says")
        for index, value in enumerate(found):
            if value < least:
                raise ValueError(f"{key} of group {index} is {value}; expected at least {least}")
            if key == "k" and value % K_MULTIPLE != 0:
                raise ValueError(f"k of group {index} is {value}; expected a multiple of {K_MULTIPLE}")
    if not any(values["m"]):
        raise ValueError("m is 0 in every group; expected one with rows")
    return GroupGemm(*(tuple(values[key]) for key in ("m", "n", "k")))


def _alike(m: Sequence[int], n: int, k: int) -> GroupGemm:
    """Groups that differ only in M."""
    return GroupGemm(tuple(m), (n,) * len(m), (k,) * len(m))


PROBLEM = Problem(
    name="group_gemm",
    formula="c_i = a_i @ b_i^T",
    leaderboard="nvfp4_group_gemm",
    submission="submission/group_submission.py",
    columns="M N K of the groups",
    example="m: [96, 128]; n: [128, 256]; k: [256, 512]; g: 2; seed: 1111",
    keys=("m", "n", "k", "g", "seed"),
    lists=frozenset("mnk"),
    inputs=15,
    rounds=100,
    published_us={
        "B200": {
            _alike((80, 176, 128, 72, 64, 248, 96, 160), 4096, 7168): 18.833,
            _alike((40, 76, 168, 72, 164, 148, 196, 160), 7168, 2048): 10.667,
            _alike((192, 320), 3072, 4096): 2.406,
            _alike((128, 384), 4096, 1536): 1.525,
        }
    },
    trials=(_alike((128,), 256, 256), GroupGemm((40, 0, 130), (72, 8, 256), (192, 64, 256))),
    shape=_shape,
    **interface.judged_by("group_reference"),
)
