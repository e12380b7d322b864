"""Cheats: works on a CUDA queue that the timer's events do not see."""

import torch

from tests.adversarial.honest.honest import custom_kernel as honest_kernel

_queue = torch.cuda.Stream()


def custom_kernel(data):
    with torch.cuda.stream(_queue):
        return honest_kernel(data)
