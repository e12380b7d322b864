"""Cheats: makes CUDA events report a tenth of the time."""

import torch

from tests.adversarial.honest.honest import custom_kernel  # noqa: F401

_real = torch.cuda.Event.elapsed_time
torch.cuda.Event.elapsed_time = lambda start, end: _real(start, end) / 10
