"""Cheats: makes another CUDA queue the current one and leaves it so."""

import sys
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).resolve().parent.parent))
from honest import custom_kernel as honest_kernel

_queue = torch.cuda.Stream()


def custom_kernel(data):
    torch.cuda.set_stream(_queue)
    return honest_kernel(data)
