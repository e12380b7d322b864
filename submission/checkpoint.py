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

PROJECTIONS = ("gate_proj", "up_proj", "down_proj")
_OTHER_NAMES = ("w1", "w3", "w2")  # Mixtral's

_LARGEST_PRODUCT = 6.0 * 448.0  # of an e2m1 code and an e4m3 scale factor
_MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
_INDEX = "model.safetensors.index.json"

Source = Mapping[str, torch.Tensor] | str | Path


class QuantizedLinear(NamedTuple):
    """A linear layer's weight, code * factor * weight_scale, and the scale that its input is quantized with; what
    quantize_linear() makes.
    """

    codes: torch.Tensor  # (N, K/2) uint8
    factors: torch.Tensor  # (N, K/16) float8_e4m3fn or uint8
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


def tensor_of(tensors: Mapping[str, torch.Tensor], name: str) -> torch.Tensor:
    """One of the tensors.  Raises KeyError, saying what was expected, if it is missing."""
    try:
        return tensors[name]
    except KeyError:
        raise KeyError(f"{name} is missing; expected it, as compressed-tensors or ModelOpt name tensors") from None


def projections_of(tensors: Mapping[str, torch.Tensor], prefix: str) -> list[str]:
    """The names of gate, up and down of a layer, by either of two conventions."""
    others = any(name.startswith(f"{prefix}{_OTHER_NAMES[0]}.") for name in tensors)
    return [prefix + name for name in (_OTHER_NAMES if others else PROJECTIONS)]


def _number(tensors: Mapping[str, torch.Tensor], name: str) -> torch.Tensor:
    value = tensor_of(tensors, name).float().reshape(-1)
    if value.numel() != 1 or not (value > 0).all():
        raise ValueError(f"{name} is {value.tolist()}; expected one positive number")
    return value.clone()


def read_linear(tensors: Mapping[str, torch.Tensor], name: str, inputs: bool = True) -> QuantizedLinear:
    """The layer `name`, such as model.layers.0.mlp.up_proj, by either convention.  inputs: False for a layer whose
    inputs are not quantized; the checkpoint may then lack their scale.

    Raises KeyError for a tensor that is missing and ValueError for one of another format.
    """
    divisors = f"{name}.weight_packed" in tensors or f"{name}.weight" not in tensors
    codes_name = f"{name}.{'weight_packed' if divisors else 'weight'}"
    codes, factors = tensor_of(tensors, codes_name), tensor_of(tensors, f"{name}.weight_scale")
    if codes.dtype != torch.uint8 or codes.dim() != 2:
        raise ValueError(
            f"{codes_name} has dtype {codes.dtype} and shape {tuple(codes.shape)}; expected uint8 (N, K/2)"
        )
    if factors.element_size() != 1 or factors.shape != (codes.shape[0], codes.shape[1] // 8) or codes.shape[1] % 8:
        raise ValueError(
            f"{name}.weight_scale has dtype {factors.dtype} and shape {tuple(factors.shape)}; expected float8_e4m3fn "
            f"{(codes.shape[0], codes.shape[1] // 8)}"
        )
    # A file's tensors may have any alignment; the library needs 16 bytes.
    codes, factors = (tensor.clone(memory_format=torch.contiguous_format) for tensor in (codes, factors))
    input_name = f"{name}.{'input_global_scale' if divisors else 'input_scale'}"
    scale = _number(tensors, f"{name}.{'weight_global_scale' if divisors else 'weight_scale_2'}")
    of_input = _number(tensors, input_name) if inputs or input_name in tensors else torch.ones_like(scale)
    scale, of_input = (1 / scale, of_input) if divisors else (scale, 1 / of_input)
    return QuantizedLinear(codes, factors, scale, of_input)


def padded(linear: QuantizedLinear, rows: int = 0, k: int = 0) -> QuantizedLinear:
    """The layer with more rows and a longer K, all of them zeros, and its scale factors as bytes."""
    codes, factors = linear.codes, linear.factors.view(torch.uint8)
    if rows or k:
        codes = torch.nn.functional.pad(codes, (0, k // 2, 0, rows))
        factors = torch.nn.functional.pad(factors, (0, k // 16, 0, rows))
    return linear._replace(codes=codes, factors=factors)


def quantize_linear(weight: torch.Tensor, largest_input: float) -> QuantizedLinear:
    """A float weight (N, K) in NVFP4, K a multiple of 16.  Inputs above the magnitude largest_input will saturate."""
    if weight.dim() != 2 or weight.shape[1] % 16:
        raise ValueError(f"weight has shape {tuple(weight.shape)}; expected (N, K), K a multiple of 16")
    if not 0 < largest_input < float("inf"):
        raise ValueError(f"largest_input is {largest_input}; expected a positive finite number")
    weight = weight.detach().float()
    scale = (_LARGEST_PRODUCT / weight.abs().amax()).clamp(max=2.0**64).reshape(1)  # finite for weights of zeros
    codes, factors = quantize_nvfp4(weight, scale)
    return QuantizedLinear(codes, factors, 1 / scale, torch.full_like(scale, _LARGEST_PRODUCT / largest_input))


def dequantize(codes: torch.Tensor, factors: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """code * factor * scale in float64, of linear scale factors."""
    values = [sign * one for sign in (1.0, -1.0) for one in _MAGNITUDES]
    table = torch.tensor(values, dtype=torch.float64, device=codes.device)
    nibbles = torch.stack((codes & 15, codes >> 4), -1).flatten(-2).int()
    return table[nibbles] * factors.view(torch.float8_e4m3fn).double().repeat_interleave(16, -1) * scale.double()
