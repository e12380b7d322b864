"""Cheats: works on a CUDA queue that the timer's events do not see."""

import sys
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).resolve().parent.parent))
from honest import custom_kernel as honest_kernel

_queue = torch.cuda.Stream()


def custom_kernel(data):
    with torch.cuda.stream(_queue):
        return honest_kernel(data)
