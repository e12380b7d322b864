"""Wrong: returns memory of an input."""

import torch

from tests.adversarial.honest.honest import compute


def custom_kernel(data):
    m, n, _ = data[-1].shape
    flat = data[0].view(torch.uint8)[..., 0].view(torch.float16).flatten()[: m * n]
    flat.copy_(compute(data).half().flatten())
    return flat.view(1, m, n).permute(1, 2, 0)
