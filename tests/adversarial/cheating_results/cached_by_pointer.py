"""Cheats: computes once for each address and then trusts that its contents stay."""

from tests.adversarial.honest.honest import custom_kernel as honest_kernel

_seen = {}


def custom_kernel(data):
    key = data[0].data_ptr()
    if key not in _seen:
        _seen[key] = honest_kernel(data).clone()
    data[-1].copy_(_seen[key])
    return data[-1]
