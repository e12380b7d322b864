"""Quantized linear layers of a checkpoint: the two conventions of names, safetensors files, NVFP4 from and to numbers.

compressed-tensors   weight_packed, weight_scale, weight_global_scale, input_global_scale: global scales are divisors, a
                     weight is code * weight_scale / weight_global_scale
ModelOpt             weight (uint8), weight_scale, weight_scale_2, input_scale: both are multipliers, a weight is
                     code * weight_scale * weight_scale_2

In both, weight_scale (N, K/16) is row by row.
"""

from __future__ import annotations

import json
from collections.abc import Mapping
from pathlib import Path
from typing import NamedTuple

import torch

from .quantize_operator import quantize_nvfp4

_LARGEST_PRODUCT = 6.0 * 448.0  # of an e2m1 code and an e4m3 scale factor
_MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
_INDEX = "model.safetensors.index.json"

Source = Mapping[str, torch.Tensor] | str | Path


class QuantizedLinear(NamedTuple):
    """A linear layer's weight, code * factor * weight_scale, and the scale that its input is quantized with."""

    codes: torch.Tensor  # (N, K/2) uint8
    factors: torch.Tensor  # (N, K/16) float8_e4m3fn
    weight_scale: torch.Tensor  # one float32 number, a multiplier
    input_scale: torch.Tensor  # one float32 number: quantize_nvfp4()'s global_scale

    @property
    def product_scale(self) -> torch.Tensor:
        """The scale of a product of this weight's codes and those of its input."""
        return self.weight_scale / self.input_scale


def _safetensors(source: str | Path, prefix: str) -> dict[str, torch.Tensor]:
    """The tensors with that prefix of a file, or of a folder's files."""
    try:
        from safetensors import safe_open
    except ImportError:
        raise ImportError("a checkpoint's files need the package safetensors: pip install safetensors") from None
    path = Path(source)
    files = [path] if path.is_file() else sorted(path.glob("*.safetensors"))
    if (path / _INDEX).is_file():
        places = json.loads((path / _INDEX).read_text())["weight_map"]
        files = [path / name for name in sorted({file for name, file in places.items() if name.startswith(prefix)})]
    if not files:
        raise FileNotFoundError(f"{path} has no safetensors file with tensors whose names begin with {prefix!r}")
    found = {}
    for file in files:
        with safe_open(file, framework="pt") as tensors:
            found |= {name: tensors.get_tensor(name) for name in tensors.keys() if name.startswith(prefix)}  # noqa: SIM118
    return found


def tensors_of(source: Source, prefix: str) -> Mapping[str, torch.Tensor]:
    """A checkpoint's tensors: `source` itself, or those with that prefix of a safetensors file or a model's folder."""
    return source if isinstance(source, Mapping) else _safetensors(source, prefix)


def _number(tensors: Mapping[str, torch.Tensor], name: str) -> torch.Tensor:
    value = tensors[name].float().reshape(-1)
    if value.numel() != 1 or not (value > 0).all():
        raise ValueError(f"{name} is {value.tolist()}; expected one positive number")
    return value.clone()


def read_linear(tensors: Mapping[str, torch.Tensor], name: str) -> QuantizedLinear:
    """The layer `name`, such as model.layers.0.mlp.up_proj, by either convention.

    Raises KeyError for a tensor that is missing and ValueError for one of another format.
    """
    divisors = f"{name}.weight_packed" in tensors or f"{name}.weight" not in tensors
    codes_name = f"{name}.{'weight_packed' if divisors else 'weight'}"
    codes, factors = tensors[codes_name], tensors[f"{name}.weight_scale"]
    if codes.dtype != torch.uint8 or codes.dim() != 2:
        raise ValueError(
            f"{codes_name} has dtype {codes.dtype} and shape {tuple(codes.shape)}; expected uint8 (N, K/2)"
        )
    if factors.element_size() != 1 or factors.shape != (codes.shape[0], codes.shape[1] // 8):
        raise ValueError(
            f"{name}.weight_scale has dtype {factors.dtype} and shape {tuple(factors.shape)}; expected float8_e4m3fn "
            f"{(codes.shape[0], codes.shape[1] // 8)}"
        )
    # A file's tensors may have any alignment; the library needs 16 bytes.
    codes, factors = (tensor.clone(memory_format=torch.contiguous_format) for tensor in (codes, factors))
    if divisors:
        scale = 1 / _number(tensors, f"{name}.weight_global_scale")
        return QuantizedLinear(codes, factors, scale, _number(tensors, f"{name}.input_global_scale"))
    scale = _number(tensors, f"{name}.weight_scale_2")
    return QuantizedLinear(codes, factors, scale, 1 / _number(tensors, f"{name}.input_scale"))


def quantize_linear(weight: torch.Tensor, largest_input: float) -> QuantizedLinear:
    """A float weight (N, K) in NVFP4, for inputs up to that magnitude."""
    scale = (_LARGEST_PRODUCT / weight.float().abs().amax()).reshape(1)
    codes, factors = quantize_nvfp4(weight, scale)
    return QuantizedLinear(codes, factors, 1 / scale, torch.full_like(scale, _LARGEST_PRODUCT / largest_input))


def dequantize(codes: torch.Tensor, factors: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """code * factor * scale in float64, of linear scale factors."""
    values = [sign * one for sign in (1.0, -1.0) for one in _MAGNITUDES]
    table = torch.tensor(values, dtype=torch.float64, device=codes.device)
    nibbles = torch.stack((codes & 15, codes >> 4), -1).flatten(-2).int()
    return table[nibbles] * factors.double().repeat_interleave(16, -1) * scale.double()
