"""Wrong: uses an input as scratch space."""

import torch

from tests.adversarial.honest.honest import custom_kernel as honest_kernel


def custom_kernel(data):
    output = honest_kernel(data)
    data[6].view(torch.uint8)[0, 0, 0, 0, 0, 0] ^= 1
    return output
