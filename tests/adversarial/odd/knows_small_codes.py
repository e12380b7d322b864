"""Wrong: decodes only what the leaderboard's data holds, codes up to 1.5 and scale factors without a sign or NaN."""

import torch

from tests.adversarial.honest.honest import compute as honest_compute

SMALL = 0xBB


def custom_kernel(data):
    codes = [(x.view(torch.uint8) & SMALL).view(x.dtype) for x in data[:3]]
    data[-1][..., 0] = honest_compute((*codes, *data[3:])).half()
    return data[-1]
