"""Right: the grouped GEMM by the reference's arithmetic. The other submissions here spoil this one."""

import torch

MAGNITUDES = torch.tensor([0.0, 0.5, 1.0, 1.5, 2.0, 3.0, 4.0, 6.0])
CODES = torch.cat((MAGNITUDES, -MAGNITUDES))


def dequantize(codes, scales):
    packed = codes[..., 0].view(torch.uint8).int()
    values = CODES.to(codes.device)[torch.stack((packed & 15, packed >> 4), -1)].flatten(-2)
    return values * scales[..., 0].to(codes.device).float().abs().repeat_interleave(16, -1)


def custom_kernel(data):
    for (a, b, c), (sfa, sfb) in zip(data[0], data[1], strict=True):
        c[..., 0] = (dequantize(a, sfa) @ dequantize(b, sfb).t()).half()
    return [c for _, _, c in data[0]]
