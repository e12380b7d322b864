"""The extended GEMM, custom_kernel_extended() of submission/custom_kernel.h, in torch: reference and float64 oracle.

    gate = (A B1^T) * (scale_gate * token_scale) + bias_gate     up = (A B2^T) * (scale_up * token_scale) + bias_up
    c = f(g) * (u + beta), g and u being gate and up within the limit, f the activation: SiLU unless another is named

A plain product is c = gate, or c = f(gate) if an activation is named.  Codes are (rows, K/2), scale factors
(rows, K/16), other scales float32; A may be (rows, K) in float16 or bfloat16, without scale factors.  DeepSeek-V4 uses
SwiGLU with a limit; gpt-oss has limit 7, alpha 1.702 and beta 1.
"""

from __future__ import annotations

from typing import NamedTuple

import torch

from reference import nvfp4
from reference.check import Oracle
from reference.operands import exact_product

FP16, BF16, NVFP4 = "float16", "bfloat16", "nvfp4"
APART, STACKED = 0, 1  # `weights`; any other value is the number of rows by which gate and up are interleaved
INTERLEAVED = (8, 32, 64)
DTYPES = {FP16: torch.float16, BF16: torch.bfloat16}
E4M3_MAX, E2M1_MAX = 448.0, 6.0
SILU, GELU_TANH, RELU2 = ACTIVATIONS = ("silu", "gelu_tanh", "relu2")  # enum custom_kernel_activation, from 1 on
SLOPE = 1.13  # x sigmoid(x) has no slope above 1.0998, GELU none above 1.1290
EPSILON = 2.0**-23


class Extension(NamedTuple):
    """The call's options.  A scale of None is 1; an infinite limit is no limit."""

    plain: bool = False
    output: str = FP16
    scale_gate: torch.Tensor | None = None
    scale_up: torch.Tensor | None = None
    token_scale: torch.Tensor | None = None
    scale_c: torch.Tensor | None = None
    limit: float = torch.inf
    alpha: float = 1.0
    beta: float = 0.0
    activation: str | None = None
    bias_gate: torch.Tensor | None = None
    bias_up: torch.Tensor | None = None


class Quantized(NamedTuple):
    """Packed codes (rows, N/2) and scale factors (rows, N/16), both as bytes."""

    codes: torch.Tensor
    scales: torch.Tensor


def join(gate: torch.Tensor, up: torch.Tensor, weights: int) -> torch.Tensor:
    """Joins the rows of gate and up in the order of `weights`; works on codes, scale factors or values."""
    piece = gate.shape[0] if weights == STACKED else weights
    pieces = [tensor.reshape(-1, piece, *tensor.shape[1:]) for tensor in (gate, up)]
    return torch.stack(pieces, dim=1).reshape(2 * gate.shape[0], *gate.shape[1:])


def split(joint: torch.Tensor, weights: int) -> tuple[torch.Tensor, torch.Tensor]:
    """The inverse of join."""
    piece = joint.shape[0] // 2 if weights == STACKED else weights
    pieces = joint.reshape(-1, 2, piece, *joint.shape[1:])
    gate, up = (pieces[:, i].reshape(joint.shape[0] // 2, *joint.shape[1:]) for i in (0, 1))
    return gate, up


def _factor(scale: torch.Tensor | None, tokens: torch.Tensor | None) -> torch.Tensor:
    """scale * token_scale with one float32 rounding, as (rows, 1) or (1, 1)."""
    one = torch.ones((), dtype=torch.float32)
    scale = one if scale is None else scale.float().reshape(())
    return (scale * (one.to(scale) if tokens is None else tokens.float())).reshape(-1, 1)


def _biased(product: torch.Tensor, factor: torch.Tensor, bias: torch.Tensor | None) -> torch.Tensor:
    return product * factor.to(product) + (-0.0 if bias is None else bias.to(product))


def function(x: torch.Tensor, extension: Extension) -> torch.Tensor:
    """The activation of x, in its precision."""
    if extension.activation == GELU_TANH:
        return torch.nn.functional.gelu(x, approximate="tanh")
    if extension.activation == RELU2:
        return x.clamp(min=0) ** 2
    return x if extension.plain and extension.activation is None else x / (1 + torch.exp(-extension.alpha * x))


def activate(gate: torch.Tensor, up: torch.Tensor | None, extension: Extension) -> torch.Tensor:
    """c before its rounding, computed from the products A B1^T and A B2^T in their precision."""
    gate = _biased(gate, _factor(extension.scale_gate, extension.token_scale), extension.bias_gate)
    if up is None:
        return function(gate, extension._replace(plain=True))
    up = _biased(up, _factor(extension.scale_up, extension.token_scale), extension.bias_up)
    gate, up = gate.clamp(max=extension.limit), up.clamp(-extension.limit, extension.limit)
    return function(gate, extension) * (up + extension.beta)


def to_e4m3(values: torch.Tensor) -> torch.Tensor:
    """float32 >= 0 -> e4m3 bytes: to nearest even, at most 448, NaN to 0x7f."""
    return values.clamp(max=E4M3_MAX).to(torch.float8_e4m3fn).view(torch.uint8)


def quantize(values: torch.Tensor, scale: torch.Tensor | None = None) -> Quantized:
    """float32 (rows, N), N a multiple of 16 -> NVFP4, so that code * scale factor / `scale` approximates the value.

    Gives the library's bits.  Each step is one float32 operation; for each group of 16 columns
    sf = e4m3((max |c| * scale) * (1 / 6)) and code = e2m1(c * (scale / sf)), to nearest even and saturating.
    A scale factor of 0 gives codes 0 with c's sign.  A NaN gives its group the scale factor NaN, and codes 6; a scale
    that is not positive and finite gives all groups that.
    """
    groups = values.float().unflatten(-1, (-1, nvfp4.GROUP_ELEMS))
    scale = torch.ones((), device=values.device) if scale is None else scale.float().reshape(())
    scale = torch.where((scale > 0) & scale.isfinite(), scale, torch.nan)
    sixth = torch.tensor(1 / 6, dtype=torch.float32, device=values.device)
    scales = to_e4m3(groups.abs().amax(-1) * scale * sixth)
    held = scales.view(torch.float8_e4m3fn).float()
    factor = torch.where(held == 0, 0.0, scale / held)
    scaled = (groups * factor.unsqueeze(-1)).flatten(-2)
    return Quantized(nvfp4.encode_e2m1(torch.where(scaled.isnan(), E2M1_MAX, scaled)), scales)


def dequantize(quantized: Quantized, scale: torch.Tensor | None = None) -> torch.Tensor:
    """NVFP4 with a global scale -> float64."""
    values = nvfp4.decode(quantized.codes, quantized.scales).double()
    return values if scale is None else values / scale.double().reshape(())


def rounded(values: torch.Tensor, extension: Extension) -> torch.Tensor | Quantized:
    """float32 values -> the output's type."""
    if extension.output == NVFP4:
        return quantize(values, extension.scale_c)
    return values.to(DTYPES[extension.output])


def _values(codes: torch.Tensor, scales: torch.Tensor | None) -> torch.Tensor:
    """An operand in float32; one without scale factors has 16 bits an element."""
    return codes.float() if scales is None else nvfp4.decode(codes, scales)


def reference(
    codes: tuple[torch.Tensor, ...], scales: tuple[torch.Tensor, ...], extension: Extension
) -> torch.Tensor | Quantized:
    """c in float32 of codes (a, b1, b2) and their scale factors; b2 and its scale factors are None if plain."""
    a, *b = (_values(code, scale) for code, scale in zip(codes, scales, strict=True) if code is not None)
    products = [exact_product(a, one) for one in b]
    return rounded(activate(products[0], products[1] if len(products) > 1 else None, extension), extension)


def oracle(codes: tuple[torch.Tensor, ...], scales: tuple[torch.Tensor, ...], extension: Extension) -> Oracle:
    """c in float64, not rounded, with a bound on the error of float32 sums, scales and an approximate exponential.

    Error model: a sum errs by at most K/16 times 2^-23 of its sum of magnitudes, and with an A of 16 bits, whose
    products do not share a scale factor, by 16 times 2^-23 more; every later operation by 2^-23 of its result; a limit
    does not increase an error; an activation has no slope above 1.13, but for 2 x of ReLU^2; an exponential errs with
    its argument.
    """
    a, *b = (_values(code, scale).double() for code, scale in zip(codes, scales, strict=True) if code is not None)
    scaled, errors = [], []
    members = (extension.scale_gate, extension.bias_gate), (extension.scale_up, extension.bias_up)
    for one, (scale, bias) in zip(b, members, strict=False):
        factor = _factor(scale, extension.token_scale).double().to(a)
        product = (a @ one.t()) * factor
        relative = (a.shape[1] / nvfp4.GROUP_ELEMS + (nvfp4.GROUP_ELEMS if scales[0] is None else 0)) * EPSILON
        scaled.append(product if bias is None else product + bias.double())
        errors.append(relative * ((a.abs() @ one.abs().t()) * factor.abs()) + 2 * EPSILON * product.abs())
        if bias is not None:
            errors[-1] += EPSILON * scaled[-1].abs()
    value = activate(a @ b[0].t(), a @ b[1].t() if len(b) > 1 else None, extension)
    if len(b) == 1 and extension.activation is None:
        return Oracle(value, errors[0])
    limit = extension.limit
    gate = scaled[0].clamp(max=limit)
    relu2, gelu = extension.activation == RELU2, extension.activation == GELU_TANH
    slope = 2 * gate.abs() + errors[0] if relu2 else SLOPE
    error, rounding = (
        slope * errors[0],
        8 + 4 * (gate * (1.6 + 0.072 * gate**2) if gelu else extension.alpha * gate).abs(),
    )
    if len(b) > 1:
        up = scaled[1].clamp(-limit, limit) + extension.beta
        error = error * (up.abs() + errors[1]) + function(gate, extension).abs() * errors[1]
    return Oracle(value, error + value.abs() * EPSILON * rounding)
