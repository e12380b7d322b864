"""What the harness, the bundle and the scripts know of a problem.

A problem is described by a `Problem`; its sizes in one case are a `Shape`, which every part of the harness takes and
hands on without looking into it.  A kernel gets one object, `data`, made of input tensors and of the output that is
offered to it: a tensor, or a list of tensors.  Nothing here needs torch before tensors are asked for: a command line is
judged before torch is loaded, which takes seconds.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import torch

    from reference.check import Oracle

Output = Any  # a torch.Tensor, or a list of them
BOARD, FULL = KINDS = ("board", "full")  # of data: the leaderboard's, or every code and scale factor
FP16_BYTES = 2
GROUP_ELEMS = 16  # of K that share a scale factor
SCALE_TILE_ROWS, SCALE_TILE_K = 128, 64  # what a tile of the blocked layout covers
K_MULTIPLE = 64

# What a block's rows are to the harness, which spoils some until the cache is flushed (eval/lending/canaries.py).
ACTIVATIONS, WEIGHTS, OTHER = "activations", "weights", "other"


class Block(NamedTuple):
    """One tensor: its memory order, its dtype's name in torch, and the permutation that a submission sees."""

    memory: tuple[int, ...]
    dtype: str
    view: tuple[int, ...]
    role: str = OTHER
    on_host: bool = False  # in the host's memory wherever the rest lies

    @property
    def bytes(self) -> int:
        """Its size in memory."""
        elements = FP16_BYTES if self.dtype == "float16" else 1  # every other one here is of bytes
        for size in self.memory:
            elements *= size
        return elements


def packed(rows: int, k: int, batches: int, role: str) -> Block:
    """The codes of an operand: (rows, K/2, L) over memory (L, rows, K/2)."""
    return Block((batches, rows, k // 2), "float4_e2m1fn_x2", (1, 2, 0), role)


def scales(rows: int, k: int, batches: int, on_host: bool = False) -> Block:
    """Its scale factors by rows: (rows, K/16, L) over memory (L, rows, K/16)."""
    return Block((batches, rows, k // GROUP_ELEMS), "float8_e4m3fn", (1, 2, 0), on_host=on_host)


def permuted(rows: int, k: int, batches: int) -> Block:
    """Its scale factors in blocks of 128 rows: (32, 4, ceil(rows/128), 4, K/64, L)."""
    tiles_m, tiles_k = -(-rows // SCALE_TILE_ROWS), k // SCALE_TILE_K
    return Block((batches, tiles_m, tiles_k, 32, 4, 4), "float8_e4m3fn", (3, 4, 1, 5, 2, 0))


def output(m: int, n: int, batches: int) -> Block:
    """An output (M, N, L) over memory (L, M, N)."""
    return Block((batches, m, n), "float16", (1, 2, 0))


class Work(NamedTuple):
    """What a problem takes at least: multiply-adds, and bytes that have to pass through memory."""

    multiply_adds: int
    read_bytes: int  # codes, and scale factors in one layout
    written_bytes: int


class Shape(ABC):
    """The sizes of a case.  A subclass is a tuple: it can be compared, hashed and sent to another process."""

    @property
    @abstractmethod
    def problem(self) -> Problem:
        """Whose sizes these are."""

    @abstractmethod
    def text(self) -> str:
        """As a report's column `problem.columns` shows them."""

    @abstractmethod
    def record(self) -> dict[str, Any]:
        """By the names that a case line has."""

    @abstractmethod
    def work(self) -> Work:
        """What it takes at least."""

    @abstractmethod
    def checking_bytes(self) -> int:
        """Memory that the reference takes beside inputs and outputs, at least."""

    @abstractmethod
    def inputs(self) -> list[Block]:
        """The input tensors, in the order of `generate`."""

    @abstractmethod
    def output(self) -> Block | list[Block]:
        """The output, or the list of them."""

    @abstractmethod
    def data(self, inputs: Sequence[torch.Tensor], output: Output) -> tuple[Any, ...]:
        """What custom_kernel takes."""

    @abstractmethod
    def offered(self, data: tuple[Any, ...]) -> Output:
        """The output that lies in data, as a kernel returns it."""

    @abstractmethod
    def output_name(self, index: int) -> str:
        """What output `index` is called; "" for the only one."""

    @abstractmethod
    def generate(self, seed: int, kind: str, device: torch.device) -> list[torch.Tensor]:
        """Inputs of a kind.  A seed gives the same on one kind of device."""


@dataclass(frozen=True)
class Problem:
    """One problem."""

    name: str  # as --problem takes it
    formula: str
    leaderboard: str
    backend_member: str  # of struct backend (submission/core/backend.h): what runs it
    task: str  # its text, as a path in the checkout
    submission: str  # the package's own
    cases: str  # the folder of test.txt, benchmark.txt and full.txt
    columns: str  # of a report, above Shape.text
    example: str  # a case line
    keys: tuple[str, ...]  # of a case line; the last one is the seed
    lists: frozenset[str]  # those of them whose value is a list
    inputs: int  # distinct ones in a timed round of the leaderboard
    rounds: int  # it makes at most
    published_us: dict[str, dict[Shape, float]]  # least times by the chip they were published for
    trials: tuple[Shape, ...]  # small ones that show whether a kernel works at all
    # Sizes by their names, integers or lists of them.  Raises ValueError saying what is wrong.
    shape: Callable[[dict[str, Any]], Shape]
    # The leaderboard's result for data, and the one in float64; the latter takes how many roundings sums are due.
    reference: Callable[[tuple[Any, ...]], Output]
    oracle: Callable[[tuple[Any, ...], float | None], Oracle | list[Oracle]]


def parts(whole: Any) -> list[Any]:
    """What an output consists of: the list of its tensors, or the one tensor."""
    return whole if isinstance(whole, list) else [whole]


def blank(shape: Shape, device: torch.device) -> Output:
    """An output of these sizes, uninitialised."""
    import torch

    def made(block: Block) -> torch.Tensor:
        return torch.empty(block.memory, dtype=getattr(torch, block.dtype), device=device).permute(block.view)

    return like(shape.output(), [made(block) for block in parts(shape.output())])


def like(whole: Any, made: Sequence[Any]) -> Any:
    """What was made of each of an output's parts, in the form of that output."""
    return list(made) if isinstance(whole, list) else made[0]
