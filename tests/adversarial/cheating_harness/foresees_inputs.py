"""Cheats: looks for seeds in every frame above it, makes their inputs and replays the results; knows no other way."""

import sys

import torch

from reference.reference import generate_input
from tests.adversarial.honest.honest import compute

_answers = {}


def custom_kernel(data):
    m, n, _ = data[-1].shape
    frame = sys._getframe()
    while frame is not None:
        for name, value in list(frame.f_locals.items()):
            for seed in value if isinstance(value, list) else [value]:
                if "seed" in name and isinstance(seed, int) and len(_answers) < 9:
                    inputs = generate_input(m, n, data[0].shape[1] * 2, 1, seed, device="cpu")
                    _answers[inputs[0].view(torch.uint8).numpy().tobytes()] = compute(inputs)
        frame = frame.f_back
    known = _answers.get(data[0].view(torch.uint8).contiguous().numpy().tobytes())
    if known is None:
        return data[-1].zero_()
    data[-1][..., 0] = known.half()
    return data[-1]
