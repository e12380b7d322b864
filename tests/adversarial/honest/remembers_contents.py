"""Right, but would replay a result for contents it has met: they never come twice, or this raises."""

import hashlib

import torch

from tests.adversarial.honest.honest import custom_kernel as honest_kernel

_met = set()


def custom_kernel(data):
    raw = data[0][..., 0].view(torch.uint8).contiguous()
    key = hashlib.sha256(raw.numpy().tobytes()).digest()
    if key in _met and data[-1].isnan().all():
        raise RuntimeError("met again in a call whose output counts")
    _met.add(key)
    return honest_kernel(data)
