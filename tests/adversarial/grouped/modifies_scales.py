"""Wrong: uses the plain scale factors, which no kernel needs, as scratch space."""

import torch

from examples.submission import custom_kernel as honest_kernel


def custom_kernel(data):
    outputs = honest_kernel(data)
    data[1][-1][1].view(torch.uint8)[-1, -1, 0] ^= 1
    return outputs
