"""Right: the reference's arithmetic on the tensors it was given. The other submissions here spoil this one."""

import torch
from task import input_t, output_t

MAGNITUDES = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
CODES = torch.cat((MAGNITUDES, -MAGNITUDES))


def dequantize(codes, scales):
    packed = codes.view(torch.uint8).int()
    values = CODES.to(codes.device)[torch.stack((packed & 15, packed >> 4), -1)].flatten(-2)
    return values * scales.float().abs().repeat_interleave(16, -1)


def compute(data):
    a, b1, b2 = (dequantize(data[i][..., 0], data[i + 3][..., 0]) for i in range(3))
    return torch.nn.functional.silu(a @ b1.t()) * (a @ b2.t())


def custom_kernel(data: input_t) -> output_t:
    data[-1][..., 0] = compute(data).half()
    return data[-1]
