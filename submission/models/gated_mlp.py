"""The gated MLP of a language model with NVFP4 weights."""

from __future__ import annotations

from collections.abc import Iterable, Sequence
from typing import Self

import torch

from ..extended_operator import NVFP4, gated_gemm
from ..operators import OF_GATE, SILU, STACKED, activation_of
from ..scale_layouts import SWIZZLED, linear_scales
from .checkpoint import K_NAMES, PROJECTIONS, Source, Tensors
from .config import Config
from .layer import Errors, Layer, relative
from .linear import Linear
from .weights import (
    CALIBRATED,
    K_MULTIPLE,
    QuantizedLinear,
    bias_of,
    check_width,
    dequantize,
    named,
    padded,
    quantize_linear,
    takes_input_scale,
)


def layer_of(linears: Sequence[QuantizedLinear], name: str = "") -> tuple[QuantizedLinear, ...]:
    """Gate, up and down of the layer `name`, or up and down, checked, with an intermediate width that is no multiple of
    64 padded.

    Gate and up share their input, which is quantized with the smaller of their scales, so that neither saturates.
    """
    names = PROJECTIONS[-len(linears) :]
    *firsts, down = (
        named(one, f"{name}{projection}", k_name)
        for one, projection, k_name in zip(linears, names, K_NAMES[-len(linears) :], strict=True)
    )
    rows, half_k = firsts[0].codes.shape
    check_width("intermediate", rows, f"{name}{names[0]} has codes of shape {(rows, half_k)}: ")
    for projection, one in zip(names, (*firsts, down), strict=True):
        shape = (2 * half_k, rows // 2) if one is down else (rows, half_k)
        if one.codes.shape != shape or one.codes.device != firsts[0].codes.device:
            raise ValueError(
                f"{name}{projection} has codes of shape {tuple(one.codes.shape)} on {one.codes.device}; expected "
                f"{shape} on {firsts[0].codes.device}, as {name}{names[0]}'s have {(rows, half_k)}"
            )
    scales = [one.input_scale for one in firsts]
    if None not in scales:
        shared = torch.cat(scales).amin(0, keepdim=True)
        firsts = [one._replace(input_scale=shared) for one in firsts]
    return *(padded(one, K_MULTIPLE) for one in firsts), padded(down)


def biases_of(
    biases: Sequence[torch.Tensor | None],
    linears: Sequence[QuantizedLinear],
    layer: Sequence[QuantizedLinear],
    name: str = "",
) -> list[torch.Tensor | None]:
    """The biases of these projections, checked, and padded as the layer that layer_of() made of `linears`."""
    if len(biases) != len(linears):
        raise ValueError(f"{name}biases has {len(biases)} members; expected {len(linears)}, one for each projection")
    return [
        bias_of(bias, one.codes.shape[0], f"{name}{projection}", padded_one.codes.shape[0])
        for bias, one, padded_one, projection in zip(biases, linears, layer, PROJECTIONS[-len(layer) :], strict=True)
    ]


def random_layer(hidden: int, intermediate: int, device: torch.device | str | None) -> list[QuantizedLinear]:
    """Gate, up and down for inputs of the normal distribution."""
    check_width("hidden", hidden)
    check_width("intermediate", intermediate)
    shapes = ((intermediate, hidden), (intermediate, hidden), (hidden, intermediate))
    weights = (torch.randn(shape, device=device, dtype=torch.float32) * shape[1] ** -0.5 for shape in shapes)
    return [quantize_linear(one, most) for one, most in zip(weights, (6, 6, 16), strict=True)]


def _numbers(
    linear: Linear, x: torch.Tensor, factors: torch.Tensor | None, token_scale: torch.Tensor | None = None
) -> torch.Tensor:
    """What the inputs() of that layer stand for, in float64."""
    if factors is None:
        return x.double()
    scale = 1 / linear.input_scale if token_scale is None else token_scale.unsqueeze(1)
    return dequantize(x, linear_scales(factors, x.shape[0], x.shape[1] // 8), scale)


_FUNCTIONS = {
    SILU: lambda x, alpha: x * torch.sigmoid(alpha * x),
    "gelu_tanh": lambda x, _: torch.nn.functional.gelu(x, approximate="tanh"),
    "relu2": lambda x, _: torch.relu(x) ** 2,
}


class GatedMLP(Layer):
    """down(f(gate(x)) * up(x)), hidden -> intermediate -> hidden, with NVFP4 weights; f is SiLU or another activation.
    Widths are even, hidden fastest a multiple of 64.

    x (..., hidden) in float32, float16 or bfloat16; returns (..., hidden) in x's dtype, bfloat16 for float32.  x is
    quantized as Linear's, and so is what lies between the products.  Casts, derivatives and export are as Linear's.
    """

    def __init__(
        self,
        gate: QuantizedLinear,
        up: QuantizedLinear,
        down: QuantizedLinear,
        *,
        biases: Sequence[torch.Tensor | None] = (None, None, None),
        activation: str = SILU,
        quantize: bool = True,
        scale: str = CALIBRATED,
        limit: float = 0.0,
        alpha: float = 1.0,
        beta: float = 0.0,
    ) -> None:
        """biases: of the three.  activation, limit, alpha, beta: gated_gemm()'s.  quantize, scale: Linear's.  Where
        gate and up differ in the scale of their input, both take the smaller one.  Raises ValueError, naming the
        projection, if one has another shape or format.
        """
        super().__init__()
        activation_of(activation, OF_GATE)
        layer = layer_of((gate, up, down))
        biases = biases_of(biases, (gate, up, down), layer)
        self.intermediate, self.hidden = gate.codes.shape[0], 2 * gate.codes.shape[1]
        self.quantize, self.scale = quantize, scale
        self.activation, self.limit, self.alpha, self.beta = activation, limit, alpha, beta
        self.gate_proj, self.up_proj, self.down_proj = (
            Linear(one, bias=bias, quantize=quantize, scale=scale, name=name)
            for one, bias, name in zip(layer, biases, PROJECTIONS, strict=True)
        )

    @classmethod
    def load(
        cls,
        source: Source,
        prefix: str = "",
        *,
        ignore: Iterable[str] = (),
        weights: str = STACKED,
        **options: object,
    ) -> Self:
        """From a checkpoint, as Linear.load(), with a `prefix` such as "model.layers.0.mlp."; also w1, w3, w2 for
        gate_proj, up_proj, down_proj, and gate_up_proj for the first two, whose order of rows `weights` is: "stacked",
        or "interleaved1", one of each in turn.

        options: those of GatedMLP().  Those not given are read from config.json in a folder or beside a file.  Raises
        ValueError for an option there that this layer cannot honour, unless ignore= names it.
        """
        options = Config(source, prefix, ignore).of_layer(options)
        tensors = Tensors(source, prefix, ignore)
        linears = tensors.projections(inputs=takes_input_scale(**options), weights=weights)
        biases = tensors.biases(weights=weights)
        tensors.refuse_others()
        return cls(*linears, biases=biases, **options)

    @classmethod
    def random(
        cls, hidden: int, intermediate: int, device: torch.device | str | None = None, **options: object
    ) -> Self:
        """Random weights, for inputs of the normal distribution.  Raises ValueError for odd widths."""
        return cls(*random_layer(hidden, intermediate, device), **options)

    def extra_repr(self) -> str:
        return f"hidden={self.hidden}, intermediate={self.intermediate}"

    def _gated(
        self, x: torch.Tensor, factors: torch.Tensor | None, token_scale: torch.Tensor | None, **output: object
    ) -> torch.Tensor | tuple:
        """The first product, of what inputs() of gate_proj returns."""
        gate, up = self.gate_proj, self.up_proj
        return gated_gemm(
            x, gate.codes, up.codes, factors, gate.factors, up.factors, scale_gate=gate.product_scale,
            scale_up=up.product_scale, token_scale=token_scale, bias_gate=gate.bias, bias_up=up.bias,
            activation=self.activation, limit=self.limit, alpha=self.alpha, beta=self.beta, scale_layout=SWIZZLED,
            **output,
        )  # fmt: skip

    def _inputs_of_down(self, dtype: torch.dtype, *x: torch.Tensor | None) -> tuple[torch.Tensor | None, ...]:
        """down_proj's inputs(), from gate_proj's."""
        down = self.down_proj
        if down.input_scale is not None:
            return self._gated(*x, out_dtype=NVFP4, scale_c=down.input_scale)
        return down.inputs(self._gated(*x, out_dtype=dtype), dtype)

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(..., hidden) -> (..., hidden)."""
        rows, dtype = self._rows(x, self.hidden)
        between = self._inputs_of_down(dtype, *self.gate_proj.inputs(rows, dtype))
        return self._with_shape_of(x, self.down_proj.product(dtype, *between))

    def _between(self, x: torch.Tensor) -> torch.Tensor:
        gate, up = self.gate_proj.exact(x), self.up_proj.exact(x)
        if self.limit:
            gate, up = gate.clamp(max=self.limit), up.clamp(-self.limit, self.limit)
        return _FUNCTIONS[self.activation](gate, self.alpha) * (up + self.beta)

    def errors(self, x: torch.Tensor) -> Errors:
        """How far quantizing the activations (..., hidden), at least one row, takes the output, and the kernels; both
        matter apart.
        """
        rows, dtype = self._rows(x, self.hidden)
        if rows.shape[0] == 0:
            raise ValueError(f"x has shape {tuple(x.shape)}; expected at least one row")
        gate, down = self.gate_proj, self.down_proj
        x_inputs = gate.inputs(rows, dtype)
        between = _numbers(down, *self._inputs_of_down(dtype, *x_inputs))
        same = down.exact(between)
        first = relative(self._gated(*x_inputs, out_dtype=dtype), self._between(_numbers(gate, *x_inputs)))
        second = relative(self(x).view(-1, self.hidden), same)
        return Errors(relative(same, down.exact(self._between(rows))) if self.quantize else 0.0, max(first, second))
