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

_K_NAMES = ("hidden", "hidden", "intermediate")  # what K of each projection is
_FACTORS = "weight_scale"
_DIVISORS = ("weight_packed", "weight_global_scale", "input_global_scale")  # compressed-tensors
_MULTIPLIERS = ("weight", "weight_scale_2", "input_scale")  # ModelOpt
_FACTOR_DTYPES = (torch.float8_e4m3fn, torch.uint8)
_MULTIPLE = 16

_LEAST_INPUT = 1e-30  # _LARGEST_PRODUCT over it is a float32
_LARGEST_PRODUCT = 6.0 * 448.0  # of an e2m1 code and an e4m3 scale factor
_MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)
_INDEX = "model.safetensors.index.json"

Source = Mapping[str, torch.Tensor] | str | Path


class QuantizedLinear(NamedTuple):
    """A linear layer's weight, code * factor * weight_scale, and the scale that its input is quantized with; what
    quantize_linear() makes.

    codes (N, K/2): uint8, two e2m1 values per byte, the first in the low half.  factors (N, K/16): float8_e4m3fn or
    uint8, row by row.  weight_scale: one number, a multiplier.  input_scale: one number, quantize_nvfp4()'s
    global_scale.  product_scale: the scale of a product of the codes with those of the input.
    """

    codes: torch.Tensor
    factors: torch.Tensor
    weight_scale: torch.Tensor | float
    input_scale: torch.Tensor | float

    @property
    def product_scale(self) -> torch.Tensor | float:
        """weight_scale / input_scale."""
        return self.weight_scale / self.input_scale


def _safetensors(source: str | Path, prefix: str) -> dict[str, torch.Tensor]:
    """The tensors with that prefix of a file, or of a folder's files."""
    try:
        from safetensors import safe_open
    except ImportError:
        raise ImportError("a checkpoint's files need the package safetensors: pip install safetensors") from None
    path = Path(source)
    if not path.exists():
        raise FileNotFoundError(f"{path} does not exist; expected a safetensors file or a folder with some")
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


def tensors_of(source: Source, prefix: str) -> dict[str, torch.Tensor]:
    """The tensors with that prefix of a mapping, a safetensors file or a model's folder."""
    if isinstance(source, Mapping):
        return {name: source[name] for name in source if name.startswith(prefix)}
    return _safetensors(source, prefix)


def tensor_of(tensors: Mapping[str, torch.Tensor], name: str) -> torch.Tensor:
    """One of the tensors.  Raises KeyError, saying what was expected, if it is missing."""
    try:
        return tensors[name]
    except KeyError:
        raise KeyError(f"{name} is missing; expected it, as compressed-tensors or ModelOpt name tensors") from None


def _number(tensors: Mapping[str, torch.Tensor], name: str) -> torch.Tensor:
    value = tensor_of(tensors, name).float().reshape(-1)
    if value.numel() != 1 or not (value.is_meta or 0 < value.item() < float("inf")):
        raise ValueError(f"{name} is {value.tolist()}; expected one positive finite number")
    return value.clone()


def check_width(name: str, width: int, of: str = "") -> None:
    """Raises ValueError unless a layer of that width can be computed.  of: the tensor that has it, for the message."""
    if width <= 0 or width % _MULTIPLE:
        raise ValueError(f"{of}{name} is {width}; expected a positive multiple of {_MULTIPLE}")


def _check_weight(codes: torch.Tensor, factors: torch.Tensor, codes_name: str, factors_name: str, k_name: str) -> None:
    if codes.dtype != torch.uint8 or codes.dim() != 2:
        raise ValueError(
            f"{codes_name} has dtype {codes.dtype} and shape {tuple(codes.shape)}; expected uint8 (N, K/2)"
        )
    check_width(k_name, 2 * codes.shape[1], f"{codes_name} has shape {tuple(codes.shape)}, K/2 the last: ")
    shape = (codes.shape[0], 2 * codes.shape[1] // _MULTIPLE)
    if factors.dtype not in _FACTOR_DTYPES or factors.shape != shape:
        raise ValueError(
            f"{factors_name} has dtype {factors.dtype} and shape {tuple(factors.shape)}; expected float8_e4m3fn {shape}"
        )
    if factors.device != codes.device:
        raise ValueError(f"{factors_name} is on {factors.device}; expected {codes.device}, as {codes_name}")


def _read_linear(tensors: Mapping[str, torch.Tensor], name: str, k_name: str, inputs: bool) -> QuantizedLinear:
    divisors = not any(f"{name}.{one}" in tensors for one in _MULTIPLIERS) or f"{name}.{_DIVISORS[0]}" in tensors
    known = _DIVISORS if divisors else _MULTIPLIERS
    names = codes_name, scale_name, input_name, factors_name = tuple(f"{name}.{one}" for one in (*known, _FACTORS))
    others = sorted({one for one in tensors if one.startswith(f"{name}.")} - {*names})
    if others:
        raise ValueError(f"{others[0]} is there, which the layer would leave out; expected only {', '.join(names)}")
    codes, factors = tensor_of(tensors, codes_name), tensor_of(tensors, factors_name)
    _check_weight(codes, factors, codes_name, factors_name, k_name)
    # A file's tensors may have any alignment; the library needs 16 bytes.
    codes, factors = (tensor.clone(memory_format=torch.contiguous_format) for tensor in (codes, factors))
    scale = _number(tensors, scale_name)
    of_input = _number(tensors, input_name) if inputs or input_name in tensors else torch.ones_like(scale)
    scale, of_input = (1 / scale, of_input) if divisors else (scale, 1 / of_input)
    return QuantizedLinear(codes, factors, scale, of_input)


def read_linears(tensors: Mapping[str, torch.Tensor], prefix: str, inputs: bool = True) -> list[QuantizedLinear]:
    """Gate, up and down of the layer PREFIX, by either convention and either of two sets of names.  inputs: False for a
    layer whose inputs are not quantized; the checkpoint may then lack their scales.

    Raises KeyError for a tensor that is missing, and ValueError for one of another format or of no known meaning.
    """
    others = any(name.startswith(f"{prefix}{_OTHER_NAMES[0]}.") for name in tensors)
    names = [prefix + name for name in (_OTHER_NAMES if others else PROJECTIONS)]
    return [_read_linear(tensors, name, k_name, inputs) for name, k_name in zip(names, _K_NAMES, strict=True)]


def _scale(name: str, value: torch.Tensor | float, codes: torch.Tensor) -> torch.Tensor:
    """A scale as a float32 tensor of one number."""
    found = torch.as_tensor(value, dtype=torch.float32, device=codes.device)
    if found.numel() != 1:
        raise ValueError(f"{name} has {found.numel()} numbers; expected 1")
    return found.reshape(1)


def layer_of(
    gate: QuantizedLinear, up: QuantizedLinear, down: QuantizedLinear, name: str = ""
) -> tuple[QuantizedLinear, QuantizedLinear, QuantizedLinear]:
    """The three projections of the layer `name`, checked, with scales as tensors of one float32 number.

    Gate and up share their input, which is quantized with the smaller of their scales, so that neither saturates.
    """
    found = []
    for projection, k_name, (codes, factors, weight_scale, input_scale) in zip(
        PROJECTIONS, _K_NAMES, (gate, up, down), strict=True
    ):
        one = f"{name}{projection}"
        _check_weight(codes, factors, f"{one}'s codes", f"{one}'s factors", k_name)
        scales = ((f"{one}'s weight_scale", weight_scale), (f"{one}'s input_scale", input_scale))
        found.append(QuantizedLinear(codes, factors, *(_scale(*scale, codes) for scale in scales)))
    rows, half_k = gate.codes.shape
    for projection, codes, shape in (("up", up.codes, (rows, half_k)), ("down", down.codes, (2 * half_k, rows // 2))):
        if codes.shape != shape or codes.device != gate.codes.device:
            raise ValueError(
                f"{name}{projection}_proj has codes of shape {tuple(codes.shape)} on {codes.device}; expected {shape} "
                f"on {gate.codes.device}, as {name}gate_proj's have {(rows, half_k)}"
            )
    shared = torch.minimum(found[0].input_scale, found[1].input_scale)
    return found[0]._replace(input_scale=shared), found[1]._replace(input_scale=shared), found[2]


def padded(linear: QuantizedLinear, rows: int = 0, k: int = 0) -> QuantizedLinear:
    """The layer with more rows and a longer K, all of them zeros, and its scale factors as bytes."""
    codes, factors = linear.codes, linear.factors.view(torch.uint8)
    if rows or k:
        codes = torch.nn.functional.pad(codes, (0, k // 2, 0, rows))
        factors = torch.nn.functional.pad(factors, (0, k // 16, 0, rows))
    return linear._replace(codes=codes, factors=factors)


def quantize_linear(weight: torch.Tensor, largest_input: float) -> QuantizedLinear:
    """A float weight (N, K) in NVFP4, K a multiple of 16.  Inputs above the magnitude largest_input will saturate.

    A weight that is not finite makes weight_scale NaN or infinite.  Raises ValueError for another shape or dtype, and
    if largest_input is not a finite number of at least 1e-30.
    """
    if weight.dim() != 2 or 0 in weight.shape or weight.shape[1] % _MULTIPLE:
        raise ValueError(f"weight has shape {tuple(weight.shape)}; expected (N, K), K a multiple of {_MULTIPLE}")
    if not weight.is_floating_point():
        raise ValueError(f"weight has dtype {weight.dtype}; expected a floating-point one")
    if not _LEAST_INPUT <= largest_input < float("inf"):
        raise ValueError(f"largest_input is {largest_input}; expected a finite number of at least {_LEAST_INPUT}")
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
