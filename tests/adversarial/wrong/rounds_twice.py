"""Wrong: rounds both products to fp16 before SiLU."""

import torch

from tests.adversarial.honest.honest import dequantize


def custom_kernel(data):
    a, b1, b2 = (dequantize(data[i][..., 0], data[i + 3][..., 0]) for i in range(3))
    gate, up = (a @ b1.t()).half().float(), (a @ b2.t()).half().float()
    data[-1][..., 0] = (torch.nn.functional.silu(gate).half() * up.half()).half()
    return data[-1]
