"""What comes before and after the products of experts, as operators of PyTorch: each token's experts, the order of rows
that grouped_gated_gemm() takes, and the weighted sum of what the experts computed.

struct custom_kernel_route_args and custom_kernel_combine_args in submission/custom_kernel.h define the arithmetic.
Each call is one launch, and nothing waits for the device.
"""

from __future__ import annotations

import torch

from .operators import forward_ad, register, without_derivative


def _new(of: torch.Tensor, choices: int, experts: int) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    shapes = (experts,), (of.shape[0], choices), (of.shape[0] * choices,)
    return tuple(torch.empty(shape, dtype=torch.int32, device=of.device) for shape in shapes)


register(
    "route",
    lambda logits, choices, experts, *_: (
        *_new(logits, choices, experts),
        torch.empty((logits.shape[0], choices), dtype=torch.float32, device=logits.device),
    ),
)
register("route.ids", lambda ids, experts, *_: _new(ids, ids.shape[1], experts))
register("combine", lambda y, rows, *_: y.new_empty(rows.shape[0], y.shape[1]))
_route, _route_ids = torch.ops.nvfp4_gemm.route.default, torch.ops.nvfp4_gemm.route.ids
_combine = torch.ops.nvfp4_gemm.combine.default


def route_logits(
    logits: torch.Tensor,
    top_k: int,
    *,
    normalize: bool = True,
    experts: int | None = None,
    expert_map: torch.Tensor | None = None,
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor, torch.Tensor]:
    """The top_k experts of each token by a router's logits (T, R), float32, float16 or bfloat16, and their rows.

    The choices are the largest logits, the lower number first among equals.  Their weights are softmax(logits), in
    float32, and with normalize divided by their sum over the choices.  T may be 0, R at most 1,024, top_k at most 32.

    experts: the number of experts of the products that follow; None: R.  expert_map: int32 (R), the number among these
    of each of the router's, another number such as -1 for none.

    Returns counts (experts), int32, rows of each expert, for grouped_gated_gemm(); rows (T, top_k), int32, the row of
    each choice, -1 for one of no expert; tokens (T * top_k), int32, the token of each row, -1 past the last one, for
    quantize_nvfp4(rows=); and weights (T, top_k), float32.  Rows are sorted by expert, and for one expert by token.

    CPU or CUDA, on the device's current queue.  Raises RuntimeError or ValueError, naming the argument.
    """
    if not isinstance(logits, torch.Tensor):
        raise TypeError(f"logits is {logits!r:.40}; expected a torch.Tensor")
    if experts is None:
        experts = logits.shape[-1] if logits.dim() > 0 else 0
    found = _route(logits, top_k, experts, normalize, expert_map)
    if found[3].requires_grad or forward_ad._current_level >= 0:
        return without_derivative(found, logits=logits)
    return found


def route_ids(
    ids: torch.Tensor, experts: int, *, expert_map: torch.Tensor | None = None
) -> tuple[torch.Tensor, torch.Tensor, torch.Tensor]:
    """The rows of choices that any router has made: ids (T, choices), int32 or int64.

    An id that is not from 0 to experts - 1, such as -1, is of no expert: the choice has no row.  expert_map: int32 (R),
    the number of each id from 0 to R - 1, which then is the one that counts.

    Returns counts, rows and tokens as route_logits() does.
    """
    return _route_ids(ids, experts, expert_map)


def combine_rows(y: torch.Tensor, rows: torch.Tensor, weights: torch.Tensor | None = None) -> torch.Tensor:
    """The sum of weights[t, i] * y[rows[t, i]] over i for each token t, in float32 and in this order, in y's dtype.

    y (T * choices, N), float16 or bfloat16; rows (T, choices), int32; weights (T, choices), float32, float16 or
    bfloat16, None for ones.  A choice whose row is not in y, such as -1, adds nothing.  Returns (T, N).
    """
    found = _combine(y, rows, weights)
    if found.requires_grad or forward_ad._current_level >= 0:
        return without_derivative(found, y=y, weights=weights)
    return found
