"""A linear layer with an NVFP4 weight."""

from __future__ import annotations

from collections.abc import Iterable
from typing import Self

import torch

from ..extended_operator import plain_gemm
from ..quantize_operator import quantize_nvfp4
from ..scale_layouts import SWIZZLED, linear_scales, swizzle_scales
from .checkpoint import Source, Tensors
from .config import Config
from .layer import Layer
from .weights import (
    CALIBRATED,
    TOKEN,
    QuantizedLinear,
    bias_of,
    check_width,
    dequantize,
    named,
    padded,
    product_scale,
    quantize_linear,
    takes_input_scale,
)


def _in_blocks(factors: torch.Tensor) -> torch.Tensor:
    """Linear scale factors as "swizzled128x4" in two dimensions."""
    view = swizzle_scales(factors)
    return view.permute(2, 4, 0, 1, 3).reshape(-1, 4 * view.shape[4])


class Linear(Layer):
    """x @ W^T + bias with an NVFP4 weight W (out_features, in_features), in the place of a torch.nn.Linear.

    x (..., in_features) in float32, float16 or bfloat16; returns (..., out_features) in x's dtype; for float32 the
    product is rounded to bfloat16.  in_features is even, fastest a multiple of 64.  x is quantized with the scale that
    calibration found (scale="calibrated"), or each row with its own (scale="token"), or with 16-bit activations
    (quantize=False; CPU and Hopper) not at all.

    Casts such as .to(torch.bfloat16) move the buffers and leave their formats.  Derivatives are refused.  torch.export
    takes a dynamic number of rows up to 128, or one from 129 on, since scale factors lie in blocks of 128 rows; without
    quantization any.
    """

    def __init__(
        self,
        weight: QuantizedLinear,
        *,
        bias: torch.Tensor | None = None,
        quantize: bool = True,
        scale: str = CALIBRATED,
        name: str = "weight",
    ) -> None:
        """bias: out_features numbers.  quantize: x is quantized to NVFP4, with weight.input_scale if scale is
        "calibrated".  name: what messages call the weight.  Raises ValueError, naming the tensor, if one has another
        shape or format.
        """
        super().__init__()
        weight = named(weight, name, "in_features")
        self.out_features, self.in_features = weight.codes.shape[0], 2 * weight.codes.shape[1]
        self.quantize, self.scale = quantize, scale
        calibrated = takes_input_scale(quantize, scale)
        if calibrated and weight.input_scale is None:
            raise ValueError(f"{name}'s input_scale is None; expected a number, scale={TOKEN!r}, or quantize=False")
        held = padded(weight)
        self.register_buffer("codes", held.codes.clone(memory_format=torch.contiguous_format))
        # As the GPU kernels read them: a call need not permute its weight's factors.
        self.register_buffer("factors", _in_blocks(held.factors))
        self.register_buffer("weight_scale", held.weight_scale)
        self.register_buffer("input_scale", held.input_scale if calibrated else None)
        scales = (f"{name}'s weight_scale", f"{name}'s input_scale")
        self.register_buffer("product_scale", product_scale(held, scales) if calibrated else held.weight_scale.clone())
        self.register_buffer("bias", bias_of(bias, self.out_features, name))

    @classmethod
    def load(cls, source: Source, prefix: str, *, ignore: Iterable[str] = (), **options: object) -> Self:
        """From a checkpoint: a mapping of tensors, a safetensors file or a model's folder; `prefix` such as
        "model.layers.0.self_attn.q_proj".  Takes the names of compressed-tensors and of ModelOpt, and a bias.  A
        checkpoint without scales of inputs needs scale="token" or quantize=False.  ignore: beginnings of names, after
        the prefix, of tensors to leave out.  options: those of Linear().

        Raises KeyError if a tensor is missing, ValueError if one has another format or no known meaning, and
        ImportError if the source is a file and the package safetensors is not installed.
        """
        Config(source, prefix, ignore)
        tensors = Tensors(source, prefix, ignore)
        weight, bias = tensors.linear("", "in_features", takes_input_scale(**options)), tensors.bias("")
        tensors.refuse_others()
        return cls(weight, bias=bias, **options)

    @classmethod
    def from_linear(cls, linear: torch.nn.Linear, largest_input: float | None = None, **options: object) -> Self:
        """A layer of floats, its weight quantized.  largest_input: inputs above this magnitude will saturate; not
        needed with scale="token" or quantize=False.  options: those of Linear().
        """
        return cls(quantize_linear(linear.weight, largest_input), bias=linear.bias, **options)

    @classmethod
    def random(
        cls, in_features: int, out_features: int, device: torch.device | str | None = None, **options: object
    ) -> Self:
        """Random weights, for inputs of the normal distribution.  Raises ValueError for odd widths of x."""
        check_width("in_features", in_features)
        weight = torch.randn(out_features, in_features, device=device, dtype=torch.float32) * in_features**-0.5
        return cls(quantize_linear(weight, 6), **options)

    def extra_repr(self) -> str:
        shape = f"in_features={self.in_features}, out_features={self.out_features}"
        return f"{shape}, bias={self.bias is not None}, quantize={self.quantize}, scale={self.scale!r}"

    def quantized(self) -> QuantizedLinear:
        """The weight, with what pads in_features to a multiple of 64."""
        rows, half_k = self.codes.shape
        factors = linear_scales(self.factors, rows, half_k // 8)
        return QuantizedLinear(self.codes, factors, self.weight_scale, self.input_scale)

    def dequantized(self) -> torch.Tensor:
        """The matrix in float64."""
        return dequantize(*self.quantized()[:3])[:, : self.in_features]

    def exact(self, x: torch.Tensor) -> torch.Tensor:
        """x W^T + bias in float64."""
        y = x.double() @ self.dequantized().T
        return y if self.bias is None else y + self.bias

    def inputs(
        self, rows: torch.Tensor, dtype: torch.dtype
    ) -> tuple[torch.Tensor, torch.Tensor | None, torch.Tensor | None]:
        """What the product takes of rows of x: codes, factors in "swizzled128x4" and scales of rows, or numbers."""
        if not self.quantize:
            return rows.to(dtype).contiguous(), None, None
        if self.scale == TOKEN:
            return quantize_nvfp4(rows, None, SWIZZLED, dynamic=True)
        return *quantize_nvfp4(rows, self.input_scale, SWIZZLED), None

    def product(
        self, dtype: torch.dtype, x: torch.Tensor, factors: torch.Tensor | None, token_scale: torch.Tensor | None = None
    ) -> torch.Tensor:
        """x W^T + bias of what inputs() returns."""
        return plain_gemm(
            x, self.codes, factors, self.factors, scale=self.product_scale, token_scale=token_scale, bias=self.bias,
            out_dtype=dtype, scale_layout=SWIZZLED,
        )  # fmt: skip

    def forward(self, x: torch.Tensor) -> torch.Tensor:
        """(..., in_features) -> (..., out_features)."""
        rows, dtype = self._rows(x, self.in_features)
        return self._with_shape_of(x, self.product(dtype, *self.inputs(rows, dtype)).to(x.dtype))
