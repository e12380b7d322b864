"""The checks of check_gpu.py for the grouped GEMM (--problem group_gemm)."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import torch

from eval.cases import read_cases
from reference.group_reference import check_against_oracle, check_implementation, generate_input
from reference.problems.group_gemm import PROBLEM, GroupGemm
from submission.group_submission import custom_kernel

ROOT = Path(__file__).resolve().parents[3]
REPEATS = 300
EDGES = GroupGemm((1, 40, 0, 72, 129, 200, 260), (130, 300, 64, 7, 128, 1000, 129), (64, 128, 64, 192, 1088, 3072, 448))
Verdict = Iterator[tuple[str, bool, str]]
device = "cuda"  # check_gpu.py's --device


def poisoned(shape: GroupGemm, seed: int = 1111, full: bool = False) -> tuple[Any, ...]:
    """Inputs with NaN in the outputs, so that an element that is not written shows."""
    data = generate_input(*shape, len(shape.m), seed, full=full, device=device)
    poison(data)
    return data


def poison(data: tuple[Any, ...]) -> None:
    """Fills every output with NaN."""
    for _, _, c in data[0]:
        c.fill_(float("nan"))


def same_bits(x: Sequence[torch.Tensor], y: Sequence[torch.Tensor]) -> bool:
    """Equal to the bit in every group, NaNs included."""
    return all(torch.equal(one.view(torch.int16), other.view(torch.int16)) for one, other in zip(x, y, strict=True))


def kept(outputs: Sequence[torch.Tensor]) -> list[torch.Tensor]:
    """Copies of outputs."""
    return [output.clone() for output in outputs]


def wait() -> None:
    """Waits until a CUDA device has finished its work."""
    if device == "cuda":
        torch.cuda.synchronize()


def leaderboard() -> Verdict:
    """The ten tests and the four benchmarks, with the leaderboard's own check."""
    for name in ("test", "benchmark"):
        for case in read_cases(ROOT / PROBLEM.cases / f"{name}.txt"):
            data = poisoned(case.shape, case.seed)
            yield f"{name} {case.shape.text()}", *check_implementation(data, custom_kernel(data))


def full() -> Verdict:
    """Every code and every scale, NaNs among them, on the tests, the benchmarks and groups that fill no tile."""
    shapes = [case.shape for name in ("test", "benchmark") for case in read_cases(ROOT / PROBLEM.cases / f"{name}.txt")]
    for seed, shape in enumerate([*shapes, EDGES]):
        data = poisoned(shape, seed, full=True)
        yield f"full {shape.text()}", *check_against_oracle(data, custom_kernel(data))


def many() -> Verdict:
    """More groups than one launch takes."""
    each = range(200)
    shape = GroupGemm(*(tuple((1 + i % size) * unit for i in each) for size, unit in ((70, 1), (3, 72), (4, 64))))
    data = poisoned(shape, full=True)
    yield "200 groups", *check_against_oracle(data, custom_kernel(data))


def rings() -> Verdict:
    """Groups that fill no tile, whose K goes around the ring of stages: for compute-sanitizer (make sanitize)."""
    data = poisoned(EDGES, 3, full=True)
    yield "rings", *check_against_oracle(data, custom_kernel(data))


def repeats() -> Verdict:
    """The same inputs give the same bits every time, calls back to back."""
    for case in read_cases(ROOT / PROBLEM.cases / "benchmark.txt"):
        data = poisoned(case.shape)
        want = kept(custom_kernel(data))
        wrong = torch.zeros((), dtype=torch.int64, device=device)
        for _ in range(REPEATS):
            poison(data)
            for output, right in zip(custom_kernel(data), want, strict=True):
                wrong += (output.view(torch.int16) != right.view(torch.int16)).sum()
        yield f"{REPEATS} repeats of {case.shape.text()}", int(wrong) == 0, f"{int(wrong)} elements differ"


def back_to_back() -> Verdict:
    """Calls of different groups without a pause between them: dependent launches must not run ahead."""
    shapes = [case.shape for case in read_cases(ROOT / PROBLEM.cases / "test.txt")] + [EDGES]
    sets = [poisoned(shape, seed) for seed, shape in enumerate(shapes * 2)]
    wants = [kept(custom_kernel(data)) for data in sets]
    wait()
    for data in sets:
        poison(data)
    for data in sets * 5:
        custom_kernel(data)
    wait()
    for i, (data, want) in enumerate(zip(sets, wants, strict=True)):
        yield f"back to back {i}", same_bits([c for _, _, c in data[0]], want), "differs from the same call alone"


def produced_inputs() -> Verdict:
    """Inputs written by the kernel just before, on the same queue."""
    shape = GroupGemm((192, 320), (3072, 3072), (4096, 4096))
    source, data = poisoned(shape, 3), poisoned(shape, 4)
    want = kept(custom_kernel(source))
    pairs = [
        (to, value)
        for (a, b, _), right, factors, others in zip(data[0], source[0], data[2], source[2], strict=True)
        for to, value in zip((a, b, *factors), (*right[:2], *others), strict=True)
    ]
    for _ in range(20):
        for to, value in pairs:
            to.view(torch.uint8).zero_()
            to.view(torch.uint8).copy_(value.view(torch.uint8))
        custom_kernel(data)
    wait()
    yield "inputs made just before", same_bits([c for _, _, c in data[0]], want), "stale inputs were read"


def capture() -> Verdict:
    """Under CUDA graph capture, on one of torch's queues."""
    data = poisoned(GroupGemm((128, 384), (4096, 4096), (1536, 1536)))
    want = kept(custom_kernel(data))
    graph = torch.cuda.CUDAGraph()
    with torch.cuda.graph(graph):
        custom_kernel(data, queue=torch.cuda.current_stream().cuda_stream)
    for i in range(3):
        poison(data)
        graph.replay()
        torch.cuda.synchronize()
        yield f"graph replay {i}", same_bits([c for _, _, c in data[0]], want), "differs from the call outside"


CHECKS: dict[str, Callable[[], Verdict]] = {
    check.__name__: check for check in (leaderboard, full, many, repeats, back_to_back, produced_inputs, rings, capture)
}
