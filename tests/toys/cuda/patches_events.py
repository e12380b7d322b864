"""Cheats: makes CUDA events report a tenth of the time."""

import sys
from pathlib import Path

import torch

sys.path.append(str(Path(__file__).resolve().parent.parent))
from honest import custom_kernel  # noqa: F401

_real = torch.cuda.Event.elapsed_time
torch.cuda.Event.elapsed_time = lambda start, end: _real(start, end) / 10
