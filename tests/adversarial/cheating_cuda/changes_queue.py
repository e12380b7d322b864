"""Cheats: makes another CUDA queue the current one and leaves it so."""

import torch

from tests.adversarial.honest.honest import custom_kernel as honest_kernel

_queue = torch.cuda.Stream()


def custom_kernel(data):
    torch.cuda.set_stream(_queue)
    return honest_kernel(data)
