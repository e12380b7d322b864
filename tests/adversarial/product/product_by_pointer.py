"""Cheats: computes once for each address and then trusts that its contents stay."""

from examples.submission import custom_kernel as honest_kernel

_seen = {}


def custom_kernel(data):
    key, c = data[0].data_ptr(), data[-1]
    if key not in _seen:
        _seen[key] = honest_kernel(data).clone()
    return c.copy_(_seen[key])
