"""Layers of small checkpoints by both conventions of names, and their outputs in float64 by the reference."""

from __future__ import annotations

import torch

from reference import extended_reference as extended

HIDDEN, INTERMEDIATE = 128, 192
PREFIX = "model.layers.0.mlp."
PROJECTIONS = ("gate_proj", "up_proj", "down_proj")
OF_INPUT, OF_BETWEEN = 512.0, 256.0  # global scales of activations; their reciprocals are exact
OF_QUANTIZATION = 0.25  # relative error of NVFP4 in values of the normal distribution, with a wide margin
OF_KERNELS = 0.005  # bfloat16 has 2^-9 at most, some 0.0017 in the mean


def tensors_of(seed, convention, prefix=PREFIX, intermediate=INTERMEDIATE):
    """A layer's tensors with a convention's names, and its weights in float64."""
    generator = torch.Generator().manual_seed(seed)
    tensors, weights = {}, {}
    for name in PROJECTIONS:
        shape = (HIDDEN, intermediate) if name == "down_proj" else (intermediate, HIDDEN)
        weight = torch.randn(shape, generator=generator) * shape[1] ** -0.5
        scale = torch.tensor([6 * 448.0]) / weight.abs().amax()
        quantized = extended.quantize(weight, scale)
        weights[name] = extended.dequantize(quantized, scale)
        inputs = torch.tensor([OF_BETWEEN if name == "down_proj" else OF_INPUT])
        codes, factors = quantized.codes, quantized.scales.view(torch.float8_e4m3fn)
        if convention == "modelopt":
            found = {
                "weight": codes,
                "weight_scale_2": (1 / scale).reshape(()),
                "input_scale": (1 / inputs).reshape(()),
            }
        else:
            found = {"weight_packed": codes, "weight_global_scale": scale, "input_global_scale": inputs}
        tensors |= {f"{prefix}{name}.{key}": value for key, value in (found | {"weight_scale": factors}).items()}
    return tensors, weights


def by_reference(x, scale):
    """x quantized to NVFP4, in float64."""
    return extended.dequantize(extended.quantize(x.float().flatten(0, -2), scale), scale).view(x.shape)


ACTIVATIONS = {
    "silu": lambda x: x / (1 + torch.exp(-x)),
    "gelu_tanh": lambda x: 0.5 * x * (1 + torch.tanh((2 / torch.pi) ** 0.5 * (x + 0.044715 * x**3))),
    "relu2": lambda x: x.clamp(min=0) ** 2,
}


def in_float64(weights, x, limit=0.0, quantized=False, activation="silu", biases=(0, 0, 0)):
    """The layer; `quantized`: with the activations that the checkpoint's scales give."""
    x = by_reference(x, torch.tensor([OF_INPUT])) if quantized else x.double()
    gate, up = x @ weights["gate_proj"].T + biases[0], x @ weights["up_proj"].T + biases[1]
    if limit:
        gate, up = gate.clamp(max=limit), up.clamp(-limit, limit)
    between = ACTIVATIONS[activation](gate) * up
    between = by_reference(between, torch.tensor([OF_BETWEEN])) if quantized else between
    return between @ weights["down_proj"].T + biases[2]


def relative(found, want):
    return float((found.double() - want).norm() / want.norm())
