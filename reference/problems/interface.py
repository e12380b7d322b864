"""The interface between a problem (a folder beside this file) and the harness, the bundle and the scripts.

A `Problem` describes a problem.  A `Shape` holds its sizes in one case; the harness passes it on without looking into
it.  A kernel gets one object, `data`, with the input tensors and the output to write: a tensor or a list of tensors.
This module imports torch only when tensors are made: torch takes seconds to load, and a wrong command line should be
refused at once.
"""

from __future__ import annotations

from abc import ABC, abstractmethod
from collections.abc import Callable, Sequence
from dataclasses import dataclass
from importlib import import_module
from typing import TYPE_CHECKING, Any, NamedTuple

if TYPE_CHECKING:
    import torch

    from reference.check import Oracle

Output = Any  # a torch.Tensor, or a list of them
BOARD, FULL = KINDS = ("board", "full")  # kinds of data: as the leaderboard draws it; every code and scale factor
FP16_BYTES = 2
GROUP_ELEMS = 16  # elements of K that share a scale factor
SCALE_TILE_ROWS, SCALE_TILE_K = 128, 64  # a tile of the blocked layout
K_MULTIPLE = 64
MAIN = "dual_gemm"  # the problem whose text is the checkout's task.md
FOLDER = "reference/problems"  # has a folder for each problem, named as the problem

# Kinds of blocks.  The harness changes some rows until the cache is flushed (eval/lending/canaries.py).
ACTIVATIONS, WEIGHTS, OTHER = "activations", "weights", "other"


class Block(NamedTuple):
    """One tensor: its memory order, its dtype's name in torch, and the permutation that a submission sees."""

    memory: tuple[int, ...]
    dtype: str
    view: tuple[int, ...]
    role: str = OTHER
    on_host: bool = False  # kept in host memory, even if the other tensors are on a GPU

    @property
    def bytes(self) -> int:
        """Its size in memory."""
        elements = FP16_BYTES if self.dtype == "float16" else 1  # all other dtypes here have one byte
        for size in self.memory:
            elements *= size
        return elements


def packed(rows: int, k: int, batches: int, role: str) -> Block:
    """An operand's codes: (rows, K/2, L) over memory (L, rows, K/2)."""
    return Block((batches, rows, k // 2), "float4_e2m1fn_x2", (1, 2, 0), role)


def scales(rows: int, k: int, batches: int, on_host: bool = False) -> Block:
    """An operand's scale factors, row by row: (rows, K/16, L) over memory (L, rows, K/16)."""
    return Block((batches, rows, k // GROUP_ELEMS), "float8_e4m3fn", (1, 2, 0), on_host=on_host)


def permuted(rows: int, k: int, batches: int) -> Block:
    """An operand's scale factors in blocks of 128 rows: (32, 4, ceil(rows/128), 4, K/64, L)."""
    tiles_m, tiles_k = -(-rows // SCALE_TILE_ROWS), k // SCALE_TILE_K
    return Block((batches, tiles_m, tiles_k, 32, 4, 4), "float8_e4m3fn", (3, 4, 1, 5, 2, 0))


def output(m: int, n: int, batches: int) -> Block:
    """An output (M, N, L) over memory (L, M, N)."""
    return Block((batches, m, n), "float16", (1, 2, 0))


class Work(NamedTuple):
    """The least work of a case: multiply-adds, and bytes read from and written to memory."""

    multiply_adds: int
    read_bytes: int  # codes, and scale factors in one layout
    written_bytes: int


class Shape(ABC):
    """The sizes of a case.  A subclass is a tuple: it can be compared, hashed and sent to another process."""

    @property
    @abstractmethod
    def problem(self) -> Problem:
        """The problem that has these sizes."""

    @abstractmethod
    def text(self) -> str:
        """The sizes as a report shows them, in its column `problem.columns`."""

    @abstractmethod
    def record(self) -> dict[str, Any]:
        """The sizes by the names that a case line uses."""

    @abstractmethod
    def work(self) -> Work:
        """The least work."""

    @abstractmethod
    def checking_bytes(self) -> int:
        """A lower bound on the memory that the reference needs in addition to inputs and outputs."""

    @abstractmethod
    def inputs(self) -> list[Block]:
        """The input tensors, in the order of generate()."""

    @abstractmethod
    def output(self) -> Block | list[Block]:
        """The output, or the list of them."""

    @abstractmethod
    def data(self, inputs: Sequence[torch.Tensor], output: Output) -> tuple[Any, ...]:
        """The argument of custom_kernel()."""

    @abstractmethod
    def offered(self, data: tuple[Any, ...]) -> Output:
        """The output tensors in `data`, in the form in which a kernel returns them."""

    @abstractmethod
    def output_name(self, index: int) -> str:
        """The name of output `index`; "" if it is the only one."""

    @abstractmethod
    def tile(
        self, inputs: Sequence[torch.Tensor], output: Output, choose: Callable[[int], int]
    ) -> tuple[Shape, list[torch.Tensor], Output]:
        """A part of a case that is a case itself: up to SCALE_TILE_ROWS rows of a, and all that they are multiplied by.

        choose(n) chooses one of n parts.
        """

    @abstractmethod
    def generate(self, seed: int, kind: str, device: torch.device) -> list[torch.Tensor]:
        """Random inputs of a kind (KINDS).  The same seed gives the same inputs on the same kind of device."""


@dataclass(frozen=True)
class Problem:
    """A problem."""

    name: str  # the value of --problem, and its folder here
    formula: str
    leaderboard: str
    submission: str  # path of this package's submission
    columns: str  # heading of Shape.text() in a report
    example: str  # a case line
    keys: tuple[str, ...]  # keys of a case line; the last one is the seed
    # Lower bounds of the time that the organisers published with the task, by chip; the B200's at 1.5 GHz.
    published_us: dict[str, dict[Shape, float]]
    trials: tuple[Shape, ...]  # small cases that show whether a kernel works at all
    # Makes the Shape of sizes by name (integers or lists of them).  Raises ValueError for a wrong size.
    shape: Callable[[dict[str, Any]], Shape]
    # The leaderboard's result for data; and the float64 result with an error bound, given `roundings` of the sums.
    reference: Callable[[tuple[Any, ...]], Output]
    oracle: Callable[[tuple[Any, ...], float | None], Oracle | list[Oracle]]
    backend_member: str = "run_grouped"  # the member of struct backend (submission/core/backend.h) that runs it
    lists: frozenset[str] = frozenset()  # the keys whose value is a list
    inputs: int = 50  # distinct inputs in a timed round of the leaderboard
    rounds: int = 1000  # most rounds that the leaderboard times

    @property
    def cases(self) -> str:
        """The folder of test.txt, benchmark.txt and full.txt, as a path in the checkout."""
        return f"{FOLDER}/{self.name}"

    @property
    def task(self) -> str:
        """Path of its text in the checkout; that of the main problem lies at the top."""
        return "task.md" if self.name == MAIN else f"{self.cases}/task.md"


def judged_by(module: str) -> dict[str, Callable[..., Any]]:
    """A Problem's reference and oracle: two functions of a module of reference/, which imports torch when called."""

    def call(name: str) -> Callable[..., Any]:
        return lambda *arguments: getattr(import_module(f"reference.{module}"), name)(*arguments)

    return {"reference": call("ref_kernel"), "oracle": call("oracle_with_error")}


def tile_of_rows(
    inputs: Sequence[torch.Tensor], output: torch.Tensor, choose: Callable[[int], int]
) -> tuple[list[torch.Tensor], torch.Tensor]:
    """Some rows of the first operand and of the output; inputs are codes, scales and permuted scales by operand."""
    tile = choose(-(-output.shape[0] // SCALE_TILE_ROWS))
    rows = slice(tile * SCALE_TILE_ROWS, (tile + 1) * SCALE_TILE_ROWS)
    part, operands = list(inputs), len(inputs) // 3
    for index in (0, operands):
        part[index] = inputs[index][rows]
    part[2 * operands] = inputs[2 * operands][:, :, tile : tile + 1]
    return part, output[rows]


def parts(whole: Any) -> list[Any]:
    """An output's parts as a list: its tensors, or the one tensor."""
    return whole if isinstance(whole, list) else [whole]


def blank(shape: Shape, device: torch.device) -> Output:
    """An uninitialised output for these sizes."""
    import torch

    def made(block: Block) -> torch.Tensor:
        return torch.empty(block.memory, dtype=getattr(torch, block.dtype), device=device).permute(block.view)

    return like(shape.output(), [made(block) for block in parts(shape.output())])


def like(whole: Any, made: Sequence[Any]) -> Any:
    """`made`, one item for each of parts(whole), in the form of `whole`: a list, or the one item."""
    return list(made) if isinstance(whole, list) else made[0]
