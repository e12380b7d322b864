"""What check_gpu.py checks of the GEMM and the matrix-vector product."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any

import torch

from eval.cases import read_cases
from eval.judge import judge_as_board, judge_full
from reference.problems import PROBLEMS
from reference.problems.interface import BOARD, FULL, Shape, blank
from submission.product_submission import custom_kernel

ROOT = Path(__file__).resolve().parents[3]
REPEATS = 200
Verdict = Iterator[tuple[str, bool, str]]
device = "cuda"


def poisoned(shape: Shape, seed: int, kind: str) -> tuple[Any, ...]:
    """Inputs with NaN in the output, so that an element that is not written shows."""
    on = torch.device(device)
    data = shape.data(shape.generate(seed, kind, on), blank(shape, on))
    data[-1].fill_(float("nan"))
    return data


def leaderboard(name: str) -> Verdict:
    """The tests and the benchmarks, with the leaderboard's own check."""
    for file in ("test", "benchmark"):
        for case in read_cases(ROOT / PROBLEMS[name].cases / f"{file}.txt"):
            data = poisoned(case.shape, case.seed, BOARD)
            verdict = judge_as_board(case.shape, data, custom_kernel(data))
            yield f"{file} {case.shape.text()}", verdict.ok, verdict.message


def full(name: str) -> Verdict:
    """Every code and every scale factor: edges, and the benchmarks."""
    for file in ("full", "benchmark"):
        for case in read_cases(ROOT / PROBLEMS[name].cases / f"{file}.txt"):
            data = poisoned(case.shape, case.seed, FULL)
            verdict = judge_full(case.shape, data, custom_kernel(data))
            yield f"full {case.shape.text()}", verdict.ok, verdict.message


def rings(name: str) -> Verdict:
    """Small shapes that go several times around what is loaded ahead: for compute-sanitizer (make sanitize)."""
    for case in read_cases(ROOT / PROBLEMS[name].cases / "full.txt"):
        data = poisoned(case.shape, case.seed, FULL)
        verdict = judge_full(case.shape, data, custom_kernel(data))
        yield f"{case.shape.text()}", verdict.ok, verdict.message


def repeats(name: str) -> Verdict:
    """The same inputs give the same bits every time, calls back to back."""
    for case in read_cases(ROOT / PROBLEMS[name].cases / "benchmark.txt"):
        data = poisoned(case.shape, case.seed, BOARD)
        want = custom_kernel(data).clone()
        wrong = torch.zeros((), dtype=torch.int64, device=device)
        for _ in range(REPEATS):
            data[-1].fill_(float("nan"))
            wrong += (custom_kernel(data) != want).sum()
        yield f"{REPEATS} repeats of {case.shape.text()}", int(wrong) == 0, f"{int(wrong)} elements differ"


def checks(name: str) -> dict[str, Callable[[], Verdict]]:
    """The checks of a problem, by name."""
    return {check.__name__: partial(check, name) for check in (leaderboard, full, repeats, rings)}
