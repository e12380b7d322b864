"""A mixture's experts for tokens that any router has placed: at most eight launches with the router's product, and nine
where each row has a scale of its own.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from ..experts_operator import grouped_gated_gemm, grouped_plain_gemm
from ..extended_operator import NVFP4
from ..operators import APART
from ..quantize_operator import quantize_nvfp4
from ..routing_operator import combine_rows
from ..scale_layouts import LINEAR, SWIZZLED

_LAYOUTS = (LINEAR, SWIZZLED)  # of A's scale factors and of the weights'


class Experts(NamedTuple):
    """The weights of E experts as grouped_gated_gemm() takes them, with factors that swizzle_expert_scales() makes."""

    gate_codes: torch.Tensor  # (E, N, K/2); or (E, 2 N, K/2) with the rows of up, by `weights`
    gate_factors: torch.Tensor
    gate_scale: torch.Tensor  # (E), the products' scales
    down_codes: torch.Tensor
    down_factors: torch.Tensor
    down_scale: torch.Tensor
    # What x is quantized with, and for each expert what lies between the products; the scales above include their
    # reciprocals.  None: each row has a scale of its own, or nothing is quantized.
    input_scale: torch.Tensor | None
    between_scale: torch.Tensor | None
    up_codes: torch.Tensor | None = None
    up_factors: torch.Tensor | None = None
    up_scale: torch.Tensor | None = None
    weights: str = APART
    gate_bias: torch.Tensor | None = None  # (E, N), as the others
    up_bias: torch.Tensor | None = None
    down_bias: torch.Tensor | None = None


def run_experts(
    x: torch.Tensor,
    experts: Experts,
    placed: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
    weights: torch.Tensor | None,
    dtype: torch.dtype,
    quantize: bool = True,
    **activation: float | str,
) -> torch.Tensor:
    """The weighted sums (T, H), in dtype, of what the experts compute from x (T, K).

    placed: counts, rows and tokens, as route_logits() and route_ids() return them; weights: of the choices, as
    combine_rows() takes them.  quantize: False for 16-bit activations, on the CPU and on Hopper.  activation: options
    of grouped_gated_gemm().  What has no row adds nothing.
    """
    counts, rows, tokens = placed
    by_row = quantize and experts.input_scale is None
    if quantize:
        codes, factors, *of_rows = quantize_nvfp4(x, experts.input_scale, rows=tokens, dynamic=by_row)
    else:
        codes, factors = x.to(dtype).contiguous(), None
    between = grouped_gated_gemm(
        codes, experts.gate_codes, experts.up_codes, factors, experts.gate_factors, experts.up_factors, counts=counts,
        scale_gate=experts.gate_scale, scale_up=experts.up_scale, token_scale=of_rows[0] if by_row else None,
        scale_c=experts.between_scale, out_dtype=NVFP4 if quantize and not by_row else dtype,
        bias_gate=experts.gate_bias, bias_up=experts.up_bias, weights=experts.weights, scale_layout=_LAYOUTS,
        rows=None if quantize else tokens, **activation,
    )  # fmt: skip
    if by_row:
        codes, factors, *of_rows = quantize_nvfp4(between, dynamic=True)
    else:
        codes, factors = between if quantize else (between, None)
    found = grouped_plain_gemm(
        codes, experts.down_codes, factors, experts.down_factors, counts=counts, scale=experts.down_scale,
        token_scale=of_rows[0] if by_row else None, bias=experts.down_bias, out_dtype=dtype, scale_layout=_LAYOUTS,
    )  # fmt: skip
    return combine_rows(found, rows, weights)
