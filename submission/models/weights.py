"""A linear layer's weight in NVFP4: its checks, and NVFP4 from and to numbers."""

from __future__ import annotations

from collections.abc import Sequence
from typing import NamedTuple

import torch
from torch._subclasses import FakeTensor

from ..operators import STACKED
from ..quantize_operator import quantize_nvfp4

CALIBRATED, TOKEN = SCALES = ("calibrated", "token")  # of a layer's inputs

GROUP = 16  # elements of K that share a scale factor
K_MULTIPLE = 64  # calls copy nothing where K is a multiple of it

_CODE_DTYPES = (torch.uint8, torch.float4_e2m1fn_x2)
_FACTOR_DTYPES = (torch.float8_e4m3fn, torch.uint8)
_E4M3_NAN, _E4M3_MINUS_ZERO = 0x7F, 0x80  # the former without its sign
_LEAST_INPUT = 1e-30  # _LARGEST_PRODUCT over it is a float32
_LARGEST_PRODUCT = 6.0 * 448.0  # of an e2m1 code and an e4m3 scale factor
_LEAST_SCALE = torch.finfo(torch.float32).tiny  # its reciprocal is finite, and that of a reciprocal
_INTERLEAVED = "interleaved"
_MAGNITUDES = (0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0)


class QuantizedLinear(NamedTuple):
    """A linear layer's weight, code * factor * weight_scale, and the scale that its input is quantized with; what
    quantize_linear() makes.

    codes (N, K/2): uint8 or float4_e2m1fn_x2, two e2m1 values per byte, the first in the low half.  factors
    (N, ceil(K/16)): float8_e4m3fn or uint8, row by row.  weight_scale: one number, a multiplier.  input_scale: one
    number, quantize_nvfp4()'s global_scale; None for inputs that are not quantized, or by scales of their own.
    """

    codes: torch.Tensor
    factors: torch.Tensor
    weight_scale: torch.Tensor | float
    input_scale: torch.Tensor | float | None = None


def _check_tensor(name: str, value: object) -> None:
    if not isinstance(value, torch.Tensor):
        raise TypeError(f"{name} is a {type(value).__name__}; expected a torch.Tensor")


def check_width(name: str, width: int, of: str = "") -> None:
    """Raises ValueError unless a layer of that width can be computed.  of: the tensor that has it, for the message."""
    if width <= 0 or width % 2:
        raise ValueError(f"{of}{name} is {width}; expected a positive even number")


def _has_numbers(tensor: torch.Tensor) -> bool:
    return not (tensor.is_meta or isinstance(tensor, FakeTensor))


def _is_scale(tensor: torch.Tensor) -> bool:
    """True if the numbers and their reciprocals are normal ones of float32, or if there is none to look at."""
    return not _has_numbers(tensor) or bool(((tensor >= _LEAST_SCALE) & (tensor <= 1 / _LEAST_SCALE)).all())


def number_of(name: str, value: torch.Tensor | float, device: torch.device) -> torch.Tensor:
    """A scale as a float32 tensor of one number in memory of its own.  Raises ValueError for another one."""
    found = torch.as_tensor(value, dtype=torch.float32, device=device).detach().reshape(-1).clone()
    if found.numel() != 1 or not _is_scale(found):
        shown = found.tolist() if found.numel() < 5 else f"{found.numel()} numbers"
        raise ValueError(f"{name} is {shown}; expected one positive finite number with such a reciprocal")
    return found


def product_scale(linear: QuantizedLinear, names: Sequence[str]) -> torch.Tensor:
    """The scale of a product of the codes with those of the input, or those of all experts.  names: those of the two
    scales.
    """
    found = linear.weight_scale / linear.input_scale
    if not _is_scale(found):
        shown = ", ".join(map(str, found.tolist()))
        raise ValueError(f"{names[0]} and {names[1]} give products the scale {shown}; expected positive finite numbers")
    return found


def check_factors(factors: torch.Tensor, name: str) -> None:
    """Raises ValueError if there is a NaN among the scale factors, or a negative one, whose sign the kernels ignore."""
    bits = factors.view(torch.uint8)
    if not _has_numbers(bits):
        return
    if (bits & _E4M3_NAN == _E4M3_NAN).any():
        raise ValueError(f"{name} has NaN among its scale factors; expected numbers")
    if (bits > _E4M3_MINUS_ZERO).any():
        raise ValueError(f"{name} has negative numbers among its scale factors; expected positive ones")


def check_codes(codes: torch.Tensor, name: str, k_name: str) -> None:
    """Raises ValueError unless these can be a weight's codes."""
    shape = tuple(codes.shape)
    if codes.dtype not in _CODE_DTYPES or len(shape) != 2:
        floats = codes.dtype.is_floating_point and codes.dtype.itemsize > 1
        hint = ": these are not quantized, which quantize_linear() does" if floats else ""
        raise ValueError(f"{name} has dtype {codes.dtype} and shape {shape}; expected uint8 (N, K/2){hint}")
    if shape[0] == 0:
        raise ValueError(f"{name} has shape {shape}; expected at least one row")
    check_width(k_name, 2 * shape[1], f"{name} has shape {shape}, K/2 the last: ")


def checked(linear: QuantizedLinear, names: Sequence[str], k_name: str = "K") -> QuantizedLinear:
    """The layer with codes and factors as bytes and scales as tensors of one float32 number.

    names: what the four tensors, and k_name: what K is called in messages.  Raises ValueError for a tensor of another
    format, and for scales that are not finite or whose reciprocals or product are not.
    """
    codes, factors, weight_scale, input_scale = linear
    _check_tensor(names[0], codes)
    _check_tensor(names[1], factors)
    check_codes(codes, names[0], k_name)
    shape = (codes.shape[0], -(-2 * codes.shape[1] // GROUP))
    if factors.dtype not in _FACTOR_DTYPES or factors.shape != shape:
        raise ValueError(
            f"{names[1]} has dtype {factors.dtype} and shape {tuple(factors.shape)}; expected float8_e4m3fn {shape}"
        )
    if factors.device != codes.device:
        raise ValueError(f"{names[1]} is on {factors.device}; expected {codes.device}, as {names[0]}")
    scale = number_of(names[2], weight_scale, codes.device)
    found = QuantizedLinear(codes.view(torch.uint8), factors.view(torch.uint8), scale)
    if input_scale is None:
        return found
    found = found._replace(input_scale=number_of(names[3], input_scale, codes.device))
    product_scale(found, names[2:])
    return found


def named(linear: QuantizedLinear, name: str, k_name: str) -> QuantizedLinear:
    """checked(), whose messages call the layer `name`."""
    return checked(linear, [f"{name}'s {field}" for field in QuantizedLinear._fields], k_name)


def padded(linear: QuantizedLinear, rows: int = 1) -> QuantizedLinear:
    """The layer with zeros, so that its rows are a multiple of `rows`, and K of 64."""
    n, half_k = linear.codes.shape
    groups = linear.factors.shape[1]
    more = -n % rows
    of_codes, of_factors = (0, -half_k % (K_MULTIPLE // 2), 0, more), (0, -groups % (K_MULTIPLE // GROUP), 0, more)
    if not any((*of_codes, *of_factors)):
        return linear
    pad = torch.nn.functional.pad
    return linear._replace(codes=pad(linear.codes, of_codes), factors=pad(linear.factors, of_factors))


def takes_input_scale(quantize: bool = True, scale: str = CALIBRATED, **_: object) -> bool:
    """True if a layer with these options needs the scale of its input.  Raises ValueError for another scale."""
    if scale not in SCALES:
        raise ValueError(f"scale is {scale!r}; expected one of {', '.join(map(repr, SCALES))}")
    return quantize and scale == CALIBRATED


def rows_in_two(both: torch.Tensor, weights: str, name: str) -> tuple[torch.Tensor, torch.Tensor]:
    """Gate's and up's rows of a tensor `name`, whose order `weights` is: "stacked", or "interleaved1" and so on, that
    many of each in turn.
    """
    rows = both.shape[0]
    kind, _, number = weights.partition(_INTERLEAVED)
    block = rows // 2 if weights == STACKED else int(number) if not kind and number.isdecimal() else 0
    if not block or rows % (2 * block):
        raise ValueError(
            f"{name} has {rows} rows with weights {weights!r}; expected {STACKED!r} and an even number, or "
            f"'{_INTERLEAVED}N' and a multiple of 2 N"
        )
    gate, up = both.unflatten(0, (-1, 2, block)).unbind(1)
    return gate.flatten(0, 1), up.flatten(0, 1)


def in_two(linear: QuantizedLinear, weights: str, name: str) -> tuple[QuantizedLinear, QuantizedLinear]:
    """Gate and up of one weight, as rows_in_two().  Both keep its scales."""
    parts = zip(*(rows_in_two(one, weights, name) for one in linear[:2]), strict=True)
    gate, up = (linear._replace(codes=codes, factors=factors) for codes, factors in parts)
    return gate, up


def bias_of(bias: torch.Tensor | None, rows: int, name: str, padded_rows: int = 0) -> torch.Tensor | None:
    """The bias of the layer `name` in float32 and in memory of its own, with zeros up to padded_rows.

    Raises ValueError for another shape or dtype.
    """
    if bias is None:
        return None
    _check_tensor(f"{name}'s bias", bias)
    if bias.shape != (rows,) or not bias.is_floating_point():
        raise ValueError(
            f"{name}'s bias has dtype {bias.dtype} and shape {tuple(bias.shape)}; expected floating-point {(rows,)}"
        )
    return torch.nn.functional.pad(bias.detach().float(), (0, max(padded_rows - rows, 0))).clone()


def quantize_linear(weight: torch.Tensor, largest_input: float | None = None) -> QuantizedLinear:
    """A float weight (N, K) in NVFP4, K even.  Inputs above the magnitude largest_input will saturate; None: for inputs
    that are not quantized, or by scales of their own.

    A weight that is not finite makes weight_scale NaN or infinite, which modules refuse.  Raises ValueError for another
    shape or dtype, and if largest_input is not a finite number of at least 1e-30.
    """
    _check_tensor("weight", weight)
    if weight.dim() != 2 or 0 in weight.shape or weight.shape[1] % 2:
        raise ValueError(f"weight has shape {tuple(weight.shape)}; expected (N, K), K even")
    if not weight.is_floating_point():
        raise ValueError(f"weight has dtype {weight.dtype}; expected a floating-point one")
    if largest_input is not None and not _LEAST_INPUT <= largest_input < float("inf"):
        raise ValueError(f"largest_input is {largest_input}; expected a finite number of at least {_LEAST_INPUT}")
    k = weight.shape[1]
    weight = torch.nn.functional.pad(weight.detach().float(), (0, -k % GROUP)).contiguous()
    scale = (_LARGEST_PRODUCT / weight.abs().amax()).clamp(max=2.0**64).reshape(1)  # finite for weights of zeros
    codes, factors = quantize_nvfp4(weight, scale)
    inputs = None if largest_input is None else torch.full_like(scale, _LARGEST_PRODUCT / largest_input)
    return QuantizedLinear(codes[:, : k // 2], factors, 1 / scale, inputs)


def dequantize(codes: torch.Tensor, factors: torch.Tensor, scale: torch.Tensor) -> torch.Tensor:
    """code * factor * scale in float64, of linear scale factors."""
    values = [sign * one for sign in (1.0, -1.0) for one in _MAGNITUDES]
    table = torch.tensor(values, dtype=torch.float64, device=codes.device)
    nibbles = torch.stack((codes & 15, codes >> 4), -1).flatten(-2).int()
    numbers = factors.view(torch.float8_e4m3fn).double().repeat_interleave(GROUP, -1)
    return table[nibbles] * numbers[..., : nibbles.shape[-1]] * scale.double()
