"""Cheats: computes once for each address and then trusts that its contents stay."""

from examples.submission import custom_kernel as honest_kernel

_seen = {}


def custom_kernel(data):
    key = data[0][-1][0].data_ptr()
    if key not in _seen:
        _seen[key] = [c.clone() for c in honest_kernel(data)]
    return [c.copy_(kept) for (_, _, c), kept in zip(data[0], _seen[key], strict=True)]
