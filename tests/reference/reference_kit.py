"""Inputs for tests of the reference: written by hand, or with one scale factor changed."""

from __future__ import annotations

import torch

from reference import nvfp4
from reference.reference import generate_input

ONE = 0x38  # e4m3: 1.0
NAN = nvfp4.SCALE_NAN


def cpu_input(m, n, k, l=1, seed=1111, full=False):  # noqa: E741
    return generate_input(m, n, k, l, seed, full, device="cpu")


def by_hand(rows: dict[str, list[float]], scales: dict[str, int], m=1, n=1, k=64, batches=1):
    """The seven tensors: each row of a, b1 and b2 starts with the given values and continues with zeros."""
    data = []
    for name, count in (("a", m), ("b1", n), ("b2", n)):
        values = torch.zeros(batches, count, k)
        values[..., : len(rows[name])] = torch.tensor(rows[name])
        data.append(nvfp4.encode_e2m1(values).view(torch.float4_e2m1fn_x2).permute(1, 2, 0))
    for name, count in (("a", m), ("b1", n), ("b2", n)):
        factors = torch.full((batches, count, k // 16), scales.get(name, ONE), dtype=torch.uint8)
        data.append(factors.view(torch.float8_e4m3fn).permute(1, 2, 0))
    return (*data, torch.empty(batches, m, n, dtype=torch.float16).permute(1, 2, 0))


def with_scale(data, index, where, byte):
    """The ten tensors with one scale factor changed, in both the plain and the permuted tensor."""
    changed = list(data)
    scales = nvfp4.as_bytes(data[index]).clone()
    scales[where] = byte
    changed[index] = scales.view(torch.float8_e4m3fn)
    changed[index + 3] = nvfp4.to_blocked(changed[index])
    return tuple(changed)
