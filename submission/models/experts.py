"""The experts of a mixture with NVFP4 weights, for tokens that any router has placed.

A call is five launches, six where each row has a scale of its own; on Hopper each of the two products is one more.
"""

from __future__ import annotations

from collections.abc import Callable, Sequence

import torch

from ..experts_operator import grouped_gated_gemm, grouped_plain_gemm, swizzle_expert_scales
from ..extended_operator import NVFP4
from ..quantize_operator import quantize_nvfp4
from ..routing_operator import combine_rows
from ..scale_layouts import LINEAR, SWIZZLED, linear_scales
from .checkpoint import PROJECTIONS
from .gated_mlp import biases_of, layer_of
from .layer import Layer
from .weights import CALIBRATED, GROUP, TOKEN, QuantizedLinear, product_scale, takes_input_scale

_LAYOUTS = (LINEAR, SWIZZLED)  # of A's scale factors and of the weights', which a call then need not permute


class _Projection(Layer):
    """One projection of all experts."""

    def __init__(
        self,
        linears: Sequence[QuantizedLinear],
        biases: Sequence[torch.Tensor | None],
        input_scale: torch.Tensor | None,
        names: tuple[str, str],
    ) -> None:
        """linears, biases: padded.  input_scale: one number or one for each expert, None for inputs that are not
        quantized with it.  names: of the two scales, for messages.
        """
        super().__init__()
        codes, factors, scales, _ = zip(*linears, strict=True)
        weight = QuantizedLinear(
            torch.stack(codes), swizzle_expert_scales(torch.stack(factors)), torch.cat(scales), input_scale
        )
        for field, one in weight._asdict().items():
            self.register_buffer(field, one)
        scale = weight.weight_scale.clone() if input_scale is None else product_scale(weight, names)
        self.register_buffer("product_scale", scale)
        self.register_buffer("bias", None if biases[0] is None else torch.stack(biases))

    def linear(self, number: int, rows: int, k: int) -> tuple[QuantizedLinear, torch.Tensor | None]:
        """An expert's weight (rows, k) and bias, without what pads them."""
        codes = self.codes[number]
        factors = linear_scales(self.factors[number], codes.shape[0], 2 * codes.shape[1] // GROUP)
        inputs = self.input_scale
        if inputs is not None and len(inputs) > 1:
            inputs = inputs[number : number + 1]
        weight = QuantizedLinear(
            codes[:rows, : k // 2], factors[:rows, : -(-k // GROUP)], self.weight_scale[number : number + 1], inputs
        )
        return weight, None if self.bias is None else self.bias[number, :rows]

    def product(self, a: torch.Tensor, factors: torch.Tensor | None, **how: object) -> torch.Tensor | tuple:
        """a W^T + bias, with options of grouped_plain_gemm()."""
        return grouped_plain_gemm(
            a, self.codes, factors, self.factors, scale=self.product_scale, bias=self.bias, scale_layout=_LAYOUTS, **how
        )


class Experts(Layer):
    """E gated MLPs of the same shape, or experts without a gate: down(f(up(x)))."""

    def __init__(
        self,
        linears: Sequence[Sequence[QuantizedLinear]],
        biases: Sequence[Sequence[torch.Tensor | None]] | None = None,
        *,
        name: str = "experts.",
        activation: dict[str, float | str] | None,
        quantize: bool = True,
        scale: str = CALIBRATED,
    ) -> None:
        """linears: gate, up and down of each expert, or up and down; biases: likewise.  name: what messages begin an
        expert's name with.  activation: options of the first product; None: each call has code of its own for what
        lies between the products.  quantize, scale: Linear's.
        """
        super().__init__()
        self.quantize, self.scale, self.activation = quantize, scale, activation
        self.gate_proj = None
        layers = [layer_of(one, f"{name}{number}.") for number, one in enumerate(linears)]
        names, shape = PROJECTIONS[-len(layers[0]) :], linears[0][0].codes.shape
        self.count, self.intermediate, self.hidden = len(layers), shape[0], 2 * shape[1]
        for number, one in enumerate(linears):
            if one[0].codes.shape != shape:
                raise ValueError(
                    f"{name}{number}.{names[0]} has codes of shape {tuple(one[0].codes.shape)}; expected "
                    f"{tuple(shape)}, as {name}0.{names[0]}'s"
                )
        biases = [(None,) * len(names)] * len(layers) if biases is None else biases
        biases = [
            biases_of(*one, f"{name}{number}.") for number, one in enumerate(zip(biases, linears, layers, strict=True))
        ]
        calibrated = takes_input_scale(quantize, scale)
        for number, one in enumerate(layers if calibrated else ()):
            if any(linear.input_scale is None for linear in one):
                raise ValueError(f"{name}{number} has no input_scale; expected one, scale={TOKEN!r}, or quantize=False")
        for place, projection in enumerate(names):
            of_all, of_biases = [one[place] for one in layers], [one[place] for one in biases]
            inputs = torch.cat([one.input_scale for one in of_all]) if calibrated else None
            if calibrated and projection != "down_proj":
                # A token is quantized once for all its experts, so that none saturates that one of them would not.
                inputs = inputs.amin(0, keepdim=True)
            without = [number for number, one in enumerate(of_biases) if one is None]
            if 0 < len(without) < len(of_biases):
                raise ValueError(f"{name}{without[0]}.{projection} has no bias; expected one, as other experts have")
            of_scales = f"the experts' {projection}.weight_scale", "their input_scale"
            setattr(self, projection, _Projection(of_all, of_biases, inputs, of_scales))

    def expert(self, number: int) -> dict[str, tuple[QuantizedLinear, torch.Tensor | None]]:
        """The weights and biases of an expert's projections, with the scale that all share for their input."""
        wide, narrow = self.hidden, self.intermediate
        return {
            name: one.linear(number, *((wide, narrow) if name == "down_proj" else (narrow, wide)))
            for name, one in self.named_children()
        }

    def forward(
        self,
        x: torch.Tensor,
        placed: tuple[torch.Tensor, torch.Tensor, torch.Tensor],
        weights: torch.Tensor | None,
        dtype: torch.dtype,
        between: Callable[[list[torch.Tensor]], torch.Tensor] | None = None,
        norm: Callable[[torch.Tensor], torch.Tensor] | None = None,
    ) -> torch.Tensor:
        """The weighted sums (T, hidden), in dtype, of what the experts compute from x (T, hidden).

        placed: counts, rows and tokens, as route_logits() and route_ids() return them; weights: of the choices, as
        combine_rows() takes them.  between: of the first products, instead of `activation`; norm: of each expert's
        outputs.  What has no row adds nothing.
        """
        counts, rows, tokens = placed
        gate, up, down = self.gate_proj, self.up_proj, self.down_proj
        how: dict[str, object] = {"counts": counts, "out_dtype": dtype}
        first, token_scale = dict(how), None
        if not self.quantize:
            a, first["rows"] = (x.to(dtype).contiguous(), None), tokens
        elif self.scale == TOKEN:
            *a, token_scale = quantize_nvfp4(x, rows=tokens, dynamic=True)
        else:
            a = quantize_nvfp4(x, up.input_scale, rows=tokens)
            if between is None:
                first |= {"out_dtype": NVFP4, "scale_c": down.input_scale}
        first["token_scale"] = token_scale
        if between is not None:
            h = between([one.product(*a, **first) for one in (gate, up) if one is not None])
        elif gate is None:
            h = up.product(*a, **first, **self.activation)
        else:
            codes, factors = a
            h = grouped_gated_gemm(
                codes, gate.codes, up.codes, factors, gate.factors, up.factors, scale_gate=gate.product_scale,
                scale_up=up.product_scale, bias_gate=gate.bias, bias_up=up.bias, scale_layout=_LAYOUTS, **first,
                **self.activation,
            )  # fmt: skip
        if not self.quantize:
            h = h.contiguous(), None
        elif self.scale == TOKEN:
            *h, token_scale = quantize_nvfp4(h, dynamic=True)
        elif between is not None:
            places = torch.arange(len(h), device=h.device)
            number = torch.searchsorted(counts.cumsum(0), places, right=True).clamp(max=self.count - 1)
            h = quantize_nvfp4(h.float() * down.input_scale[number, None])
        y = down.product(*h, token_scale=token_scale, **how)
        return combine_rows(y if norm is None else norm(y), rows, weights)
