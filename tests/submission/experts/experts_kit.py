"""Problems of the products of experts, and what of an output is wrong: for their tests on every backend."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from typing import NamedTuple

import torch

from reference import extended_reference as extended
from reference.extended_reference import NVFP4, Extension
from submission import grouped_gated_gemm, grouped_plain_gemm, swizzle_expert_scales, swizzle_scales
from tests.submission.extended.extended_kit import Case, random_case, wrong_bits, wrong_values

WEIGHT_NAMES = {extended.APART: "apart", extended.STACKED: "stacked"}
WEIGHT_NAMES |= {rows: f"interleaved{rows}" for rows in extended.INTERLEAVED}
COUNTS, OFFSETS, ENDS, PADDED = "counts", "offsets", "ends", "padded"
UNWRITTEN = 0xA5  # bytes of an output that no kernel has written (the pool that filled_pool() makes)


class Problem(NamedTuple):
    """A case for each expert, all with the same sizes but the number of rows, and how they are passed."""

    experts: list[Case]
    k: int
    tokens: str = COUNTS
    spare: int = 0  # rows of A that belong to no expert: after the last one, or after each expert's if padded
    blocked: tuple[bool, bool] = (False, False)  # sfa's layout, and that of b's scale factors

    @property
    def counts(self) -> list[int]:
        return [case.codes[0].shape[0] for case in self.experts]

    @property
    def starts(self) -> list[int]:
        """First rows of the experts among all rows of A."""
        if self.tokens == PADDED:
            return [self.capacity * expert for expert in range(len(self.experts))]
        return [sum(self.counts[:expert]) for expert in range(len(self.experts))]

    @property
    def capacity(self) -> int:
        return max(self.counts) + self.spare

    @property
    def rows(self) -> int:
        return self.capacity * len(self.experts) if self.tokens == PADDED else sum(self.counts) + self.spare

    def place(self, tensors: Sequence[torch.Tensor], fill: float) -> torch.Tensor:
        """Rows of each expert's tensor in their places among all rows of A; other rows are `fill`."""
        placed = tensors[0].new_full((self.rows, *tensors[0].shape[1:]), fill)
        for start, tensor in zip(self.starts, tensors, strict=True):
            placed[start : start + tensor.shape[0]] = tensor
        return placed.unflatten(0, (len(self.experts), -1)) if self.tokens == PADDED else placed


def random_problem(
    counts: Sequence[int],
    n: int,
    k: int,
    extension: Extension,
    *,
    weights: int = 0,
    make: Callable = random_case,
    **how,
) -> Problem:
    """Every expert has weights and scales of its own; `how`: other members of Problem."""
    experts = []
    for expert, m in enumerate(counts):
        own = extension
        if extension.scale_gate is not None:
            own = own._replace(scale_gate=extension.scale_gate * 2.0 ** (expert % 3))
        if extension.scale_up is not None:
            own = own._replace(scale_up=extension.scale_up * 2.0 ** (expert % 2))
        if extension.scale_c is not None:
            own = own._replace(scale_c=extension.scale_c * 2.0 ** (expert % 4))
        for name in ("bias_gate", "bias_up"):
            if getattr(extension, name) is not None:
                own = own._replace(**{name: getattr(extension, name) * (1 + expert)})
        if extension.token_scale is not None:
            own = own._replace(token_scale=extension.token_scale[torch.arange(m) % len(extension.token_scale)])
        experts.append(make(m, n, k, own, weights, seed=expert + 1))
    return Problem(experts, k, **how)


def _stacked(problem: Problem, kind: str, index: int) -> torch.Tensor | None:
    tensors = [getattr(case, kind)[index] for case in problem.experts]
    return None if tensors[0] is None else torch.stack(tensors)


def _numbers(problem: Problem, name: str) -> torch.Tensor | None:
    values = [getattr(case.extension, name) for case in problem.experts]
    return None if values[0] is None else torch.stack(values)


def arguments(problem: Problem) -> tuple[list[torch.Tensor | None], dict[str, object]]:
    """What the operator takes."""
    first = problem.experts[0]
    extension, sfa_blocked, sfb_blocked = first.extension, *problem.blocked
    # Rows that belong to no expert have the scale factor NaN: a kernel that used one would show it.
    a = problem.place([case.codes[0] for case in problem.experts], 0x77)
    sfa = problem.place([case.scales[0] for case in problem.experts], 0x7F)
    if sfa_blocked:
        sfa = swizzle_expert_scales(sfa) if problem.tokens == PADDED else swizzle_scales(sfa)
    b, sfb = ([_stacked(problem, kind, index) for index in (1, 2)] for kind in ("codes", "scales"))
    if first.weights != extended.APART:
        b, sfb = (
            [torch.stack([extended.join(*pair, first.weights) for pair in zip(*two, strict=True)]), None]
            for two in (b, sfb)
        )
    if sfb_blocked:
        sfb = [None if one is None else swizzle_expert_scales(one) for one in sfb]
    counts = torch.tensor(problem.counts, dtype=torch.int32)
    ends = counts.cumsum(0, dtype=torch.int32)
    given = {
        OFFSETS: {"offsets": torch.cat([torch.zeros(1, dtype=torch.int32), ends])},
        ENDS: {"offsets": ends},
    }
    options = {
        **given.get(problem.tokens, {"counts": counts}),
        "scale_c": _numbers(problem, "scale_c"),
        "out_dtype": extension.output,
        "scale_layout": tuple("swizzled128x4" if one else "linear" for one in problem.blocked),
    }
    if extension.token_scale is not None:
        tokens = [case.extension.token_scale for case in problem.experts]
        options["token_scale"] = problem.place(tokens, torch.nan)
    if extension.activation is not None:
        options["activation"] = extension.activation
    if extension.plain:
        own = {"scale": _numbers(problem, "scale_gate"), "bias": _numbers(problem, "bias_gate")}
        return [a, b[0], sfa, sfb[0]], options | own
    options |= {
        "scale_gate": _numbers(problem, "scale_gate"),
        "scale_up": _numbers(problem, "scale_up"),
        "weights": WEIGHT_NAMES[first.weights],
        "limit": 0.0 if extension.limit == torch.inf else extension.limit,
        "alpha": extension.alpha,
        "beta": extension.beta,
        "bias_gate": _numbers(problem, "bias_gate"),
        "bias_up": _numbers(problem, "bias_up"),
    }
    return [a, *b, sfa, *sfb], options


def call(problem: Problem, device: str = "cpu") -> tuple[torch.Tensor, ...]:
    """The operator's output, by rows of A: c, or codes and scale factors."""
    tensors, options = arguments(problem)
    moved = [None if one is None else one.to(device) for one in tensors]
    options = {name: one.to(device) if isinstance(one, torch.Tensor) else one for name, one in options.items()}
    operator = grouped_plain_gemm if problem.experts[0].extension.plain else grouped_gated_gemm
    found = operator(*moved, **options)
    outputs = found if isinstance(found, tuple) else (found,)
    return tuple((one.flatten(0, 1) if problem.tokens == PADDED else one).cpu() for one in outputs)


def _rows_of(problem: Problem, found: tuple[torch.Tensor, ...], expert: int) -> object:
    start, count = problem.starts[expert], problem.counts[expert]
    rows = tuple(one[start : start + count] for one in found)
    return rows if problem.experts[expert].extension.output == NVFP4 else rows[0]


def wrong(problem: Problem, found: tuple[torch.Tensor, ...], exactly: bool = False) -> str:
    """A message about the first expert whose rows are wrong; "" if none."""
    check = wrong_bits if exactly else wrong_values
    for expert, case in enumerate(problem.experts):
        text = check(case, _rows_of(problem, found, expert)) if problem.counts[expert] else ""
        if text:
            return f"expert {expert} of {problem.counts}: {text}"
    return ""
